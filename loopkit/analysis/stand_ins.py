"""Dependences after a step in which copies stand for the accesses of other statements."""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import reduce

from loopkit.analysis.accesses import accesses_of
from loopkit.analysis.dependences import with_assumed
from loopkit.kernel.dependence import Dependence
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.relations import carry
from loopkit.poly.sets import Map


@dataclass(frozen=True)
class End:
    """One end of a dependence after the step: a statement that reads or writes the array.

    :ivar move: from the instances that were at this end to its own; ``None``: they are those.
    """

    statement: str
    is_write: bool
    move: Map | None = None


@dataclass(frozen=True)
class Moved:
    """*d*, a dependence before the step, between what stands for its ends: *after*, from *source* to *sink*."""

    d: Dependence
    after: Dependence
    source: End
    sink: End

    def origin(self, pairs: Map) -> Map:
        """The instances before the step for which those of *pairs* stand."""
        for end, apply in ((self.source, Map.apply_domain), (self.sink, Map.apply_range)):
            pairs = pairs if end.move is None else apply(pairs, end.move.reverse())
        return self.d.relation.intersect(pairs)


def moved_dependences(kernel: LoopKernel, arrays: Collection[str], ends: Callable[[Dependence, str, bool], list[End]]
                      ) -> Iterator[Moved]:
    """The dependences of *kernel*; those of *arrays* between what stands for their ends after the step.

    :arg ends: what stands for an end of a dependence: a statement, which writes there or not.
    """
    for d in with_assumed(kernel):
        wrote = d.kind in ("flow", "output"), d.kind in ("anti", "output")
        sources, sinks = (ends(d, s, w) if d.array in arrays else [End(s, w)]
                          for s, w in zip((d.source, d.sink), wrote, strict=True))
        for a in sources:
            for b in sinks:
                if a.move is None and b.move is None:
                    yield Moved(d, d, a, b)
                elif a.is_write or b.is_write:
                    kind = ("output" if b.is_write else "flow") if a.is_write else "anti"
                    yield Moved(d, replace(d, kind=kind, source=a.statement, sink=b.statement,
                                           relation=carry(d.relation, a.move, b.move)), a, b)


def touched(knl: LoopKernel, statement: str, array: str, *, is_write: bool) -> Map:
    """The elements of *array* that the instances of *statement* read, or write."""
    return reduce(Map.union, (a.relation for a in accesses_of(knl, knl.statement_by_id[statement])
                              if a.array == array and a.is_write == is_write))
