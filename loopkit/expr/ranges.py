"""Lower bounds of real expressions as a machine computes them, from their form alone.

Rounding is monotonic, so a sum that starts from 0.01 and only grows is at least 0.01, contracted or not. A bound does
not exclude a NaN: a value is a NaN or at least its bound.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.dtypes import Type, Weak, rank_of

#: Functions that are never below 0.
_NEVER_NEGATIVE = frozenset({"abs", "fabs", "sqrt", "exp", "exp2", "exp10", "hypot"})


@dataclass(frozen=True)
class Bounds:
    """Lower bounds of values computed in *dtype*.

    :ivar type_of: the type of a subexpression.
    :ivar nonnegative: is an integer expression never negative?
    """

    dtype: np.dtype
    type_of: Callable[[Expression], Type]
    nonnegative: Callable[[Expression], bool]

    def is_normal(self, expr: Expression) -> bool:
        """Is *expr* never subnormal, zero or negative?"""
        low = self.least(expr) if self._is_own(expr) else None
        return low is not None and low >= float(np.finfo(self.dtype).tiny)

    def least(self, expr: Expression) -> float | None:
        """A lower bound of *expr*; ``None``: none is known."""
        if not isinstance(expr, p.ExpressionNode):
            with np.errstate(over="ignore"):
                value = float(self.dtype.type(expr))
            return value if math.isfinite(value) else None
        if not self._is_real(expr):
            return 0.0 if self.nonnegative(expr) else None
        match expr:
            case p.Sum(children=terms):
                lows = self._all(terms)
                return max(lows) if lows and min(lows) >= 0 else None
            case p.Product(children=factors):
                lows = self._all(factors)
                return 0.0 if lows and min(lows) >= 0 else None
            case p.Quotient(numerator=a, denominator=b):
                lows = self._all((a, b))
                # -0.0 is no negative number, but divides like one; an integer has no such zero
                return 0.0 if lows and lows[0] >= 0 and lows[1] >= 0 and (lows[1] > 0 or not self._is_real(b)) else None
            case p.Power(base=base, exponent=int(exponent)) if exponent % 2 == 0 and self._is_real(base):
                return 0.0
            case p.Max(children=children):
                # a NaN loses: the bound of an operand is one of the whole if that is a number for sure
                lows, each = self._all(children), self._each(children)
                numbers = [low for low, e in zip(each, children, strict=True) if not isinstance(e, p.ExpressionNode)]
                return max((low for low in (min(lows, default=None), *numbers) if low is not None), default=None)
            case p.Min() | p.If():
                branches = expr.children if isinstance(expr, p.Min) else (expr.then, expr.else_)
                return min(self._all(branches), default=None)
            case p.Call(function=p.Variable(name=name)) if name in _NEVER_NEGATIVE:
                return 0.0
            case _:
                return None

    def _each(self, operands: tuple[Expression, ...]) -> list[float | None]:
        """The bound of each operand. In another operand's dtype, a small literal may be 0."""
        lows = [self.least(e) for e in operands]
        if all(map(self._is_own, operands)):
            return lows
        return [low if low is None else min(low, 0.0) for low in lows]

    def _all(self, operands: tuple[Expression, ...]) -> list[float]:
        """The bounds of all operands; empty if one has none."""
        known = [low for low in self._each(operands) if low is not None]
        return known if len(known) == len(operands) else []

    def _is_real(self, expr: Expression) -> bool:
        return rank_of(self.type_of(expr)) == 2

    def _is_own(self, expr: Expression) -> bool:
        found = self.type_of(expr)
        return isinstance(found, Weak) or found == self.dtype
