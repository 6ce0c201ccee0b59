"""Unions of instance sets with existentially quantified integers, which isl simplifies too little or too slowly."""
from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

import islpy as isl

from loopkit.poly.affine import DIM
from loopkit.poly.limits import affordable
from loopkit.poly.sets import InstanceSet, has_unknowns, plain_hull


def in_plain_bounds(points: isl.Set, context: isl.Set) -> isl.Set:
    """*points*, or a polyhedron around them if they are a union with strides.

    The bounds of such a union are many forms of the parameters, one for each remainder: isl takes minutes to find
    them, and they are unreadable. The polyhedron begins and ends some values beyond.
    """
    if points.n_basic_set() == 1 or not has_unknowns(points):
        return points
    around = plain_hull(points.intersect_params(context))
    return around if all(around.dim_is_bounded(DIM.set, i) for i in range(around.dim(DIM.set))) else points


def without_covered(parts: Sequence[InstanceSet]) -> list[InstanceSet]:
    """*parts* without those whose existentially quantified integers add no points to the parts without any."""
    plain = [part for part in parts if not has_unknowns(part.set)]
    return plain + [part for part in parts if has_unknowns(part.set) and not any(
        affordable(partial(part.is_subset, other), otherwise=False) for other in plain)]


def joined(parts: Sequence[InstanceSet]) -> InstanceSet:
    """The union of *parts*, which have the same inames.

    A part that lies in another one is left out. isl keeps both if the larger one has existentially quantified integers.
    """
    every = reduce(InstanceSet.union, parts)
    if len(parts) == 1 or every.set.n_basic_set() == 1 or not has_unknowns(every.set):
        return every

    def within(part: InstanceSet, other: InstanceSet) -> bool:
        return affordable(partial(part.is_subset, other), otherwise=False)
    kept: list[InstanceSet] = []
    for part in parts:
        if not any(within(part, other) for other in kept):
            kept = [*(other for other in kept if not within(other, part)), part]
    return every if len(kept) == len(parts) else reduce(InstanceSet.union, kept)
