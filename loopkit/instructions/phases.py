"""Phases of mbarriers: asynchronous copies end a phase, and any thread of the block waits for its end.

A ring has a slot in shared memory, an mbarrier, for each phase that can be under way. A wait tells a phase from the one
before it in the same slot by the parity of its number. So a thread must have waited for each earlier phase, and no copy
of the next phase of the slot may start before all threads have waited.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Completion, E, Instruction, Scope
from loopkit.ast.phases import Phase
from loopkit.ast.value_ranges import ValueRanges
from loopkit.instructions.base import InstructionText, Printer, if_else
from loopkit.poly.affine import add, readable_comparison
from loopkit.poly.sets import Map

#: The dtype of a slot.
SLOT = np.dtype(np.uint64)

#: The slots whose parities a thread can keep in one variable.
MOST_COUNTED = 32


@dataclass(frozen=True)
class StartPhases(Instruction):
    """A thread prepares the *slots* of a *ring*; each phase has so many *arrivals*, of copies or of warps.

    :ivar tiles: the temporaries that these copies write, or that the warps have read.
    :ivar empty: warps arrive, when they have read a tile.
    :ivar in_tiles: blocks run several places of the grid, so that threads count the phases of a slot themselves.
    """

    ring: str
    slots: int
    arrivals: int
    tiles: tuple[str, ...] = ()
    empty: bool = False
    in_tiles: bool = False

    noun: ClassVar[str] = "the start of a ring of phases"
    capability: ClassVar[int] = 90

    @property
    def note(self) -> str:
        """A remark for readers of the generated code."""
        tiles = " and ".join(self.tiles)
        return "mbarriers: " + (f"a warp arrives when it has read {tiles}" if self.empty else
                                f"a phase ends when the copies to {tiles} have landed")

    @property
    def titles(self) -> tuple[str, ...]:
        return (f"start {self.ring}: {self.slots} slots, {self.arrivals} arrivals a phase",)


@dataclass(frozen=True)
class SyncOfPhase(Instruction):
    """Threads wait for a phase, or have done their part of it."""

    of: Phase

    capability: ClassVar[int] = 90

    @property
    def phase(self) -> Phase:
        return self.of

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.of.number,)

    def with_values(self, change: Callable[[Expression], Expression]) -> Self:
        return replace(self, of=replace(self.of, number=add(change(self.of.number))))


@dataclass(frozen=True)
class WaitPhase(SyncOfPhase):
    """A thread waits for the end of a phase."""

    noun: ClassVar[str] = "a wait for a phase"
    completes: ClassVar[Completion | None] = Completion.PHASE
    completes_for: ClassVar[Scope] = Scope.BLOCK

    @property
    def titles(self) -> tuple[str, ...]:
        return (f"wait for {self.of}",)

    def waits_for(self, access: E, own: E, places: Mapping[E, tuple[Instruction, ...]], first: Callable[[E, E], Map],
                  in_phase: Callable[[E, E], Map | None]) -> Map | None:
        """The pairs of one phase: it ends after the access, wherever that is started."""
        return in_phase(access, own)


@dataclass(frozen=True)
class ArrivePhase(SyncOfPhase):
    """The threads of a warp have done their part of a phase; nothing happens if its number is negative.

    :ivar blocks: they arrive in so many blocks of a cluster, which all have the phase.
    """

    blocks: int = 1

    noun: ClassVar[str] = "an arrival"
    scope: ClassVar[Scope] = Scope.WARP

    @property
    def titles(self) -> tuple[str, ...]:
        return (f"arrive for {self.of}",)


# CUDA

CUDA_START = InstructionText({"start_phases": """
// thread 0 initializes mbarriers. A phase ends after ARRIVALS arrivals and all bytes that they announce.
template <int ARRIVALS, int COUNT> __device__ __forceinline__ void start_phases(unsigned long long (&mbarriers)[COUNT])
{
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
        for (int i = 0; i < COUNT; ++i)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                :: "r"(static_cast<unsigned int>(__cvta_generic_to_shared(&mbarriers[i]))), "n"(ARRIVALS) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
}
"""}, sync=lambda _, start, __: [*([f"unsigned int {parities_of(start.ring)} = {'~0u' if start.empty else '0u'};"]
                                 if start.in_tiles else []), f"start_phases<{start.arrivals}>({start.ring});"])


def parities_of(ring: str) -> str:
    """The name of a thread's variable with a bit for each slot of *ring*: the parity of the phase that it waits for."""
    return f"{ring}_parities_"


