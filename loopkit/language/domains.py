"""The domains of a kernel, their instance sets, and assumptions; a domain is in isl's notation without parameters.

isl gives no position for a text that it refuses. So this module parses the brackets and braces itself. In a condition
that isl refuses, it finds the first token for which no continuation makes a condition that isl accepts.
"""
from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import accumulate, count, takewhile

from pymbolic.typing import Expression

from loopkit.errors import ParseError, PreconditionError, require_known
from loopkit.expr.tokens import Cursor, Source, Token
from loopkit.language import names
from loopkit.poly.domains import AnySet, restricted, unbounded_iname, with_each_iname_once
from loopkit.poly.piecewise import constrained
from loopkit.poly.sets import InstanceSet, Set, parse_assumptions, universe_params

FUNCTIONS = frozenset({"floor", "ceil", "floord", "ceild", "min", "max"})
_NO_FUNCTIONS = frozenset({"and", "or", "not", "exists", "mod", "true", "false", "implies"})
KEYWORDS = FUNCTIONS | _NO_FUNCTIONS
#: isl ignores the case of its keywords.
_WORDS_OF_ISL = KEYWORDS | {"infty", "infinity", "nan", "rat"}

_TOKEN = re.compile(r"(?P<number>\d+)|(?P<name>[A-Za-z_]\w*)|(?P<op>->|<=|>=|==|!=|&&|\|\||//|[-+*/%<>=!()\[\]{},:;])"
                    r"|(?P<other>\S)", re.ASCII)
_NAME = re.compile(r"\d+|([A-Za-z_]\w*)", re.ASCII)
_EXISTS = re.compile(r"\bexists\s*\(?([^:]*):")


def read_domain(source: Source, text: str, start: int) -> InstanceSet:
    """The domain *text* at the place *start* of *source*; :raises ParseError: isl refuses it, or a name is refused."""
    parser = _DomainParser(source, text, start)
    body = parser.domain()
    inames = parser.inames or ()
    try:
        points = _read_set(body, inames)
    except ValueError:
        raise parser.fault(*parser.conditions) from None
    for name in sorted(_free_names(body).difference(inames)):
        fault = names.fault(name)
        if fault is not None:
            raise source.error(start + _place(text, name), f"The size '{name}' {fault}.",
                               names.another(name))
    if points.is_empty() and "," in (condition := body.partition(":")[2]):
        raise source.error(start + text.index(condition) + condition.index(","),
                           "The domain has no point for any size: a comma in 0 <= i, j < n separates forms.", "'and'")
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
    """All domains of a kernel, and a cache of instance sets.

    :ivar parents: for each iname, after those that its domain depends on, all of these.
    :ivar owner: the place of the domain of each iname in *domains*.
    :ivar inline: the domains that reductions declare for themselves, by their texts.
    """

    domains: tuple[InstanceSet, ...]
    parents: dict[str, frozenset[str]] = field(default_factory=dict)
    owner: dict[str, int] = field(default_factory=dict)
    inline: dict[str, InstanceSet] = field(default_factory=dict)
    _sets: dict[tuple[object, ...], InstanceSet] = field(default_factory=dict)
    _ranks: dict[str, int] = field(default_factory=dict)

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
                if name in self.parents:
                    raise source.error(start, f"The iname '{name}' has a domain already.",
                                       f"a name other than '{name}', or no domain here")
        return self.inline[text].inames

    def add_copies(self, copies: Mapping[str, str]) -> None:
        """Add copies of inames, each after its iname; copies of inames that depend on each other do so too."""
        own = [d.renamed(copies) for d in self.domains if not copies.keys().isdisjoint(d.inames)]
        self.owner |= {x: k for k, d in enumerate(own, len(self.domains)) for x in d.inames}
        self.domains += tuple(own)
        parents: dict[str, frozenset[str]] = {}
        for x, above in self.parents.items():
            parents[x] = above
            if x in copies:
                parents[copies[x]] = frozenset(copies.get(y, y) for y in above)
        self.parents = parents

    def over(self, inames: Iterable[str], inline: Iterable[str] = ()) -> list[InstanceSet]:
        """The domains of *inames*, those without inames, and those that reductions declare by the texts *inline*."""
        listed = sorted({self.owner[x] for x in inames if x in self.owner}.union(
            k for k, d in enumerate(self.domains) if not d.inames))
        every = (*(self.domains[k] for k in listed), *map(self.declared, inline))
        return [d for d in every if not d.inames or not set(inames).isdisjoint(d.inames)]

    def declared(self, text: str) -> InstanceSet:
        """The domain that a reduction declares: of new inames, or a part of the domains of known ones."""
        return self.inline[text] if text in self.inline else InstanceSet.parse(text)

    def bounds(self, inames: Iterable[str], inline: Iterable[str] = ()) -> frozenset[str]:
        """The inames, sizes and temporaries that the domains of *inames* depend on."""
        return frozenset(x for d in self.over(inames, inline) for x in d.params)

    def ancestors(self, inames: Iterable[str]) -> frozenset[str]:
        """*inames* and the inames that their domains depend on."""
        return frozenset().union(*(self.parents.get(x, frozenset()) | {x} for x in inames))

    def sorted(self, inames: Collection[str]) -> tuple[str, ...]:
        """*inames* in the order of the domains, parents first."""
        if len(self._ranks) < len(self.parents):
            self._ranks.update((x, rank) for rank, x in enumerate(self.parents))
        return tuple(sorted((x for x in inames if x in self._ranks), key=self._ranks.__getitem__))

    def instances(self, inames: tuple[str, ...], conditions: tuple[Expression, ...] = (),
                  inline: tuple[str, ...] = (), own: InstanceSet | None = None) -> InstanceSet:
        """The instance set over *inames*, outermost first, under the affine *conditions*.

        :arg inline: texts of the domains of the reductions around it.
        :arg own: the instance set of a statement whose evaluation it is.
        """
        key = (inames, conditions, inline, id(own))
        if key not in self._sets and conditions:
            self._sets[key] = constrained(self.instances(inames, (), inline, own), conditions)
        elif key not in self._sets and own is not None:
            self._sets[key] = own if own.inames == inames else self.instances(inames, (), inline).intersect(
                own.onto(inames))
        elif key not in self._sets:
            parts = [restricted(d, inames).onto(inames) for d in self.over(inames, inline)]
            self._sets[key] = reduce(InstanceSet.intersect, parts) if parts else InstanceSet.universe(inames)
        return self._sets[key]


