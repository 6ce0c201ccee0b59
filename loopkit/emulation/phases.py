"""The emulation of phases: rings of mbarriers, the copies that end their phases, and the waits for these."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from loopkit.emulation.program import Nodes, Step
from loopkit.emulation.strands import Strand
from loopkit.errors import VerificationError
from loopkit.instructions.phases import StartPhases, WaitPhase


@dataclass(eq=False)
class Slot:
    """An mbarrier, whose phases end with *copies* copies.

    :ivar late: the copies take effect when a thread waits for their phase; else where they are started.
    :ivar ended: the number of phases that have ended; *started*: the copies of the one under way.
    """

    ring: str
    copies: int
    late: bool
    ended: int = 0
    started: list[Callable[[], None]] = field(default_factory=list)

    def start(self, copy: Callable[[], None]) -> None:
        """:raises VerificationError: threads have not waited for the phase before."""
        if len(self.started) == self.copies:
            raise VerificationError(f"A copy of another phase of '{self.ring}' starts before the last one has ended.",
                                    check="emulation")
        self.started.append(copy if self.late else lambda: None)
        if not self.late:
            copy()
            self._end_if_complete()

    def has_ended(self, parity: int) -> bool:
        """Has a phase of this *parity* ended, as far as an mbarrier tells?"""
        if self.ended % 2 == parity:
            self._end_if_complete()
        return self.ended % 2 != parity

    def _end_if_complete(self) -> None:
        if len(self.started) == self.copies:
            for copy in self.started:
                copy()
            self.started, self.ended = [], self.ended + 1


def start(_: Nodes, instruction: StartPhases) -> Step:
    """Thread 0 prepares the mbarriers of a ring."""
    def prepare(s: Strand) -> None:
        if 0 in s.threads:
            s.block.rings[instruction.ring] = [
                Slot(instruction.ring, instruction.copies, s.block.choices.late) for _ in range(instruction.slots)]
    return prepare


def slot_of(s: Strand, ring: str, number: int) -> Slot:
    """:raises VerificationError: the ring does not have it."""
    slots: list[Slot] = s.block.rings.get(ring, [])
    if not 0 <= number < len(slots):
        raise VerificationError(f"Block {s.block_number} uses slot {number} of '{ring}', which has {len(slots)}.",
                                check="emulation")
    return slots[number]


def ended(nodes: Nodes, wait: WaitPhase) -> Callable[[Strand], bool]:
    """Has the phase ended for which all threads wait?"""
    slot, parity = nodes.expressions.value(wait.of.slot), nodes.expressions.value(wait.of.parity)

    def is_over(s: Strand) -> bool:
        return slot_of(s, wait.of.ring, int(np.max(slot(s)))).has_ended(int(np.max(parity(s))))
    return is_over
