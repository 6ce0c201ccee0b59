"""Turns of warpgroups: one after another runs a part of a loop, while the others run the rest of it."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from loopkit.ast.nodes import Instruction, Scope, Sync
from loopkit.instructions.base import InstructionText
from loopkit.instructions.phases import ArrivePhase

#: A block has 16 named barriers: the first two are for all threads and for the consumers.
MOST = 14


@dataclass(frozen=True)
class Turn(Instruction):
    """The threads of a warpgroup start all turns, wait for the *begin* of theirs, or *end* it.

    A turn of the first warpgroup begins after the last one's turn before, and each other one after that of the
    warpgroup before it.

    :ivar warpgroups: the number of those that take turns: the first ones of the block.
    """

    act: Literal["start", "begin", "end"]
    warpgroups: int

    noun: ClassVar[str] = "a turn of a warpgroup"
    scope: ClassVar[Scope] = Scope.WARPGROUP
    capability: ClassVar[int] = 80

    @property
    def titles(self) -> tuple[str, ...]:
        return ({"start": f"turns of {self.warpgroups} warpgroups", "begin": "begin of a turn",
                 "end": "end of a turn"}[self.act],)


def others_may_wait(sync: Sync) -> bool:
    """Do warpgroups meet here, or may the producer wait until all of them come here? No turn has such a place."""
    return sync.scope >= Scope.BLOCK or any(isinstance(i, ArrivePhase | Turn) for i in sync.instructions)


# CUDA

def _turn_text(_: object, of: Turn, __: object) -> Iterator[str]:
    yield f"{of.act}_turn{'s' if of.act == 'start' else ''}<{of.warpgroups}>();"


CUDA = InstructionText({
    "start_turns": """
// Each of COUNT warpgroups has a named barrier, at which it waits for its turn. The last warpgroup arrives at that
// of warpgroup 0, which then begins.
template <int COUNT> __device__ __forceinline__ void start_turns()
{
    if (threadIdx.x / 128 == COUNT - 1)
        asm volatile("bar.arrive 2, 256;" ::: "memory");
}
""", "begin_turn": """
// waits until the warpgroup before has ended its turn
template <int COUNT> __device__ __forceinline__ void begin_turn()
{
    asm volatile("bar.sync %0, 256;" :: "r"(2 + threadIdx.x / 128) : "memory");
}
""", "end_turn": """
// lets the next warpgroup begin its turn
template <int COUNT> __device__ __forceinline__ void end_turn()
{
    asm volatile("bar.arrive %0, 256;" :: "r"(2 + (threadIdx.x / 128 + 1) % COUNT) : "memory");
}
"""}, sync=_turn_text)
