"""Hazards: dependences of a launch that need a barrier, because they run on two threads of a block, or that need a
wait.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, accesses_by_array, accesses_of, commute
from loopkit.analysis.dependences import assumed_dependences, dependences, in_words, shared_loops, without_assumed
from loopkit.analysis.instructions import collective_inames
from loopkit.analysis.legality import axis_inames, packed_coordinate, places_on_axis
from loopkit.analysis.witnesses import parameters_of, witness_at
from loopkit.ast.nodes import Completion, Scope, completion_of
from loopkit.errors import IllegalTransformError
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.dependence import kind_of
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import GroupTag, LocalTag
from loopkit.kernel.tree import meeting, paths
from loopkit.lowering.lowered import BLOCK, BoundStatement, Launch, Storage, serves
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
    """Pairs of instances of one block whose order a barrier or a wait must keep.

    They access one element, one of them writing, or dep= requests their order. They run on different threads, unless
    the source is asynchronous.

    :ivar pairs: source to sink, in time order.
    :ivar kind: ``"flow"``, ``"anti"``, ``"output"`` or ``"explicit"``; *reason* is its text for a reader of the code.
    :ivar scope: the threads that always include both; one thread only if the source is asynchronous.
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


def hazards(launch: Launch, storages: Mapping[str, Storage]) -> Iterator[Hazard]:
    """All dependent pairs of *launch* on two threads of a block.

    :raises IllegalTransformError: two threads access one cell at the same time.
    """
    yield from _argument_hazards(launch, "")            # the order that dep= requests, of no array
    for array, accesses in accesses_by_array(launch.kernel).items():
        here = [a for a in accesses if a.statement in launch.statements]
        storage = storages.get(array)
        if storage is not None and (storage.space is AddressSpace.PRIVATE or storage.lanes):
            continue                         # a warp instruction reads another lane's register when all lanes are there
        if not any(a.is_write for a in here):
            continue
        if storage is None:
            yield from _argument_hazards(launch, array)
        else:
            yield from _storage_hazards(launch, storage, here)


def unfinished(launch: Launch, storages: Mapping[str, Storage]) -> Iterator[Hazard]:
    """All pairs of *launch* that must wait for an asynchronous access: the later conflicting accesses."""
    knl = launch.kernel
    every = {x: completion_of(i for i in bound.statement.instructions if serves(i, bound.statement, storages))
             for x, bound in launch.statements.items()}
    events = {x: event for x, event in every.items() if event not in (Completion.IMMEDIATE, Completion.FLAG)}
    if not events:
        return

    def hazard(array: str, source: str, sink: str, pairs: Map, kind: str) -> Hazard:
        apart = _other_thread(launch, source, sink, pairs)
        scope = Scope.THREAD if apart is None else _apart(launch, source, sink, apart)
        return Hazard(array, source, sink, pairs, kind, scope, completion=events[source])
    ways = paths(launch.tree)
    for source in events:
        for a in accesses_of(knl, knl.statement_by_id[source]):
            storage = storages.get(a.array)
            for b in accesses_by_array(knl)[a.array] if storage is not None else ():
                if b.statement not in launch.statements or not (a.is_write or b.is_write):
                    continue
                assert storage is not None
                where = meeting(ways[source], ways[b.statement])
                pairs = _in_one_block(knl, source, b.statement,
                                      same_element(storage.accessed_cells(a), storage.accessed_cells(b)))
                ordered = in_time_order(pairs, shared_loops(knl, source, b.statement, where.loops), where.before)
                if not ordered.is_empty():
                    yield hazard(a.array, source, b.statement, ordered, kind_of(a.is_write, b.is_write))
    for d in dependences(knl):
        if d.source in events and d.array not in storages and d.sink in launch.statements:
            yield hazard(d.array, d.source, d.sink, _in_one_block(knl, d.source, d.sink, d.relation), d.kind)


def _argument_hazards(launch: Launch, array: str) -> Iterator[Hazard]:
    """Hazards of an argument: the kernel's dependences, inside one block; without a name: the order that dep= requests.
    """
    for d in dependences(launch.kernel):
        if d.array == array and d.source in launch.statements and d.sink in launch.statements:
            pairs = _other_thread(launch, d.source, d.sink, d.relation)
            if pairs is not None:
                yield Hazard(array, d.source, d.sink, pairs, d.kind, _apart(launch, d.source, d.sink, pairs))


