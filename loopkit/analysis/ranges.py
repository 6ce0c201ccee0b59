"""Value ranges and extents of inames. A constant range uses only those assumptions on sizes that are equalities."""
from __future__ import annotations

from functools import reduce

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import data_params
from loopkit.errors import PreconditionError
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.extents import extent_from, first_value, has_greatest, has_least
from loopkit.poly.limits import kept_in_memo
from loopkit.poly.sets import InstanceSet, Set, equalities
from loopkit.poly.unions import in_plain_bounds, without_covered


def constant_range(knl: LoopKernel, domain: InstanceSet, iname: str) -> tuple[int | None, int | None]:
    """The least and the greatest value of *iname* in *domain* for all sizes; ``None`` if unbounded.

    A size counts as a number only if the assumptions fix it, not if they bound it. With ``n <= 8``, an iname below *n*
    has *n* values, which is not a constant extent.
    """
    return with_known_sizes(knl, domain).constant_range(iname)


def with_known_sizes(knl: LoopKernel, domain: InstanceSet) -> InstanceSet:
    """*domain* with the equalities of sizes that the assumptions state or imply, ``p = 4`` or ``n = m + 4``."""
    sizes = known_sizes(knl)
    return domain if sizes.plain_is_universe() else domain.intersect_params(sizes)


@kept_in_memo
def known_sizes(knl: LoopKernel) -> Set:
    """The equalities of sizes, and no other constraints, that the assumptions imply."""
    return equalities(knl.assumptions) if knl.whole is None else knl.whole.known_sizes


@kept_in_memo
def iname_range(knl: LoopKernel, iname: str) -> tuple[Expression, int]:
    """The least value of *iname* over all its statements, and its extent if that is constant, else 0.

    :raises PreconditionError: no parameter bounds its values from below.
    """
    if knl.whole is not None and iname in knl.whole.ranges:
        return knl.whole.ranges[iname]
    domains = _domains_of(knl, iname)
    if not domains:
        return 0, 1                         # no instances: any range will do
    lows, highs = zip(*(constant_range(knl, d, iname) for d in domains), strict=True)
    if None in lows:
        span = iname_span(knl, iname)
        if not has_least(span):
            raise _unbounded(iname)
        return first_value(span, knl.assumptions), 0
    return min(lows), 0 if None in highs else max(highs) - min(lows) + 1


@kept_in_memo
def iname_extent(knl: LoopKernel, iname: str) -> Expression:
    """The extent of *iname* over all its statements, counted from its least value, as an expression in the parameters.

    :raises PreconditionError: no parameter bounds its values.
    """
    low, constant = iname_range(knl, iname)
    if constant:
        return constant
    span = iname_span(knl, iname)
    if not has_greatest(span):
        raise _unbounded(iname)
    return extent_from(span, low, knl.assumptions)


def _unbounded(iname: str) -> PreconditionError:
    return PreconditionError(
        f"The sizes do not bound '{iname}', so that they give no number of cells for it, or of places on a hardware "
        "axis: its range is read from memory.", subject=iname,
        hint=f"keep the loop over '{iname}' sequential, or bound it by sizes too, as in '0 <= {iname} < n'")


@kept_in_memo
def iname_span(knl: LoopKernel, iname: str) -> InstanceSet:
    """The values of *iname* over all its statements, or a polyhedron around them, by which axes are sized."""
    found = [d.onto((iname,)) for d in _domains_of(knl, iname)]
    every = reduce(InstanceSet.union, without_covered(found) or [
        InstanceSet.universe((iname,)).where(("==", p.Variable(iname)))])
    return every.named(in_plain_bounds(every.set, knl.assumptions))


def _domains_of(knl: LoopKernel, iname: str) -> list[InstanceSet]:
    """The distinct instance sets, not empty, of the statements with *iname*, without bounds that depend on data."""
    found = {id(s.domain): s.domain for s in knl.statements if iname in s.inames}
    return [d.without_params(data_params(knl, d)) for d in found.values() if not with_known_sizes(knl, d).is_empty()]
