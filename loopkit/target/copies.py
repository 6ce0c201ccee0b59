"""Asynchronous copies as CUDA text: what a thread begins, how its groups end, and how it waits for them."""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from loopkit.ast.nodes import Assign, For, Scope, Sync
from loopkit.errors import PreconditionError
from loopkit.instructions.asynchronous_copy import AsynchronousCopy, is_asynchronous_copy
from loopkit.instructions.groups import commits, pending
from loopkit.instructions.vector_access import Vector, vectors_of
from loopkit.kernel.devices import DeviceLimits
from loopkit.lowering.binding import Launch
from loopkit.lowering.pipeline import Lowered
from loopkit.lowering.storage import serves

#: The first architecture that has them.
FIRST = 80

#: The functions by name; NVRTC has no header for them, so that they are spelled in PTX here and nowhere else.
TEXT = {
    "copy_async": """
// cp.async: BYTES bytes go to shared memory while the thread goes on; 16 pass by the first cache
template <int BYTES> __device__ __forceinline__ void copy_async(void *shared, const void *global)
{
    const unsigned int to = __cvta_generic_to_shared(shared);
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(global) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" :: "r"(to), "l"(global), "n"(BYTES) : "memory");
}
""",
    "end_copy_group": """
// the copies that the thread began since the last group are one
__device__ __forceinline__ void end_copy_group()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
""",
    "wait_for_copies": """
// until all groups of the thread but the NEWEST newest are done
template <int NEWEST> __device__ __forceinline__ void wait_for_copies()
{
    asm volatile("cp.async.wait_group %0;" :: "n"(NEWEST) : "memory");
}
"""}


def sync_lines(sync: Sync, used: set[str]) -> Iterator[str]:
    """What a thread does with its groups, and the barrier; *used*: functions that are."""
    if commits(sync.instructions):
        used.add("end_copy_group")
        yield "end_copy_group();"
    if (left := pending(sync.instructions)) is not None:
        used.add("wait_for_copies")
        yield f"wait_for_copies<{left}>();"
    if sync.scope is not Scope.THREAD:
        yield "__syncwarp();" if sync.scope is Scope.WARP else "__syncthreads();"


def one_copy(target: str, source: str, size: int) -> str:
    """The copy of *size* bytes."""
    return f"copy_async<{size}>(&{target}, &{source});"


def moved_vectors(loop: For) -> tuple[Vector, Vector] | None:
    """What *loop* copies from and to, if its copies are asynchronous and whole vectors."""
    match loop.body.children:
        case (Assign() as assign,) if is_asynchronous_copy(assign):
            loaded = [v for v in vectors_of(loop) if v.loaded]
            stored = [v for v in vectors_of(loop) if v.stored]
            if len(loaded) == len(stored) == 1 and loaded[0].length == stored[0].length:
                return loaded[0], stored[0]
        case _:
            pass
    return None


def vector_copies(loop: For, vectors: tuple[Vector, Vector], first: tuple[str, str], each: tuple[str, str], index: str,
                  dtype: np.dtype) -> Iterator[str]:
    """The copies of a loop, whole vectors at a time.

    :arg first: the first elements, of the source and of the target; *each*: those in terms of the loop's variable.
    """
    length = vectors[0].length
    assert isinstance(loop.start, int)
    assert isinstance(loop.stop, int)
    if loop.stop - loop.start == length:
        yield one_copy(first[1], first[0], length * dtype.itemsize)
        return
    x = loop.iname
    yield "#pragma unroll"
    yield f"for ({index} {x} = {loop.start}; {x} < {loop.stop}; {x} += {length})"
    yield f"    {one_copy(each[1], each[0], length * dtype.itemsize)}"


def require_hardware(lowered: Lowered, launch: Launch, limits: DeviceLimits) -> None:
    """:raises PreconditionError: the architecture has no asynchronous copies, or one does not go to shared memory."""
    for bound in launch.statements.values():
        s = bound.statement
        if not any(isinstance(i, AsynchronousCopy) for i in s.instructions):
            continue
        if not serves(AsynchronousCopy(), s, lowered.storages):
            raise PreconditionError(
                f"'{s.id}' is asynchronous, but '{s.written}' is {lowered.storages[s.written].space} and not in shared "
                "memory.", subject=s.id, hint="let other threads read it too, or copy it as other values")
        if limits.capability < FIRST:
            raise PreconditionError(
                f"'{s.id}' is asynchronous, and {limits.arch} has no asynchronous copies.", subject=s.id,
                hint=f"target sm_{FIRST} or later, or pipeline(..., asynchronous=False)")
