"""Nest instructions: lanes pass to each other the elements that the iterations of a nest of loops access."""
from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign, Block, For
from loopkit.expr.mappers import substitute
from loopkit.instructions.nests import Issue, MovedBox, NoMatchError, Passed, nest_in
from loopkit.instructions.vector_access import copied_element
from loopkit.lowering.nest_data import nest_of
from loopkit.poly.affine import add, floor_div, multiply, remainder
from loopkit.poly.piecewise import equal_coordinates
from loopkit.poly.relations import only_dims
from loopkit.poly.sets import Map
from loopkit.verification.report import Mismatch
from loopkit.verification.validation_walk import Execution, NodeCheck


class NestCheck(NodeCheck):
    """The check of a region whose nest of loops an instruction executes.

    The instruction takes each element from a register of a lane, by its fragment layouts. It must be the element that
    the iteration itself accesses.
    """

    def findings(self) -> Iterator[Mismatch]:
        region = self.execution.region
        loops, assign = nest_in(region)
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
        inside = reduce(Execution.inside, loops, self.execution)
        for one in passed:
            yield from self._of(one, statement, inside)
        if moved is not None and assign is not None:
            yield from self._of_box(moved, assign, inside)

    def _of_box(self, moved: MovedBox, assign: Assign, inside: Execution) -> Iterator[Mismatch]:
        """Iterations that copy other elements than the box, or to other places."""
        e, copied = self.execution, copied_element(assign.value)
        box = reduce(Execution.inside, (For(x, 0, extent, 1, Block()) for x, extent in moved.extents.items()), e)

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

    def _of(self, passed: Passed, statement: str, inside: Execution) -> Iterator[Mismatch]:
        """Iterations at which the element of the statement is not that of the lane and the register for it."""
        e, warp, number = self.execution, self.launch.machine.warp, self.thread_number
        lane = remainder(number, warp)

        def here(expr: Expression) -> Expression:
            return substitute(expr, {"lane": lane})
        left = inside.relation(substitute(i, inside.names) for i in passed.own.index_tuple)
        # one moment: the same block and iteration of the loops around, and all coordinates but those of threads
        same = [p.Variable(c) for c in e.coordinates if c not in self.grid.along("l")]
        source = add(multiply(warp, floor_div(number, warp)), here(passed.lane))
        sources = equal_coordinates(inside.coordinates, [*same, source], e.coordinates, [*same, number])
        for register, element in enumerate(passed.elements):
            own = inside.where(p.Comparison(here(passed.register), "==", register))
            given = e.relation(substitute(i, e.names) for i in element.index_tuple)
            wrong = left.intersect_domain(own).subtract(sources.apply_range(given))
            if element.aggregate != passed.own.aggregate:
                wrong = left.intersect_domain(own)
            yield from self.mismatch(
                "instruction", statement, f"an iteration accesses {passed.own}, but the instruction takes {element} in "
                f"register {register} of a lane", wrong.domain(), inside.coordinates)
            left = left.subtract(left.intersect_domain(own))
        yield from self.mismatch("instruction", statement, f"an iteration accesses {passed.own}, for which the "
                                 "instruction has no register", left.domain(), inside.coordinates)
