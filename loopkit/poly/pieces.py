"""Pieces of isl's sets: joining them, and a polyhedron around them."""
from __future__ import annotations

from typing import TypeVar

import islpy as isl

from loopkit.poly.affine import DIM
from loopkit.poly.limits import coalesced

S = TypeVar("S", isl.Set, isl.Map)


def in_few_pieces(points: isl.Set) -> isl.Set:
    """*points* with pieces joined; if there are many, with equalities detected first, by which isl joins more."""
    return coalesced(points.detect_equalities() if points.n_basic_set() > _FEW else points)


def plain_hull(points: S) -> S:
    """A polyhedron without unknowns around *points*, from their constraints: not the least, but fast."""
    hull: S = type(points)(points.remove_divs().simple_hull())
    return hull


def in_polyhedra(points: isl.Set, context: isl.Set) -> isl.Set:
    """A polyhedron without unknowns around *points*, or several if one would be unbounded."""
    hull = plain_hull(points.intersect_params(context))
    return hull if hull.is_bounded() else points.remove_divs()


def in_plain_bounds(points: isl.Set, context: isl.Set) -> isl.Set:
    """*points*, or a polyhedron around them if they are a union with strides.

    The bounds of such a union are many forms of the parameters, one for each remainder: isl takes minutes to find
    them, and they are unreadable. The polyhedron begins and ends some values beyond.

    :arg context: facts about the parameters.
    """
    if points.n_basic_set() == 1 or not has_unknowns(points):
        return points
    around = plain_hull(points.intersect_params(context))
    bounded = all(around.dim_has_lower_bound(DIM.set, i) and around.dim_has_upper_bound(DIM.set, i)
                  for i in range(around.dim(DIM.set)))
    return around if bounded else points


def has_unknowns(points: isl.Set) -> bool:
    """Do the conditions on *points* have existentially quantified integers?"""
    return any(piece.dim(DIM.div) for piece in points.get_basic_sets())


#: Pieces that are joined as they are: knowing their equalities changes how extents are written.
_FEW = 8
