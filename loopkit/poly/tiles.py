"""Padding of iteration domains to a multiple of a length, and the condition for the original points."""
from __future__ import annotations

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.poly.affine import NotAffineError, add, floor_div, from_pw_aff, multiply, subtract
from loopkit.poly.codegen import condition_expression
from loopkit.poly.domains import restricted
from loopkit.poly.limits import affordable, coalesced
from loopkit.poly.pieces import plain_hull
from loopkit.poly.relations import cells, same_element
from loopkit.poly.sets import InstanceSet, Set, params_of


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
        end = multiply(length, floor_div(add(top, length), length))
        if isinstance(top, int):
            end = top // length * length + length
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
    told = affordable(lambda: points.set.gist_params(points.set.params()), otherwise=points.set)
    return condition_expression(params_of(points.named(told)), context)


#: The number of pieces up to which isl finds implications fast.
_FEW = 4
