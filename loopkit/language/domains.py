"""The domains of a kernel, in isl's notation with the parameters left out, their instance sets, and assumptions."""
from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import reduce
from itertools import accumulate

from pymbolic.typing import Expression

from loopkit.errors import PreconditionError
from loopkit.expr.tokens import Source
from loopkit.kernel.kernel import unknown
from loopkit.language import names
from loopkit.language.domain_check import DomainParser, free_names
from loopkit.poly.domains import AnySet, restricted, unbounded_iname
from loopkit.poly.piecewise import constrained
from loopkit.poly.sets import InstanceSet, Set, parse_assumptions, universe_params


def read_domain(source: Source, text: str, start: int) -> InstanceSet:
    """The domain *text* at the place *start* of *source*; :raises ParseError: isl refuses it, or a name is refused."""
    parser = DomainParser(source, text, start)
    body = parser.domain()
    parameters = sorted(free_names(body).difference(parser.inames or ()))
    try:
        points = InstanceSet.parse(f"[{', '.join(parameters)}] -> {{{body}}}")
    except ValueError:
        raise parser.fault() from None
    for name in parameters:
        fault = names.fault(name)
        if fault is not None:
            raise source.error(start + _place(text, name), f"The size '{name}' {fault}.", "another name")
    if points.is_empty() and "," in (condition := body.partition(":")[2]):
        raise source.error(start + text.index(condition) + condition.index(","),
                           "The domain has no point for any size: ',' lists forms, as in 0 <= i, j < n.", "'and'")
    open_iname = unbounded_iname(points)
    if open_iname is not None:
        raise source.error(start + _place(text, open_iname), f"The iname '{open_iname}' has no end.",
                           f"a lower and an upper bound for '{open_iname}'")
    return points


def _place(text: str, name: str) -> int:
    """The place of *name* in the braces of the domain *text*."""
    match = re.compile(rf"\b{name}\b").search(text, text.index("{"))
    return match.start() if match else 0


@dataclass
class Domains:
    """All domains of a kernel, the order of their inames (parents first), and a cache of instance sets.

    :ivar parents: the inames that the domain of each iname depends on.
    :ivar inline: the domains that reductions declare for themselves, by their texts.
    """

    domains: tuple[InstanceSet, ...]
    order: dict[str, int] = field(default_factory=dict)
    parents: dict[str, frozenset[str]] = field(default_factory=dict)
    inline: dict[str, InstanceSet] = field(default_factory=dict)
    _sets: dict[tuple[object, ...], InstanceSet] = field(default_factory=dict)

    @property
    def params(self) -> frozenset[str]:
        """The parameters of all domains, inames left out."""
        every = [*self.domains, *self.inline.values()]
        return frozenset(name for d in every for name in d.params).difference(*(d.inames for d in every))

    @property
    def inline_inames(self) -> frozenset[str]:
        """The inames that reductions declare for themselves."""
        return frozenset(x for d in self.inline.values() for x in d.inames)

    def add_inline(self, source: Source, text: str, start: int) -> tuple[str, ...]:
        """Read the domain of one reduction; its inames."""
        if text not in self.inline:
            self.inline[text] = read_domain(source, text, start)
            for name in self.inline[text].inames:
                if name in self.order:
                    raise source.error(start, f"The iname '{name}' has a domain already.",
                                       f"a name other than '{name}', or no domain here")
        return self.inline[text].inames

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
        every = (*self.domains, *(self.inline[text] for text in inline))
        parts = [restricted(d, inames).onto(inames) for d in every if not set(inames).isdisjoint(d.inames)]
        return reduce(InstanceSet.intersect, parts) if parts else InstanceSet.universe(inames)


def read_domains(domains: str | Iterable[str]) -> Domains:
    """Read the domains of a kernel; :raises ParseError: one cannot be read or depends on itself, or shares an iname."""
    texts = [domains] if isinstance(domains, str) else list(domains)
    source = Source("\n".join(texts), "the domains")
    starts = [0, *accumulate(len(text) + 1 for text in texts)]
    read = [read_domain(source, text, start) for text, start in zip(texts, starts, strict=False)]
    owner: dict[str, int] = {}
    for k, domain in enumerate(read):
        for name in domain.inames:
            if name in owner:
                raise source.error(starts[k] + _place(texts[k], name), f"The iname '{name}' stands in two domains.",
                                   "another name")
            owner[name] = k
    result = Domains(tuple(read))

    def visit(k: int, around: tuple[int, ...]) -> None:
        if k in around:
            raise source.error(starts[k], f"The domain of '{read[k].inames[0]}' depends on itself.",
                               "bounds in inames of other domains")
        above: frozenset[str] = frozenset()
        for name in read[k].params:
            if name in owner:
                if name not in result.parents:
                    visit(owner[name], (*around, k))
                above |= result.parents[name] | {name}
        for name in read[k].inames:
            result.parents[name] = above
            result.order[name] = len(result.order)
    for k, domain in enumerate(read):
        if result.parents.keys().isdisjoint(domain.inames):
            visit(k, ())
    return result


_PARAMETERS = re.compile(r"\s*(?:\[[^\]]*\]\s*->\s*)?\{\s*(?:\[\s*\])?\s*:?(?P<condition>[^{}]*)\}\s*", re.DOTALL)


def read_assumptions(given: str | AnySet, values: Collection[str]) -> Set:
    """The parameter set of an assumption: ``"n>=1 and m>=1"`` or a set in isl's notation.

    :arg values: the names of the value arguments.
    :raises ParseError: *text* is not a condition.
    :raises UnknownNameError: it names something other than a value argument.
    :raises PreconditionError: it is a contradiction.
    """
    text = str(given)                                      # sets print in isl's notation
    if (whole := _PARAMETERS.fullmatch(text)) is not None:
        text = whole["condition"]
    if not text.strip():
        return universe_params()
    names = sorted(free_names(text))
    try:
        result = parse_assumptions(text, names)
    except ValueError:
        raise DomainParser(Source(text, "the assumptions"), text).assumption_fault() from None
    for parameter in names:
        if parameter not in values:
            raise unknown("parameter", parameter, values)
    if result.is_empty():
        raise PreconditionError("The assumptions contradict each other.", subject=text)
    return result
