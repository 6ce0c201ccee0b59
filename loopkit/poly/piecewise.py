"""Conditions and integer expressions as isl's sets, relations and piecewise forms.

``//`` and ``%`` round down; truncated ones are C's. A form that is affine for each value of one factor is split by
these values, at most 32.
"""
from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache, reduce

import islpy as isl
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.poly.affine import (
    DIM,
    NotAffineError,
    TruncatedQuotient,
    TruncatedRemainder,
    add,
    arithmetic,
    floor_div,
    from_aff,
    if_affine,
    is_quasi_affine,
    multiply,
    names_in,
    remainder,
    set_space,
    subtract,
    to_aff,
    without_bits,
)
from loopkit.poly.limits import coalesced, kept_results
from loopkit.poly.relations import same_element, subscript_relation
from loopkit.poly.sets import COMPARED, InstanceSet, as_points, condition_set, constant_range


@lru_cache(maxsize=65536)
def piecewise(expr: Expression, dims: tuple[str, ...]) -> isl.PwAff:
    """*expr* as a function of *dims*; other names are parameters; :raises NotAffineError: it is none."""
    match expr:
        case p.Variable() | int():
            return isl.PwAff.from_aff(to_aff(expr, dims))
        case p.Sum(children=children) | p.Min(children=children) | p.Max(children=children):
            join = {p.Sum: isl.PwAff.add, p.Min: isl.PwAff.min, p.Max: isl.PwAff.max}[type(expr)]
            return reduce(join, [piecewise(arithmetic(c), dims) for c in children])
        case p.Product(children=children):
            return reduce(_times, [piecewise(arithmetic(c), dims) for c in children])
        case p.FloorDiv(numerator=a, denominator=b) | p.Remainder(numerator=a, denominator=b):
            return _divided(expr, piecewise(a, dims), piecewise(b, dims))
        case p.If(condition=condition, then=then, else_=else_):
            yes, no = points_where(condition, dims), points_where(condition, dims).complement()
            return piecewise(then, dims).intersect_domain(yes).union_add(piecewise(else_, dims).intersect_domain(no))
        case _ if (plain := without_bits(expr)) is not None:
            return piecewise(plain, dims)
        case _:
            raise NotAffineError(expr)


def is_piecewise(expr: Expression) -> bool:
    """Is *expr* a piecewise quasi-affine form of the names in it?"""
    return if_affine(lambda: piecewise(expr, ())) is not None


def _times(a: isl.PwAff, b: isl.PwAff) -> isl.PwAff:
    if not (a.is_cst() or b.is_cst()):
        raise NotAffineError(f"({a}) * ({b})")
    return a.mul(b)


def _divided(expr: p.FloorDiv | p.Remainder, a: isl.PwAff, b: isl.PwAff) -> isl.PwAff:
    if not b.is_cst() or not (divisor := b.min_val()).is_pos():
        raise NotAffineError(expr)
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
    """``{ [dims] : condition }``; :raises NotAffineError: *condition* compares no piecewise quasi-affine forms."""
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
            raise NotAffineError(condition)


def piecewise_relation(dims: tuple[str, ...], values: Sequence[Expression]) -> isl.Map:
    """``{ [dims] -> [values] }``; :raises NotAffineError: a value is not a piecewise quasi-affine form."""
    return reduce(isl.Map.flat_range_product, (isl.Map.from_pw_aff(piecewise(value, dims)) for value in values),
                  isl.Map.universe(isl.Space.from_domain(set_space((), dims))))


def params_where(condition: Expression) -> isl.Set:
    """The parameters at which *condition* holds; :raises NotAffineError: as :func:`points_where`."""
    return points_where(condition, ()).params()


def at_least(expr: Expression, low: int) -> isl.Set | None:
    """The parameters with ``expr >= low``; ``None`` if *expr* is not a piecewise quasi-affine form."""
    return if_affine(lambda: params_where(p.Comparison(expr, ">=", low)))


def projected(points: isl.Set, names: Sequence[str], dims: Sequence[str]) -> isl.Set:
    """*points*, with the dimensions *names*, as a set of the dimensions *dims*: parameters may become dimensions."""
    return as_points(InstanceSet(tuple(names), points).onto(dims).set)


