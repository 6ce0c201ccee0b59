"""Clusters: their blocks run the same copies, arrivals and waits of the rings of their tiles.

Then a copy to all blocks of a cluster is, for each of them, a copy of its own, and the check of phases of one block is
enough. The ring of read tiles counts the consumers of all blocks, so that no producer overwrites a slot that a block
reads; and no share lands in a phase that a block has not waited for, since its consumers do so before they arrive. They
may wait for each other in between, as they arrive in all blocks then; but a barrier with the producer of one block
would not hold the others back. All blocks have the order of one tree, in which no role waits for what comes later: an
arrival that a copy needs comes before the turn of a warpgroup which waits for the copy, in each block.

The blocks of a cluster have neighbouring places of the grid. If blocks run several places, whole clusters of blocks, in
whole groups of places, have those of one cluster in each round, forwards or backwards.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Region, Scope, Sync
from loopkit.expr.mappers import substitute, variables
from loopkit.instructions.nests import NoMatchError, statement_of
from loopkit.instructions.phases import ArrivePhase, StartPhases
from loopkit.instructions.tma import TmaLoadIssue
from loopkit.instructions.tma_multicast import TmaMulticastIssue
from loopkit.lowering.nest_data import nest_of
from loopkit.poly.affine import floor_div
from loopkit.poly.piecewise import equal_coordinates, piecewise_relation, projected
from loopkit.poly.sets import InstanceSet, Map, as_points
from loopkit.verification.phases import is_of_block
from loopkit.verification.report import Mismatch
from loopkit.verification.validation_walk import Execution, LaunchCheck


@dataclass(frozen=True, eq=False)
class ClusterCheck(LaunchCheck):
    """The check of the blocks of a cluster of a function; *every*: its executions."""

    every: Sequence[Execution]

    def findings(self) -> Iterator[Mismatch]:
        """The mismatches."""
        cluster, last = self.launch.mapping.cluster, self.function.body.children[-1]
        if self.function.cluster != cluster:
            yield from self._found(f"{self.function.cluster} blocks are a cluster, and not {cluster}")
        if not isinstance(last, Sync) or last.scope is not Scope.CLUSTER:
            yield from self._found("a block may end before other blocks copy to it, or arrive")
        if self.launch.persistent % cluster or self.launch.group % cluster:
            yield from self._found(f"blocks run places of the grid that are not whole clusters of {cluster}")
        for e in self.every:
            if isinstance(e.node, Region) and isinstance(issue := e.region.instruction, TmaLoadIssue):
                yield from self._of_load(e, issue)
            if isinstance(e.node, Sync):
                yield from self._of_sync(e)

    def _of_load(self, e: Execution, issue: TmaLoadIssue) -> Iterator[Mismatch]:
        s, values, cluster = statement_of(e.region), list[Expression](), self.launch.mapping.cluster
        if isinstance(issue, TmaMulticastIssue):
            if issue.instruction.blocks != cluster:
                yield from self._found(f"{issue.instruction.blocks} blocks share the copy, and not {cluster}", s)
            if issue.box.end is not None:
                yield from self._found(f"'{s}' copies a box that may end elsewhere in another block of the cluster", s)
            with suppress(NoMatchError):
                moved = issue.moved(nest_of(self.launch, self.storages, e.region, {}))
                values += [substitute(i, dict.fromkeys(moved.extents, 0))
                           for i in (*moved.source.index_tuple, *moved.target.index_tuple)]
        if data := sorted({x for i in values for x in variables(i)} & self.kernel.temporaries.keys()):
            yield from self._found(f"'{s}' copies from a place by '{data[0]}', which other blocks may not have", s)
        yield from self._same(e, s, (issue.of.number, *values))

    def _of_sync(self, e: Execution) -> Iterator[Mismatch]:
        cluster, starts = self.launch.mapping.cluster, [i for i in e.sync.instructions if isinstance(i, StartPhases)]
        if e.sync.scope is not Scope.CLUSTER:
            for start in starts:
                yield from self._found(f"the blocks of a cluster do not wait for the start of '{start.ring}'")
            if is_of_block(e.sync.scope, self.launch) and e.sync.threads != self.launch.consumers and not starts:
                yield from self._found("the producer waits for its block, and other blocks copy to its tiles")
        for i in e.sync.instructions:
            if isinstance(i, ArrivePhase) and i.blocks != cluster:
                yield from self._found(f"warps arrive in '{i.of.ring}' of {i.blocks} of {cluster} blocks")
            if i.phase is not None:
                yield from self._same(e, "", (i.phase.number,))

    def _found(self, text: str, statement: str = "") -> Iterator[Mismatch]:
        return self.mismatch("cluster", statement, text)

    def _same(self, e: Execution, statement: str, values: Sequence[Expression]) -> Iterator[Mismatch]:
        """All blocks of a cluster execute *e*, with the same *values*."""
        names = tuple(x for x in e.coordinates if x not in self.grid.along("l"))
        points = as_points(InstanceSet(names, projected(e.condition, (), names)).without_params(
            self.grid.along("l")).set)
        of_values = piecewise_relation(names, [substitute(x, e.names) for x in values]).intersect_domain(points)
        others = self._others(names).intersect_domain(points)
        different = others.subtract(of_values.apply_range(of_values.reverse())).domain()
        what = f"'{statement}' copies" if statement else "a phase is that of"
        yield from self.mismatch("cluster", statement,
                                 f"{what} another tile in another block of the cluster, or in this one only",
                                 different, names)

    def _others(self, names: tuple[str, ...]) -> Map:
        """From a block to those of its cluster, at the same place in loops."""
        axis, cluster = self.grid.along("g")[0], self.launch.mapping.cluster
        keys = [floor_div(p.Variable(x), cluster) if x == axis else p.Variable(x) for x in names]
        return equal_coordinates(names, keys, names, keys)
