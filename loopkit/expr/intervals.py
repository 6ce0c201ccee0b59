"""Value ranges: intervals of integer expressions and lower bounds of real ones, from their form and their dtypes."""
from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.dtypes import Type, Weak, rank_of
from loopkit.expr.mappers import children, variables


@dataclass(frozen=True)
class Interval:
    """The integers from *low* to *high*."""

    low: int
    high: int

    @classmethod
    def around(cls, ends: Iterable[int]) -> Interval:
        """The smallest interval with all *ends*."""
        values = list(ends)
        return cls(min(values), max(values))

    def inside(self, dtype: np.dtype) -> bool:
        """Has *dtype* all of them?"""
        return of_dtype(dtype).holds(self.low) and of_dtype(dtype).holds(self.high)

    def holds(self, value: int) -> bool:
        return self.low <= value <= self.high

    @property
    def largest(self) -> int:
        """The largest absolute value."""
        return max(abs(self.low), abs(self.high))


#: The interval of an unknown value: wider than that of any integer of 64 bits.
ANY = Interval(-2**64, 2**64)


def of_dtype(dtype: np.dtype) -> Interval:
    """The interval of the values of an integer *dtype*."""
    info = np.iinfo(dtype)
    return Interval(int(info.min), int(info.max))


def is_linear(expr: Expression) -> bool:
    """Is nothing but literals multiplied with a part of *expr*, on its way to whole numbers?

    >>> i, j = p.Variable("i"), p.Variable("j")
    >>> is_linear(3*i + j // 2), is_linear((i*j) // 2)
    (True, False)
    """
    match expr:
        case p.Product(children=factors):
            return sum(bool(variables(f)) for f in factors) <= 1 and all(map(is_linear, factors))
        case p.Power():
            return not variables(expr)
        case p.LeftShift(shiftee=shifted, shift=bits):
            return is_linear(shifted) and not variables(bits)
        case p.Subscript():
            return True
        case _:
            return all(map(is_linear, children(expr)))


