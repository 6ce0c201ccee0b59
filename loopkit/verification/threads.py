"""The block and the thread that run an instance, as far as the launch determines them."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.instructions import collective_inames
from loopkit.analysis.legality import iname_range, packed_coordinate, places_on_axis
from loopkit.expr.mappers import variables
from loopkit.kernel.kernel import LoopKernel
from loopkit.lowering.lowered import BLOCK, GRID, BoundStatement, Launch
from loopkit.poly.affine import add, floor_div, multiply, subtract
from loopkit.poly.limits import kept
from loopkit.poly.relations import equal_coordinates, other_instance
from loopkit.poly.sets import Map

#: Expressions that are equal if two instances run at one place; ``None``: one of the instances may run anywhere.
Places = list[tuple[Expression, Expression]] | None


@dataclass(frozen=True)
class Threads:
    """The places of the instances of a launch."""

    kernel: LoopKernel
    launch: Launch
    memo: dict[object, Any] = field(default_factory=dict, repr=False, compare=False)

    def in_one_block(self, a: BoundStatement, b: BoundStatement, pairs: Map) -> Map:
        """The *pairs* of instances that one block may run."""
        same = self._at_one_place("block", a, b, lambda: [
            pair for axis in self._long(GRID) for pair in self._places(axis, a, b) or ()] or None)
        return pairs if same is None else pairs.intersect(same)

    def in_two_blocks(self, a: BoundStatement, b: BoundStatement, pairs: Map) -> Map | None:
        """The *pairs* that two blocks may run; ``None`` if there are none."""
        return self._apart(self._long(GRID), a, b, pairs)

    def on_two_threads(self, a: BoundStatement, b: BoundStatement, pairs: Map) -> Map | None:
        """The *pairs*, all of one block, that two threads may run; ``None`` if there are none."""
        if a is b and a.auto:
            pairs = other_instance(pairs)            # some thread runs it, but only one
        if collective_inames(self.kernel, a.statement) or collective_inames(self.kernel, b.statement):
            return None if pairs.is_empty() else pairs      # any lane of the warp may load the operands
        return self._apart(self._long(BLOCK), a, b, pairs)

    def in_two_warps(self, a: BoundStatement, b: BoundStatement, pairs: Map) -> Map | None:
        """The *pairs*, all of one block, that threads of two warps may run; ``None`` if there are none.

        A warp holds threads with neighbouring numbers, ``l.0`` fastest.
        """
        warp = self.launch.machine.warp
        if self.launch.threads <= warp:
            return None

        def numbers() -> Places:
            first, second = self._number(a), self._number(b)
            return None if first is None or second is None else [(floor_div(first, warp), floor_div(second, warp))]
        same = self._at_one_place("warp", a, b, numbers)
        if same is None:
            return self.on_two_threads(a, b, pairs)
        pairs = pairs.subtract(same)
        return None if pairs.is_empty() else pairs

    def _apart(self, axes: Sequence[str], a: BoundStatement, b: BoundStatement, pairs: Map) -> Map | None:
        """The *pairs* that two places along *axes* may run; ``None`` if there are none."""
        if not axes:
            return None

        def known() -> Places:
            places = [self._places(axis, a, b) for axis in axes]
            return None if None in places else [pair for place in places for pair in place or ()]
        same = self._at_one_place(tuple(axes), a, b, known)
        if same is not None:
            pairs = pairs.subtract(same)
        return None if pairs.is_empty() else pairs

    def _at_one_place(self, what: object, a: BoundStatement, b: BoundStatement, find: Callable[[], Places]
                      ) -> Map | None:
        """The pairs of instances for which the expressions that *find* returns agree; ``None``: it returns none."""
        def agreeing() -> Map | None:
            known = find()
            return None if known is None else equal_coordinates(
                a.statement.inames, [x for x, _ in known], b.statement.inames, [y for _, y in known])
        signatures = ((x.statement.inames, x.hardware, x.auto, x.alone_on) for x in (a, b))
        return kept(self.memo, (what, *signatures), agreeing)

    def _long(self, axes: Sequence[str]) -> list[str]:
        return [axis for axis in axes if self.launch.extents.get(axis, 1) != 1]

    def _on(self, axis: str, bound: BoundStatement) -> tuple[str, ...]:
        """The inames of a statement on *axis*, outermost first."""
        return kept(self.memo, (axis, bound.hardware), lambda: tuple(
            x for x in bound.hardware if axis in variables(self.launch.coordinates[x])))

    def _places(self, axis: str, a: BoundStatement, b: BoundStatement) -> Places:
        first, second = self._on(axis, a), self._on(axis, b)
        if first and second:
            places = places_on_axis(self.kernel, first, second)
            return None if places is None else [(x, y) for x, y in places]
        if first and axis in b.alone_on:
            return [(place, 0) for place in self._from_zero(first)]
        if second and axis in a.alone_on:
            return [(0, place) for place in self._from_zero(second)]
        return [] if axis in a.alone_on and axis in b.alone_on else None

    def _from_zero(self, inames: Sequence[str]) -> list[Expression]:
        return [subtract(p.Variable(x), iname_range(self.kernel, x)[0]) for x in inames]

    def _number(self, bound: BoundStatement) -> Expression | None:
        """The number in its block of the thread that runs an instance; ``None`` if several warps do, or any may."""
        result: Expression = 0
        stride = 1
        for axis, extent in zip(BLOCK, self.launch.block, strict=True):
            own = self._on(axis, bound)
            if own:
                result = add(result, multiply(stride, packed_coordinate(self.kernel, own)))
            elif extent > 1 and axis not in bound.alone_on and self.launch.machine.warp % (stride * extent):
                return None                  # else one warp holds all of them, for each place on the other axes
            stride *= extent
        return result
