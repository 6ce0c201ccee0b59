"""Instance sets made from the domains and the conditions of a kernel's text."""
from __future__ import annotations

from collections.abc import Collection, Sequence

import islpy as isl
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.poly.affine import DIM, NotAffineError, set_space, subtract, to_aff
from loopkit.poly.limits import coalesced
from loopkit.poly.sets import InstanceSet, condition_set

#: A set of any of isl's contexts.
AnySet = isl.Set | isl.BasicSet


def set_text(given: object) -> str | None:
    """isl's notation of *given*, if it is a set."""
    return str(given) if isinstance(given, AnySet) else None


def unbounded_iname(domain: InstanceSet) -> str | None:
    """An iname that takes infinitely many values for one value of the parameters, if there is one.

    isl's AST generator and its searches for points never end on such a set.
    """
    if domain.set.is_bounded():
        return None
    for iname in domain.inames:
        if not domain.onto((iname,)).set.is_bounded():
            return iname
    return None


def restricted(domain: InstanceSet, inames: Collection[str]) -> InstanceSet:
    """The projection of *domain* on *inames*, without constraints on parameters from independent inames.

    ``{[i,k]: 0<=i<n and 0<=k<l}`` becomes ``0<=i<n`` for ``i``, without a condition on ``l``: a sum over no ``k`` is
    0, and the statement that stores it runs anyway. If ``k`` depends on ``i``, the result is the projection.
    """
    rest = [x for x in domain.inames if x not in inames]
    kept = [x for x in domain.inames if x in inames]
    if not rest:
        return domain
    return _without_independent(domain, kept).onto(kept)


def _without_independent(domain: InstanceSet, kept: Collection[str]) -> InstanceSet:
    """Drop the constraints of those dimensions that no constraint ties, even through others, to *kept*."""
    if domain.set.n_basic_set() != 1:
        return domain
    [basic] = domain.set.get_basic_sets()
    if basic.dim(DIM.div):
        return domain
    groups = [{i for i in range(len(domain.inames)) if c.involves_dims(DIM.set, i, 1)}
              for c in basic.get_constraints()]
    reached = {i for i, x in enumerate(domain.inames) if x in kept}
    grown = True
    while grown:
        grown = False
        for group in groups:
            if group & reached and not group <= reached:
                reached |= group
                grown = True
    for i in range(len(domain.inames)):
        if i not in reached:
            basic = basic.drop_constraints_involving_dims(DIM.set, i, 1)
    return domain.named(isl.Set.from_basic_set(basic))


def is_affine_condition(condition: Expression, names: Collection[str]) -> bool:
    """Is *condition* made of comparisons of forms that are quasi-affine in *names*, by and, or and not?"""
    match condition:
        case bool():
            return True
        case p.Comparison(left=left, right=right):
            try:
                # each separately: the difference of x[i] and x[i] is 0, yet x[i] == x[i] fails for a NaN
                to_aff(left, (), names)
                to_aff(right, (), names)
            except NotAffineError:
                return False
            return True
        case p.LogicalAnd() | p.LogicalOr():
            return all(is_affine_condition(c, names) for c in condition.children)
        case p.LogicalNot():
            return is_affine_condition(condition.child, names)
        case _:
            return False


def condition_points(condition: Expression, inames: Sequence[str]) -> isl.Set:
    """``{ [inames] : condition }``; the condition is one that :func:`is_affine_condition` accepts."""
    match condition:
        case bool():
            universe = isl.Set.universe(set_space((), tuple(inames)))
            return universe if condition else isl.Set.empty(universe.get_space())
        case p.Comparison(left=left, operator=operator, right=right):
            return condition_set(operator, subtract(left, right), inames)
        case p.LogicalAnd(children=children):
            points = condition_points(children[0], inames)
            for child in children[1:]:
                points = points.intersect(condition_points(child, inames))
            return points
        case p.LogicalOr(children=children):
            points = condition_points(children[0], inames)
            for child in children[1:]:
                points = points.union(condition_points(child, inames))
            return coalesced(points)
        case p.LogicalNot(child=child):
            return coalesced(condition_points(child, inames).complement())
        case _:
            raise NotAffineError(str(condition))


def constrained(domain: InstanceSet, conditions: Sequence[Expression]) -> InstanceSet:
    """The points of *domain* at which the affine *conditions* hold."""
    points = domain.set
    for condition in conditions:
        points = points.intersect(condition_points(condition, domain.inames))
    return domain.named(coalesced(points) if points.n_basic_set() > 1 else points)
