"""Vector accesses: they move the elements of their loop's iterations, and may run before and behind the loop."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.shapes import Shape, array_shapes
from loopkit.ast.nodes import AlignedArray, Assign, DivisibleSize, For
from loopkit.ast.simplify import assigned
from loopkit.expr.mappers import subexpressions, substitute, variables
from loopkit.instructions.vector_access import WIDEST, Vector, VectorAccess, assignment_of, certain_elements, vectors_of
from loopkit.kernel.data import AddressSpace
from loopkit.poly.affine import add, affine_difference, multiply, remainder, subtract
from loopkit.poly.piecewise import known_remainder, params_where, points_where, projected
from loopkit.poly.sets import Set
from loopkit.verification.report import Mismatch
from loopkit.verification.validation_walk import Execution, LaunchCheck


@dataclass(frozen=True, eq=False)
class VectorCheck(LaunchCheck):
    """The check of one loop; *execution* is its place."""

    execution: Execution

    @cached_property
    def _loop(self) -> For:
        assert isinstance(self.execution.node, For)
        return self.execution.node

    @cached_property
    def _iterations(self) -> range:
        assert isinstance(self._loop.start, int)
        assert isinstance(self._loop.stop, int)
        return range(self._loop.start, self._loop.stop)

    def findings(self) -> Iterator[Mismatch]:
        loop = self._loop
        assign, condition = assignment_of(loop)
        if assign is None or not isinstance(loop.start, int) or not isinstance(loop.stop, int) or loop.step != 1:
            yield from self._found("", f"the loop over '{loop.iname}' has vectors and is more than one statement of a "
                                   "constant number of iterations")
            return
        for vector in vectors_of(loop):
            yield from self._moved(vector, assign)
            yield from self._placed(vector, assign.statement)
            if condition is not None or vector.serves is not None:
                yield from self._whole(vector, assign)
        if condition is not None and any(isinstance(e, p.Subscript) for e in subexpressions(condition)):
            yield from self._found(assign.statement, f"data decide which iterations of '{loop.iname}' run")
        if isinstance(loop.instruction, VectorAccess) and loop.instruction.computes_all:
            yield from self._computed(assign)
        yield from self._in_time(assign)

    def _found(self, statement: str, text: str, points: Set | None = None) -> Iterator[Mismatch]:
        yield from self.mismatch("vector", statement, text, points, self.execution.coordinates)

    # {{{ moved elements

    def _moved(self, vector: Vector, assign: Assign) -> Iterator[Mismatch]:
        s, element = assign.statement, vector.element
        reads = (assign.value, *(assign.target.index_tuple if isinstance(assign.target, p.Subscript) else ()))
        must_read = any(e in (element, vector.serves) for r in reads for e in certain_elements(r))
        updated = assign.target == element and assign.combine is not None
        if vector.stored != (assign.target == element):
            yield from self._found(s, f"'{vector.name}' is {'' if vector.stored else 'not '}stored to {element}, which "
                                   f"'{s}' does {'not ' if vector.stored else ''}write")
        if vector.loaded and not (must_read or vector.stored):
            yield from self._found(s, f"'{vector.name}' is loaded from {element}, which '{s}' may not read")
        if not vector.loaded and (updated or any(e == element for r in reads for e in subexpressions(r))):
            yield from self._found(s, f"'{s}' reads {element}, which is not loaded into '{vector.name}'")
        x = self._loop.iname
        following = vector.at(x, p.Sum((p.Variable(x), 1)))
        steps = [0 if a == b else affine_difference(a, b)
                 for a, b in zip(following.index_tuple, element.index_tuple, strict=True)]
        if vector.serves is not None and not self._holds(vector, vector.serves):
            yield from self._found(s, f"'{vector.name}' has nothing of {vector.serves}")
        if steps != [*[0]*(len(steps) - 1), 1] or any(x in variables(i) for i in element.index_tuple[:-1]):
            yield from self._found(s, f"{element} does not move on by one element with '{x}'")
        for i in assign.instructions:
            if i.claims(element, assign.target):
                yield from self._found(s, f"{element} is moved without {i.noun}")

    def _holds(self, vector: Vector, element: p.Subscript) -> bool:
        """Is *element* in *vector*, at an earlier or later iteration?"""
        *rows, last = vector.element.index_tuple
        by = affine_difference(element.index_tuple[-1], last)
        return element.aggregate == vector.element.aggregate and element.index_tuple[:-1] == tuple(rows) \
            and by is not None and abs(by) < len(self._iterations)

    # }}}

    # {{{ alignment

    def _placed(self, vector: Vector, s: str) -> Iterator[Mismatch]:
        length, name = vector.length, vector.array
        argument = self.kernel.array_args.get(name)
        storage = self.storages.get(name)
        if argument is not None:
            assert argument.dtype is not None
            dtype = np.dtype(argument.dtype)
            shape = array_shapes(self.kernel)[name]
            given = next((a for a in vector.assumed if isinstance(a, AlignedArray) and a.array == name
                          and a.elements % length == 0), None)
            if given is None:
                yield from self._found(s, f"nothing says that '{name}' begins at a multiple of {length} elements")
            elif not given.strides:
                shape = (0,)*len(shape)                     # so do rows, whatever their length
            elif not _follow_each_other(given.strides, shape):
                yield from self._found(s, f"'{name}' is assumed to have strides that are not its own")
        elif storage is not None and storage.space is not AddressSpace.PRIVATE:
            dtype = storage.dtype
            shape = storage.in_memory
            if storage.swizzle is not None and storage.swizzle.chunk % length:
                yield from self._found(s, f"'{name}' is swizzled: {length} elements do not lie side by side")
        else:
            yield from self._found(s, f"'{name}' is no array in memory")
            return
        if length < 2 or len(self._iterations) % length or length * dtype.itemsize > WIDEST:
            yield from self._found(s, f"{len(self._iterations)} elements of '{name}' are no accesses of {length}")
            return
        first = vector.at(self._loop.iname, self._iterations.start)
        number: Expression = 0
        for k, (extent, index) in enumerate(zip(shape, first.index_tuple, strict=True)):
            # the alignment of a row is the extent's remainder
            rest = 0 if k == 0 else known_remainder(extent, length, self._sizes(vector))
            if rest is None:
                yield from self._found(s, f"rows of '{name}' may begin at no multiple of {length} elements")
                return
            number = add(multiply(rest, number), index)
        e = self.execution
        odd = e.where(p.Comparison(remainder(substitute(number, e.names), length), "!=", 0))
        yield from self._found(s, f"{first} may begin at no multiple of {length} elements",
                               odd.intersect_params(self._sizes(vector)))

    def _sizes(self, vector: Vector) -> Set:
        """The known conditions on sizes at the place of *vector*."""
        divisible = (params_where(p.Comparison(remainder(a.size, a.divisor), "==", 0)) for a in vector.assumed
                     if isinstance(a, DivisibleSize))
        return reduce(Set.intersect, divisible, self.kernel.assumptions)

    def _whole(self, vector: Vector, assign: Assign) -> Iterator[Mismatch]:
        """For partial vectors: do all loaded elements exist, and does no other thread write them?"""
        s, name = assign.statement, vector.array
        if not vector.loaded:
            return
        if name not in self.kernel.array_args or name in self._written:
            yield from self._found(s, f"'{vector.name}' is loaded whole from '{name}', which is no input of this "
                                   "launch")
            return
        e = self.execution
        for element, beyond in self._ends(vector):
            points = beyond.intersect_params(self._sizes(vector))
            if vector.inside is not None:
                points = points.intersect(points_where(substitute(vector.inside, e.names), e.coordinates))
            yield from self._found(s, f"{element}, which '{vector.name}' is loaded from, may lie outside", points)

    def _computed(self, assign: Assign) -> Iterator[Mismatch]:
        """For iterations that are computed although the domain omits them: do all elements that they read exist?"""
        s, e = assign.statement, self.execution
        if not any(v.stored and not v.loaded for v in vectors_of(self._loop)):
            yield from self._found(s, f"'{s}' stores what it need not compute")
        for element in dict.fromkeys(x for x in subexpressions(assign.value) if isinstance(x, p.Subscript)):
            assert isinstance(element.aggregate, p.Variable)
            name = element.aggregate.name
            gapless = next((v.assumed for v in vectors_of(self._loop) if v.array == name), ())
            if name not in self.kernel.array_args or name in self._written or not gapless:
                yield from self._found(s, f"{element}, which '{s}' need not read, is no element of an input with "
                                       "vectors")
                continue
            moved = Vector(name, element, 1, loaded=True, stored=False, assumed=gapless)
            for end, beyond in self._ends(moved):
                yield from self._found(s, f"{end}, which '{s}' need not read, may lie outside", beyond)
            stray = f"{element}, which '{s}' need not read, may lie outside"
            for index, extent in zip(element.index_tuple[:-1], array_shapes(self.kernel)[name], strict=False):
                if extent is None:
                    yield from self._found(s, stray)
                    continue
                value = substitute(index, e.names)
                for outside in (p.Comparison(value, "<", 0), p.Comparison(value, ">=", extent)):
                    yield from self._found(s, stray, e.where(outside))

    def _ends(self, vector: Vector) -> Iterator[tuple[p.Subscript, Set]]:
        """The first and the last element of *vector*, each with the points at which it may be outside the array.

        In an array without gaps, elements of the neighbouring rows count as inside.
        """
        e = self.execution
        *above, extent = array_shapes(self.kernel)[vector.array]
        rows = any(isinstance(a, AlignedArray) and a.strides for a in vector.assumed)
        for at, last in ((self._iterations.start, False), (self._iterations.stop - 1, True)):
            element = vector.at(self._loop.iname, at)
            if extent is None:
                yield element, e.points
                continue
            *around, value = (substitute(i, e.names) for i in element.index_tuple)
            points = e.where(p.Comparison(value, ">=", extent) if last else p.Comparison(value, "<", 0))
            if rows:
                other = p.Comparison(value, ">=", multiply(2, extent)) if last else \
                    p.Comparison(add(value, extent), "<", 0)
                ends = [p.Comparison(i, ">=", subtract(n, 1)) if last else p.Comparison(i, "<=", 0)
                        for i, n in zip(around, above, strict=True) if n is not None]
                points = reduce(Set.intersect, map(e.where, ends), points).union(e.where(other))
            yield element, points

    @cached_property
    def _written(self) -> frozenset[str]:
        return frozenset(assigned(self.function.body))

    # }}}

    # {{{ time of the moves

    def _in_time(self, assign: Assign) -> Iterator[Mismatch]:
        """No iteration reads an element that an earlier one writes, if one of the two accesses is outside the loop."""
        target, loop = assign.target, self._loop
        if not isinstance(target, p.Subscript):
            return
        moved = {v.element for v in vectors_of(loop)}
        reads = {e: None for expr in (assign.value, *target.index_tuple) for e in subexpressions(expr)
                 if isinstance(e, p.Subscript) and e.aggregate == target.aggregate}
        for read in reads:
            if read == target or not ({read, target} & moved):
                continue
            text = f"an iteration of '{loop.iname}' reads {read}, which an earlier one writes as {target}"
            points = projected(self._meeting(target, read), (), self.execution.coordinates)
            yield from self._found(assign.statement, text, points)

    def _meeting(self, target: p.Subscript, read: p.Subscript) -> Set:
        """The points of the loop at which a later iteration reads an element that an earlier one writes."""
        x, e = self._loop.iname, self.execution
        earlier, later = (p.Variable(f"{x}'{which}") for which in ("earlier", "later"))
        conditions = [p.Comparison(self._iterations.start, "<=", earlier), p.Comparison(earlier, "<", later),
                      p.Comparison(later, "<", self._iterations.stop)]
        conditions += [p.Comparison(substitute(substitute(a, e.names), {x: earlier}), "==",
                                    substitute(substitute(b, e.names), {x: later}))
                       for a, b in zip(target.index_tuple, read.index_tuple, strict=True)]
        return reduce(Set.intersect, map(params_where, conditions), e.condition)

    # }}}


def _follow_each_other(strides: Sequence[Expression], shape: Shape) -> bool:
    """Are *strides* those of all axes but the last of an array of *shape* in C order?"""
    own: list[Expression] = [1]
    for extent in reversed(shape[1:]):
        if extent is None:
            return False
        own.insert(0, multiply(extent, own[0]))
    return len(strides) == len(own) - 1 and all(add(a) == add(b) for a, b in zip(strides, own, strict=False))
