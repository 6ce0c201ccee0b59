"""Fences: they order accesses of a thread before later ones by matrix units or by TMA."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from loopkit.ast.nodes import Completion, E, Instruction
from loopkit.instructions.base import InstructionText
from loopkit.instructions.groups import kept_below
from loopkit.poly.sets import Map


@dataclass(frozen=True)
class Fence(Instruction):
    """A fence of a thread, after which its earlier accesses count as performed for the instructions of an event."""

    def waits_for(self, access: E, own: E, places: Mapping[E, tuple[Instruction, ...]], first: Callable[[E, E], Map],
                  in_phase: Callable[[E, E], Map | None]) -> Map | None:
        """All earlier accesses."""
        return first(access, own)


@dataclass(frozen=True)
class ProxyFence(Fence):
    """Accesses of the thread to shared memory come before later ones through the asynchronous proxy."""

    noun: ClassVar[str] = "a proxy fence"
    completes: ClassVar[Completion | None] = Completion.PROXY
    capability: ClassVar[int] = 90


@dataclass(frozen=True)
class RegisterFence(Fence):
    """Accesses of the thread to registers come before later asynchronous ones.

    :ivar registers: the arrays in these registers.
    """

    registers: tuple[str, ...] = field(default=(), compare=False)

    noun: ClassVar[str] = "a register fence"
    completes: ClassVar[Completion | None] = Completion.REGISTERS
    capability: ClassVar[int] = 90


# CUDA

CUDA_PROXY = InstructionText({"proxy_fence": """
// makes the thread's stores to shared memory visible to the matrix units and to TMA (asynchronous proxy)
__device__ __forceinline__ void proxy_fence()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
"""}, sync=lambda *_: ["proxy_fence();"])

CUDA_REGISTERS = InstructionText({"register_fence": """
// orders the threads' accesses to registers before later products of the warpgroup
__device__ __forceinline__ void register_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
"""}, sync=lambda printer, fence, _: [*kept_below(printer, fence.registers), "register_fence();"])
