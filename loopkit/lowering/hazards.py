"""Hazards: dependences of a launch that cross threads of a block, and so need a barrier."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, accesses_by_array, commute
from loopkit.analysis.assumed_dependences import assumed_dependences, without_assumed
from loopkit.analysis.dependences import dependences, in_words, shared_loops
from loopkit.analysis.instructions import collective_inames
from loopkit.analysis.legality import axis_inames, packed_coordinate, places_on_axis
from loopkit.analysis.witnesses import parameters_of, witness_at
from loopkit.ast.nodes import Completion, Scope
from loopkit.errors import IllegalTransformError
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import GroupTag, LocalTag
from loopkit.kernel.tree import Path, meeting
from loopkit.lowering.lowered import BLOCK, BoundStatement, Launch, Storage
from loopkit.poly.affine import add, floor_div, multiply
from loopkit.poly.relations import (
    equal_coordinates,
    in_one_iteration,
    in_time_order,
    other_instance,
    same_element,
    smallest_pair,
)
from loopkit.poly.sets import Map


@dataclass(frozen=True)
class Hazard:
    """Pairs of instances on different threads of one block, in an order that a barrier has to keep.

    They touch one element, one of them writing, or dep= asks for it.

    :ivar pairs: source to sink, in time order.
    :ivar scope: which threads the two always are of; one thread only where the source is asynchronous.
    :ivar kind: ``"flow"``, ``"anti"``, ``"output"`` or ``"explicit"``; *reason* says it to a reader of the code.
    :ivar of_value: a flow that brings a value; other pairs of a write and a read only share a cell.
    :ivar completion: the event at which the source is performed.
    """

    array: str
    source: str
    sink: str
    pairs: Map
    kind: str
    scope: Scope
    of_value: bool = True
    completion: Completion = Completion.IMMEDIATE

    @property
    def reason(self) -> str:
        return in_words(self.kind, self.array, self.source, self.sink)


def hazards(knl: LoopKernel, launch: Launch, storages: Mapping[str, Storage], ways: Mapping[str, Path]
            ) -> Iterator[Hazard]:
    """All hazards of *launch*, whose statements stand at *ways*.

    :raises IllegalTransformError: two threads touch one cell at the same time.
    """
    yield from _argument_hazards(knl, launch, "")       # what dep= orders, of no array
    for array, accesses in accesses_by_array(knl).items():
        here = [a for a in accesses if a.statement in launch.statements]
        storage = storages.get(array)
        if storage is not None and (storage.space is AddressSpace.PRIVATE or storage.lanes):
            continue                         # what lanes read of each other, they read when all of them are there
        if not any(a.is_write for a in here):
            continue
        if storage is None:
            yield from _argument_hazards(knl, launch, array)
        else:
            yield from _storage_hazards(knl, launch, storage, here, ways)


def _argument_hazards(knl: LoopKernel, launch: Launch, array: str) -> Iterator[Hazard]:
    """Between accesses to an argument: the kernel's own dependences, inside one block; no name: what dep= asks for."""
    for d in dependences(knl):
        if d.array != array or d.source not in launch.statements or d.sink not in launch.statements:
            continue
        pairs = _other_thread(knl, launch, d.source, d.sink, d.relation)
        if pairs is not None:
            yield Hazard(array, d.source, d.sink, pairs, d.kind, _apart(knl, launch, d.source, d.sink, pairs))


def _storage_hazards(knl: LoopKernel, launch: Launch, storage: Storage, accesses: Sequence[Access],
                     ways: Mapping[str, Path]) -> Iterator[Hazard]:
    """Between accesses to cells of a shared or global temporary: all pairs, in the order that runs."""
    cache: dict[object, Map | None] = {}
    values = {(d.source, d.sink) for d in dependences(knl)
              if d.of_value and d.kind == "flow" and d.array == storage.name}
    touched = [(a, storage.touched(a)) for a in accesses]
    for a, first in touched:
        for b, second in touched:
            if not (a.is_write or b.is_write) or commute(a, b):
                continue
            where = meeting(ways[a.statement], ways[b.statement])
            if not where.loops and not where.before and a.statement != b.statement:
                continue
            key = (id(a.domain), a.subscripts, id(b.domain), b.subscripts, where, a.statement == b.statement,
                   launch.statements[a.statement].auto, launch.statements[b.statement].auto,
                   launch.statements[a.statement].alone_on, launch.statements[b.statement].alone_on)
            if key not in cache:
                touching = same_element(first, second)
                if a.statement == b.statement:
                    touching = other_instance(touching)
                cache[key] = _other_thread(knl, launch, a.statement, b.statement, touching)
            pairs = cache[key]
            if pairs is None:
                continue
            if assumed_dependences(knl, storage.name):
                pairs = without_assumed(knl, storage.name, a.statement, b.statement, pairs)
                if pairs.is_empty():
                    continue
            loops = shared_loops(knl, a.statement, b.statement, where.loops)
            _require_ordered(knl, storage.name, a, b, pairs, loops, where.before)
            ordered = in_time_order(pairs, loops, where.before)
            if not ordered.is_empty():
                kind = ("output" if b.is_write else "flow") if a.is_write else "anti"
                yield Hazard(storage.name, a.statement, b.statement, ordered, kind,
                             _apart(knl, launch, a.statement, b.statement, ordered),
                             kind != "flow" or (a.statement, b.statement) in values)


