"""The condition under which all points of a box are in a set: the full-tile condition."""
from __future__ import annotations

from collections.abc import Mapping, Sequence

import islpy as isl

from loopkit.poly.affine import DIM
from loopkit.poly.limits import coalesced
from loopkit.poly.sets import param_name


def full_box_condition(points: isl.Set, inames: Sequence[str], box: Mapping[str, tuple[int, int]],
                 involving: Sequence[str], free_of: Sequence[str]) -> isl.Set | None:
    """The condition, on the names not in *box*, that all of *box* satisfies the constraints of *points*.

    The constraints are those that mention a name of *box*, one of *involving* (if not empty) and none of *free_of*;
    each is evaluated at the point of *box* where it is least. The names of the result are parameters. ``None`` if
    there is no such constraint, or *points* is not a single polyhedron.
    """
    pieces = coalesced(points).get_basic_sets()
    if len(pieces) != 1:
        return None
    piece = pieces[0].remove_redundancies()
    result: isl.Set | None = None
    for constraint in piece.get_constraints():
        if constraint.is_equality() or any(
                constraint.involves_dims(DIM.div, i, 1) for i in range(constraint.dim(DIM.div))):
            continue
        coefficients = _coefficients(constraint, inames)
        boxed = {x: c for x, c in coefficients.items() if x in box}
        if not boxed or (involving and not any(x in coefficients for x in involving)) \
                or any(x in coefficients for x in free_of):
            continue
        rest = {x: c for x, c in coefficients.items() if x not in box}
        if not rest:
            continue
        constant = int(constraint.get_constant_val().to_python())
        constant += sum(c * (box[x][0] if c > 0 else box[x][1]) for x, c in boxed.items())
        condition = _param_condition(rest, constant)
        result = condition if result is None else result.intersect(condition)
    return result


def _coefficients(constraint: isl.Constraint, inames: Sequence[str]) -> dict[str, int]:
    result: dict[str, int] = {}
    for i, x in enumerate(inames):
        value = int(constraint.get_coefficient_val(DIM.set, i).to_python())
        if value:
            result[x] = value
    for i in range(constraint.dim(DIM.param)):
        value = int(constraint.get_coefficient_val(DIM.param, i).to_python())
        if value:
            result[param_name(constraint, i)] = value
    return result


def _param_condition(coefficients: Mapping[str, int], constant: int) -> isl.Set:
    space = isl.Space.params_alloc(isl.DEFAULT_CONTEXT, len(coefficients))
    for i, x in enumerate(coefficients):
        space = space.set_dim_name(DIM.param, i, x)
    aff = isl.Aff.zero_on_domain(isl.LocalSpace.from_space(space)).set_constant_val(
        isl.Val.int_from_si(isl.DEFAULT_CONTEXT, constant))
    for i, c in enumerate(coefficients.values()):
        aff = aff.set_coefficient_val(DIM.param, i, isl.Val.int_from_si(isl.DEFAULT_CONTEXT, c))
    return isl.PwAff.from_aff(aff).ge_set(isl.PwAff.from_aff(
        isl.Aff.zero_on_domain(isl.LocalSpace.from_space(space))))
