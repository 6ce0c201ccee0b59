"""Conditions and integer expressions of a loop program as isl's sets and piecewise forms, each as C computes it."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, reduce

import islpy as isl
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.poly.affine import (
    DIM,
    NotAffineError,
    TruncatedQuotient,
    TruncatedRemainder,
    arithmetic,
    set_space,
)
from loopkit.poly.sets import range_condition, universe_params

_COMPARED = {"<": isl.PwAff.lt_set, "<=": isl.PwAff.le_set, ">": isl.PwAff.gt_set, ">=": isl.PwAff.ge_set,
             "==": isl.PwAff.eq_set, "!=": isl.PwAff.ne_set}


@lru_cache(maxsize=65536)
def piecewise(expr: Expression, dims: tuple[str, ...]) -> isl.PwAff:
    """*expr* as a function of *dims*; other names are parameters.

    ``//`` and ``%`` round down, those which isl chose to be C's are C's.

    :raises NotAffineError: *expr* is no piecewise quasi-affine form.
    """
    match expr:
        case p.Variable(name=name):
            if name in dims:
                local = isl.LocalSpace.from_space(set_space((), dims))
                return isl.PwAff.from_aff(isl.Aff.var_on_domain(local, DIM.set, dims.index(name)))
            local = isl.LocalSpace.from_space(set_space((name,), dims))
            return isl.PwAff.from_aff(isl.Aff.var_on_domain(local, DIM.param, 0))
        case bool():
            raise NotAffineError(str(expr))
        case int():
            local = isl.LocalSpace.from_space(set_space((), dims))
            value = isl.Val.int_from_si(isl.DEFAULT_CONTEXT, expr)
            return isl.PwAff.from_aff(isl.Aff.zero_on_domain(local).set_constant_val(value))
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
    if not (_constant(a) or _constant(b)):
        raise NotAffineError(f"({a}) * ({b})")
    return a.mul(b)


def _divided(expr: p.FloorDiv | p.Remainder, a: isl.PwAff, b: isl.PwAff) -> isl.PwAff:
    if not _constant(b) or not b.min_val().is_pos():
        raise NotAffineError(str(expr))
    match expr:
        case TruncatedQuotient():
            return a.tdiv_q(b)
        case TruncatedRemainder():
            return a.tdiv_r(b)
        case p.FloorDiv():
            return a.div(b).floor()
        case _:
            return a.sub(a.div(b).floor().mul(b))


def _constant(value: isl.PwAff) -> bool:
    return bool(value.is_cst())


@lru_cache(maxsize=65536)
def points_where(condition: Expression, dims: tuple[str, ...]) -> isl.Set:
    """``{ [dims] : condition }``; other names are parameters.

    :raises NotAffineError: *condition* compares something that is no piecewise quasi-affine form.
    """
    match condition:
        case p.Comparison(left=left, operator=operator, right=right):
            return _COMPARED[str(operator)](piecewise(left, dims), piecewise(right, dims))
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
    result = isl.Map.universe(isl.Space.from_domain(set_space((), dims)))
    for value in values:
        result = result.flat_range_product(isl.Map.from_pw_aff(piecewise(value, dims)))
    return result


def params_condition(points: isl.Set) -> isl.Set:
    """A set without dimensions as a condition on its parameters."""
    return points.params()


def as_points(points: isl.Set) -> isl.Set:
    """*points*, which may be a condition on parameters, as a set: without dimensions if it is one."""
    return points.from_params() if points.is_params() else points


def conjunction(values: Mapping[str, int]) -> isl.Set:
    """Parameters that have these *values*."""
    result = universe_params()
    for name, value in values.items():
        result = result.intersect(range_condition(name, value, value))
    return result
