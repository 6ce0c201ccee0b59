"""Sets of array elements: how large an array must be, what lies outside it, what a tile touches."""
from __future__ import annotations

from collections.abc import Sequence

import islpy as isl
from pymbolic.typing import Expression

from loopkit.poly.affine import DIM, NotAffineError, add, from_pw_aff, to_aff
from loopkit.poly.enumerated import subscripts_on
from loopkit.poly.sets import InstanceSet, constant_min


def axis_extent(accesses: Sequence[tuple[InstanceSet, Expression]], assumptions: isl.Set) -> Expression | None:
    """The smallest extent that holds every subscript, or ``None`` where there is no bound."""
    touched: isl.Set | None = None
    for domain, subscript in accesses:
        image = domain.set.apply(subscripts_on(domain, (subscript,)))
        touched = image if touched is None else touched.union(image)
    if touched is None:
        return None
    touched = touched.intersect_params(assumptions)
    if touched.is_empty():
        return 0
    if not touched.dim_has_upper_bound(DIM.set, 0):
        return None
    last = touched.coalesce().dim_max(0).coalesce()
    return add(from_pw_aff(_simplest(last, touched), assumptions), 1)


def leaves_a_margin(domain: InstanceSet, subscript: Expression) -> bool:
    """Does *subscript* start above 0, so that the first elements along its axis are never touched?"""
    low = constant_min(domain.set.apply(subscripts_on(domain, (subscript,))), 0)
    return low is not None and low > 0


def _simplest(value: isl.PwAff, touched: isl.Set) -> isl.PwAff:
    """Without the pieces' own conditions where one affine form serves all sizes that occur."""
    return value.gist(touched.params()) if value.n_piece() == 1 else value


def outside(relation: isl.Map, shape: Sequence[Expression | None], assumptions: isl.Set) -> isl.Set | None:
    """The instances whose element lies outside an array of *shape*; ``None`` if there are none."""
    box = isl.Set.universe(relation.range().get_space())
    for axis, extent in enumerate(shape):
        box = box.intersect(_at_least(box, axis))
        if extent is not None:
            try:
                box = box.intersect(_less_than(box, axis, extent))
            except NotAffineError:
                continue
    bad = relation.subtract_range(box).domain().intersect_params(assumptions)
    return None if bad.is_empty() else bad


def covered(relations: Sequence[isl.Map], shape: Sequence[Expression], assumptions: isl.Set) -> bool:
    """Do *relations* together reach every element of an array of *shape*, whatever the sizes?

    :raises NotAffineError: an extent is no affine form.
    """
    return missed(relations, shape, assumptions) is None


def missed(relations: Sequence[isl.Map], shape: Sequence[Expression], assumptions: isl.Set) -> isl.Set | None:
    """The elements of an array of *shape* that none of *relations* reaches; ``None`` if there are none.

    :raises NotAffineError: an extent is no affine form.
    """
    reached = relations[0].range()
    for relation in relations[1:]:
        reached = reached.union(relation.range())
    box = isl.Set.universe(reached.get_space())
    for axis, extent in enumerate(shape):
        box = _at_least(box, axis).intersect(_less_than(box, axis, extent))
    gaps = box.intersect_params(assumptions).subtract(reached)
    return None if gaps.is_empty() else gaps


def _at_least(box: isl.Set, axis: int) -> isl.Set:
    return box.lower_bound_val(DIM.set, axis, isl.Val.zero(isl.DEFAULT_CONTEXT))


def _less_than(box: isl.Set, axis: int, extent: Expression) -> isl.Set:
    dims = tuple(f"_{i}" for i in range(box.dim(DIM.set)))
    bound = isl.PwAff.from_aff(to_aff(extent, dims))
    local = isl.LocalSpace.from_space(box.get_space())
    return isl.PwAff.from_aff(isl.Aff.var_on_domain(local, DIM.set, axis)).lt_set(bound)
