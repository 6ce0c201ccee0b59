"""Waits for asynchronous accesses: the pairs of accesses that each wait of a launch orders.

An access is complete once its thread has waited for its event; other threads need a barrier after that wait. The
instruction of a wait gives the accesses that it waits for, as a relation between iterations.
"""
from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import takewhile
from typing import Any

from loopkit.analysis.order import loops_of
from loopkit.ast.nodes import Instruction, Scope
from loopkit.kernel.tags import GroupTag
from loopkit.kernel.tree import Barrier, Path, Tree, leaves, meeting, paths, placed_nodes
from loopkit.lowering.hazards import Hazard
from loopkit.lowering.lowered import Launch
from loopkit.poly.limits import kept_by_kernel
from loopkit.poly.relations import in_one_iteration, in_time_order, only_dims, shared_dims
from loopkit.poly.sets import InstanceSet, Map, Set, as_points


@dataclass(frozen=True)
class Event:
    """The executions of a statement or a barrier, each in a block and in an iteration of the loops on *way*.

    :ivar names: the inames of the grid, and of those loops.
    :ivar points: their values at which it runs.
    """

    way: Path
    names: tuple[str, ...]
    points: Set

    @classmethod
    def anywhere(cls, way: Path, names: tuple[str, ...]) -> Event:
        """An event that may run at all values of *names*."""
        return cls(way, names, as_points(InstanceSet.universe(names).set))

    def in_order(self, other: Event, blocks: AbstractSet[str], before: bool) -> Map:
        """The pairs in one block, identified by its inames *blocks*, of which this event is the first."""
        pairs = in_one_iteration(Map.from_domain_and_range(self.points, other.points),
                                 shared_dims(self.names, other.names, sorted(blocks)))
        around = meeting(self.way, other.way).loops
        return in_time_order(pairs, shared_dims(self.names, other.names, around), before)


def steps_in_common(first: Path, second: Path) -> int:
    """The number of steps that two paths share."""
    return len([*takewhile(lambda steps: steps[0] == steps[1], zip(first, second, strict=False))])


@dataclass(frozen=True)
class PlacedWait(Event):
    """A wait, or another instruction of threads that waits depend on."""

    node: Barrier


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
            domains = [self.launch.statements[s].domain.onto(names) for s in leaves(body)]
            points = reduce(InstanceSet.union, (d.without_params(of_threads) for d in domains))
            if not self.launch.kernel.value_params.issuperset(points.params):
                return None                     # read from memory, or one block's alone
            found.append(PlacedWait(way, names, as_points(points.set), node))
        return tuple(found)

    def left(self, h: Hazard, scope: Scope, waits: Sequence[Instruction | None]) -> Map | None:
        """The pairs of *h*, by :meth:`names`, between which no wait covers the copy; ``None``: there are none.

        :arg scope: the threads of the pairs: a thread other than the copy's own needs a barrier of this scope.
        :arg waits: the wait of each place for the event of *h*.
        """
        assert self.places is not None
        pairs = self.by_names(h, self._place_names)
        for i, (place, wait) in enumerate(zip(self.places, waits, strict=True)):
            if wait is not None and place.node.scope >= scope and not pairs.is_empty():
                covered = self._covered(h.source, h.sink, i, wait)
                pairs = pairs if covered is None else pairs.subtract(covered)
        return None if pairs.is_empty() else pairs

    @cached_property
    def _place_names(self) -> frozenset[str]:
        return frozenset(x for place in self.places or () for x in place.names)

    def names(self, statement: str, among: AbstractSet[str]) -> tuple[str, ...]:
        """The inames of the grid and of the sequential loops around *statement* that are in *among*."""
        bound = self.launch.statements[statement]
        own = {*(self.blocks or ()), *bound.domain.inames} & among
        return tuple(x for x in bound.statement.inames if x in own)

    def by_names(self, h: Hazard, among: AbstractSet[str]) -> Map:
        """The pairs of *h* in terms of :meth:`names`."""
        dims = ([self.launch.statements[s].statement.inames.index(x) for x in self.names(s, among)]
                for s in (h.source, h.sink))
        return only_dims(h.pairs, *dims)

    @kept_by_kernel
    def _covered(self, source: str, sink: str, place: int, wait: Instruction) -> Map | None:
        """Pairs between which a thread passes *place*, whose *wait* then waits for the source."""
        places: dict[str | int, tuple[Instruction, ...]] = {i: x.node.instructions
                                                            for i, x in enumerate(self.places or ())}
        first = wait.waits_for(source, place, places, self._order)
        return None if first is None else first.apply_range(self._order(place, sink))

    @kept_by_kernel
    def _order(self, first: str | int, second: str | int) -> Map:
        """Pairs in one block, of statements by id or of places by number, of which the first runs first."""
        a, b = self._event(first), self._event(second)
        return a.in_order(b, self.blocks or frozenset(), meeting(a.way, b.way).before)

    def _event(self, of: str | int) -> Event:
        assert self.places is not None
        return self.places[of] if isinstance(of, int) else \
            Event.anywhere(paths(self.tree)[of], self.names(of, self._place_names))
