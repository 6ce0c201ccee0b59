"""Commit groups and waits for them, by which a thread completes the asynchronous accesses that it started."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce
from typing import ClassVar

import pymbolic.primitives as p

from loopkit.ast.nodes import Completion, E, Instruction
from loopkit.ast.value_ranges import ValueRanges
from loopkit.instructions.base import InstructionText, Printer
from loopkit.instructions.nests import WORD
from loopkit.poly.sets import Map


@dataclass(frozen=True)
class CommitGroup(Instruction):
    """A thread commits: the asynchronous accesses that it started since its last commit form a commit group.

    :ivar of: the event at which these accesses are performed.
    """

    of: Completion = Completion.GROUP

    noun: ClassVar[str] = "a commit"

    @property
    def titles(self) -> tuple[str, ...]:
        return (f"commit {self.of.value}",)


@dataclass(frozen=True)
class WaitGroup(Instruction):
    """A thread waits until all of its groups but the *pending* newest are performed.

    :ivar of: the event at which accesses of these groups are performed.
    :ivar registers: the arrays in registers of the thread whose uses rely on this wait.
    """

    pending: int
    of: Completion = Completion.GROUP
    registers: tuple[str, ...] = field(default=(), compare=False)

    noun: ClassVar[str] = "a wait for a group"

    @property
    def completes(self) -> Completion | None:       # type: ignore[override]
        return self.of

    @property
    def titles(self) -> tuple[str, ...]:
        groups = self.of.value.replace("group", "groups")
        return (f"wait for all {groups} but {self.pending}" if self.pending else f"wait for all {groups}",)

    def waits_for(self, access: E, own: E, places: Mapping[E, tuple[Instruction, ...]], first: Callable[[E, E], Map],
                  in_phase: Callable[[E, E], Map | None]) -> Map | None:
        """The pairs with at least *pending* commits between that of the access and the wait."""
        ends = [place for place, instructions in places.items() if commits(instructions, self.of)]

        @cache
        def behind(place: E, number: int) -> Map | None:
            """The pairs of the access and *place* with at least that *number* of commits between."""
            if not number:
                return first(access, place)
            some = [earlier.apply_range(first(end, place)) for end in ends
                    if (earlier := behind(end, number - 1)) is not None]
            return reduce(Map.union, some) if some else None
        return behind(own, self.pending + (own not in ends))


def commits(instructions: Iterable[Instruction], of: Completion = Completion.GROUP) -> bool:
    """Does a thread commit a group of accesses that are performed at *of*, by one of *instructions*?"""
    return any(isinstance(i, CommitGroup) and i.of is of for i in instructions)


def wait_of(instructions: Iterable[Instruction], of: Completion = Completion.GROUP) -> WaitGroup | None:
    """The one of *instructions* that waits for such groups."""
    return next((i for i in instructions if isinstance(i, WaitGroup) and i.of is of), None)


def pending(instructions: Iterable[Instruction], of: Completion = Completion.GROUP) -> int | None:
    """The number of such groups that may be pending after *instructions*; ``None``: there is no wait among them."""
    wait = wait_of(instructions, of)
    return None if wait is None else wait.pending


def group_instructions(*, commit: bool, leaving: int | None) -> tuple[Instruction, ...]:
    """A commit of copies if *commit*, then a wait for all but *leaving* groups if that is a number."""
    return with_wait((), WaitGroup(leaving or 0), commit=commit, waits=leaving is not None)


def with_wait(instructions: Iterable[Instruction], wait: WaitGroup, *, commit: bool, waits: bool = True
              ) -> tuple[Instruction, ...]:
    """*instructions* with a commit if *commit*, and *wait* if it *waits*, in the place of their own ones."""
    others = [i for i in instructions if not (isinstance(i, CommitGroup | WaitGroup) and i.of is wait.of)]
    return (*((CommitGroup(wait.of),) if commit else ()), *((wait,) if waits else ()), *others)


# CUDA

_HELPERS = {"end_copy_group": """
// commits the copies that the thread started since the last commit as one group
__device__ __forceinline__ void end_copy_group()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
""", "wait_for_copies": """
// waits until all groups of the thread but the NEWEST newest are done
template <int NEWEST> __device__ __forceinline__ void wait_for_copies()
{
    asm volatile("cp.async.wait_group %0;" :: "n"(NEWEST) : "memory");
}
""", "end_product_group": """
// commits the products that the warpgroup started since the last commit as one group
__device__ __forceinline__ void end_product_group()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
""", "wait_for_products": """
// waits until all groups of products but the NEWEST newest are done
template <int NEWEST> __device__ __forceinline__ void wait_for_products()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(NEWEST) : "memory");
}
""", "end_store_group": """
// commits the stores by TMA that the thread started since the last commit as one group
__device__ __forceinline__ void end_store_group()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
""", "wait_for_stores": """
// waits until TMA has read the shared memory of all store groups of the thread but the NEWEST newest
template <int NEWEST> __device__ __forceinline__ void wait_for_stores()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(NEWEST) : "memory");
}
""", "keep_below": """
// the compiler moves no use of these registers further up
__device__ __forceinline__ void keep_below(float &x) { asm volatile("" : "+f"(x) :: "memory"); }
__device__ __forceinline__ void keep_below(int &x) { asm volatile("" : "+r"(x) :: "memory"); }
template <class T, int COUNT> __device__ __forceinline__ void keep_below(T (&x)[COUNT])
{
    #pragma unroll
    for (int i = 0; i < COUNT; ++i)
        keep_below(x[i]);
}
""", "keep_words_below": """
// the same for elements of registers of 32 bits, which have several elements each
template <class T> __device__ __forceinline__ void keep_words_below(T &x)
{
    unsigned int (&words)[sizeof(T) / 4] = reinterpret_cast<unsigned int (&)[sizeof(T) / 4]>(x);
    #pragma unroll
    for (int i = 0; i < sizeof(T) / 4; ++i)
        asm volatile("" : "+r"(words[i]) :: "memory");
}
"""}


#: Names of functions contain one member of a group, or several.
_WHAT = {Completion.GROUP: "copy", Completion.PRODUCTS: "product", Completion.STORES: "store"}
_MANY = {Completion.GROUP: "copies", Completion.PRODUCTS: "products", Completion.STORES: "stores"}


def _lines_of_commit(_: Printer, commit: CommitGroup, __: ValueRanges) -> list[str]:
    return [f"end_{_WHAT[commit.of]}_group();"]


def kept_below(printer: Printer, registers: Sequence[str]) -> list[str]:
    """The lines that keep all later uses of arrays in *registers* below them, and all earlier ones above."""
    return [f"keep_{'words_' if printer.dtype_of(p.Variable(x)).itemsize < WORD else ''}below({x});" for x in registers]


def _lines_of_wait(printer: Printer, wait: WaitGroup, _: ValueRanges) -> list[str]:
    return [f"wait_for_{_MANY[wait.of]}<{wait.pending}>();", *kept_below(printer, wait.registers)]


CUDA_COMMIT = InstructionText(_HELPERS, sync=_lines_of_commit)
CUDA_WAIT = InstructionText(sync=_lines_of_wait)
