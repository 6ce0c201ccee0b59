"""Translation validation of the order: dependent executions run in the order of the kernel, with barriers between.

Between an asynchronous access and a later one is a wait or a fence that covers it.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from loopkit.analysis.accesses import accesses_by_array, commute, data_params
from loopkit.analysis.dependences import dependences, joined, shared_loops, without_assumed
from loopkit.ast.nodes import Completion, For, Region, Scope, completion_of, covering, events_between
from loopkit.errors import values_text
from loopkit.expr.mappers import array_of
from loopkit.instructions.nests import Issue
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tree import Meeting, meeting, paths
from loopkit.lowering.stored import Storage
from loopkit.poly.affine import floor_div
from loopkit.poly.piecewise import equal_coordinates
from loopkit.poly.relations import (
    apart_along,
    in_one_iteration,
    in_time_order,
    same_element,
    smallest_pair,
    with_same_dims,
)
from loopkit.poly.sets import Map
from loopkit.verification.report import Mismatch
from loopkit.verification.threads import TOGETHER
from loopkit.verification.validation_precedence import Coordinates, Precedence, covering_at, instructions_at
from loopkit.verification.validation_walk import Execution

#: Two statements, and the array of their conflict.
Meet = tuple[str, str, str]


@dataclass(frozen=True, eq=False)
class OrderCheck(Precedence):
    """The check of the order of dependent executions."""

    def findings(self) -> Iterator[Mismatch]:
        for _ in (node for node in self.divergent if not isinstance(node, For) and not (
                isinstance(node, Region) and isinstance(node.instruction, Issue))):
            yield from self.mismatch("divergent", "",
                                "a barrier is under a condition that may differ between the threads of a block")
        ways = paths(self.launch.tree)
        def where(source: str, sink: str) -> Meeting | None:
            return meeting(ways[source], ways[sink]) if source in ways and sink in ways else None
        required = joined(required_order(self.kernel, self.storages, self.storages, where))
        for (source, sink, array), pairs in required.items():
            if array in self.storages:
                pairs = without_assumed(self.kernel, array, source, sink, pairs)
            for first, second in product(self.executions.get(source, ()), self.executions.get(sink, ())):
                yield from self._pair(array, first, second, pairs)

    @cached_property
    def _in_lanes(self) -> frozenset[str]:
        """The arrays whose elements are in the registers of lanes."""
        return frozenset(a.name for a in self.function.arrays if a.thread_axes)

    # One pair of executions

    def _pair(self, array: str, first: Execution, second: Execution, pairs: Map) -> Iterator[Mismatch]:
        storage = self.storages.get(array)
        private, shared, in_warp = (storage is not None and storage.space is x for x in (
            AddressSpace.PRIVATE, AddressSpace.SHARED, AddressSpace.WARP))
        if private and first.producer is not second.producer:
            return                          # each role has registers of its own
        between: dict[Completion | None, Sequence[Execution]] = {None: ()}
        # threads read the bounds of loops, not the instructions inside
        one, other = (() if array in data_params(self.kernel, self.kernel.statement_by_id[e.assign.statement].domain)
                      else instructions_at(e) for e in (first, second))
        own = completion_of(one)
        # the wait for a phase orders the accesses of all threads
        if self.launch.threads != 1 and own is not Completion.PHASE and not private:
            # warp instructions order arrays in warp registers only
            between[Completion.IMMEDIATE] = [b for b in self.places if b.sync.scope is not Scope.THREAD
                                             and (in_warp or b.node is not TOGETHER)]
        writes = array_of(first.assign.target) == array
        for wanted in events_between(one, other, writes=writes, shared=shared, private=private or in_warp):
            between[wanted] = [b for b in self.places if covering(wanted, own, b.sync.instructions)]
        # at first without the coordinates of threads, in small sets: most pairs are not broken there
        rough = self.in_block(first, second, pairs, meeting(first.path, second.path).loops)
        for event, places in between.items():
            # by the checks of lanes and of nests, only threads of one warp access an element of warp registers; each
            # waits for its own registers
            widest = Scope.THREAD if private or (in_warp and event is not None and event.needs_wait) else \
                Scope.WARP if array in self._in_lanes or self.launch.within_warp() else Scope.BLOCK
            if self._left(*rough, event, places, widest) is not None:
                x, y, run = self.in_block(first, second, pairs, (*first.coordinates, *second.coordinates))
                wide = all(place.sync.scope >= widest for place in places)
                for scope, some in self._by_scope(event, x, y, run, wide=wide):
                    left = self._left(x, y, some, event, places, scope)
                    if left is not None:
                        left = with_same_dims(left, self.grid.along("g"))
                        yield from self._finding(event, array, first, second, left)
                        return

    def _by_scope(self, event: Completion | None, x: Coordinates, y: Coordinates, pairs: Map, *, wide: bool
                  ) -> Iterator[tuple[Scope, Map]]:
        """The *pairs* of one block with the scope of the places that order them: those of one thread, or of an *event*
        for which the first one's thread waits; those of two threads, and those of two warps.

        :arg wide: every place is one of all threads of the block.
        """
        threads = [*map(x.every.index, self.grid.along("l"))]
        if event is None:
            yield Scope.THREAD, in_one_iteration(pairs, [(i, i) for i in threads])
            return
        if event.needs_wait:
            yield Scope.THREAD, pairs
            if wide or event is Completion.PHASE:
                return
        # any lane of a warp may load the operands of an instruction, or store its results
        foreign = [i for z in (x, y) if (i := z.execution.instruction) is not None and i.for_others]
        for others in [pairs] if foreign else (apart for i in threads for apart in apart_along(pairs, i)):
            yield Scope.WARP, others
            if wide:
                continue
            # those of a warpgroup, for another warp
            if isinstance(self.launch.threads, int) and not any(i.scope > Scope.WARP for i in foreign):
                warp = [floor_div(self.thread_number, self.launch.machine.warp)]
                others = others.subtract(equal_coordinates(x.names, warp, y.names, warp))
            yield Scope.BLOCK, others

    def _finding(self, event: Completion | None, array: str, first: Execution, second: Execution, pairs: Map
                 ) -> Iterator[Mismatch]:
        a, b = first.assign.statement, second.assign.statement
        real = self.grid.real(pairs.domain(), first.coordinates)
        if real is None:
            yield from self.mismatch("undecided", b, f"whether '{b}' conflicts with '{a}' in a real block is unknown")
            return
        parameters, source, sink = smallest_pair(pairs.intersect_domain(real), first.coordinates, second.coordinates)
        kind, what = (
            ("order", "runs later, although it must run first") if event is None else
            (event.value, "is asynchronous, with no wait between that is proven to cover it") if event.needs_wait else
            ("barrier", "runs on another thread with no barrier between"))
        on = f"on '{array}'" if array else "by dep="
        yield Mismatch(kind, self.launch.name, b, f"'{b}' conflicts with '{a}' {on}, which {what}"
                       + values_text(source, ", at {}"), parameters, sink)

    # Barriers and waits between

    def _left(self, x: Coordinates, y: Coordinates, pairs: Map, event: Completion | None,
              places: Sequence[Execution], scope: Scope) -> Map | None:
        """The *pairs* of executions, identified by *x* and *y*, that run in the wrong order, or with none of *places*
        of this *scope* between: barriers, or for the *event* of an asynchronous access waits. ``None``: none.
        """
        two_roles = x.execution.producer is not y.execution.producer
        if (event is None or (event is Completion.IMMEDIATE and two_roles)) and not pairs.is_empty():
            pairs = pairs.subtract(self.before(x, y))
        for place in places:
            # a thread's wait covers other threads only after a barrier with them
            wait = None if event is None else covering_at(x, place, event)
            widest = place.sync.scope if wait is None else max(place.sync.scope, wait.completes_for)
            # phases, by which two roles wait for each other, are for all of their threads
            if (widest >= scope or two_roles) and not pairs.is_empty():
                behind = self.behind(x, place, event)
                pairs = pairs.subtract(behind.apply_range(self.before(self.at(place), y)))
        return None if pairs.is_empty() else pairs


def required_order(knl: LoopKernel, storages: Mapping[str, Storage], arrays: Collection[str],
                   where: Callable[[str, str], Meeting | None]) -> Iterator[tuple[Meet, Map]]:
    """Pairs of instances whose first must complete before the second starts, in the kernel's order.

    Both access one cell of one of *arrays*, temporaries, and one of them writes; or they depend on each other in
    arguments.

    :arg where: the loops that two statements share, and which of the two comes first; ``None`` for other statements.
    """
    found: list[tuple[Meet, Map]] = []
    for array in arrays:
        accessed_cells = storages[array].accessed_cells
        for a, b in product(accesses_by_array(knl).get(array, ()), repeat=2):
            met = where(a.statement, b.statement)
            if met is not None and (met.loops or met.before) and (a.is_write or b.is_write) and not commute(a, b):
                found.append(((a.statement, b.statement, array), same_element(accessed_cells(a), accessed_cells(b))))
    found += [((d.source, d.sink, d.array), d.relation) for d in dependences(knl) if d.array not in storages]
    for meet, pairs in found:
        source, sink, _ = meet
        met = where(source, sink)
        if met is not None:
            pairs = in_time_order(pairs, shared_loops(knl, source, sink, met.loops), met.before)
            if not pairs.is_empty():
                yield meet, pairs
