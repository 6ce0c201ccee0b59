"""Atomic update: an element is read, combined with an operand and written in one step that no thread can divide."""
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pymbolic.typing import Expression

from loopkit.instructions.base import MemoryInstruction


@dataclass(frozen=True)
class AtomicUpdate(MemoryInstruction):
    """The atomic update that an assignment with an operation makes."""

    noun: ClassVar[str] = "an atomic update"
    memories: ClassVar[frozenset[str]] = frozenset({"local", "lanes", "global"})
    commutes: ClassVar[bool] = True

    def claims(self, element: Expression, target: Expression) -> bool:
        return element == target

    @property
    def titles(self) -> tuple[str, ...]:
        return ("atomic",)
