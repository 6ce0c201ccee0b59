"""Side effects of a step for the history, computed on demand."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from loopkit.analysis.moves import Moves, moves
from loopkit.errors import ENTRY_POINTS, LoopkitError
from loopkit.kernel.cost import CostChange
from loopkit.kernel.given_order import ordered_pairs, still_given
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.limits import bounded


@dataclass
class Effects:
    """The effects of the step from one kernel to another, each in a line of text.

    The object drops both kernels once the effects are computed.
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
    order = ordered_pairs(still_given(after.tree, after.tags, after.given_order))
    try:
        with bounded(f"looking at what a step changed in kernel '{before.name}'"):
            moved = moves(before, after).beside(order)
    except LoopkitError:
        moved = Moves()
    if moved:
        yield str(moved)
    inames = frozenset(after.inames)
    for x, y in sorted(ordered_pairs(before.given_order) - order):
        if {x, y} <= inames and (y, x) not in order and (x, y) not in moved.sunk:
            yield f"{x} stands inside {y}, and the order {x}, {y} was given"
    yield from CostChange.between(*(ENTRY_POINTS["cost"](knl) for knl in (before, after))).lines()
