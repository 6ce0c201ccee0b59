"""Races: conflicts that no barrier separates, and conflicts across blocks."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from loopkit.analysis.accesses import Access, why_undecided
from loopkit.analysis.assumed_dependences import without_assumed
from loopkit.analysis.dependences import dependences
from loopkit.errors import VerificationError, Witness
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.sets import Map
from loopkit.verification.completion import early_accesses
from loopkit.verification.conflicts import Candidate, Conflicts, kind_of
from loopkit.verification.report import Check, Finding, Verdict, refuted, smallest_witness, undecided


def races(launches: Iterable[Conflicts]) -> Check:
    """Do two threads access one element without an order, one of them writing?"""
    findings: dict[Finding, None] = {}
    looked_at: dict[str, None] = {}
    for conflicts in launches:
        if conflicts.launch.extents:
            looked_at.update(dict.fromkeys(conflicts.shared))
        for found in (missing_barriers(conflicts), _at_once(conflicts), _across_blocks(conflicts),
                      early_accesses(conflicts)):
            findings.update(dict.fromkeys(found))
    summary = (f"{', '.join(looked_at)}: written and seen by several threads" if looked_at
               else "nothing that several threads see is written")
    return Check("races", summary, tuple(findings), claim="no races")


def missing_barriers(conflicts: Conflicts) -> Iterator[Finding]:
    """Conflicts within a block that a barrier would order."""
    for c in conflicts.candidates:
        pairs = None if c.at_once else conflicts.unseparated(c)
        if pairs is not None:
            yield _race(conflicts.kernel, [(c.source, c.sink, pairs)], c.exact, "with no barrier between",
                        "put a barrier between the two")


def _at_once(conflicts: Conflicts) -> Iterator[Finding]:
    """Conflicting instances of one statement that run at once, so that no barrier can run between."""
    seen: set[frozenset[int]] = set()
    for c in conflicts.candidates:
        if not c.at_once or (both := frozenset({id(c.source), id(c.sink)})) in seen:
            continue
        seen.add(both)
        pairs = conflicts.unseparated(c)
        if pairs is not None:
            yield _race(conflicts.kernel, _either_way(c, pairs), c.exact, "at once",
                        "keep one of the inames sequential")


def _across_blocks(conflicts: Conflicts) -> Iterator[Finding]:
    for c, pairs in conflicts.across_blocks():
        yield _race(conflicts.kernel, _either_way(c, pairs), c.exact, "in different blocks, which nothing orders",
                    "keep the iname on the grid sequential, or end the launch between the two")


#: Pairs of instances, from the instances of one access to those of another.
_Pairs = tuple[Access, Access, Map]


def _either_way(c: Candidate, pairs: Map) -> list[_Pairs]:
    """The pairs in both directions, because neither instance comes first."""
    return [(c.source, c.sink, pairs), (c.sink, c.source, pairs.reverse())]


def _race(knl: LoopKernel, ways: Sequence[_Pairs], exact: bool, how: str, hint: str) -> Finding:
    a, b, _ = ways[0]
    ways = [(x, y, bound) for x, y, pairs in ways if (bound := _binding(knl, x, y, pairs)) is not None]
    if not ways:
        return Finding(Verdict.ASSUMED, f"that threads may touch one element of '{a.array}' {how} ({a.statement}, "
                                        f"{b.statement}) is an obligation of the kernel.")
    if not exact:
        return undecided(f"whether two threads touch one element of '{a.array}' {how} ({a.statement}, "
                         f"{b.statement}): {why_undecided(knl, a.array, a.statement, b.statement)}.")
    witness = min((smallest_witness(knl, x.array, kind_of(x, y), x.statement, y.statement, pairs)
                   for x, y, pairs in ways), key=_size)
    what = f"Two threads access one element of '{a.array}'" if a.array else \
        f"'{b.statement}' and '{a.statement}', which dep= orders, run on two threads"
    return refuted(VerificationError(f"{what} {how}.", check="races", witness=witness, hint=hint))


def _binding(knl: LoopKernel, a: Access, b: Access, pairs: Map) -> Map | None:
    """The *pairs* that no obligation covers: the kernel's dependences omit assumed ones. ``None`` if there are none.
    """
    if not knl.obligations:
        return pairs
    if a.array in knl.temporaries:
        bound = without_assumed(knl, a.array, a.statement, b.statement, pairs)
    else:
        owed = pairs
        for d in dependences(knl):
            if d.array == a.array and (d.source, d.sink) == (a.statement, b.statement):
                owed = owed.subtract(d.relation)
            if d.array == a.array and (d.sink, d.source) == (a.statement, b.statement):
                owed = owed.subtract(d.relation.reverse())
        bound = pairs.subtract(owed)
    return None if bound.is_empty() else bound


def _size(witness: Witness) -> tuple[tuple[int, ...], ...]:
    return (tuple(witness.parameters.values()), tuple(witness.source[1].values()), tuple(witness.sink[1].values()))
