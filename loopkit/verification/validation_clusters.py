"""Clusters: their blocks run the same copies, arrivals and waits of the rings of their tiles.

Then a copy to all blocks of a cluster is, for each of them, a copy of its own, and the check of phases of one block is
enough. The ring of read tiles counts the consumers of all blocks, so that no producer overwrites a slot that a block
reads; and no share lands in a phase that a block has not waited for, since its consumers do so before they arrive. They
may wait for each other in between, as they arrive in all blocks then; but a barrier with the producer of one block
would not hold the others back. All blocks have the order of one tree, in which no role waits for what comes later.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Function, Region, Sync
from loopkit.ast.walk import cluster_of
from loopkit.expr.mappers import substitute, variables
from loopkit.instructions.nests import statement_of
from loopkit.instructions.phases import ArrivePhase, StartPhases
from loopkit.instructions.tma import TmaLoadIssue
from loopkit.lowering.lowered import Launch
from loopkit.poly.affine import floor_div
from loopkit.poly.piecewise import equal_coordinates, piecewise_relation, projected
from loopkit.poly.sets import InstanceSet, Map, Set, as_points, lexmin_point
from loopkit.verification.phases import is_of_block
from loopkit.verification.report import Mismatch
from loopkit.verification.validation_grid import Grid
from loopkit.verification.validation_walk import Execution


@dataclass(frozen=True, eq=False)
class ClusterCheck:
    """The check of the blocks of a cluster of a function."""

    launch: Launch
    function: Function
    grid: Grid
    every: Sequence[Execution]

    def findings(self) -> Iterator[Mismatch]:
        """The mismatches."""
        cluster = self.launch.cluster
        if self.function.cluster != cluster:
            yield self._found("", f"{self.function.cluster} blocks are a cluster, and not {cluster}")
        loads = [(e, i) for e in self.every if isinstance(e.node, Region)
                 and isinstance(i := e.region.instruction, TmaLoadIssue)]
        for e, load in loads:
            s = statement_of(e.region)
            wanted = cluster_of(self.launch.statements[s].statement.instructions)
            if load.blocks != wanted:
                yield self._found(s, f"{load.blocks} blocks share the copy of '{s}', and not {wanted}")
            operands = (*load.box.start, *load.box.tile.index_tuple) if load.blocks > 1 else ()
            if load.blocks > 1 and load.box.end is not None:
                yield self._found(s, f"'{s}' copies a box that may end elsewhere in another block of the cluster")
            if values := sorted({x for e in operands for x in variables(e)} & self.launch.kernel.temporaries.keys()):
                yield self._found(s, f"'{s}' copies from a place by '{values[0]}', which other blocks may not have")
            yield from self._same(e, s, (load.of.number, *operands))
        for e in (e for e in self.every if isinstance(e.node, Sync)):
            if is_of_block(e.sync.scope, self.launch) and e.sync.threads != self.launch.consumers and not any(
                    isinstance(i, StartPhases) for i in e.sync.instructions):
                yield self._found("", "the producer waits for its block, and other blocks copy to its tiles")
            for i in e.sync.instructions:
                if isinstance(i, ArrivePhase) and i.blocks != cluster:
                    yield self._found("", f"warps arrive in '{i.of.ring}' of {i.blocks} of {cluster} blocks")
                if isinstance(i, StartPhases) and i.blocks != cluster:
                    yield self._found("", f"{i.blocks} of {cluster} blocks wait for the start of '{i.ring}'")
                if i.phase is not None:
                    yield from self._same(e, "", (i.phase.number,))

    def _found(self, statement: str, text: str, points: Set | None = None, names: Sequence[str] = ()) -> Mismatch:
        where = () if points is None else lexmin_point(points, names) or ()
        return Mismatch("cluster", self.launch.name, statement, text, *where)

    def _same(self, e: Execution, statement: str, values: Sequence[Expression]) -> Iterator[Mismatch]:
        """All blocks of a cluster execute *e*, with the same *values*."""
        names = tuple(x for x in e.coordinates if x not in self.grid.along("l"))
        points = as_points(InstanceSet(names, projected(e.condition, (), names)).without_params(
            self.grid.along("l")).set)
        of_values = piecewise_relation(names, [substitute(x, e.names) for x in values]).intersect_domain(points)
        others = self._others(names).intersect_domain(points)
        different = others.subtract(of_values.apply_range(of_values.reverse())).domain()
        if not different.is_empty():
            what = f"'{statement}' copies" if statement else "a phase is that of"
            yield self._found(statement, f"{what} another tile in another block of the cluster, or in this one only",
                              different, names)

    def _others(self, names: tuple[str, ...]) -> Map:
        """From a block to those of its cluster, at the same place in loops."""
        axis = self.grid.along("g")[0]
        keys = [floor_div(p.Variable(x), self.launch.cluster) if x == axis else p.Variable(x) for x in names]
        return equal_coordinates(names, keys, names, keys)
