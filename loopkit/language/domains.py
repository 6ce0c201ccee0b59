"""The domains of a kernel: isl's notation with the parameters left out, and the instance sets made of them."""
from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce

from pymbolic.typing import Expression

from loopkit.expr.tokens import Source
from loopkit.language import names
from loopkit.language.domain_check import find_fault, free_names
from loopkit.poly.domains import AnySet, constrained, restricted, unbounded_iname
from loopkit.poly.sets import InstanceSet

_SHAPE = re.compile(r"\s*(?:\[(?P<params>[^\[\]{}]*)\]\s*->\s*)?\{(?P<body>[^{}]*)\}\s*", re.DOTALL)
_TUPLE = re.compile(r"\s*\[(?P<dims>[^\[\]]*)\]\s*(?P<colon>:)?")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True)
class Domain:
    """One domain of the text.

    :ivar start: its position in its source.
    """

    points: InstanceSet
    start: int

    @property
    def inames(self) -> tuple[str, ...]:
        return self.points.inames


# {{{ reading

def read_domain(source: Source, text: str, start: int) -> Domain:
    """The domain *text* at the position *start* of *source*.

    :raises ParseError: isl refuses the text, or a name is refused; with the place.
    """
    shape = _SHAPE.fullmatch(text)
    if shape is None:
        raise find_fault(source, text, start)
    dims = _dims(source, shape, start)
    parameters = sorted(free_names(shape["body"]).difference(dims))
    try:
        points = InstanceSet.parse(f"[{', '.join(parameters)}] -> {{{shape['body']}}}")
    except ValueError:
        raise find_fault(source, text, start) from None
    for name in parameters:
        fault = names.fault(name)
        if fault is not None:
            raise source.error(start + _place(shape, name), f"The size '{name}' {fault}.", "another name")
    if points.is_empty() and "," in (condition := shape["body"].partition(":")[2]):
        raise source.error(start + shape.end("body") - len(condition) + condition.index(","),
                           "The domain has no point for any size: ',' lists forms, as in 0 <= i, j < n.", "'and'")
    open_iname = unbounded_iname(points)
    if open_iname is not None:
        raise source.error(start + _place(shape, open_iname), f"The iname '{open_iname}' has no end.",
                           f"a lower and an upper bound for '{open_iname}'")
    return Domain(points, start)


def _dims(source: Source, shape: re.Match[str], start: int) -> tuple[str, ...]:
    """The names in the tuple of each piece of the union, which must agree."""
    found: tuple[str, ...] | None = None
    at = shape.start("body")
    for piece in shape["body"].split(";"):
        match = _TUPLE.match(piece)
        if match is None:
            raise find_fault(source, shape[0], start)
        here = start + at + match.start("dims")
        dims = []
        for word in match["dims"].split(",") if match["dims"].strip() else ():
            place = here + len(word) - len(word.lstrip())
            here += len(word) + 1
            name = word.strip()
            if not _IDENTIFIER.fullmatch(name):
                if ":" in name or len(name.split()) > 1:
                    raise find_fault(source, shape[0], start)
                raise source.error(place, f"'{name}' is no name for an iname.", "the name of an iname")
            fault = names.fault(name)
            if fault is not None:
                raise source.error(place, f"The iname '{name}' {fault}.", "another name")
            if name in dims:
                raise source.error(place, f"The iname '{name}' is named twice.", "another name")
            dims.append(name)
        if found is not None and tuple(dims) != found:
            raise source.error(start + at + match.start("dims"), "The pieces of a union have different inames.",
                               f"[{', '.join(found)}]")
        found = tuple(dims)
        at += len(piece) + 1
    assert found is not None
    return found


def _place(shape: re.Match[str], name: str) -> int:
    match = re.compile(rf"\b{name}\b").search(shape[0], shape.start("body"))
    return match.start() if match else 0

# }}}


