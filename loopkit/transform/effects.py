"""What a step changed beside what it is for: for the history, found when somebody asks."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from loopkit.analysis.moves import moves
from loopkit.errors import ENTRY_POINTS, LoopkitError
from loopkit.kernel.cost import CostChange
from loopkit.kernel.given_order import ordered_pairs
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.limits import bounded


@dataclass
class Effects:
    """The effects of the step from one kernel to another, each in a line of text.

    The kernels are let go once the effects are found.
    """

    kernels: tuple[LoopKernel, LoopKernel] | None
    lines: tuple[str, ...] = field(default=())

    def __call__(self) -> tuple[str, ...]:
        if self.kernels is not None:
            self.lines = tuple(_effects(*self.kernels))
            self.kernels = None
        return self.lines


def _effects(before: LoopKernel, after: LoopKernel) -> Iterator[str]:
    if before.tree is after.tree and before.tags == after.tags and before.temporaries == after.temporaries:
        return
    try:
        with bounded(f"looking at what a step changed in kernel '{before.name}'"):
            text = str(moves(before, after).beside(ordered_pairs(after.given_order)))
    except LoopkitError:
        text = ""
    if text:
        yield text
    costs = tuple(ENTRY_POINTS["cost"](knl) for knl in (before, after))
    if None not in costs:
        yield from CostChange.between(*costs).lines()
    elif costs[0] is not None:
        yield "storage and launches: not known"
