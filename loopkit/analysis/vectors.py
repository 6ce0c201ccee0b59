"""What runs at once along a ``vec`` iname: the instances of one statement, all of whose reads are before its writes."""
from __future__ import annotations

import pymbolic.primitives as p

from loopkit.analysis.dependences import Dependence
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import VecTag, is_parallel
from loopkit.poly.relations import equal_coordinates
from loopkit.poly.sets import Map


def in_one_vector(knl: LoopKernel, d: Dependence) -> Map | None:
    """The pairs of *d* of which the second instance reads in a vector what the first one writes in it.

    The vectors of several threads are made at once, too.
    """
    if d.source != d.sink or d.kind != "flow" or d.reorderable:
        return None
    inames = knl.statement_by_id[d.source].inames
    lanes = [x for x in inames if isinstance(knl.tags.get(x), VecTag)]
    if not lanes:
        return None
    others = [p.Variable(x) for x in inames if x not in lanes and not is_parallel(knl.tags.get(x))]
    pairs = d.relation.intersect(equal_coordinates(inames, others, inames, others))
    return None if pairs.is_empty() else pairs
