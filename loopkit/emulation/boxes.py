"""The emulation of TMA: copies of boxes between an array and shared memory, at the bytes of the tensor map."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from loopkit.ast.nodes import Completion, Region
from loopkit.emulation.memory import NumpyArray, SharedArray, fenced
from loopkit.emulation.pending import Effect
from loopkit.emulation.phases import slot_of
from loopkit.emulation.program import Nodes, Step
from loopkit.emulation.strands import Strand
from loopkit.errors import VerificationError
from loopkit.instructions.boxes import BoxIssue
from loopkit.instructions.tma import TmaLoadIssue
from loopkit.instructions.tma_multicast import TmaMulticastIssue
from loopkit.instructions.tma_store import TmaAdd, TmaStoreIssue


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


def _boxes_at(nodes: Nodes, issue: BoxIssue) -> Callable[[Strand], Iterator[tuple[int, _BoxInMemory]]]:
    """The lanes that copy boxes, and their boxes."""
    compiler, made = nodes.expressions, issue.box.tensor_map
    tile, start = compiler.element(issue.box.tile), [compiler.value(i) for i in issue.box.start]
    extents = [compiler.value(e) for e in made.extents]
    end = None if issue.box.end is None else compiler.value(issue.box.end)

    def found(s: Strand) -> Iterator[tuple[int, _BoxInMemory]]:
        cells, first = tile(s)
        assert isinstance(cells, SharedArray)
        size, array = cells.data.itemsize, s.block.memory[made.array]
        elements = np.array([made.place(byte) // size for byte in range(0, made.bytes_of_box(size), size)])
        for lane in map(int, np.flatnonzero(s.mask)):
            place, box = int(s.lanes(first[0])[lane]), [int(s.lanes(value(s))[lane]) for value in start]
            if place*size % made.alignment or place + len(elements) > len(cells.data):
                raise VerificationError(f"A box of '{cells.name}' begins at byte {place*size}, which is not a multiple "
                                        f"of {made.alignment}, or ends outside.", check="emulation")
            inside = [int(s.lanes(value(s))[lane]) for value in extents] or [*array.extents]
            if end is not None and made.open_axis is not None:
                inside[made.open_axis] = min(inside[made.open_axis], int(s.lanes(end(s))[lane]))
            ends = list(zip(box, made.box, made.all_steps, inside, strict=True))
            part = [(min(max(-(first // step), 0), n), min(max(-((first - m) // step), 0), n))
                    for first, n, step, m in ends]
            yield lane, _BoxInMemory(
                cells, place + elements.reshape(made.box), array.data.reshape(array.extents),
                tuple(slice(first + low*step, first + high*step, step) if low < high else slice(0)
                      for (low, high), (first, _, step, _) in zip(part, ends, strict=True)),
                tuple(slice(low, max(low, high)) for low, high in part))
    return found


def load(nodes: Nodes, _: Region, issue: TmaLoadIssue) -> Step:
    """A thread starts the copy of a box to shared memory, with zeros outside of the array."""
    boxes, slot = _boxes_at(nodes, issue), nodes.expressions.value(issue.of.slot)

    def begin(s: Strand) -> None:
        for lane, box in boxes(s):
            slot_of(s.block, issue.of.ring, int(s.lanes(slot(s))[lane])).start(partial(_copy_in, box))
    return begin


def multicast(nodes: Nodes, _: Region, issue: TmaMulticastIssue) -> Step:
    """A thread starts the copy of its share to all blocks of the cluster, and waits for all shares."""
    boxes, slot = _boxes_at(nodes, issue), nodes.expressions.value(issue.of.slot)

    def begin(s: Strand) -> None:
        for lane, box in boxes(s):
            number = int(s.lanes(slot(s))[lane])
            own = slot_of(s.block, issue.of.ring, number)
            own.expected += issue.instruction.blocks
            own.arrive(1)
            for block in s.block.cluster:
                tile = block.memory[box.tile.name]
                assert isinstance(tile, SharedArray)
                slot_of(block, issue.of.ring, number).share(partial(_copy_in, replace(box, tile=tile)))
    return begin


def _copy_in(box: _BoxInMemory) -> None:
    values = np.zeros(box.elements.shape, box.array.dtype)
    values[box.part] = box.array[box.inside]
    box.tile.data[box.elements], box.tile.unfenced[box.elements] = values, -1


def store(nodes: Nodes, _: Region, issue: TmaStoreIssue) -> Step:
    """A thread starts the copy of a box of shared memory to the elements inside of the array, or its addition to them.
    """
    boxes, adds = _boxes_at(nodes, issue), isinstance(issue.instruction, TmaAdd)

    def begin(s: Strand) -> None:
        for lane, box in boxes(s):
            s.block.groups(Completion.STORES).start(
                Effect(s.threads, np.arange(len(s.threads)) == lane, partial(_copy_out, box, adds)))
    return begin


def _copy_out(box: _BoxInMemory, adds: bool, _: NumpyArray) -> None:
    values = fenced(box.tile, box.elements)[box.part]
    box.array[box.inside] = box.array[box.inside] + values if adds else values
