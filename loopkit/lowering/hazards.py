"""Hazards, and the waits that order them.

A hazard is a set of pairs of instances of one block that need a barrier, because two threads run them, or a wait. An
asynchronous access is complete once its thread has waited for its event; other threads need a barrier after that wait.
The instruction of a wait gives the accesses that it waits for, as a relation between iterations.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product, takewhile

from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, accesses_by_array, accesses_of, commute, data_params
from loopkit.analysis.dependences import assumed_dependences, dependences, in_words, shared_loops, without_assumed
from loopkit.analysis.legality import axis_inames, packed_coordinate, places_on_axis
from loopkit.analysis.witnesses import BrokenPairs
from loopkit.ast.nodes import Completion, Instruction, Scope, completion_of, events_between
from loopkit.errors import IllegalTransformError
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import kind_of
from loopkit.kernel.tags import GroupTag, LocalTag
from loopkit.kernel.tree import Leaf, Path, meeting, nodes_in, paths
from loopkit.lowering.block_values import block_values, domain_in_block
from loopkit.lowering.lowered import BLOCK, BoundStatement, Launch
from loopkit.lowering.stored import Storage, serves
from loopkit.poly.affine import floor_div
from loopkit.poly.piecewise import equal_coordinates
from loopkit.poly.relations import (
    in_one_iteration,
    in_time_order,
    other_instance,
    same_element,
)
from loopkit.poly.sets import Map

#: The memory in registers: instructions read those of other threads when all threads are there.
_REGISTERS = (AddressSpace.PRIVATE, AddressSpace.WARP)


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
    for d in dependences(launch.kernel):                # on arguments, or of the order that dep= requests
        if d.array not in storages and d.source in launch.statements and d.sink in launch.statements:
            pairs = _other_thread(launch, d.source, d.sink, d.relation)
            if pairs is not None:
                yield Hazard(d.array, d.source, d.sink, pairs, d.kind, _scope(launch, d.source, d.sink, pairs))
    for array, accesses in accesses_by_array(launch.kernel).items():
        storage = storages.get(array)
        # a warp instruction reads another lane's register when all lanes are there
        if storage is not None and storage.space not in _REGISTERS:
            yield from _storage_hazards(launch, storage, [a for a in accesses if a.statement in launch.statements])


def unfinished(launch: Launch, storages: Mapping[str, Storage]) -> Iterator[Hazard]:
    """All pairs of *launch* that need an event between: later conflicting accesses wait for an asynchronous access, and
    accesses of instructions come after a fence of the thread.
    """
    knl, ways = launch.kernel, paths(launch.tree)
    every = instructions_in(launch, storages)
    events = {x for x, own in every.items() if completion_of(own).needs_wait}
    fenced = {x for x, own in every.items() if any(i.asynchronous_proxy or i.asynchronous_registers for i in own)}

    def hazard(array: str, source: str, sink: str, pairs: Map, kind: str, event: Completion) -> Hazard:
        own = array in storages and storages[array].space in _REGISTERS
        apart = None if own else _other_thread(launch, source, sink, pairs)
        scope = Scope.THREAD if apart is None else _scope(launch, source, sink, apart)
        return Hazard(array, source, sink, pairs, kind, scope, completion=event)
    for a in (a for s in every if events or fenced for a in accesses_of(knl, knl.statement_by_id[s])):
        source, storage = a.statement, storages.get(a.array)
        for b in accesses_by_array(knl)[a.array] if storage is not None else ():
            if storage is None or b.statement not in launch.statements or not (a.is_write or b.is_write):
                continue
            # threads read the bounds of loops, not the instructions inside
            is_bound = b.array in data_params(knl, knl.statement_by_id[b.statement].domain)
            if source not in events and (is_bound or b.statement not in fenced):
                continue
            needed = events_between(every[source], every[b.statement], writes=a.is_write,
                                    shared=storage.space is AddressSpace.SHARED,
                                    private=storage.space in _REGISTERS)
            if not needed:
                continue
            pairs = _in_one_block(launch, source, b.statement,
                                  same_element(storage.accessed_cells(a), storage.accessed_cells(b)))
            where = meeting(ways[source], ways[b.statement])
            ordered = in_time_order(pairs, shared_loops(knl, source, b.statement, where.loops), where.before)
            if not ordered.is_empty():
                yield from (hazard(a.array, source, b.statement, ordered, kind_of(a.is_write, b.is_write), event)
                            for event in needed)
    for d in dependences(knl) if events else ():
        if d.source in events and d.array not in storages and d.sink in launch.statements:
            yield hazard(d.array, d.source, d.sink, _in_one_block(launch, d.source, d.sink, d.relation), d.kind,
                         completion_of(every[d.source]))


def tile_reads(launch: Launch) -> Iterator[Hazard]:
    """The reads of tiles that copies with phases bring, each with the event at which it is performed."""
    knl = launch.kernel
    for d in dependences(knl):
        if d.of_value and d.kind == "flow" and {d.source, d.sink} <= launch.statements.keys() \
                and knl.statement_by_id[d.source].completion is Completion.PHASE:
            yield Hazard(d.array, d.source, d.sink, _in_one_block(launch, d.source, d.sink, d.relation), d.kind,
                         Scope.BLOCK, completion=knl.statement_by_id[d.sink].completion)


def scope_between_places(launch: Launch, storages: Mapping[str, Storage], arrays: Iterable[str]) -> Scope:
    """The threads that may share a cell of *arrays* if a block runs several places of the grid: those of a warp, if
    each cell has the same warp at all places.
    """
    def scopes(array: str) -> Iterator[Scope]:
        accesses = [(a.statement, storages[array].accessed_cells(a))
                    for a in accesses_by_array(launch.kernel)[array] if a.statement in launch.statements]
        for (source, first), (sink, second) in product(accesses, repeat=2):
            yield _scope(launch, source, sink, same_element(first, second))
    return max((scope for array in arrays for scope in scopes(array)), default=Scope.BLOCK)


def instructions_in(launch: Launch, storages: Mapping[str, Storage]) -> dict[str, tuple[Instruction, ...]]:
    """The instructions that make the accesses of each statement of *launch*."""
    together = {node.statement: node.instruction for node in nodes_in(launch.tree)
                if isinstance(node, Leaf) and node.instruction is not None}
    return {x: (*(i for i in bound.statement.instructions if serves(i, bound.statement, storages)),
                *((together[x],) if x in together else ())) for x, bound in launch.statements.items()}


def _storage_hazards(launch: Launch, storage: Storage, accesses: Sequence[Access]) -> Iterator[Hazard]:
    """Hazards of a shared or global temporary: all conflicting pairs, in execution order."""
    knl, ways = launch.kernel, paths(launch.tree)
    cache: dict[object, Map | None] = {}
    values = {(d.source, d.sink) for d in dependences(knl)
              if d.of_value and d.kind == "flow" and d.array == storage.name}
    accessed = [(a, storage.accessed_cells(a)) for a in accesses]
    for (a, first), (b, second) in product(accessed, repeat=2):
        statements = source, sink = a.statement, b.statement
        where = meeting(ways[source], ways[sink])
        if not (a.is_write or b.is_write) or commute(a, b) or not (where.loops or where.before or source == sink):
            continue
        key = (id(a.domain), a.subscripts, id(b.domain), b.subscripts, where, source == sink,
               *((launch.statements[s].auto, launch.statements[s].alone_on, launch.statements[s].producer)
                 for s in statements))
        if key not in cache:
            one_cell = same_element(first, second)
            cache[key] = _other_thread(launch, source, sink, other_instance(one_cell) if source == sink else one_cell)
        pairs = cache[key]
        if pairs is not None and assumed_dependences(knl, storage.name):
            pairs = without_assumed(knl, storage.name, source, sink, pairs)
        if pairs is None or pairs.is_empty():
            continue
        loops, kind = shared_loops(knl, source, sink, where.loops), kind_of(a.is_write, b.is_write)
        if source == sink and not (together := in_one_iteration(pairs, loops)).is_empty():
            raise at_once(knl, storage.name, kind, source, sink, together)
        ordered = in_time_order(pairs, loops, where.before)
        if not ordered.is_empty():
            yield Hazard(storage.name, source, sink, ordered, kind, _scope(launch, source, sink, ordered),
                         kind != "flow" or statements in values)


def at_once(knl: LoopKernel, array: str, kind: str, source: str, sink: str, pairs: Map) -> IllegalTransformError:
    """The error for *pairs* of threads that access one element at the same time: no barrier separates them."""
    return IllegalTransformError(f"Two threads would access one element of '{array}' at once.",
                                 BrokenPairs.on_one_element(knl, array, kind, source, sink, pairs).witness(),
                                 ["keep one of the inames sequential"])


def _in_one_block(launch: Launch, source: str, sink: str, pairs: Map) -> Map:
    """The *pairs* that run in one block."""
    knl = launch.kernel
    x, y = (knl.statement_by_id[s].inames for s in (source, sink))
    first, second = axis_inames(knl, x, GroupTag), axis_inames(knl, y, GroupTag)
    known = [pair for axis in first.keys() & second.keys()
             for pair in places_on_axis(knl, first[axis], second[axis]) or ()]
    pairs = pairs.intersect(equal_coordinates(x, [a for a, _ in known], y, [b for _, b in known]))
    if not block_values(launch):
        return pairs
    return pairs.intersect_domain(domain_in_block(launch, source).set).intersect_range(
        domain_in_block(launch, sink).set)


def _other_thread(launch: Launch, source: str, sink: str, pairs: Map) -> Map | None:
    """The *pairs* that run in one block on threads that may differ; ``None`` if there are none."""
    knl, ends = launch.kernel, (launch.statements[source], launch.statements[sink])
    pairs = _in_one_block(launch, source, sink, pairs)
    # any lane of the warp may load the operands of a collective instance, or store its results
    may_differ = any(_accesses_for(bound) > Scope.THREAD for bound in ends) or launch.in_two_roles(source, sink)
    known: list[tuple[Expression, ...]] = []
    for axis in (axis for axis, extent in zip(BLOCK, launch.block, strict=True) if extent != 1):
        first, second = (_own_inames_on(knl, bound, axis) for bound in ends)
        if first is None or second is None:
            # one side runs on every thread along the axis, or on any
            may_differ |= first is not second or any(bound.auto for bound in ends)
        elif (places := places_on_axis(knl, first, second)) is None:
            may_differ = True
        else:
            known += places
    if not may_differ:
        pairs = pairs.subtract(_agreeing(ends, known))
    return None if pairs.is_empty() else pairs


def _accesses_for(bound: BoundStatement) -> Scope:
    """The threads for which a thread may access an element."""
    return max(bound.statement.accesses_for(is_write=own) for own in (False, True))


def _scope(launch: Launch, source: str, sink: str, pairs: Map) -> Scope:
    """The scope of the barrier that *pairs* need; a warp has threads with neighbouring numbers, ``l.0`` fastest."""
    ends = launch.statements[source], launch.statements[sink]
    if launch.within_warp():
        return Scope.WARP
    # an instruction accesses elements for threads of other warps too
    if not isinstance(launch.threads, int) or any(_accesses_for(bound) > Scope.WARP for bound in ends):
        return Scope.BLOCK
    first, second = (_warp_number(launch, bound) for bound in ends)
    if first is None or second is None:
        return Scope.BLOCK
    one_warp = _agreeing(ends, [(first, second)])
    return Scope.WARP if pairs.is_subset(one_warp) else Scope.BLOCK


def _agreeing(ends: tuple[BoundStatement, BoundStatement], coordinates: Sequence[tuple[Expression, ...]]) -> Map:
    """The pairs of instances of two statements with equal *coordinates*."""
    first, second = (bound.statement.inames for bound in ends)
    return equal_coordinates(first, [a for a, _ in coordinates], second, [b for _, b in coordinates])


def _warp_number(launch: Launch, bound: BoundStatement) -> Expression | None:
    """The number in its block of the warp that runs an instance; ``None`` if several do, or any may."""
    warp, known, threads = launch.machine.warp, [], 1
    for axis, extent in zip(BLOCK, launch.block, strict=True):
        assert isinstance(extent, int)
        threads *= extent
        inames = _own_inames_on(launch.kernel, bound, axis) if extent > 1 else ()
        if inames is None and (bound.auto or warp % threads):
            return None
        # threads that differ along this axis alone are in one warp
        known.append(packed_coordinate(launch.kernel, inames) if inames else bound.place_on(axis))
    return floor_div(launch.thread_number(known), warp)


def _own_inames_on(knl: LoopKernel, bound: BoundStatement, axis: str) -> tuple[str, ...] | None:
    """The inames of a statement on an axis of the block, none at coordinate 0; ``None``: it runs at all places."""
    own = axis_inames(knl, bound.statement.inames, LocalTag).get(int(axis[2:]))
    return () if own is None and axis in bound.alone_on else own


# Waits

def steps_in_common(first: Path, second: Path) -> int:
    """The number of steps that two paths share."""
    return len([*takewhile(lambda steps: steps[0] == steps[1], zip(first, second, strict=False))])
