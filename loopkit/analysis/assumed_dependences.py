"""Assumed dependences of temporaries: pairs that a step may break because of an obligation.

A refuted pair (``unsafe=True``) accesses one element in either order, so that its read may find any value. An
undecided pair (``assume=``) never accesses one element. Lowering and its checks rely on these claims alone.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from loopkit.analysis.accesses import accesses_by_array
from loopkit.analysis.dependences import with_assumed
from loopkit.kernel.dependence import Dependence
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.limits import kept
from loopkit.poly.relations import same_element
from loopkit.poly.sets import Map, Set


def assumed_dependences(knl: LoopKernel, array: str) -> tuple[Dependence, ...]:
    """The assumed dependences of the temporary *array*."""
    return _by_array(knl).get(array, ()) if knl.obligations else ()


def without_assumed(knl: LoopKernel, array: str, source: str, sink: str, pairs: Map) -> Map:
    """*pairs*, instances that access one element of the temporary *array*, without the assumed ones in either order."""
    for d in assumed_dependences(knl, array):
        if (d.source, d.sink) == (source, sink):
            pairs = pairs.subtract(d.relation)
        if (d.sink, d.source) == (source, sink):
            pairs = pairs.subtract(d.relation.reverse())
    return pairs


def assumed_flows(knl: LoopKernel, array: str) -> Iterator[Dependence]:
    """The assumed flows of the temporary *array* whose two instances access one element."""
    for d in assumed_dependences(knl, array):
        if d.exact and d.kind == "flow":
            accesses = accesses_by_array(knl).get(array, ())
            writes = [a.relation for a in accesses if a.is_write and a.statement == d.source]
            reads = [a.relation for a in accesses if not a.is_write and a.statement == d.sink]
            # a later step may have expanded the array, so that the two no longer share an element
            yield from (replace(d, relation=both) for w in writes for r in reads
                        if not (both := d.relation.intersect(same_element(w, r))).is_empty())


def clobbered_reads(knl: LoopKernel, array: str, statement: str) -> Set | None:
    """The instances of *statement* that may read any value from *array*; ``None``: there are none.

    Also ``None`` if *statement* reads *array* by several subscripts, as a dependence does not tell these apart.
    """
    reads = {a.subscripts for a in accesses_by_array(knl)[array] if a.statement == statement and not a.is_write}
    found: Set | None = None
    for d in assumed_dependences(knl, array) if len(reads) == 1 else ():
        if d.exact and d.kind == "flow" and d.sink == statement:
            points = d.relation.range()
            found = points if found is None else found.union(points)
    return found


def _by_array(knl: LoopKernel) -> Mapping[str, tuple[Dependence, ...]]:
    def by_array() -> Mapping[str, tuple[Dependence, ...]]:
        lists: dict[str, list[Dependence]] = {}
        for d in with_assumed(knl):
            if d.assumed:
                lists.setdefault(d.array, []).append(d)
        return {array: tuple(found) for array, found in lists.items()}
    return kept(knl.memo, "assumed_dependences", by_array)
