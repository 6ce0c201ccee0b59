"""The pieces of isl's sets: fewer of them, and one around them all."""
from __future__ import annotations

import islpy as isl

from loopkit.poly.affine import DIM
from loopkit.poly.limits import coalesced


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
