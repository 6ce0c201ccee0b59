"""The number of points of a set, exactly: a quasi-polynomial of the parameters on each of several sets of parameters.

isl has no such function without barvinok, which its wheels lack. Here one dimension after another is summed by
Faulhaber's formulas, between the bounds that isl's parametric integer programming gives. A dimension within a quotient,
``floor((i + n)/4)``, is first split by its remainders.
"""
from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import product
from math import comb, lcm

import islpy as isl
import pymbolic.primitives as p

from loopkit.errors import UndecidedError
from loopkit.poly.affine import DIM, add, from_aff, multiply, subtract, to_aff
from loopkit.poly.limits import coalesced
from loopkit.poly.quasi_polynomials import (
    Monomial,
    Pieces,
    PiecewiseQuasiPolynomial,
    Polynomial,
    constant,
    merged,
    modulus,
    polynomial_of,
    substituted,
)
from loopkit.poly.sets import InstanceSet, Set, as_points, with_dim_names

#: The most remainders by which one dimension is split.
_MOST_REMAINDERS = 4096


# Sums

@lru_cache(maxsize=64)
def _power_sum(exponent: int) -> tuple[Fraction, ...]:
    """The coefficients, from the constant up, of the polynomial ``S(N) = 0**k + 1**k + ... + N**k``."""
    # (N + 1)**(k + 1) is the sum over j <= k of comb(k + 1, j)*S_j(N)
    total = [Fraction(comb(exponent + 1, i)) for i in range(exponent + 2)]
    for j in range(exponent):
        for i, c in enumerate(_power_sum(j)):
            total[i] -= comb(exponent + 1, j)*c
    return tuple(c/(exponent + 1) for c in total)


def _summed(summand: Polynomial, name: str, first: Polynomial, last: Polynomial) -> Polynomial:
    """The sum of *summand* over *name* from *first* to *last*; no quotient has the name."""
    by_degree: dict[int, dict[Monomial, Fraction]] = {}
    for monomial, factor in summand.terms.items():
        degree = dict(monomial).get(p.Variable(name), 0)
        rest = tuple(x for x in monomial if x[0] != p.Variable(name))
        by_degree.setdefault(degree, {})[rest] = factor
    before, total = first - constant(1), constant(0)
    for degree, terms in by_degree.items():
        for i, c in enumerate(_power_sum(degree)):
            total += constant(c)*Polynomial(terms)*(last.power(i) - before.power(i))
    return total


def number_of_points(points: Set, context: Set) -> PiecewiseQuasiPolynomial:
    """The number of *points* for each value of the parameters that *context*, a set of parameters, allows.

    >>> from loopkit.poly.sets import universe_params
    >>> print(number_of_points(Set("[n] -> { [i, j] : 0 <= i <= j < n }"), universe_params()))
    ((n**2 + n)/2 if n > 0 else 0)

    :raises UndecidedError: there are infinitely many points, or too many remainders by which a dimension is split.
    """
    points = as_points(points).intersect_params(context)
    dims = tuple(f"<{i}>" for i in range(points.dim(DIM.set)))      # no parameter has such a name
    pieces: list[tuple[Set, Polynomial]] = []
    for part in _disjoint(with_dim_names(points, dims)):
        joined = _without_splits(InstanceSet(dims, part))
        found: Pieces = ((joined.set, constant(1)),)
        for at in reversed(range(len(joined.inames))):
            found = merged([x for piece in found for x in _without_last(*piece, joined.inames[:at + 1])])
        pieces += [(where.params(), summand) for where, summand in found]
    return PiecewiseQuasiPolynomial(
        merged([(coalesced(where).gist(context), summand) for where, summand in pieces]), context)


def _disjoint(points: Set) -> list[Set]:
    """Disjoint basic sets that make up *points*, with each unknown as a quotient."""
    whole = coalesced(points.compute_divs())
    parts = whole if whole.n_basic_set() < 2 else whole.make_disjoint()
    return [Set.from_basic_set(part) for part in parts.compute_divs().get_basic_sets() if not part.is_empty()]