def interval(expr: Expression, leaf: Callable[[Expression], Interval]) -> Interval:
    """The interval of the values of an integer expression, without overflow in its operations.

    :arg leaf: the interval of a name, an element or a cast.

    >>> interval(p.Variable("s")*4 + 1, lambda e: Interval(0, 255))
    Interval(low=1, high=1021)
    """
    def of(e: Expression) -> Interval:
        return interval(e, leaf)
    match expr:
        case int() | np.integer():
            return Interval(int(expr), int(expr))
        case p.Sum(children=terms):
            parts = list(map(of, terms))
            return Interval(sum(x.low for x in parts), sum(x.high for x in parts))
        case p.Product(children=factors):
            result = Interval(1, 1)
            for x in map(of, factors):
                result = Interval.around(a*b for a in (result.low, result.high) for b in (x.low, x.high))
            return result
        case p.FloorDiv(numerator=numerator, denominator=denominator):
            a, b = of(numerator), of(denominator)
            if b.low > 0:
                return Interval.around(x // y for x in (a.low, a.high) for y in (b.low, b.high))
            return Interval(-a.largest - 1, a.largest + 1)
        case p.Remainder(denominator=denominator):
            b = of(denominator)
            return Interval(min(b.low + 1, 0), max(b.high - 1, 0))
        case p.LeftShift(shiftee=shifted, shift=bits) | p.RightShift(shiftee=shifted, shift=bits):
            return _shifted(of(shifted), of(bits), isinstance(expr, p.LeftShift))
        case p.BitwiseAnd() | p.BitwiseOr() | p.BitwiseXor() | p.BitwiseNot():
            return _interval_of_bits(expr, list(map(of, children(expr))))
        case p.Min() | p.Max():
            extreme, each = min if isinstance(expr, p.Min) else max, list(map(of, expr.children))
            return Interval(extreme(x.low for x in each), extreme(x.high for x in each))
        case p.If(then=then, else_=else_):
            return Interval.around(end for x in (of(then), of(else_)) for end in (x.low, x.high))
        case p.Comparison() | p.LogicalAnd() | p.LogicalOr() | p.LogicalNot():
            return Interval(0, 1)
        case p.Call() | p.Power() | p.Quotient():
            return ANY
        case _:
            return leaf(expr)


def _shifted(value: Interval, bits: Interval, left: bool) -> Interval:
    ends = (value.low, value.high)
    if not left:
        # a count that is negative or too large leaves nothing but the sign
        counts = (0, 64) if bits.low < 0 else (min(bits.low, 64), min(bits.high, 64))
        return Interval.around(x >> n for x in ends for n in counts)
    if bits.low < 0 or bits.high > 63:
        return ANY
    return Interval.around(x << n for x in ends for n in (bits.low, bits.high))


def _interval_of_bits(expr: Expression, each: list[Interval]) -> Interval:
    """The interval of an operation on the bits of values in the intervals *each*."""
    if isinstance(expr, p.BitwiseNot):
        return Interval(~each[0].high, ~each[0].low)
    natural = [x.high for x in each if x.low >= 0]
    if isinstance(expr, p.BitwiseAnd) and natural:
        return Interval(0, min(natural))
    # no bit is above the highest bit of an operand, but for those of the sign
    bound = 2**max(max(x.high, ~x.low).bit_length() for x in each)
    return Interval(0 if len(natural) == len(each) else -bound, bound - 1)


#: Functions that are never below 0.
_NEVER_NEGATIVE = frozenset({"abs", "fabs", "sqrt", "exp", "exp2", "exp2_ftz", "exp10", "hypot"})


@dataclass(frozen=True)
class Bounds:
    """Lower bounds of values computed in *dtype*, from the form of expressions.

    Rounding is monotonic, so a sum that starts from 0.01 and only grows is at least 0.01, contracted or not. A bound
    does not exclude a NaN: a value is a NaN or at least its bound.

    :ivar type_of: the type of a subexpression.
    :ivar nonnegative: is an integer expression never negative?
    """

    dtype: np.dtype
    type_of: Callable[[Expression], Type]
    nonnegative: Callable[[Expression], bool]

    def is_normal(self, expr: Expression) -> bool:
        """Is *expr* never subnormal, zero or negative?"""
        return self._is_own(expr) and self.least(expr) >= float(np.finfo(self.dtype).tiny)

    def least(self, expr: Expression) -> float:
        """A lower bound of *expr*; minus infinity: none is known."""
        if not isinstance(expr, p.ExpressionNode):
            with np.errstate(over="ignore"):
                value = float(self.dtype.type(expr))
            return value if math.isfinite(value) else -math.inf
        if not self._is_real(expr):
            return 0.0 if self.nonnegative(expr) else -math.inf
        match expr:
            case p.Sum(children=terms):
                lows = self._each(terms)
                return max(lows) if min(lows) >= 0 else -math.inf
            case p.Product(children=factors):
                return 0.0 if min(self._each(factors)) >= 0 else -math.inf
            case p.Quotient(numerator=a, denominator=b):
                low, divisor = self._each((a, b))
                # -0.0 is not negative, but divides like a negative number; an integer has no such zero
                return 0.0 if low >= 0 and (divisor > 0 or (divisor == 0 and not self._is_real(b))) else -math.inf
            case p.Power(base=base, exponent=int(exponent)) if exponent % 2 == 0 and self._is_real(base):
                return 0.0
            case p.Max(children=children):
                # a NaN loses: the bound of an operand is one of the whole if that can be no NaN
                lows = self._each(children)
                numbers = [low for low, e in zip(lows, children, strict=True) if not isinstance(e, p.ExpressionNode)]
                return max([min(lows), *numbers])
            case p.Min() | p.If():
                branches = expr.children if isinstance(expr, p.Min) else (expr.then, expr.else_)
                return min(self._each(branches))
            case p.Call(function=p.Variable(name=name)) if name in _NEVER_NEGATIVE:
                return 0.0
            case _:
                return -math.inf

    def _each(self, operands: tuple[Expression, ...]) -> list[float]:
        """The bound of each operand. In another operand's dtype, a small literal may be 0."""
        lows = [self.least(e) for e in operands]
        return lows if all(map(self._is_own, operands)) else [min(low, 0.0) for low in lows]

    def _is_real(self, expr: Expression) -> bool:
        return rank_of(self.type_of(expr)) == 2

    def _is_own(self, expr: Expression) -> bool:
        found = self.type_of(expr)
        return isinstance(found, Weak) or found == self.dtype
