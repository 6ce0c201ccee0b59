"""Races: conflicts that no barrier separates, and conflicts across blocks."""
from __future__ import annotations

from collections.abc import Iterable, Iterator

from loopkit.analysis.legality import witness_at
from loopkit.errors import VerificationError
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.relations import smallest_pair
from loopkit.poly.sets import Map
from loopkit.verify.conflicts import Candidate, Conflicts
from loopkit.verify.report import Check, Finding, refuted, undecided


def races(launches: Iterable[Conflicts]) -> Check:
    """Do two threads touch one element in no order, one of them writing?"""
    findings: dict[Finding, None] = {}
    looked_at: dict[str, None] = {}
    for conflicts in launches:
        looked_at.update(dict.fromkeys(conflicts.shared))
        for found in (missing_barriers(conflicts), _at_once(conflicts), _across_blocks(conflicts)):
            findings.update(dict.fromkeys(found))
    summary = f"{', '.join(looked_at)}: written and seen by several threads" if looked_at else "nothing is shared"
    return Check("races", summary, tuple(findings), claim="no races")


def missing_barriers(conflicts: Conflicts) -> Iterator[Finding]:
    """Conflicts within a block that a barrier would order."""
    for c in conflicts.candidates:
        pairs = None if c.at_once else conflicts.unseparated(c)
        if pairs is not None:
            yield _race(conflicts.kernel, c, pairs, "with no barrier between", "put a barrier between the two")


def _at_once(conflicts: Conflicts) -> Iterator[Finding]:
    """Instances of one statement that run at once, so that no barrier can come between."""
    for c in conflicts.candidates:
        pairs = conflicts.unseparated(c) if c.at_once else None
        if pairs is not None:
            yield _race(conflicts.kernel, c, pairs, "at once", "keep one of the inames sequential")


def _across_blocks(conflicts: Conflicts) -> Iterator[Finding]:
    for c, pairs in conflicts.across_blocks():
        yield _race(conflicts.kernel, c, pairs, "in different blocks, which nothing orders",
                    "keep the iname on the grid sequential, or end the launch between the two")


def _race(knl: LoopKernel, c: Candidate, pairs: Map, how: str, hint: str) -> Finding:
    if not c.exact:
        inexact = c.source if not (c.source.affine and c.source.certain) else c.sink
        why = "a subscript of" if not inexact.affine else "a condition or bound of"
        return undecided(f"whether two threads touch one element of '{c.array}' {how} ({c.source.statement}, "
                         f"{c.sink.statement}): {why} '{inexact.statement}' is read from memory.")
    params, first, second = smallest_pair(pairs, c.source.domain.inames, c.sink.domain.inames)
    witness = witness_at(knl, c.array, c.kind, params, (c.source.statement, first), (c.sink.statement, second))
    return refuted(VerificationError(f"Two threads touch one element of '{c.array}' {how}.", check="races",
                                     witness=witness, hint=hint))

