"""Barriers: the conflicts that each one orders; missing, needless and divergent barriers."""
from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopkit.ast.nodes import Function, Scope, Sync
from loopkit.errors import VerificationError
from loopkit.lowering.lowered import BLOCK, Launch
from loopkit.verification.barrier_separation import TOGETHER
from loopkit.verification.completion import early_accesses, is_for_completion
from loopkit.verification.conflicts import Conflicts
from loopkit.verification.divergence import divergent_nodes
from loopkit.verification.races import missing_barriers
from loopkit.verification.report import Check, Finding, refuted


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
    """Barriers of the loop program under a condition, or in a loop, that may differ between the threads of a block."""
    private = {a.name for a in function.arrays if not a.shared}
    for node, why in divergent_nodes(function.body, frozenset({*BLOCK, *launch.ranges, *private})):
        what = node.instruction.noun if not isinstance(node, Sync) and node.instruction is not None else \
            "a warp barrier" if isinstance(node, Sync) and node.scope is Scope.WARP else "a barrier"
        yield refuted(VerificationError(
            f"In '{function.name}' {what} stands {why}, which may differ between the threads of a block.",
            check="barriers", hint="this is a fault in loopkit; please report it with the kernel"))
