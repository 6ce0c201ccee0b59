"""Order: every dependence runs forwards, in the kernel's order and in the order of its launches."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from loopkit.analysis.accesses import why_undecided
from loopkit.analysis.dependences import dependences, shared_loops
from loopkit.analysis.legality import is_between_blocks, not_to_later_blocks, violations
from loopkit.analysis.order import execution_paths, meeting_of
from loopkit.analysis.witnesses import smallest_witness
from loopkit.errors import IllegalTransformError, Witness
from loopkit.kernel.dependence import Dependence
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tree import meeting, paths
from loopkit.lowering.lowered import Lowered
from loopkit.poly.relations import out_of_time_order
from loopkit.poly.sets import Map
from loopkit.verification.report import Check, Finding, Verdict, refuted, undecided


def legal(knl: LoopKernel) -> Check:
    """Does the order of *knl*, with its parallel inames, keep every dependence?

    Assumed dependences are not among them: each has an obligation instead.
    """
    found = []
    for v in violations(knl):
        how = "in different blocks at once" if v.reason == "blocks" else "in the wrong order, or at once"
        source, sink = v.dependence.source, v.dependence.sink
        found.append(_finding(knl, v.dependence, f"'{source}' and '{sink}' run {how}.", partial(v.witness, knl)))
    found += [Finding(Verdict.ASSUMED, str(obligation)) for obligation in knl.obligations]
    number = len(dependences(knl))
    counted = f"{number or 'no'} dependence{'s' if number != 1 else ''}"
    return Check("order", counted, tuple(found), claim=f"order ({counted})")


def order(knl: LoopKernel, lowered: Lowered) -> Check:
    """:func:`legal`, and no dependence is broken by the order of the launches, or of the loops inside one."""
    check = legal(knl)
    return replace(check, findings=(*check.findings, *_launch_order(lowered)))


def _finding(knl: LoopKernel, d: Dependence, text: str, witness: Callable[[], Witness]) -> Finding:
    if not d.exact:
        return undecided(f"whether '{d.source}' and '{d.sink}' keep their order on '{d.array}': "
                         f"{why_undecided(knl, d.array, d.source, d.sink)}.")
    return refuted(IllegalTransformError(text, witness()))


def _launch_order(lowered: Lowered) -> Iterator[Finding]:
    knl = lowered.kernel
    places = {s: (i, way) for i, launch in enumerate(lowered.launches) for s, way in paths(launch.tree).items()}
    cache: dict[object, Map | None] = {}
    for d in dependences(knl):
        if d.reorderable:
            continue
        (first, source), (second, sink) = places[d.source], places[d.sink]
        # the host's loops around both launches, then the loops inside a launch
        hosts = set(lowered.launches[first].hosts) & set(lowered.launches[second].hosts)
        shared = [x for x in meeting_of(execution_paths(knl), d.source, d.sink).loops if x in hosts]
        before = first < second
        if first == second:
            where = meeting(source, sink)
            shared, before = [*shared, *where.loops], where.before
        loops = shared_loops(knl, d.source, d.sink, shared)
        key = (id(d.relation), loops, before, is_between_blocks(knl, d))
        if key not in cache:
            cache[key] = out_of_time_order(not_to_later_blocks(knl, d), loops, before)
        late = cache[key]
        if late is not None:
            text = f"The lowered kernel runs '{d.source}' and '{d.sink}' in the wrong order, or at once."
            yield _finding(knl, d, text, partial(smallest_witness, knl, d.array, d.kind, d.source, d.sink, late))