def read_domains(domains: str | Iterable[str | InstanceSet]) -> Domains:
    """Read the domains of a kernel, texts and instance sets of a kernel.

    :raises ParseError: one cannot be read or depends on itself, or shares an iname.
    """
    given = [domains] if isinstance(domains, str) else list(domains)
    sets = with_each_iname_once([d for d in given if isinstance(d, InstanceSet)])
    at = next((k for k, d in enumerate(given) if isinstance(d, InstanceSet)), 0)
    every = [*given[:at], *sets, *(d for d in given[at:] if isinstance(d, str))]
    texts = [d if isinstance(d, str) else d.text for d in every]
    source = Source("\n".join(texts), "the domains")
    starts = [0, *accumulate(len(text) + 1 for text in texts)]
    read = [d if isinstance(d, InstanceSet) else read_domain(source, d, start)
            for d, start in zip(every, starts, strict=False)]
    result = Domains(tuple(read))
    owner = result.owner
    for k, domain in enumerate(read):
        for name in domain.inames:
            if name in owner:
                raise source.error(starts[k] + _place(texts[k], name), f"The iname '{name}' is in two domains.",
                                   "another name")
            owner[name] = k

    def visit(k: int, around: tuple[int, ...]) -> None:
        if k in around:
            raise source.error(starts[k], f"The domain of '{read[k].inames[0]}' depends on itself.",
                               "bounds in inames of other domains")
        if not read[k].inames and (bound := owner.keys() & read[k].params):
            raise source.error(starts[k] + _place(texts[k], min(bound)), "A domain without inames restricts all "
                               f"statements, and '{min(bound)}' is an iname.", "a condition on sizes",
                               hint=f"a domain with '{min(bound)}', or 'if' in the instructions")
        above: frozenset[str] = frozenset()
        for name in read[k].params:
            if name in owner:
                if name not in result.parents:
                    visit(owner[name], (*around, k))
                above |= result.parents[name] | {name}
        for name in read[k].inames:
            result.parents[name] = above
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
    try:
        result = parse_assumptions(text, _free_names(text))
    except ValueError:
        raise _DomainParser(Source(text, "the assumptions"), text).fault(0) from None
    require_known("parameter", sorted(_free_names(text)), values)
    if result.is_empty():
        raise PreconditionError(f"No sizes fulfil the assumptions '{text}'.", subject=text)
    return result


