"""Copies of vectors: each moves the elements of which its statement has a copy, and zeros for the others."""
from __future__ import annotations

from collections.abc import Iterator, Sequence

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign, completion_of
from loopkit.expr.mappers import substitute
from loopkit.instructions.base import sizes_of
from loopkit.instructions.vector_access import Vector, copied_by, copied_element, vectors_of
from loopkit.poly.affine import remainder, subtract
from loopkit.poly.piecewise import piecewise_relation, points_where, projected
from loopkit.poly.sets import Map, Set
from loopkit.verification.report import Mismatch
from loopkit.verification.validation_walk import NodeCheck


class CopyCheck(NodeCheck):
    """The check of copies of vectors in a loop with vector accesses."""

    def found(self, statement: str, text: str, points: Set | None = None) -> Iterator[Mismatch]:
        yield from self.mismatch("vector", statement, text, points, self.execution.coordinates)

    @property
    def dims(self) -> tuple[str, ...]:
        return (*self.execution.coordinates, self.execution.loop.iname)

    def accessed(self, index: Sequence[Expression]) -> Map:
        """From the iterations of the loop to the element with the subscripts *index*, in terms of the coordinates."""
        e, loop, x = self.execution, self.execution.loop, p.Variable(self.execution.loop.iname)
        run = p.LogicalAnd((p.Comparison(loop.start, "<=", x), p.Comparison(x, "<", loop.stop)))
        return piecewise_relation(self.dims, index).intersect_domain(
            projected(e.condition, (), self.dims).intersect(points_where(run, self.dims)))

    def is_copied(self, vector: Vector, assign: Assign) -> bool:
        """Do copies move this vector that fill with zeros?"""
        copied = copied_element(assign.value)
        return completion_of(assign.instructions).needs_wait and copied is not None and copied[0] == vector.element

    def copied(self, assign: Assign, condition: Expression | None) -> Iterator[Mismatch]:
        """Copies of vectors move each element of which *assign* has a copy, and zeros for the others."""
        loop, s, own = self.execution.loop, assign.statement, copied_by(self.execution.loop)
        if not completion_of(assign.instructions).needs_wait:
            if own is not None:
                yield from self.found(s, f"'{s}' fills vectors with zeros, but has no copies of vectors")
            return
        copied, vectors = copied_element(assign.value), vectors_of(loop)
        sizes = {v.length*self.storages[v.array].dtype.itemsize for v in vectors if v.array in self.storages}
        if copied is None or condition is not None or [v.element for v in vectors] != [copied[0], assign.target] \
                or len({v.length for v in vectors}) > 1 or not sizes <= sizes_of(assign.instructions):
            yield from self.found(s, f"the vectors of '{loop.iname}' are not the source and the target of copies")
            return
        x, length, names = p.Variable(loop.iname), vectors[0].length, self.execution.names
        before = remainder(subtract(x, loop.start), length)
        first = {**names, loop.iname: subtract(x, before)}
        count = length if own is None else substitute(own, first)
        exists = True if copied[1] is None else substitute(copied[1], names)
        moved = p.Comparison(before, "<", count)
        run = self.accessed(()).domain()
        for text, wrong in (("does not copy an element", (exists, p.LogicalNot(moved))),
                            ("copies an element that it must replace by 0", (p.LogicalNot(exists), moved)),
                            ("copies more elements than a vector has", (p.Comparison(count, ">", length),)),
                            ("copies less than no element", (p.Comparison(count, "<", 0),))):
            points = run.intersect(points_where(p.LogicalAnd(wrong), self.dims))
            yield from self.found(s, f"a vector of '{s}' {text}", projected(points, self.dims,
                                                                            self.execution.coordinates))
