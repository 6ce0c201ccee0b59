"""Dependences: instances that must run after others; obligations: claims of the caller in place of a proof."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from loopkit.poly.sets import Map


@dataclass(frozen=True)
class Dependence:
    """*sink* instances that must run after the *source* instances *relation* gives them.

    :ivar kind: ``"flow"``, ``"anti"``, ``"output"`` or ``"explicit"``.
    :ivar array: the array that both access; ``""`` for explicit ones.
    :ivar relation: source inames to sink inames, anonymous.
    :ivar exact: both accesses are affine and must-accesses: each pair accesses one element.
    :ivar of_value: *array* is a temporary; the dependence is a value flow, or orders two writes of which either may
        reach the reader.
    :ivar assumed: an obligation allows steps to break these pairs, so they no longer bind. If *exact*, the pairs
        access one element and the caller claims that their order does not matter; else the claim is that they never do.
    """

    kind: str
    array: str
    source: str
    sink: str
    relation: Map
    exact: bool = True
    of_value: bool = False
    assumed: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        # islpy cannot pickle relations that have one name on both sides
        return _restored, (self.kind, self.array, self.source, self.sink, str(self.relation), self.exact,
                           self.of_value, self.assumed)


def _restored(kind: str, array: str, source: str, sink: str, relation: str, *others: bool) -> Dependence:
    return Dependence(kind, array, source, sink, Map(relation), *others)


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


def kind_of(source_writes: bool, sink_writes: bool) -> str:
    """The kind of a dependence between accesses of which one is a write."""
    return ("output" if sink_writes else "flow") if source_writes else "anti"


def writing_ends(kind: str) -> tuple[bool, bool]:
    """Whether the source of a dependence of *kind* is a write, and whether its sink is."""
    return kind in ("flow", "output"), kind in ("anti", "output")
