"""Accesses that must wait for a completion event: those that conflict with an asynchronous access before them."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from loopkit.analysis.accesses import accesses_by_array, accesses_of
from loopkit.analysis.dependences import dependences, shared_loops
from loopkit.analysis.legality import axis_inames, places_on_axis
from loopkit.ast.nodes import Completion
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import GroupTag
from loopkit.kernel.tree import meeting, paths
from loopkit.lowering.lowered import Launch, Storage, completion_of
from loopkit.poly.relations import equal_coordinates, in_time_order, same_element
from loopkit.poly.sets import Map


@dataclass(frozen=True)
class Unfinished:
    """Pairs of an asynchronous access and one behind it that touch one element, one of them writing.

    :ivar pairs: from instances of *source* to later ones of *sink*, on whichever threads of one block they run.
    :ivar completion: the event at which the source is performed.
    """

    array: str
    source: str
    sink: str
    kind: str
    pairs: Map
    completion: Completion


def unfinished(knl: LoopKernel, launch: Launch, storages: Mapping[str, Storage]) -> Iterator[Unfinished]:
    """All that must wait for asynchronous statements of *launch*: readers and writers of what they write, and writers
    of what they read."""
    events = {s.statement.id: event for s in launch.statements.values()
              if (event := completion_of(s.statement, storages)) not in (Completion.IMMEDIATE, Completion.FLAG)}
    ways = paths(launch.tree) if events else {}
    for s in (launch.statements[x].statement for x in events):
        for a in accesses_of(knl, s):
            storage = storages.get(a.array)
            if storage is None:
                continue
            for b in accesses_by_array(knl)[a.array]:
                if b.statement not in launch.statements or not (a.is_write or b.is_write):
                    continue
                where = meeting(ways[s.id], ways[b.statement])
                pairs = _in_one_block(knl, s.inames, knl.statement_by_id[b.statement].inames,
                                      same_element(storage.touched(a), storage.touched(b)))
                ordered = in_time_order(pairs, shared_loops(knl, s.id, b.statement, where.loops), where.before)
                if not ordered.is_empty():
                    kind = ("output" if b.is_write else "flow") if a.is_write else "anti"
                    yield Unfinished(a.array, s.id, b.statement, kind, ordered, events[s.id])
    for d in dependences(knl) if events else ():
        if d.source in events and d.array not in storages and d.sink in launch.statements:
            own, other = (knl.statement_by_id[x].inames for x in (d.source, d.sink))
            yield Unfinished(d.array, d.source, d.sink, d.kind, _in_one_block(knl, own, other, d.relation),
                             events[d.source])


def _in_one_block(knl: LoopKernel, x: tuple[str, ...], y: tuple[str, ...], pairs: Map) -> Map:
    first, second = axis_inames(knl, x, GroupTag), axis_inames(knl, y, GroupTag)
    known = [pair for axis in first.keys() & second.keys()
             for pair in places_on_axis(knl, first[axis], second[axis]) or ()]
    return pairs.intersect(equal_coordinates(x, [a for a, _ in known], y, [b for _, b in known])) if known else pairs
