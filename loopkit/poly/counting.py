"""The number of points of a set, exactly: a quasi-polynomial of the parameters on each of several sets of parameters.

isl has no such function without barvinok, which its wheels lack. Here one dimension after another is summed by
Faulhaber's formulas, between the bounds that isl's parametric integer programming gives. A dimension within a quotient,
``floor((i + n)/4)``, is first split by its remainders.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import product
from math import comb, gcd, lcm

import islpy as isl
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.errors import UndecidedError
from loopkit.poly.affine import DIM, add, floor_div, from_aff, multiply, set_space, subtract, to_aff
from loopkit.poly.limits import coalesced
from loopkit.poly.sets import InstanceSet, Set, as_points, with_dim_names

#: A product of powers of names and quotients, in the order of their texts.
Monomial = tuple[tuple[Expression, int], ...]

#: The most remainders by which one dimension is split.
_MOST_REMAINDERS = 4096


@dataclass(frozen=True)
class Polynomial:
    """A polynomial with rational coefficients in names and in quotients ``floor(e/d)`` of integer linear forms."""

    terms: Mapping[Monomial, Fraction]

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __add__(self, other: Polynomial) -> Polynomial:
        terms = dict(self.terms)
        for monomial, factor in other.terms.items():
            terms[monomial] = terms.get(monomial, Fraction(0)) + factor
        return Polynomial({m: c for m, c in terms.items() if c})

    def __mul__(self, other: Polynomial) -> Polynomial:
        terms: dict[Monomial, Fraction] = {}
        for (a, c), (b, d) in product(self.terms.items(), other.terms.items()):
            powers = dict(a)
            for atom, power in b:
                powers[atom] = powers.get(atom, 0) + power
            monomial = tuple(sorted(powers.items(), key=lambda item: str(item[0])))
            terms[monomial] = terms.get(monomial, Fraction(0)) + c*d
        return Polynomial({m: c for m, c in terms.items() if c})

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + constant(-1)*other

    def power(self, exponent: int) -> Polynomial:
        return reduce(Polynomial.__mul__, [self]*exponent, constant(1))

    def value(self, values: Mapping[str, int]) -> Fraction:
        """The value where the names have these *values*."""
        total = Fraction(0)
        for monomial, factor in self.terms.items():
            for atom, power in monomial:
                factor *= _value(atom, values)**power
            total += factor
        return total

    def __str__(self) -> str:
        """``(n**2 + n)/2``: the terms over their common denominator, those of the highest degree first."""
        below = lcm(*(c.denominator for c in self.terms.values()))
        ordered = sorted(self.terms.items(), key=lambda term: (-sum(e for _, e in term[0]), str(term[0])))
        text = " + ".join(_term_text(monomial, int(c*below)) for monomial, c in ordered) or "0"
        text = text.replace("+ -", "- ")
        return text if below == 1 else f"({text})/{below}" if len(ordered) > 1 else f"{text}/{below}"


def _term_text(monomial: Monomial, factor: int) -> str:
    parts = [(f"({atom})" if isinstance(atom, p.FloorDiv) else str(atom)) + (f"**{e}" if e > 1 else "")
             for atom, e in monomial]
    if not parts:
        return str(factor)
    sign = {1: "", -1: "-"}.get(factor, f"{factor}*")
    # a single quotient needs no parentheses
    alone = factor == 1 and len(monomial) == 1 and monomial[0][1] == 1
    return str(monomial[0][0]) if alone else sign + "*".join(parts)


def _value(expr: Expression, values: Mapping[str, int]) -> int:
    match expr:
        case p.Variable(name=name):
            return values[name]
        case p.Sum(children=children):
            return sum(_value(c, values) for c in children)
        case p.Product(children=children):
            return reduce(lambda a, c: a*_value(c, values), children, 1)
        case p.FloorDiv(numerator=a, denominator=b):
            return _value(a, values) // _value(b, values)
        case _:
            assert isinstance(expr, int)
            return expr


def constant(value: int | Fraction) -> Polynomial:
    return Polynomial({(): Fraction(value)} if value else {})


def _single(atom: Expression) -> Polynomial:
    return Polynomial({((atom, 1),): Fraction(1)})


@lru_cache(maxsize=65536)
def polynomial_of(expr: Expression) -> Polynomial:
    """The quasi-affine *expr*, with the same quotients always written in the same way."""
    match expr:
        case int():
            return constant(expr)
        case p.Sum(children=children):
            return reduce(Polynomial.__add__, map(polynomial_of, children))
        case p.Product(children=children):
            return reduce(Polynomial.__mul__, map(polynomial_of, children))
        case p.FloorDiv(numerator=above, denominator=int() as below):
            return _quotient(polynomial_of(above), below)
        case _:
            return _single(expr)


def _quotient(above: Polynomial, below: int) -> Polynomial:
    """``floor(above/below)`` of a linear form: multiples of *below* stand outside, and common factors are removed."""
    outside, rest, offset = constant(0), dict[Expression, int](), 0
    for monomial, factor in above.terms.items():
        whole, left = divmod(int(factor), below)
        if monomial:
            outside += Polynomial({monomial: Fraction(whole)} if whole else {})
            (atom, _), = monomial
            rest.update({atom: left} if left else {})
        else:
            outside, offset = outside + constant(whole), left
    common = gcd(below, *rest.values())
    below, offset = below // common, offset // common
    if not rest or below == 1:
        inside = reduce(Polynomial.__add__, (constant(c // common)*_single(atom) for atom, c in rest.items()),
                        constant(offset))
        return outside + (inside if below == 1 else constant(0))
    ordered = sorted(rest.items(), key=lambda item: str(item[0]))
    return outside + _single(floor_div(add(*(multiply(c // common, atom) for atom, c in ordered), offset), below))


def _substituted(polynomial: Polynomial, name: str, value: Polynomial) -> Polynomial:
    """*polynomial* with the linear form *value* for *name*, in quotients too."""
    def replaced(expr: Expression) -> Polynomial:
        match expr:
            case p.Variable() if expr.name == name:
                return value
            case p.Sum(children=children):
                return reduce(Polynomial.__add__, map(replaced, children))
            case p.Product(children=children):
                return reduce(Polynomial.__mul__, map(replaced, children))
            case p.FloorDiv(numerator=above, denominator=int() as below):
                return _quotient(replaced(above), below)
            case _:
                return polynomial_of(expr)
    total = constant(0)
    for monomial, factor in polynomial.terms.items():
        total += reduce(Polynomial.__mul__, (replaced(atom).power(e) for atom, e in monomial), constant(factor))
    return total


def _modulus(expr: Expression, name: str) -> int:
    """A number such that adding it to *name* changes *expr* by an integer constant."""
    match expr:
        case p.Sum(children=children) | p.Product(children=children):
            return lcm(*(_modulus(c, name) for c in children))
        case p.FloorDiv(numerator=above, denominator=int() as below):
            inner = polynomial_of(above)
            moved = _substituted(inner, name, _single(p.Variable(name)) + constant(1))
            return 1 if moved == inner else below*lcm(*(_modulus(a, name) for m in inner.terms for a, _ in m))
        case _:
            return 1


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


#: The sets of parameters on which summands count, each with its summand.
Pieces = tuple[tuple[Set, Polynomial], ...]


def number_of_points(points: InstanceSet, context: Set) -> Pieces:
    """The number of *points* where *context* holds: the sum of the polynomials of the sets that have the parameters.

    >>> from loopkit.poly.sets import universe_params
    >>> triangle = InstanceSet.parse("[n] -> { [i, j] : 0 <= i <= j < n }")
    >>> [(where, count)] = number_of_points(triangle, universe_params())
    >>> print(where, count)
    [n] -> {  : n > 0 } (n**2 + n)/2

    :raises UndecidedError: there are infinitely many points, or too many remainders by which a dimension is split.
    """
    dims = tuple(f"<{i}>" for i in range(len(points.inames)))      # no parameter has such a name
    known = as_points(points.set.intersect_params(context))
    pieces: Pieces = ((with_dim_names(known, dims), constant(1)),)
    pieces = tuple((x, constant(1)) for where, _ in pieces for x in _disjoint(where))
    results: list[tuple[Set, Polynomial]] = []
    for where, one in pieces:
        joined = _without_splits(InstanceSet(dims, where))
        found: Pieces = ((joined.set, one),)
        for at in reversed(range(len(joined.inames))):
            found = _merged([x for piece in found for x in _without_last(*piece, joined.inames[:at + 1])])
        results += [(where.params() if where.dim(DIM.set) == 0 and not where.is_params() else where, summand)
                    for where, summand in found]
    return _merged([(coalesced(where).gist(context.params()), summand) for where, summand in results])


def _disjoint(points: Set) -> list[Set]:
    """Disjoint basic sets that make up *points*, with each unknown as a quotient."""
    whole = coalesced(points.compute_divs())
    parts = whole if whole.n_basic_set() < 2 else whole.make_disjoint()
    return [Set.from_basic_set(part) for part in parts.compute_divs().get_basic_sets() if not part.is_empty()]


def _merged(pieces: Sequence[tuple[Set, Polynomial]]) -> Pieces:
    """*pieces* with the summands of equal sets added."""
    result: list[tuple[Set, Polynomial]] = []
    for where, summand in pieces:
        for i, (other, known) in enumerate(result):
            if where.plain_is_equal(other) or where.is_equal(other):
                result[i] = other, known + summand
                break
        else:
            result.append((where, summand))
    return tuple((where, summand) for where, summand in result if summand.terms)


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
        split = lcm(*(_modulus(e, name) for e in (*quotients, *atoms)))
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
        summed = _substituted(summand, name, value) if split > 1 else summand
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
            joined = None if outer == inner else _joined(points, outer, inner, (low, high - low + 1))
            if joined is not None:
                return _without_splits(joined)
    return points


def _joined(points: InstanceSet, outer: str, inner: str, span: tuple[int, int]) -> InstanceSet | None:
    """*points* with ``length*outer + inner`` in the place of both, if that needs no unknowns; the map is one-to-one."""
    low, length = span
    if not any(_has_both(c, points.inames.index(outer), points.inames.index(inner), length)
               for part in points.set.get_basic_sets() for c in part.get_constraints()):
        return None
    values = [add(multiply(length, p.Variable(outer)), subtract(p.Variable(inner), low)) if x == outer else p.Variable(x)
              for x in points.inames if x != inner]
    kept = tuple(x for x in points.inames if x != inner)
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
