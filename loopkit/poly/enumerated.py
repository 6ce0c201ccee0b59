"""Subscripts that are affine for each single value of an iname: exact where the iname has few values."""
from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import islpy as isl
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.poly.affine import DIM, NotAffineError, _aff, add, floor_div, multiply, names_in, remainder
from loopkit.poly.relations import subscript_relation
from loopkit.poly.sets import InstanceSet

#: Values of one iname that are looked at one by one; isl's questions about the union grow with their square.
MOST_VALUES = 32


def subscripts_on(domain: InstanceSet, subscripts: tuple[Expression, ...]) -> isl.Map:
    """``{ [inames] -> [subscripts] }``, on all of the instance space where they are quasi-affine, else on *domain*.

    ``k*(n // 4) + min(k, n % 4)`` is no affine form, but it is one for each ``k`` of a *domain* with ``0 <= k < 4``.

    :raises NotAffineError: a subscript is neither.
    """
    try:
        return subscript_relation(domain.inames, subscripts)
    except NotAffineError:
        if not subscripts:
            raise
    return reduce(isl.Map.flat_range_product, (_subscript_on(domain, s) for s in subscripts))


def affine_on(domain: InstanceSet, subscripts: tuple[Expression, ...]) -> bool:
    """Can :func:`subscripts_on` say what *subscripts* are?"""
    try:
        subscripts_on(domain, subscripts)
    except NotAffineError:
        return False
    return True


def _subscript_on(domain: InstanceSet, subscript: Expression) -> isl.Map:
    try:
        return subscript_relation(domain.inames, (subscript,))
    except NotAffineError:
        names = names_in(subscript)
    for i, x in enumerate(domain.inames):
        if x in names:
            low, high = domain.constant_range(x)
            if low is not None and high is not None and high - low < MOST_VALUES:
                try:
                    return reduce(isl.Map.union, (_at(domain.inames, subscript, i, v) for v in range(low, high + 1)))
                except NotAffineError:
                    continue
    raise NotAffineError(str(subscript))


def _at(inames: tuple[str, ...], subscript: Expression, dim: int, value: int) -> isl.Map:
    """``{ [inames] -> [subscript] : inames[dim] = value }``."""
    form = _with_value(subscript, inames[dim], value)
    params = tuple(sorted(names_in(form).difference(inames)))
    relation = isl.Map.from_pw_aff(_piecewise(form, inames, params))
    return relation.fix_val(DIM.in_, dim, isl.Val.int_from_si(isl.DEFAULT_CONTEXT, value))


def _with_value(expr: Expression, name: str, value: int) -> Expression:
    """*expr* with a number for one of its names, and products of numbers multiplied out."""
    def walk(e: Expression) -> Expression:
        match e:
            case p.Variable():
                return value if e.name == name else e
            case p.Sum(children=children):
                return add(*map(walk, children))
            case p.Product(children=children):
                return reduce(multiply, map(walk, children))
            case p.Min(children=children) | p.Max(children=children):
                return type(e)(tuple(map(walk, children)))
            case p.FloorDiv():
                return floor_div(walk(e.numerator), walk(e.denominator))
            case p.Remainder():
                return remainder(walk(e.numerator), walk(e.denominator))
            case _:
                return e
    return walk(expr)


def _piecewise(expr: Expression, dims: tuple[str, ...], params: tuple[str, ...]) -> isl.PwAff:
    """*expr* with minima and maxima as a piecewise form; :raises NotAffineError: it is none."""
    def parts(children: Sequence[Expression]) -> list[isl.PwAff]:
        return [_piecewise(c, dims, params) for c in children]
    match expr:
        case p.Min(children=children):
            return reduce(isl.PwAff.min, parts(children))
        case p.Max(children=children):
            return reduce(isl.PwAff.max, parts(children))
        case p.Sum(children=children):
            return reduce(isl.PwAff.add, parts(children))
        case p.Product(children=(int(factor), rest)):
            return _piecewise(rest, dims, params).scale_val(isl.Val.int_from_si(isl.DEFAULT_CONTEXT, factor))
        case p.FloorDiv(numerator=numerator, denominator=int(divisor)) if divisor > 0:
            whole = isl.Val.int_from_si(isl.DEFAULT_CONTEXT, divisor)
            return _piecewise(numerator, dims, params).scale_down_val(whole).floor()
        case p.Remainder(numerator=numerator, denominator=int(divisor)) if divisor > 0:
            return _piecewise(numerator, dims, params).mod_val(isl.Val.int_from_si(isl.DEFAULT_CONTEXT, divisor))
        case _:
            return isl.PwAff.from_aff(_aff(expr, dims, params))
