"""Asynchronous accesses: conflicting accesses that may run before an asynchronous access completes."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pymbolic.primitives as p

from loopkit.analysis.witnesses import smallest_witness
from loopkit.ast.nodes import Scope
from loopkit.errors import VerificationError
from loopkit.instructions.groups import pending
from loopkit.lowering.groups import Waits
from loopkit.lowering.hazards import Hazard, unfinished
from loopkit.poly.relations import differing_first_at, subscript_relation, union_of_some
from loopkit.poly.sets import Map
from loopkit.verification.barrier_separation import PlacedBarrier
from loopkit.verification.conflicts import Conflicts
from loopkit.verification.report import Finding, refuted


def early_accesses(conflicts: Conflicts) -> Iterator[Finding]:
    """Conflicts with asynchronous accesses without a wait between that covers the asynchronous access."""
    knl, launch = conflicts.kernel, conflicts.launch
    waits = Waits(launch, launch.tree)
    narrow = any(b.barrier.scope is not Scope.BLOCK and pending(b.barrier.instructions) is not None
                 for b in conflicts.ways.places)
    for u in unfinished(launch, conflicts.storages):
        pairs = next((left for scope, some in ((Scope.THREAD, u), *(_of_others(conflicts, u) if narrow else ()))
                      if (left := _left(conflicts, waits, some, scope)) is not None), None)
        if pairs is not None:
            does = f"access an element of '{u.array}'" if u.array else "start"
            noun = next(i.noun for i in knl.statement_by_id[u.source].instructions if i.completion is u.completion)
            yield refuted(VerificationError(
                f"'{u.sink}' may {does} before '{u.source}', {noun}, is performed.",
                check="races", witness=smallest_witness(knl, u.array, u.kind, u.source, u.sink, pairs),
                hint="wait for its group between the two"))


def is_for_completion(conflicts: Conflicts, place: PlacedBarrier) -> bool:
    """Does *place* make the completion of asynchronous accesses visible to other threads?"""
    if pending(place.barrier.instructions) is None:
        return False
    waits = Waits(conflicts.launch, conflicts.launch.tree)
    return any(_left(conflicts, waits, some, scope, place) is not None
               for u in unfinished(conflicts.launch, conflicts.storages)
               for scope, some in _of_others(conflicts, u))


def _of_others(conflicts: Conflicts, u: Hazard) -> Iterator[tuple[Scope, Hazard]]:
    """The pairs of *u* on two threads, and those in two warps, with the scope of the wait that they need."""
    a, b = (conflicts.launch.statements[s] for s in (u.source, u.sink))
    for scope, apart in ((Scope.WARP, conflicts.threads.on_two_threads), (Scope.BLOCK, conflicts.threads.in_two_warps)):
        pairs = apart(a, b, u.pairs)
        if pairs is not None:
            yield scope, replace(u, pairs=pairs)


def _left(conflicts: Conflicts, waits: Waits, u: Hazard, scope: Scope, but: PlacedBarrier | None = None
          ) -> Map | None:
    """The pairs of *u* without a covering wait of *scope* between, ignoring the wait *but*; ``None``: none."""
    if waits.places is None:
        return _not_surely_waited_for(conflicts, u, scope, but)
    left = waits.left(u, scope, [None if but is not None and place.way == but.way else pending(place.node.instructions)
                                 for place in waits.places])
    if left is None:
        return None
    kept = frozenset(x for place in waits.places for x in place.names)
    ends = [subscript_relation(waits.launch.statements[s].statement.inames,
                               tuple(p.Variable(x) for x in waits.names(s, kept))) for s in (u.source, u.sink)]
    return u.pairs.intersect(ends[0].apply_range(left).apply_range(ends[1].reverse()))


def _not_surely_waited_for(conflicts: Conflicts, u: Hazard, scope: Scope, but: PlacedBarrier | None) -> Map | None:
    """For groups that cannot be counted: the pairs of *u* without a must-run wait for all groups between."""
    way = conflicts.relative_way(u.source, u.sink)
    waits = [b for b in conflicts.ways.places
             if b is not but and pending(b.barrier.instructions) == 0 and b.barrier.scope >= scope]
    return union_of_some([differing_first_at(u.pairs, way.loops, level) for level in way.between
                          if not any(b.must_separate(u.source, u.sink, level) for b in waits)])
