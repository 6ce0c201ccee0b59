"""TMA multicast: each block of a cluster starts a share of a copy, which goes to the shared memory of all of them."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pymbolic.primitives as p

from loopkit.ast.nodes import Region
from loopkit.ast.value_ranges import ValueRanges
from loopkit.instructions.base import InstructionText, Printer
from loopkit.instructions.boxes import TmaBox, copied_ends, start_operands
from loopkit.instructions.nests import MovedBox, Nest, NoMatchError, element_at
from loopkit.instructions.tma import TmaLoad, TmaLoadIssue, load_lines
from loopkit.poly.affine import multiply, remainder, subtract


@dataclass(frozen=True)
class TmaMulticast(TmaLoad):
    """Copies a box of an array in global memory to the same place in the shared memory of all blocks of a cluster.

    :ivar blocks: the number of these blocks, which share the copy.
    """

    blocks: int = field(kw_only=True)

    @property
    def titles(self) -> tuple[str, ...]:
        return (*super().titles, f"shared by {self.blocks} blocks")

    def issue(self, nest: Nest) -> TmaMulticastIssue:
        box = TmaBox.of(nest, *copied_ends(nest), self.blocks)
        if box.end is not None:
            raise NoMatchError(f"{self.blocks} blocks cannot share a box of '{box.tensor_map.array}' with an end of "
                               "its own", "copy whole boxes, or leave out cluster")
        return TmaMulticastIssue(self, box, self.phase_of(nest))


@dataclass(frozen=True)
class TmaMulticastIssue(TmaLoadIssue):
    """The share of a block with its operands."""

    instruction: TmaMulticast

    def moved(self, nest: Nest) -> MovedBox:
        """The elements of all shares: those of the blocks before, its own, and those of the blocks behind."""
        own, blocks = super().moved(nest), self.instruction.blocks
        along, share = next(iter(own.extents.items()))
        first = {along: subtract(p.Variable(along), multiply(share, remainder(p.Variable("g.0"), blocks)))}
        return MovedBox(element_at(own.target, first), element_at(own.source, first),
                        {**own.extents, along: share*blocks})


# CUDA

def _share_text(rank: int) -> str:
    """The function that loads a share of a box of an array with *rank* axes."""
    starts, places, values = start_operands(rank, 4)
    return f"""
// TMA copies this block's share of a larger box to the same place in the shared memory of all BLOCKS blocks of the
// cluster. The thread arrives at the mbarrier with the bytes of all shares, and those of each one arrive in all blocks.
template <int BLOCKS> __device__ __forceinline__ void load_share_{rank}d(void *to, const CUtensorMap &map,
    unsigned int bytes, unsigned long long *mbarrier, {starts})
{{
    const unsigned int box = __cvta_generic_to_shared(to), address = __cvta_generic_to_shared(mbarrier);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(address), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {{{places}}}], [%2], %3;"
        :: "r"(box), "l"(&map), "r"(address), "h"((unsigned short)((1 << BLOCKS) - 1)),
        {values} : "memory");
}}
"""


def _share_lines(printer: Printer, region: Region, issue: TmaMulticastIssue, bounds: ValueRanges) -> Iterator[str]:
    blocks = issue.instruction.blocks
    return load_lines(printer, region, issue, bounds, "load_share", f"<{blocks}>", blocks)


CUDA = InstructionText({f"load_share_{rank}d": _share_text(rank) for rank in range(1, 6)}, region=_share_lines)
