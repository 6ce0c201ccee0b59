"""The pieces of isl's sets: fewer of them, and one around them all."""
from __future__ import annotations

from typing import TypeVar

import islpy as isl

from loopkit.poly.affine import DIM
from loopkit.poly.limits import coalesced

S = TypeVar("S", isl.Set, isl.Map)


def in_few_pieces(points: isl.Set) -> isl.Set:
    """*points* with pieces joined; where there are many, isl finds more to join once it knows their equalities."""
    return coalesced(points.detect_equalities() if points.n_basic_set() > _FEW else points)


def plain_hull(points: S) -> S:
    """A polyhedron without unknowns around *points*, from their own constraints: not the least, but found at once."""
    hull: S = type(points)(points.remove_divs().simple_hull())
    return hull


def in_polyhedra(points: isl.Set, context: isl.Set) -> isl.Set:
    """A polyhedron around *points*, or several where one would not end, without unknowns."""
    hull = plain_hull(points.intersect_params(context))
    return hull if hull.is_bounded() else points.remove_divs()


def in_plain_bounds(points: isl.Set, context: isl.Set) -> isl.Set:
    """*points*, or a polyhedron around them where they are a union with strides.

    Such a union ends at many forms of the parameters, one for each remainder that they leave: isl takes minutes to find
    them, and nobody can read them. The polyhedron begins and ends some values beyond.

    :arg context: what is known about the parameters.
    """
    if points.n_basic_set() == 1 or not has_unknowns(points):
        return points
    around = plain_hull(points.intersect_params(context))
    bounded = all(around.dim_has_lower_bound(DIM.set, i) and around.dim_has_upper_bound(DIM.set, i)
                  for i in range(around.dim(DIM.set)))
    return around if bounded else points


def has_unknowns(points: isl.Set) -> bool:
    """Do integers that are no coordinates stand in the conditions on *points*?"""
    return any(piece.dim(DIM.div) for piece in points.get_basic_sets())


#: Pieces that are joined as they are: knowing their equalities changes how extents are written.
_FEW = 8
