"""TMA, the tensor memory accelerator: one thread starts the copy of a box of an array to shared memory.

The nest of loops around a copy defines the box. A tensor map describes the array. Elements of the box outside of the
array are zeros. A phase of an mbarrier ends when the copies of the phase are performed.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Completion, Region, Scope
from loopkit.ast.phases import Phase
from loopkit.ast.tensor_maps import UNIT, TensorMap, requirements
from loopkit.ast.value_ranges import LowerBounds
from loopkit.expr.mappers import array_of, substitute, variables
from loopkit.expr.nodes import to_text
from loopkit.instructions.base import InstructionText, Printer
from loopkit.instructions.nests import (
    ElementMemory,
    Issue,
    MovedBox,
    Nest,
    NestInstruction,
    NoMatchError,
    Passed,
    element_at,
    range_of,
    statement_of,
)
from loopkit.instructions.phases import slot_text
from loopkit.instructions.vector_access import copied_element
from loopkit.kernel.data import AddressSpace
from loopkit.poly.affine import NotAffineError, add, affine_difference, subtract
from loopkit.poly.piecewise import params_where

#: The swizzle of the matrix units: rows of 128 bytes, whose pieces of 16 bytes are permuted over 8 rows.
_ROW, _ROWS = 128, 8

_COPY_BOXES = "let the statement copy one element: add_prefetch and precompute make such copies"


@dataclass(frozen=True)
class TmaLoad(NestInstruction):
    """Copies a box of an array in global memory to shared memory.

    :ivar of: the phase of the copy, in terms of the inames of its statement; set where waits are placed.
    """

    of: Phase | None = None

    scope: ClassVar[Scope] = Scope.THREAD
    loads_for_others: ClassVar[bool] = False
    completion: ClassVar[Completion] = Completion.PHASE
    asynchronous_proxy: ClassVar[bool] = True
    capability: ClassVar[int] = 90

    @property
    def phase(self) -> Phase | None:
        return self.of

    def issue(self, nest: Nest) -> TmaLoadIssue:
        target, source = _copied_ends(nest)
        own = {x: value for x, value in nest.names.items() if variables(value) & {x.iname for x in nest.loops}}
        target, source = (element_at(e, own) for e in (target, source))
        memory, array = nest.memory_of(target), nest.memory_of(source)
        if memory.space is not AddressSpace.SHARED or array.space is not AddressSpace.GLOBAL:
            raise NoMatchError(f"it copies from {array.space} to {memory.space} memory",
                               "TMA loads from an array in global memory to a temporary in shared memory")
        if memory.dtype != array.dtype:
            raise NoMatchError(f"'{source.aggregate}' is {array.dtype}, and '{target.aggregate}' is {memory.dtype}",
                               f"give '{target.aggregate}' the dtype of the array, and convert where it is read")
        loops = {x.iname: range_of(x) for x in nest.loops}
        axes = _axes_of_box(source, loops, f"'{source.aggregate}'")
        _require_whole_rows(target, memory, loops, [x for x in axes if x is not None])
        start = {x: r.start for x, r in loops.items()}
        box = tuple(1 if x is None else len(loops[x]) for x in axes)
        swizzle = _swizzle(memory, array_of(target))
        name = f"{array_of(source)}_map_{'x'.join(map(str, box))}{'_swizzled' if swizzle else ''}"
        tensor_map = TensorMap(name, array_of(source), box, swizzle)
        requirements(tensor_map, memory.dtype, len(axes))
        _require_zeros_outside(nest)
        assert self.of is not None
        number = add(substitute(self.of.number, dict(nest.assign.instance)))
        return TmaLoadIssue(self, tensor_map, element_at(target, start), tuple(
            add(substitute(i, start)) for i in source.index_tuple), replace(self.of, number=number))


@dataclass(frozen=True)
class TmaLoadIssue(Issue):
    """A copy of a box with its operands.

    :ivar target: the first element of the box in shared memory; *start*: the subscripts of the one in the array.
    """

    tensor_map: TensorMap
    target: p.Subscript
    start: tuple[Expression, ...]
    of: Phase

    noun: ClassVar[str] = "a copy of a box by TMA"
    scope: ClassVar[Scope] = Scope.THREAD
    loads_for_others: ClassVar[bool] = False
    completion: ClassVar[Completion] = Completion.PHASE
    asynchronous_proxy: ClassVar[bool] = True

    @property
    def titles(self) -> tuple[str, ...]:
        start = ", ".join(map(to_text, self.start))
        return (f"{self.instruction.name} by one thread: a box of {self.tensor_map.array} from [{start}], {self.of}",)

    @property
    def phase(self) -> Phase:
        return self.of

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.target, *self.start, self.of.number)

    @property
    def tensor_maps(self) -> tuple[str, ...]:
        return (self.tensor_map.name,)

    @property
    def alignments(self) -> Mapping[str, int]:
        return {array_of(self.target): self.tensor_map.alignment}

    @property
    def made_maps(self) -> tuple[TensorMap, ...]:
        return (self.tensor_map,)

    def passed(self, nest: Nest) -> tuple[Passed, ...]:
        return ()

    def moved(self, nest: Nest) -> MovedBox:
        """:raises NoMatchError: the condition in the statement excludes elements of the array."""
        _require_zeros_outside(nest)
        extents = {f"box_{k}": extent for k, extent in enumerate(self.tensor_map.box) if extent > 1}
        source = tuple(add(i, p.Variable(x)) if (x := f"box_{k}") in extents else i for k, i in enumerate(self.start))
        own = self.target.index_tuple
        shape = nest.memory_of(self.target).shape
        axes = [k for k in range(len(own)) if shape[k] != 1][-len(extents):] if extents else []
        moved = dict(zip(axes, extents, strict=True))
        target = tuple(add(i, p.Variable(moved[k])) if k in moved else i for k, i in enumerate(own))
        return MovedBox(p.Subscript(self.target.aggregate, target),
                        p.Subscript(p.Variable(self.tensor_map.array), source), extents)


# The parts of a nest

def _copied_ends(nest: Nest) -> tuple[p.Subscript, p.Subscript]:
    """The element that the nest writes, and the one that it copies."""
    copied, target = copied_element(nest.assign.value), nest.assign.target
    if copied is None or not isinstance(target, p.Subscript) or nest.assign.combine is not None:
        raise NoMatchError(f"it writes {nest.assign.value}, which is not an element of an array, or 0", _COPY_BOXES)
    return target, copied[0]


def _axes_of_box(element: p.Subscript, loops: Mapping[str, range], what: str) -> tuple[str | None, ...]:
    """For each axis the loop that moves along it, one element an iteration; ``None``: none does."""
    found = list[str | None]()
    for i in element.index_tuple:
        own = [x for x in loops if x in variables(i)]
        if len(own) > 1 or any(x in variables(subtract(i, p.Variable(x))) for x in own):
            raise NoMatchError(f"the subscript {to_text(i)} of {what} is not an iname of the box and a start",
                               "copy elements that follow each other along each axis")
        found.append(own[0] if own else None)
    if wrong := [x for x in loops if found.count(x) != 1]:
        raise NoMatchError(f"'{wrong[0]}' is not in one subscript of {what}",
                           f"leave the loop over '{wrong[0]}' around the box: name the inames of the box")
    return tuple(found)


def _require_whole_rows(target: p.Subscript, memory: ElementMemory, loops: Mapping[str, range], order: list[str]
                        ) -> None:
    """:raises NoMatchError: the box is not a row of elements of *target* in the *order* of its loops."""
    name = f"'{target.aggregate}'"
    axes = _axes_of_box(target, loops, name)
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


def _swizzle(memory: ElementMemory, name: str) -> int:
    """The bytes of a row with swizzled pieces; 0: none; :raises NoMatchError: TMA has no such permutation."""
    own, size = memory.swizzle, memory.dtype.itemsize
    if own is None:
        return 0
    *_, row = memory.shape
    right = own.chunk*size == UNIT and own.period == _ROWS and own.axis == len(memory.shape) - 2
    if not right or not isinstance(row, int) or row*size != _ROW or not _are_whole(memory):
        raise NoMatchError(f"TMA cannot store '{name}' with the swizzle '{own}' of rows of {to_text(row)} elements",
                           f"its swizzle permutes the pieces of 16 bytes of rows of {_ROW} bytes over {_ROWS} rows: "
                           f"swizzle(knl, '{name}', chunk={UNIT // size}) for rows of {_ROW // size} elements")
    return _ROW


def _are_whole(memory: ElementMemory) -> bool:
    """Does each box of rows begin at a multiple of the swizzle's rows?"""
    rows = memory.shape[-2]
    return isinstance(rows, int) and (rows % _ROWS == 0 or len(memory.shape) == 2)


