"""Results of checks: verdicts with their evidence, in printable form."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from loopkit.errors import LoopkitError, values_text
from loopkit.shown import Shown


class Verdict(Enum):
    """The result of a check, the best first: several checks together have the worst of their results."""

    PROVEN = "proven"
    ASSUMED = "assumed"
    UNDECIDED = "undecided"
    REFUTED = "refuted"

    def __str__(self) -> str:
        return self.value


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that outweighs the others; without any, all is proven."""
    return max(verdicts, key=list(Verdict).index, default=Verdict.PROVEN)


@dataclass(frozen=True, repr=False)
class Finding(Shown):
    """A claim that is assumed, undecided or refuted.

    :ivar witness: for a refutation: sizes, instances and element, as text.
    :ivar error: the error that :meth:`Report.raise_if_refuted` raises.
    """

    verdict: Verdict
    text: str
    witness: str = ""
    error: LoopkitError | None = field(default=None, compare=False, repr=False)

    def lines(self) -> Iterator[str]:
        """The sentence and the witness, a line each."""
        yield f"{self.verdict}: {self.text}"
        if self.witness:
            yield f"  {self.witness}"

    def __str__(self) -> str:
        return "\n".join(self.lines())


def refuted(error: LoopkitError) -> Finding:
    """The finding for *error*."""
    return Finding(Verdict.REFUTED, error.message, "; ".join(error.details()), error)


def undecided(text: str) -> Finding:
    """The finding for a question that the analysis cannot decide."""
    return Finding(Verdict.UNDECIDED, text)


@dataclass(frozen=True, repr=False)
class Mismatch(Shown):
    """A finding of translation validation: a difference between a loop program and its kernel, at the smallest example.

    :ivar kind: ``"missing"``, ``"twice"``, ``"outside"``, ``"element"``, ``"value"``, ``"order"``, ``"barrier"``,
        ``"group"``, ``"divergent"``, ``"box"``, ``"vector"``, ``"product"``, ``"ticket"``, ``"lane"``, ``"step"``,
        ``"cluster"`` or ``"undecided"``.
    :ivar statement: ``""`` for a barrier.
    :ivar place: the coordinates of block and thread, and the loop variables.
    """

    kind: str
    launch: str
    statement: str
    text: str
    parameters: Mapping[str, int] = field(default_factory=dict)
    place: Mapping[str, int] = field(default_factory=dict)
    instance: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = [*filter(None, (
            values_text(self.parameters, "with {}"), values_text(self.instance, f"instance {self.statement}[{{}}]"),
            values_text(self.place, "at {}")))]
        return f"{self.launch}: {self.text}" + (f" ({'; '.join(parts)})" if parts else "")


@dataclass(frozen=True, repr=False)
class Check(Shown):
    """One check of a kernel and its result.

    :ivar name: ``"order"``, ``"races"``, ``"bounds"``, ``"coverage"``, ``"barriers"``, ...
    :ivar summary: the checked objects, in a few words.
    :ivar claim: the claim for the head of a generated text if all is proven; ``""``: none.
    :ivar findings: the claims that are not proven.
    :ivar notes: information without influence on the verdict.
    """

    name: str
    summary: str
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    claim: str = ""

    @property
    def verdict(self) -> Verdict:
        return worst(f.verdict for f in self.findings)

    def lines(self) -> Iterator[str]:
        """One line, and below it the findings and the notes."""
        yield f"{self.name:9} {self.verdict.value:9}  {self.summary}".rstrip()
        for finding in self.findings:
            yield from (f"    {line}" for line in finding.lines())
        yield from (f"    {note}" for note in self.notes)

    def __str__(self) -> str:
        return "\n".join(self.lines())


@dataclass(frozen=True, repr=False)
class Report(Shown):
    """The results of the checks of one kernel; ``print(report)`` shows all of them.

    :ivar kernel: the kernel's name.
    """

    kernel: str
    checks: tuple[Check, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of the checks."""
        return worst(c.verdict for c in self.checks)

    @property
    def ok(self) -> bool:
        """Is nothing refuted? Undecided and assumed findings are listed in the report."""
        return self.verdict is not Verdict.REFUTED

    @property
    def proven(self) -> bool:
        """Is everything proven?"""
        return self.verdict is Verdict.PROVEN

    def __getitem__(self, name: str) -> Check:
        """The check *name*; :raises KeyError: it was not made."""
        return {check.name: check for check in self.checks}[name]

    def findings(self, verdict: Verdict) -> tuple[Finding, ...]:
        """All findings with this verdict."""
        return tuple(f for check in self.checks for f in check.findings if f.verdict is verdict)

    def raise_if_refuted(self) -> Report:
        """The report itself.

        :raises LoopkitError: the error of the first refuted finding.
        """
        for finding in self.findings(Verdict.REFUTED):
            assert finding.error is not None
            raise finding.error
        return self

    def __str__(self) -> str:
        return "\n".join([f"kernel '{self.kernel}': {self.verdict}",
                          *(f"  {line}" for check in self.checks for line in check.lines())])