@dataclass
class Domains:
    """All domains of a kernel, the order of their inames, and a cache of instance sets.

    Statements with the same inames and conditions share one :class:`~loopkit.poly.sets.InstanceSet`.
    """

    source: Source
    domains: tuple[Domain, ...]
    order: dict[str, int] = field(default_factory=dict)
    parents: dict[str, frozenset[str]] = field(default_factory=dict)
    _sets: dict[tuple[object, ...], InstanceSet] = field(default_factory=dict)
    _inline: dict[str, Domain] = field(default_factory=dict)

    @property
    def params(self) -> frozenset[str]:
        """The parameters of all domains, inames left out."""
        every = [*self.domains, *self._inline.values()]
        return frozenset(name for d in every for name in d.points.params).difference(*(d.inames for d in every))

    @property
    def inline_inames(self) -> frozenset[str]:
        """The inames that reductions declare for themselves."""
        return frozenset(x for d in self._inline.values() for x in d.inames)

    # {{{ reductions with a domain of their own

    def add_inline(self, source: Source, text: str, start: int) -> tuple[str, ...]:
        """Read the domain of one reduction; its inames."""
        if text not in self._inline:
            self._inline[text] = domain = read_domain(source, text, start)
            for name in domain.inames:
                if name in self.order:
                    raise source.error(start, f"The iname '{name}' has a domain already.",
                                       f"a name other than '{name}', or no domain here")
        return self._inline[text].inames

    def inline(self, text: str) -> Domain:
        """The domain that :meth:`add_inline` read."""
        return self._inline[text]

    # }}}

    def ancestors(self, inames: Iterable[str]) -> frozenset[str]:
        """*inames* and the inames that their domains depend on."""
        return frozenset().union(*(self.parents.get(x, frozenset()) | {x} for x in inames))

    def sorted(self, inames: Iterable[str]) -> tuple[str, ...]:
        """*inames* in the order of the domains, parents first."""
        return tuple(sorted(inames, key=self.order.__getitem__))

    def instances(self, inames: tuple[str, ...], conditions: tuple[Expression, ...] = (),
                  inline: tuple[str, ...] = ()) -> InstanceSet:
        """The instance set over *inames*, outermost first, under the affine *conditions*.

        :arg inline: texts of the domains of the reductions around it.
        """
        key = (inames, conditions, inline)
        if key not in self._sets:
            self._sets[key] = constrained(self.instances(inames, (), inline), conditions) if conditions else \
                self._intersection(inames, inline)
        return self._sets[key]

    def _intersection(self, inames: tuple[str, ...], inline: tuple[str, ...]) -> InstanceSet:
        parts = [restricted(domain.points, inames).onto(inames)
                 for domain in (*self.domains, *map(self.inline, inline)) if not set(inames).isdisjoint(domain.inames)]
        return reduce(InstanceSet.intersect, parts) if parts else InstanceSet.universe(inames)


def domain_texts(domains: str | AnySet | Iterable[str | AnySet]) -> str | list[str]:
    """The texts of *domains*."""
    # sets print in isl's notation
    return str(domains) if isinstance(domains, str | AnySet) else list(map(str, domains))


def read_domains(domains: str | Iterable[str]) -> Domains:
    """Read the domains of a kernel.

    :raises ParseError: a domain cannot be read, or an iname is in two.
    """
    texts = [domains] if isinstance(domains, str) else list(domains)
    source = Source("\n".join(texts), "the domains")
    read, start = [], 0
    for text in texts:
        read.append(read_domain(source, text, start))
        start += len(text) + 1
    owner: dict[str, Domain] = {}
    for domain in read:
        for name in domain.inames:
            if name in owner:
                place = source.text.index("[", source.text.index("{", domain.start))
                match = re.compile(rf"\b{name}\b").search(source.text, place)
                raise source.error(match.start() if match else place, f"The iname '{name}' stands in two domains.",
                                   "another name")
            owner[name] = domain
    result = Domains(source, tuple(read))
    _put_in_order(result, owner)
    return result


def _put_in_order(domains: Domains, owner: dict[str, Domain]) -> None:
    """Number the inames, parents first, and note what each depends on."""
    def visit(domain: Domain, around: tuple[Domain, ...]) -> None:
        if any(d is domain for d in around):
            raise domains.source.error(domain.start, f"The domain of '{domain.inames[0]}' depends on itself.",
                                       "bounds in inames of other domains")
        above: frozenset[str] = frozenset()
        for name in domain.points.params:
            if name in owner:
                if name not in domains.parents:
                    visit(owner[name], (*around, domain))
                above |= domains.parents[name] | {name}
        for name in domain.inames:
            domains.parents[name] = above
            domains.order[name] = len(domains.order)
    for domain in domains.domains:
        if domains.parents.keys().isdisjoint(domain.inames):
            visit(domain, ())
