"""Asynchronous copies that may not be done yet when something touches what they copy."""
from __future__ import annotations

from collections.abc import Iterator

import pymbolic.primitives as p

from loopkit.errors import VerificationError
from loopkit.lowering.copies import Unfinished, Waits, unfinished
from loopkit.poly.relations import differing_first_at, subscript_relation
from loopkit.poly.sets import Map
from loopkit.verify.conflicts import Conflicts
from loopkit.verify.report import Finding, refuted
from loopkit.verify.smallest import smallest_witness


def early_accesses(conflicts: Conflicts) -> Iterator[Finding]:
    """Accesses to what a copy writes, and writes of what it reads, with no wait between that covers the copy."""
    knl, launch = conflicts.kernel, conflicts.launch
    waits = Waits(knl, launch, launch.tree)
    for u in unfinished(knl, launch, conflicts.storages):
        pairs = _left(conflicts, waits, u)
        if pairs is not None:
            yield refuted(VerificationError(
                f"'{u.sink}' may touch an element of '{u.array}' before the asynchronous copy '{u.source}' is done.",
                check="races", witness=smallest_witness(knl, u.array, u.kind, u.source, u.sink, pairs),
                hint="wait for the copy's group between the two"))


def _left(conflicts: Conflicts, waits: Waits, u: Unfinished) -> Map | None:
    """Those pairs of *u* that no wait comes between which covers the copy; ``None``: there are none."""
    if waits.places is None:
        return _not_surely_waited_for(conflicts, u)
    left = waits.left(u, [place.node.pending for place in waits.places])
    if left is None:
        return None
    kept = frozenset(x for place in waits.places for x in place.names)
    ends = [subscript_relation(waits.launch.statements[s].statement.inames,
                               tuple(p.Variable(x) for x in waits.names(s, kept))) for s in (u.source, u.sink)]
    return u.pairs.intersect(ends[0].apply_range(left).apply_range(ends[1].reverse()))


def _not_surely_waited_for(conflicts: Conflicts, u: Unfinished) -> Map | None:
    """Where groups cannot be counted: those pairs of *u* between which no wait for all of them is sure to come."""
    way = conflicts.relative_way(u.source, u.sink)
    waits = frozenset(i for i, b in enumerate(conflicts.ways.barriers) if b.barrier.pending == 0 and not b.barrier.warp)
    found: Map | None = None
    for level, (block, _) in way.between.items():
        pairs = differing_first_at(u.pairs, way.loops, level)
        if not block & waits and not pairs.is_empty():
            found = pairs if found is None else found.union(pairs)
    return found