def slot_text(printer: Printer, phase: Phase, bounds: ValueRanges) -> str:
    """The mbarrier of a phase."""
    return printer.place(p.Subscript(p.Variable(phase.ring), (slot_of(phase, bounds),)), bounds)


def slot_of(phase: Phase, bounds: ValueRanges) -> Expression:
    """The slot of a phase, in few operations."""
    return phase.number if bounds.below(phase.number, phase.slots) else phase.slot


def _wait_lines(printer: Printer, wait: WaitPhase, bounds: ValueRanges) -> Iterator[str]:
    if wait.of.in_tile:
        slot = printer.value(slot_of(wait.of, bounds), bounds, np.dtype(np.int32))
        yield f"wait_for_next_phase({wait.of.ring}, {slot}, {parities_of(wait.of.ring)});"
        return
    parity = printer.value(wait.of.parity, bounds, np.dtype(np.int32))
    yield f"wait_for_phase(&{slot_text(printer, wait.of, bounds)}, {parity});"


CUDA_WAIT = InstructionText({"wait_for_phase": """
// waits until the phase of this parity has ended, which is the current phase of the mbarrier or the one before it
__device__ __forceinline__ void wait_for_phase(unsigned long long *mbarrier, int parity)
{
    const unsigned int address = __cvta_generic_to_shared(mbarrier);
    for (unsigned int ended = 0; !ended;)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(ended) : "r"(address), "r"(parity) : "memory");
}
""", "wait_for_next_phase": """
// waits for the next phase of this slot. Bit s of parities is the parity for which this thread waits next at slot s.
// A slot that is free from the start begins with 1, since the phase before the first one counts as ended.
template <int COUNT> __device__ __forceinline__ void wait_for_next_phase(
    unsigned long long (&mbarriers)[COUNT], int slot, unsigned int &parities)
{
    wait_for_phase(&mbarriers[slot], parities >> slot & 1);
    parities ^= 1u << slot;
}
"""}, sync=_wait_lines)


def _arrival_lines(printer: Printer, arrival: ArrivePhase, bounds: ValueRanges) -> Iterator[str]:
    condition = readable_comparison(arrival.of.number, ">=", 0)
    name = "arrive_as_warp" if arrival.blocks == 1 else f"arrive_in_cluster<{arrival.blocks}>"
    line = f"{name}(&{slot_text(printer, arrival.of, bounds.where(condition))});"
    if bounds.nonnegative(arrival.of.number):
        yield line
    else:
        yield from if_else(printer.condition(condition, bounds), [line])


CUDA_ARRIVE = InstructionText({"cluster_barrier": """
// all threads of the blocks of a cluster wait for each other
__device__ __forceinline__ void cluster_barrier()
{
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
}
""", "arrive_in_cluster": """
// all threads of the warp have done their part of the mbarrier's phase: the warp arrives once in each of the BLOCKS
// blocks of the cluster, at the mbarrier with the same place in shared memory
template <int BLOCKS> __device__ __forceinline__ void arrive_in_cluster(unsigned long long *mbarrier)
{
    const unsigned int address = __cvta_generic_to_shared(mbarrier), block = threadIdx.x % 32;
    __syncwarp();
    if (block < BLOCKS)
        asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; "
            "mbarrier.arrive.shared::cluster.b64 _, [there]; }" :: "r"(address), "r"(block) : "memory");
}
""", "barrier_of_consumers": """
// the first threads of the block, all but the warp of the producer, wait for each other
template <int THREADS> __device__ __forceinline__ void barrier_of_consumers()
{
    asm volatile("bar.sync 1, %0;" :: "n"(THREADS) : "memory");
}
""", "arrive_as_warp": """
// all threads of the warp have done their part of the mbarrier's phase: the warp arrives once
__device__ __forceinline__ void arrive_as_warp(unsigned long long *mbarrier)
{
    const unsigned int address = __cvta_generic_to_shared(mbarrier);
    __syncwarp();
    if (threadIdx.x % 32 == 0)
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(address) : "memory");
}
"""}, sync=_arrival_lines)
