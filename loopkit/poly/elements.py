"""Sets of array elements: the extents that an array needs, the elements outside of it, footprints of references."""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from itertools import chain, combinations

import islpy as isl
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.poly.affine import (
    DIM,
    NotAffineError,
    add,
    affine_difference,
    from_pw_aff,
    if_affine,
    is_quasi_affine,
    names_in,
    subtract,
)
from loopkit.poly.extents import in_multiples
from loopkit.poly.limits import affordable, coalesced
from loopkit.poly.piecewise import piecewise, subscripts_on
from loopkit.poly.relations import union_of, union_of_some
from loopkit.poly.sets import InstanceSet, bounded_by, constant_range, has_unknowns


def subscript_range(accesses: Sequence[tuple[InstanceSet, Expression]]) -> tuple[int | None, int | None]:
    """The least and the greatest subscript at all sizes; ``None`` if unbounded."""
    return constant_range(_accessed_values(accesses), 0)


def _accessed_values(accesses: Sequence[tuple[InstanceSet, Expression]]) -> isl.Set:
    return union_of([domain.set.apply(subscripts_on(domain, (s,))) for domain, s in accesses])


def axis_extent(accesses: Sequence[tuple[InstanceSet, Expression]], assumptions: isl.Set) -> Expression | None:
    """The least extent that holds every subscript; ``None``: there is no bound."""
    accessed = _accessed_values(accesses).intersect_params(assumptions)
    if accessed.is_empty():
        return 0
    if not accessed.dim_has_upper_bound(DIM.set, 0):
        return None
    accessed = coalesced(accessed)
    last = _simplest(coalesced(accessed.dim_max(0)), accessed.params(), assumptions)
    return in_multiples(add(from_pw_aff(last, assumptions), 1))


def _simplest(value: isl.PwAff, sizes: isl.Set, assumptions: isl.Set) -> isl.PwAff:
    """*value* as one affine form, or as the maximum or minimum of two, if that is right for all *sizes*.

    At other sizes no element is accessed, so that any value is right.
    """
    if value.n_piece() == 1:
        return affordable(lambda: value.gist(sizes), otherwise=value)
    others = assumptions.subtract(sizes)
    none = isl.PwAff.from_aff(isl.Aff.zero_on_domain(isl.LocalSpace.from_space(sizes.get_space())))
    forms = [isl.PwAff.from_aff(form) for _, form in value.get_pieces()]
    pairs = (join(f, g) for f, g in combinations(forms, 2) for join in (isl.PwAff.max, isl.PwAff.min))
    for form in chain(forms, pairs):
        if sizes.is_subset(form.eq_set(value)) and (form.n_piece() == 1 or others.is_disjoint(form.ge_set(none))):
            return form
    nothing = none.add_constant_val(-1).intersect_domain(others)
    return value.intersect_domain(sizes).union_add(nothing)


def outside(relation: isl.Map, shape: Sequence[Expression | None], assumptions: isl.Set,
            axes: Sequence[int] | None = None) -> isl.Set | None:
    """The instances whose element is outside of an array of *shape*; ``None``: there are none.

    :arg axes: those that count; ``None``: all.
    """
    axes = range(len(shape)) if axes is None else axes
    # one end at a time: a difference needs each unknown of the relation as a quotient, which may never end
    every = isl.Set.universe(relation.range().get_space())
    ends = [every.lower_bound_val(DIM.set, axis, 0) for axis in axes]
    for axis in axes:
        with suppress(NotAffineError):
            ends.append(_less_than(every, axis, shape[axis]))
    relation = relation.intersect_params(assumptions)
    return union_of_some([relation.intersect_range(end.complement()).domain() for end in ends])


def read_beyond(relation: isl.Map, known: isl.Set) -> isl.Set:
    """The instances whose element is not in *known*."""
    if has_unknowns(known):                 # the complement would need each unknown as a quotient
        return relation.domain().subtract(relation.intersect_range(known).domain())
    return relation.intersect_range(known.complement()).domain()


