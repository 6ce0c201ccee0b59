"""Vector accesses: they access their loop's elements, and legally load before it and store after it."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.shapes import Shape, array_shapes
from loopkit.ast.nodes import AlignedArray, Assign, DivisibleSize
from loopkit.ast.simplify import assigned
from loopkit.expr.mappers import subexpressions, substitute, variables
from loopkit.instructions.vector_access import (
    WIDEST,
    Vector,
    VectorAccess,
    assignment_of,
    certain_elements,
    iterations,
    vectors_of,
)
from loopkit.kernel.data import AddressSpace
from loopkit.poly.affine import add, affine_difference, multiply, remainder, subtract
from loopkit.poly.piecewise import known_remainder, params_where, piecewise_relation, points_where, projected
from loopkit.poly.relations import differing_first_at, same_element, shared_dims
from loopkit.poly.sets import Map, Set
from loopkit.verification.report import Mismatch
from loopkit.verification.validation_walk import Execution, LaunchCheck


@dataclass(frozen=True, eq=False)
class VectorCheck(LaunchCheck):
    """The check of one loop; *execution* is its place."""

    execution: Execution

    @cached_property
    def _iterations(self) -> range:
        return iterations(self.execution.loop)

    def findings(self) -> Iterator[Mismatch]:
        loop = self.execution.loop
        assign, condition = assignment_of(loop)
        if assign is None or not isinstance(loop.start, int) or not isinstance(loop.stop, int) or loop.step != 1:
            yield from self._found("", f"the loop over '{loop.iname}' has vectors and is more than one statement of a "
                                   "constant number of iterations")
            return
        for vector in vectors_of(loop):
            yield from self._moved(vector, assign)
            yield from self._placed(vector, assign.statement)
            if vector.loaded and (condition is not None or vector.serves is not None):
                yield from self._whole(vector, assign.statement)
        if condition is not None and any(isinstance(e, p.Subscript) for e in subexpressions(condition)):
            yield from self._found(assign.statement, f"data decide which iterations of '{loop.iname}' run")
        if isinstance(loop.instruction, VectorAccess) and loop.instruction.computes_all:
            yield from self._computed(assign)
        yield from self._in_time(assign)

    def _found(self, statement: str, text: str, points: Set | None = None) -> Iterator[Mismatch]:
        yield from self.mismatch("vector", statement, text, points, self.execution.coordinates)

    def _moved(self, vector: Vector, assign: Assign) -> Iterator[Mismatch]:
        """The vector moves the elements that the statement reads and writes."""
        s, element, x = assign.statement, vector.element, self.execution.loop.iname
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
        *rows, last = element.index_tuple
        if vector.serves is not None:
            *others, other = vector.serves.index_tuple
            by = affine_difference(other, last)
            if (vector.serves.aggregate, others) != (element.aggregate, rows) or by is None \
                    or abs(by) >= len(self._iterations):
                yield from self._found(s, f"'{vector.name}' has nothing of {vector.serves}")
        following = substitute(last, {x: p.Sum((p.Variable(x), 1))})
        if affine_difference(following, last) != 1 or any(x in variables(i) for i in rows):
            yield from self._found(s, f"{element} does not move on by one element with '{x}'")
        for i in assign.instructions:
            if i.claims(element, assign.target):
                yield from self._found(s, f"{element} is moved without {i.noun}")

    # Alignment

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
        first = vector.at(self.execution.loop.iname, self._iterations.start)
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

    def _is_input(self, name: str) -> bool:
        return name in self.kernel.array_args and name not in assigned(self.function.body)

    def _whole(self, vector: Vector, s: str) -> Iterator[Mismatch]:
        """For partial vectors: do all loaded elements exist, and does no other thread write them?"""
        if not self._is_input(vector.array):
            yield from self._found(s, f"'{vector.name}' is loaded whole from '{vector.array}', which is no input of "
                                   "this launch")
            return
        for element, beyond in self._ends(vector):
            yield from self._found(s, f"{element}, which '{vector.name}' is loaded from, may lie outside", beyond)

    def _computed(self, assign: Assign) -> Iterator[Mismatch]:
        """For iterations that are computed although the domain omits them: do all elements that they read exist?"""
        s, e, vectors = assign.statement, self.execution, vectors_of(self.execution.loop)
        if not any(v.stored and not v.loaded for v in vectors):
            yield from self._found(s, f"'{s}' stores what it need not compute")
        for element in dict.fromkeys(x for x in subexpressions(assign.value) if isinstance(x, p.Subscript)):
            assert isinstance(element.aggregate, p.Variable)
            name = element.aggregate.name
            gapless = next((v.assumed for v in vectors if v.array == name), ())
            if not (self._is_input(name) and gapless):
                yield from self._found(s, f"{element}, which '{s}' need not read, is no element of an input with "
                                       "vectors")
                continue
            moved = Vector(name, element, 1, loaded=True, stored=False, assumed=gapless)
            for end, beyond in self._ends(moved):
                yield from self._found(s, f"{end}, which '{s}' need not read, may lie outside", beyond)
            for index, extent in zip(element.index_tuple[:-1], array_shapes(self.kernel)[name], strict=False):
                value = substitute(index, e.names)
                outside = None if extent is None else e.where(
                    p.LogicalOr((p.Comparison(value, "<", 0), p.Comparison(value, ">=", extent))))
                yield from self._found(s, f"{element}, which '{s}' need not read, may lie outside", outside)

    def _ends(self, vector: Vector) -> Iterator[tuple[p.Subscript, Set]]:
        """The first and the last element of *vector*, each with the points at which it may be outside the array.

        In an array without gaps, elements of the neighbouring rows count as inside.
        """
        e = self.execution
        *above, extent = array_shapes(self.kernel)[vector.array]
        rows = any(isinstance(a, AlignedArray) and a.strides for a in vector.assumed)
        loaded = e.points if vector.inside is None else e.where(substitute(vector.inside, e.names))
        for at, last in ((self._iterations.start, False), (self._iterations.stop - 1, True)):
            element, points = vector.at(e.loop.iname, at), e.points
            if extent is not None:
                *around, value = (substitute(i, e.names) for i in element.index_tuple)
                points = e.where(p.Comparison(value, ">=", extent) if last else p.Comparison(value, "<", 0))
                if rows:
                    other = p.Comparison(value, ">=", multiply(2, extent)) if last else \
                        p.Comparison(add(value, extent), "<", 0)
                    ends = [p.Comparison(i, ">=", subtract(n, 1)) if last else p.Comparison(i, "<=", 0)
                            for i, n in zip(around, above, strict=True) if n is not None]
                    points = reduce(Set.intersect, map(e.where, ends), points).union(e.where(other))
            yield element, points.intersect_params(self._sizes(vector)).intersect(loaded)

    def _in_time(self, assign: Assign) -> Iterator[Mismatch]:
        """No iteration reads an element that an earlier one writes, if one of the two accesses is outside the loop."""
        target, loop, e = assign.target, self.execution.loop, self.execution
        if not isinstance(target, p.Subscript):
            return
        dims = (*e.coordinates, loop.iname)
        inside = p.LogicalAnd((p.Comparison(loop.start, "<=", p.Variable(loop.iname)),
                               p.Comparison(p.Variable(loop.iname), "<", loop.stop)))
        moved = {v.element for v in vectors_of(loop)}

        def accessed(element: p.Subscript) -> Map:
            index = [substitute(i, e.names) for i in element.index_tuple]
            return piecewise_relation(dims, index).intersect_domain(
                projected(e.condition, (), dims).intersect(points_where(inside, dims)))
        for read in dict.fromkeys(r for expr in (assign.value, *target.index_tuple) for r in subexpressions(expr)):
            if isinstance(read, p.Subscript) and read.aggregate == target.aggregate and read != target \
                    and {read, target} & moved:
                later = differing_first_at(same_element(accessed(target), accessed(read)),
                                           shared_dims(dims, dims, dims), len(e.coordinates))
                yield from self._found(
                    assign.statement, f"an iteration of '{loop.iname}' reads {read}, which an earlier one writes as "
                    f"{target}", projected(later.domain(), dims, e.coordinates))


def _follow_each_other(strides: Sequence[Expression], shape: Shape) -> bool:
    """Are *strides* those of all axes but the last of an array of *shape* in C order?"""
    own: list[Expression] = [1]
    for extent in reversed(shape[1:]):
        if extent is None:
            return False
        own.insert(0, multiply(extent, own[0]))
    return len(strides) == len(own) - 1 and all(add(a) == add(b) for a, b in zip(strides, own, strict=False))
