"""Instructions: vector accesses and shuffles access the elements of their statements.

Vector accesses move the elements of their loop, and legally load before it and store after it. A shuffle reads the lane
that holds the element, and every other access to a warp register is to the thread's own element.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate, product

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_of
from loopkit.analysis.dependences import reads_of
from loopkit.analysis.shapes import Shape, array_shapes
from loopkit.ast.arrays import Array
from loopkit.ast.assumed import AlignedArray, Assumed, DivisibleSize
from loopkit.ast.nodes import Assign, Instruction
from loopkit.ast.walk import assigned
from loopkit.expr.mappers import array_of, elements_of, subexpressions, substitute, variables
from loopkit.instructions.base import WIDEST
from loopkit.instructions.nests import Issue
from loopkit.instructions.shuffle import Shuffle
from loopkit.instructions.simd_loop import SimdLoop
from loopkit.instructions.vector_access import (
    Vector,
    VectorAccess,
    assignment_of,
    distance,
    iterations,
    must_reads,
    vectors_of,
)
from loopkit.kernel.data import AddressSpace
from loopkit.poly.affine import (
    NotAffineError,
    add,
    affine_difference,
    floor_div,
    multiply,
    remainder,
    subtract,
)
from loopkit.poly.elements import outside
from loopkit.poly.limits import kept_in_memo
from loopkit.poly.piecewise import (
    equal_coordinates,
    is_piecewise,
    known_remainder,
    params_where,
    piecewise_relation,
    points_where,
    projected,
)
from loopkit.poly.relations import differing_first_at, same_element, shared_dims
from loopkit.poly.sets import Map, Set, bounded_by
from loopkit.verification.report import Mismatch
from loopkit.verification.validation_copies import CopyCheck
from loopkit.verification.validation_simd import SimdCheck
from loopkit.verification.validation_walk import Execution, LaunchCheck, NodeCheck


class VectorCheck(CopyCheck):
    """The check of a loop with vector accesses."""

    def findings(self) -> Iterator[Mismatch]:
        loop = self.execution.loop
        assign, condition = assignment_of(loop)
        if assign is None or not isinstance(loop.start, int) or not isinstance(loop.stop, int) or loop.step != 1:
            yield from self.found("", f"the loop over '{loop.iname}' has vectors and is more than one statement of a "
                                   "constant number of iterations")
            return
        for vector in vectors_of(loop):
            yield from self._moved(vector, assign)
            yield from self._placed(vector, assign.statement)
            read = vector.stored or vector.element in must_reads(assign)
            if vector.loaded and (condition is not None or not read):
                yield from self._whole(vector, assign.statement)
        yield from self.copied(assign, condition)
        if condition is not None and any(isinstance(e, p.Subscript) for e in subexpressions(condition)):
            yield from self.found(assign.statement, f"the executed iterations of '{loop.iname}' depend on data")
        if isinstance(loop.instruction, VectorAccess) and loop.instruction.computes_all:
            yield from self._computed(assign)
        yield from self._in_time(assign)

    def _moved(self, vector: Vector, assign: Assign) -> Iterator[Mismatch]:
        """The vector moves the elements that the statement reads and writes."""
        s, element, loop = assign.statement, vector.element, self.execution.loop
        index = assign.target.index_tuple if isinstance(assign.target, p.Subscript) else ()
        updated = assign.target == element and assign.combine is not None
        if vector.stored != (assign.target == element):
            yield from self.found(s, f"'{vector.name}' is {'' if vector.stored else 'not '}stored to {element}, which "
                                   f"'{s}' {'does not write' if vector.stored else 'writes'}")
        if vector.loaded and not vector.stored and not self.is_copied(vector, assign) and all(
                distance(loop, vector, e) is None for e in must_reads(assign)):
            yield from self.found(s, f"'{vector.name}' is loaded from {element}, which '{s}' may not read")
        if not vector.loaded and (updated or any(e == element for r in (assign.value, *index)
                                                 for e in subexpressions(r))):
            yield from self.found(s, f"'{s}' reads {element}, which is not loaded into '{vector.name}'")
        *rows, last = element.index_tuple
        following = substitute(last, {loop.iname: p.Sum((p.Variable(loop.iname), 1))})
        if affine_difference(following, last) != 1 or any(loop.iname in variables(i) for i in rows):
            yield from self.found(s, f"{element} does not advance by one element with '{loop.iname}'")
        for i in assign.instructions:
            if i.claims(element, assign.target):
                yield from self.found(s, f"{element} is moved without {i.noun}")

    # Alignment

    def _placed(self, vector: Vector, s: str) -> Iterator[Mismatch]:
        length, name, e = vector.length, vector.array, self.execution
        every = iterations(e.loop)
        argument = self.kernel.array_args.get(name)
        storage = self.storages.get(name)
        if argument is not None:
            assert argument.dtype is not None
            dtype = np.dtype(argument.dtype)
            shape = array_shapes(self.kernel)[name]
            given = next((a for a in vector.assumed if isinstance(a, AlignedArray) and a.array == name
                          and a.elements % length == 0), None)
            if given is None:
                yield from self.found(s, f"no fact shows that '{name}' begins at a multiple of {length} elements")
            elif not given.strides:
                shape = (0,)*len(shape)                     # so do rows, whatever their length
            elif not _follow_each_other(given.strides, shape):
                yield from self.found(s, f"'{name}' is assumed to have strides that are not its own")
        elif storage is not None and storage.space is not AddressSpace.PRIVATE:
            dtype = storage.dtype
            shape = storage.in_memory
            if storage.swizzle is not None and storage.swizzle.chunk % length:
                yield from self.found(s, f"'{name}' is swizzled: {length} elements are not adjacent")
        else:
            yield from self.found(s, f"'{name}' is not an array in memory")
            return
        if length < 2 or len(every) % length or length * dtype.itemsize > WIDEST:
            yield from self.found(s, f"{len(every)} elements of '{name}' are not accesses of {length}")
            return
        first = vector.at(e.loop.iname, every.start)
        number: Expression = 0
        for k, (extent, index) in enumerate(zip(shape, first.index_tuple, strict=True)):
            # the alignment of a row is the extent's remainder
            rest = 0 if k == 0 else known_remainder(extent, length, self._sizes(vector.assumed))
            if rest is None:
                yield from self.found(s, f"rows of '{name}' may not begin at a multiple of {length} elements")
                return
            number = add(multiply(rest, number), index)
        odd = e.where(p.Comparison(remainder(substitute(number, e.names), length), "!=", 0))
        yield from self.found(s, f"{first} may not begin at a multiple of {length} elements",
                               odd.intersect_params(self._sizes(vector.assumed)))

    def _sizes(self, assumed: Sequence[Assumed]) -> Set:
        """The known conditions on sizes."""
        divisible = (params_where(p.Comparison(remainder(a.size, a.divisor), "==", 0)) for a in assumed
                     if isinstance(a, DivisibleSize))
        return reduce(Set.intersect, divisible, self.kernel.assumptions)

    def _is_input(self, name: str) -> bool:
        return name in self.kernel.array_args and name not in assigned(self.function.body)

    # Elements

    def _whole(self, vector: Vector, s: str) -> Iterator[Mismatch]:
        """For partial vectors: do all loaded elements exist, and does no other thread write them?"""
        if not self._is_input(vector.array):
            yield from self.found(s, f"'{vector.name}' is loaded as a whole from '{vector.array}', which is not an "
                                   "input of this launch")
            return
        yield from self.found(s, f"{vector.element}, the source of '{vector.name}', may be outside its array",
                               self._beyond(vector.element, vector.assumed, vector.inside))

    def _computed(self, assign: Assign) -> Iterator[Mismatch]:
        """For iterations that are computed although the domain omits them: do all elements that they read exist?"""
        s, vectors = assign.statement, vectors_of(self.execution.loop)
        if not any(v.stored and not v.loaded for v in vectors):
            yield from self.found(s, f"'{s}' stores a value that it need not compute")
        for element in dict.fromkeys(x for x in subexpressions(assign.value) if isinstance(x, p.Subscript)):
            name = array_of(element)
            assumed = next((v.assumed for v in vectors if v.array == name), ())
            if not (self._is_input(name) and assumed) or None in self._shape(name):
                yield from self.found(s, f"{element}, which '{s}' need not read, is not an element of an input "
                                       "with vectors")
                continue
            yield from self.found(s, f"{element}, which '{s}' need not read, may be outside its array",
                                   self._beyond(element, assumed))

    def _beyond(self, element: p.Subscript, assumed: Sequence[Assumed], inside: Expression | None = None) -> Set:
        """The points (with the condition *inside*) at which *element*, in some iteration, may be outside its array.

        In an array without gaps, the elements before and after a row are those of the neighbouring rows.
        """
        e, shape = self.execution, self._shape(array_of(element))
        points = e.points if inside is None else e.where(substitute(inside, e.names))
        if shape[-1] is None:
            return points
        index = [substitute(i, e.names) for i in element.index_tuple]
        gapless = any(isinstance(a, AlignedArray) and a.strides for a in assumed)
        for k in range(len(shape) - 1, 0, -1) if gapless else ():
            extent, i, row = shape[k], index[k], index[k - 1]
            if extent is None or shape[k - 1] is None:
                break
            before, behind = p.Comparison(i, "<", 0), p.Comparison(i, ">=", extent)
            index[k] = p.If(before, add(i, extent), p.If(behind, subtract(i, extent), i))
            index[k - 1] = p.If(before, add(row, -1), p.If(behind, add(row, 1), row))
        beyond = outside(self.accessed(index), shape, self._sizes(assumed))
        return Set.empty(points.get_space()) if beyond is None else \
            projected(beyond, self.dims, e.coordinates).intersect(points)

    def _shape(self, name: str) -> Shape:
        """The extents of an argument that are known and affine."""
        return tuple(n if n is not None and is_piecewise(n) else None for n in array_shapes(self.kernel)[name])

    def _in_time(self, assign: Assign) -> Iterator[Mismatch]:
        """No iteration reads an element that an earlier one writes, if one of the two accesses is outside the loop."""
        target, e = assign.target, self.execution
        if not isinstance(target, p.Subscript):
            return
        moved = {v.element for v in vectors_of(e.loop)}
        for read in dict.fromkeys(r for expr in (assign.value, *target.index_tuple) for r in subexpressions(expr)):
            if isinstance(read, p.Subscript) and read.aggregate == target.aggregate and read != target \
                    and {read, target} & moved:
                written, found = (self.accessed([substitute(i, e.names) for i in x.index_tuple])
                                  for x in (target, read))
                later = differing_first_at(same_element(written, found),
                                           shared_dims(self.dims, self.dims, self.dims), len(e.coordinates))
                yield from self.found(
                    assign.statement, f"an iteration of '{e.loop.iname}' reads {read}, which an earlier one writes as "
                    f"{target}", projected(later.domain(), self.dims, e.coordinates))


def _follow_each_other(strides: Sequence[Expression], shape: Shape) -> bool:
    """Are *strides* those of all axes but the last of an array of *shape* in C order?"""
    extents = [extent for extent in reversed(shape[1:]) if extent is not None]
    own = accumulate(extents, lambda stride, extent: multiply(extent, stride))
    return len(extents) == len(shape) - 1 and [*map(add, strides)][::-1] == [*map(add, own)]


#: The subscripts of an element of a warp register that name the thread, in terms of the coordinates of an execution.
_Index = tuple[Expression, ...]
_Held = tuple[Execution, _Index]


@dataclass(frozen=True, eq=False)
class WarpRegisterCheck(LaunchCheck):
    """The check of the lanes that hold elements of warp registers."""

    def findings(self) -> Iterator[Mismatch]:
        for array in self.function.arrays:
            if array.thread_axes:
                try:
                    yield from self._of_array(array)
                except NotAffineError as err:
                    yield from self.mismatch("undecided", "", f"'{err}' is not an affine form")

    def _of_array(self, array: Array) -> Iterator[Mismatch]:
        own: list[_Held] = []
        others: list[_Held] = []
        for e in (e for some in self.executions.values() for e in some):
            node, threads = e.assign, slice(-array.thread_axes, None)
            if isinstance(e.instruction, Issue):                # it reads the operands of each lane
                mine = elements_of(p.Call(p.Variable(""), (*e.instruction.operands, node.target)), (array.name,))
                own += [_by_threads(e, i) for i in dict.fromkeys(x.index_tuple[threads] for x in mine)]
                continue
            for element in dict.fromkeys(x for part in (node.target, node.value)
                                         for x in elements_of(part, (array.name,))):
                is_own = not isinstance(e.instruction, Shuffle) or element == node.target
                (own if is_own else others).append(_by_threads(e, element.index_tuple[threads]))
        yield from self._overwritten(array, [e for e, _ in others])
        for first, second in product(own, own):
            yield from self._away(array, first, second, self.thread_number)
        for first, second in product(others, own):
            shuffle = first[0].instruction
            assert isinstance(shuffle, Shuffle)
            yield from self._away(array, first, second, shuffle.source(self.thread_number))

    def _overwritten(self, array: Array, shuffles: Sequence[Execution]) -> Iterator[Mismatch]:
        """Elements that are read although inactive lanes may have overwritten them."""
        for s in dict.fromkeys(e.node.statement for e in shuffles
                               if isinstance(e.node, Assign) and isinstance(e.instruction, Shuffle)
                               and e.instruction.all_write):
            bound = self.launch.statements[s]
            write = accesses_of(self.kernel, bound.statement)[-1]
            lanes = [x for x in bound.hardware if x in self.launch.mapping.thread_inames]
            threads = write.domain.onto([x for x in write.domain.inames if x not in lanes]).onto(write.domain.inames)
            for x in lanes:
                own = self.launch.mapping.ranges.get(x)
                if own is not None:
                    threads = threads.where(*bounded_by(x, own[0], own[1] + 1))
            for reader, pairs in reads_of(self.kernel, replace(write, domain=threads.subtract(write.domain))):
                yield from self.mismatch(
                    "lane", s, f"'{reader}' reads an element of '{array.name}' that is clobbered by a lane "
                    f"outside of '{s}'", pairs.domain(), write.domain.inames)

    def _away(self, array: Array, first: _Held, second: _Held, meant: Expression) -> Iterator[Mismatch]:
        """Elements of *first* that are not held by the thread *meant* of the same warp, but by that of *second*."""
        (e, own), (f, other) = first, second
        if self._may_be_away(own, other, meant):
            pairs = self._pairs_away(e.coordinates, e.relation(own), f.coordinates, f.relation(other), meant)
            text = f"'{e.assign.statement}' reads an element of '{array.name}' from a lane that holds another element"
            yield from self.mismatch("lane", e.assign.statement, text, pairs.domain(), e.coordinates)

    @kept_in_memo
    def _may_be_away(self, own: _Index, other: _Index, meant: Expression) -> bool:
        """Are there such elements if all threads of a block execute both statements, with any values of other names?

        Most statements access the elements of all threads in the same way: few questions, of few dimensions.
        """
        threads, extents = self.grid.along("l"), self.function.extents
        within = p.LogicalAnd((True, *(
            c for x in threads if x in extents and is_piecewise(extents[x])
            for c in (p.Comparison(0, "<=", p.Variable(x)), p.Comparison(p.Variable(x), "<", extents[x])))))
        names = [(*threads, *sorted(frozenset[str]().union(*map(variables, index)).difference(threads)))
                 for index in (own, other)]
        cells, theirs = (piecewise_relation(dims, index).intersect_domain(points_where(within, dims))
                         for dims, index in zip(names, (own, other), strict=True))
        return not self._pairs_away(names[0], cells, names[1], theirs, meant).is_empty()

    def _pairs_away(self, names: tuple[str, ...], cells: Map, others: tuple[str, ...], theirs: Map, meant: Expression
                    ) -> Map:
        """Pairs of executions, by *names* and by *others*, that access one element and whose threads are not right."""
        number = self.thread_number
        warp = floor_div(number, self.launch.machine.warp)
        return same_element(cells, theirs).subtract(equal_coordinates(names, [meant, warp], others, [number, warp]))


def _by_threads(e: Execution, index: Iterable[Expression]) -> _Held:
    return e, tuple(substitute(i, e.names) for i in index)


#: The check of a loop by the class of its instruction.
LOOP_CHECKS: Mapping[type[Instruction | None], type[NodeCheck]] = {SimdLoop: SimdCheck, VectorAccess: VectorCheck}