def _read_set(body: str, inames: Collection[str]) -> InstanceSet:
    """The set with *body* in its braces, its free names as parameters; :raises ValueError: isl refuses it."""
    return InstanceSet.parse(f"[{', '.join(sorted(_free_names(body).difference(inames)))}] -> {{{body}}}")


def _free_names(condition: str) -> set[str]:
    """The names in *condition*, in isl's notation, that no ``exists`` binds."""
    bound = {match[1] for group in _EXISTS.findall(condition) for piece in group.split(",")
             if (match := _NAME.match(piece.strip()))}
    return {name for name in _NAME.findall(condition) if name and name not in KEYWORDS} - bound


_COMPARISONS = frozenset({"<", "<=", ">", ">=", "=", "!=", "true", "false"})
_JUNCTIONS = frozenset({"and", "or", "not", "implies", "&&", "||", "!"})
_DIVISIONS = frozenset({"/", "//", "%", "mod"})
_IN_BRACES = "'and', 'or', an operator or '}'"


class _DomainParser(Cursor):
    """A place in a domain, or in a condition on parameters.

    :ivar inames: the inames of the domain, once they are read.
    :ivar conditions: the tokens at which its conditions begin.
    """

    def __init__(self, source: Source, text: str, start: int = 0) -> None:
        tokens = [Token(match.lastgroup or "other", match[0], start + match.start()) for match in _TOKEN.finditer(text)]
        super().__init__(source, [*tokens, Token("end", "", start + len(text.rstrip()))])
        self.inames: tuple[str, ...] | None = None
        self.conditions: list[int] = []
        self.subject = "An assumption" if source.what == "the assumptions" else "A domain"

    def domain(self) -> str:
        """Step over a domain and find its inames; the text in its braces. :raises ParseError: it has another form."""
        if self.text == "[":
            self.bracket("a parameter")
            if not self.accept("->"):
                raise self.error(
                    "'->'", hint="parameters are before an arrow, and inames in braces: [n] -> { [i] : ... }")
        if not self.accept("{"):
            raise self.error("'{'", hint="a domain is in braces: { [i] : 0 <= i < n }")
        pieces = self.separated(self.piece, ";")
        if self.text != "}" or self.tokens[self.at + 1].text:
            raise self.fault(*self.conditions)
        return ";".join(pieces)

    def piece(self) -> str:
        """Step over one piece of a union, whatever its condition; its text, with the brackets of no inames."""
        start, missing = self.tokens[self.at].start, "[] " if self.text == ":" else ""
        if not missing:
            self.tuple_of_inames()
        else:
            self.unite(())
        if self.accept(":"):
            if self.text == ":":
                raise self.error("a condition", message="There are two colons.")
            if self.text not in ("}", ";"):
                self.conditions.append(self.at)
            while self.text not in (";", "{", "}", ""):
                self.at += 1
        elif self.text == "->":
            raise self.error(
                "':'", hint="inames that the bounds depend on are before the braces: [i] -> { [j] : ... }")
        elif self.text not in ("}", ";", ""):
            listed = f"[{', '.join(self.inames or ())}]"
            raise self.error("':'", message=f"The ':' after {listed} is missing.", hint=f"{{ {listed} : ... }}")
        return missing + self.source.text[start:self.tokens[self.at].start]

    def tuple_of_inames(self) -> None:
        """Step over the inames of a piece."""
        if self.text != "[":
            of_name = self.kind == "name" and self.tokens[self.at + 1].text == "["
            raise self.error("'['", hint="a domain has no name: { [i, j] : ... }" if of_name else
                             "inames are in brackets, and their conditions after a colon: { [i] : 0 <= i < n }")
        first = self.at + 1
        found = tuple(self.bracket("an iname"))
        for i, name in enumerate(found):
            fault = names.fault(name) or ("is named twice" if name in found[:i] else None)
            if fault is not None:
                raise self.error(names.another(name), at=first + 2*i, message=f"The iname '{name}' {fault}.")
        self.unite(found, first)

    def unite(self, found: tuple[str, ...], at: int | None = None) -> None:
        """Take *found*, at the token *at*, as the inames of a piece; :raises ParseError: other pieces have others."""
        if self.inames not in (None, found):
            raise self.error(f"[{', '.join(self.inames or ())}]", at=at,
                             message="The pieces of a union have different inames.")
        self.inames = found

    def bracket(self, what: str) -> list[str]:
        """Step over names in brackets, each *what*."""
        self.take("[")
        if self.accept("]"):
            return []
        found = self.separated(lambda: self.one_of_bracket(what))
        self.take("]")
        return found

    def one_of_bracket(self, what: str) -> str:
        first, name = self.at, self.text
        self.at += self.kind == "name"
        if self.at > first and self.kind == "name":
            raise self.error("',' or ']'", message=f"The ',' before '{self.text}' is missing.")
        if what == "an iname" and self.at > first and self.accept("="):      # { [i = n - 1] }, as isl prints it
            self.at = next(k for k in count(self.at) if self.tokens[k].text in (",", "]", "}", ":", ""))
        if self.text in (":", "}", ""):
            raise self.error("',' or ']'", message="The ']' after the names is missing.", hint="{ [i, j] : ... }")
        if self.at == first or self.text not in (",", "]"):
            word = "".join(takewhile(lambda text: text not in (",", "]"), (t.text for t in self.tokens[first:])))
            raise self.error(f"the name of {what}", at=first, message=f"'{word}' cannot be the name of {what}.")
        return name

    def fault(self, *conditions: int) -> ParseError:
        """The error for a text that isl refuses: in one of its *conditions*, or at the current place, their end."""
        end = self.at if self.inames is not None else len(self.tokens) - 1
        for first in conditions:
            last = next((i for i in range(first, end) if self.tokens[i].text == ";" and self.inames is not None), end)
            if not self._is_read(first, last):
                at = bisect_left(range(first, last), True, key=lambda i: not self._is_begun(first, i + 1)) + first
                return self._fault_in(first, at)
        if self.tokens[end].text != "}":
            return self._fault_in(conditions[-1] if conditions else end, end)
        if self.tokens[end + 1].text:
            return self.error("the end of the domain", at=end + 1)
        return self.source.error(self.tokens[0].start, "isl cannot read this domain.",
                                 "a set in isl's notation, { [i, j] : ... }")

    def _is_read(self, first: int, last: int, ending: str = "") -> bool:
        """Does isl read the tokens from *first* up to *last*, with *ending* after them, as a condition?"""
        text = self.source.text[self.tokens[first].start:self.tokens[last].start] + " " + ending
        inames = self.inames or ()
        try:
            _read_set(f"[{', '.join(inames)}] : {text}", inames)
        except ValueError:
            return False
        return ";" not in text                      # another piece of a union

    def _is_begun(self, first: int, last: int) -> bool:
        """Are the tokens from *first* up to *last* the beginning of a condition?"""
        closers = [":1=1" if opened == "exists" else ",1)" if opened in ("floord", "ceild") and mark != "," else ")"
                   for opened, mark in self._opened(first, last)[:0:-1]]
        # a form may have to be compared within some of what is open
        endings = (closers, *([*closers[:k], "=1", *closers[k:]] for k in range(len(closers) + 1)))
        return any(self._is_read(first, last, missing + "".join(ending))
                   for missing in ("", "1", "free_", "(1)", "(1,1)") for ending in endings)

    def _opened(self, first: int, last: int) -> list[tuple[str, str]]:
        """The brackets that the tokens from *first* up to *last* leave open, from the outside in, after the condition.

        Each is ``(``, a function, or ``exists`` up to its colon, with its last ``and``, ``<`` or ``,``.
        """
        opened, before = [("", "")], ""
        for _, text, _ in self.tokens[first:last]:
            kind, mark = opened[-1]
            if text == "(":
                opened.insert(len(opened) - (before == "exists"), (before if before in FUNCTIONS else "(", ""))
            elif text == "exists":
                opened.append((text, ""))
            elif text in (")", ":") and len(opened) > 1:
                opened.pop()
            mark = "and" if text in _JUNCTIONS else "," if text == "," and kind else \
                "<" if text in _COMPARISONS or (text in (")", ":") and mark == "<") else ""
            if mark:
                opened[-1] = (opened[-1][0], mark)
            before = text
        return opened

    def _ends_operand(self, at: int) -> bool:
        kind, text, _ = self.tokens[at]
        return text in (")", "true", "false") or (kind in ("name", "number") and text not in _NO_FUNCTIONS)

    def _fault_in(self, first: int, at: int) -> ParseError:
        """The error for the token at *at*, which cannot be in the condition that begins at *first*."""
        self.at = at
        text, before = self.text, self.tokens[at - 1] if at > first else Token("", "", 0)
        ended = at > first and self._ends_operand(at - 1)
        for i in (at - 1, at):
            word = self.tokens[i].text
            if word.lower() in _WORDS_OF_ISL and (
                    word not in KEYWORDS or (word == "mod" and not self._ends_operand(i - 1))):
                return self.error("another name", at=i, message=f"'{word}' is a keyword of isl's notation.")
        if before.kind == "name" and ended and text in (".", "[", "("):
            return self._fault_of_name(before.text)
        if text == "==":
            return self.error(
                "'='", hint="in isl's notation, which domains and assumptions have, equality is one '='")
        if before.text == "=" and text in ("<", ">"):
            return self.error("an affine form", hint=f"{text}=")
        if before.text == text == "*":
            return self.error("a constant factor", at=at - 1, message=f"{self.subject} takes no powers.")
        operator = next(i for i in range(at - 1, first - 2, -1) if self.tokens[i].text not in ("(", "-", "+"))
        if self.kind in ("name", "number") or text == "(":
            if self.tokens[operator].text == "*":
                return self.error("a constant factor", at=operator, message=f"{self.subject} multiplies two names.")
            if self.tokens[operator].text in _DIVISIONS:
                return self.error("a constant divisor", at=operator, message=f"{self.subject} divides by a name.")
        opened, mark = self._opened(first, at)[-1]
        if not opened and text in ("", "]", ")") and self.inames is not None and (mark == "<" or at == first):
            return self.error(_IN_BRACES, message="The '}' that ends the domain is missing.")
        if not ended:
            return self.error("a name or ':'" if opened == "exists" and before.text in ("(", ",") else "an affine form")
        if opened == "exists" or opened in FUNCTIONS:
            return self.error("',' or ':'" if opened == "exists" else "',' or ')'")
        if mark != "<" and (mark or not opened):
            return self.error("'<', '<=', '=', '>=' or '>'",
                              hint="0 <= i < n" if text == "in" or before.text == "for" else None)
        whole = _IN_BRACES if self.inames is not None else "'and', 'or' or the end"
        return self.error(whole if not opened else "'and', 'or' or ')'" if mark else "an operator or ')'",
                          hint="2*(n + 1)" if before.kind == "number" and text == "(" else None)

    def _fault_of_name(self, name: str) -> ParseError:
        """The error for the current token after *name*: a dot or an opening bracket."""
        if self.text == ".":
            return self.error("an operator", message=f"The name '{name}.{self.tokens[self.at + 1].text}' has a dot.",
                              hint="names are letters, digits and underscores")
        if self.text == "(":
            return self.error("one of " + ", ".join(sorted(FUNCTIONS)), at=self.at - 1,
                              message=f"{self.subject} cannot call '{name}'.")
        return self.error(
            "a name", at=self.at - 1, message=f"{self.subject} reads the array '{name}'.",
            hint=f"assign it to a temporary first, <int32> bound = {name}[...], and use the temporary here")
