"""The threads of an emulated block: strands that run in lockstep, one after another, and meet at barriers."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from loopkit.ast.nodes import Scope
from loopkit.emulation.memory import Lanes, Memory, NumpyArray
from loopkit.emulation.pending import CommitGroups, Pending
from loopkit.errors import VerificationError


@dataclass(frozen=True)
class Choices:
    """The choices that an emulation makes where the program leaves them open.

    :ivar late: asynchronous accesses take effect as late as the program allows; else as early.
    :ivar backward: strands and blocks run from the last one to the first.
    :ivar lockstep: the threads of a strand.
    :ivar contracted: a product of float32 and the sum that it is a term of are rounded once.
    """

    late: bool = True
    backward: bool = False
    lockstep: int = 32
    contracted: bool = False

    def ordered(self, items: Any) -> Any:
        """A sequence of them in the order in which they run."""
        return items[::-1] if self.backward else items


@dataclass(eq=False)
class BlockState:
    """One block: its *number*, the number of its *threads*, its memory, and what its threads have started.

    :ivar grid: its extents, of places, if a block runs several; *enter*: gives a strand the coordinates of one.
    :ivar parities: the parities for which threads wait next, by the ring, the slot and the first thread of a strand.
    :ivar turns: how many turns a strand has had, by its first thread.
    :ivar cluster: the blocks of its cluster, in order; none: it has no cluster.
    """

    number: int
    threads: int
    memory: Memory
    choices: Choices
    pending: Pending = field(default_factory=dict)
    rings: dict[str, list[Any]] = field(default_factory=dict)
    grid: tuple[int, ...] = (1, 1, 1)
    enter: Callable[[Strand, tuple[int, int, int]], None] | None = None
    parities: dict[tuple[str, int, int], int] = field(default_factory=dict)
    turns: dict[int, int] = field(default_factory=dict)
    cluster: list[BlockState] = field(default_factory=list)

    def groups(self, kind: object) -> CommitGroups:
        """The commit groups of *kind*."""
        return self.pending.setdefault(kind, CommitGroups(self.choices.late))


@dataclass(eq=False)
class Strand:
    """Threads that run in lockstep.

    :ivar threads: their numbers in the block; *mask*: those that are active.
    :ivar names: the values of inames and scalars.
    """

    block: BlockState
    threads: NumpyArray
    mask: NumpyArray
    names: dict[str, Lanes]

    @property
    def block_number(self) -> int:
        return self.block.number

    @property
    def active(self) -> NumpyArray:
        """The active threads: a truth value for each thread of the block."""
        found = np.zeros(self.block.threads, bool)
        found[self.threads[self.mask]] = True
        return found

    def lanes(self, value: Lanes) -> NumpyArray:
        """*value* as one for each thread."""
        return value if isinstance(value, np.ndarray) else np.full(len(self.threads), value)


@dataclass(frozen=True)
class Rendezvous:
    """A place at which the threads of *scope* wait for each other, and then *act* together.

    :ivar place: the node of the loop program; *title*: its name for a reader.
    :ivar ready: for threads that wait for an event, and not for each other: has it happened?
    :ivar threads: the number of the first threads of a block that wait for each other; 0: all.
    """

    scope: Scope
    place: object
    title: str
    act: Callable[[Strand], None] | None = None
    ready: Callable[[], bool] | None = None
    threads: int = 0


#: The execution of a part of a program by a strand, up to its end.
Run = Callable[[Strand], Iterator[Rendezvous]]

#: The numbers of neighbouring threads that meet; the threads of other scopes are all of the block's.
_TOGETHER: Mapping[Scope, int] = {Scope.WARP: 32, Scope.WARPGROUP: 128}


@dataclass(eq=False)
class _Task:
    """The execution of a strand; *waits*: the meeting that it has reached."""

    strand: Strand
    steps: Iterator[Rendezvous]
    waits: Rendezvous | None = None
    done: bool = False

    def can_go_on(self) -> bool:
        return not self.done and (self.waits is None or (self.waits.ready is not None and self.waits.ready()))

    def advance(self) -> None:
        self.waits = next(self.steps, None)
        self.done = self.waits is None


def run_blocks(blocks: Sequence[tuple[BlockState, Run]], names: Mapping[str, Lanes]) -> None:
    """Run a block, or all of a cluster at once: each strand as far as it can before the next one starts.

    :arg names: the values of names, for all threads.
    :raises VerificationError: some threads wait at a barrier, and others do not reach it.
    """
    tasks = []
    for block, run in blocks:
        width = min(block.choices.lockstep, block.threads)
        for first in range(0, block.threads, width):
            own = np.arange(first, min(first + width, block.threads))
            strand = Strand(block, own, np.ones(len(own), bool), {
                x: value[own] if isinstance(value, np.ndarray) else value for x, value in names.items()})
            tasks.append(_Task(strand, run(strand)))
    order = blocks[0][0].choices.ordered(tasks)
    while (task := next((t for t in order if t.can_go_on()), None)) is not None:
        task.advance()
        if task.waits is None or task.waits.ready is not None:
            continue
        block = task.strand.block
        together = _TOGETHER.get(task.waits.scope, task.waits.threads or block.threads)
        unit = [t for t in tasks if t.strand.threads[0] // together == task.strand.threads[0] // together and (
            t.strand.block is block or (task.waits.scope is Scope.CLUSTER and t.strand.block in block.cluster))]
        if all(t.waits is not None and t.waits.place is task.waits.place for t in unit):
            meeting = task.waits
            for x in block.cluster or [block]:
                if part := [t for t in unit if t.strand.block is x]:
                    _meet(meeting, part)
    left = [t for t in tasks if t.waits is not None]
    if left:
        assert left[0].waits is not None
        raise _unmet(left[0].strand.block, left[0].waits)


def _meet(meeting: Rendezvous, unit: Sequence[_Task]) -> None:
    if not all(t.strand.mask.all() for t in unit):
        raise _unmet(unit[0].strand.block, meeting)
    if meeting.act is not None:
        meeting.act(_united([t.strand for t in unit]))
    for t in unit:
        t.waits = None


def _unmet(block: BlockState, meeting: Rendezvous) -> VerificationError:
    if meeting.ready is not None:
        return VerificationError(f"Threads of block {block.number} wait, and nothing ends {meeting.title}.",
                                 check="emulation")
    return VerificationError(f"Some threads of block {block.number} do not reach the {meeting.title} at which others "
                             "wait.", check="emulation")


def _united(strands: Sequence[Strand]) -> Strand:
    """All threads of *strands*, which do one thing together."""
    if len(strands) == 1:
        return strands[0]
    names = dict[str, Lanes]()
    for x in strands[0].names:
        values = [s.names[x] for s in strands if x in s.names]
        same = not any(isinstance(v, np.ndarray) for v in values) and all(v == values[0] for v in values)
        names[x] = values[0] if same or len(values) < len(strands) else np.concatenate(
            [s.lanes(v) for s, v in zip(strands, values, strict=True)])
    threads, mask = (np.concatenate([getattr(s, x) for s in strands]) for x in ("threads", "mask"))
    return Strand(strands[0].block, threads, mask, names)
