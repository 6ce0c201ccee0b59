"""The domains of a kernel, in isl's notation with the parameters left out, their instance sets, and assumptions.

isl names no place at which it refuses a text. The grammar is that part of isl's notation that kernels use::

    domain     = [ "[" names "]" "->" ] "{" piece { ";" piece } "}"
    piece      = "[" names "]" [ ":" [ condition ] ]
    condition  = term { ("and" | "or" | "implies") term }
    term       = "not" term | "exists" [ "(" ] names ":" condition [ ")" ] | "true" | "false" | comparison
    comparison = forms relation forms { relation forms }
    forms      = form { "," form }
    form       = affine form with + - * / mod, floor, ceil, floord, ceild, min, max
"""
from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import reduce
from itertools import accumulate, takewhile

from pymbolic.typing import Expression

from loopkit.errors import ParseError, PreconditionError
from loopkit.expr.tokens import Cursor, Source, Token
from loopkit.kernel.kernel import require_known
from loopkit.language import names
from loopkit.poly.domains import AnySet, restricted, unbounded_iname
from loopkit.poly.piecewise import constrained
from loopkit.poly.sets import InstanceSet, Set, parse_assumptions, universe_params

FUNCTIONS = frozenset({"floor", "ceil", "floord", "ceild", "min", "max"})
_NO_FUNCTIONS = frozenset({"and", "or", "not", "exists", "mod", "true", "false", "implies"})
KEYWORDS = FUNCTIONS | _NO_FUNCTIONS
#: isl ignores the case of its keywords.
_WORDS_OF_ISL = KEYWORDS | {"infty", "infinity", "nan", "rat"}

_TOKEN = re.compile(r"(?P<number>\d+)|(?P<name>[A-Za-z_]\w*)|(?P<op>->|<=|>=|==|!=|&&|\|\||//|[-+*/%<>=!()\[\]{},:;])"
                    r"|(?P<other>\S)", re.ASCII)
_JUNCTION, _COMPARISON, _LIST, _SUM, _PRODUCT = range(1, 6)
_BINDINGS = {",": _LIST, **dict.fromkeys(("and", "or", "implies", "&&", "||"), _JUNCTION),
             **dict.fromkeys(("<", "<=", ">", ">=", "=", "==", "!="), _COMPARISON),
             **dict.fromkeys(("+", "-"), _SUM), **dict.fromkeys(("*", "/", "//", "%", "mod"), _PRODUCT)}
_NAME = re.compile(r"\d+|([A-Za-z_]\w*)", re.ASCII)
_EXISTS = re.compile(r"\bexists\s*\(?([^:]*):")


def read_domain(source: Source, text: str, start: int) -> InstanceSet:
    """The domain *text* at the place *start* of *source*; :raises ParseError: isl refuses it, or a name is refused."""
    parser = _DomainParser(source, text, start)
    body = parser.domain()
    parameters = sorted(_free_names(body).difference(parser.inames or ()))
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
    """All domains of a kernel, and a cache of instance sets.

    :ivar parents: for each iname, after those that its domain depends on, all of these.
    :ivar inline: the domains that reductions declare for themselves, by their texts.
    """

    domains: tuple[InstanceSet, ...]
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
                if name in self.parents:
                    raise source.error(start, f"The iname '{name}' has a domain already.",
                                       f"a name other than '{name}', or no domain here")
        return self.inline[text].inames

    def ancestors(self, inames: Iterable[str]) -> frozenset[str]:
        """*inames* and the inames that their domains depend on."""
        return frozenset().union(*(self.parents.get(x, frozenset()) | {x} for x in inames))

    def sorted(self, inames: Collection[str]) -> tuple[str, ...]:
        """*inames* in the order of the domains, parents first."""
        return tuple(x for x in self.parents if x in inames)

    def instances(self, inames: tuple[str, ...], conditions: tuple[Expression, ...] = (),
                  inline: tuple[str, ...] = ()) -> InstanceSet:
        """The instance set over *inames*, outermost first, under the affine *conditions*.

        :arg inline: texts of the domains of the reductions around it.
        """
        key = (inames, conditions, inline)
        if key not in self._sets and conditions:
            self._sets[key] = constrained(self.instances(inames, (), inline), conditions)
        elif key not in self._sets:
            every = (*self.domains, *(self.inline[text] for text in inline))
            parts = [restricted(d, inames).onto(inames) for d in every if not set(inames).isdisjoint(d.inames)]
            self._sets[key] = reduce(InstanceSet.intersect, parts) if parts else InstanceSet.universe(inames)
        return self._sets[key]


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
    names = sorted(_free_names(text))
    try:
        result = parse_assumptions(text, names)
    except ValueError:
        raise _DomainParser(Source(text, "the assumptions"), text).assumption_fault() from None
    require_known("parameter", names, values)
    if result.is_empty():
        raise PreconditionError("The assumptions contradict each other.", subject=text)
    return result


