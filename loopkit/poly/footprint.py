"""Footprints: the box of elements that a reference touches while some inames sweep."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import islpy as isl
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.poly.affine import DIM, add, affine_difference, from_pw_aff
from loopkit.poly.relations import subscript_relation
from loopkit.poly.sets import InstanceSet, with_dim_names


@dataclass(frozen=True)
class Interval:
    """``base <= subscript < base + extent``; *base* in the inames that do not sweep."""

    base: Expression
    extent: int


def swept_interval(domain: InstanceSet, subscript: Expression, outer: Sequence[str],
                   ranges: Mapping[str, tuple[int, int]]) -> Interval | None:
    """The least interval that holds *subscript* while the inames of *ranges* sweep.

    The inames *outer* stay fixed; what the domain says of them is forgotten, so that the base is one affine form.
    ``None`` where there is no such form of constant extent.
    """
    box = InstanceSet.universe(domain.inames).where(*(
        condition for x, (low, high) in ranges.items()
        for condition in ((">=", add(p.Variable(x), -low)), ("<=", add(p.Variable(x), -high)))))
    fixed = tuple(p.Variable(x) for x in outer)
    points = box.set.apply(subscript_relation(domain.inames, (*fixed, subscript)))
    free = InstanceSet((*outer, "_s"), with_dim_names(points, (*outer, "_s"))).bound(outer)
    if not free.set.dim_is_bounded(DIM.set, 0):
        return None
    low, high = free.set.dim_min(0).coalesce(), free.set.dim_max(0).coalesce()
    if low.n_piece() != 1 or high.n_piece() != 1:
        return None
    base, last = from_pw_aff(low), from_pw_aff(high)
    extent = affine_difference(last, base)
    return None if extent is None else Interval(base, extent + 1)


def joined(a: Interval, b: Interval) -> Interval | None:
    """The least interval around both; ``None`` where their distance is not constant."""
    distance = affine_difference(b.base, a.base)
    if distance is None:
        return None
    low, high = min(0, distance), max(a.extent, distance + b.extent)
    return Interval(a.base if low == 0 else b.base, high - low)


def box_hull(points: InstanceSet, dims: Sequence[str]) -> InstanceSet:
    """The points with *dims* filled up to boxes; the other inames keep their values."""
    if not dims:
        return points
    others = tuple(x for x in points.inames if x not in dims)
    result = InstanceSet(points.inames, isl.Set.universe(points.set.get_space()))
    for x in dims:
        shadow = points.onto((*others, x))
        hull = isl.Set.from_basic_set(shadow.set.simple_hull())
        result = result.intersect(InstanceSet((*others, x), with_dim_names(hull, (*others, x))))
    return result.named(result.set.remove_redundancies())
