"""Phases of mbarriers: asynchronous copies end a phase, and any thread of the block waits for its end.

A ring has a slot in shared memory, an mbarrier, for each phase that can be under way. A wait tells a phase from the one
before it in the same slot by the parity of its number. So a thread must have waited for each earlier phase, and no copy
of the next phase of the slot may start before all threads have waited.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Completion, E, Instruction, Scope
from loopkit.ast.phases import Phase
from loopkit.ast.value_ranges import ValueRanges
from loopkit.instructions.base import InstructionText, Printer
from loopkit.poly.affine import add
from loopkit.poly.sets import Map

#: The dtype of a slot.
SLOT = np.dtype(np.uint64)


@dataclass(frozen=True)
class StartPhases(Instruction):
    """A thread prepares the *slots* of a *ring*; each phase has *copies* copies.

    :ivar filled: the temporaries that these copies write.
    """

    ring: str
    slots: int
    copies: int
    filled: tuple[str, ...] = ()

    noun: ClassVar[str] = "the start of a ring of phases"
    capability: ClassVar[int] = 90

    @property
    def note(self) -> str:
        """A remark for readers of the generated code."""
        return f"mbarriers for the copies to {' and '.join(self.filled)}"

    @property
    def titles(self) -> tuple[str, ...]:
        return (f"start {self.ring}: {self.slots} slots, {self.copies} copies a phase",)


@dataclass(frozen=True)
class WaitPhase(Instruction):
    """A thread waits for the end of a phase."""

    of: Phase

    noun: ClassVar[str] = "a wait for a phase"
    completes: ClassVar[Completion | None] = Completion.PHASE
    completes_for: ClassVar[Scope] = Scope.BLOCK
    capability: ClassVar[int] = 90

    @property
    def titles(self) -> tuple[str, ...]:
        return (f"wait for {self.of}",)

    @property
    def phase(self) -> Phase:
        return self.of

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.of.number,)

    def with_values(self, change: Callable[[Expression], Expression]) -> WaitPhase:
        return WaitPhase(replace(self.of, number=add(change(self.of.number))))

    def waits_for(self, access: E, own: E, places: Mapping[E, tuple[Instruction, ...]], first: Callable[[E, E], Map],
                  in_phase: Callable[[E, E], Map | None]) -> Map | None:
        """The pairs of one phase; the access is started before the wait."""
        pairs = in_phase(access, own)
        return None if pairs is None else pairs.intersect(first(access, own))


# CUDA

CUDA_START = InstructionText({"start_phases": """
// thread 0 prepares mbarriers; a phase of one ends when COPIES copies have arrived
template <int COPIES, int COUNT> __device__ __forceinline__ void start_phases(unsigned long long (&mbarriers)[COUNT])
{
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
        for (int i = 0; i < COUNT; ++i)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                :: "r"(static_cast<unsigned int>(__cvta_generic_to_shared(&mbarriers[i]))), "n"(COPIES) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
}
"""}, sync=lambda _, start, __: [f"start_phases<{start.copies}>({start.ring});"])


def slot_text(printer: Printer, phase: Phase, bounds: ValueRanges) -> str:
    """The mbarrier of a phase."""
    slot = phase.number if bounds.below(phase.number, phase.slots) else phase.slot
    return printer.place(p.Subscript(p.Variable(phase.ring), (slot,)), bounds)


def _wait_lines(printer: Printer, wait: WaitPhase, bounds: ValueRanges) -> Iterator[str]:
    parity = printer.value(wait.of.parity, bounds, np.dtype(np.int32))
    yield f"wait_for_phase(&{slot_text(printer, wait.of, bounds)}, {parity});"


CUDA_WAIT = InstructionText({"wait_for_phase": """
// until the phase of the mbarrier has ended whose number, counted from 0, has this parity
__device__ __forceinline__ void wait_for_phase(unsigned long long *mbarrier, int parity)
{
    const unsigned int address = __cvta_generic_to_shared(mbarrier);
    for (unsigned int ended = 0; !ended;)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(ended) : "r"(address), "r"(parity) : "memory");
}
"""}, sync=_wait_lines)
