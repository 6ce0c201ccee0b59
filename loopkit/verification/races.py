"""Races, which are conflicts without an order, and barriers: the conflicts that each one orders."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from loopkit.analysis.accesses import Access, why_undecided
from loopkit.analysis.dependences import dependences, without_assumed
from loopkit.ast.nodes import Function, Scope, Sync
from loopkit.errors import VerificationError, Witness
from loopkit.kernel.kernel import LoopKernel
from loopkit.lowering.lowered import BLOCK, Launch
from loopkit.poly.sets import Map
from loopkit.verification.barrier_separation import TOGETHER
from loopkit.verification.completion import early_accesses, is_for_completion
from loopkit.verification.conflicts import Candidate, Conflicts, kind_between
from loopkit.verification.divergence import divergent_nodes
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
        return Finding(Verdict.ASSUMED, f"that threads may access one element of '{a.array}' {how} ({a.statement}, "
                                        f"{b.statement}) is an obligation of the kernel.")
    if not exact:
        return undecided(f"whether two threads access one element of '{a.array}' {how} ({a.statement}, "
                         f"{b.statement}): {why_undecided(knl, a.array, a.statement, b.statement)}.")
    witness = min((smallest_witness(knl, x.array, kind_between(x, y), x.statement, y.statement, pairs)
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


# {{{ barriers

def barriers(launches: Sequence[Conflicts], functions: Sequence[Function]) -> Check:
    """Does a barrier or a wait order each conflict, and does every thread of the block execute each barrier? Lists the
    conflicts of each barrier."""
    findings = [f for conflicts in launches for f in (*missing_barriers(conflicts), *early_accesses(conflicts))]
    notes: list[str] = []
    count = idle = 0
    for conflicts in launches:
        for i, barrier in enumerate(conflicts.ways.barriers):
            if barrier.barrier is TOGETHER:
                continue
            lines = [f"  {c.what}" for c in conflicts.served_by(i)]
            needed = bool(lines) or is_for_completion(conflicts, barrier)
            count += 1
            idle += not needed
            why = "" if lines else ", for asynchronous accesses of other threads" if needed else ", which nothing needs"
            notes += [f"{conflicts.launch.name}: {barrier}{why}", *lines]
    for conflicts, function in zip(launches, functions, strict=True):
        findings += _divergent(conflicts.launch, function)
    summary = _summary(count, idle)
    return Check("barriers", summary, tuple(findings), tuple(notes), claim=f"barriers: {summary}" if count else "")


def _summary(count: int, idle: int) -> str:
    if not count:
        return "none"
    return f"{count}, each needed" if not idle else f"{count}, of which nothing needs {idle}"


def _divergent(launch: Launch, function: Function) -> Iterator[Finding]:
    private = {a.name for a in function.arrays if not a.shared}
    for node, why in divergent_nodes(function.body, frozenset({*BLOCK, *launch.ranges, *private})):
        what = node.instruction.noun if not isinstance(node, Sync) and node.instruction is not None else \
            "a warp barrier" if isinstance(node, Sync) and node.scope is Scope.WARP else "a barrier"
        yield refuted(VerificationError(
            f"In '{function.name}' {what} stands {why}, which may differ between the threads of a block.",
            check="barriers", hint="this is a fault in loopkit; please report it with the kernel"))

# }}}
