"""Inter-block flag: a thread stores a value together with a flag, and a thread of another block waits for the flag.

Each 8-byte access has 4 bytes of the value and a flag, and is atomic, so that no fence is needed. A block waits only
for blocks that started earlier: blocks take tickets in the order in which they start.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign, Completion, Instruction
from loopkit.ast.value_ranges import ValueRanges
from loopkit.expr.mappers import variables
from loopkit.instructions.base import ElementText, InstructionText, Printer


@dataclass(frozen=True)
class BlockFlag(Instruction):
    """The flags that an assignment sets and waits for.

    :ivar stores: it sets the flag of its target.
    :ivar loads: the arrays whose flags it waits for, in its value or in a subscript of its target.
    """

    stores: bool = False
    loads: tuple[str, ...] = ()

    noun: ClassVar[str] = "an inter-block flag"
    completion: ClassVar[Completion] = Completion.FLAG

    def claims(self, element: Expression, target: Expression) -> bool:
        return not variables(element).isdisjoint(self.loads)

    def accessing(self, *, stores: bool, loads: tuple[str, ...]) -> BlockFlag:
        return BlockFlag(stores, loads)

    @property
    def titles(self) -> tuple[str, ...]:
        waits = (f"waits for flags of {', '.join(self.loads)}",) if self.loads else ()
        return (*(("sets a flag",) if self.stores else ()), *waits)


# CUDA

def _storing(printer: Printer, node: Assign, flag: BlockFlag, bounds: ValueRanges) -> list[str] | None:
    if not flag.stores:
        return None
    dtype = printer.dtype_of(node.target)
    place, value = printer.place(node.target, bounds, dtype), printer.value(node.value, bounds, dtype)
    return [f"store_with_flag(&{place}, {value});"]


#: In the order in which the functions need each other.
CUDA = InstructionText({
    "flagged": """
// a value that one block passes to another: 4 bytes of it in each word, below a flag that is set once they are there
template <typename T> struct flagged {
    using type = T;
    static constexpr int count = (sizeof(T) + 3) / 4;
    unsigned long long words[count];
};
""",
    "store_with_flag": """
template <typename T> __device__ __forceinline__ void store_with_flag(flagged<T> *to, typename flagged<T>::type value)
{
    unsigned int parts[flagged<T>::count] = {};
    memcpy(parts, &value, sizeof(T));
    for (int i = 0; i < flagged<T>::count; ++i)
        asm volatile("st.relaxed.gpu.global.u64 [%0], %1;"
                     :: "l"(&to->words[i]), "l"(1ull << 32 | parts[i]) : "memory");
}
""",
    "wait_for": """
template <typename T> __device__ __forceinline__ T wait_for(const flagged<T> *from)
{
    unsigned int parts[flagged<T>::count];
    for (int i = 0; i < flagged<T>::count; ++i) {
        unsigned long long word;
        do
            asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(&from->words[i]) : "memory");
        while (word >> 32 == 0);
        parts[i] = word;
    }
    T value;
    memcpy(&value, parts, sizeof(T));
    return value;
}
""",
    "take_ticket": """
// the number of this block among those of the launch, in the order in which they start
__device__ __forceinline__ unsigned int take_ticket(unsigned int *started)
{
    __shared__ unsigned int number;
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0)
        number = atomicAdd(started, 1);
    __syncthreads();
    return number;
}
"""}, assignment=_storing, loads=lambda flag: dict.fromkeys(flag.loads, "wait_for"),
    element=ElementText(lambda name: f"flagged<{name}>", lambda size: 8 * -(-size // 4)))

#: Bytes of shared memory by which a block takes a ticket.
TICKET_BYTES = 4
