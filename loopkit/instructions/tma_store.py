"""TMA stores: one thread starts the copy of a box of shared memory to an array, or its addition to an array.

TMA adds each element by one atomic update. Blocks add to an element in any order, and sums of real numbers are rounded
in that order: the statement is an atomic update. TMA writes no elements outside of the array. The stores that a thread
starts between two commits form a group. A wait for a group ends once TMA has read all that the group stores: shared
memory may then change. Nothing in the same launch reads the array afterwards.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import pymbolic.primitives as p

from loopkit.ast.nodes import Completion, Region
from loopkit.ast.value_ranges import ValueRanges
from loopkit.expr.nodes import to_text
from loopkit.instructions.base import InstructionText, Printer
from loopkit.instructions.boxes import (
    BoxCopy,
    BoxIssue,
    TmaBox,
    box_lines,
    box_names,
    copied_ends,
    end_of,
    place_text,
    start_operands,
    start_text,
)
from loopkit.instructions.nests import MovedBox, Nest, NoMatchError

#: The dtypes in which TMA adds.
_ADDED = ("int32", "uint32", "uint64", "float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True)
class TmaStore(BoxCopy):
    """Copies a box of shared memory to an array in global memory, as far as it lies inside of the array."""

    completion: ClassVar[Completion] = Completion.STORES
    has_condition: ClassVar[bool] = True
    verb: ClassVar[str] = "store"

    def issue(self, nest: Nest) -> TmaStoreIssue:
        target, source = _required_ends(nest, self.combine)
        box = TmaBox.of(nest, source, target, nest.condition)
        if box.tensor_map.steps:
            raise NoMatchError(f"it leaves out elements of '{target.aggregate}' between those that it stores, and TMA "
                               "stores neighbours", "store such elements without TMA")
        dtype = nest.memory_of(source).dtype
        if self.combine is not None and dtype.name not in _ADDED:
            raise NoMatchError(f"'{target.aggregate}' is {dtype}, and TMA adds {', '.join(_ADDED)}",
                               "leave it to the threads, as atomic updates")
        return TmaStoreIssue(self, box)


@dataclass(frozen=True)
class TmaAdd(TmaStore):
    """Adds a box of shared memory to the elements of an array, as far as it lies inside of the array."""

    combine: ClassVar[str | None] = "sum"
    verb: ClassVar[str] = "add"


@dataclass(frozen=True)
class TmaStoreIssue(BoxIssue):
    """A store of a box, or an addition, with its operands."""

    noun: ClassVar[str] = "a store of a box by TMA"
    completion: ClassVar[Completion] = Completion.STORES

    def moved(self, nest: Nest) -> MovedBox:
        """:raises NoMatchError: the statement leaves out other elements of the array."""
        store = self.instruction
        assert isinstance(store, TmaStore)
        target, _ = _required_ends(nest, store.combine)
        self.box.require_end(end_of(nest, target, nest.condition))
        return MovedBox(self.box.element(), self.box.place(nest.memory_of(self.box.tile).shape), self.box.extents,
                        within=self.box.tensor_map.array)


def _required_ends(nest: Nest, combine: str | None) -> tuple[p.Subscript, p.Subscript]:
    """The stored element and its source; :raises NoMatchError: the statement stores zeros in place of some elements."""
    target, source, condition = copied_ends(nest, combine)
    if condition is not None:
        raise NoMatchError(f"it stores 0 where {to_text(condition)} does not hold", "store such zeros in shared memory")
    return target, source


#: The instructions by name.
TMA_STORES: Mapping[str, TmaStore] = {
    **{name: TmaStore(name, row) for name, row in box_names("tma.store")},
    **{name: TmaAdd(name, row) for name, row in box_names("tma.add")}}


# CUDA

#: The words for the effect of a function, and its instruction.
_KINDS = {
    "store": ("goes to the array that the map describes, without the elements outside of the array",
              "cp.async.bulk.tensor", ""),
    "add": ("is added to the array that the map describes, without the elements outside of the\n"
            "// array; the addition of an element is one atomic update", "cp.reduce.async.bulk.tensor", ".add.tile")}


def _store_text(verb: str, rank: int) -> str:
    """The function that stores a box to an array with *rank* axes, or adds it."""
    starts, places, values = start_operands(rank, 2)
    what, name, operation = _KINDS[verb]
    return f"""
// TMA: a box in shared memory {what}
__device__ __forceinline__ void {verb}_box_{rank}d(const void *from, const CUtensorMap &map, {starts})
{{
    const unsigned int box = __cvta_generic_to_shared(from);
    asm volatile("{name}.{rank}d.global.shared::cta{operation}.bulk_group [%0, {{{places}}}], [%1];"
        :: "l"(&map), "r"(box), {values} : "memory");
}}
"""


def _store_lines(printer: Printer, region: Region, issue: TmaStoreIssue, bounds: ValueRanges) -> Iterator[str]:
    box, dtype, store = issue.box, printer.dtype_of(issue.box.tile), issue.instruction
    assert isinstance(store, TmaStore)
    yield from box_lines(printer, region, (
        f"{store.verb}_box_{len(box.coordinates)}d({place_text(printer, box, bounds, dtype)}, "
        f"{start_text(printer, box, bounds)});"))


CUDA = InstructionText({f"{verb}_box_{rank}d": _store_text(verb, rank) for verb in _KINDS for rank in range(1, 6)},
                       region=_store_lines)
