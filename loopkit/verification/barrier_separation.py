"""Barriers between two instances: which barriers of a launch's tree separate them."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from loopkit.analysis.order import loops_of
from loopkit.ast.nodes import Scope
from loopkit.kernel.tree import Barrier, Leaf, Loop, Path, Seq, Step, Tree, leaves, meeting

#: A warp instruction, as a barrier for arrays in warp registers: the threads of each warp wait for each other. It does
#: not order accesses to memory.
TOGETHER = Barrier(scope=Scope.WARP)


@dataclass(frozen=True)
class Side:
    """The place of a statement relative to a barrier.

    :ivar loops: number of shared loops.
    :ivar first: in one iteration of those, the statement comes before the barrier.
    """

    loops: int
    first: bool


@dataclass(frozen=True)
class PlacedBarrier:
    """A barrier of a tree.

    :ivar way: the path from the root.
    :ivar loops: number of loops around it.
    :ivar beside: the statements in the innermost loop around it: it runs if one of them does, for some thread.
    :ivar sides: the place of each statement of the tree relative to it.
    """

    barrier: Barrier
    way: Path
    loops: int
    beside: tuple[str, ...]
    sides: Mapping[str, Side]

    def must_separate(self, source: str, sink: str, level: int) -> bool:
        """Must it run between any two instances of a pair that the loop *level* carries?

        Loops count from the outermost, from 0; the number of shared loops means one iteration of all of them. The test
        considers the barrier behind the source in the source's iteration, and the one before the sink in the sink's:
        such a barrier must run because the source, or the sink, is in the same body.
        """
        a, b = self.sides[source], self.sides[sink]
        if not self._must_run(a, b, level):
            return False
        if self.loops == a.loops and a.first and (level < b.loops or not b.first):
            return True
        return self.loops == b.loops and not b.first and (level < a.loops or a.first)

    def may_separate(self, source: str, sink: str, level: int) -> bool:
        """Can it run between some of these pairs, in any iteration?"""
        a, b = self.sides[source], self.sides[sink]
        return self._must_run(a, b, level) and (level < a.loops or a.first) and (level < b.loops or not b.first)

    def _must_run(self, a: Side, b: Side, level: int) -> bool:
        """Must it run in each iteration that ends between such pairs? The last iteration of a loop omits a barrier that
        only separates iterations, so this one separates pairs carried by its own loop."""
        return not self.barrier.left_out_last or (a.loops == b.loops == self.loops == level + 1)

    def runs_only_between(self, source: str, sink: str, level: int) -> bool:
        """Can it run between such pairs only in iterations of the loop *level* between those of the two?"""
        a, b = self.sides[source], self.sides[sink]
        return a.loops == b.loops == level + 1 and not a.first and b.first

    def __str__(self) -> str:
        return self.barrier.title + (f" in the loop over '{loops_of(self.way)[-1]}'" if self.loops else "")


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

    def walk(node: Tree, way: Path, body: Tree) -> None:
        match node:
            case Leaf(statement, None):
                statements[statement] = way
            case Leaf(statement):
                # the threads of a warp synchronize before and behind it, as at a barrier
                barriers.append((TOGETHER, (*way, Step(0, None)), body))
                statements[statement] = (*way, Step(1, None))
                barriers.append((TOGETHER, (*way, Step(2, None)), body))
            case Barrier():
                barriers.append((node, way, body))
            case Loop(iname, inner):
                walk(inner, (*way, Step(0, iname)), inner)
            case Seq(children):
                for i, child in enumerate(children):
                    walk(child, (*way, Step(i, None)), body)
    walk(tree, (), tree)
    return Ways(statements, tuple(_placed(node, way, body, statements) for node, way, body in barriers))


def _placed(barrier: Barrier, way: Path, body: Tree, statements: Mapping[str, Path]) -> PlacedBarrier:
    met = {s: meeting(other, way) for s, other in statements.items()}
    return PlacedBarrier(barrier, way, len(loops_of(way)), tuple(leaves(body)),
                         {s: Side(len(where.loops), where.before) for s, where in met.items()})
