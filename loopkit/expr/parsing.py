"""Text to expressions: a Pratt parser over the tokens of a source, with Python's precedence.

``min``, ``max``, ``sum``, ``product``, ``any`` and ``all`` are reductions where they have exactly two
arguments of which the first is an iname, a list of inames (``[i, j]`` or ``(i, j)``) or a domain
(``{[k]: 0<=k<n}``). ``min`` and ``max`` of two or more other values are values; so the larger of the iname
``i`` and 3 is written ``max(3, i)``.
"""
from __future__ import annotations

import difflib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.errors import UnknownNameError
from loopkit.expr.build import floor_div, logical_onto, negated, power, product_onto, quotient, remainder, sum_onto
from loopkit.expr.cursor import KEYWORDS, Cursor
from loopkit.expr.functions import DTYPE_NAMES, FUNCTIONS
from loopkit.expr.kinds import named_dtype
from loopkit.expr.nodes import REDUCTIONS, Reduction, TypeCast
from loopkit.expr.numbers import read_number
from loopkit.expr.tokens import Source, Tokens, tokenize

_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _UNARY, _POWER = range(1, 9)
_INFIX = {"or": _OR, "and": _AND, "<": _COMPARISON, "<=": _COMPARISON, ">": _COMPARISON, ">=": _COMPARISON,
          "==": _COMPARISON, "!=": _COMPARISON, "+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT,
          "//": _PRODUCT, "%": _PRODUCT, "**": _POWER}
#: Python's stack bounds the depth of what is walked recursively; this stays far below.
_MOST_DEPTH = 100
_VALUES = {"true": True, "false": False, "True": True, "False": False}
_MINMAX = {"min": p.Min, "max": p.Max}


BARE, RULE = -1, -2


@dataclass(frozen=True, slots=True)
class NameUse:
    """One mention of a name in the text.

    :ivar rank: the number of its subscripts, :data:`BARE` for a bare name, :data:`RULE` for a substitution rule.
    :ivar start: its place in the text.
    """

    name: str
    rank: int
    start: int


@p.expr_dataclass()
class InlineReduction(Reduction):
    """A reduction over a domain of its own, ``sum({[k]: 0<=k<i}, expr)``; it lives in ``language`` only.

    :ivar domain_text: the domain as written.
    """

    domain_text: str


