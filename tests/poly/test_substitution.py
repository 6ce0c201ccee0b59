"""Expressions in place of the parameters of isl's functions: the same values, with floors and at the ends of pieces."""
from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import islpy as isl
import pytest

from loopkit.compat.loopy.isl_helpers import subst_into_pwaff, subst_into_pwqpolynomial
from loopkit.compat.loopy.symbolic import parse, qpolynomial_to_expr
from loopkit.errors import UndecidedError, UnknownNameError
from loopkit.expr.evaluate import known_value
from loopkit.poly.affine import DIM

SPACE = isl.Set("[x, y] -> { [] }").space
VALUES = {"m": parse("x - 2*y"), "n": parse("(x + y) // 2 + 1")}
FORM = isl.PwAff("[m, n] -> { [(m + floor((n + m)/3))] : m > n; [(2*n)] : m <= n and n >= 0 }")
POLYNOMIAL = isl.PwQPolynomial("[m, n] -> { 1/2*m*m + 1/2*m + floor((n + 1)/2)*n : m > n; n^3 : m <= n and n >= 0 }")


def value(function: isl.PwAff | isl.PwQPolynomial, values: Mapping[str, int]) -> str:
    """The value of *function*; outside of its pieces that of a form is no number."""
    point = isl.Point.zero(function.get_domain_space())
    for name, x in values.items():
        point = point.set_coordinate_val(DIM.param, function.find_dim_by_name(DIM.param, name), isl.Val(x))
    return str(function.eval(point))


@pytest.mark.parametrize(("substitute", "function"), [
    (subst_into_pwaff, FORM), (subst_into_pwqpolynomial, POLYNOMIAL)])
def test_a_substitution_has_the_values_of_the_function_at_those_of_the_expressions(
        substitute: Callable[..., isl.PwAff | isl.PwQPolynomial], function: isl.PwAff | isl.PwQPolynomial) -> None:
    new = substitute(SPACE, function, VALUES)
    for x, y in itertools.product(range(-4, 5), repeat=2):
        own = {name: known_value(e, {"x": x, "y": y}) for name, e in VALUES.items()}
        assert value(new, {"x": x, "y": y}) == value(function, own), (x, y)


def test_the_expression_of_a_polynomial_has_its_values() -> None:
    (_, cubic), (_, square) = POLYNOMIAL.get_pieces()
    for piece in (cubic, square):
        whole = isl.PwQPolynomial.from_qpolynomial(piece)
        for m, n in itertools.product(range(-3, 4), repeat=2):
            assert str(known_value(qpolynomial_to_expr(piece), {"m": m, "n": n})) == value(whole, {"m": m, "n": n})


def test_a_parameter_without_a_value_or_with_another_kind_of_value_is_an_error() -> None:
    with pytest.raises(UnknownNameError, match="'n' is not a parameter of the substitution"):
        subst_into_pwaff(SPACE, FORM, {"m": parse("x")})
    for text in ("x*y", "z"):
        with pytest.raises(UndecidedError, match="has no form of isl"):
            subst_into_pwqpolynomial(SPACE, POLYNOMIAL, {"m": parse(text), "n": 1})