def _without_last(points: Set, summand: Polynomial, dims: tuple[str, ...]) -> Iterator[tuple[Set, Polynomial]]:
    """The sums of *summand* over the last of *dims*, on sets of the others."""
    name, others = dims[-1], dims[:-1]
    for part in _disjoint(points):
        own = InstanceSet(dims, part).bound(others).set              # one dimension; the others are parameters
        if not own.dim_is_bounded(DIM.set, 0):
            raise UndecidedError("A set of statement instances or elements cannot be counted.",
                                 "it is not bounded", hint="bound all inames in the domains")
        quotients = [from_aff(part.get_div(i), (name,)) for piece in own.compute_divs().get_basic_sets()
                     for part in [piece.get_local_space()] for i in range(piece.dim(DIM.div))]
        atoms = {atom for monomial in summand.terms for atom, _ in monomial}
        split = lcm(*(modulus(e, name) for e in (*quotients, *atoms)))
        if split > _MOST_REMAINDERS:
            raise UndecidedError("A set of statement instances or elements cannot be counted.",
                                 f"a dimension has {split} remainders, more than {_MOST_REMAINDERS}",
                                 hint="use tiles whose lengths are multiples of each other")
        for r in range(split):
            yield from _with_remainder(own, summand, name, others, (split, r))


def _with_remainder(own: Set, summand: Polynomial, name: str, others: tuple[str, ...], remainder: tuple[int, int]
                    ) -> Iterator[tuple[Set, Polynomial]]:
    """The sums over those values of *name*, the dimension of *own*, that have the *remainder*."""
    split, r = remainder
    x = p.Variable(name)
    value = polynomial_of(add(multiply(split, x), r))
    if split > 1:
        step = isl.Map.from_aff(to_aff(add(multiply(split, x), r), (name,)))
        own = own.apply(step.reverse())
        if own.is_empty():
            return
    for part in _disjoint(own):
        summed = substituted(summand, {name: value}) if split > 1 else summand
        for (low_where, low), (high_where, high) in product(part.dim_min(0).get_pieces(), part.dim_max(0).get_pieces()):
            where = low_where.intersect(high_where)
            if not where.is_empty():
                total = _summed(summed, name, polynomial_of(from_aff(low)), polynomial_of(from_aff(high)))
                params = InstanceSet((), where if where.is_params() else where.params()).onto(others).set
                yield params, total


# Tiles

def _without_splits(points: InstanceSet) -> InstanceSet:
    """As many points with fewer dimensions, where two dimensions are a tile and a place in it: ``16*io + ii``.

    Each bound has them together then: the number of points gets no quotient.
    """
    for inner in points.inames:
        low, high = points.constant_range(inner)
        if low is None or high is None or low == high:
            continue
        for outer in points.inames:
            joined = None if outer == inner else _tiles_joined(points, outer, inner, (low, high - low + 1))
            if joined is not None:
                return _without_splits(joined)
    return points


def _tiles_joined(points: InstanceSet, outer: str, inner: str, span: tuple[int, int]) -> InstanceSet | None:
    """*points* with ``length*outer + inner`` in the place of both, if that needs no unknowns; the map is one-to-one."""
    low, length = span
    if not any(_has_both(c, points.inames.index(outer), points.inames.index(inner), length)
               for part in points.set.get_basic_sets() for c in part.get_constraints()):
        return None
    both = add(multiply(length, p.Variable(outer)), subtract(p.Variable(inner), low))
    kept = tuple(x for x in points.inames if x != inner)
    values = [both if x == outer else p.Variable(x) for x in kept]
    relation = reduce(isl.Map.flat_range_product, (isl.Map.from_aff(to_aff(e, points.inames)) for e in values))
    result = coalesced(points.set.apply(relation))
    before = max(part.dim(DIM.div) for part in points.set.get_basic_sets())
    if result.n_basic_set() > points.set.n_basic_set() \
            or max(part.dim(DIM.div) for part in result.get_basic_sets()) > before:
        return None
    return InstanceSet(kept, with_dim_names(result, kept))


def _has_both(constraint: isl.Constraint, outer: int, inner: int, length: int) -> bool:
    a, b = (constraint.get_coefficient_val(DIM.set, i) for i in (outer, inner))
    return not b.is_zero() and bool(a.eq(b.mul(isl.Val(length))))
