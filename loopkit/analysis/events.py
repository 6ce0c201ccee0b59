"""Events: the executions of a statement, a barrier or a wait, as points whose order in time is a relation."""
from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from loopkit.kernel.tree import Path, meeting
from loopkit.poly.relations import in_one_iteration, in_time_order, shared_dims
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
