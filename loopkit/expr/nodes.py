"""Expressions: loopkit's own nodes beside pymbolic's, the language's reductions, constructors, and text."""
from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pymbolic.primitives as p
from pymbolic.mapper.stringifier import PREC_NONE, StringifyMapper
from pymbolic.typing import ArithmeticExpression, Expression

from loopkit.expr.kinds import kind_of, largest_real, named_dtype


class _Stringifier(StringifyMapper[[]]):
    """Gives our nodes a ``str``, also inside pymbolic's nodes: the text of the kernel language."""

    def __call__(self, expr: Expression, prec: int = PREC_NONE) -> str:
        return to_text(expr)


class _Node(p.ExpressionNode):
    """Base of our nodes; it teaches them to print."""

    def make_stringifier(self, originating_stringifier: object = None) -> StringifyMapper[[]]:
        return _Stringifier()


@p.expr_dataclass()
class Reduction(_Node):
    """``sum([i, j], expr)``: *operation* over *inames* of *expr*, in an expression of an instruction.

    >>> from pymbolic import var
    >>> print(lk.Assignment("y", lk.Reduction("max", ("k",), var("x")[var("k")])))
    y = max(k, x[k])

    It exists only between parsing and the making of the kernel. A kernel has its reductions as statements (init,
    update, final): :class:`loopkit.kernel.statement.ReductionNode`.

    :ivar operation: ``"sum"``, ``"max"`` or another reduction of the kernel language, or one of the user.
    :ivar inames: a tuple of names.
    :ivar declared: the text of the domain that it declares for its inames, ``sum({[k]: 0<=k<i}, expr)``, if it does.
    """

    operation: str
    inames: tuple[str, ...]
    expr: Expression
    declared: tuple[str, ...] = ()


@p.expr_dataclass()
class TypeCast(_Node):
    """``cast(float32, child)``: *child* converted to the dtype called *dtype_name*, such as ``"float32"``."""

    dtype_name: str
    child: Expression

    @property
    def dtype(self) -> np.dtype:
        return named_dtype(self.dtype_name)


@p.expr_dataclass()
class Neutral(_Node):
    """The neutral element of a reduction operation; it gets its value with the accumulator's dtype."""

    operation: str


@p.expr_dataclass()
class MakeTuple(_Node):
    """``make_tuple(value=x, index=i)``: a tuple, the values of its *fields* by name."""

    fields: tuple[str, ...]
    values: tuple[Expression, ...]


@p.expr_dataclass()
class Combined(_Node):
    """``argmin(left, right)``: two tuples combined by the *operation* of a reduction."""

    operation: Operation
    left: Expression
    right: Expression


#: The node that combines two operands, by the names of :class:`NumberOperation`.
COMBINED: Mapping[str, Callable[[Any], Expression]] = {
    "+": p.Sum, "*": p.Product, "min": p.Min, "max": p.Max, "and": p.LogicalAnd, "or": p.LogicalOr,
    "&": p.BitwiseAnd, "|": p.BitwiseOr, "^": p.BitwiseXor}


