"""Instances that run at once along a ``vec`` iname: all reads of a statement come before all of its writes."""
from __future__ import annotations

from collections.abc import Sequence

import pymbolic.primitives as p

from loopkit.kernel.dependence import Dependence
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import VecTag, is_parallel
from loopkit.poly.relations import equal_coordinates
from loopkit.poly.sets import Map


def in_one_vector(knl: LoopKernel, d: Dependence) -> Map | None:
    """The pairs of *d* within one vector: the second instance reads an element that the first one writes.

    Vectors of several threads run at once too; between those any pair counts.
    """
    if d.source != d.sink or d.reorderable:
        return None
    inames = knl.statement_by_id[d.source].inames
    elements = [x for x in inames if isinstance(knl.tags.get(x), VecTag)]
    if not elements:
        return None
    others = [x for x in inames if x not in elements]
    sequential = [x for x in others if not is_parallel(knl.tags.get(x))]
    pairs = _where_equal(d.relation, inames, sequential)
    if d.kind != "flow":
        pairs = pairs.subtract(_where_equal(d.relation, inames, others))
    return None if pairs.is_empty() else pairs


def _where_equal(relation: Map, inames: tuple[str, ...], chosen: Sequence[str]) -> Map:
    """The pairs of *relation* that agree in *chosen*."""
    values = list(map(p.Variable, chosen))
    return relation.intersect(equal_coordinates(inames, values, inames, values))
