"""The registers of a role's threads: those of the producer give some to those of the consumers."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from pymbolic.typing import Expression

from loopkit.ast.nodes import Instruction, Scope
from loopkit.errors import PreconditionError
from loopkit.instructions.base import InstructionText

#: The registers of a multiprocessor, and most of a thread. A number of registers is a multiple of a unit.
EVERY, MOST, UNIT, LEAST = 65536, 255, 8, 24


@dataclass(frozen=True)
class SetRegisters(Instruction):
    """All warps of a warpgroup change the number of their registers.

    :ivar count: those of a thread; *more*: it had fewer.
    """

    count: int
    more: bool

    noun: ClassVar[str] = "a number of registers"
    scope: ClassVar[Scope] = Scope.WARPGROUP
    capability: ClassVar[int] = 90
    only_on: ClassVar[str] = "sm_90a"

    @property
    def titles(self) -> tuple[str, ...]:
        return (f"{self.count} registers a thread",)


def registers_of_roles(producers: int, threads: Expression, consumers: int) -> tuple[int, int]:
    """The registers of a thread of the producer's warpgroup, which has *producers*, and of a consumer.

    :arg threads: those of a block, which are alone on their multiprocessor; *consumers* of them are consumers.
    :raises PreconditionError: consumers would not have more than if all had as many.
    """
    assert isinstance(threads, int)
    each = min(EVERY // threads, MOST) // UNIT*UNIT
    more = min((each*threads - producers*(threads - consumers)) // consumers, MOST) // UNIT*UNIT
    if more <= each:
        raise PreconditionError(f"Each of {threads} threads can have {each} registers, so that consumers need none of "
                                "the producer's.", subject="registers",
                                hint="fewer registers=, or none in specialize_warps")
    return producers, more


# CUDA

def _sync(_: object, of: SetRegisters, __: object) -> Iterator[str]:
    yield f"{'take' if of.more else 'give'}_registers<{of.count}>();"


CUDA = InstructionText({
    "give_registers": """
// the threads of a warpgroup keep COUNT registers each, and others can take the rest
template <int COUNT> __device__ __forceinline__ void give_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(COUNT));
}
""", "take_registers": """
// the threads of a warpgroup wait until they have COUNT registers each
template <int COUNT> __device__ __forceinline__ void take_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(COUNT));
}
"""}, sync=_sync)
