"""Subscripts and conditions that are affine for each single value of a form: exact if the form has few values."""
from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import reduce

import islpy as isl
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.poly.affine import NotAffineError, add, floor_div, multiply, names_in, remainder, subtract
from loopkit.poly.domains import constrained, is_affine_condition
from loopkit.poly.limits import coalesced, kept_results
from loopkit.poly.piecewise import piecewise
from loopkit.poly.relations import subscript_relation
from loopkit.poly.sets import InstanceSet, condition_set, constant_range

#: The greatest number of values of a form that are enumerated; isl's cost for the union grows with its square.
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
    """Can :func:`subscripts_on` express *subscripts*?"""
    try:
        subscripts_on(domain, subscripts)
    except NotAffineError:
        return False
    return True


def where_holds(domain: InstanceSet, condition: Expression, names: Collection[str]) -> InstanceSet | None:
    """The points of *domain* at which *condition* holds; ``None`` if it is no condition on forms of *names*.

    Forms may be quasi-affine for single values of other forms only, minima and maxima.
    """
    try:
        return domain.named(_holding(domain, condition, frozenset(names)))
    except NotAffineError:
        return None


# the kernels of a pipeline, and the analyses of each, evaluate the same conditions
@kept_results
def _holding(domain: InstanceSet, condition: Expression, names: frozenset[str]) -> isl.Set:
    if is_affine_condition(condition, names):
        return constrained(domain, (condition,)).set
    match condition:
        case p.Comparison(left=left, operator=operator, right=right) if (names_in(left) | names_in(right)) <= names:
            difference = subscripts_on(domain, (subtract(left, right),))
            sign = condition_set(operator, p.Variable("_s"), ("_s",))
            return coalesced(domain.set.intersect(difference.intersect_range(sign).domain()))
        case p.LogicalAnd(children=children):
            for child in children:          # each where those before it hold
                domain = domain.named(_holding(domain, child, names))
            return domain.set
        case p.LogicalOr(children=children):
            return coalesced(reduce(isl.Set.union, (_holding(domain, c, names) for c in children)))
        case p.LogicalNot(child=child):
            return coalesced(domain.set.subtract(_holding(domain, child, names)))
        case _:
            raise NotAffineError(str(condition))


@kept_results
def _subscript_on(domain: InstanceSet, subscript: Expression) -> isl.Map:
    try:
        return subscript_relation(domain.inames, (subscript,))
    except NotAffineError:
        names_in(subscript)                 # nothing but sums, products, quotients, minima and maxima
        if domain.is_empty():
            return isl.Map.empty(subscript_relation(domain.inames, (0,)).get_space())
        return reduce(isl.Map.union, _by_value(domain, subscript, MOST_VALUES))


def _by_value(domain: InstanceSet, subscript: Expression, most: int) -> list[isl.Map]:
    """``{ [inames] -> [subscript] }`` in parts, in each of which the factors of products but one have one value.

    :raises NotAffineError: that takes more than *most* parts.
    """
    try:
        return [isl.Map.from_pw_aff(piecewise(subscript, domain.inames))]
    except NotAffineError:
        pass
    for factor in _factors(subscript):
        values = _values(domain, factor)
        if values is not None and len(values) <= most:
            try:
                return [part.intersect_domain(condition_set("==", subtract(factor, value), domain.inames))
                        for value in values
                        for part in _by_value(domain, _with_value(subscript, factor, value),
                                              most // len(values))]
            except NotAffineError:
                continue
    raise NotAffineError(str(subscript))


def _factors(expr: Expression) -> Iterator[Expression]:
    """The factors of products of several forms, and divisors that are forms."""
    children: tuple[Expression, ...]
    match expr:
        case p.Product():
            children = expr.children
            forms = [c for c in children if not isinstance(c, int)]
            yield from forms if len(forms) > 1 else ()
        case p.FloorDiv(numerator=numerator, denominator=denominator) | p.Remainder(
                numerator=numerator, denominator=denominator):
            children = (numerator, denominator)
            yield from () if isinstance(denominator, int) else (denominator,)
        case p.Sum() | p.Min() | p.Max():
            children = expr.children
        case _:
            return
    for child in children:
        yield from _factors(child)


@kept_results
def _values(domain: InstanceSet, form: Expression) -> range | None:
    """The range of *form* on *domain*; ``None`` if it is not quasi-affine, or its range is not constant."""
    try:
        values = domain.set.apply(subscript_relation(domain.inames, (form,)))
    except NotAffineError:
        return None
    low, high = constant_range(values, 0)
    return None if low is None or high is None else range(low, high + 1)


def _with_value(expr: Expression, form: Expression, value: int) -> Expression:
    """*expr* with a number for one of its forms, and products of numbers multiplied out."""
    def walk(e: Expression) -> Expression:
        if e == form:
            return value
        match e:
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