def missed(relations: Sequence[isl.Map], shape: Sequence[Expression | None], assumptions: isl.Set) -> isl.Set | None:
    """The elements of *shape* that no relation accesses, if any; :raises NotAffineError: an extent is not affine."""
    reached = union_of([relation.range() for relation in relations])
    gaps = _all_elements(reached.get_space(), shape).intersect_params(assumptions).subtract(coalesced(reached))
    return None if gaps.is_empty() else gaps


def reached_within(relations: Sequence[isl.Map], shape: Sequence[Expression | None], assumptions: isl.Set) -> isl.Set:
    """The elements that *relations* access within an array of *shape*: all or none of it if isl can show that."""
    reached = union_of([relation.range() for relation in relations])

    def all_or_none() -> isl.Set:
        """The whole array at the sizes at which *reached* is not empty, if that is equal to it; else *reached*."""
        gaps = missed(relations, shape, assumptions)
        without = isl.Set.empty(assumptions.get_space()) if gaps is None else gaps.params()
        if not without.is_disjoint(reached.params()):
            return reached
        return _all_elements(reached.get_space(), shape).intersect_params(coalesced(assumptions.subtract(without)))
    if reached.n_basic_set() > 1 or has_unknowns(reached):
        with suppress(NotAffineError):
            return affordable(all_or_none, otherwise=reached)
    return reached


def extended_within(elements: isl.Set, axes: Collection[int], shape: Sequence[Expression | None], assumptions: isl.Set
                    ) -> isl.Set:
    """The elements of *shape* that equal one of *elements* along all axes but *axes*, also at sizes without any.

    :raises NotAffineError: an extent is not affine.
    """
    lines = reduce(lambda points, axis: points.eliminate(DIM.set, axis, 1), axes, elements)
    lines = lines.gist_params(lines.params())
    return coalesced(lines.intersect(_all_elements(elements.get_space(), shape)).intersect_params(assumptions))


def reaches_all(relations: Sequence[isl.Map], instances: isl.Set, shape: Sequence[Expression | None],
                assumptions: isl.Set) -> bool:
    """Does each of *instances* get every element of *shape*? :raises NotAffineError: an extent is not affine."""
    reached = union_of(relations)
    box = _all_elements(reached.range().get_space(), shape)
    wanted = isl.Map.from_domain_and_range(instances.intersect_params(assumptions), box)
    return bool(wanted.is_subset(reached))


def _all_elements(space: isl.Space, shape: Sequence[Expression | None]) -> isl.Set:
    box = isl.Set.universe(space)
    for axis, extent in enumerate(shape):
        box = box.lower_bound_val(DIM.set, axis, 0).intersect(_less_than(box, axis, extent))
    return box


def _less_than(box: isl.Set, axis: int, extent: Expression | None) -> isl.Set:
    if extent is None:
        raise NotAffineError("an extent is unknown")
    bound = piecewise(extent, tuple(f"_{i}" for i in range(box.dim(DIM.set))))
    return isl.PwAff.var_on_domain(isl.LocalSpace.from_space(box.get_space()), DIM.set, axis).lt_set(bound)


@dataclass(frozen=True)
class BoxAxis:
    """``base <= subscript < base + extent``; *base* in the inames that do not sweep, *extent* a number or of sizes."""

    base: Expression
    extent: Expression

    @property
    def is_one(self) -> bool:
        return self.extent == 1


