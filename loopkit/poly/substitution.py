"""isl's piecewise functions of parameters, with quasi-affine expressions in place of the parameters."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import reduce

import islpy as isl
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.poly.affine import DIM, from_aff, params_of, to_aff
from loopkit.poly.limits import coalesced
from loopkit.poly.quasi_polynomials import Polynomial, constant, polynomial_of, substituted


def pw_aff_of_values(function: isl.PwAff, space: isl.Space, values: Mapping[str, Expression]) -> isl.PwAff:
    """*function* of parameters, with *values* in their place: expressions in the parameters of *space*.

    >>> space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=[], params=["n"])
    >>> pw_aff_of_values(isl.PwAff("[m] -> { [(m + 1)] : m > 4 }"), space, {"m": 2*p.Variable("n")})
    PwAff("[n] -> { [(1 + 2n)] : n >= 3 }")

    :raises NotAffineError: a value is not a quasi-affine form of these parameters.
    """
    names = params_of(function.space)
    moved = function.move_dims(DIM.in_, 0, DIM.param, 0, len(names))
    return coalesced(moved.pullback_multi_aff(_as_function(values, names, space)).project_domain_on_params())


def pw_polynomial_of_values(function: isl.PwQPolynomial, space: isl.Space, values: Mapping[str, Expression]
                            ) -> isl.PwQPolynomial:
    """As :func:`pw_aff_of_values`, for a piecewise quasi-polynomial, which is 0 outside of its pieces.

    >>> space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=[], params=["n"])
    >>> square = isl.PwQPolynomial("[m] -> { m*m : m > 4 }")
    >>> pw_polynomial_of_values(square, space, {"m": p.Variable("n") + 1})
    PwQPolynomial("[n] -> { (1 + 2 * n + n^2) : n >= 4 }")

    :raises NotAffineError: a value is not a quasi-affine form of these parameters.
    """
    names = params_of(function.space)
    replaced, map_ = {name: polynomial_of(values[name]) for name in names}, _as_function(values, names, space)
    zero = _to_isl(constant(0), space)
    total = isl.PwQPolynomial.from_qpolynomial(zero)
    for where, value in function.get_pieces():
        inside = where.move_dims(DIM.set, 0, DIM.param, 0, len(names)).preimage_multi_aff(map_)
        new = _to_isl(substituted(polynomial_from_isl(value), replaced), space)
        total = total.add(isl.PwQPolynomial.alloc(inside, new))
    return total.project_domain_on_params()


def polynomial_from_isl(value: isl.QPolynomial) -> Polynomial:
    """A quasi-polynomial of parameters, with its quotients as expressions."""
    names, total = params_of(value.space), constant(0)
    for term in value.get_terms():
        atoms: list[tuple[Expression, int]] = [(p.Variable(x), term.get_exp(DIM.param, i)) for i, x in enumerate(names)]
        # the whole part of the form is the quotient
        atoms += [(from_aff(term.get_div(i)), term.get_exp(DIM.div, i)) for i in range(term.dim(DIM.div))]
        total += reduce(Polynomial.__mul__, (polynomial_of(atom).power(power) for atom, power in atoms),
                        constant(Fraction(term.get_coefficient_val().to_str())))
    return total


def _to_isl(polynomial: Polynomial, space: isl.Space) -> isl.QPolynomial:
    """*polynomial* in isl's form, in the parameters of *space*."""
    def form(expr: Expression) -> isl.QPolynomial:
        return isl.QPolynomial.from_aff(_aff_of(expr, space))
    return reduce(isl.QPolynomial.add, (
        reduce(isl.QPolynomial.mul, (form(atom).pow(power) for atom, power in monomial), form(1)).scale_val(
            isl.Val.read_from_str(isl.DEFAULT_CONTEXT, str(factor)))
        for monomial, factor in polynomial.terms.items()), form(0))


def _as_function(values: Mapping[str, Expression], names: Sequence[str], space: isl.Space) -> isl.MultiAff:
    """The *values* of *names* as a function of the parameters of *space*."""
    affs = reduce(isl.AffList.add, (_aff_of(values[name], space) for name in names),
                  isl.AffList.alloc(isl.DEFAULT_CONTEXT, len(names)))
    domain = _aff_of(0, space).get_domain_space()
    return isl.MultiAff.from_aff_list(domain.map_from_domain_and_range(domain.add_dims(DIM.set, len(names))), affs)


def _aff_of(expr: Expression, space: isl.Space) -> isl.Aff:
    return to_aff(expr, (), params_of(space)).align_params(space.params())
