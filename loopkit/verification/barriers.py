"""Barriers of a launch that separate two instances."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from loopkit.analysis.order import loops_of
from loopkit.ast.nodes import Scope
from loopkit.kernel.tree import Barrier, Leaf, Meeting, Path, Step, Tree, leaves, meeting, placed_nodes

#: A warp instruction, as a barrier for arrays in warp registers: the threads of each warp wait for each other. It does
#: not order accesses to memory.
TOGETHER = Barrier(scope=Scope.WARP)


@dataclass(frozen=True)
class PlacedBarrier:
    """A barrier of a tree.

    :ivar way: the path from the root.
    :ivar beside: the statements in the innermost loop around it: it runs if one of them does, for some thread.
    :ivar sides: for each statement, the loops that it shares with the barrier, and whether it comes before the barrier.
    """

    barrier: Barrier
    way: Path
    beside: tuple[str, ...]
    sides: Mapping[str, Meeting]

    @property
    def _loops(self) -> int:
        return len(loops_of(self.way))

    def must_separate(self, source: str, sink: str, level: int) -> bool:
        """Must it run between any two instances of a pair that the loop *level* carries?

        Loops count from the outermost, from 0; the number of shared loops means one iteration of all of them. The test
        considers the barrier behind the source in the source's iteration, and the one before the sink in the sink's:
        such a barrier must run because the source, or the sink, is in the same body.
        """
        a, b = self.sides[source], self.sides[sink]
        return self.may_separate(source, sink, level) and (
            (self._loops == len(a.loops) and a.before) or (self._loops == len(b.loops) and not b.before))

    def may_separate(self, source: str, sink: str, level: int) -> bool:
        """Can it run between some of these pairs, in any iteration?"""
        a, b = self.sides[source], self.sides[sink]
        # one that only separates iterations of its loop is left out of the last one
        if self.barrier.left_out_last and not len(a.loops) == len(b.loops) == self._loops == level + 1:
            return False
        return (level < len(a.loops) or a.before) and (level < len(b.loops) or not b.before)

    def runs_only_between(self, source: str, sink: str, level: int) -> bool:
        """Can it run between such pairs only in iterations of the loop *level* between those of the two?"""
        a, b = self.sides[source], self.sides[sink]
        return len(a.loops) == len(b.loops) == level + 1 and not a.before and b.before

    def __str__(self) -> str:
        return self.barrier.title + (f" in the loop over '{loops_of(self.way)[-1]}'" if self._loops else "")


@dataclass(frozen=True)
class Ways:
    """The paths from the root of a tree to its statements, its barriers, and each thread's waits."""

    statements: Mapping[str, Path]
    places: tuple[PlacedBarrier, ...]

    @cached_property
    def barriers(self) -> tuple[PlacedBarrier, ...]:
        return tuple(b for b in self.places if b.barrier.scope is not Scope.THREAD)


def ways_of(tree: Tree) -> Ways:
    """The statements and the barriers of *tree*, each with its path from the root."""
    statements: dict[str, Path] = {}
    barriers: list[tuple[Barrier, Path, Tree]] = []
    for node, way, body in placed_nodes(tree):
        match node:
            case Leaf(statement, None):
                statements[statement] = way
            case Leaf(statement):
                # the threads of a warp synchronize before and behind it, as at a barrier
                before, statements[statement], behind = ((*way, Step(i, None)) for i in range(3))
                barriers += [(TOGETHER, before, body), (TOGETHER, behind, body)]
            case Barrier():
                barriers.append((node, way, body))
    return Ways(statements, tuple(
        PlacedBarrier(node, way, tuple(leaves(body)), {s: meeting(other, way) for s, other in statements.items()})
        for node, way, body in barriers))