def _require_zeros_outside(nest: Nest) -> None:
    """:raises NoMatchError: the statement may store 0 for an element inside of the array, which TMA loads."""
    copied = copied_element(nest.assign.value)
    assert copied is not None
    element, condition = copied
    if condition is None:
        return
    hint = "pad_domain fills partial tiles with zeros outside of the array alone"
    inside, shape = list[Expression](), nest.memory_of(element).shape
    if len(shape) != len(element.index_tuple):
        raise NoMatchError(f"the shape of '{element.aggregate}' is not known", f"declare the shape of "
                           f"'{element.aggregate}'")
    for i, extent in zip(element.index_tuple, shape, strict=True):
        inside += [p.Comparison(i, ">=", 0), p.Comparison(i, "<", extent)]
    known = {x: value for x, value in nest.names.items() if x in variables(condition)}
    try:
        lost = params_where(p.LogicalAnd((*(substitute(e, known) for e in inside),
                                          p.LogicalNot(substitute(condition, known)))))
    except NotAffineError:
        raise NoMatchError(f"whether {to_text(condition)} holds for all elements of '{element.aggregate}' is not known",
                           hint) from None
    if not lost.is_empty():
        raise NoMatchError(f"it stores 0 for some elements of '{element.aggregate}': where {to_text(condition)} does "
                           "not hold", hint)


