"""Values that blocks of one launch hand on, as CUDA text: how one is published, how others wait, and who comes first.

A value never travels without the word that it is there: each 4 bytes of it stand in one word of 8 with a mark, which a
thread writes and another reads at one go. Whoever sees the mark has the bytes, so that no fence is needed, and nothing
can be seen too early. The runtime clears the marks, and the count of started blocks, before each launch.
"""
from __future__ import annotations

from collections.abc import Mapping

from loopkit.lowering.binding import Launch

#: Of the number of a block, in shared memory.
NUMBER_BYTES = 4

#: What the functions need of each other comes first; all of them stand here and nowhere else.
TEXT: Mapping[str, str] = {
    "handed": """
// what blocks hand on: 4 bytes a word, below the mark that they are there
template <typename T> struct handed {
    using type = T;
    static constexpr int count = (sizeof(T) + 3) / 4;
    unsigned long long words[count];
};
""",
    "publish": """
template <typename T> __device__ __forceinline__ void publish(handed<T> *to, typename handed<T>::type value)
{
    unsigned int parts[handed<T>::count] = {};
    memcpy(parts, &value, sizeof(T));
    for (int i = 0; i < handed<T>::count; ++i)
        asm volatile("st.relaxed.gpu.global.u64 [%0], %1;"
                     :: "l"(&to->words[i]), "l"(1ull << 32 | parts[i]) : "memory");
}
""",
    "wait_for": """
template <typename T> __device__ __forceinline__ T wait_for(const handed<T> *from)
{
    unsigned int parts[handed<T>::count];
    for (int i = 0; i < handed<T>::count; ++i) {
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
    "next_block": """
// the number of this block among those of the launch, in the order in which they start
__device__ __forceinline__ unsigned int next_block(unsigned int *started)
{
    __shared__ unsigned int number;
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0)
        number = atomicAdd(started, 1);
    __syncthreads();
    return number;
}
"""}


def coordinates(number: str, launch: Launch) -> Mapping[str, str]:
    """Where the block of a *number* is along each axis of the grid, as text."""
    return {"g.0": number, "g.1": "0", "g.2": "0"} if not {"g.1", "g.2"} & launch.extents.keys() else {
        "g.0": f"({number} % gridDim.x)", "g.1": f"({number} / gridDim.x % gridDim.y)",
        "g.2": f"({number} / gridDim.x / gridDim.y)"}
