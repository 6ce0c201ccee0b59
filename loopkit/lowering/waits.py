"""The waits of a launch, and the accesses that they complete.

The instruction of a wait gives the accesses that it waits for, as a relation between iterations.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from typing import Any

import pymbolic.primitives as p

from loopkit.analysis.events import Event
from loopkit.analysis.order import loops_of
from loopkit.ast.nodes import Completion, Instruction, Scope, wait_for
from loopkit.ast.phases import Phase
from loopkit.expr.mappers import variables
from loopkit.instructions.groups import commits, pending
from loopkit.instructions.phases import ArrivePhase, StartPhases, WaitPhase
from loopkit.kernel.tags import GroupTag
from loopkit.kernel.tree import Barrier, Leaf, Path, Tree, nodes_in, parts_of, paths, placed_nodes
from loopkit.lowering.block_values import block_values
from loopkit.lowering.hazards import Hazard
from loopkit.lowering.lowered import Launch
from loopkit.poly.limits import kept, kept_in_memo
from loopkit.poly.piecewise import equal_coordinates, points_where
from loopkit.poly.relations import in_one_iteration, only_dims, subscript_relation
from loopkit.poly.sets import InstanceSet, Map, as_points


@dataclass(frozen=True)
class PlacedWait(Event):
    """A wait, or another instruction of threads that waits depend on."""

    node: Barrier = field(kw_only=True)

    def phase_of(self, kind: type[Instruction]) -> Phase | None:
        """The phase of its instruction of a *kind*: that which it waits for, or arrives for."""
        return next((i.phase for i in self.node.instructions if isinstance(i, kind)), None)


@dataclass(frozen=True)
class Waits:
    """The waits of a launch whose tree is *tree*, and the accesses that they complete."""

    launch: Launch
    tree: Tree
    memo: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def blocks(self) -> frozenset[str] | None:
        """The inames of the grid; ``None``: statements lie on different ones."""
        own = {frozenset(x for x in s.hardware if isinstance(self.launch.kernel.tags.get(x), GroupTag))
               for s in self.launch.statements.values()}
        return next(iter(own)) if len(own) == 1 else None

    @cached_property
    def places(self) -> tuple[PlacedWait, ...] | None:
        """The places of *tree*; ``None`` if it is not known when they run."""
        if self.blocks is None:
            return None
        of_threads = self.launch.mapping.thread_names.union(*(s.auto for s in self.launch.statements.values()))
        found: list[PlacedWait] = []
        for node, way, body in placed_nodes(self.tree):
            if not (isinstance(node, Barrier) and node.instructions):
                continue
            names = (*sorted(self.blocks), *loops_of(way))
            domains = [self.launch.statements[s].domain.onto(names).without_params(of_threads)
                       for s in self.launch.beside(node, body)]
            points = reduce(InstanceSet.union, {id(d): d for d in domains}.values())     # many are one
            if not self.launch.kernel.value_params.union(block_values(self.launch)).issuperset(points.params):
                return None                     # read from memory, and not one value for the block
            found.append(PlacedWait(way, names, as_points(points.set), node.producer, node=node))
        return tuple(found)

    def left(self, h: Hazard, scope: Scope, waits: Sequence[Instruction | None]) -> Map | None:
        """The pairs of *h* between which no wait covers the access; ``None``: there are none.

        :arg scope: the threads of the pairs: a thread other than the copy's own needs a barrier of this scope.
        :arg waits: the wait of each place for the event of *h*.
        """
        assert self.places is not None
        pairs = self.by_names(h, self._place_names)
        for i, (place, wait) in enumerate(zip(self.places, waits, strict=True)):
            reach = max(place.node.scope, wait.completes_for if wait is not None else Scope.THREAD)
            # phases, by which two roles wait for each other, are for all of their threads
            if wait is not None and (reach >= scope or self.launch.in_two_roles(h.source, h.sink)) \
                    and not pairs.is_empty():
                covered = self._covered(h.source, h.sink, i, wait)
                pairs = pairs if covered is None else pairs.subtract(covered)
        return self._of_hazard(h, pairs)

    def unordered(self, h: Hazard) -> Map | None:
        """The pairs of *h*, in two roles, that no phase orders; ``None``: there are none."""
        return self._of_hazard(h, self.by_names(h, self._place_names).subtract(self._order(h.source, h.sink)))

    def unreleased(self, h: Hazard, waits: Sequence[Instruction | None]) -> Map | None:
        """The pairs of a copy of a tile and a read of it, *h*, after which no warp arrives for it; ``None``: none.

        :arg waits: the wait of each place for the event of the read.
        """
        assert self.places is not None
        rings = {i.ring for place in self.places for i in place.node.instructions
                 if isinstance(i, StartPhases) and i.empty and h.array in i.tiles}
        pairs, of = self.by_names(h, self._place_names), self._phased[h.source].phase
        for k, place in enumerate(self.places):
            phase = place.phase_of(ArrivePhase)
            if phase is None or of is None or phase.ring not in rings or pairs.is_empty():
                continue
            same = self._one_phase(h.source, of, k, phase)
            done = [self._order(h.sink, k)] if not h.completion.needs_wait else [
                found.apply_range(self._up_to(i, k)) for i, wait in enumerate(waits)
                if wait is not None and (found := self._waited_for(h.sink, i, wait)) is not None]
            for read in done:
                pairs = pairs.subtract(same.apply_range(read.reverse()))
        return self._of_hazard(h, pairs)

    def _of_hazard(self, h: Hazard, pairs: Map) -> Map | None:
        """The pairs of *h* whose names are in *pairs*; ``None``: there are none."""
        if pairs.is_empty():
            return None
        first, second = (subscript_relation(self.launch.statements[s].statement.inames, tuple(
            map(p.Variable, self.names(s, self._place_names)))) for s in (h.source, h.sink))
        return h.pairs.intersect(first.apply_range(pairs).apply_range(second.reverse()))

    def still_running(self, source: str) -> bool:
        """May accesses of the statement *source* run on when the block ends? No wait behind covers them, then."""
        event = self.launch.kernel.statement_by_id[source].completion
        last = parts_of(self.tree)[-1]
        own = self.launch.statements[source].producer is not None
        if isinstance(last, Barrier) and (last.outside or last.producer is own) \
                and commits(last.instructions, event) and pending(last.instructions, event) == 0:
            return False
        if self.places is None:
            return True
        names = self.names(source, self._place_names)
        left = as_points(self.launch.statements[source].domain.onto(names).set)
        for i, place in enumerate(self.places):
            wait = wait_for(event, place.node.instructions)
            covered = None if wait is None else self._waited_for(source, i, wait)
            left = left if covered is None else left.subtract(covered.domain())
        return not left.is_empty()

    def uncommitted(self, source: str) -> bool:
        """May a block go to its next place of the grid before all accesses of *source* are in a group?"""
        event, names = self.launch.kernel.statement_by_id[source].completion, self.names(source, self._place_names)
        left = as_points(self.launch.statements[source].domain.onto(names).set)
        for i, place in enumerate(self.places or ()):
            if commits(place.node.instructions, event) and not place.node.outside:
                left = left.subtract(self._order(source, i).domain())
        return not left.is_empty()

    @cached_property
    def _paths(self) -> Mapping[str, Path]:
        return paths(self.tree)

    @cached_property
    def _place_names(self) -> frozenset[str]:
        phases = (*(i.phase for i in self._phased.values()), *(i.phase for place in self.places or ()
                                                               for i in place.node.instructions))
        return frozenset(x for place in self.places or () for x in place.names).union(
            *(variables(phase.number) for phase in phases if phase is not None))

    @cached_property
    def _phased(self) -> Mapping[str, Instruction]:
        """The instructions of statements whose accesses have phases."""
        return {node.statement: node.instruction for node in nodes_in(self.tree)
                if isinstance(node, Leaf) and node.instruction is not None and node.instruction.phase is not None}

    def names(self, statement: str, among: AbstractSet[str]) -> tuple[str, ...]:
        """The inames of the grid and of the sequential loops around *statement* that are in *among*."""
        bound = self.launch.statements[statement]
        own = {*(self.blocks or ()), *bound.domain.inames} & among
        return tuple(x for x in bound.statement.inames if x in own)

    def by_names(self, h: Hazard, among: AbstractSet[str]) -> Map:
        """The pairs of *h* in terms of :meth:`names`."""
        def named() -> tuple[Map, Map]:
            dims = ([self.launch.statements[s].statement.inames.index(x) for x in self.names(s, among)]
                    for s in (h.source, h.sink))
            return h.pairs, only_dims(h.pairs, *dims)           # the first keeps its id alive
        return kept(self.memo, (id(h.pairs), h.source, h.sink, frozenset(among)), named)[1]

    @kept_in_memo
    def _covered(self, source: str, sink: str, place: int, wait: Instruction) -> Map | None:
        """Pairs between which a thread passes *place*, whose *wait* then waits for the source."""
        first = self._waited_for(source, place, wait)
        return None if first is None else first.apply_range(self._order(place, sink))

    def _waited_for(self, source: str, place: int, wait: Instruction) -> Map | None:
        """The pairs of the *source* and of *place* behind it, whose *wait* then waits for it."""
        role, every = self._event(source).producer, self.places or ()
        # groups are of the threads that start them, also where the other role comes later
        if wait.completes is not Completion.PHASE and every[place].producer is not role:
            return None
        places: dict[str | int, tuple[Instruction, ...]] = {
            i: x.node.instructions for i, x in enumerate(every) if x.producer is role or i == place}
        return wait.waits_for(source, place, places, self._order, partial(self._in_phase, wait))

    @kept_in_memo
    def _order(self, first: str | int, second: str | int) -> Map:
        """Pairs in one block, of statements by id or of places by number, of which the first runs first.

        In two roles, the first comes before an arrival, and the second after a wait for its phase.
        """
        a, b = self._event(first), self._event(second)
        if a.producer is b.producer:
            return a.in_order(b, self.blocks or frozenset())
        assert self.places is not None
        signals: dict[str | int, Phase | None] = {s: i.phase for s, i in self._phased.items()}
        signals |= {i: place.phase_of(ArrivePhase) for i, place in enumerate(self.places)}
        found = Map.empty(Map.from_domain_and_range(a.points, b.points).get_space())
        for x, one in signals.items():
            for y, place in enumerate(self.places):
                other = place.phase_of(WaitPhase)
                if one is not None and other is not None and one.ring == other.ring \
                        and self._event(x).producer is a.producer and place.producer is b.producer:
                    found = found.union(self._up_to(first, x).apply_range(self._one_phase(x, one, y, other))
                                        .apply_range(self._up_to(y, second)))
        return found

    def _up_to(self, first: str | int, second: str | int) -> Map:
        """:meth:`_order`, or one execution: the instructions of a place run in their order."""
        if first == second:
            points = self._event(first).points
            return in_one_iteration(Map.from_domain_and_range(points, points),
                                    [(k, k) for k in range(len(self._event(first).names))])
        return self._order(first, second)

    def _one_phase(self, source: str | int, one: Phase, place: int, other: Phase) -> Map:
        """The pairs of an arrival and a wait for its phase."""
        a, b = self._event(source), self._event(place)
        blocks = [p.Variable(x) for x in sorted(self.blocks or ())]
        found = equal_coordinates(a.names, [*blocks, one.number], b.names, [*blocks, other.number])
        return found.intersect_domain(points_where(p.Comparison(one.number, ">=", 0), a.names))

    def _in_phase(self, wait: Instruction, source: str | int, place: str | int) -> Map | None:
        """The pairs of the statement *source* and the *wait* at *place* of one phase; ``None``: they have no common
        ring.
        """
        of = self._phased.get(source) if isinstance(source, str) else None
        if of is None or of.phase is None or wait.phase is None or of.phase.ring != wait.phase.ring \
                or not isinstance(place, int):
            return None
        return self._one_phase(source, of.phase, place, wait.phase)

    def _event(self, of: str | int) -> Event:
        assert self.places is not None
        return self.places[of] if isinstance(of, int) else \
            Event.anywhere(self._paths[of], self.names(of, self._place_names),
                           producer=self.launch.statements[of].producer is not None)
