"""Sets of array elements: the extents that an array needs, the elements outside of it, the elements of a tile."""
from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import chain, combinations

import islpy as isl
from pymbolic.typing import Expression

from loopkit.poly.affine import DIM, NotAffineError, add, from_pw_aff
from loopkit.poly.enumerated import subscripts_on
from loopkit.poly.limits import affordable, coalesced
from loopkit.poly.pieces import has_unknowns, in_few_pieces
from loopkit.poly.piecewise import piecewise
from loopkit.poly.sets import InstanceSet, constant_max, constant_min


def constant_extent(accesses: Sequence[tuple[InstanceSet, Expression]]) -> int | None:
    """The least constant extent that holds every subscript at all sizes; ``None``: there is none."""
    accessed = _accessed(accesses)
    last = None if accessed is None else constant_max(accessed, 0)
    return None if last is None else last + 1


def _accessed(accesses: Sequence[tuple[InstanceSet, Expression]]) -> isl.Set | None:
    images = [domain.set.apply(subscripts_on(domain, (subscript,))) for domain, subscript in accesses]
    return reduce(isl.Set.union, images) if images else None


def axis_extent(accesses: Sequence[tuple[InstanceSet, Expression]], assumptions: isl.Set) -> Expression | None:
    """The least extent that holds every subscript; ``None``: there is no bound."""
    accessed = _accessed(accesses)
    if accessed is None:
        return None
    accessed = accessed.intersect_params(assumptions)
    if accessed.is_empty():
        return 0
    if not accessed.dim_has_upper_bound(DIM.set, 0):
        return None
    accessed = in_few_pieces(accessed)
    last = _one_bound(accessed) if accessed.n_basic_set() > 1 else None
    if last is None:
        last = _simplest(coalesced(accessed.dim_max(0)), accessed.params(), assumptions)
    return add(from_pw_aff(last, assumptions), 1)


def leaves_a_margin(domain: InstanceSet, subscript: Expression) -> bool:
    """Does *subscript* start above 0, so that no access uses the first elements along its axis?"""
    low = constant_min(domain.set.apply(subscripts_on(domain, (subscript,))), 0)
    return low is not None and low > 0


def _one_bound(accessed: isl.Set) -> isl.PwAff | None:
    """The greatest element of *accessed* as one affine form, however many pieces it has; ``None``: there is none."""
    sizes, local = accessed.params(), isl.LocalSpace.from_space(accessed.get_space())
    own = isl.PwAff.from_aff(isl.Aff.var_on_domain(local, DIM.set, 0))
    seen: set[str] = set()
    for constraint in (c for piece in accessed.get_basic_sets() for c in piece.get_constraints()):
        if constraint.is_upper_bound(DIM.set, 0) and not constraint.involves_dims(DIM.div, 0, constraint.dim(DIM.div)):
            bound = _bound(constraint, local)
            if str(bound) in seen:
                continue
            seen.add(str(bound))
            largest = isl.PwAff.from_aff(bound)
            if accessed.intersect(own.gt_set(largest)).is_empty() \
                    and sizes.is_subset(accessed.intersect(own.eq_set(largest)).params()):
                return largest.project_domain_on_params()
    return None


def _bound(constraint: isl.Constraint, local: isl.LocalSpace) -> isl.Aff:
    """The upper bound in *constraint* of the one dimension, which has no other unknowns."""
    form = isl.Aff.zero_on_domain(local).set_constant_val(constraint.get_constant_val())
    for i in range(constraint.dim(DIM.param)):
        form = form.set_coefficient_val(DIM.param, i, constraint.get_coefficient_val(DIM.param, i))
    return form.scale_down_val(constraint.get_coefficient_val(DIM.set, 0).neg()).floor()


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
    nothing = none.add_constant_val(isl.Val.negone(isl.DEFAULT_CONTEXT)).intersect_domain(others)
    return value.intersect_domain(sizes).union_add(nothing)


