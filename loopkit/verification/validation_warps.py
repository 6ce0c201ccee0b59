"""Warp instructions: the lanes that hold the elements of warp registers, and of matrix multiply-accumulates.

A shuffle reads the lane that holds the element, and every other access to a warp register is to the thread's own
element. In a product, the lanes of a warp compute the iterations of the loops.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_of
from loopkit.analysis.dependences import reads_of
from loopkit.ast.nodes import Array, Assign, For
from loopkit.expr.mappers import elements_of, substitute, variables
from loopkit.instructions.mma import Mma, fragments, nest_of, sums_of
from loopkit.instructions.shuffle import Shuffle
from loopkit.kernel.data import AddressSpace
from loopkit.poly.affine import NotAffineError, add, affine_difference, floor_div, multiply, remainder
from loopkit.poly.piecewise import equal_coordinates
from loopkit.poly.sets import Map
from loopkit.verification.report import Mismatch
from loopkit.verification.validation_grid import thread_number
from loopkit.verification.validation_walk import Execution, LaunchCheck


@dataclass(frozen=True, eq=False)
class WarpRegisterCheck(LaunchCheck):
    """The check of the lanes that hold elements of warp registers."""

    def findings(self) -> Iterator[Mismatch]:
        for array in self.function.arrays:
            if array.thread_axes:
                try:
                    yield from self._of_array(array)
                except NotAffineError as err:
                    yield from self.mismatch("undecided", "", f"'{err}' is no affine form")

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
            lanes = [x for x in bound.hardware if x in self.launch.mapping.ranges]
            threads = write.domain.onto([x for x in write.domain.inames if x not in lanes]).onto(write.domain.inames)
            for x in lanes:
                low, high = self.launch.mapping.ranges[x]
                threads = threads.where((">=", add(p.Variable(x), -low)), ("<", add(p.Variable(x), -high - 1)))
            for reader, pairs in reads_of(self.kernel, replace(write, domain=threads.subtract(write.domain))):
                yield from self.mismatch(
                    "lane", s, f"'{reader}' reads an element of '{array.name}' that a lane spoils which has no part in "
                    f"'{s}'", pairs.domain(), write.domain.inames)

    def _away(self, array: Array, e: Execution, f: Execution, cells: Map, theirs: Map, meant: Expression,
              number: Expression) -> Iterator[Mismatch]:
        """Elements of *e* that are not held by the thread *meant* of the same warp, but by the thread of *f*."""
        pairs = cells.apply_range(theirs.reverse())
        warps = floor_div(number, self.launch.machine.warp)
        pairs = pairs.subtract(equal_coordinates(e.coordinates, [meant, warps], f.coordinates, [number, warps]))
        s = e.assign.statement
        text = f"'{s}' looks for an element of '{array.name}' in a lane that holds another"
        yield from self.mismatch("lane", s, text, pairs.domain(), e.coordinates)


@dataclass(frozen=True, eq=False)
class ProductCheck(LaunchCheck):
    """The check of one loop nest; *execution* is its place.

    The instruction adds to each sum of a lane, for each step, the product of two elements. The lanes that hold them are
    those of :func:`loopkit.instructions.mma.fragments`. Both must be the elements that the iteration itself reads.
    """

    execution: Execution
    product: Mma

    def findings(self) -> Iterator[Mismatch]:
        loop = self.execution.loop
        loops, assign = nest_of(loop)
        wrong = "is no nest around one statement" if assign is None else self._wrong(loops, assign)
        if wrong or assign is None:
            yield from self.mismatch("product", "" if assign is None else assign.statement,
                                     f"the product over '{loop.iname}' {wrong}")
            return
        if any(node is loop for node in self.divergent) or self.launch.threads % self.launch.machine.warp:
            text = f"'{assign.statement}' is a product of matrices where not all lanes of a warp may be"
            yield from self.mismatch("divergent", assign.statement, text)
            return
        yield from self._elements(loop, loops, assign)

    def _wrong(self, loops: tuple[For, ...], assign: Assign) -> str:
        """The reason why the nest is not a matrix multiply-accumulate; ``""``: none."""
        product = self.product
        meant = {x: 2 for x in (product.row, product.column) if x is not None} | {product.depth: 4*len(product.right)}
        if {x.iname: x.stop - x.start if isinstance(x.start, int) and isinstance(x.stop, int) and x.step == 1 else None
                for x in loops} != meant or len(loops) != len(meant):
            return f"has not the loops of {product}"
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
        storage = self.storages.get(_name(sums[0]))
        if storage is None or storage.space is not AddressSpace.PRIVATE or storage.dtype != np.float64:
            return f"adds to '{_name(sums[0])}', which is no register in float64 of a thread"
        for e in (*factors, *product.left, *product.right):
            if not self._shared(e):
                return f"loads {e}, which is not in float64 where all lanes see it"
        return ""

    def _shared(self, element: p.Subscript) -> bool:
        name = _name(element)
        storage = self.storages.get(name)
        if storage is None:
            argument = self.kernel.array_args.get(name)
            return argument is not None and argument.dtype == np.float64
        return storage.dtype == np.float64 and storage.space not in (AddressSpace.PRIVATE, AddressSpace.WARP) \
            and not storage.temporary.between_blocks

    # Elements of each lane

    def _elements(self, loop: For, loops: tuple[For, ...], assign: Assign) -> Iterator[Mismatch]:
        product, starts = self.product, {x.iname: x.start for x in loops}
        number = thread_number(self.grid, self.launch.block)
        warp = self.launch.machine.warp
        first, lane = multiply(warp, floor_div(number, warp)), remainder(number, warp)
        left, right = self._factors(assign)
        of_left, of_right, sums = fragments(product.rows)
        for k in range(4*len(product.right)):
            at: dict[str, Expression] = {product.depth: add(starts[product.depth], k)}
            for register in range(2*product.rows):
                row, column = sums.element(p.Variable("lane"), register)
                r, c = divmod(register, 2)
                own = {**at, product.column: add(starts[product.column], c)}
                if product.row is not None:
                    own[product.row] = add(starts[product.row], r)
                for read, loaded, holder in ((left, product.left, of_left.holder(row, k)),
                                             (right, product.right, of_right.holder(k, column))):
                    yield from self._looked_for(assign.statement, loop, (read, own), loaded[holder[1]],
                                                add(first, substitute(holder[0], {"lane": lane})), number)

    def _factors(self, assign: Assign) -> tuple[p.Subscript, p.Subscript]:
        """The statement's factors from the left and from the right matrix: the right one depends on the column."""
        assert isinstance(assign.value, p.Product)
        one, other = assign.value.children
        assert isinstance(one, p.Subscript)
        assert isinstance(other, p.Subscript)
        in_column = self.product.column in variables(substitute(one, self.execution.names))
        return (other, one) if in_column else (one, other)

    def _looked_for(self, statement: str, loop: For, own: tuple[p.Subscript, Mapping[str, Expression]],
                    given: p.Subscript, source: Expression, number: Expression) -> Iterator[Mismatch]:
        """Points at which *own*, at an iteration, is not the element *given* that thread number *source* loads."""
        e = self.execution
        read, at = own
        names = {x: value for x, value in e.names.items() if x not in at}

        def places(element: p.Subscript, values: Mapping[str, Expression]) -> Map:
            return e.relation(substitute(substitute(i, values), names) for i in element.index_tuple)
        # one moment: the same block and iteration of the loops around, and all coordinates but those of threads
        same = [p.Variable(c) for c in e.coordinates if c not in self.grid.along("l")]
        sources = equal_coordinates(e.coordinates, [*same, source], e.coordinates, [*same, number])
        pairs = places(read, at).subtract(sources.apply_range(places(given, {})))
        text = f"an iteration of '{loop.iname}' reads {read}, of which another lane gives {given}"
        yield from self.mismatch("product", statement, text, pairs.domain(), e.coordinates)


def _name(element: p.Subscript) -> str:
    assert isinstance(element.aggregate, p.Variable)
    return element.aggregate.name


def _differ(one: p.Subscript, other: p.Subscript) -> bool:
    """Must *one* and *other* be different elements, for all values of their names?"""
    return any(affine_difference(x, y) not in (0, None)
               for x, y in zip(one.index_tuple, other.index_tuple, strict=True))