#: The instructions by name.
TMA: Mapping[str, TmaLoad] = {"tma.load": TmaLoad("tma.load")}


# CUDA

def _load_text(rank: int) -> str:
    """The function that loads a box of an array with *rank* axes."""
    starts = ", ".join(f"int start_{k}" for k in range(rank))
    places = ", ".join(f"%{3 + k}" for k in range(rank))
    # PTX counts axes from the last
    values = ", ".join(f'"r"(start_{k})' for k in reversed(range(rank)))
    return f"""
// TMA copies a box, of this number of bytes, of the array that the map describes to shared memory, as a part of a phase
// of the mbarrier. With a swizzle, piece p of 16 bytes of row r, of 128 bytes, is stored as piece p ^ (r % 8).
__device__ __forceinline__ void load_box_{rank}d(void *to, const CUtensorMap &map, unsigned int bytes,
    unsigned long long *mbarrier, {starts})
{{
    const unsigned int box = __cvta_generic_to_shared(to), address = __cvta_generic_to_shared(mbarrier);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(address), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {{{places}}}], [%2];"
        :: "r"(box), "l"(&map), "r"(address), {values} : "memory");
}}
"""


def _load_lines(printer: Printer, region: Region, issue: TmaLoadIssue, bounds: LowerBounds) -> Iterator[str]:
    if printer.annotate:
        yield f"// {statement_of(region)}"
    dtype = printer.dtype_of(issue.target)
    bytes_ = issue.tensor_map.bytes_of_box(dtype.itemsize)
    start = ", ".join(printer.value(i, bounds, np.dtype(np.int32)) for i in issue.start)
    yield (f"load_box_{len(issue.start)}d(&{printer.place(issue.target, bounds, dtype)}, {issue.tensor_map.name}, "
           f"{bytes_}, &{slot_text(printer, issue.of, bounds)}, {start});")


CUDA = InstructionText({f"load_box_{rank}d": _load_text(rank) for rank in range(1, 6)}, region=_load_lines)