def known_value(expr: Expression, params: isl.Set) -> int | None:
    """The value of *expr*, if it is the same at all points of the parameter set *params*."""
    value = p.Variable("value'")              # no parameter of a kernel is called so
    points = if_affine(lambda: points_where(p.Comparison(expr, "==", value), (value.name,)))
    low, high = (None, None) if points is None else constant_range(points.intersect_params(params), 0)
    return low if low == high else None


def known_remainder(expr: Expression | None, divisor: int, params: isl.Set) -> int | None:
    """The remainder of *expr* by *divisor*, if it is the same at all points of the parameter set *params*."""
    if expr is None or isinstance(expr, int):
        return None if expr is None else expr % divisor
    return known_value(remainder(expr, divisor), params)


def is_affine_condition(condition: Expression, names: Collection[str]) -> bool:
    """Is *condition* made of comparisons of forms that are quasi-affine in *names*, by and, or and not?"""
    match condition:
        case bool():
            return True
        case p.Comparison(left=left, right=right):
            # each separately: the difference of x[i] and x[i] is 0, yet x[i] == x[i] fails for a NaN
            return is_quasi_affine(left, (), names) and is_quasi_affine(right, (), names)
        case p.LogicalAnd() | p.LogicalOr():
            return all(is_affine_condition(c, names) for c in condition.children)
        case p.LogicalNot():
            return is_affine_condition(condition.child, names)
        case _:
            return False


def constrained(domain: InstanceSet, conditions: Sequence[Expression]) -> InstanceSet:
    """The points of *domain* at which the affine *conditions* hold."""
    points = reduce(isl.Set.intersect, (points_where(c, domain.inames) for c in conditions), domain.set)
    return domain.named(coalesced(points) if points.n_basic_set() > 1 else points)


def cells(inames: tuple[str, ...], coordinates: Sequence[Expression | None]) -> isl.Map:
    """``{ [inames] -> [coordinates] }`` where a coordinate ``None`` is every value at once; others may have cases."""
    known = tuple(c for c in coordinates if c is not None)
    relation = if_affine(lambda: subscript_relation(inames, known))
    if relation is None:
        relation = piecewise_relation(inames, known)
    for i, c in enumerate(coordinates):
        if c is None:
            relation = relation.insert_dims(DIM.out, i, 1)
    return relation


def equal_coordinates(source_inames: tuple[str, ...], source: Sequence[Expression],
                      sink_inames: tuple[str, ...], sink: Sequence[Expression]) -> isl.Map:
    """Pairs of instances at which the two lists of coordinates agree."""
    return same_element(cells(source_inames, source), cells(sink_inames, sink))


def smaller_coordinates(source_inames: tuple[str, ...], source: Sequence[Expression],
                        sink_inames: tuple[str, ...], sink: Sequence[Expression]) -> isl.Map:
    """Pairs of instances of which the first's coordinates are lexicographically less than the second's."""
    first, second = cells(source_inames, source), cells(sink_inames, sink)
    order = isl.Map.lex_lt(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, len(source)))
    return first.apply_range(order).apply_range(second.reverse())


#: The greatest number of values of a form that are enumerated; isl's cost for the union grows with its square.
MOST_VALUES = 32
#: The quotients of two forms that are tried: those of an index of a periodic array and its extent.
QUOTIENTS = range(-2, 3)


def subscripts_on(domain: InstanceSet, subscripts: tuple[Expression, ...]) -> isl.Map:
    """``{ [inames] -> [subscripts] }``, on all of the instance space where they are quasi-affine, else on *domain*.

    ``k*(n // 4) + min(k, n % 4)`` is not an affine form, but it is one for each ``k`` of a *domain* with ``0 <= k <
    4``. ``(i+1) % n`` is ``i+1`` or ``i+1-n`` on a *domain* with ``0 <= i < n``.

    :raises NotAffineError: a subscript is neither.
    """
    relation = if_affine(lambda: subscript_relation(domain.inames, subscripts))
    return relation if relation is not None else reduce(
        isl.Map.flat_range_product, (_subscript_on(domain, s) for s in subscripts))


def affine_on(domain: InstanceSet, subscripts: tuple[Expression, ...]) -> bool:
    """Can :func:`subscripts_on` express *subscripts*?"""
    return if_affine(lambda: subscripts_on(domain, subscripts)) is not None


