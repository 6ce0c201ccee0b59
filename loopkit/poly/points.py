"""Single points of parameter sets: do these values satisfy what is assumed?"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import islpy as isl

from loopkit.poly.affine import DIM
from loopkit.poly.sets import drop_unused_params, fix_params, params_text


@dataclass(frozen=True)
class _Constraint:
    """``sum(coefficient * parameter) + constant`` is zero (*equality*), or at least zero."""

    terms: tuple[tuple[str, int], ...]
    constant: int
    equality: bool
    text: str

    def holds(self, values: Mapping[str, int]) -> bool:
        total = self.constant
        for name, coefficient in self.terms:
            total += coefficient * values[name]
        return total == 0 if self.equality else total >= 0


def holds(params: isl.Set, values: Mapping[str, int]) -> bool:
    """Are the parameter *values* a point of the parameter set *params*? Absent parameters may be anything."""
    return not fix_params(params, values).is_empty()


def checker(params: isl.Set) -> Callable[[Mapping[str, int]], str | None]:
    """A function of parameter values that gives the text of a violated condition, or ``None``.

    A conjunction without existentially quantified variables becomes plain integer arithmetic (isl takes
    20 us a call); anything else is asked of isl.
    """
    points = drop_unused_params(params.coalesce())
    if points.plain_is_universe():
        return lambda values: None
    constraints = _conjunction(points)
    whole = params_text(points)
    if constraints is None:
        return lambda values: None if holds(points, values) else whole

    def check(values: Mapping[str, int]) -> str | None:
        for constraint in constraints:
            if not constraint.holds(values):
                return constraint.text
        return None
    return check


def _conjunction(points: isl.Set) -> tuple[_Constraint, ...] | None:
    parts = points.get_basic_sets()
    if len(parts) != 1 or parts[0].dim(DIM.div):
        return None
    return tuple(_constraint(c, points.get_space()) for c in parts[0].get_constraints())


def _constraint(constraint: isl.Constraint, space: isl.Space) -> _Constraint:
    terms = []
    for i in range(constraint.dim(DIM.param)):
        name, coefficient = space.get_dim_name(DIM.param, i), constraint.get_coefficient_val(DIM.param, i)
        if name is not None and not coefficient.is_zero():
            terms.append((name, int(coefficient.to_python())))
    text = params_text(isl.BasicSet.from_constraint(constraint).to_set())
    return _Constraint(tuple(terms), int(constraint.get_constant_val().to_python()),
                       bool(constraint.is_equality()), text)


def extents(points: isl.Set, dims: Sequence[int], values: Mapping[str, int]) -> tuple[int | None, ...]:
    """How far the dimensions *dims* of a set reach at the parameter *values*; ``None``: without end."""
    fixed = fix_params(points, values)
    if fixed.is_empty():
        return (0,) * len(dims)
    return tuple(_extent(fixed, dim) for dim in dims)


def _extent(points: isl.Set, dim: int) -> int | None:
    low, high = points.dim_min_val(dim), points.dim_max_val(dim)
    return int(high.to_python()) - int(low.to_python()) + 1 if low.is_int() and high.is_int() else None
