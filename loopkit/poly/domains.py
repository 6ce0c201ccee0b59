"""Instance sets made from the domains and the conditions of a kernel's text."""
from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce

import islpy as isl
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.poly.affine import DIM, is_quasi_affine
from loopkit.poly.limits import coalesced
from loopkit.poly.piecewise import points_where
from loopkit.poly.sets import InstanceSet

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
    return next((x for x in domain.inames if not domain.onto((x,)).set.is_bounded()), None)


def restricted(domain: InstanceSet, inames: Collection[str]) -> InstanceSet:
    """The projection of *domain* on *inames*, without constraints on parameters from independent inames.

    ``{[i,k]: 0<=i<n and 0<=k<l}`` becomes ``0<=i<n`` for ``i``, without a condition on ``l``: a sum over no ``k`` is
    0, and the statement that stores it runs anyway. If ``k`` depends on ``i``, the result is the projection.
    """
    kept = [x for x in domain.inames if x in inames]
    return domain if len(kept) == len(domain.inames) else _without_independent(domain, kept).onto(kept)


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
    for _ in groups:                         # the longest chain of them
        reached.update(*(group for group in groups if group & reached))
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
            # each separately: the difference of x[i] and x[i] is 0, yet x[i] == x[i] fails for a NaN
            return is_quasi_affine(left, (), names) and is_quasi_affine(right, (), names)
        case p.LogicalAnd() | p.LogicalOr():
            return all(is_affine_condition(c, names) for c in condition.children)
        case p.LogicalNot():
            return is_affine_condition(condition.child, names)
        case _:
            return False


def constrained(domain: InstanceSet, conditions: Sequence[Expression]) -> InstanceSet:
    """The points of *domain* at which the affine *conditions* hold."""
    points = reduce(isl.Set.intersect, (points_where(c, domain.inames) for c in conditions), domain.set)
    return domain.named(coalesced(points) if points.n_basic_set() > 1 else points)
