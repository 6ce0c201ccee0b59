"""Polynomials with rational coefficients in names and quotients, and such polynomials on sets of parameters: counts."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import product
from math import gcd, lcm

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.errors import CallError, values_text
from loopkit.poly.affine import DIM, add, floor_div, multiply, names_in
from loopkit.poly.limits import bounded
from loopkit.poly.sets import Set, holds, params_text, universe_params
from loopkit.shown import Shown

#: A product of powers of names and quotients, in the order of their texts.
Monomial = tuple[tuple[Expression, int], ...]


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

    @property
    def names(self) -> frozenset[str]:
        """The names in it."""
        return frozenset(x for monomial in self.terms for atom, _ in monomial for x in names_in(atom))

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
    """The polynomial without names."""
    return Polynomial({(): Fraction(value)} if value else {})


def single(atom: Expression) -> Polynomial:
    """The name or quotient *atom* as a polynomial."""
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
        case p.Power(base=base, exponent=int() as exponent) if exponent >= 0:
            return polynomial_of(base).power(exponent)
        case p.FloorDiv(numerator=above, denominator=int() as below):
            return _floored(polynomial_of(above), below)
        case _:
            return single(expr)


def _floored(above: Polynomial, below: int) -> Polynomial:
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
        inside = reduce(Polynomial.__add__, (constant(c // common)*single(atom) for atom, c in rest.items()),
                        constant(offset))
        return outside + (inside if below == 1 else constant(0))
    ordered = sorted(rest.items(), key=lambda item: str(item[0]))
    return outside + single(floor_div(add(*(multiply(c // common, atom) for atom, c in ordered), offset), below))


def substituted(polynomial: Polynomial, values: Mapping[str, Polynomial]) -> Polynomial:
    """*polynomial* with linear forms, the *values* of names, in their place, in quotients too."""
    def replaced(expr: Expression) -> Polynomial:
        match expr:
            case p.Variable(name=name) if name in values:
                return values[name]
            case p.Sum(children=children):
                return reduce(Polynomial.__add__, map(replaced, children))
            case p.Product(children=children):
                return reduce(Polynomial.__mul__, map(replaced, children))
            case p.FloorDiv(numerator=above, denominator=int() as below):
                return _floored(replaced(above), below)
            case _:
                return polynomial_of(expr)
    total = constant(0)
    for monomial, factor in polynomial.terms.items():
        total += reduce(Polynomial.__mul__, (replaced(atom).power(e) for atom, e in monomial), constant(factor))
    return total


def modulus(expr: Expression, name: str) -> int:
    """A number such that adding it to *name* changes *expr* by an integer constant."""
    match expr:
        case p.Sum(children=children) | p.Product(children=children):
            return lcm(*(modulus(c, name) for c in children))
        case p.FloorDiv(numerator=above, denominator=int() as below):
            inner = polynomial_of(above)
            moved = substituted(inner, {name: single(p.Variable(name)) + constant(1)})
            return 1 if moved == inner else below*lcm(*(modulus(a, name) for m in inner.terms for a, _ in m))
        case _:
            return 1


# Polynomials on sets of parameters

#: The sets of parameters on which summands count, each with its summand.
Pieces = tuple[tuple[Set, Polynomial], ...]


@dataclass(frozen=True, eq=False, repr=False)
class PiecewiseQuasiPolynomial(Shown):
    """A number that depends on the sizes of a kernel, exactly.

    It is the sum of the polynomials of those *pieces* whose sets contain the sizes. The text of a piece has its
    condition, as in ``(n if n > 0 else 0)``, unless the assumptions imply it.

    >>> knl = lk.make_kernel("{[i, j]: 0<=j<=i<n}", "y[i, j] = 2*x[i, j]", assumptions="n>=1")
    >>> count = lk.get_op_map(lk.add_dtypes(knl, {"x": np.float32})).sum()
    >>> print(count)
    (n**2 + n)/2
    >>> count.eval_with_dict({"n": 10}), (2*count + 1).eval_with_dict({"n": 10})
    (55, 111)

    :ivar valid: the sizes for which it is known: those that the kernel's assumptions allow.
    """

    pieces: Pieces
    valid: Set

    def eval_with_dict(self, value_dict: Mapping[str, int]) -> int:
        """The number for these sizes; others than those of the kernel are ignored.

        :raises CallError: a size is missing, or the kernel's assumptions exclude the sizes.
        """
        sizes = {name: int(value) for name, value in value_dict.items()}
        with bounded("the evaluation of a count"):
            if missing := sorted(self.params - sizes.keys()):
                raise CallError(f"The count needs the size '{missing[0]}'.", argument=missing[0],
                                hint=f"eval_with_dict({{'{missing[0]}': 1000, ...}})")
            if not holds(self.valid, sizes):
                raise CallError(f"The kernel's assumptions exclude {values_text(sizes)}: they are "
                                f"{params_text(self.valid)}.", argument=next(iter(sizes), ""))
            total = sum(summand.value(sizes) for where, summand in self.pieces if holds(where, sizes))
        return int(total)

    @property
    def params(self) -> frozenset[str]:
        """The names of the sizes on which it depends."""
        with bounded("the sizes of a count"):
            return frozenset(x for where, summand in self.pieces for x in (
                *summand.names, *where.drop_unused_params().get_var_names_not_none(DIM.param)))

    def __add__(self, other: PiecewiseQuasiPolynomial | int) -> PiecewiseQuasiPolynomial:
        summand = whole(other)
        with bounded("a sum of counts"):
            return PiecewiseQuasiPolynomial(merged((*self.pieces, *summand.pieces)),
                                            self.valid.intersect(summand.valid))

    def __mul__(self, other: PiecewiseQuasiPolynomial | int) -> PiecewiseQuasiPolynomial:
        factor = whole(other)
        with bounded("a product of counts"):
            products = [(a.intersect(b), x*y) for (a, x), (b, y) in product(self.pieces, factor.pieces)]
            return PiecewiseQuasiPolynomial(merged([(where, x) for where, x in products if not where.is_empty()]),
                                            self.valid.intersect(factor.valid))

    __radd__, __rmul__ = __add__, __mul__

    def __str__(self) -> str:
        with bounded("printing a count"):
            texts = [(str(summand), params_text(where)) for where, summand in self.pieces]
        if len(texts) == 1 and not texts[0][1]:
            return texts[0][0]
        return " + ".join(f"({text} if {condition} else 0)" if condition else f"({text})"
                          for text, condition in texts) or "0"


def whole(value: PiecewiseQuasiPolynomial | int) -> PiecewiseQuasiPolynomial:
    """*value*, a number for any sizes, as a piecewise quasi-polynomial."""
    if isinstance(value, PiecewiseQuasiPolynomial):
        return value
    with bounded("a count"):
        everywhere = universe_params()
    return PiecewiseQuasiPolynomial(((everywhere, constant(value)),) if value else (), everywhere)


def merged(pieces: Sequence[tuple[Set, Polynomial]]) -> Pieces:
    """*pieces* with the summands of sets added whose descriptions are equal."""
    result: list[tuple[Set, Polynomial]] = []
    for where, summand in ((where.drop_unused_params(), summand) for where, summand in pieces):
        for i, (other, known) in enumerate(result):
            if where.plain_is_equal(other):
                result[i] = other, known + summand
                break
        else:
            result.append((where, summand))
    return tuple((where, summand) for where, summand in result if summand.terms)