@dataclass(frozen=True)
class Operation(ABC):
    """The operation of a reduction; a new one is one frozen value.

    :ivar name: its name in the language.
    :cvar reorderable: operands may be combined in any order and grouping.
    """

    name: str
    reorderable = True

    @property
    def associative(self) -> bool:
        """May operands be combined in any grouping that keeps their order?"""
        return self.reorderable

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of its operands, if they are tuples (:mod:`loopkit.expr.tuples`)."""
        return ()

    @abstractmethod
    def neutral_of(self, dtype: np.dtype) -> object:
        """The neutral element as a numpy scalar of *dtype*."""

    @abstractmethod
    def apply(self, a: Expression, b: Expression) -> Expression:
        """``a combined with b`` as an expression; *a* is the earlier one."""

    def merged(self, dtype: np.dtype) -> Expression:
        """The operands ``a`` and ``b`` of *dtype* combined, as an expression of numbers."""
        return self.apply(p.Variable("a"), p.Variable("b"))

    def same_bits_swapped(self, dtype: np.dtype) -> bool:
        """Has ``a combined with b`` the bits of ``b combined with a`` on a GPU, for all ``a`` and ``b`` of *dtype*?"""
        return False


@dataclass(frozen=True)
class NumberOperation(Operation):
    """An operation of the language on numbers.

    :ivar combine: the two-operand form: ``"+"``, ``"*"``, ``"min"``, ``"max"``, ``"and"``, ``"or"``, ``"&"``,
        ``"|"``, ``"^"``.
    """

    combine: str

    def neutral_of(self, dtype: np.dtype) -> object:
        if self.combine in ("+", "*"):
            return dtype.type(1 if self.combine == "*" else 0)
        if self.combine in ("&", "|", "^") and dtype.kind != "b":
            return np.array(-1 if self.combine == "&" else 0).astype(dtype)[()]
        largest = self.combine in ("min", "and", "&")
        if self.combine in ("and", "or") or dtype.kind == "b":
            return np.bool_(largest)
        if kind_of(dtype) == "f":
            most = np.inf if dtype.name != "float8_e4m3fn" else largest_real(dtype)      # it has no infinities
            return dtype.type(most if largest else -most)
        return dtype.type(np.iinfo(dtype).max if largest else np.iinfo(dtype).min)

    def apply(self, a: Expression, b: Expression) -> Expression:
        return COMBINED[self.combine]((a, b))

    def same_bits_swapped(self, dtype: np.dtype) -> bool:
        """True for integers and reals: IEEE 754 rounds the exact sum or product, which no order changes.

        The greater one of +0 and -0 is +0, whichever comes first. A NaN may have other bits, which no operation reads.
        A complex number has several operations. The compiler may fuse one of two products into their sum, and their
        order then determines which one.
        """
        return dtype.kind != "c"


REDUCTIONS = {op.name: op for op in (
    NumberOperation("sum", "+"), NumberOperation("product", "*"), NumberOperation("min", "min"),
    NumberOperation("max", "max"), NumberOperation("any", "or"), NumberOperation("all", "and"),
    NumberOperation("bit_and", "&"), NumberOperation("bit_or", "|"), NumberOperation("bit_xor", "^"))}


# pymbolic's types keep truth values out of arithmetic; the kernel language allows them there, as C and numpy do

def product_of(*factors: Expression) -> p.Product:
    """``a * b * ...``, as one node."""
    return p.Product(cast("tuple[ArithmeticExpression, ...]", factors))


def onto(node: Callable[[Any], Expression], left: Expression, right: Expression) -> Expression:
    """``left + right`` (or another operation of several operands) with the operands of *left* taken in."""
    taken_in = left.children if isinstance(left, p.Sum | p.Product | p.LogicalAnd | p.LogicalOr) \
        and type(left) is node else (left,)
    return node((*taken_in, right))


def negated(expr: Expression) -> Expression:
    """``-expr`` with the sign in the leading constant: ``-2*x`` for ``2*x``, ``-1*x`` for ``x``."""
    first, *rest = expr.children if isinstance(expr, p.Product) else (expr,)
    if not isinstance(first, int | float | complex | np.number) or isinstance(first, bool):
        return product_of(-1, first, *rest)
    if not rest:
        return -first
    if first == -1 and isinstance(first, int):
        return rest[0] if len(rest) == 1 else product_of(*rest)
    return product_of(-first, *rest)


# The text of expressions in the kernel language, which the parser reads back

_LOWEST, _OR, _AND, _NOT, _COMPARISON, _BIT_OR, _BIT_XOR, _BIT_AND, _SHIFT, _SUM, _PRODUCT, _UNARY, _POWER, _ATOM = \
    range(14)
#: The operators of integers' bits, with their precedence.
_BITS: Mapping[type, tuple[str, int]] = {
    p.BitwiseOr: ("|", _BIT_OR), p.BitwiseXor: ("^", _BIT_XOR), p.BitwiseAnd: ("&", _BIT_AND),
    p.LeftShift: ("<<", _SHIFT), p.RightShift: (">>", _SHIFT)}


def to_text(expr: Expression) -> str:
    """*expr* in the kernel language, without redundant parentheses.

    >>> i, n = p.Variable("i"), p.Variable("n")
    >>> to_text(p.Subscript(p.Variable("a"), (p.Sum((p.Product((16, i)), -1)), p.Product((-1, n)))))
    'a[16*i - 1, -n]'
    """
    return _at(expr, _LOWEST)


def _at(expr: Expression, precedence: int) -> str:
    """*expr* as an operand of an operator that binds as tight as *precedence*."""
    text, own = _text_and_precedence(expr)
    return text if own >= precedence else f"({text})"


def _text_and_precedence(expr: Expression) -> tuple[str, int]:
    match expr:
        case p.Variable():
            return expr.name, _ATOM
        case p.Subscript():
            return f"{_at(expr.aggregate, _ATOM)}[{_listed(expr.index_tuple)}]", _ATOM
        case p.Sum(children=children) if children:
            return _sum_text(children), _SUM
        case p.Product(children=children) if children:
            return _product_text(children), _PRODUCT
        case p.Quotient() | p.FloorDiv() | p.Remainder():
            operator = "/" if isinstance(expr, p.Quotient) else "//" if isinstance(expr, p.FloorDiv) else "%"
            return f"{_at(expr.numerator, _PRODUCT)} {operator} {_at(expr.denominator, _UNARY)}", _PRODUCT
        case p.Power():
            return f"{_at(expr.base, _ATOM)}**{_exponent(expr.exponent)}", _POWER
        case p.Comparison():
            return f"{_at(expr.left, _BIT_OR)} {expr.operator} {_at(expr.right, _BIT_OR)}", _COMPARISON
        case p.BitwiseAnd() | p.BitwiseOr() | p.BitwiseXor():
            operator, own = _BITS[type(expr)]
            return f" {operator} ".join([_at(c, own + (k > 0)) for k, c in enumerate(expr.children)]), own
        case p.LeftShift() | p.RightShift():
            operator, own = _BITS[type(expr)]
            return f"{_at(expr.shiftee, own)} {operator} {_at(expr.shift, own + 1)}", own
        case p.BitwiseNot():
            return f"~{_at(expr.child, _UNARY)}", _UNARY
        case p.LogicalAnd(children=children):
            return " and ".join(_at(c, _NOT) for c in children), _AND
        case p.LogicalOr(children=children):
            return " or ".join(_at(c, _AND) for c in children), _OR
        case p.LogicalNot():
            return f"not {_at(expr.child, _NOT)}", _NOT
        case p.If():
            return f"if({_listed((expr.condition, expr.then, expr.else_))})", _ATOM
        case p.Min() | p.Max():
            return f"{'min' if isinstance(expr, p.Min) else 'max'}({_listed(expr.children)})", _ATOM
        case p.Call(function=function, parameters=parameters):
            return f"{_at(function, _ATOM)}({_listed(parameters)})", _ATOM
        case Reduction():
            inames = expr.inames[0] if len(expr.inames) == 1 else f"[{', '.join(expr.inames)}]"
            operands = expr.expr.values if isinstance(expr.expr, MakeTuple) else (expr.expr,)
            return f"{expr.operation}({inames}, {_listed(operands)})", _ATOM
        case MakeTuple(fields=fields, values=values):
            named = fields != tuple(f"f{place}" for place in range(len(fields)))
            parts = [f"{field}={to_text(value)}" if named else to_text(value)
                     for field, value in zip(fields, values, strict=True)]
            return f"make_tuple({', '.join(parts)})", _ATOM
        case p.Lookup():
            return f"{_at(expr.aggregate, _ATOM)}.{expr.name}", _ATOM
        case Combined():
            return f"{expr.operation.name}({_listed((expr.left, expr.right))})", _ATOM
        case TypeCast(dtype_name="float32", child=int() | float() as number) if _number_text(number)[1] == _ATOM \
                and not isinstance(number, bool | np.generic) and math.isfinite(number):
            return f"{to_text(number)}f", _ATOM
        case TypeCast():
            return f"cast({expr.dtype_name}, {to_text(expr.child)})", _ATOM
        case Neutral():
            return f"neutral({expr.operation})", _ATOM
        case _:
            return _number_text(expr)


def _listed(parts: tuple[Expression, ...]) -> str:
    return ", ".join(map(to_text, parts))


def _sum_text(terms: tuple[Expression, ...]) -> str:
    first, *rest = terms
    signed = [("+", term) if (positive := _without_sign(term)) is None else ("-", positive) for term in rest]
    return " ".join([_at(first, _SUM), *(f"{sign} {_at(term, _PRODUCT)}" for sign, term in signed)])


def _product_text(factors: tuple[Expression, ...]) -> str:
    first, *rest = factors
    if rest and _is_number(first) and first == -1 and isinstance(first, int) and not _is_number(rest[0]):
        # a quotient would take the sign for its numerator's
        return f"-{'*'.join(_at(x, _UNARY) for x in rest)}"
    # (a / b)*c: right without the parentheses, but read wrongly
    divides = isinstance(first, p.Quotient | p.FloorDiv | p.Remainder)
    return "*".join([_at(first, _UNARY if divides else _PRODUCT), *(_at(x, _UNARY) for x in rest)])


def _exponent(exponent: Expression) -> str:
    """The exponent of a power: signs and further powers need no parentheses there."""
    text, own = _text_and_precedence(exponent)
    return text if own >= _POWER or (_is_number(exponent) and own == _PRODUCT) else f"({text})"


def _without_sign(term: Expression) -> Expression | None:
    """``x`` for a *term* ``-x`` whose sign is a literal's, else ``None``."""
    first, *rest = term.children if isinstance(term, p.Product) else (term,)
    if not _is_number(first) or not str(first).startswith("-"):
        return None
    # the rest may begin with a number: keep the two apart
    return None if rest and first == -1 and isinstance(first, int) and _is_number(rest[0]) else negated(term)


def _is_number(expr: Expression) -> bool:
    return isinstance(expr, int | float | np.integer | np.floating) and not isinstance(expr, bool | np.bool_)


def _number_text(value: Expression) -> tuple[str, int]:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return ("true" if value else "false"), _ATOM
    if isinstance(value, complex):
        if value.real:
            return f"{value.real!r} {'-' if value.imag < 0 else '+'} {abs(value.imag)!r}j", _SUM
        text = f"{value.imag!r}".removesuffix(".0") + "j"
    elif isinstance(value, float) and not math.isfinite(value):
        text = f"{value!r}()"
    else:
        text = repr(value)
    return text, _PRODUCT if text.startswith("-") else _ATOM
