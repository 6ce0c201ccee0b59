"""Boxes of an array that TMA copies to or from shared memory: the nest of loops around a copy defines the box."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from operator import mul
from typing import ClassVar

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Region, Scope
from loopkit.ast.tensor_maps import LINE, ROWS, SWIZZLES, TensorMap, requirements
from loopkit.ast.value_ranges import ValueRanges
from loopkit.expr.mappers import array_of, conjunction, conjuncts, substitute, variables
from loopkit.expr.nodes import to_text
from loopkit.instructions.base import Printer
from loopkit.instructions.nests import (
    ElementMemory,
    Issue,
    Nest,
    NestInstruction,
    NoMatchError,
    Passed,
    element_at,
    range_of,
    statement_of,
)
from loopkit.instructions.vector_access import copied_element
from loopkit.kernel.data import AddressSpace
from loopkit.poly.affine import NotAffineError, add, affine_difference, multiply, remainder, subtract
from loopkit.poly.piecewise import params_where


@dataclass(frozen=True)
class BoxCopy(NestInstruction):
    """Copies a box between an array in global memory and a temporary in shared memory.

    :ivar row: the bytes of a row of the box, whose pieces of 16 bytes are permuted; 0: rows are as they are.
    :cvar combine: the operation by which it combines elements with those of the array; ``None``: it overwrites them.
    """

    row: int = 0

    scope: ClassVar[Scope] = Scope.THREAD
    for_others: ClassVar[str] = ""
    asynchronous_proxy: ClassVar[bool] = True
    capability: ClassVar[int] = 90
    combine: ClassVar[str | None] = None


def box_names(name: str) -> tuple[tuple[str, int], ...]:
    """The names of a copy with all of its layouts in shared memory, and the bytes of their permuted rows."""
    return tuple((f"{name}.swizzle{row}" if row else name, row) for row in SWIZZLES)


@dataclass(frozen=True)
class TmaBox:
    """A box of an array, and its place in shared memory.

    :ivar tile: its first element in shared memory; *start*: the subscripts of the one in the array.
    :ivar end: the first subscript along the map's open axis that is outside; ``None``: there is no such axis.
    """

    tensor_map: TensorMap
    tile: p.Subscript
    start: tuple[Expression, ...]
    end: Expression | None = None

    @staticmethod
    def of(nest: Nest, tile: p.Subscript, source: p.Subscript, condition: Expression | None, blocks: int = 1) -> TmaBox:
        """The box of *nest*, which moves *source* in global memory to or from *tile* where *condition* holds.

        :arg blocks: it is one of so many shares along its first axis: that of the block in its cluster.
        :raises NoMatchError: TMA cannot copy it.
        """
        open_axis, end = end_of(nest, source, condition) or (None, None)
        own = {x: value for x, value in nest.names.items() if variables(value) & {x.iname for x in nest.loops}}
        tile, source = (element_at(e, own) for e in (tile, source))
        memory, array = nest.memory_of(tile), nest.memory_of(source)
        if memory.space is not AddressSpace.SHARED or array.space is not AddressSpace.GLOBAL:
            raise NoMatchError(f"it copies between {array.space} and {memory.space} memory",
                               "TMA copies between an array in global memory and a temporary in shared memory")
        if memory.dtype != array.dtype:
            raise NoMatchError(f"'{source.aggregate}' is {array.dtype}, and '{tile.aggregate}' is {memory.dtype}",
                               f"give '{tile.aggregate}' the dtype of the array, and convert in another statement")
        loops = {x.iname: range_of(x) for x in nest.loops}
        axes = axes_of_box(source, loops, f"'{source.aggregate}'")
        steps = steps_of_box(source, axes, f"'{source.aggregate}'")
        require_whole_rows(tile, memory, loops, [x for x in axes if x is not None])
        start: dict[str, Expression] = {x: r.start for x, r in loops.items()}
        extents = tuple(1 if x is None else len(loops[x]) for x in axes)
        swizzle = swizzle_of(memory, array_of(tile))
        if blocks > 1:
            extents = _share_extents(extents, blocks, max(LINE, ROWS*swizzle) // memory.dtype.itemsize, array_of(tile))
            axis, share = next((x, n) for x, n in zip(axes, extents, strict=True) if x is not None and n > 1)
            block, count = nest.blocks[-1]
            number = p.Variable(block) if count == blocks else remainder(p.Variable(block), blocks)
            start[axis] = add(start[axis], multiply(share, number))
        apart = f"_by_{'x'.join(map(str, steps))}" if steps else ""
        name = (f"{array_of(source)}_map_{'x'.join(map(str, extents))}{apart}{'_swizzled' if swizzle else ''}"
                f"{'_to_end' if end is not None else ''}")
        known = array.shape if len(array.shape) == len(axes) else ()
        tensor_map = TensorMap(name, array_of(source), extents, swizzle, steps, known, open_axis)
        requirements(tensor_map, memory.dtype, len(axes))
        return TmaBox(tensor_map, element_at(tile, start), tuple(add(substitute(i, start)) for i in source.index_tuple),
                      end)

    def __str__(self) -> str:
        end = f" to {to_text(self.end)} along axis {self.tensor_map.open_axis}" if self.end is not None else ""
        return f"a box of {self.tensor_map.array} from [{', '.join(map(to_text, self.start))}]{end}"

    @property
    def extents(self) -> Mapping[str, int]:
        """The extents of the axes along which it has more than one element, by names."""
        return {f"box_{k}": extent for k, extent in enumerate(self.tensor_map.box) if extent > 1}

    def require_end(self, end: tuple[int, Expression] | None) -> None:
        """:raises NoMatchError: *end*, an axis and a subscript along it, is another one than its own."""
        own = None if self.end is None else (self.tensor_map.open_axis, self.end)
        if own != end and not (own and end and own[0] == end[0] and affine_difference(own[1], end[1]) == 0):
            raise NoMatchError(f"its elements end elsewhere: {self} is another box")

    @property
    def coordinates(self) -> list[Expression]:
        """Those of its first element, along the axes that TMA counts."""
        k = self.tensor_map.open_axis
        if k is None or self.end is None:
            return [*self.start]
        behind = add(self.start[k], self.tensor_map.traversed[k])
        end = p.Min((self.end, behind))
        return self.tensor_map.axes(self.start, end, subtract(behind, end))

    def element(self) -> p.Subscript:
        """The element of the array at a place of the box."""
        index = tuple(add(i, multiply(step, p.Variable(x))) if (x := f"box_{k}") in self.extents else i
                      for k, (i, step) in enumerate(zip(self.start, self.tensor_map.all_steps, strict=True)))
        return p.Subscript(p.Variable(self.tensor_map.array), index)

    def place(self, shape: tuple[Expression, ...]) -> p.Subscript:
        """Its place in shared memory, in a temporary with this *shape*."""
        own, extents = self.tile.index_tuple, self.extents
        axes = [k for k in range(len(own)) if shape[k] != 1][-len(extents):] if extents else []
        moved = dict(zip(axes, extents, strict=True))
        return p.Subscript(self.tile.aggregate, tuple(
            add(i, p.Variable(moved[k])) if k in moved else i for k, i in enumerate(own)))


def _share_extents(extents: tuple[int, ...], blocks: int, unit: int, tile: str) -> tuple[int, ...]:
    """The extents of a share of a box; :raises NoMatchError: shares are not whole rows, or begin where TMA cannot."""
    axis = next((k for k, extent in enumerate(extents) if extent > 1), 0)
    share = (*extents[:axis], extents[axis] // blocks, *extents[axis + 1:])
    if extents[axis] % blocks or share[axis] == 1 or prod(share) % unit:
        raise NoMatchError(f"{blocks} blocks cannot share the box of '{tile}' with {' x '.join(map(str, extents))} "
                           "elements", "use smaller clusters, or larger tiles")
    return share


@dataclass(frozen=True)
class BoxIssue(Issue):
    """A copy of a box with its operands."""

    box: TmaBox

    noun: ClassVar[str] = "a copy of a box by TMA"
    scope: ClassVar[Scope] = Scope.THREAD
    for_others: ClassVar[str] = ""
    asynchronous_proxy: ClassVar[bool] = True

    @property
    def titles(self) -> tuple[str, ...]:
        return (f"{self.instruction.name} by one thread: {self.box}",)

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.box.tile, *self.box.start, *(() if self.box.end is None else (self.box.end,)))

    @property
    def tensor_maps(self) -> tuple[str, ...]:
        return (self.box.tensor_map.name,)

    @property
    def alignments(self) -> Mapping[str, int]:
        return {array_of(self.box.tile): self.box.tensor_map.alignment}

    @property
    def made_maps(self) -> tuple[TensorMap, ...]:
        return (self.box.tensor_map,)

    def passed(self, nest: Nest) -> tuple[Passed, ...]:
        return ()


# The parts of a nest

def copied_ends(nest: Nest, combine: str | None = None) -> tuple[p.Subscript, p.Subscript, Expression | None]:
    """The element that the nest writes, the one that it copies, and the condition where it does not write 0.

    :raises NoMatchError: it does not copy, or combines elements by another operation than *combine*.
    """
    copied, target = copied_element(nest.assign.value), nest.assign.target
    if copied is None or not isinstance(target, p.Subscript) or nest.assign.combine != combine:
        raise NoMatchError(f"it writes {nest.assign.value}, which is not an element of an array, or 0",
                           "let the statement copy one element: add_prefetch, precompute and buffer_array make such "
                           "copies")
    return target, *copied


def lost_elements(nest: Nest, element: p.Subscript, condition: Expression, before: int | None = None) -> bool:
    """Does *condition* exclude some *element* inside of its array, or *before* the first one along this axis?

    :raises NoMatchError: that is not known.
    """
    shape = nest.memory_of(element).shape
    if len(shape) != len(element.index_tuple):
        raise NoMatchError(f"the shape of '{element.aggregate}' is not known", f"declare the shape of "
                           f"'{element.aggregate}'")
    inside = [c for k, (i, extent) in enumerate(zip(element.index_tuple, shape, strict=True)) for c in (
        [p.Comparison(i, "<", 0)] if k == before else [p.Comparison(i, ">=", 0), p.Comparison(i, "<", extent)])]
    loops = [c for x in nest.loops for c in (p.Comparison(x.start, "<=", p.Variable(x.iname)),
                                             p.Comparison(p.Variable(x.iname), "<", x.stop))]
    known = {x: value for x, value in nest.names.items() if x in variables(condition) | variables(element)}
    try:
        lost = params_where(p.LogicalAnd((*loops, *(substitute(e, known) for e in inside),
                                          p.LogicalNot(substitute(condition, known)))))
    except NotAffineError:
        raise NoMatchError(f"whether {to_text(condition)} holds for all elements of '{element.aggregate}' is not known",
                           "pad_domain gives partial tiles conditions that are known") from None
    return not lost.is_disjoint(nest.assumptions)


def end_of(nest: Nest, element: p.Subscript, condition: Expression | None) -> tuple[int, Expression] | None:
    """The axis, not the last, along which *condition* excludes each *element* inside of its array from one on, and the
    subscript of that one; ``None``: it excludes none.

    :raises NoMatchError: it excludes others, or that is not known.
    """
    losing = [c for c in conjuncts(condition) if lost_elements(nest, element, c)] if condition is not None else []
    if condition is None or not losing:
        return None
    known = {x: value for x, value in nest.names.items() if x in variables(condition) | variables(element)}
    index, moving = element_at(element, known).index_tuple, {x.iname for x in nest.loops}
    ends = [[add(substitute(c.right, known), i, multiply(-1, substitute(c.left, known)), int(c.operator == "<="))
             if isinstance(c, p.Comparison) and c.operator in ("<", "<=") else i for c in losing] for i in index]
    for axis, own in enumerate(ends[:-1]):
        if not any(variables(e) & moving for e in own) and variables(index[axis]) & moving:
            if any(lost_elements(nest, element, c, axis) for c in conjuncts(condition) if c not in losing):
                raise NoMatchError(f"its box may begin before element 0 of axis {axis} of '{element.aggregate}', and "
                                   "TMA does not write zeros there if the box has an end of its own",
                                   "let the box begin inside of the array")
            return axis, own[0] if len(own) == 1 else p.Min(tuple(own))
    does = "leaves out" if nest.assign.target == element else "stores 0 for"
    raise NoMatchError(
        f"it {does} some elements of '{element.aggregate}': where {to_text(conjunction(losing))} does not hold",
        "copy all elements of the box that are inside of the array, or up to an end along another axis than the last; "
        "pad_domain leaves out elements outside of the array alone")


def axes_of_box(element: p.Subscript, loops: Mapping[str, range], what: str) -> tuple[str | None, ...]:
    """For each axis the loop that moves along it; ``None``: none does."""
    found = list[str | None]()
    for i in element.index_tuple:
        own = [x for x in loops if x in variables(i)]
        if len(own) > 1:
            raise _moves_otherwise(i, what)
        found.append(own[0] if own else None)
    if wrong := [x for x in loops if found.count(x) != 1]:
        raise NoMatchError(f"'{wrong[0]}' is not in one subscript of {what}",
                           f"leave the loop over '{wrong[0]}' around the box: name the inames of the box")
    return tuple(found)


def steps_of_box(element: p.Subscript, axes: Sequence[str | None], what: str) -> tuple[int, ...]:
    """The elements of each axis from one iteration of its loop to the next; ``()``: all are neighbours.

    :raises NoMatchError: the distance is not a positive constant.
    """
    steps = list[int]()
    for i, x in zip(element.index_tuple, axes, strict=True):
        step = 1 if x is None else affine_difference(substitute(i, {x: add(p.Variable(x), 1)}), i)
        if step is None or step < 1:
            raise _moves_otherwise(i, what)
        steps.append(step)
    return tuple(steps) if max(steps) > 1 else ()


def _moves_otherwise(i: Expression, what: str) -> NoMatchError:
    return NoMatchError(f"the subscript {to_text(i)} of {what} is not an iname of the box, or a multiple, and a start",
                        "copy elements at equal distances along each axis")


def require_whole_rows(target: p.Subscript, memory: ElementMemory, loops: Mapping[str, range], order: list[str]
                        ) -> None:
    """:raises NoMatchError: the box is not a row of elements of *target* in the *order* of its loops."""
    name = f"'{target.aggregate}'"
    axes = axes_of_box(target, loops, name)
    own = [x for x in axes if x is not None]
    if own != order:
        raise NoMatchError(f"the axes of {name} are in the order {', '.join(own)}, and those of the array in the order "
                           f"{', '.join(order)}", "let the copy keep the order of the axes; readers may transpose")
    first = next((k for k, x in enumerate(axes) if x is not None), len(axes))
    for k, x in enumerate(axes[first:], first):
        extent, i = memory.shape[k], target.index_tuple[k]
        if x is None and extent != 1:
            raise NoMatchError(f"the box leaves out elements along axis {k} of {name}",
                               "store the box in the last axes, which it fills")
        if x is not None and (affine_difference(i, p.Variable(x)) != -loops[x].start or (
                len(loops[x]) != extent and k > first)):
            raise NoMatchError(f"the box does not fill axis {k} of {name}, with {extent} elements",
                               "copy the whole rows of the temporary")
    cell = reduce(mul, memory.shape[first:], memory.dtype.itemsize)
    if cell % LINE and any(extent != 1 for extent in memory.shape[:first]):
        raise NoMatchError(f"each of the boxes in {name} has {to_text(cell)} bytes, and those behind the first would "
                           f"not begin at multiples of {LINE} bytes",
                           f"copy a multiple of {LINE} bytes, or one box")


def swizzle_of(memory: ElementMemory, name: str) -> int:
    """The bytes of a row with swizzled pieces; 0: none; :raises NoMatchError: TMA has no such permutation."""
    row = memory.row_swizzled
    if row is None:
        raise NoMatchError(f"TMA cannot store '{name}' with the swizzle '{memory.swizzle}' of rows of "
                           f"{to_text(memory.shape[-1])} elements", "its swizzle permutes the pieces of 16 bytes of "
                           f"rows of 32, 64 or {LINE} bytes over {ROWS} rows: {memory.swizzle_call(name)}")
    return row


# CUDA

def box_lines(printer: Printer, region: Region, call: str) -> Iterator[str]:
    """The lines of the *call* that copies the box of *region*."""
    if printer.annotate:
        yield f"// {statement_of(region)}"
    yield call


def start_operands(rank: int, first: int) -> tuple[str, str, str]:
    """The start of a box with *rank* axes: parameters of a function, and PTX operands from number *first* on, each as
    its place and its value.
    """
    axes = [*range(rank)]
    # PTX counts axes from the last
    return (", ".join(f"int start_{k}" for k in axes), ", ".join(f"%{first + k}" for k in axes),
            ", ".join(f'"r"(start_{k})' for k in reversed(axes)))


def place_text(printer: Printer, box: TmaBox, bounds: ValueRanges, dtype: np.dtype) -> str:
    """The address of the box in shared memory, and its tensor map."""
    return f"&{printer.place(box.tile, bounds, dtype)}, {box.tensor_map.name}"


def start_text(printer: Printer, box: TmaBox, bounds: ValueRanges) -> str:
    """The subscripts of the box in the array."""
    return ", ".join(printer.value(i, bounds, np.dtype(np.int32)) for i in box.coordinates)
