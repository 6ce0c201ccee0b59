"""Targets that only tests have."""
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from loopkit.kernel.target import Machine, Target


@dataclass(frozen=True)
class WarpsOf(Target):
    """A GPU with warps of *warp* threads, for which there is no text."""

    name: ClassVar[str] = "warps"

    warp: int

    @property
    def machine(self) -> Machine:
        return Machine(self.warp)
