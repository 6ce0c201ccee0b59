"""The smallest instances of a finding: by parameters in the order of the arguments, then by inames."""
from __future__ import annotations

from loopkit.analysis.witnesses import parameters_of, witness_at
from loopkit.errors import Witness
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.relations import smallest_pair
from loopkit.poly.sets import InstanceSet, Map, lexmin_point


def smallest_witness(knl: LoopKernel, array: str, kind: str, source: str, sink: str, pairs: Map) -> Witness:
    """The smallest of *pairs*, from instances of the statement *source* to those of *sink*."""
    a, b = knl.statement_by_id[source], knl.statement_by_id[sink]
    params, first, second = smallest_pair(pairs, a.inames, b.inames, parameters_of(knl))
    return witness_at(knl, array, kind, params, (source, first), (sink, second))


def smallest_instance(knl: LoopKernel, points: InstanceSet) -> tuple[dict[str, int], dict[str, int]]:
    """The parameters and the inames of the smallest of *points*, which are not empty."""
    point = lexmin_point(points.set, points.inames, parameters_of(knl))
    assert point is not None
    return point
