"""Nest instructions: lanes pass to each other the elements that the iterations of a nest of loops access."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.shapes import array_shapes
from loopkit.ast.nodes import Assign, Block, For
from loopkit.expr.mappers import substitute
from loopkit.instructions.nests import LANE, Issue, MovedBox, NoMatchError, Passed, nest_in
from loopkit.instructions.vector_access import copied_element
from loopkit.lowering.lowered import BLOCK
from loopkit.lowering.nest_data import nest_of
from loopkit.poly.affine import add, floor_div, multiply, remainder
from loopkit.poly.limits import kept_results
from loopkit.poly.piecewise import params_where
from loopkit.poly.relations import only_dims
from loopkit.poly.sets import Map, Set
from loopkit.verification.report import Mismatch
from loopkit.verification.validation_walk import Execution, NodeCheck


class NestCheck(NodeCheck):
    """The check of a region whose nest of loops an instruction executes.

    The instruction takes each element from a register of a lane, by its fragment layouts. It must be the element that
    the iteration itself accesses.
    """

    def findings(self) -> Iterator[Mismatch]:
        region = self.execution.region
        loops, condition, assign = nest_in(region)
        issue, statement = region.instruction, "" if assign is None else assign.statement
        assert isinstance(issue, Issue)
        try:
            nest = nest_of(self.launch, self.storages, region, {})
            passed, moved = issue.passed(nest), issue.moved(nest)
        except NoMatchError as reason:
            yield from self.mismatch("instruction", statement,
                                     f"{issue.instruction.name} cannot execute '{statement}': {reason}")
            return
        if any(node is region for node in self.divergent):
            text = f"'{statement}' is executed by {issue.instruction.name}, and some lanes of a warp may not execute it"
            yield from self.mismatch("divergent", statement, text)
            return
        if self.grid.on_axis.get(BLOCK[0], BLOCK[:1]) != BLOCK[:1]:
            yield from self.mismatch("undecided", statement, "lanes of a warp have coordinates that depend on sizes")
            return
        inside = reduce(Execution.inside, loops, self.execution)
        lane, length = p.Variable(BLOCK[0]), self.function.extents.get(BLOCK[0], 1)
        ranges = [(0, lane, length), *((loop.start, p.Variable(loop.iname), loop.stop) for loop in loops)]
        bounds = [c for start, x, stop in ranges for c in (p.Comparison(start, "<=", x), p.Comparison(x, "<", stop))]
        for one in passed:
            yield from self._of(one, statement, inside, bounds, length)
        if moved is not None and assign is not None:
            yield from self._of_box(moved, assign, inside if condition is None else inside.under(
                substitute(condition, inside.names)))

    def _of_box(self, moved: MovedBox, assign: Assign, inside: Execution) -> Iterator[Mismatch]:
        """Iterations that copy other elements than the box, or to other places."""
        e, copied = self.execution, copied_element(assign.value)
        box = reduce(Execution.inside, (For(x, 0, extent, 1, Block()) for x, extent in moved.extents.items()), e)

        if moved.within:
            shape = array_shapes(self.kernel)[moved.within]
            box = reduce(Execution.under, (substitute(c, box.names) for i, extent in zip(
                moved.target.index_tuple, shape, strict=True) if extent is not None
                for c in (p.Comparison(i, ">=", 0), p.Comparison(i, "<", extent))), box)

        def pairs(place: Execution, target: Expression, source: Expression | None) -> Map:
            """From the executions of the region to the subscripts of each pair of elements."""
            ends = [i for x in (target, source) if isinstance(x, p.Subscript) for i in x.index_tuple]
            found = place.relation(substitute(i, place.names) for i in ends)
            return only_dims(found, [*range(len(e.coordinates))], [*range(len(ends))])
        own = pairs(inside, assign.target, None if copied is None else copied[0])
        given = pairs(box, moved.target, moved.source)
        text = f"'{assign.statement}' copies other elements than its instruction, or to other places"
        for wrong in (own.subtract(given), given.subtract(own)):
            yield from self.mismatch("instruction", assign.statement, text, wrong.domain(), e.coordinates)

    def _of(self, passed: Passed, statement: str, inside: Execution, bounds: Sequence[Expression], length: Expression
            ) -> Iterator[Mismatch]:
        """Iterations at which the element of the statement is not that of the lane and the register for it.

        :arg bounds: those of the thread and of the loops: a superset of the iterations.
        :arg length: the number of threads along the warps.
        """
        instruction = self.execution.region.instruction
        assert instruction is not None
        e, warp, thread = self.execution, self.launch.machine.threads_of(instruction.scope), p.Variable(BLOCK[0])
        lane, register = (substitute(i, {LANE.name: remainder(thread, warp)}) for i in (passed.lane, passed.register))
        # the same block and iteration of the loops around: only the coordinate along the warp differs
        source = add(multiply(warp, floor_div(thread, warp)), lane)

        def found(text: str, *conditions: Expression) -> Iterator[Mismatch]:
            if not _hold_nowhere((*bounds, *conditions)):
                points = reduce(Set.intersect, map(inside.where, conditions))
                yield from self.mismatch("instruction", statement, f"an iteration accesses {passed.own}, {text}",
                                         points, inside.coordinates)
        for number, element in enumerate(passed.elements):
            own, given = ([substitute(i, x.names) for i in y.index_tuple]
                          for x, y in ((inside, passed.own), (e, element)))
            differ: list[Expression] = [p.Comparison(a, "!=", b) for a, b in
                      zip(own, (substitute(i, {thread.name: source}) for i in given), strict=True) if a != b]
            if element.aggregate != passed.own.aggregate:
                differ = [True]
            for one in differ:
                yield from found(f"but the instruction takes {element} in register {number} of a lane",
                                 p.Comparison(register, "==", number), one)
        yield from found("for which the instruction has no register", p.LogicalOr((
            p.Comparison(register, "<", 0), p.Comparison(register, ">=", len(passed.elements)))))
        yield from found("which no lane provides", p.LogicalOr((
            p.Comparison(lane, "<", 0), p.Comparison(lane, ">=", warp), p.Comparison(source, ">=", length))))


@kept_results
def _hold_nowhere(conditions: tuple[Expression, ...]) -> bool:
    """Are there no values of names for which all *conditions* hold?"""
    return bool(reduce(Set.intersect, map(params_where, conditions)).is_empty())
