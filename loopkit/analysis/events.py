"""Events: the executions of a statement, a barrier or a wait, as points whose order in time is a relation."""
from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import takewhile

from loopkit.analysis.order import loops_of
from loopkit.kernel.tree import Path, meeting
from loopkit.poly.relations import in_one_iteration, in_time_order, shared_dims
from loopkit.poly.sets import InstanceSet, Map, Set, as_points


@dataclass(frozen=True)
class Event:
    """The executions of a statement or a barrier, each in a block and in an iteration of the loops on *way*.

    :ivar names: the inames of the grid, and of those loops.
    :ivar points: their values at which it runs.
    :ivar producer: the producer thread of the block runs it, and other threads do otherwise.
    """

    way: Path
    names: tuple[str, ...]
    points: Set
    producer: bool = False

    @classmethod
    def anywhere(cls, way: Path, names: tuple[str, ...], *, producer: bool = False) -> Event:
        """An event that may run at all values of *names*."""
        return cls(way, names, as_points(InstanceSet.universe(names).set), producer)

    def in_order(self, other: Event, blocks: AbstractSet[str], before: bool | None = None) -> Map:
        """The pairs in one block, identified by its inames *blocks*, of which this event is the first.

        :arg before: is it first in one iteration of all common loops? ``None``: as the paths tell.

        In two roles, the iterations of the loops over the same inames count, and then the producer is first.
        """
        pairs = in_one_iteration(Map.from_domain_and_range(self.points, other.points),
                                 shared_dims(self.names, other.names, sorted(blocks)))
        where = meeting(self.way, other.way)
        if self.producer is other.producer:
            first = where.before if before is None else before
            return in_time_order(pairs, shared_dims(self.names, other.names, where.loops), first)
        around = [x for x, _ in takewhile(lambda pair: pair[0] == pair[1], zip(
            loops_of(self.way), loops_of(other.way), strict=False))]
        return in_time_order(pairs, shared_dims(self.names, other.names, around), self.producer)
