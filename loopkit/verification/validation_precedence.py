"""The precedence of executions in a block: in time, behind barriers and waits, and through phases."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Completion, Instruction, completion_of, covering
from loopkit.ast.phases import Phase
from loopkit.expr.mappers import substitute, variables
from loopkit.instructions.phases import ArrivePhase, WaitPhase
from loopkit.kernel.tree import meeting
from loopkit.poly.limits import kept_in_memo
from loopkit.poly.piecewise import equal_coordinates, piecewise_relation, points_where, projected
from loopkit.poly.relations import in_time_order, only_dims, shared_dims
from loopkit.poly.sets import Map, Set
from loopkit.verification.validation_walk import Execution, LaunchCheck


@dataclass(frozen=True)
class Coordinates:
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
class Precedence(LaunchCheck):
    """The pairs of executions in a block of which the first runs before the second.

    :ivar memo: known results, which the checks of a launch share.
    """

    memo: dict[object, Any]

    @kept_in_memo
    def coordinates_of(self, execution: Execution, also: tuple[str, ...]) -> Coordinates:
        """The coordinates that order it among barriers, those of the loops with barriers; and *also*."""
        loops = (meeting(execution.path, place.path).loops for place in self.places)
        names = set(also).union(*loops, variables(self.number_of_phase(execution)))
        every = execution.coordinates[len(self.grid.along("g")):]
        return Coordinates(execution, every, tuple(x for x in every if x in names))

    @staticmethod
    def number_of_phase(execution: Execution) -> Expression:
        """The number of the phase of an access, or of a wait, in terms of the coordinates; 0: it has none."""
        phase = phase_of(execution)
        return 0 if phase is None else substitute(phase.number, execution.names)

    @kept_in_memo
    def before(self, x: Coordinates, y: Coordinates) -> Map:
        """Pairs in one block, by *x* and by *y*, whose first runs before the second.

        In two roles, the first comes before an arrival, and the second after a wait for its phase.
        """
        if x.execution.producer is not y.execution.producer:
            return self._through_phases(x, y)
        where = meeting(x.execution.path, y.execution.path)
        pairs = equal_coordinates(x.names, (), y.names, ())
        return in_time_order(pairs, shared_dims(x.names, y.names, where.loops), where.before)

    def _through_phases(self, x: Coordinates, y: Coordinates) -> Map:
        found = Map.empty(equal_coordinates(x.names, (), y.names, ()).get_space())
        for (s, one), (w, other) in product(self.arrivals, self._phase_waits):
            if one.ring == other.ring and s.producer is x.execution.producer and w.producer is y.execution.producer:
                a, b, number = self.coordinates_of(s, ()), self.at(w), substitute(one.number, s.names)
                same = equal_coordinates(a.names, [number], b.names, [substitute(other.number, w.names)])
                same = same.intersect_domain(a.points.intersect(points_where(
                    p.Comparison(number, ">=", 0), a.names))).intersect_range(b.points)
                found = found.union(self.up_to(x, a).apply_range(same).apply_range(self.up_to(b, y)))
        return found

    def up_to(self, a: Coordinates, b: Coordinates) -> Map:
        """:meth:`before`, or one execution: the instructions of a place run in their order."""
        if a.execution is not b.execution:
            return self.before(a, b)
        own = [p.Variable(name) for name in a.names if name in b.names]
        return equal_coordinates(a.names, own, b.names, own)

    @cached_property
    def arrivals(self) -> Sequence[tuple[Execution, Phase]]:
        """The copies and the arrivals of warps, each with its phase."""
        copies = ((e, phase_of(e)) for own in self.executions.values() for e in own)
        return [*((e, phase) for e, phase in copies if phase is not None),
                *((e, i.of) for e in self.places for i in e.sync.instructions if isinstance(i, ArrivePhase))]

    @cached_property
    def _phase_waits(self) -> Sequence[tuple[Execution, Phase]]:
        return [(e, i.of) for e in self.places for i in e.sync.instructions if isinstance(i, WaitPhase)]

    @kept_in_memo
    def at(self, place: Execution) -> Coordinates:
        return self.coordinates_of(place, place.loops)

    @kept_in_memo
    def behind(self, x: Coordinates, place: Execution, event: Completion | None) -> Map:
        """Executions of *x* and of *place* after it, which waits for an *event* that needs it."""
        def first(a: Coordinates, b: Coordinates) -> Map:
            return self.before(a, b).intersect_range(b.points)
        z = self.at(place)
        if event is None or not event.needs_wait:
            return first(x, z)
        wait, role = covering_at(x, place, event), x.execution.producer
        assert wait is not None
        # groups are of the threads that start them, also where the other role comes later
        if wait.completes is not Completion.PHASE and place.producer is not role:
            return Map.empty(self.before(x, z).get_space())

        def in_phase(a: Coordinates, b: Coordinates) -> Map | None:
            one, other = phase_of(a.execution), wait.phase
            if one is None or other is None or one.ring != other.ring:
                return None
            return equal_coordinates(a.names, [self.number_of_phase(a.execution)],
                                     b.names, [substitute(other.number, b.execution.names)])
        found = wait.waits_for(x, z, {
            self.at(b): b.sync.instructions for b in self.places if b.producer is role or b is place}, first, in_phase)
        return Map.empty(self.before(x, z).get_space()) if found is None else found

    def in_block(self, first: Execution, second: Execution, pairs: Map, names: tuple[str, ...]
             ) -> tuple[Coordinates, Coordinates, Map]:
        """The *pairs* as executions of one block, by the coordinates that order them among barriers, and *names*."""
        x, y = (self.coordinates_of(e, names) for e in (first, second))
        (source, own), (sink, others) = x.instances, y.instances
        return x, y, source.apply_range(only_dims(pairs, own, others)).apply_range(sink.reverse())


def instructions_at(execution: Execution) -> tuple[Instruction, ...]:
    """The instructions that make the accesses of an execution of an assignment."""
    return (*execution.assign.instructions, *(() if execution.instruction is None else (execution.instruction,)))


def covering_at(x: Coordinates, place: Execution, event: Completion) -> Instruction | None:
    """The instruction of *place* by which *event* follows the accesses of *x*; ``None``: there is none."""
    return covering(event, completion_of(instructions_at(x.execution)), place.sync.instructions)


def phase_of(execution: Execution) -> Phase | None:
    """The phase of an access by an instruction; ``None``: it has none."""
    return None if execution.instruction is None else execution.instruction.phase
