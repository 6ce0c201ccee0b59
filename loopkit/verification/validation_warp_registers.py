"""Warp registers: shuffles read the lane that holds the element, and every other access is to the thread's own element.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_of
from loopkit.analysis.dependences import reads_of
from loopkit.ast.nodes import Array, Assign
from loopkit.expr.mappers import elements_of, substitute
from loopkit.instructions.shuffle import Shuffle
from loopkit.poly.affine import NotAffineError, add, floor_div
from loopkit.poly.piecewise import piecewise_relation
from loopkit.poly.relations import equal_coordinates, smallest_pair
from loopkit.poly.sets import Map
from loopkit.verification.report import Mismatch
from loopkit.verification.validation_grid import thread_number
from loopkit.verification.validation_walk import Execution, LaunchCheck


@dataclass(frozen=True, eq=False)
class WarpRegisterCheck(LaunchCheck):
    """The check of the lanes that hold elements of warp registers."""

    def findings(self) -> Iterator[Mismatch]:
        for array in self.function.arrays:
            if array.lanes:
                try:
                    yield from self._of_array(array)
                except NotAffineError as err:
                    yield self.mismatch("undecided", "", f"'{err}' is no affine form")

    def _of_array(self, array: Array) -> Iterator[Mismatch]:
        own: list[tuple[Execution, Map]] = []
        others: list[tuple[Execution, Map]] = []
        for e in (e for some in self.executions.values() for e in some):
            node = e.node
            assert isinstance(node, Assign)
            for element in dict.fromkeys(x for part in (node.target, node.value)
                                         for x in elements_of(part, (array.name,))):
                index = [substitute(i, e.names) for i in element.index_tuple[-array.lanes:]]
                cells = piecewise_relation(e.coordinates, index).intersect_domain(e.points)
                (own if e.instruction is None or element == node.target else others).append((e, cells))
        yield from self._overwritten(array, others)
        number = thread_number(self.grid, self.launch.block)
        for e, cells in own:
            for f, theirs in own:
                yield from self._away(array, e, f, cells, theirs, number, number)
        for e, cells in others:
            assert isinstance(e.instruction, Shuffle)
            source = e.instruction.source(number)
            for f, theirs in own:
                yield from self._away(array, e, f, cells, theirs, source, number)

    def _overwritten(self, array: Array, shuffles: Sequence[tuple[Execution, Map]]) -> Iterator[Mismatch]:
        """Elements that are read although inactive lanes may have overwritten them."""
        for s in dict.fromkeys(e.node.statement for e, _ in shuffles
                               if isinstance(e.node, Assign) and isinstance(e.instruction, Shuffle)
                               and e.instruction.spare):
            bound = self.launch.statements[s]
            write = accesses_of(self.kernel, bound.statement)[-1]
            lanes = [x for x in bound.hardware if x in self.launch.ranges]
            threads = write.domain.onto([x for x in write.domain.inames if x not in lanes]).onto(write.domain.inames)
            for x in lanes:
                low, high = self.launch.ranges[x]
                threads = threads.where((">=", add(p.Variable(x), -low)), ("<", add(p.Variable(x), -high - 1)))
            for reader, pairs in reads_of(self.kernel, replace(write, domain=threads.subtract(write.domain))):
                parameters, at, _ = smallest_pair(pairs, write.domain.inames,
                                                  self.kernel.statement_by_id[reader].inames)
                yield Mismatch("lane", self.launch.name, s, f"'{reader}' reads an element of '{array.name}' that a "
                               f"lane spoils which has no part in '{s}'", parameters, at)

    def _away(self, array: Array, e: Execution, f: Execution, cells: Map, theirs: Map, meant: Expression,
              number: Expression) -> Iterator[Mismatch]:
        """Elements of *e* that are not held by the thread *meant* of the same warp, but by the thread of *f*."""
        pairs = cells.apply_range(theirs.reverse())
        warps = floor_div(number, self.launch.machine.warp)
        pairs = pairs.subtract(equal_coordinates(e.coordinates, [meant, warps], f.coordinates, [number, warps]))
        if not pairs.is_empty():
            assert isinstance(e.node, Assign)
            parameters, at, _ = smallest_pair(pairs, e.coordinates, f.coordinates)
            yield Mismatch("lane", self.launch.name, e.node.statement,
                           f"'{e.node.statement}' looks for an element of '{array.name}' in a lane that holds another",
                           parameters, at)
