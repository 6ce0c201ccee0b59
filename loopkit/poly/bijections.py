"""One-to-one affine maps between inames, and the parts of a loop, for transformations of inames."""
from __future__ import annotations

from collections.abc import Sequence

import islpy as isl
from pymbolic.typing import Expression

from loopkit.poly.affine import DIM, from_aff
from loopkit.poly.limits import coalesced
from loopkit.poly.relations import SmallestPair, other_instance, restrict, same_element, smallest_pair
from loopkit.poly.sets import InstanceSet


def solutions(old: tuple[str, ...], new: tuple[str, ...], zeros: Sequence[Expression]) -> isl.Map:
    """``{ [old] -> [new] : each of zeros is 0 }``.

    :raises NotAffineError: one of *zeros* is not quasi-affine.
    """
    points = InstanceSet.universe((*old, *new)).where(*(("==", zero) for zero in zeros))
    return isl.Map.from_range(points.set).move_dims(DIM.in_, 0, DIM.out, 0, len(old))


def two_with_one_image(relation: isl.Map, points: InstanceSet, parameters: Sequence[str] = ()) -> SmallestPair | None:
    """Parameters and the smallest two of *points* with one image; ``None``: *relation* is injective on *points*."""
    inside = restrict(relation, points)
    if inside.is_injective():
        return None
    return smallest_pair(other_instance(same_element(inside, inside)), points.inames, points.inames, parameters)


def inverse(relation: isl.Map, points: InstanceSet, new: Sequence[str]) -> tuple[Expression, ...] | None:
    """The one of *points* that *relation* sends to *new*, as affine forms of *new*; ``None`` if isl finds no single
    form.

    *relation* is injective on *points*.
    """
    back = (relation if relation.is_injective() else restrict(relation, points)).reverse()
    if back.is_empty():
        return (0,)*len(points.inames)             # there is no point to name
    function = coalesced(isl.PwMultiAff.from_map(back))
    function = function.gist(function.domain())
    if not function.isa_multi_aff():
        return None
    forms = function.as_multi_aff()
    return tuple(from_aff(forms.get_aff(i), new) for i in range(len(points.inames)))


def affine_ends(points: InstanceSet, context: isl.Set) -> tuple[Expression, Expression] | None:
    """The least and the greatest value of the one iname of *points*; ``None`` if they are no affine forms."""
    values = points.set.intersect_params(context)
    if values.is_empty():
        return 0, 0
    if not values.dim_is_bounded(DIM.set, 0):
        return None
    ends = [coalesced(end).get_pieces() for end in (values.dim_min(0), values.dim_max(0))]
    if any(len(pieces) != 1 for pieces in ends):
        return None
    low, high = (from_aff(pieces[0][1]) for pieces in ends)
    return low, high


def parted(points: InstanceSet, first: int, last: int) -> tuple[InstanceSet, InstanceSet, InstanceSet] | None:
    """The innermost iname's first values, the others, and its last values, for each value of the outer inames.

    A point is one of the *first* ones if the iname is less than its least value there plus *first*; likewise of the
    *last*. ``None`` if the iname has no such bound. If there are fewer values than *first* and *last* together, the
    first ones take precedence.
    """
    outer = len(points.inames) - 1
    if (first and not points.set.dim_has_lower_bound(DIM.set, outer)) \
            or (last and not points.set.dim_has_upper_bound(DIM.set, outer)):
        return None
    values = isl.Map.from_range(points.set).move_dims(DIM.in_, 0, DIM.out, 0, outer)
    everywhere, nowhere = isl.Map.universe(values.get_space()), isl.Map.empty(values.get_space())
    before, behind, early, late = nowhere, everywhere, everywhere, nowhere
    if first:
        least = values.lexmin()
        before, behind = (least.apply_range(isl.Map(f"{{ [j] -> [i] : i {op} j + {first} }}")) for op in ("<", ">="))
    if last:
        greatest = values.lexmax()
        late, early = (greatest.apply_range(isl.Map(f"{{ [j] -> [i] : i {op} j - {last} }}")) for op in (">", "<="))
    one, two, three = (InstanceSet(points.inames, coalesced(part.wrap().flatten()))
                       for part in (before, behind.intersect(early), behind.intersect(late)))
    return one, two, three
