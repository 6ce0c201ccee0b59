"""Phases: asynchronous accesses that are performed together, and that any thread of a block can wait for."""
from __future__ import annotations

from dataclasses import dataclass

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.nodes import to_text
from loopkit.poly.affine import add, digit_of


@dataclass(frozen=True)
class Phase:
    """One of the phases of a ring, in terms of the inames around a node. It ends once all of its accesses are done.

    Phase number *n* has slot *n* mod *slots* of the ring, after phase *n* - *slots* and before phase *n* + *slots*.
    Phases with negative numbers are over from the start: nobody waits for them.

    :ivar ring: the name of the array of its slots, in shared memory.
    :ivar number: the number of phases of the ring before it; with *in_tile*, in this place of the grid.
    :ivar in_tile: blocks run several places of the grid, so that threads count the phases of a slot themselves.
    """

    ring: str
    number: Expression
    slots: int
    in_tile: bool = False

    @property
    def slot(self) -> Expression:
        return digit_of(self._shifted(self.slots), 1, self.slots)

    @property
    def parity(self) -> Expression:
        """The parity of the number of phases with its slot before it."""
        return digit_of(self._shifted(2*self.slots), self.slots, 2)

    def _shifted(self, period: int) -> Expression:
        """The number plus so many periods that its constant term is not negative."""
        terms = self.number.children if isinstance(self.number, p.Sum) else (self.number,)
        constant = next((t for t in terms if isinstance(t, int)), 0)
        return add(self.number, -(constant // period)*period) if constant < 0 else self.number

    def __str__(self) -> str:
        return f"phase {to_text(self.number)} of {self.ring}"
