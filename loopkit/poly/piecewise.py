"""Conditions and integer expressions of a loop program as isl's sets and piecewise forms, each as C computes it."""
from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce

import islpy as isl
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.poly.affine import (
    NotAffineError,
    TruncatedQuotient,
    TruncatedRemainder,
    arithmetic,
    remainder,
    set_space,
    to_aff,
)
from loopkit.poly.sets import COMPARED, InstanceSet, as_points, constant_range


@lru_cache(maxsize=65536)
def piecewise(expr: Expression, dims: tuple[str, ...]) -> isl.PwAff:
    """*expr* as a function of *dims*; other names are parameters.

    ``//`` and ``%`` round down, those which isl chose to be C's are C's.

    :raises NotAffineError: *expr* is no piecewise quasi-affine form.
    """
    match expr:
        case p.Variable() | int():
            return isl.PwAff.from_aff(to_aff(expr, dims))
        case p.Sum(children=children):
            return reduce(isl.PwAff.add, [piecewise(arithmetic(c), dims) for c in children])
        case p.Product(children=children):
            return reduce(_product, [piecewise(arithmetic(c), dims) for c in children])
        case p.Min(children=children):
            return reduce(isl.PwAff.min, [piecewise(c, dims) for c in children])
        case p.Max(children=children):
            return reduce(isl.PwAff.max, [piecewise(c, dims) for c in children])
        case p.FloorDiv(numerator=a, denominator=b) | p.Remainder(numerator=a, denominator=b):
            return _divided(expr, piecewise(a, dims), piecewise(b, dims))
        case p.If(condition=condition, then=then, else_=else_):
            yes, no = points_where(condition, dims), points_where(condition, dims).complement()
            return piecewise(then, dims).intersect_domain(yes).union_add(piecewise(else_, dims).intersect_domain(no))
        case _:
            raise NotAffineError(str(expr))


def is_piecewise(expr: Expression) -> bool:
    """Is *expr* a piecewise quasi-affine form of the names in it?"""
    try:
        piecewise(expr, ())
    except NotAffineError:
        return False
    return True


def _product(a: isl.PwAff, b: isl.PwAff) -> isl.PwAff:
    if not (a.is_cst() or b.is_cst()):
        raise NotAffineError(f"({a}) * ({b})")
    return a.mul(b)


def _divided(expr: p.FloorDiv | p.Remainder, a: isl.PwAff, b: isl.PwAff) -> isl.PwAff:
    if not b.is_cst() or not (divisor := b.min_val()).is_pos():
        raise NotAffineError(str(expr))
    match expr:
        case TruncatedQuotient():
            return a.tdiv_q(b)
        case TruncatedRemainder():
            return a.tdiv_r(b)
        case p.FloorDiv():
            return a.scale_down_val(divisor).floor()
        case _:
            return a.mod_val(divisor)


@lru_cache(maxsize=65536)
def points_where(condition: Expression, dims: tuple[str, ...]) -> isl.Set:
    """``{ [dims] : condition }``; other names are parameters.

    :raises NotAffineError: *condition* compares something that is no piecewise quasi-affine form.
    """
    match condition:
        case p.Comparison(left=left, operator=operator, right=right):
            return COMPARED[str(operator)](piecewise(left, dims), piecewise(right, dims))
        case p.LogicalAnd(children=children):
            return reduce(isl.Set.intersect, [points_where(c, dims) for c in children])
        case p.LogicalOr(children=children):
            return reduce(isl.Set.union, [points_where(c, dims) for c in children])
        case p.LogicalNot(child=child):
            return points_where(child, dims).complement()
        case bool():
            space = set_space((), dims)
            return isl.Set.universe(space) if condition else isl.Set.empty(space)
        case _:
            raise NotAffineError(str(condition))


def piecewise_relation(dims: tuple[str, ...], values: Sequence[Expression]) -> isl.Map:
    """``{ [dims] -> [values] }``, where each value may be piecewise.

    :raises NotAffineError: a value is no piecewise quasi-affine form.
    """
    return reduce(isl.Map.flat_range_product, (isl.Map.from_pw_aff(piecewise(value, dims)) for value in values),
                  isl.Map.universe(isl.Space.from_domain(set_space((), dims))))


def params_where(condition: Expression) -> isl.Set:
    """The parameters at which *condition* holds; :raises NotAffineError: as :func:`points_where`."""
    return points_where(condition, ()).params()


def at_least(expr: Expression, low: int) -> isl.Set | None:
    """The parameters with ``expr >= low``; ``None`` if *expr* is no piecewise quasi-affine form."""
    try:
        return params_where(p.Comparison(expr, ">=", low))
    except NotAffineError:
        return None


def projected(points: isl.Set, names: Sequence[str], dims: Sequence[str]) -> isl.Set:
    """*points*, with the dimensions *names*, as a set of the dimensions *dims*: parameters may become dimensions."""
    return as_points(InstanceSet(tuple(names), points).onto(dims).set)


def known_remainder(expr: Expression | None, divisor: int, params: isl.Set) -> int | None:
    """The remainder of *expr* by *divisor*, if it is the same at all points of the parameter set *params*."""
    if expr is None or isinstance(expr, int):
        return None if expr is None else expr % divisor
    rest = p.Variable("rest'")                # no parameter of a kernel is called so
    try:
        points = points_where(p.Comparison(remainder(expr, divisor), "==", rest), (rest.name,)).intersect_params(params)
    except NotAffineError:
        return None
    low, high = constant_range(points, 0)
    return low if low == high else None