@dataclass
class ExpressionParser(Cursor):
    """A position in a list of tokens, and what the names in them are.

    :ivar inames: names that make ``min(k, x)`` a reduction.
    :ivar rules: the number of arguments of each substitution rule.
    :ivar operations: the names of the reductions.
    :ivar read_domain: reads an inline domain (its text and where it starts) and returns its inames; ``None``
        where a domain cannot stand.
    :ivar uses: every mention of a name so far; what a reduction binds does not count inside it.
    :ivar reductions: how many reductions were read so far.
    """

    inames: Collection[str] = ()
    rules: dict[str, int] = field(default_factory=dict)
    operations: Collection[str] = tuple(REDUCTIONS)
    read_domain: Callable[[str, int], tuple[str, ...]] | None = None
    uses: list[NameUse] = field(default_factory=list)
    reductions: int = 0
    _depth: int = 0
    _bound: list[tuple[str, int]] = field(default_factory=list)
    _variables: dict[str, p.Variable] = field(default_factory=dict)

    # {{{ operators

    def expression(self, floor: int = 0) -> Expression:
        """The longest expression from here whose operators bind tighter than *floor*."""
        if self._depth == _MOST_DEPTH:
            raise self.error("a simpler expression", message=f"{_MOST_DEPTH} expressions stand in each other.",
                             hint="assign a part of it to a temporary")
        self._depth += 1
        left = self._operand(floor)
        texts = self.tokens.texts
        while True:
            op = texts[self.at]
            binding = _INFIX.get(op, 0)
            if binding <= floor:
                self._depth -= 1
                return left
            self.at += 1
            match op:
                case "+":
                    left = sum_onto(left, self.expression(_SUM))
                case "*":
                    left = product_onto(left, self.expression(_PRODUCT))
                case "-":
                    left = sum_onto(left, negated(self.expression(_SUM)))
                case "/":
                    left = quotient(left, self.expression(_PRODUCT))
                case "//":
                    left = floor_div(left, self.expression(_PRODUCT))
                case "%":
                    left = remainder(left, self.expression(_PRODUCT))
                case "**":
                    left = power(left, self.expression(_UNARY))
                case "and":
                    left = logical_onto(p.LogicalAnd, left, self.expression(_AND))
                case "or":
                    left = logical_onto(p.LogicalOr, left, self.expression(_OR))
                case _:
                    left = self._comparisons(left, op)

    def _comparisons(self, left: Expression, op: str) -> Expression:
        """``a < b <= c`` as ``a < b and b <= c``, like Python."""
        parts: list[Expression] = []
        while True:
            right = self.expression(_COMPARISON)
            parts.append(p.Comparison(left, op, right))
            op, left = self.text, right
            if _INFIX.get(op) != _COMPARISON:
                return parts[0] if len(parts) == 1 else p.LogicalAnd(tuple(parts))
            self.at += 1

    def _operand(self, floor: int) -> Expression:
        kind, text = self.tokens.kinds[self.at], self.tokens.texts[self.at]
        if kind == "number":
            self.at += 1
            return self._number(text)
        if kind == "name":
            return self._word(text, floor)
        if text == "(":
            return self._parenthesis()
        if text in ("-", "+"):
            self.at += 1
            value = self.expression(_UNARY - 1)
            return negated(value) if text == "-" else value
        raise self.error("an expression")

    def _parenthesis(self) -> Expression:
        self.at += 1
        value = self.expression()
        if self.text == ",":
            raise self.error("')'", hint="there are no tuples of values")
        self.take(")", "')' or an operator")
        return value

    def _number(self, text: str) -> Expression:
        value = read_number(text)
        if isinstance(value, str):
            raise self.error("a number", at=self.at - 1, hint=value or None)
        return value

    # }}}

    # {{{ names

    def variable(self, name: str) -> p.Variable:
        """The node of *name*, one object for all its mentions."""
        node = self._variables.get(name)
        if node is None:
            node = self._variables[name] = p.Variable(name)
        return node

    def _word(self, word: str, floor: int) -> Expression:
        if word in KEYWORDS:
            return self._keyword(word, floor)
        at = self.at
        self.at += 1
        following = self.text
        if following == "(":
            return self._call(word, at)
        if following == ".":
            raise self.error("an operator", hint="dtypes are written float32 or np.float32, inside cast( ) only")
        if word in self.rules:
            self._check_rule(word, 0, at)
            return p.Call(self.variable(word), ())
        return self._mention(word, at)

    def reference(self, name: str, at: int) -> p.Variable | p.Subscript:
        """The variable or subscript that *name*, the token before the current one, begins."""
        return self._mention(name, at)

    def _mention(self, name: str, at: int) -> p.Variable | p.Subscript:
        start = self.tokens.starts[at]
        if self.text != "[":
            self.uses.append(NameUse(name, BARE, start))
            return self.variable(name)
        self.at += 1
        index = self._list("]", "a subscript")
        self.uses.append(NameUse(name, len(index), start))
        if self.text == "[":
            raise self.error("an operator", hint=f"several subscripts are written {name}[i, j]")
        return p.Subscript(self.variable(name), index[0] if len(index) == 1 else tuple(index))

    def _list(self, closer: str, what: str) -> list[Expression]:
        """Expressions up to and over *closer*, at least one."""
        if self.text == closer:
            raise self.error(what)
        items = [self.expression()]
        while self.text == ",":
            self.at += 1
            items.append(self.expression())
        self.take(closer, f"',' or '{closer}'")
        return items

    def _keyword(self, word: str, floor: int) -> Expression:
        if word in _VALUES:
            self.at += 1
            return _VALUES[word]
        if word == "not":
            if floor >= _NOT:
                raise self.error("an expression", hint="put parentheses around the 'not'")
            self.at += 1
            return p.LogicalNot(self.expression(_NOT - 1))
        if word == "if":
            start = self.at
            self.at += 1
            self.take("(", "'(': if(condition, a, b)")
            parts = self._list(")", "a condition")
            if len(parts) != 3:
                raise self.error("three arguments: if(condition, a, b)", at=start)
            return p.If(*parts)
        raise self.error("an expression")

    def _call(self, name: str, at: int) -> Expression:
        self.at += 1
        if name in self.operations:
            return self._reduction(name, at)
        if name == "reduce":
            operation = self.name("a reduction: " + ", ".join(self.operations))
            if operation not in self.operations:
                raise self._unknown("reduction", operation, self.operations, self.at - 1)
            self.take(",")
            return self._reduction(operation, at, needed=True)
        if name == "cast":
            dtype = self.dtype_name()
            self.take(",")
            value = self.expression()
            self.take(")", "')' or an operator")
            return TypeCast(dtype, value)
        arguments = [] if self.text == ")" else self._arguments()
        if not arguments:
            self.take(")")
        if name in self.rules:
            self._check_rule(name, len(arguments), at)
        elif name in DTYPE_NAMES:
            if len(arguments) != 1:
                raise self.error(f"one argument for {name}", at=at)
            return TypeCast(named_dtype(DTYPE_NAMES[name]).name, arguments[0])
        else:
            self._check_function(name, len(arguments), at)
        return p.Call(self.variable(name), tuple(arguments))

    def _arguments(self) -> list[Expression]:
        return self._list(")", "an argument")

    def _check_rule(self, name: str, given: int, at: int) -> None:
        needed = self.rules[name]
        self.uses.append(NameUse(name, RULE, self.tokens.starts[at]))
        if given != needed:
            raise self.error(_counted(needed), at=at,
                             message=f"The substitution rule '{name}' takes {_counted(needed)}, not {given}.")

    def _check_function(self, name: str, given: int, at: int) -> None:
        if name not in FUNCTIONS:
            raise self._unknown("function", name, [*FUNCTIONS, *self.operations, *self.rules], at)
        needed = FUNCTIONS[name].arity
        if given != needed:
            raise self.error(_counted(needed), at=at,
                             message=f"The function '{name}' takes {_counted(needed)}, not {given}.")

    def _unknown(self, kind: str, name: str, known: Collection[str], at: int) -> UnknownNameError:
        source = self.tokens.source
        where = "the kernel" if kind == "iname" else "the kernel language"
        where += f" (line {source.line_of(self.tokens.starts[at])})"
        return UnknownNameError(kind, name, difflib.get_close_matches(name, list(known), n=2), where=where)

    def dtype_name(self) -> str:
        """Step over ``float32`` or ``np.float32``; numpy's name of it."""
        word, at = self.name("a dtype, such as float32"), self.at - 1
        if word in ("np", "numpy") and self.text == ".":
            self.at += 1
            word, at = self.name("a dtype, such as float32"), self.at - 1
        if word not in DTYPE_NAMES:
            raise self._unknown("dtype", word, DTYPE_NAMES, at)
        return named_dtype(DTYPE_NAMES[word]).name

    # }}}

    # {{{ reductions

    def _reduction(self, operation: str, at: int, *, needed: bool = False) -> Expression:
        """The arguments of a reduction, or of ``min`` and ``max`` of values."""
        if self.text == "{":
            return self._inline_reduction(operation)
        inames = self._iname_list()
        if inames is not None:
            return self._reduction_over(operation, inames)
        first, uses, bound = self.at, len(self.uses), len(self._bound)
        arguments = self._arguments()
        bare = arguments[0].name if isinstance(arguments[0], p.Variable) else None
        if bare is not None and bare in self.inames and len(arguments) == 2:
            self._bind((bare,), first, uses, bound)
            return Reduction(operation, (bare,), arguments[1])
        if operation in _MINMAX and not needed:
            if len(arguments) < 2:
                raise self.error(f"two values, or an iname and an expression, for {operation}", at=at)
            return _MINMAX[operation](tuple(arguments))
        if bare is not None and bare not in self.inames:
            raise self._unknown("iname", bare, self.inames, first)
        raise self.error(f"an iname and an expression: {operation}(k, expression)", at=first)

    def _iname_list(self) -> tuple[str, ...] | None:
        """``[i, j],`` or ``(i, j),`` before the operand; ``None``, without a step, if there is none."""
        opener, start, texts = self.text, self.at, self.tokens.texts
        if opener not in ("[", "("):
            return None
        if opener == "(" and not _is_name_tuple(self.tokens, start):
            return None
        self.at += 1
        closer = "]" if opener == "[" else ")"
        inames: list[str] = []
        while True:
            name = self.name("an iname")
            if name not in self.inames:
                raise self._unknown("iname", name, self.inames, self.at - 1)
            if name in inames:
                raise self.error("an iname that is not in the list yet", at=self.at - 1)
            inames.append(name)
            if texts[self.at] != ",":
                break
            self.at += 1
        self.take(closer, f"',' or '{closer}'")
        return tuple(inames)

    def _reduction_over(self, operation: str, inames: tuple[str, ...]) -> Expression:
        first, uses, bound = self.at - 1, len(self.uses), len(self._bound)
        self.take(",")
        operand = self.expression()
        self.take(")", "')' or an operator")
        self._bind(inames, first, uses, bound)
        return Reduction(operation, inames, operand)

    def _bind(self, inames: tuple[str, ...], at: int, uses: int, bound: int) -> None:
        """Remove the mentions of *inames* since *uses*; :raises ParseError: one was bound since *bound*."""
        for name, place in self._bound[bound:]:
            if name in inames:
                raise self.error(f"an iname other than '{name}'", at=place,
                                 message=f"The reduction over '{name}' stands in one over '{name}'.")
        self._bound.extend((name, at) for name in inames)
        self.uses[uses:] = [u for u in self.uses[uses:] if u.rank != BARE or u.name not in inames]
        self.reductions += 1

    def _inline_reduction(self, operation: str) -> Expression:
        first, uses, bound = self.at, len(self.uses), len(self._bound)
        start, depth = self.tokens.starts[first], 0
        if self.read_domain is None:
            raise self.error("an iname")
        while True:
            depth += {"{": 1, "}": -1}.get(self.text, 0)
            self.at += 1
            if not depth:
                break
        text = self.tokens.source.text[start:self.tokens.starts[self.at - 1] + 1]
        inames = self.read_domain(text, start)
        self.take(",")
        outer, self.inames = self.inames, {*self.inames, *inames}
        operand = self.expression()
        self.inames = outer
        self.take(")", "')' or an operator")
        self._bind(inames, first, uses, bound)
        return InlineReduction(operation, inames, operand, text)

    # }}}


def _is_name_tuple(tokens: Tokens, at: int) -> bool:
    """Are the tokens at *at* ``(i, j),``?"""
    kinds, texts = tokens.kinds, tokens.texts
    at += 1
    names = 0
    while kinds[at] == "name":
        names += 1
        at += 1
        if texts[at] == ")":
            return names > 1 and texts[at + 1] == ","
        if texts[at] != ",":
            return False
        at += 1
    return False


def _counted(n: int) -> str:
    return "one argument" if n == 1 else f"{n or 'no'} arguments"


def parse_expression(text: str, *, inames: Collection[str] = (), rules: dict[str, int] | None = None,
                     what: str = "the expression") -> Expression:
    """The expression that *text* spells.

    >>> print(parse_expression("2*x[i, j] - 1"))
    2*x[i, j] + -1

    :arg inames: the names allowed as reduction inames.
    :arg rules: the number of arguments of each substitution rule.
    :raises ParseError: *text* is no expression.
    :raises UnknownNameError: it calls an unknown function.
    """
    parser = ExpressionParser(tokenize(Source(text, what)), inames=inames, rules=dict(rules or {}))
    value = parser.expression()
    parser.end("an operator or the end")
    return value
