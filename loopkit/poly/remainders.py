"""Remainders of expressions: whether a number divides them, or what is left over."""
from __future__ import annotations

import islpy as isl
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.poly.affine import NotAffineError, remainder, subtract
from loopkit.poly.piecewise import points_where
from loopkit.poly.sets import InstanceSet

#: No parameter of a kernel is called so.
_REST = "rest'"


def is_multiple(expr: Expression, divisor: int) -> bool:
    """Is *expr* a multiple of *divisor* for all values of its names? ``False`` if it is not known."""
    try:
        return bool(points_where(p.Comparison(remainder(expr, divisor), "!=", 0), ()).is_empty())
    except NotAffineError:
        return False


def known_remainder(expr: Expression | None, divisor: int, params: isl.Set) -> int | None:
    """The remainder of *expr* by *divisor*, if it is the same at all points of the parameter set *params*."""
    if expr is None:
        return None
    if isinstance(expr, int):
        return expr % divisor
    points = InstanceSet((), params.from_params()).onto((_REST,))
    try:
        points = points.where(("==", subtract(remainder(expr, divisor), p.Variable(_REST))))
    except NotAffineError:
        return None
    low, high = points.constant_range(_REST)
    return low if low == high else None