def where_holds(domain: InstanceSet, condition: Expression, names: Collection[str]) -> InstanceSet | None:
    """The points of *domain* at which *condition* holds; ``None`` if it is not a condition on forms of *names*."""
    return if_affine(lambda: domain.named(_holding(domain, condition, frozenset(names))))


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
            raise NotAffineError(condition)


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
    """``{ [inames] -> [subscript] }`` in at most *most* parts, in each of which the factors but one have one value."""
    whole = if_affine(lambda: [isl.Map.from_pw_aff(piecewise(subscript, domain.inames))])
    if whole is not None:
        return whole
    for factor in _factors(subscript):
        values = _value_range(domain, factor)
        if values is not None and len(values) <= most:
            try:
                return [part.intersect_domain(condition_set("==", subtract(factor, value), domain.inames))
                        for value in values
                        for part in _by_value(domain, _with_value(subscript, factor, value),
                                              most // len(values))]
            except NotAffineError:
                continue
    for division in _divisions(subscript):
        cases = _quotient_cases(domain, division)
        if 0 < len(cases) <= most:
            return [part.intersect_domain(points.set) for points, value in cases
                    for part in _by_value(points, _with_value(subscript, division, value), most // len(cases))]
    raise NotAffineError(subscript)


def _divisions(expr: Expression) -> Iterator[p.FloorDiv | p.Remainder]:
    """The quotients and remainders in *expr* whose divisors are forms, each after those in its numerator."""
    match expr:
        case p.Sum(children=children) | p.Product(children=children) | p.Min(children=children) | p.Max(
                children=children):
            for child in children:
                yield from _divisions(child)
        case p.FloorDiv(numerator=numerator, denominator=divisor) | p.Remainder(
                numerator=numerator, denominator=divisor):
            yield from _divisions(numerator)
            yield from () if isinstance(divisor, int) else (expr,)
        case _:
            pass


@kept_results
def _quotient_cases(domain: InstanceSet, division: p.FloorDiv | p.Remainder
                    ) -> tuple[tuple[InstanceSet, Expression], ...]:
    """The parts of *domain* with each of the :data:`QUOTIENTS`, and the value of *division* there.

    :returns: nothing if the division has other quotients or a divisor that is not positive on *domain*.
    """
    a, b = arithmetic(division.numerator), arithmetic(division.denominator)
    found = []
    for quotient in QUOTIENTS if type(division) in (p.FloorDiv, p.Remainder) else ():
        rest = subtract(a, multiply(quotient, b))
        points = if_affine(lambda rest=rest: domain.set & points_where(  # type: ignore[misc]
            p.LogicalAnd((p.Comparison(rest, ">=", 0), p.Comparison(rest, "<", b))), domain.inames))
        if points is not None and not points.is_empty():
            found.append((domain.named(points), quotient if isinstance(division, p.FloorDiv) else rest))
    covered = reduce(isl.Set.union, (points.set for points, _ in found), domain.set - domain.set)
    return tuple(found) if domain.set.is_subset(covered) else ()


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
def _value_range(domain: InstanceSet, form: Expression) -> range | None:
    """The range of *form* on *domain*; ``None`` if it is not quasi-affine, or its range is not constant."""
    relation = if_affine(lambda: subscript_relation(domain.inames, (form,)))
    low, high = (None, None) if relation is None else constant_range(domain.set.apply(relation), 0)
    return None if low is None or high is None else range(low, high + 1)


def _with_value(expr: Expression, form: Expression, value: Expression) -> Expression:
    """*expr* with *value* for one of its forms, and products of numbers multiplied out."""
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


def simplest_form(points: InstanceSet, form: Expression) -> Expression | None:
    """The quasi-affine *form* as isl simplifies it at *points*; ``None`` if it has several cases there.

    >>> print(simplest_form(InstanceSet.parse("{ [i] : 0 <= i < 8 }"), 8*(p.Variable("i") // 8) + p.Variable("i") % 8))
    i
    """
    values = subscript_relation(points.inames, (form,)).intersect_domain(points.set)
    if values.is_empty():
        return None
    function = coalesced(isl.PwMultiAff.from_map(values))
    function = function.gist(function.domain())
    return from_aff(function.as_multi_aff().get_aff(0), points.inames) if function.isa_multi_aff() else None
