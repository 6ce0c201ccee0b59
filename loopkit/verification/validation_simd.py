"""SIMD loops: no iteration accesses an element that another one writes, except in an accumulation."""
from __future__ import annotations

from collections.abc import Iterator

from pymbolic.typing import Expression

from loopkit.expr.mappers import array_of, elements_of, subexpressions, subscripts_of, substitute
from loopkit.instructions.simd_loop import assignment_in, is_accumulation
from loopkit.poly.relations import differing, in_one_iteration, same_element
from loopkit.poly.sets import Map
from loopkit.verification.report import Mismatch
from loopkit.verification.validation_walk import Execution, NodeCheck


class SimdCheck(NodeCheck):
    """The check of a SIMD loop: different iterations access different elements, or update one by one operation."""

    def findings(self) -> Iterator[Mismatch]:
        loop = self.execution.loop
        assign = assignment_in(loop)
        if is_accumulation(loop) and assign.target not in subexpressions(assign.value):
            return
        for e in self.executions.get(assign.statement, ()):
            if e.node is not assign:
                continue
            *around, last = ((k, k) for k in range(len(e.coordinates)))
            written = self._cells(e, assign.target)
            elements = dict.fromkeys(x for part in (assign.value, assign.target)
                                     for x in elements_of(part, (array_of(assign.target),)))
            for element in elements or (assign.target,):
                both = same_element(written, self._cells(e, element))
                pairs = differing(in_one_iteration(both, around), [last])
                if pairs is not None:
                    yield from self.mismatch(
                        "simd", assign.statement, f"two iterations of the SIMD loop over '{loop.iname}' access one "
                        f"element of '{array_of(assign.target)}'", pairs.domain(), e.coordinates)

    @staticmethod
    def _cells(e: Execution, element: Expression) -> Map:
        return e.relation(substitute(i, e.names) for i in subscripts_of(element))
