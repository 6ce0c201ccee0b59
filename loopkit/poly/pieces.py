"""The pieces of isl's sets: fewer of them, one around them all, and those that are empty."""
from __future__ import annotations

from functools import reduce

import islpy as isl

from loopkit.poly.affine import DIM
from loopkit.poly.limits import coalesced


def without_empty_pieces(points: isl.Set) -> isl.Set:
    """*points* for isl's minima and maxima, which take an empty piece that is not known as such for a 0."""
    if points.n_basic_set() < 2:
        return points
    pieces = [piece for piece in points.get_basic_sets() if not piece.is_empty()]
    return reduce(isl.Set.union, (piece.to_set() for piece in pieces), isl.Set.empty(points.get_space()))


def in_few_pieces(points: isl.Set) -> isl.Set:
    """*points* with pieces joined; where there are many, isl finds more to join once it knows their equalities."""
    return coalesced(points.detect_equalities() if points.n_basic_set() > _FEW else points)


def plain_hull(points: isl.Set) -> isl.Set:
    """A polyhedron without unknowns around *points*, from their own constraints: not the least, but found at once."""
    return isl.Set.from_basic_set(points.remove_divs().simple_hull())


def has_unknowns(points: isl.Set) -> bool:
    """Do integers that are no coordinates stand in the conditions on *points*?"""
    return any(piece.dim(DIM.div) for piece in points.get_basic_sets())


#: Pieces that are joined as they are: knowing their equalities changes how extents are written.
_FEW = 8
