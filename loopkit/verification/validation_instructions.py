"""Instructions: vector accesses, shuffles and matrix multiply-accumulates access the elements of their statements.

Vector accesses move the elements of their loop, and legally load before it and store after it. A shuffle reads the lane
that holds the element, and every other access to a warp register is to the thread's own element. In a product, the
lanes of a warp compute the iterations of the loops.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate, combinations
from itertools import product as pairs_of

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_of
from loopkit.analysis.dependences import reads_of
from loopkit.analysis.shapes import Shape, array_shapes
from loopkit.ast.nodes import AlignedArray, Array, Assign, Assumed, DivisibleSize, For, Instruction
from loopkit.ast.walk import assigned
from loopkit.expr.mappers import array_of, children, elements_of, subexpressions, substitute, variables
from loopkit.instructions.mma import Mma, fragments, nest_of, sums_of
from loopkit.instructions.shuffle import Shuffle
from loopkit.instructions.simd_loop import SimdLoop
from loopkit.instructions.vector_access import (
    WIDEST,
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
    integer_factor,
    multiply,
    remainder,
    subtract,
)
from loopkit.poly.elements import outside
from loopkit.poly.piecewise import (
    equal_coordinates,
    is_piecewise,
    known_remainder,
    params_where,
    projected,
)
from loopkit.poly.relations import differing_first_at, same_element, shared_dims
from loopkit.poly.sets import Map, Set, bounded_by
from loopkit.verification.report import Mismatch
from loopkit.verification.validation_copies import CopyCheck
from loopkit.verification.validation_simd import SimdCheck
from loopkit.verification.validation_walk import Execution, LaunchCheck, LoopCheck


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
        own: list[tuple[Execution, Map]] = []
        others: list[tuple[Execution, Map]] = []
        for e in (e for some in self.executions.values() for e in some):
            node = e.assign
            for element in dict.fromkeys(x for part in (node.target, node.value)
                                         for x in elements_of(part, (array.name,))):
                index = [substitute(i, e.names) for i in element.index_tuple[-array.thread_axes:]]
                (own if e.instruction is None or element == node.target else others).append((e, e.relation(index)))
        yield from self._overwritten(array, others)
        number = self.thread_number
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

    def _away(self, array: Array, e: Execution, f: Execution, cells: Map, theirs: Map, meant: Expression,
              number: Expression) -> Iterator[Mismatch]:
        """Elements of *e* that are not held by the thread *meant* of the same warp, but by the thread of *f*."""
        pairs = cells.apply_range(theirs.reverse())
        warps = floor_div(number, self.launch.machine.warp)
        pairs = pairs.subtract(equal_coordinates(e.coordinates, [meant, warps], f.coordinates, [number, warps]))
        s = e.assign.statement
        text = f"'{s}' reads an element of '{array.name}' from a lane that holds another element"
        yield from self.mismatch("lane", s, text, pairs.domain(), e.coordinates)


class ProductCheck(LoopCheck):
    """The check of a loop nest that is a product of matrices.

    The instruction adds to each sum of a lane, for each step, the product of two elements. The lanes that hold them are
    those of :func:`loopkit.instructions.mma.fragments`. Both must be the elements that the iteration itself reads.
    """

    @property
    def product(self) -> Mma:
        instruction = self.execution.loop.instruction
        assert isinstance(instruction, Mma)
        return instruction

    def findings(self) -> Iterator[Mismatch]:
        loop = self.execution.loop
        loops, assign = nest_of(loop)
        wrong = "is not a nest around one statement" if assign is None else self._wrong(loops, assign)
        if wrong or assign is None:
            yield from self.mismatch("product", "" if assign is None else assign.statement,
                                     f"the product over '{loop.iname}' {wrong}")
            return
        if any(node is loop for node in self.divergent) or self._has_partial_warps():
            text = f"'{assign.statement}' is a product of matrices that some lanes of a warp may not execute"
            yield from self.mismatch("divergent", assign.statement, text)
            return
        yield from self._elements(loop, loops, assign)

    def _has_partial_warps(self) -> bool:
        threads = self.launch.threads
        return (threads if isinstance(threads, int) else integer_factor(threads)) % self.launch.machine.warp != 0

    def _wrong(self, loops: tuple[For, ...], assign: Assign) -> str:
        """The reason why the nest is not a matrix multiply-accumulate; ``""``: none."""
        product = self.product
        meant = {x: 2 for x in (product.row, product.column) if x is not None} | {product.depth: 4*len(product.right)}
        if {x.iname: x.stop - x.start if isinstance(x.start, int) and isinstance(x.stop, int) and x.step == 1 else None
                for x in loops} != meant or len(loops) != len(meant):
            return f"has other loops than {product}"
        if product.rows != (1 if product.row is None else 2) or len(product.left) != product.rows*len(product.right):
            return f"loads {len(product.left)} and {len(product.right)} elements"
        match assign:
            case Assign(combine="sum", target=p.Subscript(),
                        value=p.Product(children=(p.Subscript() as one, p.Subscript() as other))):
                factors = (one, other)
            case _:
                return f"does not add up products of elements: {assign.value}"
        sums = list(sums_of(loops[0], product))
        if not all(_differ(x, y) for x, y in combinations(sums, 2)):
            return f"adds to {', '.join(map(str, sums))}, which are not all different"
        storage = self.storages.get(array_of(sums[0]))
        if storage is None or storage.space is not AddressSpace.PRIVATE or storage.dtype != np.float64:
            return f"adds to '{array_of(sums[0])}', which is not a float64 register of a thread"
        for e in (*factors, *product.left, *product.right):
            if not self._shared(e):
                return f"loads {e}, which is not a float64 element that all lanes can read"
        return ""

    def _shared(self, element: p.Subscript) -> bool:
        name = array_of(element)
        storage = self.storages.get(name)
        if storage is None:
            argument = self.kernel.array_args.get(name)
            return argument is not None and argument.dtype == np.float64
        return storage.dtype == np.float64 and storage.space not in (AddressSpace.PRIVATE, AddressSpace.WARP) \
            and not storage.temporary.between_blocks

    # Elements of each lane

    def _elements(self, loop: For, loops: tuple[For, ...], assign: Assign) -> Iterator[Mismatch]:
        product, starts = self.product, {x.iname: x.start for x in loops}
        number = self.thread_number
        warp = self.launch.machine.warp
        first, lane = multiply(warp, floor_div(number, warp)), remainder(number, warp)
        # the factor from the right matrix depends on the column
        left, right = sorted(children(assign.value), key=lambda e: product.column in variables(
            substitute(e, self.execution.names)))
        of_left, of_right, sums = fragments(product.rows)
        for k, register in pairs_of(range(4*len(product.right)), range(2*product.rows)):
            row, column = sums.element(p.Variable("lane"), register)
            steps = (product.depth, k), (product.row, register // 2), (product.column, register % 2)
            own = {x: add(starts[x], step) for x, step in steps if x is not None}
            for read, loaded, (holder, place) in ((left, product.left, of_left.holder(row, k)),
                                                  (right, product.right, of_right.holder(k, column))):
                yield from self._looked_for(assign.statement, loop, (read, own), loaded[place],
                                            add(first, substitute(holder, {"lane": lane})), number)

    def _looked_for(self, statement: str, loop: For, own: tuple[Expression, Mapping[str, Expression]],
                    given: p.Subscript, source: Expression, number: Expression) -> Iterator[Mismatch]:
        """Points at which *own*, at an iteration, is not the element *given* that thread number *source* loads."""
        e = self.execution
        read, at = own
        names = {x: value for x, value in e.names.items() if x not in at}

        def places(element: Expression, values: Mapping[str, Expression]) -> Map:
            assert isinstance(element, p.Subscript)
            return e.relation(substitute(substitute(i, values), names) for i in element.index_tuple)
        # one moment: the same block and iteration of the loops around, and all coordinates but those of threads
        same = [p.Variable(c) for c in e.coordinates if c not in self.grid.along("l")]
        sources = equal_coordinates(e.coordinates, [*same, source], e.coordinates, [*same, number])
        pairs = places(read, at).subtract(sources.apply_range(places(given, {})))
        text = f"an iteration of '{loop.iname}' reads {read}, but another lane provides {given}"
        yield from self.mismatch("product", statement, text, pairs.domain(), e.coordinates)


def _differ(one: p.Subscript, other: p.Subscript) -> bool:
    """Must *one* and *other* be different elements, for all values of their names?"""
    return any(affine_difference(x, y) not in (0, None)
               for x, y in zip(one.index_tuple, other.index_tuple, strict=True))


#: The check of a loop by the class of its instruction.
LOOP_CHECKS: Mapping[type[Instruction | None], type[LoopCheck]] = {
    Mma: ProductCheck, SimdLoop: SimdCheck, VectorAccess: VectorCheck}
