"""The results of translation validation: plain values that print."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Mismatch:
    """One difference between a loop program and its kernel, at the smallest example.

    :ivar kind: ``"missing"``, ``"twice"``, ``"outside"``, ``"element"``, ``"value"``, ``"order"``, ``"barrier"``,
        ``"divergent"``, ``"box"``, ``"vector"``, ``"product"``, ``"turn"`` or ``"undecided"``.
    :ivar launch: the launch.
    :ivar statement: the statement, ``""`` for a barrier.
    :ivar text: one sentence.
    :ivar parameters: the sizes.
    :ivar place: the coordinates of block and thread, and the loop variables.
    :ivar instance: the inames of the statement.
    """

    kind: str
    launch: str
    statement: str
    text: str
    parameters: Mapping[str, int] = field(default_factory=dict)
    place: Mapping[str, int] = field(default_factory=dict)
    instance: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = [f"with {_values(self.parameters)}"] if self.parameters else []
        if self.instance:
            parts.append(f"instance {self.statement}[{_values(self.instance)}]")
        if self.place:
            parts.append(f"at {_values(self.place)}")
        return f"{self.launch}: {self.text}" + (f" ({'; '.join(parts)})" if parts else "")


def _values(values: Mapping[str, int]) -> str:
    return ", ".join(f"{k} = {v}" for k, v in values.items())
