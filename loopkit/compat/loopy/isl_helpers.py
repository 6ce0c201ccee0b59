"""Forms and polynomials of isl with expressions in place of their parameters."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pymbolic.typing import Expression

from loopkit.compat.loopy.symbolic import with_plain_integers
from loopkit.errors import UndecidedError, require_known
from loopkit.poly.affine import if_affine, params_of
from loopkit.poly.limits import bounded
from loopkit.poly.substitution import pw_aff_of_values, pw_polynomial_of_values


def subst_into_pwaff(new_space: Any, pwaff: Any, subst_dict: Mapping[str, Expression]) -> Any:
    """The piecewise form *pwaff* with the values of *subst_dict*, in the parameters of *new_space*, for its own.

    >>> import islpy
    >>> from loopkit.compat.loopy.symbolic import parse
    >>> space = islpy.Set("[n] -> { [] }").space
    >>> subst_into_pwaff(space, islpy.PwAff("[m] -> { [(m + 1)] : m > 4 }"), {"m": parse("2*n")})
    PwAff("[n] -> { [(1 + 2n)] : n >= 3 }")

    :raises UnknownNameError: a parameter has no value.
    :raises UndecidedError: a value is not a quasi-affine form of the parameters of *new_space*.
    """
    return _substituted(pw_aff_of_values, new_space, pwaff, subst_dict)


def subst_into_pwqpolynomial(new_space: Any, poly: Any, subst_dict: Mapping[str, Expression]) -> Any:
    """As :func:`subst_into_pwaff`, for a piecewise quasi-polynomial.

    >>> import islpy
    >>> from loopkit.compat.loopy.symbolic import parse
    >>> space = islpy.Set("[n] -> { [] }").space
    >>> subst_into_pwqpolynomial(space, islpy.PwQPolynomial("[m] -> { m*m : m > 4 }"), {"m": parse("n + 1")})
    PwQPolynomial("[n] -> { (1 + 2 * n + n^2) : n >= 4 }")
    """
    return _substituted(pw_polynomial_of_values, new_space, poly, subst_dict)


def _substituted(compute: Callable[..., Any], space: Any, function: Any, given: Mapping[str, Expression]) -> Any:
    with bounded("a substitution for parameters"):
        require_known("parameter", params_of(function.space), given, where="the substitution")
        values = {name: with_plain_integers(value) for name, value in given.items()}
        found = if_affine(lambda: compute(function, space, values))
    if found is None:
        raise UndecidedError(f"A value for a parameter of {function} has no form of isl.",
                             f"it is not a quasi-affine form of the parameters of {space}")
    return found
