"""Reports of checks: verdicts with their evidence, which print."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from loopkit.errors import ENTRY_POINTS, LoopkitError, UndecidedError


class Verdict(Enum):
    """What a check says; the later one outweighs the earlier."""

    PROVEN = "proven"
    ASSUMED = "assumed"
    UNDECIDED = "undecided"
    REFUTED = "refuted"

    def __str__(self) -> str:
        return self.value


_WEIGHT = {verdict: i for i, verdict in enumerate(Verdict)}


@dataclass(frozen=True)
class Finding:
    """Something that is not proven.

    :ivar text: one sentence.
    :ivar witness: for what is refuted: sizes, instances and element, in words.
    :ivar error: what :meth:`Report.raise_if_refuted` raises.
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


def refuted(error: LoopkitError) -> Finding:
    """The finding that *error* tells of."""
    return Finding(Verdict.REFUTED, error.message, "; ".join(error.details()), error)


def undecided(text: str) -> Finding:
    """The finding of a question that the analysis cannot answer."""
    return Finding(Verdict.UNDECIDED, text)


def gave_up(error: UndecidedError) -> Finding:
    """The finding that isl could not answer."""
    return undecided(f"{error.message} {error.reason}")


@dataclass(frozen=True)
class Check:
    """One question about a kernel and its answer.

    :ivar name: ``"order"``, ``"races"``, ``"bounds"``, ``"coverage"``, ``"barriers"``, ...
    :ivar summary: what was looked at, in a few words.
    :ivar claim: what the head of a generated text says where all is proven; ``""``: nothing.
    :ivar findings: what is not proven; nothing where all is.
    :ivar notes: what a reader may want to know and nothing hangs on.
    """

    name: str
    summary: str
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    claim: str = ""

    @property
    def verdict(self) -> Verdict:
        return max((f.verdict for f in self.findings), key=_WEIGHT.__getitem__, default=Verdict.PROVEN)

    def lines(self) -> Iterator[str]:
        """One line, and below it what is not proven and the notes."""
        yield f"{self.name:9} {self.verdict.value:9}  {self.summary}".rstrip()
        for finding in self.findings:
            yield from (f"    {line}" for line in finding.lines())
        yield from (f"    {note}" for note in self.notes)


@dataclass(frozen=True)
class Report:
    """What the checks of one kernel found; ``print(report)`` shows all of it.

    :ivar kernel: the kernel's name.
    """

    kernel: str
    checks: tuple[Check, ...]

    @property
    def verdict(self) -> Verdict:
        """The verdict of the check that fared worst."""
        return max((c.verdict for c in self.checks), key=_WEIGHT.__getitem__, default=Verdict.PROVEN)

    @property
    def ok(self) -> bool:
        """Is nothing refuted? What is undecided or assumed is listed in the report."""
        return self.verdict is not Verdict.REFUTED

    @property
    def proven(self) -> bool:
        """Is everything proven?"""
        return self.verdict is Verdict.PROVEN

    def __getitem__(self, name: str) -> Check:
        """The check *name*; :raises KeyError: it was not made."""
        for check in self.checks:
            if check.name == name:
                return check
        raise KeyError(name)

    def findings(self, verdict: Verdict) -> tuple[Finding, ...]:
        """All findings with this verdict."""
        return tuple(f for check in self.checks for f in check.findings if f.verdict is verdict)

    def raise_if_refuted(self) -> Report:
        """The report itself.

        :raises LoopkitError: something is refuted; the error is that of the first such finding.
        """
        for finding in self.findings(Verdict.REFUTED):
            assert finding.error is not None
            raise finding.error
        return self

    def __str__(self) -> str:
        return "\n".join([f"kernel '{self.kernel}': {self.verdict}",
                          *(f"  {line}" for check in self.checks for line in check.lines())])

    def _repr_html_(self) -> str:
        return str(ENTRY_POINTS["report_html"](self))
