"""Do the vector accesses around a loop move what its iterations touch, and could they be made before and behind it?"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.shapes import array_shapes
from loopkit.ast.nodes import AlignedArray, Assign, DivisibleSize, For, Function, Vector
from loopkit.ast.simplify import assigned
from loopkit.ast.vectors import WIDEST, assignment_of, certain_elements
from loopkit.expr.mappers import subexpressions, substitute, variables
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.lowering.storage import Storage
from loopkit.poly.affine import affine_difference, remainder
from loopkit.poly.piecewise import params_condition, points_where
from loopkit.poly.sets import InstanceSet, Set, lexmin_point
from loopkit.verify.validation_findings import Finding
from loopkit.verify.validation_walk import Execution


@dataclass(frozen=True, eq=False)
class VectorCheck:
    """The checks of one loop; *execution* says where it runs."""

    kernel: LoopKernel
    launch: str
    storages: Mapping[str, Storage]
    function: Function
    execution: Execution

    @cached_property
    def _loop(self) -> For:
        assert isinstance(self.execution.node, For)
        return self.execution.node

    def findings(self) -> Iterator[Finding]:
        loop = self._loop
        assign, condition = assignment_of(loop)
        if assign is None or not isinstance(loop.start, int) or not isinstance(loop.stop, int) or loop.step != 1:
            yield self._finding("", f"the loop over '{loop.iname}' has vectors and is more than one statement of a "
                                "constant number of iterations")
            return
        for vector in loop.vectors:
            yield from self._moved(vector, assign)
            yield from self._placed(vector, assign.statement)
            if condition is not None:
                yield from self._whole(vector, assign)
        if condition is not None and any(isinstance(e, p.Subscript) for e in subexpressions(condition)):
            yield self._finding(assign.statement, f"what is read decides which lanes of '{loop.iname}' are in")
        yield from self._in_time(assign)

    def _finding(self, statement: str, text: str, points: Set | None = None) -> Finding:
        found = None if points is None else lexmin_point(points, self.execution.coordinates)
        parameters, place = found if found is not None else ({}, {})
        return Finding("vector", self.launch, statement, text, parameters, place)

    # {{{ which elements are moved

    def _moved(self, vector: Vector, assign: Assign) -> Iterator[Finding]:
        s, element = assign.statement, vector.element
        reads = (assign.value, *(assign.target.index_tuple if isinstance(assign.target, p.Subscript) else ()))
        certain = any(e == element for r in reads for e in certain_elements(r))
        updated = assign.target == element and assign.combine is not None
        if vector.stored != (assign.target == element):
            yield self._finding(s, f"'{vector.name}' is {'' if vector.stored else 'not '}stored to {element}, which "
                                f"'{s}' does {'not ' if vector.stored else ''}write")
        if vector.loaded and not (certain or vector.stored):
            yield self._finding(s, f"'{vector.name}' is loaded from {element}, which '{s}' may not read")
        if not vector.loaded and (updated or any(e == element for r in reads for e in subexpressions(r))):
            yield self._finding(s, f"'{s}' reads {element}, which is not loaded into '{vector.name}'")
        x = self._loop.iname
        following = vector.at(x, p.Sum((p.Variable(x), 1)))
        steps = [0 if a == b else affine_difference(a, b)
                 for a, b in zip(following.index_tuple, element.index_tuple, strict=True)]
        if steps != [*[0]*(len(steps) - 1), 1] or any(x in variables(i) for i in element.index_tuple[:-1]):
            yield self._finding(s, f"{element} does not move on by one element with '{x}'")

    # }}}

    # {{{ where they are

    def _placed(self, vector: Vector, s: str) -> Iterator[Finding]:
        loop, length, name = self._loop, vector.length, vector.array
        assert isinstance(loop.start, int)
        assert isinstance(loop.stop, int)
        row: Expression = 0
        argument = self.kernel.array_args.get(name)
        storage = self.storages.get(name)
        if argument is not None:
            assert argument.dtype is not None
            dtype = np.dtype(argument.dtype)
            if not any(isinstance(a, AlignedArray) and a.array == name and a.elements % length == 0
                       for a in vector.assumed):
                yield self._finding(s, f"nothing says that '{name}' begins at a multiple of {length} elements")
        elif storage is not None and storage.space is not AddressSpace.PRIVATE:
            dtype = storage.dtype
            row = storage.in_memory[-1] if len(storage.shape) > 1 else 0
            if storage.swizzle is not None and storage.swizzle.chunk % length:
                yield self._finding(s, f"'{name}' is swizzled: {length} elements do not lie side by side")
        else:
            yield self._finding(s, f"'{name}' is no array in memory")
            return
        if length < 2 or (loop.stop - loop.start) % length or length * dtype.itemsize > WIDEST:
            yield self._finding(s, f"{loop.stop - loop.start} elements of '{name}' are no accesses of {length}")
            return
        for what, offset in ((f"the first element, {vector.at(loop.iname, loop.start)},",
                              vector.at(loop.iname, loop.start).index_tuple[-1]), (f"a row of '{name}'", row)):
            odd = self._not_divisible(vector, offset)
            if odd is not None:
                yield self._finding(s, f"{what} may begin at no multiple of {length} elements", odd)

    def _not_divisible(self, vector: Vector, offset: Expression) -> Set | None:
        """Where *offset* is no multiple of the vector's length, although all that is assumed holds."""
        e = self.execution
        value = substitute(offset, e.names)
        odd = p.Comparison(remainder(value, vector.length), "!=", 0)
        points = self._given(vector, e.points.intersect(points_where(odd, e.coordinates)))
        return None if points.is_empty() else points

    def _given(self, vector: Vector, points: Set) -> Set:
        """Those of *points* at which what *vector* assumes of sizes holds."""
        for a in vector.assumed:
            if isinstance(a, DivisibleSize):
                holds = p.Comparison(remainder(a.size, a.divisor), "==", 0)
                points = points.intersect(points_where(holds, self.execution.coordinates))
        return points

    def _whole(self, vector: Vector, assign: Assign) -> Iterator[Finding]:
        """Where lanes are cut off: is all that is loaded there, and left alone by other threads?"""
        s, name = assign.statement, vector.array
        if not vector.loaded:
            return
        if name not in self.kernel.array_args or name in self._written:
            yield self._finding(s, f"'{vector.name}' is loaded whole from '{name}', which is no input of this launch")
            return
        extent = array_shapes(self.kernel)[name][-1]
        e, loop = self.execution, self._loop
        assert isinstance(loop.stop, int)
        for at, op, bound in ((loop.start, "<", 0), (loop.stop - 1, ">=", extent)):
            element = vector.at(loop.iname, at)
            value = substitute(element.index_tuple[-1], e.names)
            beyond = None if bound is None else points_where(p.Comparison(value, op, bound), e.coordinates)
            points = e.points if beyond is None else self._given(vector, e.points.intersect(beyond))
            if not points.is_empty():
                yield self._finding(s, f"{element}, which '{vector.name}' is loaded from, may lie outside", points)

    @cached_property
    def _written(self) -> frozenset[str]:
        return frozenset(name for name in assigned(self.function.body))

    # }}}

    # {{{ when they are moved

    def _in_time(self, assign: Assign) -> Iterator[Finding]:
        """No iteration reads what an earlier one writes, if one of the two is moved outside of the loop."""
        target, loop = assign.target, self._loop
        if not isinstance(target, p.Subscript):
            return
        moved = {v.element for v in loop.vectors}
        reads = {e: None for expr in (assign.value, *target.index_tuple) for e in subexpressions(expr)
                 if isinstance(e, p.Subscript) and e.aggregate == target.aggregate}
        for read in reads:
            if read == target or not ({read, target} & moved):
                continue
            points = self._meeting(target, read)
            if not points.is_empty():
                yield self._finding(assign.statement, f"an iteration of '{loop.iname}' reads {read}, which an earlier "
                                    f"one writes as {target}", InstanceSet((), points).onto(
                                        self.execution.coordinates).set)

    def _meeting(self, target: p.Subscript, read: p.Subscript) -> Set:
        """The points of the loop at which a later iteration reads what an earlier one writes."""
        x, e = self._loop.iname, self.execution
        earlier, later = (p.Variable(f"{x}'{which}") for which in ("earlier", "later"))
        assert isinstance(self._loop.start, int)
        assert isinstance(self._loop.stop, int)
        conditions = [p.Comparison(self._loop.start, "<=", earlier), p.Comparison(earlier, "<", later),
                      p.Comparison(later, "<", self._loop.stop)]
        conditions += [p.Comparison(substitute(substitute(a, e.names), {x: earlier}), "==",
                                    substitute(substitute(b, e.names), {x: later}))
                       for a, b in zip(target.index_tuple, read.index_tuple, strict=True)]
        points = e.condition
        for condition in conditions:
            points = points.intersect(params_condition(points_where(condition, ())))
        return points

    # }}}
