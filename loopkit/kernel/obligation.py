"""Obligations: claims of the caller in place of a proof."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Obligation:
    """One claim under which a step was accepted; each printed form of the kernel shows it.

    :ivar step: the step, as in its call.
    :ivar claim: the condition that must hold.
    :ivar reason: the text given by ``assume=``; ``None``: ``unsafe=True`` overrode the verdict.
    """

    step: str
    claim: str
    reason: str | None = None

    @property
    def verdict(self) -> str:
        """``"assumed"`` or ``"unsafe"``, as a step's verdict in the history."""
        return "unsafe" if self.reason is None else "assumed"

    def __str__(self) -> str:
        because = "unsafe" if self.reason is None else f"assumed: {self.reason}"
        return f"{self.step}: {self.claim} ({because})"
