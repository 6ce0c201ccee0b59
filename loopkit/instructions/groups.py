"""Commit groups and waits for them, by which a thread completes the asynchronous accesses that it started."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, reduce
from typing import ClassVar

from loopkit.ast.nodes import Completion, E, Instruction
from loopkit.instructions.base import InstructionText
from loopkit.poly.sets import Map


@dataclass(frozen=True)
class CommitGroup(Instruction):
    """A thread commits: the asynchronous accesses that it started since its last commit form a commit group."""

    noun: ClassVar[str] = "a commit"
    titles: ClassVar[tuple[str, ...]] = ("commit group",)


@dataclass(frozen=True)
class WaitGroup(Instruction):
    """A thread waits until all of its groups but the *pending* newest are performed."""

    pending: int

    noun: ClassVar[str] = "a wait for a group"
    completes: ClassVar[Completion | None] = Completion.GROUP

    @property
    def titles(self) -> tuple[str, ...]:
        return (f"wait for all groups but {self.pending}" if self.pending else "wait for all groups",)

    def waits_for(self, access: E, own: E, places: Mapping[E, tuple[Instruction, ...]], first: Callable[[E, E], Map],
                  in_phase: Callable[[E, E], Map | None]) -> Map | None:
        """The pairs with at least *pending* commits between that of the access and the wait."""
        ends = [place for place, instructions in places.items() if commits(instructions)]

        @cache
        def behind(place: E, number: int) -> Map | None:
            """The pairs of the access and *place* with at least that *number* of commits between."""
            if not number:
                return first(access, place)
            some = [earlier.apply_range(first(end, place)) for end in ends
                    if (earlier := behind(end, number - 1)) is not None]
            return reduce(Map.union, some) if some else None
        return behind(own, self.pending + (own not in ends))


def commits(instructions: Iterable[Instruction]) -> bool:
    """Does a thread commit a group by one of *instructions*?"""
    return any(isinstance(i, CommitGroup) for i in instructions)


def pending(instructions: Iterable[Instruction]) -> int | None:
    """The number of groups that may be pending after *instructions*; ``None``: there is no wait among them."""
    return next((i.pending for i in instructions if isinstance(i, WaitGroup)), None)


def group_instructions(*, commit: bool, leaving: int | None) -> tuple[Instruction, ...]:
    """A commit if *commit*, then a wait for all but *leaving* groups if that is a number."""
    return (*((CommitGroup(),) if commit else ()), *(() if leaving is None else (WaitGroup(leaving),)))


# CUDA

CUDA_COMMIT = InstructionText({"end_copy_group": """
// the copies that the thread began since the last group are one
__device__ __forceinline__ void end_copy_group()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
"""}, sync=lambda *_: ["end_copy_group();"])

CUDA_WAIT = InstructionText({"wait_for_copies": """
// until all groups of the thread but the NEWEST newest are done
template <int NEWEST> __device__ __forceinline__ void wait_for_copies()
{
    asm volatile("cp.async.wait_group %0;" :: "n"(NEWEST) : "memory");
}
"""}, sync=lambda _, wait, __: [f"wait_for_copies<{wait.pending}>();"])