def _storage_hazards(launch: Launch, storage: Storage, accesses: Sequence[Access]) -> Iterator[Hazard]:
    """Hazards of a shared or global temporary: all conflicting pairs, in execution order."""
    knl, ways = launch.kernel, paths(launch.tree)
    cache: dict[object, Map | None] = {}
    values = {(d.source, d.sink) for d in dependences(knl)
              if d.of_value and d.kind == "flow" and d.array == storage.name}
    accessed = [(a, storage.accessed_cells(a)) for a in accesses]
    for a, first in accessed:
        for b, second in accessed:
            where = meeting(ways[a.statement], ways[b.statement])
            one = a.statement == b.statement
            if not (a.is_write or b.is_write) or commute(a, b) or not (where.loops or where.before or one):
                continue
            bound = [launch.statements[x.statement] for x in (a, b)]
            key = (id(a.domain), a.subscripts, id(b.domain), b.subscripts, where, one,
                   *((s.auto, s.alone_on) for s in bound))
            if key not in cache:
                touching = same_element(first, second)
                cache[key] = _other_thread(launch, a.statement, b.statement,
                                           other_instance(touching) if one else touching)
            pairs = cache[key]
            if pairs is not None and assumed_dependences(knl, storage.name):
                pairs = without_assumed(knl, storage.name, a.statement, b.statement, pairs)
            if pairs is None or pairs.is_empty():
                continue
            loops = shared_loops(knl, a.statement, b.statement, where.loops)
            if one and not (together := in_one_iteration(pairs, loops)).is_empty():
                raise at_once(knl, storage.name, kind_of(a.is_write, b.is_write), (a.statement, b.statement), together)
            ordered = in_time_order(pairs, loops, where.before)
            if not ordered.is_empty():
                yield Hazard(storage.name, a.statement, b.statement, ordered, kind_of(a.is_write, b.is_write),
                             _apart(launch, a.statement, b.statement, ordered),
                             kind_of(a.is_write, b.is_write) != "flow" or (a.statement, b.statement) in values)


def at_once(knl: LoopKernel, array: str, kind: str, statements: tuple[str, str], pairs: Map) -> IllegalTransformError:
    """The error for *pairs* of two threads that access one element at the same time, so that no barrier can separate
    them.
    """
    a, b = (knl.statement_by_id[s] for s in statements)
    params, first, second = smallest_pair(pairs, a.inames, b.inames, parameters_of(knl))
    return IllegalTransformError(
        f"Two threads would access one element of '{array}' at once.",
        witness_at(knl, array, kind, params, (a.id, first), (b.id, second)), ["keep one of the inames sequential"])


def _in_one_block(knl: LoopKernel, source: str, sink: str, pairs: Map) -> Map:
    """The *pairs* that run in one block."""
    x, y = (knl.statement_by_id[s].inames for s in (source, sink))
    first, second = axis_inames(knl, x, GroupTag), axis_inames(knl, y, GroupTag)
    known = [pair for axis in first.keys() & second.keys()
             for pair in places_on_axis(knl, first[axis], second[axis]) or ()]
    return pairs.intersect(equal_coordinates(x, [a for a, _ in known], y, [b for _, b in known])) if known else pairs


def _other_thread(launch: Launch, source: str, sink: str, pairs: Map) -> Map | None:
    """The *pairs* that run in one block on threads that may differ; ``None`` if there are none."""
    knl, a, b = launch.kernel, launch.statements[source], launch.statements[sink]
    pairs = _in_one_block(knl, source, sink, pairs)
    same: Map | None = pairs
    known: list[tuple[Expression, Expression]] = []
    for axis in (axis for axis, extent in zip(BLOCK, launch.block, strict=True) if extent > 1):
        ca, cb = _along(knl, a, axis), _along(knl, b, axis)
        if ca is not None and cb is not None:
            known.append((ca, cb))
        elif ca is not None or cb is not None or a.auto or b.auto:
            same = None                      # one side runs on every thread along the axis, or on any
    if collective_inames(knl, a.statement) or collective_inames(knl, b.statement):
        same = None                          # any lane of the warp may load the operands of an instance
    if same is not None and known:
        same = equal_coordinates(a.statement.inames, [c for c, _ in known], b.statement.inames, [c for _, c in known])
    if same is not None:
        pairs = pairs.subtract(same)
    return None if pairs.is_empty() else pairs


def _apart(launch: Launch, source: str, sink: str, pairs: Map) -> Scope:
    """The scope of the barrier that *pairs*, of two threads, need. A warp has threads with neighbouring numbers,
    ``l.0`` fastest.
    """
    warp = launch.machine.warp
    if launch.threads <= warp:
        return Scope.WARP
    a, b = launch.statements[source], launch.statements[sink]
    first, second = _thread_number(launch, a), _thread_number(launch, b)
    if first is None or second is None:
        return Scope.BLOCK
    same = equal_coordinates(a.statement.inames, [floor_div(first, warp)],
                             b.statement.inames, [floor_div(second, warp)])
    return Scope.WARP if pairs.is_subset(same) else Scope.BLOCK


def _thread_number(launch: Launch, bound: BoundStatement) -> Expression | None:
    """The number in its block of the thread that runs an instance; ``None`` if several do, or any may."""
    result: Expression = 0
    stride = 1
    for axis, extent in zip(BLOCK, launch.block, strict=True):
        along = _along(launch.kernel, bound, axis) if extent > 1 else 0
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
