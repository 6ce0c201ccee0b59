"""The block and the thread that run an instance, as far as the launch determines them, and the barriers on its way."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate
from operator import mul
from typing import Any

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.legality import packed_coordinate, places_on_axis
from loopkit.analysis.order import loops_of
from loopkit.analysis.ranges import iname_range
from loopkit.ast.nodes import Scope
from loopkit.expr.mappers import variables
from loopkit.kernel.tree import Barrier, Leaf, Meeting, Path, Step, Tree, leaves, meeting, placed_nodes
from loopkit.lowering.lowered import BLOCK, GRID, BoundStatement, Launch
from loopkit.poly.affine import floor_div, subtract
from loopkit.poly.limits import kept
from loopkit.poly.piecewise import equal_coordinates
from loopkit.poly.relations import other_instance
from loopkit.poly.sets import Map

#: Pairs of expressions that are equal if one thread, warp or block runs two instances; ``None``: any of them may.
Places = Sequence[tuple[Expression, ...]] | None


@dataclass(frozen=True)
class Threads:
    """The places of the instances of a launch.

    Its methods return ``None`` if none of the pairs is left.
    """

    launch: Launch
    memo: dict[object, Any] = field(default_factory=dict, repr=False, compare=False)

    def in_one_block(self, a: BoundStatement, b: BoundStatement, pairs: Map) -> Map:
        """The *pairs* of instances that one block may run."""
        same = self._at_one_place("block", a, b, lambda: [
            pair for axis in self._long(GRID) for pair in self._places(axis, a, b) or ()] or None)
        return pairs if same is None else pairs.intersect(same)

    def in_two_blocks(self, a: BoundStatement, b: BoundStatement, pairs: Map) -> Map | None:
        """The *pairs* that two blocks may run."""
        return self._apart_along(self._long(GRID), a, b, pairs)

    def on_two_threads(self, a: BoundStatement, b: BoundStatement, pairs: Map, *,
                       accesses_for: Scope = Scope.THREAD) -> Map | None:
        """The *pairs*, all of one block, that two threads may run.

        :arg accesses_for: any of these threads may access the element for an instruction of all of them.
        """
        if a is b and a.auto:
            pairs = other_instance(pairs)            # some thread runs it, but only one
        if accesses_for is not Scope.THREAD:
            return None if pairs.is_empty() else pairs
        return self._apart_along(self._long(BLOCK), a, b, pairs)

    def in_two_warps(self, a: BoundStatement, b: BoundStatement, pairs: Map, *, accesses_for: Scope = Scope.THREAD
                     ) -> Map | None:
        """The *pairs*, all of one block, that threads of two warps may run.

        A warp holds threads with neighbouring numbers, ``l.0`` fastest.
        """
        warp = self.launch.machine.warp
        if self.launch.within_warp():
            return None
        if accesses_for > Scope.WARP:
            return self.on_two_threads(a, b, pairs, accesses_for=accesses_for)
        if not isinstance(self.launch.threads, int):
            return self.on_two_threads(a, b, pairs)
        first, second = (kept(self.memo, ("number", x.hardware, x.alone_on, x.producer), partial(self._number, x))
                         for x in (a, b))
        if first is None or second is None:
            return self.on_two_threads(a, b, pairs)
        return self._apart("warp", a, b, pairs, lambda: [(floor_div(first, warp), floor_div(second, warp))])

    def _apart_along(self, axes: Sequence[str], a: BoundStatement, b: BoundStatement, pairs: Map) -> Map | None:
        """The *pairs* that two places along *axes* may run."""
        def known() -> Places:
            if axes[0] in BLOCK and self.launch.in_two_roles(a.statement.id, b.statement.id):
                return None
            places = [self._places(axis, a, b) for axis in axes]
            return None if None in places else [pair for place in places for pair in place or ()]
        return self._apart(tuple(axes), a, b, pairs, known) if axes else None

    def _apart(self, what: object, a: BoundStatement, b: BoundStatement, pairs: Map, find: Callable[[], Places]
               ) -> Map | None:
        same = self._at_one_place(what, a, b, find)
        left = pairs if same is None else pairs.subtract(same)
        return None if left.is_empty() else left

    def _at_one_place(self, what: object, a: BoundStatement, b: BoundStatement, find: Callable[[], Places]
                      ) -> Map | None:
        """The pairs of instances for which the expressions that *find* returns agree; ``None``: it returns none."""
        def agreeing() -> Map | None:
            known = find()
            return None if known is None else equal_coordinates(
                a.statement.inames, [x for x, _ in known], b.statement.inames, [y for _, y in known])
        signatures = ((x.statement.inames, x.hardware, x.auto, x.alone_on, x.producer) for x in (a, b))
        return kept(self.memo, (what, *signatures), agreeing)

    def _long(self, axes: Sequence[str]) -> list[str]:
        return [axis for axis in axes if self.launch.mapping.extents.get(axis, 1) != 1]

    def _on(self, axis: str, bound: BoundStatement) -> tuple[str, ...]:
        """The inames of a statement on *axis*, outermost first."""
        return kept(self.memo, (axis, bound.hardware), lambda: tuple(
            x for x in bound.hardware if axis in variables(self.launch.mapping.coordinates[x])))

    def _places(self, axis: str, a: BoundStatement, b: BoundStatement) -> Places:
        first, second = self._on(axis, a), self._on(axis, b)
        if first and second:
            return places_on_axis(self.launch.kernel, first, second)
        # beside a statement that only coordinate 0 runs
        if (first or axis in a.alone_on) and (second or axis in b.alone_on):
            return [*((self._from_zero(x), 0) for x in first), *((0, self._from_zero(x)) for x in second)]
        return None

    def _from_zero(self, iname: str) -> Expression:
        return subtract(p.Variable(iname), iname_range(self.launch.kernel, iname)[0])

    def _number(self, bound: BoundStatement) -> Expression | None:
        """The number in its block of the thread that runs an instance; ``None`` if several warps do, or any may."""
        along: list[Expression] = []
        extents = [extent for extent in self.launch.block if isinstance(extent, int)]
        for axis, extent, threads in zip(BLOCK, extents, accumulate(extents, mul), strict=True):
            own = self._on(axis, bound)
            if not own and extent > 1 and axis not in bound.alone_on and self.launch.machine.warp % threads:
                return None                  # else one warp holds all of them, for each place on the other axes
            along.append(packed_coordinate(self.launch.kernel, own) if own else bound.place_on(axis))
        return self.launch.thread_number(along)


# Barriers that separate two instances

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
        considers the barrier after the source in the source's iteration, and the one before the sink in the sink's:
        such a barrier must run because the source, or the sink, is in the same body.
        """
        a, b = self.sides[source], self.sides[sink]
        own = self.barrier.runs_with
        return self.may_separate(source, sink, level) and (
            (self._loops == len(a.loops) and a.before and (not own or source in own))
            or (self._loops == len(b.loops) and not b.before and (not own or sink in own)))

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
            case Leaf(statement, instruction) if instruction is None or instruction.scope is Scope.THREAD:
                statements[statement] = way
            case Leaf(statement):
                # the threads of a warp synchronize before and after it, as at a barrier
                before, statements[statement], behind = ((*way, Step(i, None)) for i in range(3))
                barriers += [(TOGETHER, before, body), (TOGETHER, behind, body)]
            case Barrier():
                barriers.append((node, way, body))
    return Ways(statements, tuple(
        PlacedBarrier(node, way, tuple(leaves(body)), {s: meeting(other, way) for s, other in statements.items()})
        for node, way, body in barriers))