def _require_ordered(knl: LoopKernel, array: str, a: Access, b: Access, pairs: Map,
                     loops: Sequence[tuple[int, int]], before: bool) -> None:
    """Two threads that touch one cell at the same time are a race that no barrier can order."""
    if before or a.statement != b.statement:
        return
    together = in_one_iteration(pairs, loops)
    if together.is_empty():
        return
    kind = ("output" if b.is_write else "flow") if a.is_write else "anti"
    raise at_once(knl, Hazard(array, a.statement, b.statement, together, kind, Scope.BLOCK), together)


def at_once(knl: LoopKernel, h: Hazard, pairs: Map) -> IllegalTransformError:
    """The error for *pairs* of *h* between which no barrier can come."""
    a, b = knl.statement_by_id[h.source], knl.statement_by_id[h.sink]
    params, first, second = smallest_pair(pairs, a.inames, b.inames, parameters_of(knl))
    return IllegalTransformError(
        f"Two threads would touch one element of '{h.array}' at once.",
        witness_at(knl, h.array, h.kind, params, (a.id, first), (b.id, second)), ["keep one of the inames sequential"])


# {{{ threads

def scope_of(knl: LoopKernel, launch: Launch, source: str, sink: str, pairs: Map) -> Scope:
    """The scope of the threads that run the instances of all *pairs* of a block: one thread, a warp, or the block."""
    apart = _other_thread(knl, launch, source, sink, pairs)
    return Scope.THREAD if apart is None else _apart(knl, launch, source, sink, apart)


def _other_thread(knl: LoopKernel, launch: Launch, source: str, sink: str, pairs: Map) -> Map | None:
    """Those *pairs* that run in one block on threads that may differ; ``None`` if there are none."""
    a, b = launch.statements[source], launch.statements[sink]
    x, y = a.statement.inames, b.statement.inames
    first, second = axis_inames(knl, x, GroupTag), axis_inames(knl, y, GroupTag)
    blocks = [pair for axis in first.keys() & second.keys()
              for pair in places_on_axis(knl, first[axis], second[axis]) or ()]
    if blocks:
        pairs = pairs.intersect(equal_coordinates(x, [c for c, _ in blocks], y, [c for _, c in blocks]))
    same: Map | None = pairs
    known: list[tuple[Expression, Expression]] = []
    for axis in (axis for axis, extent in zip(BLOCK, launch.block, strict=True) if extent > 1):
        ca, cb = _along(knl, a, axis), _along(knl, b, axis)
        if ca is not None and cb is not None:
            known.append((ca, cb))
        elif ca is not None or cb is not None or a.auto or b.auto:
            same = None                      # one side is met on every thread along the axis, or on any
    if collective_inames(knl, a.statement) or collective_inames(knl, b.statement):
        same = None                          # what an instance reads, any lane of its warp may load
    if same is not None and known:
        same = equal_coordinates(x, [c for c, _ in known], y, [c for _, c in known])
    if same is not None:
        pairs = pairs.subtract(same)
    return None if pairs.is_empty() else pairs


def _apart(knl: LoopKernel, launch: Launch, source: str, sink: str, pairs: Map) -> Scope:
    """Do all *pairs*, of two threads, run in one warp? It holds threads with neighbouring numbers, ``l.0`` fastest."""
    warp = launch.machine.warp
    if launch.threads <= warp:
        return Scope.WARP
    a, b = launch.statements[source], launch.statements[sink]
    first, second = _thread_number(knl, launch, a), _thread_number(knl, launch, b)
    if first is None or second is None:
        return Scope.BLOCK
    warps = [floor_div(first, warp)], [floor_div(second, warp)]
    same = equal_coordinates(a.statement.inames, warps[0], b.statement.inames, warps[1])
    return Scope.WARP if pairs.is_subset(same) else Scope.BLOCK


def _thread_number(knl: LoopKernel, launch: Launch, bound: BoundStatement) -> Expression | None:
    """The number in its block of the thread that runs an instance; ``None`` if several do, or any may."""
    result: Expression = 0
    stride = 1
    for axis, extent in zip(BLOCK, launch.block, strict=True):
        along = _along(knl, bound, axis) if extent > 1 else 0
        if along is None:
            return None
        result = add(result, multiply(stride, along))
        stride *= extent
    return result


def _along(knl: LoopKernel, bound: BoundStatement, axis: str) -> Expression | None:
    """The coordinate of an instance along an axis of the block; ``None``: it runs at all of them."""
    own = axis_inames(knl, bound.statement.inames, LocalTag).get(int(axis[2:]))
    if own is not None:
        return packed_coordinate(knl, own)
    return 0 if axis in bound.alone_on else None

# }}}
