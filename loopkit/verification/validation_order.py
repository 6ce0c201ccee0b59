"""Translation validation of the order: dependent executions run in the order of the kernel, with barriers between.

Between an asynchronous access and a later one is a wait or a fence that covers it.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import product

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_by_array, commute, data_params
from loopkit.analysis.dependences import dependences, joined, shared_loops, without_assumed
from loopkit.ast.nodes import (
    BEFORE_END,
    Assign,
    Completion,
    For,
    Instruction,
    Region,
    Scope,
    Sync,
    completion_of,
    covering,
    events_between,
    wait_for,
)
from loopkit.ast.phases import Phase
from loopkit.errors import values_text
from loopkit.expr.mappers import array_of, elements_of, substitute, variables
from loopkit.instructions.groups import commits, pending
from loopkit.instructions.nests import Issue
from loopkit.instructions.phases import ArrivePhase, StartPhases, WaitPhase
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tree import Meeting, meeting, paths
from loopkit.lowering.lowered import Storage
from loopkit.poly.affine import floor_div
from loopkit.poly.limits import kept_by_kernel
from loopkit.poly.piecewise import equal_coordinates, piecewise_relation, points_where, projected
from loopkit.poly.relations import (
    apart_along,
    in_one_iteration,
    in_time_order,
    only_dims,
    same_element,
    shared_dims,
    smallest_pair,
    with_same_dims,
)
from loopkit.poly.sets import Map, Set
from loopkit.verification.report import Mismatch
from loopkit.verification.threads import TOGETHER
from loopkit.verification.validation_walk import Execution, LaunchCheck

Calls = Mapping[str, Sequence[tuple[Execution, Map]]]

#: Two statements, and the array of their conflict.
Meet = tuple[str, str, str]


@dataclass(frozen=True)
class _Coordinates:
    """Some of the coordinates of an execution in its block. The coordinates of the block are parameters.

    :ivar every: all coordinates in the block.
    """

    execution: Execution
    every: tuple[str, ...]
    names: tuple[str, ...]

    @cached_property
    def points(self) -> Set:
        return projected(projected(self.execution.condition, (), self.every), self.every, self.names)

    @cached_property
    def instances(self) -> tuple[Map, list[int]]:
        """The map to the inames that these coordinates determine, and the places of those inames."""
        own = tuple(self.execution.instance.values())
        kept = [i for i, value in enumerate(own) if not variables(value) & set(self.every).difference(self.names)]
        values = [own[i] for i in kept]
        return piecewise_relation(self.names, values).intersect_domain(self.points), kept


@dataclass(frozen=True, eq=False)
class OrderCheck(LaunchCheck):
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

        for statement, events in self.executions.items():
            for e in events:
                yield from self._running_at_end(statement, e)
        if self.launch.persistent:
            yield from self._overwritten_tiles()
            yield from self._shared_by_tiles()

    def _running_at_end(self, statement: str, e: Execution) -> Iterator[Mismatch]:
        """Executions after which no wait covers an access: the block may end before, or go to its next place."""
        event = completion_of(_instructions_of(e))
        if event not in BEFORE_END and not (
                self.launch.persistent and event.needs_wait and event is not Completion.PHASE):
            return
        x = self._coordinates(e, ())
        left = x.points
        for place in self.places:
            # a wait behind all places of the grid is right for the end of the block only
            if wait_for(event, place.sync.instructions) is not None and (place.in_tiles or event in BEFORE_END
                                                                         or not self.launch.persistent):
                left = left.subtract(self._behind(x, place, event).domain())
        if not left.is_empty():
            yield from self.mismatch(event.value, statement, f"the block may end before '{statement}' has read its "
                                     "shared memory" if event in BEFORE_END else
                                     f"the block may go to its next place before '{statement}' is performed")

    def _overwritten_tiles(self) -> Iterator[Mismatch]:
        """Reads of tiles after which no warp arrives: a copy for the next place of the grid may come before."""
        rings = {i.ring: i for e in self.places for i in e.sync.instructions if isinstance(i, StartPhases) and i.empty}
        arrivals = [(e, phase) for e, phase in self._arrivals if phase.ring in rings and isinstance(e.node, Sync)]
        copies = {e.assign.statement for e, _ in self._arrivals if isinstance(e.node, Assign)}
        for d in (d for d in dependences(self.kernel) if d.of_value and d.kind == "flow" and d.source in copies):
            for copy, read in product(self.executions.get(d.source, ()), self.executions.get(d.sink, ())):
                x, y, left = self._run(copy, read, d.relation, ())
                event = completion_of(_instructions_of(read))
                for e, phase in arrivals:
                    if d.array not in rings[phase.ring].tiles:
                        continue
                    a = self._at(e)
                    same = equal_coordinates(x.names, [self._number_of_phase(copy)], a.names,
                                             [substitute(phase.number, e.names)]).intersect_range(a.points)
                    for done in self._done_before(y, a, event):
                        left = left.subtract(same.apply_range(done.reverse()))
                if not left.is_empty():
                    yield from self.mismatch("tiles", d.sink, f"a copy for the next place may overwrite '{d.array}' "
                                             f"before '{d.sink}' has read it")

    def _done_before(self, x: _Coordinates, a: _Coordinates, event: Completion) -> Iterator[Map]:
        """The executions of *x*, performed at *event*, and those of *a* after that."""
        if not event.needs_wait:
            yield self._first(x, a)
            return
        for place in self.places:
            if wait_for(event, place.sync.instructions) is not None:
                yield self._behind(x, place, event).apply_range(self._up_to(self._at(place), a))

    def _shared_by_tiles(self) -> Iterator[Mismatch]:
        """Accesses to shared arrays without a barrier before them at each place of the grid.

        Phases protect the arrays of copies by phases.
        """
        arrays = {x for x, storage in self.storages.items() if storage.space is AddressSpace.SHARED} - {
            array_of(e.assign.target) for e, _ in self._arrivals if isinstance(e.node, Assign)}
        users = [(s, e) for s, own in self.executions.items() for e in own if arrays & {
            array_of(x) for part in (e.assign.target, e.assign.value) for x in elements_of(part, arrays)}]
        events = {event for _, e in users if (event := completion_of(_instructions_of(e))) in BEFORE_END}
        least = max(map(self._scope_between_places, arrays), default=Scope.BLOCK)
        barriers = [b for b in self.places if b.in_tiles and b.sync.scope >= least and not b.loops
                    and (b.sync.scope is not Scope.BLOCK or b.sync.threads == self.launch.consumers)
                    and all(pending(b.sync.instructions, event) == 0 for event in events)]
        for s, e in users:
            x = self._coordinates(e, ())
            left = x.points
            for b in barriers:
                left = left.subtract(self._first(self._at(b), x).intersect_domain(self._at(b).points).range())
            if not left.is_empty():
                yield from self.mismatch("tiles", s, f"'{s}' accesses shared memory that threads may still use at "
                                         "another place of the grid")
            yield from self._uncommitted(s, x)

    def _scope_between_places(self, array: str) -> Scope:
        """The threads that may access a cell of *array*, at any places of the grid: those of a warp, or of a block."""
        warp, by_cell = floor_div(self.thread_number, self.launch.machine.warp), list[Map]()
        for access in accesses_by_array(self.kernel)[array]:
            for e in self.executions.get(access.statement, ()):
                if not isinstance(self.launch.threads, int) or any(i.scope > Scope.WARP for i in _instructions_of(e)):
                    return Scope.BLOCK
                instances = piecewise_relation(e.coordinates, tuple(e.instance.values())).intersect_domain(
                    projected(e.condition, (), e.coordinates))
                cells = instances.apply_range(self.storages[array].accessed_cells(access))
                by_cell.append(cells.reverse().apply_range(piecewise_relation(e.coordinates, [warp])))
        return Scope.WARP if by_cell and reduce(Map.union, by_cell).is_single_valued() else Scope.BLOCK

    def _uncommitted(self, statement: str, x: _Coordinates) -> Iterator[Mismatch]:
        """Executions behind which no commit is at one place of the grid: waits of the next place do not cover them."""
        event, left = completion_of(_instructions_of(x.execution)), x.points
        if event not in BEFORE_END:
            return
        for place in self.places:
            if commits(place.sync.instructions, event) and place.in_tiles:
                at = self._at(place)
                left = left.subtract(self._first(x, at).intersect_range(at.points).domain())
        if not left.is_empty():
            yield from self.mismatch("tiles", statement, f"the block may go to its next place before '{statement}' is "
                                     "in a group")

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
                      else _instructions_of(e) for e in (first, second))
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
        rough = self._run(first, second, pairs, meeting(first.path, second.path).loops)
        for event, places in between.items():
            # by the checks of lanes and of nests, only threads of one warp access an element of warp registers; each
            # waits for its own registers
            widest = Scope.THREAD if private or (in_warp and event is not None and event.needs_wait) else \
                Scope.WARP if array in self._in_lanes or self.launch.within_warp() else Scope.BLOCK
            if self._left(*rough, event, places, widest) is not None:
                x, y, run = self._run(first, second, pairs, (*first.coordinates, *second.coordinates))
                wide = all(place.sync.scope >= widest for place in places)
                for scope, some in self._by_scope(event, x, y, run, wide=wide):
                    left = self._left(x, y, some, event, places, scope)
                    if left is not None:
                        left = with_same_dims(left, self.grid.along("g"))
                        yield from self._finding(event, array, first, second, left)
                        return

    def _run(self, first: Execution, second: Execution, pairs: Map, names: tuple[str, ...]
             ) -> tuple[_Coordinates, _Coordinates, Map]:
        """The *pairs* as executions of one block, by the coordinates that order them among barriers, and *names*."""
        x, y = (self._coordinates(e, names) for e in (first, second))
        (source, own), (sink, others) = x.instances, y.instances
        return x, y, source.apply_range(only_dims(pairs, own, others)).apply_range(sink.reverse())

    def _by_scope(self, event: Completion | None, x: _Coordinates, y: _Coordinates, pairs: Map, *, wide: bool
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

    def _left(self, x: _Coordinates, y: _Coordinates, pairs: Map, event: Completion | None,
              places: Sequence[Execution], scope: Scope) -> Map | None:
        """The *pairs* of executions, identified by *x* and *y*, that run in the wrong order, or with none of *places*
        of this *scope* between: barriers, or for the *event* of an asynchronous access waits. ``None``: none.
        """
        two_roles = x.execution.producer is not y.execution.producer
        if (event is None or (event is Completion.IMMEDIATE and two_roles)) and not pairs.is_empty():
            pairs = pairs.subtract(self._first(x, y))
        for place in places:
            # a thread's wait covers other threads only after a barrier with them
            wait = None if event is None else _covering(x, place, event)
            widest = place.sync.scope if wait is None else max(place.sync.scope, wait.completes_for)
            # phases, by which two roles wait for each other, are for all of their threads
            if (widest >= scope or two_roles) and not pairs.is_empty():
                behind = self._behind(x, place, event)
                pairs = pairs.subtract(behind.apply_range(self._first(self._at(place), y)))
        return None if pairs.is_empty() else pairs

    @kept_by_kernel
    def _coordinates(self, execution: Execution, also: tuple[str, ...]) -> _Coordinates:
        """The coordinates that order it among barriers, those of the loops with barriers; and *also*."""
        loops = (meeting(execution.path, place.path).loops for place in self.places)
        names = set(also).union(*loops, variables(self._number_of_phase(execution)))
        every = execution.coordinates[len(self.grid.along("g")):]
        return _Coordinates(execution, every, tuple(x for x in every if x in names))

    @staticmethod
    def _number_of_phase(execution: Execution) -> Expression:
        """The number of the phase of an access, or of a wait, in terms of the coordinates; 0: it has none."""
        phase = _phase_of(execution)
        return 0 if phase is None else substitute(phase.number, execution.names)

    @kept_by_kernel
    def _first(self, x: _Coordinates, y: _Coordinates) -> Map:
        """Pairs in one block, by *x* and by *y*, whose first runs before the second.

        In two roles, the first comes before an arrival, and the second after a wait for its phase.
        """
        if x.execution.producer is not y.execution.producer:
            return self._through_phases(x, y)
        where = meeting(x.execution.path, y.execution.path)
        pairs = equal_coordinates(x.names, (), y.names, ())
        return in_time_order(pairs, shared_dims(x.names, y.names, where.loops), where.before)

    def _through_phases(self, x: _Coordinates, y: _Coordinates) -> Map:
        found = Map.empty(equal_coordinates(x.names, (), y.names, ()).get_space())
        for (s, one), (w, other) in product(self._arrivals, self._phase_waits):
            if one.ring == other.ring and s.producer is x.execution.producer and w.producer is y.execution.producer:
                a, b, number = self._coordinates(s, ()), self._at(w), substitute(one.number, s.names)
                same = equal_coordinates(a.names, [number], b.names, [substitute(other.number, w.names)])
                same = same.intersect_domain(a.points.intersect(points_where(
                    p.Comparison(number, ">=", 0), a.names))).intersect_range(b.points)
                found = found.union(self._up_to(x, a).apply_range(same).apply_range(self._up_to(b, y)))
        return found

    def _up_to(self, a: _Coordinates, b: _Coordinates) -> Map:
        """:meth:`_first`, or one execution: the instructions of a place run in their order."""
        if a.execution is not b.execution:
            return self._first(a, b)
        own = [p.Variable(name) for name in a.names if name in b.names]
        return equal_coordinates(a.names, own, b.names, own)

    @cached_property
    def _arrivals(self) -> Sequence[tuple[Execution, Phase]]:
        """The copies and the arrivals of warps, each with its phase."""
        copies = ((e, _phase_of(e)) for own in self.executions.values() for e in own)
        return [*((e, phase) for e, phase in copies if phase is not None),
                *((e, i.of) for e in self.places for i in e.sync.instructions if isinstance(i, ArrivePhase))]

    @cached_property
    def _phase_waits(self) -> Sequence[tuple[Execution, Phase]]:
        return [(e, i.of) for e in self.places for i in e.sync.instructions if isinstance(i, WaitPhase)]

    @kept_by_kernel
    def _at(self, place: Execution) -> _Coordinates:
        return self._coordinates(place, place.loops)

    @kept_by_kernel
    def _behind(self, x: _Coordinates, place: Execution, event: Completion | None) -> Map:
        """Executions of *x* and of *place* after it, which waits for an *event* that needs it."""
        def first(a: _Coordinates, b: _Coordinates) -> Map:
            return self._first(a, b).intersect_range(b.points)
        z = self._at(place)
        if event is None or not event.needs_wait:
            return first(x, z)
        wait, role = _covering(x, place, event), x.execution.producer
        assert wait is not None
        # groups are of the threads that start them, also where the other role comes later
        if wait.completes is not Completion.PHASE and place.producer is not role:
            return Map.empty(self._first(x, z).get_space())

        def in_phase(a: _Coordinates, b: _Coordinates) -> Map | None:
            one, other = _phase_of(a.execution), wait.phase
            if one is None or other is None or one.ring != other.ring:
                return None
            return equal_coordinates(a.names, [self._number_of_phase(a.execution)],
                                     b.names, [substitute(other.number, b.execution.names)])
        found = wait.waits_for(x, z, {
            self._at(b): b.sync.instructions for b in self.places if b.producer is role or b is place}, first, in_phase)
        return Map.empty(self._first(x, z).get_space()) if found is None else found


def _instructions_of(execution: Execution) -> tuple[Instruction, ...]:
    """The instructions that make the accesses of an execution of an assignment."""
    return (*execution.assign.instructions, *(() if execution.instruction is None else (execution.instruction,)))


def _covering(x: _Coordinates, place: Execution, event: Completion) -> Instruction | None:
    """The instruction of *place* by which *event* follows the accesses of *x*; ``None``: there is none."""
    return covering(event, completion_of(_instructions_of(x.execution)), place.sync.instructions)


def _phase_of(execution: Execution) -> Phase | None:
    """The phase of an access by an instruction; ``None``: it has none."""
    return None if execution.instruction is None else execution.instruction.phase


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
