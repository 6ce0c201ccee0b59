"""The emulation of TMA: copies of boxes between an array and shared memory, at the bytes of the tensor map."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from loopkit.ast.nodes import Completion, Region
from loopkit.emulation.memory import EmulatedArray, NumpyArray, SharedArray, fenced
from loopkit.emulation.pending import Effect
from loopkit.emulation.phases import slot_of
from loopkit.emulation.program import Nodes, Step
from loopkit.emulation.strands import Strand
from loopkit.errors import VerificationError
from loopkit.instructions.boxes import BoxIssue
from loopkit.instructions.nests import guard_of
from loopkit.instructions.tma import TmaLoadIssue
from loopkit.instructions.tma_store import TmaStoreIssue


@dataclass(frozen=True)
class _BoxInMemory:
    """A box at its places.

    :ivar elements: the numbers of its elements in the shared array *tile*, in the order of the box.
    :ivar inside: the part of the *array* that it has; *part*: the same elements in the box.
    """

    tile: SharedArray
    elements: NumpyArray
    array: NumpyArray
    inside: tuple[slice, ...]
    part: tuple[slice, ...]


def _boxes(nodes: Nodes, region: Region, issue: BoxIssue) -> Callable[[Strand], tuple[int, _BoxInMemory] | None]:
    """The lane that copies a box, and the box; no lane: ``None``."""
    guard, compiler, made = guard_of(region), nodes.expressions, issue.box.tensor_map
    holds = None if guard is None else compiler.condition(guard.condition)
    tile, start = compiler.element(issue.box.tile), [compiler.value(i) for i in issue.box.start]

    def found(s: Strand) -> tuple[int, _BoxInMemory] | None:
        own = s.mask if holds is None else s.mask & s.lanes(holds(s))
        if not own.any():
            return None
        (lane,) = np.flatnonzero(own)
        cells, (first,) = tile(s)
        assert isinstance(cells, SharedArray)
        place, box = int(s.lanes(first)[lane]), [int(s.lanes(value(s))[lane]) for value in start]
        size = cells.data.itemsize
        elements = np.array([made.place(byte) // size for byte in range(0, made.bytes_of_box(size), size)])
        if place*size % made.alignment or place + len(elements) > len(cells.data):
            raise VerificationError(f"A box of '{cells.name}' begins at byte {place*size}, which is not a multiple of "
                                    f"{made.alignment}, or ends outside.", check="emulation")
        array: EmulatedArray = s.block.memory[made.array]
        inside = [(max(b, 0), max(min(b + n, m), max(b, 0)))
                  for b, n, m in zip(box, made.box, array.extents, strict=True)]
        return int(lane), _BoxInMemory(
            cells, place + elements.reshape(made.box), array.data.reshape(array.extents),
            tuple(slice(low, high) for low, high in inside),
            tuple(slice(low - b, high - b) for (low, high), b in zip(inside, box, strict=True)))
    return found


def load(nodes: Nodes, region: Region, issue: TmaLoadIssue) -> Step:
    """One thread starts the copy of a box to shared memory, with zeros outside of the array."""
    boxes, slot = _boxes(nodes, region, issue), nodes.expressions.value(issue.of.slot)

    def begin(s: Strand) -> None:
        found = boxes(s)
        if found is None:
            return
        lane, box = found

        def copy() -> None:
            values = np.zeros(box.elements.shape, box.array.dtype)
            values[box.part] = box.array[box.inside]
            box.tile.data[box.elements], box.tile.unfenced[box.elements] = values, -1
        slot_of(s, issue.of.ring, int(s.lanes(slot(s))[lane])).start(copy)
    return begin


def store(nodes: Nodes, region: Region, issue: TmaStoreIssue) -> Step:
    """One thread starts the copy of a box of shared memory to the elements inside of the array."""
    boxes = _boxes(nodes, region, issue)

    def begin(s: Strand) -> None:
        found = boxes(s)
        if found is None:
            return
        lane, box = found

        def act(_: NumpyArray) -> None:
            box.array[box.inside] = fenced(box.tile, box.elements)[box.part]
        s.block.groups(Completion.STORES).start(Effect(s.threads, np.arange(len(s.threads)) == lane, act))
    return begin
