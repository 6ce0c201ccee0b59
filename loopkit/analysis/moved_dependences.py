"""Dependences after a step that replaces accesses of statements by accesses of copies."""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product

from loopkit.analysis.accesses import accesses_to
from loopkit.analysis.dependences import with_assumed
from loopkit.kernel.dependence import Dependence, kind_of, writing_ends
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.relations import carry, same_element
from loopkit.poly.sets import Map


@dataclass(frozen=True)
class End:
    """One end of a dependence after the step: a statement that reads or writes the array.

    :ivar move: the instances that were at this end before the step, to those of *statement*; ``None``: the same ones.
    """

    statement: str
    is_write: bool
    move: Map | None = None


@dataclass(frozen=True)
class Moved:
    """A dependence *d* before the step, and the dependence *after* the step from *source* to *sink*."""

    d: Dependence
    after: Dependence
    source: End
    sink: End

    def origin(self, pairs: Map) -> Map:
        """The instances of *d* that *pairs*, instances of *after*, replace."""
        for end, apply in ((self.source, Map.apply_domain), (self.sink, Map.apply_range)):
            pairs = pairs if end.move is None else apply(pairs, end.move.reverse())
        return self.d.relation.intersect(pairs)

    def on_one_element(self, knl: LoopKernel) -> Dependence:
        """The dependence after the step to *knl*, between instances whose accesses at both ends are to one element."""
        return replace(self.after, relation=self.after.relation.intersect(same_element(*(
            accessed_elements(knl, end.statement, self.d.array, is_write=end.is_write)
            for end in (self.source, self.sink)))))


def moved_dependences(kernel: LoopKernel, arrays: Collection[str], ends: Callable[[Dependence, str, bool], list[End]]
                      ) -> Iterator[Moved]:
    """The dependences of *kernel*, with those of *arrays* moved to the ends that they have after the step.

    :arg ends: the new ends for an end of a dependence: a statement, and whether the end is a write.
    """
    for d in with_assumed(kernel):
        sources, sinks = (ends(d, s, w) if d.array in arrays else [End(s, w)]
                          for s, w in zip((d.source, d.sink), writing_ends(d.kind), strict=True))
        for a, b in product(sources, sinks):
            if a.move is None and b.move is None:
                yield Moved(d, d, a, b)
            elif a.is_write or b.is_write:
                yield Moved(d, replace(d, kind=kind_of(a.is_write, b.is_write), source=a.statement, sink=b.statement,
                                       relation=carry(d.relation, a.move, b.move)), a, b)


def accessed_elements(knl: LoopKernel, statement: str, array: str, *, is_write: bool) -> Map:
    """The access relation of *statement* to *array*: its writes if *is_write*, else its reads."""
    return reduce(Map.union, (a.relation for a in accesses_to(knl, statement, array, is_write=is_write)))
