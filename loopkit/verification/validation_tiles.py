"""Translation validation of what a block does last: before it ends, or goes to its next place of the grid."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import product

from loopkit.analysis.accesses import accesses_by_array
from loopkit.analysis.dependences import dependences
from loopkit.ast.nodes import BEFORE_END, Assign, Completion, Scope, Sync, completion_of, wait_for
from loopkit.expr.mappers import array_of, elements_of, substitute
from loopkit.instructions.groups import commits, pending
from loopkit.instructions.phases import StartPhases
from loopkit.kernel.data import AddressSpace
from loopkit.poly.affine import floor_div
from loopkit.poly.piecewise import equal_coordinates, piecewise_relation, projected
from loopkit.poly.sets import Map
from loopkit.verification.report import Mismatch
from loopkit.verification.validation_precedence import Coordinates, Precedence, instructions_at
from loopkit.verification.validation_walk import Execution


@dataclass(frozen=True, eq=False)
class TileCheck(Precedence):
    """The check of accesses before the end of a block, and between two of its places of the grid."""

    def findings(self) -> Iterator[Mismatch]:
        for statement, events in self.executions.items():
            for e in events:
                yield from self._running_at_end(statement, e)
        if self.launch.persistent:
            yield from self._overwritten_tiles()
            yield from self._shared_by_tiles()

    def _running_at_end(self, statement: str, e: Execution) -> Iterator[Mismatch]:
        """Executions after which no wait covers an access: the block may end before, or go to its next place."""
        event = completion_of(instructions_at(e))
        if event not in BEFORE_END and not (
                self.launch.persistent and event.needs_wait and event is not Completion.PHASE):
            return
        x = self.coordinates_of(e, ())
        left = x.points
        for place in self.places:
            # a wait behind all places of the grid is right for the end of the block only
            if wait_for(event, place.sync.instructions) is not None and (place.in_tiles or event in BEFORE_END
                                                                         or not self.launch.persistent):
                left = left.subtract(self.behind(x, place, event).domain())
        if not left.is_empty():
            yield from self.mismatch(event.value, statement, f"the block may end before '{statement}' has read its "
                                     "shared memory" if event in BEFORE_END else
                                     f"the block may go to its next place before '{statement}' is performed")

    def _overwritten_tiles(self) -> Iterator[Mismatch]:
        """Reads of tiles after which no warp arrives: a copy for the next place of the grid may come before."""
        rings = {i.ring: i for e in self.places for i in e.sync.instructions if isinstance(i, StartPhases) and i.empty}
        arrivals = [(e, phase) for e, phase in self.arrivals if phase.ring in rings and isinstance(e.node, Sync)]
        copies = {e.assign.statement for e, _ in self.arrivals if isinstance(e.node, Assign)}
        for d in (d for d in dependences(self.kernel) if d.of_value and d.kind == "flow" and d.source in copies):
            for copy, read in product(self.executions.get(d.source, ()), self.executions.get(d.sink, ())):
                x, y, left = self.in_block(copy, read, d.relation, ())
                event = completion_of(instructions_at(read))
                for e, phase in arrivals:
                    if d.array not in rings[phase.ring].tiles:
                        continue
                    a = self.at(e)
                    same = equal_coordinates(x.names, [self.number_of_phase(copy)], a.names,
                                             [substitute(phase.number, e.names)]).intersect_range(a.points)
                    for done in self._done_before(y, a, event):
                        left = left.subtract(same.apply_range(done.reverse()))
                if not left.is_empty():
                    yield from self.mismatch("tiles", d.sink, f"a copy for the next place may overwrite '{d.array}' "
                                             f"before '{d.sink}' has read it")

    def _done_before(self, x: Coordinates, a: Coordinates, event: Completion) -> Iterator[Map]:
        """The executions of *x*, performed at *event*, and those of *a* after that."""
        if not event.needs_wait:
            yield self.before(x, a)
            return
        for place in self.places:
            if wait_for(event, place.sync.instructions) is not None:
                yield self.behind(x, place, event).apply_range(self.up_to(self.at(place), a))

    def _shared_by_tiles(self) -> Iterator[Mismatch]:
        """Accesses to shared arrays without a barrier before them at each place of the grid.

        Phases protect the arrays of copies by phases.
        """
        arrays = {x for x, storage in self.storages.items() if storage.space is AddressSpace.SHARED} - {
            array_of(e.assign.target) for e, _ in self.arrivals if isinstance(e.node, Assign)}
        users = [(s, e) for s, own in self.executions.items() for e in own if arrays & {
            array_of(x) for part in (e.assign.target, e.assign.value) for x in elements_of(part, arrays)}]
        events = {event for _, e in users if (event := completion_of(instructions_at(e))) in BEFORE_END}
        least = max(map(self._scope_between_places, arrays), default=Scope.BLOCK)
        barriers = [b for b in self.places if b.in_tiles and b.sync.scope >= least and not b.loops
                    and (b.sync.scope is not Scope.BLOCK or b.sync.threads == self.launch.consumers)
                    and all(pending(b.sync.instructions, event) == 0 for event in events)]
        for s, e in users:
            x = self.coordinates_of(e, ())
            left = x.points
            for b in barriers:
                left = left.subtract(self.before(self.at(b), x).intersect_domain(self.at(b).points).range())
            if not left.is_empty():
                yield from self.mismatch("tiles", s, f"'{s}' accesses shared memory that threads may still use at "
                                         "another place of the grid")
            yield from self._uncommitted(s, x)

    def _scope_between_places(self, array: str) -> Scope:
        """The threads that may access a cell of *array*, at any places of the grid: those of a warp, or of a block."""
        warp, by_cell = floor_div(self.thread_number, self.launch.machine.warp), list[Map]()
        for access in accesses_by_array(self.kernel)[array]:
            for e in self.executions.get(access.statement, ()):
                if not isinstance(self.launch.threads, int) or any(i.scope > Scope.WARP for i in instructions_at(e)):
                    return Scope.BLOCK
                instances = piecewise_relation(e.coordinates, tuple(e.instance.values())).intersect_domain(
                    projected(e.condition, (), e.coordinates))
                cells = instances.apply_range(self.storages[array].accessed_cells(access))
                by_cell.append(cells.reverse().apply_range(piecewise_relation(e.coordinates, [warp])))
        return Scope.WARP if by_cell and reduce(Map.union, by_cell).is_single_valued() else Scope.BLOCK

    def _uncommitted(self, statement: str, x: Coordinates) -> Iterator[Mismatch]:
        """Executions behind which no commit is at one place of the grid: waits of the next place do not cover them."""
        event, left = completion_of(instructions_at(x.execution)), x.points
        if event not in BEFORE_END:
            return
        for place in self.places:
            if commits(place.sync.instructions, event) and place.in_tiles:
                at = self.at(place)
                left = left.subtract(self.before(x, at).intersect_range(at.points).domain())
        if not left.is_empty():
            yield from self.mismatch("tiles", statement, f"the block may go to its next place before '{statement}' is "
                                     "in a group")
