"""The emulations of phases, and of the copies of boxes that end them."""
from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod

import numpy as np

from loopkit.ast.nodes import Region
from loopkit.emulation.memory import EmulatedArray, NumpyArray, SharedArray
from loopkit.emulation.pending import Effect, Ring
from loopkit.emulation.program import Nodes, Step, as_run
from loopkit.emulation.strands import Blocked, Run, Stop, Strand
from loopkit.errors import VerificationError
from loopkit.instructions.nests import guard_of
from loopkit.instructions.phases import StartPhases, WaitPhase
from loopkit.instructions.tma import TmaLoadIssue


def start_phases(_: Nodes, start: StartPhases) -> Run:
    """Thread 0 prepares the ring."""
    def prepare(s: Strand) -> None:
        if s.active[0]:
            s.block.rings[start.ring] = Ring.of(s.block.choices.late, start.slots, start.copies)
    return as_run(prepare)


def wait_for_phase(nodes: Nodes, wait: WaitPhase) -> Run:
    """Each active thread waits for the end of its phase."""
    slot, parity = nodes.expressions.value(wait.of.slot), nodes.expressions.value(wait.of.parity)

    def run(s: Strand) -> Iterator[Stop]:
        ring = s.block.ring(wait.of.ring)
        for k, odd in sorted(set(zip(*(s.lanes(f(s))[s.mask].tolist() for f in (slot, parity)), strict=True))):
            if not ring.has_ended(k, odd):
                yield Blocked(f"end of a phase of '{wait.of.ring}'", partial(ring.has_ended, k, odd))
    return run


def load_box(nodes: Nodes, region: Region, issue: TmaLoadIssue) -> Step:
    """Each active thread starts a copy."""
    guard, slot = guard_of(region), nodes.expressions.value(issue.of.slot)
    condition = None if guard is None else nodes.expressions.condition(guard.condition)
    first = nodes.expressions.element(issue.target)
    start = [nodes.expressions.value(i) for i in issue.start]

    def load(s: Strand) -> None:
        outer = s.mask
        s.mask = outer & s.lanes(True if condition is None else condition(s))
        if s.mask.any():
            target, (*_, place) = first(s)
            at = [s.lanes(i(s)) for i in start]
            for k in np.flatnonzero(s.mask):
                effect = _copy_of_box(s, issue, target, int(s.lanes(place)[k]), [int(i[k]) for i in at], int(k))
                s.block.ring(issue.of.ring).start(int(s.lanes(slot(s))[k]), effect)
        s.mask = outer
    return load


def _copy_of_box(s: Strand, issue: TmaLoadIssue, target: EmulatedArray, first: int, start: list[int], lane: int
                 ) -> Effect:
    """The copy of the box from *start* on, by one *lane*, to the element *first* of *target* and those after it."""
    assert isinstance(target, SharedArray)
    source, box, size = s.block.memory[issue.tensor_map.array], issue.tensor_map.box, target.data.dtype.itemsize
    places = (first + np.arange(prod(box)))*size
    if places[0] % issue.tensor_map.alignment or places[-1] >= target.data.nbytes:
        raise VerificationError(f"A box does not begin at a multiple of {issue.tensor_map.alignment} bytes of "
                                f"'{target.name}', or ends behind it.", check="emulation")
    if issue.tensor_map.swizzle:
        # the number of a piece of 16 bytes in its row is changed by that of the row
        places ^= (places // issue.tensor_map.swizzle % 8)*16

    def act(_: NumpyArray) -> None:
        array = source.data.reshape(source.extents)
        values = np.zeros(box, target.data.dtype)
        inside = [slice(max(-i, 0), min(n, extent - i)) for i, n, extent in zip(start, box, array.shape, strict=True)]
        if all(part.start < part.stop for part in inside):
            values[tuple(inside)] = array[tuple(
                slice(i + part.start, i + part.stop) for i, part in zip(start, inside, strict=True))]
        target.data[places // size] = values.reshape(-1)
    return Effect(s.threads, np.arange(len(s.threads)) == lane, act)
