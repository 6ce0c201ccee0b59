"""The emulation of phases: rings of mbarriers, the copies of boxes that end their phases, and the waits for these."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from loopkit.ast.nodes import Region
from loopkit.emulation.memory import NumpyArray, SharedArray
from loopkit.emulation.program import Nodes, Step
from loopkit.emulation.strands import Strand
from loopkit.errors import VerificationError
from loopkit.instructions.phases import StartPhases, WaitPhase
from loopkit.instructions.tma import TmaLoadIssue


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


def _slot(s: Strand, ring: str, number: int) -> Slot:
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
        return _slot(s, wait.of.ring, int(np.max(slot(s)))).has_ended(int(np.max(parity(s))))
    return is_over


def load(nodes: Nodes, region: Region, issue: TmaLoadIssue) -> Step:
    """A thread starts the copy of a box: zeros outside of the array, and bytes at the places of the tensor map."""
    compiler, made = nodes.expressions, issue.tensor_map
    target, slot = compiler.element(issue.target), compiler.value(issue.of.slot)
    start = [compiler.value(i) for i in issue.start]

    def begin(s: Strand) -> None:
        cells, first = target(s)
        assert isinstance(cells, SharedArray)
        size, array = cells.data.itemsize, s.block.memory[made.array]
        elements = np.array([made.place(byte) // size for byte in range(0, made.bytes_of_box(size), size)])
        for lane in np.flatnonzero(s.mask):
            place, box = int(s.lanes(first[0])[lane]), [int(s.lanes(value(s))[lane]) for value in start]
            if place*size % made.alignment or place + len(elements) > len(cells.data):
                raise VerificationError(f"A box of '{cells.name}' begins at byte {place*size}, which is not a multiple "
                                        f"of {made.alignment}, or ends outside.", check="emulation")

            def copy(at: npt.NDArray[np.int64] = place + elements, box: Sequence[int] = box) -> None:
                cells.data[at] = _elements_of_box(array.data.reshape(array.extents), box, made.box).reshape(-1)
            _slot(s, issue.of.ring, int(s.lanes(slot(s))[lane])).start(copy)
    return begin


def _elements_of_box(array: NumpyArray, start: Sequence[int], extents: tuple[int, ...]) -> NumpyArray:
    """The elements of a box that begins at *start*; zeros outside of *array*."""
    found = np.zeros(extents, array.dtype)
    inside = [(max(s, 0), min(s + n, m)) for s, n, m in zip(start, extents, array.shape, strict=True)]
    if all(low < high for low, high in inside):
        found[tuple(slice(low - s, high - s) for (low, high), s in zip(inside, start, strict=True))] = \
            array[tuple(slice(low, high) for low, high in inside)]
    return found