def outside(relation: isl.Map, shape: Sequence[Expression | None], assumptions: isl.Set) -> isl.Set | None:
    """The instances whose element is outside of an array of *shape*; ``None``: there are none."""
    # one end at a time: a difference needs each unknown of the relation as a quotient, which may never end
    every = isl.Set.universe(relation.range().get_space())
    ends = [_at_least(every, axis) for axis in range(len(shape))]
    for axis, extent in enumerate(shape):
        if extent is not None:
            try:
                ends.append(_less_than(every, axis, extent))
            except NotAffineError:
                continue
    relation = relation.intersect_params(assumptions)
    beyond = [relation.intersect_range(end.complement()).domain() for end in ends]
    found = [points for points in beyond if not points.is_empty()]
    return reduce(isl.Set.union, found) if found else None


def read_beyond(relation: isl.Map, known: isl.Set) -> isl.Set:
    """The instances whose element is not in *known*."""
    if has_unknowns(known):                 # whose complement would ask for each of them as a quotient
        return relation.domain().subtract(relation.intersect_range(known).domain())
    return relation.intersect_range(known.complement()).domain()


def covered(relations: Sequence[isl.Map], shape: Sequence[Expression], assumptions: isl.Set) -> bool:
    """Do *relations* together access every element of an array of *shape*, whatever the sizes?

    :raises NotAffineError: an extent is not affine.
    """
    return missed(relations, shape, assumptions) is None


def missed(relations: Sequence[isl.Map], shape: Sequence[Expression], assumptions: isl.Set) -> isl.Set | None:
    """The elements of an array of *shape* that no relation of *relations* accesses; ``None``: there are none.

    :raises NotAffineError: an extent is not affine.
    """
    reached = reduce(isl.Set.union, (relation.range() for relation in relations))
    gaps = _box(reached.get_space(), shape).intersect_params(assumptions).subtract(in_few_pieces(reached))
    return None if gaps.is_empty() else gaps


def reached_within(relations: Sequence[isl.Map], shape: Sequence[Expression | None], assumptions: isl.Set) -> isl.Set:
    """The elements that *relations* access within an array of *shape*: all or none of it if isl can show that."""
    reached = reduce(isl.Set.union, (relation.range() for relation in relations))
    extents = [e for e in shape if e is not None]
    if (reached.n_basic_set() > 1 or has_unknowns(reached)) and len(extents) == len(shape):
        try:
            return affordable(lambda: _all_or_none(relations, reached, extents, assumptions), otherwise=reached)
        except NotAffineError:
            pass
    return reached


def _all_or_none(relations: Sequence[isl.Map], reached: isl.Set, shape: Sequence[Expression], assumptions: isl.Set
                 ) -> isl.Set:
    """The whole array of *shape* at the sizes at which *reached* is not empty, if that is equal to it; else *reached*.
    """
    gaps = missed(relations, shape, assumptions)
    without = isl.Set.empty(assumptions.get_space()) if gaps is None else gaps.params()
    if not without.is_disjoint(reached.params()):
        return reached
    return _box(reached.get_space(), shape).intersect_params(coalesced(assumptions.subtract(without)))


def reaches_all(relations: Sequence[isl.Map], instances: isl.Set, shape: Sequence[Expression], assumptions: isl.Set
                ) -> bool:
    """Do *relations* together give each of *instances* every element of an array of *shape*?

    :raises NotAffineError: an extent is no affine form.
    """
    reached = relations[0]
    for relation in relations[1:]:
        reached = reached.union(relation)
    box = _box(reached.range().get_space(), shape)
    wanted = isl.Map.from_domain_and_range(instances.intersect_params(assumptions), box)
    return bool(wanted.is_subset(reached))


def _box(space: isl.Space, shape: Sequence[Expression]) -> isl.Set:
    """The elements of an array of *shape*."""
    box = isl.Set.universe(space)
    for axis, extent in enumerate(shape):
        box = _at_least(box, axis).intersect(_less_than(box, axis, extent))
    return box


def _at_least(box: isl.Set, axis: int) -> isl.Set:
    return box.lower_bound_val(DIM.set, axis, isl.Val.zero(isl.DEFAULT_CONTEXT))


def _less_than(box: isl.Set, axis: int, extent: Expression) -> isl.Set:
    bound = piecewise(extent, tuple(f"_{i}" for i in range(box.dim(DIM.set))))
    local = isl.LocalSpace.from_space(box.get_space())
    return isl.PwAff.from_aff(isl.Aff.var_on_domain(local, DIM.set, axis)).lt_set(bound)
