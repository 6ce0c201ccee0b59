"""Full and partial tiles: padding of iteration domains to a multiple of a length, conditions for full boxes."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.poly.affine import DIM, NotAffineError, add, floor_div, from_pw_aff, multiply, subtract, to_int
from loopkit.poly.codegen import condition_expression
from loopkit.poly.domains import restricted
from loopkit.poly.limits import affordable, coalesced
from loopkit.poly.relations import cells, same_element
from loopkit.poly.sets import InstanceSet, Set, condition_set, params_of, plain_hull


def padded_to_tiles(domain: InstanceSet, iname: str, length: int) -> InstanceSet:
    """*domain* with all points of each tile in which it has a point: *length* values of *iname*, counted from 0."""
    others = [x for x in domain.inames if x != iname]
    tile = cells(domain.inames, (*(p.Variable(x) for x in others), floor_div(p.Variable(iname), length)))
    whole = domain.named(coalesced(domain.apply(same_element(tile, tile), domain.inames).set))

    def plainest() -> InstanceSet:
        plain = _between_ends(domain, iname, length, others)
        if plain is not None and plain.is_equal(whole):
            return domain if plain.is_equal(domain) else plain
        return whole
    return affordable(plainest, otherwise=whole)


def _between_ends(domain: InstanceSet, iname: str, length: int, others: list[str]) -> InstanceSet | None:
    """The tiles from the first point to the last along *iname*, if their bounds depend on parameters only."""
    values = domain.onto((iname,))
    low = values.constant_range(iname)[0]
    if low is None or values.is_empty():
        return None
    try:
        top = from_pw_aff(coalesced(values.set.dim_max(0)))
        end = top // length * length + length if isinstance(top, int) else \
            multiply(length, floor_div(add(top, length), length))
        return restricted(domain, others).onto(domain.inames).where(
            (">=", add(p.Variable(iname), -(low // length * length))), ("<", subtract(p.Variable(iname), end)))
    except NotAffineError:
        return None


def condition_of(points: InstanceSet, around: InstanceSet, assumptions: Set) -> Expression | None:
    """The condition on the inames that holds for *points* and for no others of *around*; ``None``: there are no others.

    It holds for sizes at which *points* is not empty.
    """
    known = around.set
    if known.n_basic_set() > _FEW:          # a superset will do
        known = plain_hull(known)
    context = params_of(around.named(known)).intersect(assumptions)
    simplified = affordable(lambda: points.set.gist_params(points.set.params()), otherwise=points.set)
    return condition_expression(params_of(points.named(simplified)), context)


#: The number of pieces up to which isl finds implications fast.
_FEW = 4


def full_box_condition(points: Set, inames: Sequence[str], box: Mapping[str, tuple[int, int]],
                       involving: Sequence[str], free_of: Sequence[str]) -> Set | None:
    """The full-tile condition, on the names not in *box*: all of *box* satisfies the constraints of *points*.

    The constraints are those that mention a name of *box*, one of *involving* (if not empty) and none of *free_of*;
    each is evaluated at the point of *box* where it is least. The names of the result are parameters. ``None`` if
    there is no such constraint, or *points* is not a single polyhedron.
    """
    pieces = coalesced(points).get_basic_sets()
    if len(pieces) != 1:
        return None
    conditions = []
    for constraint in pieces[0].remove_redundancies().get_constraints():
        if constraint.is_equality() or constraint.involves_dims(DIM.div, 0, constraint.dim(DIM.div)):
            continue
        coefficients = {str(x): to_int(c) for x, c in (
            *constraint.get_coefficients_by_name(DIM.param).items(),
            *constraint.get_coefficients_by_name(DIM.set, {(DIM.set, i): x for i, x in enumerate(inames)}).items())
            if x != 1}
        rest = coefficients.keys() - box.keys()
        if rest and len(rest) < len(coefficients) and coefficients.keys().isdisjoint(free_of) \
                and not (involving and coefficients.keys().isdisjoint(involving)):
            least = {x: box[x][0] if c > 0 else box[x][1] for x, c in coefficients.items() if x in box}
            conditions.append(condition_set(">=", add(
                *(multiply(c, least.get(x, p.Variable(x))) for x, c in coefficients.items()),
                to_int(constraint.get_constant_val())), ()).params())
    return reduce(Set.intersect, conditions) if conditions else None
