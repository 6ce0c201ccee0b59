"""Assumed dependences of temporaries: pairs that a step may break because of an obligation.

A refuted pair (``unsafe=True``) accesses one element in either order, so that its read may find any value. An
undecided pair (``assume=``) never accesses one element. Lowering and its checks rely on these claims alone.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from itertools import product

from loopkit.analysis.accesses import accesses_to
from loopkit.analysis.dependences import with_assumed
from loopkit.kernel.dependence import Dependence
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.limits import kept
from loopkit.poly.relations import same_element
from loopkit.poly.sets import Map, Set


def assumed_dependences(knl: LoopKernel, array: str) -> tuple[Dependence, ...]:
    """The assumed dependences of the temporary *array*."""
    if not knl.obligations:
        return ()
    found = kept(knl.memo, "assumed_dependences", lambda: tuple(d for d in with_assumed(knl) if d.assumed))
    return tuple(d for d in found if d.array == array)


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
            # a later step may have expanded the array, so that the two no longer share an element
            for w, r in product(accesses_to(knl, d.source, array, is_write=True),
                                accesses_to(knl, d.sink, array, is_write=False)):
                both = d.relation.intersect(same_element(w.relation, r.relation))
                if not both.is_empty():
                    yield replace(d, relation=both)


def clobbered_reads(knl: LoopKernel, array: str, statement: str) -> Set | None:
    """The instances of *statement* that may read any value from *array*; ``None``: there are none.

    Also ``None`` if *statement* reads *array* by several subscripts, as a dependence does not tell these apart.
    """
    reads = {a.subscripts for a in accesses_to(knl, statement, array, is_write=False)}
    found = [d.relation.range() for d in assumed_dependences(knl, array)
             if d.exact and d.kind == "flow" and d.sink == statement]
    return reduce(Set.union, found) if found and len(reads) == 1 else None
