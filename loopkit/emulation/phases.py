"""The emulation of phases: rings of mbarriers, the copies that end their phases, and the waits for these."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from loopkit.emulation.program import Nodes, Step
from loopkit.emulation.strands import BlockState, Strand
from loopkit.errors import VerificationError
from loopkit.instructions.phases import ArrivePhase, StartPhases, WaitPhase

#: The threads of a warp.
_WARP = 32


@dataclass(eq=False)
class Slot:
    """An mbarrier, whose phases end after so many *arrivals*, of copies or of threads.

    :ivar first: the parity for which threads that count phases themselves wait first.
    :ivar late: the copies take effect when a thread waits for their phase; else where they are started.
    :ivar ended: the number of phases that have ended; *started*: the copies of the one under way, and *arrived* the
        number of its arrivals; *expected*: the shares of copies that have yet to start.
    """

    ring: str
    arrivals: int
    late: bool
    first: int = 0
    ended: int = 0
    arrived: int = 0
    started: list[Callable[[], None]] = field(default_factory=list)
    expected: int = 0

    def share(self, copy: Callable[[], None]) -> None:
        """A share of a copy starts in a block of the cluster.

        :raises VerificationError: threads have not waited for the phase before.
        """
        if self.arrived == self.arrivals and not self.expected:
            raise VerificationError(f"A share of a copy lands before a phase of '{self.ring}' has ended.",
                                    check="emulation")
        self.expected -= 1
        if self.late:
            self.started.append(copy)
        else:
            copy()
            self._end_if_complete()

    def start(self, copy: Callable[[], None]) -> None:
        """A copy starts, and arrives."""
        if not self.late:
            copy()
        self.arrive(1, copy if self.late else None)

    def arrive(self, count: int, copy: Callable[[], None] | None = None) -> None:
        """:raises VerificationError: threads have not waited for the phase before."""
        if self.arrived + count > self.arrivals:
            raise VerificationError(f"Another phase of '{self.ring}' starts before the last one has ended.",
                                    check="emulation")
        self.arrived += count
        if copy is not None:
            self.started.append(copy)
        if not self.late:
            self._end_if_complete()

    def has_ended(self, parity: int) -> bool:
        """Has a phase of this *parity* ended, as far as an mbarrier tells?"""
        if self.ended % 2 == parity:
            self._end_if_complete()
        return self.ended % 2 != parity

    def _end_if_complete(self) -> None:
        if self.arrived == self.arrivals and not self.expected:
            for copy in self.started:
                copy()
            self.started, self.arrived, self.ended = [], 0, self.ended + 1


def start(_: Nodes, instruction: StartPhases) -> Step:
    """Thread 0 prepares the mbarriers of a ring."""
    def prepare(s: Strand) -> None:
        if 0 in s.threads:
            # a warp arrives with each of its threads
            arrivals = instruction.arrivals*(_WARP if instruction.empty else 1)
            s.block.rings[instruction.ring] = [Slot(instruction.ring, arrivals, s.block.choices.late,
                                                    int(instruction.empty)) for _ in range(instruction.slots)]
    return prepare


def arrive(nodes: Nodes, instruction: ArrivePhase) -> Step:
    """The threads of a warp arrive."""
    number, slot = (nodes.expressions.value(e) for e in (instruction.of.number, instruction.of.slot))

    def arrive_at(s: Strand) -> None:
        if np.max(number(s)) >= 0:
            for block in s.block.cluster if instruction.blocks > 1 else [s.block]:
                slot_of(block, instruction.of.ring, int(np.max(slot(s)))).arrive(int(np.count_nonzero(s.mask)))
    return arrive_at


def slot_of(block: BlockState, ring: str, number: int) -> Slot:
    """:raises VerificationError: the ring does not have it."""
    slots: list[Slot] = block.rings.get(ring, [])
    if not 0 <= number < len(slots):
        raise VerificationError(f"Block {block.number} uses slot {number} of '{ring}', which has {len(slots)}.",
                                check="emulation")
    return slots[number]


def ended(nodes: Nodes, wait: WaitPhase) -> Callable[[Strand], bool]:
    """Has the phase ended for which all threads wait? Threads that count phases themselves go on to the next one."""
    slot, parity = nodes.expressions.value(wait.of.slot), nodes.expressions.value(wait.of.parity)

    def is_over(s: Strand) -> bool:
        number = int(np.max(slot(s)))
        found = slot_of(s.block, wait.of.ring, number)
        if not wait.of.in_tile:
            return found.has_ended(int(np.max(parity(s))))
        key = wait.of.ring, number, int(s.threads[0])
        wanted = s.block.parities.setdefault(key, found.first)
        if over := found.has_ended(wanted):
            s.block.parities[key] = 1 - wanted
        return over
    return is_over