def _free_names(condition: str) -> set[str]:
    """The names in *condition*, in isl's notation, that no ``exists`` binds."""
    bound = {match[1] for group in _EXISTS.findall(condition) for piece in group.split(",")
             if (match := _NAME.match(piece.strip()))}
    return {name for name in _NAME.findall(condition) if name and name not in KEYWORDS} - bound


#: The kinds of expressions; a whole is of the largest kind of its parts, but for comparisons.
_CONSTANT, _FORM, _CONDITION = range(3)
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
                    "'->'", hint="parameters stand before an arrow, and inames in braces: [n] -> { [i] : ... }")
        first = self.at
        if not self.accept("{"):
            raise self.error("'{'", hint="a domain stands in braces: { [i] : 0 <= i < n }")
        self.separated(self.piece, ";")
        if self.text != "}" or self.tokens[self.at + 1].text:
            raise self.fault()
        return self.source.text[self.tokens[first].start + 1:self.tokens[self.at].start]

    def piece(self) -> None:
        """Step over one piece of a union, whatever its condition."""
        if self.text != "[":
            of_name = self.kind == "name" and self.tokens[self.at + 1].text == "["
            raise self.error("'['", hint="a domain has no name: { [i, j] : ... }" if of_name else
                             "inames stand in brackets, and their conditions behind a colon: { [i] : 0 <= i < n }")
        first = self.at + 1
        found = tuple(self.bracket("an iname"))
        for i, name in enumerate(found):
            fault = names.fault(name) or ("is named twice" if name in found[:i] else None)
            if fault is not None:
                raise self.error("another name", at=first + 2*i, message=f"The iname '{name}' {fault}.")
        listed = f"[{', '.join(found)}]"
        if self.inames not in (None, found):
            raise self.error(f"[{', '.join(self.inames or ())}]", at=first,
                             message="The pieces of a union have different inames.")
        self.inames = found
        if self.accept(":"):
            if self.text == ":":
                raise self.error("a condition", message="There are two colons.")
            if self.text not in ("}", ";"):
                self.conditions.append(self.at)
            while self.text not in (";", "{", "}", ""):
                self.at += 1
        elif self.text == "->":
            raise self.error(
                "':'", hint="inames that the bounds depend on stand before the braces: [i] -> { [j] : ... }")
        elif self.text not in ("}", ";", ""):
            raise self.error("':'", message=f"The ':' behind {listed} is missing.", hint=f"{{ {listed} : ... }}")

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
        if self.kind == "name":
            self.at += 1
            if self.kind == "name":
                raise self.error("',' or ']'", message=f"The ',' before '{self.text}' is missing.")
        if self.text in (":", "}", ""):
            raise self.error("',' or ']'", message="The ']' behind the names is missing.", hint="{ [i, j] : ... }")
        if self.at == first or self.text not in (",", "]"):
            word = "".join(takewhile(lambda text: text not in (",", "]"), (t.text for t in self.tokens[first:])))
            raise self.error(f"the name of {what}", at=first, message=f"'{word}' is no name for {what}.")
        return name

    def fault(self) -> ParseError:
        """The error for the domain before the current place, which isl refuses."""
        end = self.at
        try:
            for at in (*self.conditions, end):
                self.at = at
                if at in self.conditions:
                    self.condition()
                if self.text in ("", "]", ")"):
                    raise self.error(_IN_BRACES, message="The '}' that ends the domain is missing.")
                if self.text not in (";", "}"):
                    raise self.error(_IN_BRACES)
            if self.tokens[end + 1].text:
                raise self.error("the end of the domain", at=end + 1)
        except ParseError as err:
            return err
        return self.source.error(self.tokens[0].start, "isl cannot read this domain.",
                                 "a set in isl's notation, { [i, j] : ... }")

    def assumption_fault(self) -> ParseError:
        """The error for the condition at the current place, which isl refuses."""
        try:
            self.condition()
            if self.text:
                raise self.error("'and', 'or' or the end")
        except ParseError as err:
            return err
        return self.source.error(0, f"isl cannot read {self.source.what}.", "a condition in isl's notation")

    def condition(self, floor: int = 0) -> int:
        """Step over an expression that must be a condition."""
        start = self.at
        return self.require_condition(start, self.expression(floor))

    def require_condition(self, start: int, kind: int) -> int:
        if kind != _CONDITION:
            hint = "0 <= i < n" if self.text == "in" or self.tokens[start].text == "for" else None
            raise self.error("'<', '<=', '=', '>=' or '>'", hint=hint)
        return kind

    def expression(self, floor: int = 0) -> int:
        """Step over the longest expression whose operators bind tighter than *floor*; its kind."""
        start, left = self.at, self.operand(floor)
        while True:
            at, operator, binding = self.at, self.text, _BINDINGS.get(self.text, 0)
            if not left and floor < _PRODUCT and (self.text == "(" or (
                    self.kind == "name" and self.text not in _NO_FUNCTIONS)):
                left = self.operand(_PRODUCT)                   # 2i is 2*i
                continue
            if binding <= floor or (left == _CONDITION and binding > _COMPARISON):
                return left
            if binding == _JUNCTION:
                self.require_condition(start, left)
            if operator == "==":
                raise self.error(
                    "'='", hint="in isl's notation, which domains and assumptions have, equality is one '='")
            self.at += 1
            if operator == "=" and self.text in ("<", ">"):
                raise self.error("an affine form", hint=f"{self.text}=")
            if operator == "*" and self.text == "*":
                raise self.error("a constant factor", at=at, message=f"{self.subject} takes no powers.")
            right = self.condition(binding) if binding == _JUNCTION else self.expression(binding)
            if operator == "*" and left and right:
                raise self.error("a constant factor", at=at, message=f"{self.subject} multiplies two names.")
            if operator != "*" and binding == _PRODUCT and right:
                raise self.error("a constant divisor", at=at, message=f"{self.subject} divides by a name.")
            left = _CONDITION if binding == _COMPARISON else max(left, right)

    def operand(self, floor: int) -> int:
        if self.accept("-", "+"):
            return self.operand(_PRODUCT)
        if self.accept("("):
            kind = self.expression(_LIST if floor > _JUNCTION else 0)
            self.take(")", "'and', 'or' or ')'" if kind == _CONDITION else "an operator or ')'")
            return kind
        if self.kind == "number":
            self.at += 1
            return _CONSTANT
        if floor <= _JUNCTION and self.accept("true", "false"):
            return _CONDITION
        if floor <= _JUNCTION and self.accept("not", "!"):
            return self.condition(_JUNCTION)
        if floor <= _JUNCTION and self.accept("exists"):
            opened = self.accept("(")
            self.separated(self.bound_name)
            self.take(":", "',' or ':'")
            self.condition()
            if opened:
                self.take(")", "'and', 'or' or ')'")
            return _CONDITION
        if self.kind != "name" or self.text in _NO_FUNCTIONS - {"mod"}:
            raise self.error("an affine form")
        return self.named()

    def bound_name(self) -> None:
        if self.kind != "name":
            raise self.error("a name or ':'")
        self.at += 1
        if self.accept("="):
            self.expression(_LIST)

    def named(self) -> int:
        name, start = self.text, self.at
        self.at += 1
        if self.text != "(" and name.lower() in _WORDS_OF_ISL:
            raise self.error("another name", at=start, message=f"'{name}' is a word of isl's notation.")
        if self.text == ".":
            raise self.error("an operator", message=f"The name '{name}.{self.tokens[self.at + 1].text}' has a dot.",
                             hint="names are letters, digits and underscores")
        if self.text == "[":
            raise self.error(
                "a name", at=start, message=f"{self.subject} reads the array '{name}'.",
                hint=f"assign it to a temporary first, <int32> bound = {name}[...], and use the temporary here")
        if self.text != "(":
            return _FORM
        if name not in FUNCTIONS:
            raise self.error("one of " + ", ".join(sorted(FUNCTIONS)), at=start,
                             message=f"{self.subject} cannot call '{name}'.")
        self.at += 1
        kind = self.expression(_COMPARISON)
        self.take(")", "',' or ')'")
        return kind
