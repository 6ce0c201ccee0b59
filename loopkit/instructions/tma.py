"""TMA, the tensor memory accelerator: one thread starts the copy of a box of an array to shared memory.

The nest of loops around a copy defines the box. A tensor map describes the array. Elements of the box outside of the
array are zeros. A phase of an mbarrier ends when the copies of the phase are performed.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from pymbolic.typing import Expression

from loopkit.ast.nodes import Completion, Region
from loopkit.ast.phases import Phase
from loopkit.ast.value_ranges import ValueRanges
from loopkit.expr.mappers import substitute
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
from loopkit.instructions.nests import MovedBox, Nest
from loopkit.instructions.phases import slot_text
from loopkit.poly.affine import add


@dataclass(frozen=True)
class TmaLoad(BoxCopy):
    """Copies a box of an array in global memory to shared memory.

    :ivar of: the phase of the copy, in terms of the inames of its statement; set where waits are placed.
    """

    of: Phase | None = None

    completion: ClassVar[Completion] = Completion.PHASE

    @property
    def phase(self) -> Phase | None:
        return self.of

    def phase_of(self, nest: Nest) -> Phase:
        """The phase of the copy, at the place of *nest*."""
        assert self.of is not None
        return replace(self.of, number=add(substitute(self.of.number, dict(nest.assign.instance))))

    def issue(self, nest: Nest) -> TmaLoadIssue:
        return TmaLoadIssue(self, TmaBox.of(nest, *copied_ends(nest)), self.phase_of(nest))


@dataclass(frozen=True)
class TmaLoadIssue(BoxIssue):
    """A load of a box with its operands."""

    of: Phase

    completion: ClassVar[Completion] = Completion.PHASE

    @property
    def titles(self) -> tuple[str, ...]:
        return (f"{super().titles[0]}, {self.of}",)

    @property
    def phase(self) -> Phase:
        return self.of

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (*super().operands, self.of.number)

    def moved(self, nest: Nest) -> MovedBox:
        """:raises NoMatchError: the condition in the statement excludes other elements of the array."""
        _, element, condition = copied_ends(nest)
        self.box.require_end(end_of(nest, element, condition))
        return MovedBox(self.box.place(nest.memory_of(self.box.tile).shape), self.box.element(), self.box.extents)


#: The instructions by name.
TMA: Mapping[str, TmaLoad] = {name: TmaLoad(name, row) for name, row in box_names("tma.load")}


# CUDA

def _load_text(rank: int) -> str:
    """The function that loads a box of an array with *rank* axes."""
    starts, places, values = start_operands(rank, 3)
    return f"""
// TMA copies a box, of this number of bytes, of the array that the map describes to shared memory. The thread arrives
// at the mbarrier with these bytes; its phase ends when all bytes have landed. With a swizzle of 16*n bytes, piece p of
// 16 bytes of the 128 bytes number r is stored as piece p ^ (r % n).
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


def load_lines(printer: Printer, region: Region, issue: TmaLoadIssue, bounds: ValueRanges, name: str = "load_box",
               template: str = "", boxes: int = 1) -> Iterator[str]:
    """The call of the function with this *name*, which waits for so many *boxes*."""
    box, dtype = issue.box, printer.dtype_of(issue.box.tile)
    yield from box_lines(printer, region, (
        f"{name}_{len(box.coordinates)}d{template}({place_text(printer, box, bounds, dtype)}, "
        f"{boxes*box.tensor_map.bytes_of_box(dtype.itemsize)}, &{slot_text(printer, issue.of, bounds)}, "
        f"{start_text(printer, box, bounds)});"))


CUDA = InstructionText({f"load_box_{rank}d": _load_text(rank) for rank in range(1, 6)}, region=load_lines)
