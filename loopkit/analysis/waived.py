"""Pairs of instances on temporaries that a step accepted on trust gave up: lowering and its checks believe just these.

What was refuted and forced does meet, in an order that does not matter: the two touch one cell, and a read may find
any value there. What was not decided and assumed never meets.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from loopkit.analysis.accesses import accesses_by_array
from loopkit.analysis.dependences import with_waived
from loopkit.kernel.dependence import Dependence
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.limits import kept
from loopkit.poly.relations import same_element
from loopkit.poly.sets import Map, Set


def waived(knl: LoopKernel, array: str) -> tuple[Dependence, ...]:
    """What was given up on the temporary *array*."""
    return _by_array(knl).get(array, ()) if knl.obligations else ()


def not_waived(knl: LoopKernel, array: str, source: str, sink: str, pairs: Map) -> Map:
    """Those *pairs* of instances, which meet on the temporary *array*, that nobody has answered for.

    Where an order was given up, neither instance comes first.
    """
    for d in waived(knl, array):
        if (d.source, d.sink) == (source, sink):
            pairs = pairs.subtract(d.relation)
        if (d.sink, d.source) == (source, sink):
            pairs = pairs.subtract(d.relation.reverse())
    return pairs


def met(knl: LoopKernel, array: str) -> Iterator[Dependence]:
    """The flows on the temporary *array* that were given up, of instances which touch one cell all the same."""
    for d in waived(knl, array):
        if d.exact and d.kind == "flow":
            accesses = accesses_by_array(knl).get(array, ())
            writes = [a.relation for a in accesses if a.is_write and a.statement == d.source]
            reads = [a.relation for a in accesses if not a.is_write and a.statement == d.sink]
            # a step may have given the two cells of their own since
            yield from (replace(d, relation=both) for w in writes for r in reads
                        if not (both := d.relation.intersect(same_element(w, r))).is_empty())


def careless_reads(knl: LoopKernel, array: str, statement: str) -> Set | None:
    """Instances of *statement* that may find any value in their cell of *array*; ``None``: there are none.

    A statement that reads several elements is not told apart by them; then none of its reads is.
    """
    reads = {a.subscripts for a in accesses_by_array(knl)[array] if a.statement == statement and not a.is_write}
    found: Set | None = None
    for d in waived(knl, array) if len(reads) == 1 else ():
        if d.exact and d.kind == "flow" and d.sink == statement:
            points = d.relation.range()
            found = points if found is None else found.union(points)
    return found


def _by_array(knl: LoopKernel) -> Mapping[str, tuple[Dependence, ...]]:
    def waived() -> Mapping[str, tuple[Dependence, ...]]:
        lists: dict[str, list[Dependence]] = {}
        for d in with_waived(knl):
            if d.waived:
                lists.setdefault(d.array, []).append(d)
        return {array: tuple(own) for array, own in lists.items()}
    return kept(knl.memo, "waived", waived)
