"""The least value and the extent of a range, as short expressions.

isl's normal form may have parts far larger than the value: ``(n - m + 255)/256`` becomes ``-m + (255*m + n +
255)/256``. This module moves a term outside of a quotient into the quotient if that makes its coefficients smaller.
"""
from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import islpy as isl
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.poly.affine import (
    DIM,
    TruncatedQuotient,
    TruncatedRemainder,
    add,
    arithmetic,
    from_pw_aff,
    integer_factor,
    multiply,
    ordered,
    subtract,
)
from loopkit.poly.limits import coalesced
from loopkit.poly.piecewise import at_least, piecewise
from loopkit.poly.sets import InstanceSet


def first_value(points: InstanceSet, context: isl.Set) -> Expression:
    """The least value of the one iname of *points*, at the sizes at which it has values."""
    known = points.set.params().intersect(context)
    if known.is_empty():
        return 0
    return _shaped(from_pw_aff(coalesced(points.set.dim_min(0)), context), known)


def has_least(points: InstanceSet) -> bool:
    """Do the parameters bound the one iname of *points* from below?"""
    return bool(points.set.dim_has_lower_bound(DIM.set, 0))


def has_greatest(points: InstanceSet) -> bool:
    """Do the parameters bound the one iname of *points* from above?"""
    return bool(points.set.dim_has_upper_bound(DIM.set, 0))


def extent_from(points: InstanceSet, low: Expression, context: isl.Set) -> Expression:
    """The number of values from *low* to the greatest of the one iname of *points*, if it has values.

    Divisions round down, or are C's if both give the same *number*. For an empty range the two may differ, but neither
    is positive.
    """
    if points.set.params().intersect(context).is_empty():
        return 0
    top = points.set.dim_max(0)
    # the least value itself makes shorter forms than its expression
    least = not isinstance(low, int) and low == first_value(points, context)
    before = points.set.dim_min(0) if least else piecewise(low, ()).project_domain_on_params()
    return _count(from_pw_aff(coalesced(top.sub(before).add_constant_val(1)), context), context)


def couples(params: isl.Set, names: Collection[str]) -> bool:
    """Does a constraint of *params* mention two of the parameters *names*?"""
    dims = [i for i in (params.find_dim_by_name(DIM.param, x) for x in names) if i >= 0]
    return any(sum(c.involves_dims(DIM.param, i, 1) for i in dims) > 1
               for piece in params.get_basic_sets() for c in piece.get_constraints())


def is_at_least(expr: Expression, low: int, params: isl.Set) -> bool:
    """Is ``expr >= low`` at all points of the parameter set *params*? ``False`` if it is not known."""
    points = at_least(expr, low)
    return points is not None and bool(params.is_subset(points))