def swept_interval(domain: InstanceSet, subscript: Expression, outer: Sequence[str],
                   ranges: Mapping[str, tuple[int, int]], sizes: isl.Set, whole: Sequence[str] = ()
                   ) -> BoxAxis | None:
    """The least interval that holds *subscript* while the inames of *ranges* sweep, if its extent is constant.

    The inames *outer* stay fixed; the constraints of the domain on them are dropped, so that the base is one affine
    form, beside those terms of *subscript* that are of fixed inames only and no affine forms.

    :arg whole: inames that sweep over all of their values in *domain*, whose number depends on the sizes. With them,
        the extent may depend on the sizes.
    """
    moving = frozenset(domain.inames).difference(outer)
    box = InstanceSet.universe(domain.inames).where(*(
        c for x, (low, high) in ranges.items() for c in bounded_by(x, low, high + 1))).intersect_params(sizes)
    box = box.intersect(domain.onto(whole)) if whole else box
    # with all terms, an end may have several forms
    found = (_swept(box, *_standing_still(subscript, moving, every=every), outer, whole) for every in (False, True))
    return next((x for x in found if x is not None), None)


def _swept(box: InstanceSet, own: Expression, rest: Expression, outer: Sequence[str], whole: Sequence[str]
           ) -> BoxAxis | None:
    """The interval of *own*, which stands still, plus *rest* at the points of *box*."""
    fixed = tuple(p.Variable(x) for x in outer)
    relation = if_affine(lambda: subscripts_on(box, (*fixed, rest)))
    if relation is None:
        return None
    free = InstanceSet((*outer, "_s"), box.set.apply(relation)).bound(outer)
    if not free.set.dim_is_bounded(DIM.set, 0):
        return None
    low, high = coalesced(free.set.dim_min(0)), coalesced(free.set.dim_max(0))
    if low.n_piece() != 1 or high.n_piece() != 1:
        return None
    base, last = from_pw_aff(low), from_pw_aff(high)
    extent = affine_difference(last, base)
    if extent is not None:
        return BoxAxis(add(own, base), extent + 1)
    length = in_multiples(add(subtract(last, base), 1))
    return BoxAxis(add(own, base), length) if whole and names_in(length).isdisjoint(outer) else None


def _standing_still(subscript: Expression, moving: Collection[str], *, every: bool) -> tuple[Expression, Expression]:
    """The terms of *subscript* that use none of *moving*, *every* one or those that are not affine; and the others."""
    terms = subscript.children if isinstance(subscript, p.Sum) else (subscript,)
    own = [t for t in terms if names_in(t).isdisjoint(moving) and (every or not is_quasi_affine(t))]
    return add(*own), add(*(t for t in terms if t not in own))


def joined(a: BoxAxis, b: BoxAxis) -> BoxAxis | None:
    """The least interval around both; ``None`` where the distance of their ends is not constant."""
    distance, growth = affine_difference(b.base, a.base), affine_difference(b.extent, a.extent)
    if distance is None or growth is None:
        return None
    low, more = min(0, distance), max(0, distance + growth)
    return BoxAxis(a.base if low == 0 else b.base, add(a.extent, more - low))


def box_hull(points: InstanceSet, dims: Sequence[str]) -> InstanceSet:
    """The points with *dims* filled up to boxes; the other inames keep their values."""
    if not dims:
        return points
    others = tuple(x for x in points.inames if x not in dims)
    result = InstanceSet(points.inames, isl.Set.universe(points.set.get_space()))
    for x in dims:
        shadow = points.onto((*others, x))
        result = result.intersect(shadow.named(_without_gaps(shadow.set)))
    return result.named(result.set.remove_redundancies())


def _without_gaps(points: isl.Set) -> isl.Set:
    """*points* with all points between two of them along the last dimension."""
    hull, whole = isl.Set.from_basic_set(points.simple_hull()), coalesced(points)
    if whole.n_basic_set() == 1 and not has_unknowns(whole):
        return hull
    last = points.dim(DIM.set) - 1
    along = isl.Map.identity(points.get_space().map_from_set()).drop_constraints_involving_dims(DIM.out, last, 1)
    behind, before = along.order_le(DIM.in_, last, DIM.out, last), along.order_ge(DIM.in_, last, DIM.out, last)
    filled = coalesced(points.apply(behind)).intersect(coalesced(points.apply(before)))
    # the plainer form, unless it holds more: of several pieces, or where a remainder bounds them
    return hull if affordable(lambda: hull.is_subset(filled), otherwise=False) else coalesced(filled)
