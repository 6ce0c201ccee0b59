"""Phases: asynchronous accesses that are performed together, and that any thread of a block can wait for."""
from __future__ import annotations

from dataclasses import dataclass

from pymbolic.typing import Expression

from loopkit.expr.nodes import to_text
from loopkit.poly.affine import digit_of


@dataclass(frozen=True)
class Phase:
    """One of the phases of a ring, in terms of the inames around a node. It ends once all of its accesses are done.

    Phase number *n* has slot *n* mod *slots* of the ring, after phase *n* - *slots* and before phase *n* + *slots*.

    :ivar ring: the name of the array of its slots, in shared memory.
    :ivar number: the number of phases of the ring before it.
    """

    ring: str
    number: Expression
    slots: int

    @property
    def slot(self) -> Expression:
        return digit_of(self.number, 1, self.slots)

    @property
    def parity(self) -> Expression:
        """The parity of the number of phases with its slot before it."""
        return digit_of(self.number, self.slots, 2)

    def __str__(self) -> str:
        return f"phase {to_text(self.number)} of {self.ring}"