def in_multiples(expr: Expression) -> Expression:
    """*expr*, where a sum ``x - x % d`` becomes ``d*(x // d)``, which shows that *d* divides it.

    >>> last = p.Variable("n") - 1
    >>> print(in_multiples(add(last, multiply(-1, p.Remainder(last, 64)), 64)))
    64*((n + 63) // 64)
    """
    if not isinstance(expr, p.Sum):
        return expr
    for term in expr.children:
        match term:
            case p.Product(children=(-1, p.Remainder(numerator=number, denominator=int() as divisor) as rest)):
                others = subtract(subtract(expr, term), number)
                node = TruncatedQuotient if isinstance(rest, TruncatedRemainder) else p.FloorDiv
                if isinstance(others, int):
                    above = max(others // divisor, 0)*divisor
                    return add(multiply(divisor, node(arithmetic(add(number, above)), divisor)), others - above)
            case _:
                pass
    return expr


def _count(expr: Expression, context: isl.Set) -> Expression:
    """The number *expr*; every value that is not positive means that there are no values."""
    if isinstance(expr, p.Min | p.Max):
        return type(expr)(tuple(_count(c, context) for c in expr.children))
    if isinstance(expr, p.If):
        return _least_or_greatest(expr.condition, _count(expr.then, context), _count(expr.else_, context))
    # C rounds a quotient up where it is negative, to one that is not positive either
    match shaped := _shaped(expr, context):
        case p.FloorDiv():
            return TruncatedQuotient(shaped.numerator, shaped.denominator)
        case p.Product(children=(int() as factor, p.FloorDiv() as quotient)) if factor > 0:
            return p.Product((factor, TruncatedQuotient(quotient.numerator, quotient.denominator)))
        case _:
            return shaped


def _least_or_greatest(condition: Expression, then: Expression, otherwise: Expression) -> Expression:
    """``then if condition else otherwise``: their minimum or maximum if the condition compares just these."""
    if isinstance(condition, p.Comparison) and condition.operator in ("<", "<="):
        a, b = then, otherwise
        if isinstance(a, p.FloorDiv) and isinstance(b, p.FloorDiv) and a.denominator == b.denominator:
            a, b = a.numerator, b.numerator
        left = condition.left
        # for integers, i < j is i <= j - 1
        for right in (condition.right, add(condition.right, -1 if condition.operator == "<" else 1)):
            if subtract(a, left) == subtract(b, right):
                return p.Min((then, otherwise))
            if subtract(a, right) == subtract(b, left):
                return p.Max((then, otherwise))
    return p.If(condition, then, otherwise)


@dataclass(frozen=True)
class _Quotient:
    """``factor * ((sum of coefficient * name + constant) // divisor)``."""

    factor: int
    terms: Mapping[str, int]
    constant: int
    divisor: int

    def plus(self, name: str, coefficient: int) -> _Quotient:
        """With ``coefficient * name`` added from outside; the factor divides it."""
        inside = self.terms.get(name, 0) + coefficient // self.factor * self.divisor
        return replace(self, terms={**self.terms, name: inside})

    def turned(self) -> _Quotient:
        """``-(a // d)`` as ``(-a + d - 1) // d``, or the other way round."""
        return _Quotient(-self.factor, {x: -c for x, c in self.terms.items()}, self.divisor - 1 - self.constant,
                         self.divisor)

    def expression(self, known: isl.Set) -> Expression:
        """The quotient as an expression: C's division if *known* shows that no operand is negative."""
        numerator = ordered(add(*(multiply(c, p.Variable(x)) for x, c in self.terms.items()), self.constant))
        node = TruncatedQuotient if is_at_least(numerator, 0, known) else p.FloorDiv
        return multiply(self.factor, node(arithmetic(numerator), self.divisor))


def _shaped(expr: Expression, known: isl.Set) -> Expression:
    """The same integer with smaller coefficients, if ``//`` rounds down; C's division where *known* permits it."""
    terms = expr.children if isinstance(expr, p.Sum) else (expr,)
    quotients = [q for q in map(_quotient, terms) if q is not None]
    rest = add(*(t for t in terms if _quotient(t) is None))
    outside = _linear(rest)
    if outside is None:
        return _rounding_down(expr, known)
    (coefficients, constant), shaped = outside, []
    for quotient in quotients:
        for x, coefficient in list(coefficients.items()):
            within = quotient.plus(x, coefficient)
            if coefficient % quotient.factor == 0 and abs(within.terms[x]) <= abs(quotient.terms.get(x, 0)):
                del coefficients[x]
                quotient = within
        quotient = replace(quotient, terms={x: c for x, c in quotient.terms.items() if c})
        shaped.append(quotient.turned() if all(c < 0 for c in quotient.terms.values()) else quotient)
    if len(shaped) == 1 and not coefficients and constant % shaped[0].factor == 0:
        (only,) = shaped
        only = replace(only, constant=only.constant + constant // only.factor * only.divisor)
        return (only.turned() if only.factor < 0 else only).expression(known)
    if not shaped:
        return ordered(rest)
    parts = [*(q.expression(known) for q in shaped), *(multiply(c, p.Variable(x)) for x, c in coefficients.items())]
    return add(*sorted(parts, key=lambda term: integer_factor(term) < 0), constant)


def _rounding_down(expr: Expression, known: isl.Set) -> Expression:
    """*expr* with C's divisions only where *known* implies that no operand is negative; isl assumes a domain too."""
    match expr:
        case p.Sum() | p.Product():
            return type(expr)(tuple(arithmetic(_rounding_down(c, known)) for c in expr.children))
        case p.Min() | p.Max():
            return type(expr)(tuple(_rounding_down(c, known) for c in expr.children))
        case p.If():
            return p.If(expr.condition, _rounding_down(expr.then, known), _rounding_down(expr.else_, known))
        case p.FloorDiv(numerator=numerator, denominator=divisor) | p.Remainder(
                numerator=numerator, denominator=divisor):
            numerator = arithmetic(_rounding_down(numerator, known))
            nodes = (TruncatedQuotient, p.FloorDiv) if isinstance(expr, p.FloorDiv) else \
                (TruncatedRemainder, p.Remainder)
            return nodes[0 if is_at_least(numerator, 0, known) else 1](numerator, divisor)
        case _:
            return expr


def _quotient(term: Expression) -> _Quotient | None:
    """*term* as a quotient of a linear form; ``None`` where it is something else."""
    match term:
        case p.Product(children=(int() as factor, p.FloorDiv() as quotient)):
            pass
        case p.FloorDiv():
            factor, quotient = 1, term
        case _:
            return None
    numerator = _linear(quotient.numerator)
    if numerator is None or not isinstance(quotient.denominator, int):
        return None
    return _Quotient(factor, *numerator, quotient.denominator)


def _linear(expr: Expression) -> tuple[dict[str, int], int] | None:
    """Coefficients by name, and a constant; ``None`` if the expression is not a sum of these."""
    coefficients: dict[str, int] = {}
    constant = 0
    for term in expr.children if isinstance(expr, p.Sum) else (expr,):
        match term:
            case int():
                constant += term
            case p.Variable(name=name):
                coefficients[name] = coefficients.get(name, 0) + 1
            case p.Product(children=(int() as factor, p.Variable(name=name))):
                coefficients[name] = coefficients.get(name, 0) + factor
            case _:
                return None
    return coefficients, constant
