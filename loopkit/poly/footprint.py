"""Footprints: the box of elements that a reference accesses while some inames sweep."""
from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import islpy as isl
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.poly.affine import DIM, NotAffineError, add, affine_difference, from_pw_aff, is_quasi_affine, names_in
from loopkit.poly.enumerated import subscripts_on
from loopkit.poly.limits import affordable, coalesced
from loopkit.poly.sets import InstanceSet, with_dim_names


@dataclass(frozen=True)
class BoxAxis:
    """``base <= subscript < base + extent``; *base* in the inames that do not sweep."""

    base: Expression
    extent: int


def swept_interval(domain: InstanceSet, subscript: Expression, outer: Sequence[str],
                   ranges: Mapping[str, tuple[int, int]], sizes: isl.Set) -> BoxAxis | None:
    """The least interval that holds *subscript* while the inames of *ranges* sweep.

    The inames *outer* stay fixed; what the domain says of them is forgotten, so that the base is one affine form,
    beside those terms of *subscript* that are of fixed inames only and no affine forms.
    ``None`` where there is no such form of constant extent.

    :arg sizes: what is known about the parameters.
    """
    own, rest = _standing_still(subscript, frozenset(domain.inames).difference(outer))
    box = InstanceSet.universe(domain.inames).where(*(
        condition for x, (low, high) in ranges.items()
        for condition in ((">=", add(p.Variable(x), -low)), ("<=", add(p.Variable(x), -high))))).intersect_params(sizes)
    fixed = tuple(p.Variable(x) for x in outer)
    try:
        points = box.set.apply(subscripts_on(box, (*fixed, rest)))
    except NotAffineError:
        return None
    free = InstanceSet((*outer, "_s"), with_dim_names(points, (*outer, "_s"))).bound(outer)
    if not free.set.dim_is_bounded(DIM.set, 0):
        return None
    low, high = coalesced(free.set.dim_min(0)), coalesced(free.set.dim_max(0))
    if low.n_piece() != 1 or high.n_piece() != 1:
        return None
    base, last = from_pw_aff(low), from_pw_aff(high)
    extent = affine_difference(last, base)
    return None if extent is None else BoxAxis(add(own, base), extent + 1)


def _standing_still(subscript: Expression, moving: Collection[str]) -> tuple[Expression, Expression]:
    """The terms of *subscript* that are no affine forms and use none of *moving*, and the others."""
    terms = subscript.children if isinstance(subscript, p.Sum) else (subscript,)
    own = [t for t in terms if names_in(t).isdisjoint(moving) and not is_quasi_affine(t)]
    return add(*own), add(*(t for t in terms if t not in own))


def joined(a: BoxAxis, b: BoxAxis) -> BoxAxis | None:
    """The least interval around both; ``None`` where their distance is not constant."""
    distance = affine_difference(b.base, a.base)
    if distance is None:
        return None
    low, high = min(0, distance), max(a.extent, distance + b.extent)
    return BoxAxis(a.base if low == 0 else b.base, high - low)


def box_hull(points: InstanceSet, dims: Sequence[str]) -> InstanceSet:
    """The points with *dims* filled up to boxes; the other inames keep their values."""
    if not dims:
        return points
    others = tuple(x for x in points.inames if x not in dims)
    result = InstanceSet(points.inames, isl.Set.universe(points.set.get_space()))
    for x in dims:
        shadow = points.onto((*others, x))
        hull = _between_ends(shadow.set)
        result = result.intersect(InstanceSet((*others, x), with_dim_names(hull, (*others, x))))
    return result.named(result.set.remove_redundancies())


def _between_ends(points: isl.Set) -> isl.Set:
    """*points* with all points between two of them along the last dimension."""
    hull, whole = isl.Set.from_basic_set(points.simple_hull()), coalesced(points)
    if whole.n_basic_set() == 1 and not any(piece.dim(DIM.div) for piece in whole.get_basic_sets()):
        return hull
    last = points.dim(DIM.set) - 1
    along = isl.Map.identity(points.get_space().map_from_set()).drop_constraints_involving_dims(DIM.out, last, 1)
    behind, before = along.order_le(DIM.in_, last, DIM.out, last), along.order_ge(DIM.in_, last, DIM.out, last)
    filled = _beyond(points, isl.Map.lexmin, behind).intersect(_beyond(points, isl.Map.lexmax, before))
    # the plainer form, unless it holds more: of several pieces, or where a remainder bounds them
    return hull if affordable(lambda: hull.is_subset(filled), otherwise=False) else coalesced(filled)


def _beyond(points: isl.Set, ends: Callable[[isl.Map], isl.Map], order: isl.Map) -> isl.Set:
    """The points on one side of some of *points*: of all of them, or of the *ends*, whichever has fewer pieces."""
    every = coalesced(points.apply(order))
    if every.n_basic_set() < 2:
        return every
    outer = points.dim(DIM.set) - 1

    def from_ends() -> isl.Set:
        found = ends(isl.Map.from_range(points).move_dims(DIM.in_, 0, DIM.out, 0, outer))
        return coalesced(found.move_dims(DIM.out, 0, DIM.in_, 0, outer).range().apply(order))
    fewer = affordable(from_ends, otherwise=every)
    return fewer if fewer.n_basic_set() < every.n_basic_set() else every
