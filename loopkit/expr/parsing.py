"""The parser of expressions: a Pratt parser over the tokens of a source, with the precedence of Python.

``min``, ``max``, ``sum``, ``product``, ``any`` and ``all`` are reductions if they have exactly two arguments and the
first is an iname, a list of inames (``[i, j]`` or ``(i, j)``) or a domain (``{[k]: 0<=k<n}``). Other calls of ``min``
and ``max`` are values: the larger of the iname ``i`` and 3 is written ``max(3, i)``. A reduction over tuples
(``argmin``, ``segmented(sum)``) has an operand for each field, or a tuple; ``argmin(i, x[i])`` adds the index ``i``.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.errors import UnknownNameError
from loopkit.expr.functions import FUNCTIONS, FunctionName, ScalarFunction
from loopkit.expr.kinds import DTYPE_NAMES, named_dtype
from loopkit.expr.nodes import COMBINED, Combined, NumberOperation, Operation, Reduction, TypeCast, negated, onto
from loopkit.expr.number_literals import SPECIAL_NUMBERS, read_number
from loopkit.expr.tokens import Cursor, Source, tokenize
from loopkit.expr.tuple_operations import BUILT_IN, Extremum
from loopkit.expr.tuple_parsing import read_tuple, segmented_name, tuple_of, with_fields
from loopkit.poly.affine import add

(_IF, _OR, _AND, _NOT, _COMPARISON, _BIT_OR, _BIT_XOR, _BIT_AND, _SHIFT, _SUM, _PRODUCT, _UNARY,
 _POWER) = range(1, 14)
_COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})


class BinaryOperator(NamedTuple):
    """A binary operator: its precedence, that of its right operand, and the node that it makes of its operands."""

    binding: int
    right: int
    node: Callable[[Any, Any], Expression]


BINARY: Mapping[str, BinaryOperator] = {
    "or": BinaryOperator(_OR, _OR, partial(onto, p.LogicalOr)),
    "and": BinaryOperator(_AND, _AND, partial(onto, p.LogicalAnd)),
    "|": BinaryOperator(_BIT_OR, _BIT_OR, lambda left, right: p.BitwiseOr((left, right))),
    "^": BinaryOperator(_BIT_XOR, _BIT_XOR, lambda left, right: p.BitwiseXor((left, right))),
    "&": BinaryOperator(_BIT_AND, _BIT_AND, lambda left, right: p.BitwiseAnd((left, right))),
    "<<": BinaryOperator(_SHIFT, _SHIFT, p.LeftShift), ">>": BinaryOperator(_SHIFT, _SHIFT, p.RightShift),
    "+": BinaryOperator(_SUM, _SUM, partial(onto, p.Sum)),
    "-": BinaryOperator(_SUM, _SUM, lambda left, right: onto(p.Sum, left, negated(right))),
    "*": BinaryOperator(_PRODUCT, _PRODUCT, partial(onto, p.Product)),
    "/": BinaryOperator(_PRODUCT, _PRODUCT, p.Quotient), "//": BinaryOperator(_PRODUCT, _PRODUCT, p.FloorDiv),
    "%": BinaryOperator(_PRODUCT, _PRODUCT, p.Remainder), "**": BinaryOperator(_POWER, _UNARY, p.Power)}

#: Python's stack bounds the depth of what is walked recursively; this stays far below.
_MOST_DEPTH = 100
_VALUES = {"true": True, "false": False, "True": True, "False": False}
_LOGIC = "conditions are joined by and, or, not"

#: loopy's names for the smaller and the larger of two values.
_EXTREMA: Mapping[str, Callable[[Any], Expression]] = {"minimum": p.Min, "maximum": p.Max}

#: Operators of other languages, and their form in the kernel language.
_ELSEWHERE: Mapping[str, str] = {
    "?": "a choice is written a if condition else b, or if(condition, a, b)",
    "$": "the uses of a rule have no tags: give some of them another rule, g_two(x) := g(x)",
    "&": _LOGIC, "|": _LOGIC, "!": _LOGIC,
    ";": "each statement is on a line of its own",
    "in": "a loop is written 'for i', and the bounds of i are in a domain"}


BARE, RULE = -1, -2


@dataclass(frozen=True, slots=True)
class NameUse:
    """One mention of a name, at the place *start* of the text.

    :ivar rank: the number of its subscripts, :data:`BARE` for a bare name, :data:`RULE` for a substitution rule.
    """

    name: str
    rank: int
    start: int


@lru_cache(maxsize=4096)
def shared_variable(name: str) -> p.Variable:
    """One object for each name: caches find identical expressions without comparing them."""
    return p.Variable(name)


@dataclass(frozen=True)
class KnownNames:
    """The names that have a meaning in an expression.

    :ivar inames: names that make ``min(k, x)`` a reduction.
    :ivar rules: the number of arguments of each substitution rule.
    :ivar operations: the reductions by name.
    :ivar functions: those of the user, by name.
    :ivar read_domain: reads an inline domain (source, text, place), returns its inames; ``None``: none is allowed.
    :ivar at_place: the subscripts of the element at a place, for arrays with a declared shape of several axes.
    :ivar offsets: the numbers or names that are added to the subscripts of arrays.
    """

    inames: Collection[str] = ()
    rules: Mapping[str, int] = field(default_factory=dict)
    operations: Mapping[str, Operation] = field(default_factory=lambda: BUILT_IN)
    functions: Mapping[str, ScalarFunction] = field(default_factory=dict)
    read_domain: Callable[[Source, str, int], tuple[str, ...]] | None = None
    at_place: Mapping[str, Callable[[Expression], tuple[Expression, ...]]] = field(default_factory=dict)
    offsets: Mapping[str, int | str] = field(default_factory=dict)


@dataclass
class ExpressionParser(Cursor):
    """A position in tokens with known names, and the *uses* of all names so far, but of inames that reductions bind."""

    known: KnownNames = field(default_factory=KnownNames)
    uses: list[NameUse] = field(default_factory=list)
    _depth: int = 0
    _bound: list[tuple[str, int]] = field(default_factory=list)

    def foreign(self, at: int) -> str | None:
        return _ELSEWHERE.get(self.tokens[at].text)

    def expression(self, floor: int = 0) -> Expression:
        """The longest expression from here whose operators bind tighter than *floor*."""
        self.enter()
        left = self._operand(floor)
        while True:
            operator = self.text
            if operator in _COMPARISONS and floor < _COMPARISON:
                left = self._comparisons(left)
            elif operator in BINARY and floor < BINARY[operator].binding:
                self.at += 1
                left = BINARY[operator].node(left, self.expression(BINARY[operator].right))
            elif operator == "if" and floor < _IF:
                left = self._choice(left)
            else:
                self.leave()
                return left

    def enter(self) -> None:
        """Begin an expression in the current one; :raises ParseError: too many are in each other."""
        if self._depth == _MOST_DEPTH:
            raise self.error("a simpler expression", message=f"{_MOST_DEPTH} expressions are in each other.",
                             hint="assign a part of it to a temporary")
        self._depth += 1

    def leave(self) -> None:
        """End an expression."""
        self._depth -= 1
    def _choice(self, then: Expression) -> p.If:
        """``then if condition else otherwise``, like Python."""
        self.at += 1
        condition = self.expression(_IF)
        self.take("else", "'else': a if condition else b")
        return p.If(condition, then, self.expression())

    def _comparisons(self, left: Expression) -> Expression:
        """``a < b <= c`` as ``a < b and b <= c``, like Python."""
        parts: list[Expression] = []
        while (operator := self.text) in _COMPARISONS:
            self.at += 1
            right = self.expression(_COMPARISON)
            parts.append(p.Comparison(left, operator, right))
            left = right
        return parts[0] if len(parts) == 1 else p.LogicalAnd(tuple(parts))

    def _operand(self, floor: int) -> Expression:
        kind, text = self.kind, self.text
        if kind == "name":
            return self._word(text, floor)
        if kind == "number":
            number = read_number(text)
            if isinstance(number, str):
                raise self.error("a number", hint=number or None)
            self.at += 1
            return number
        if self.accept("("):
            values = self.separated(self.expression)
            self.take(")", "')' or an operator")
            return self._fields(tuple_of(values) if len(values) > 1 else values[0])
        if self.accept("-", "+", "~"):
            value = self.expression(_UNARY - 1)
            return negated(value) if text == "-" else p.BitwiseNot(value) if text == "~" else value
        raise self.error("an expression")

    def _word(self, word: str, floor: int) -> Expression:
        if self.at_keyword:
            return self._keyword(word, floor)
        at = self.at
        self.at += 1
        if word == "segmented" and self.text == "(":
            word = segmented_name(self)
        if self.accept("("):
            return self._fields(self._call(word, at))
        if self.text == "." and word in ("np", "numpy"):
            raise self.error("an operator", hint="dtypes are written float32 or np.float32, inside cast( ) only")
        if self.text == "$":
            raise self.error("an operator or the end")
        return self._fields(self.called((), word, at) if word in self.known.rules else self.reference(word, at))

    def _fields(self, value: Expression) -> Expression:
        """*value*, or the field of it that is named here."""
        while self.accept("."):
            value = p.Lookup(value, self.name("the name of a field"))
        return value

    def reference(self, name: str, at: int) -> p.Variable | p.Subscript:
        """The variable or subscript that *name*, the token at *at* and before the current one, begins."""
        start = self.tokens[at].start
        if not self.accept("["):
            self.uses.append(NameUse(name, BARE, start))
            return shared_variable(name)
        if self.accept("["):
            # loopy's a[[i]]: the place in memory, which is the subscript of an array with one axis
            index: tuple[Expression, ...] = (self.expression(),)
            index = self.known.at_place[name](*index) if name in self.known.at_place else index
            self.take("]", "']]'")
            self.take("]", "']]'")
        else:
            index = tuple(self._list("]", "a subscript"))
        self.uses.append(NameUse(name, len(index), start))
        if self.text == "[":
            raise self.error("an operator", hint=f"several subscripts are written {name}[i, j]")
        index = self.from_start(name, index, at)
        return p.Subscript(shared_variable(name), index[0] if len(index) == 1 else index)

    def from_start(self, name: str, index: tuple[Expression, ...], at: int) -> tuple[Expression, ...]:
        """The subscripts *index* of *name*, the token at *at*, with its offset."""
        offset = self.known.offsets.get(name, 0)
        if len(index) != 1 and offset:
            raise self.error("one subscript", at=at, message=f"'{name}' has an offset and {len(index) or 'no'} axes.",
                             hint="leave out offset=, and pass a view of the array")
        self.uses += [NameUse(offset, BARE, self.tokens[at].start)] if isinstance(offset, str) else []
        return (add(shared_variable(offset) if isinstance(offset, str) else offset, *index),) if offset else index

    def _list(self, closer: str, what: str) -> list[Expression]:
        """Expressions up to and over *closer*, at least one."""
        if self.text == closer:
            raise self.error(what)
        items = self.separated(self.expression)
        self.take(closer, f"',' or '{closer}'")
        return items

    def _keyword(self, word: str, floor: int) -> Expression:
        if self.accept(*_VALUES):
            return _VALUES[word]
        if word == "not" and floor >= _NOT:
            raise self.error("an expression", hint="put parentheses around the 'not'")
        if self.accept("not"):
            return p.LogicalNot(self.expression(_NOT - 1))
        start = self.at
        if not self.accept("if"):
            raise self.error("an expression")
        self.take("(", "'(': if(condition, a, b)")
        if len(parts := self._list(")", "a condition")) != 3:
            raise self.error("three arguments: if(condition, a, b)", at=start)
        return p.If(*parts)

    def _call(self, name: str, at: int) -> Expression:
        """The call of *name*, the token at *at*, after its parenthesis."""
        operations = self.known.operations
        if name in operations:
            return self._reduction(name, at)
        if name in ("reduce", "simul_reduce"):
            operation = self.name("a reduction: " + ", ".join(operations))
            if operation == "segmented" and self.text == "(":
                operation = segmented_name(self)
            if operation not in operations:
                raise self._unknown("reduction", operation, operations, self.at - 1)
            self.take(",")
            return self._reduction(operation, at, needed=True)
        if name in _EXTREMA and name not in self.known.rules:
            values = self._list(")", "an argument")
            self._check_arity("function", name, 2, len(values), at)
            return _EXTREMA[name](tuple(values))
        if name == "cse" and name not in self.known.rules:
            # loopy's mark of a value to compute once, with a name for it: C compilers find such values
            value = self.expression()
            if self.accept(","):
                self.name("a name for the value")
            self.take(")", "',' or ')'")
            return value
        if name == "cast":
            return TypeCast(self.dtype_name(), self._last_argument())
        if name == "make_tuple":
            return read_tuple(self, self.expression, at)
        return self.called([] if self.accept(")") else self._list(")", "an argument"), name, at)

    def called(self, arguments: Sequence[Expression], name: str, at: int) -> Expression:
        """The call of the rule, dtype or function *name*, the token at *at*, with *arguments*."""
        if name in self.known.rules:
            self._check_rule(name, len(arguments), at)
        elif name in DTYPE_NAMES:
            if len(arguments) != 1:
                raise self.error(f"one argument for {name}", at=at)
            return TypeCast(named_dtype(DTYPE_NAMES[name]).name, arguments[0])
        elif own := self.known.functions.get(name):
            self._check_arity("function", name, own.arity, len(arguments), at)
            return p.Call(FunctionName(name, own), tuple(arguments))
        elif name in FUNCTIONS:
            self._check_arity("function", name, FUNCTIONS[name].arity, len(arguments), at)
        elif name in SPECIAL_NUMBERS:
            self._check_arity("number", name, 0, len(arguments), at)
            return SPECIAL_NUMBERS[name]
        else:
            raise self._unknown("function", name, [*self.known.functions, *FUNCTIONS, *self.known.operations,
                                                   *self.known.rules], at)
        return p.Call(p.Variable(name), tuple(arguments))

    def _last_argument(self) -> Expression:
        self.take(",")
        value = self.expression()
        self.take(")", "')' or an operator")
        return value

    def _check_rule(self, name: str, given: int, at: int) -> None:
        self.uses.append(NameUse(name, RULE, self.tokens[at].start))
        self._check_arity("substitution rule", name, self.known.rules[name], given, at)

    def _check_arity(self, kind: str, name: str, needed: int, given: int, at: int) -> None:
        if given != needed:
            counted = "one argument" if needed == 1 else f"{needed or 'no'} arguments"
            raise self.error(counted, at=at, message=f"The {kind} '{name}' takes {counted}, not {given}.")

    def _unknown(self, kind: str, name: str, known: Collection[str], at: int) -> UnknownNameError:
        return self.source.unknown(self.tokens[at].start, kind, name, known,
                                   where="the kernel" if kind == "iname" else "the kernel language")

    def dtype_name(self) -> str:
        """Step over ``float32`` or ``np.float32``; numpy's name of it."""
        word = self.name("a dtype, such as float32")
        if word in ("np", "numpy") and self.accept("."):
            word = self.name("a dtype, such as float32")
        if word not in DTYPE_NAMES:
            raise self._unknown("dtype", word, DTYPE_NAMES, self.at - 1)
        return named_dtype(DTYPE_NAMES[word]).name

    def _reduction(self, operation: str, at: int, *, needed: bool = False) -> Expression:
        """The arguments of a reduction, or of ``min``, ``max`` and operations on tuples that combine two values."""
        first, uses, bound = self.at, len(self.uses), len(self._bound)
        of_tuples = bool(self.known.operations[operation].fields)
        if self.text == "{":
            domain, inames = self._inline_domain()
            outer, self.known = self.known, replace(self.known, inames={*self.known.inames, *inames})
            operand = self._operand_of(operation, inames, at)
            self.known = outer
            self._bind(inames, first, uses, bound)
            return Reduction(operation, inames, operand, (domain,))
        if self.text == "[" or self._at_name_tuple():
            inames = self._iname_list()
            first = self.at - 1
            operand = self._operand_of(operation, inames, at)
            if not inames and not isinstance(self.known.operations[operation], NumberOperation | Extremum):
                raise self.error("an iname", at=first, message=f"The reduction '{operation}' is over no iname.")
            if not inames:
                return operand                  # one operand, with nothing to combine it with
        else:
            arguments = self._list(")", "an argument")
            bare = arguments[0].name if isinstance(arguments[0], p.Variable) else None
            several = len(arguments) > 2 and of_tuples
            inames = (bare,) if bare is not None and bare in self.known.inames and (
                len(arguments) == 2 or several) else ()
            operand = with_fields(self, self.known.operations[operation], inames, arguments[1:], at) if inames \
                else arguments[-1]
        if inames:
            self._bind(inames, first, uses, bound)
            return Reduction(operation, inames, operand)
        if of_tuples and not needed and len(arguments) == 2:
            return Combined(self.known.operations[operation], *arguments)
        if operation in ("min", "max") and not needed and len(arguments) > 1:
            return COMBINED[operation](tuple(arguments))
        if operation in ("min", "max") and not needed:
            raise self.error(f"two values, or an iname and an expression, for {operation}", at=at)
        if bare is not None and bare not in self.known.inames:
            raise self._unknown("iname", bare, self.known.inames, first)
        raise self.error(f"an iname and an expression: {operation}(k, expression)", at=first)

    def _operand_of(self, operation: str, inames: tuple[str, ...], at: int) -> Expression:
        """The operand of a reduction, after its inames, up to and over the closing parenthesis."""
        if not self.known.operations[operation].fields:
            return self._last_argument()
        self.take(",")
        return with_fields(self, self.known.operations[operation], inames, self._list(")", "an operand"), at)

    def _at_name_tuple(self) -> bool:
        """Are the next tokens ``(i, j),``, ``(i,),`` or ``(),``?"""
        tokens, end = self.tokens, self.at + 1
        if self.text != "(":
            return False
        while tokens[end].kind == "name" and tokens[end + 1].text == ",":
            end += 2
        if end > self.at + 1 and tokens[end].kind == "name":
            end += 1
        return tokens[end].text == ")" and tokens[end + 1].text == ","

    def _iname_list(self) -> tuple[str, ...]:
        """``[i, j]`` or ``(i, j)``."""
        closer = "]" if self.text == "[" else ")"
        inames: list[str] = []
        self.at += 1
        while self.text != closer:
            name = self.name("an iname")
            if name not in self.known.inames:
                raise self._unknown("iname", name, self.known.inames, self.at - 1)
            if name in inames:
                raise self.error("an iname that is not in the list yet", at=self.at - 1)
            inames.append(name)
            if not self.accept(","):
                break
        self.take(closer, f"',' or '{closer}'")
        return tuple(inames)

    def _inline_domain(self) -> tuple[str, tuple[str, ...]]:
        """The text of a domain and its inames."""
        if self.known.read_domain is None:
            raise self.error("an iname")
        first, start, depth = self.at, self.tokens[self.at].start, 0
        while depth or self.at == first:
            depth += {"{": 1, "}": -1}.get(self.text, 0)
            self.at += 1
        text = self.source.text[start:self.tokens[self.at - 1].start + 1]
        return text, self.known.read_domain(self.source, text, start)

    def _bind(self, inames: tuple[str, ...], at: int, uses: int, bound: int) -> None:
        """Remove the mentions of *inames* since *uses*; :raises ParseError: one was bound since *bound*."""
        for name, place in self._bound[bound:]:
            if name in inames:
                raise self.error(f"an iname other than '{name}'", at=place,
                                 message=f"The reduction over '{name}' is in one over '{name}'.")
        self._bound.extend((name, at) for name in inames)
        self.uses[uses:] = [u for u in self.uses[uses:] if u.rank != BARE or u.name not in inames]


def parse_expression(text: str, what: str = "the expression", known: KnownNames | None = None) -> Expression:
    """The expression that *text* spells, called *what* in messages.

    >>> print(parse_expression("2*x[i, j] - 1"))
    2*x[i, j] + -1

    :raises ParseError: *text* is not an expression.
    :raises UnknownNameError: it calls an unknown function.
    """
    source = Source(text, what)
    parser = ExpressionParser(source, tokenize(source), known=known or KnownNames())
    value = parser.expression()
    parser.end("an operator or the end")
    return value
