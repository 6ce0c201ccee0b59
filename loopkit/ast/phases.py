"""Phases: asynchronous accesses that are performed together, and that any thread of a block can wait for."""
from __future__ import annotations

from dataclasses import dataclass

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.nodes import to_text


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
        return p.Remainder(self.number, self.slots) if self.slots > 1 else 0

    @property
    def parity(self) -> Expression:
        """The parity of the number of phases with its slot before it."""
        return p.Remainder(p.FloorDiv(self.number, self.slots) if self.slots > 1 else self.number, 2)

    def __str__(self) -> str:
        return f"phase {to_text(self.number)} of {self.ring}"
