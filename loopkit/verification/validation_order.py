"""Order: dependent executions run in the order of the kernel, with barriers between threads."""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import product

import pymbolic.primitives as p

from loopkit.analysis.accesses import accesses_by_array, commute
from loopkit.analysis.dependences import dependences, joined, shared_loops, without_assumed
from loopkit.ast.nodes import Completion, For, Scope, completion_of
from loopkit.expr.mappers import variables
from loopkit.instructions.groups import commits, pending
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tree import Meeting, meeting, paths
from loopkit.lowering.lowered import Storage
from loopkit.poly.affine import floor_div
from loopkit.poly.limits import kept
from loopkit.poly.piecewise import equal_coordinates, piecewise_relation, projected
from loopkit.poly.relations import (
    SharedLoop,
    apart_along,
    in_one_iteration,
    in_time_order,
    only_dims,
    out_of_time_order,
    same_element,
    shared_dims,
    smallest_pair,
    subscript_relation,
)
from loopkit.poly.sets import Map, Set
from loopkit.verification.report import Mismatch
from loopkit.verification.validation_grid import thread_number
from loopkit.verification.validation_walk import TOGETHER, Execution, LaunchCheck

#: Two statements, and the array of their conflict.
Meet = tuple[str, str, str]


@dataclass(frozen=True)
class _Coordinates:
    """Some of the coordinates of an execution."""

    execution: Execution
    names: tuple[str, ...]

    @cached_property
    def points(self) -> Set:
        return projected(self.execution.points, self.execution.coordinates, self.names)

    def equal(self, other: _Coordinates, names: Sequence[str]) -> Map:
        """Pairs that agree in *names*."""
        values = [p.Variable(x) for x in names]
        return equal_coordinates(self.names, values, other.names, values)

    @cached_property
    def instances(self) -> tuple[Map, list[int]]:
        """The map to the inames that these coordinates determine, and the places of those inames."""
        own = tuple(self.execution.instance.values())
        kept = [i for i, value in enumerate(own)
                if not variables(value) & set(self.execution.coordinates).difference(self.names)]
        values = [own[i] for i in kept]
        return piecewise_relation(self.names, values).intersect_domain(self.points), kept


@dataclass(frozen=True, eq=False)
class OrderCheck(LaunchCheck):
    """The check of the order of dependent executions."""

    def findings(self) -> Iterator[Mismatch]:
        for _ in (node for node in self.divergent if not isinstance(node, For)):
            yield from self.mismatch("divergent", "",
                                "a barrier stands under a condition that may differ between the threads of a block")
        ways = paths(self.launch.tree)
        def where(source: str, sink: str) -> Meeting | None:
            return meeting(ways[source], ways[sink]) if source in ways and sink in ways else None
        required = joined(required_order(self.kernel, self.storages, self.storages, where))
        for (source, sink, array), pairs in required.items():
            if array in self.storages:
                pairs = without_assumed(self.kernel, array, source, sink, pairs)
            for first, second in product(self.executions.get(source, ()), self.executions.get(sink, ())):
                yield from self._pair(array, first, second, pairs)

    # One pair of executions

    def _pair(self, array: str, first: Execution, second: Execution, pairs: Map) -> Iterator[Mismatch]:
        storage = self.storages.get(array)
        shared = self.launch.threads > 1 and (storage is None or storage.space is not AddressSpace.PRIVATE)
        warp = storage is not None and storage.space is AddressSpace.WARP
        kinds = {"order": True, "lanes": shared and warp, "barrier": shared and not warp,
                 "group": completion_of(first.assign.instructions) is Completion.GROUP}
        # at first without the coordinates of threads, in small sets: most pairs are not broken there
        where = meeting(first.path, second.path)
        x, y = (self._uniform(e, where.loops) for e in (first, second))
        (source, own), (sink, others) = x.instances, y.instances
        rough = source.apply_range(only_dims(pairs, own, others)).apply_range(sink.reverse()).intersect(
            x.equal(y, self.grid.along("g")))
        for kind in (kind for kind, applies in kinds.items() if applies and not rough.is_empty()):
            left = self._left(rough, x, y, kind, self._widest) if kind != "order" else \
                out_of_time_order(rough, shared_dims(x.names, y.names, where.loops), where.before)
            broken = None if left is None else self._broken(kind, first, second, pairs)
            if broken is not None:
                yield from self._finding(kind, array, first, second, broken)
                return

    def _broken(self, kind: str, first: Execution, second: Execution, pairs: Map) -> Map | None:
        """Some of *pairs*, as executions of one block, that run in the wrong order or without a barrier between."""
        run = in_one_iteration(first.relation(first.instance.values()).apply_range(pairs).apply_range(
            second.relation(second.instance.values()).reverse()), self._same("g"))
        if kind == "order":
            where = meeting(first.path, second.path)
            shared = shared_dims(first.coordinates, second.coordinates, where.loops)
            return out_of_time_order(in_one_iteration(run, self._same("l")), shared, where.before)
        return next((left for scope, some in self._by_scope(kind, first, second, run)
                     if (left := self._uniformly(first, second, some, kind, scope)) is not None), None)

    def _on_two_threads(self, first: Execution, second: Execution, pairs: Map) -> list[Map]:
        """The *pairs* whose cell two threads may access."""
        if any(e.instruction is not None and e.instruction.loads_for_others for e in (first, second)):
            return [pairs]                      # any lane of a warp may load the operands
        return [apart for i, _ in self._same("l") for apart in apart_along(pairs, i)]

    def _same(self, kind: str) -> list[SharedLoop]:
        """The dimensions of the block's coordinates (``"g"``) or the thread's (``"l"``) in two executions."""
        return [(i, i) for i in map(self.grid.coordinates.index, self.grid.along(kind))]

    def _finding(self, kind: str, array: str, first: Execution, second: Execution, pairs: Map
                 ) -> Iterator[Mismatch]:
        a, b = first.assign.statement, second.assign.statement
        if not self.grid.exact:
            real = self.grid.real(pairs.domain(), first.coordinates)
            if real is None:
                yield from self.mismatch("undecided", b,
                                         f"whether '{b}' meets '{a}' in a block that exists cannot be told")
                return
            pairs = pairs.intersect_domain(real)
        parameters, source, sink = smallest_pair(pairs, first.coordinates, second.coordinates)
        what = {"order": "runs behind, although it has to come first",
                "barrier": "runs on another thread with no barrier between",
                "lanes": "runs on another lane with neither a barrier nor an instruction of the warp between",
                "group": "is asynchronous, with no wait between that is sure to cover it"}[kind]
        on = f"on '{array}'" if array else "by dep="
        at = ", ".join(f"{k} = {v}" for k, v in source.items())
        yield Mismatch("barrier" if kind == "lanes" else kind, self.launch.name, b,
                       f"'{b}' meets '{a}' {on}, which {what}" + (f", at {at}" if at else ""), parameters, sink)

    # Barriers and waits between

    def _uniformly(self, first: Execution, second: Execution, pairs: Map, kind: str, scope: Scope) -> Map | None:
        """:meth:`_left` of *pairs* of executions."""
        x, y = self._uniform(first), self._uniform(second)
        source, sink = ([z.execution.coordinates.index(c) for c in z.names] for z in (x, y))
        left = self._left(only_dims(pairs, source, sink), x, y, kind, scope)
        if left is None:
            return None
        to_x, to_y = (subscript_relation(z.execution.coordinates, tuple(map(p.Variable, z.names))) for z in (x, y))
        found = pairs.intersect(to_x.apply_range(left).apply_range(to_y.reverse()))
        return None if found.is_empty() else found

    def _left(self, pairs: Map, x: _Coordinates, y: _Coordinates, kind: str, scope: Scope) -> Map | None:
        """Some of the *pairs* of executions, identified by *x* and *y*, with no place of *scope* between that orders
        them: a barrier, or for the group of an asynchronous access a wait. ``None``: none.
        """
        for place in self._ordering(kind):
            # a thread's wait covers other threads only behind a barrier with them
            if place.sync.scope >= scope and not pairs.is_empty():
                pairs = pairs.subtract(self._between(x, y, place, kind))
        return None if pairs.is_empty() else pairs

    def _ordering(self, kind: str) -> Sequence[Execution]:
        """The places that may order pairs: warp instructions order arrays in warp registers only."""
        if kind == "group":
            return [b for b in self.places if pending(b.sync.instructions) is not None]
        return [b for b in self.places if b.sync.scope is not Scope.THREAD
                and (kind == "lanes" or b.node is not TOGETHER)]

    def _by_scope(self, kind: str, first: Execution, second: Execution, pairs: Map) -> Iterator[tuple[Scope, Map]]:
        """The *pairs* of one block with the scope of the places that order them: those of a group, for which the first
        one's thread waits, those of two threads, and those of two warps.
        """
        wide = all(place.sync.scope >= self._widest for place in self._ordering(kind))
        if kind == "group":
            yield Scope.THREAD, pairs
            if wide:
                return
        for apart in self._on_two_threads(first, second, pairs):
            yield Scope.WARP, apart
            if not wide:
                yield Scope.BLOCK, self._other_warp(first, second, apart)

    @cached_property
    def _widest(self) -> Scope:
        """The scope of a barrier for all threads of a block: a warp if the block is one warp."""
        return Scope.WARP if self.launch.threads <= self.launch.machine.warp else Scope.BLOCK

    def _uniform(self, execution: Execution, also: Sequence[str] = ()) -> _Coordinates:
        """The coordinates that order it among barriers: the block's, the loops with barriers; and *also*."""
        def found() -> _Coordinates:
            loops = (meeting(execution.path, place.path).loops for place in self.places)
            names = {*self.grid.along("g"), *also}.union(*loops)
            return _Coordinates(execution, tuple(x for x in execution.coordinates if x in names))
        return kept(self.memo, (execution, tuple(also)), found)

    def _between(self, x: _Coordinates, y: _Coordinates, place: Execution, kind: str) -> Map:
        """Pairs of executions, by *x* and by *y*, with *place* between, which for a group waits for that of *x*."""
        def between() -> Map:
            own, left = place.sync.instructions, pending(place.sync.instructions)
            count = left + (not commits(own)) if kind == "group" and left is not None else 0
            return self._behind(x, place, count).apply_range(self._first(self._at(place), y))
        return kept(self.memo, (x, y, place, kind == "group"), between)

    def _first(self, x: _Coordinates, y: _Coordinates) -> Map:
        """Pairs in one block, by *x* and by *y*, whose first runs before the second."""
        def first() -> Map:
            where = meeting(x.execution.path, y.execution.path)
            return in_time_order(x.equal(y, self.grid.along("g")), shared_dims(x.names, y.names, where.loops),
                                 where.before)
        return kept(self.memo, (x, y), first)

    def _at(self, place: Execution) -> _Coordinates:
        return kept(self.memo, place, lambda: _Coordinates(place, (*self.grid.along("g"), *place.loops)))

    def _other_warp(self, first: Execution, second: Execution, pairs: Map) -> Map:
        if self.launch.threads <= self.launch.machine.warp:
            return Map.empty(pairs.get_space())
        number = [floor_div(thread_number(self.grid, self.launch.block), self.launch.machine.warp)]
        return pairs.subtract(equal_coordinates(first.coordinates, number, second.coordinates, number))

    def _behind(self, x: _Coordinates, place: Execution, count: int) -> Map:
        """Executions of *x* and of *place* behind it, with at least *count* commits of groups between."""
        def behind() -> Map:
            z = self._at(place)
            found = self._first(x, z)
            if count:
                ways = (self._behind(x, other, count - 1).apply_range(self._first(self._at(other), z))
                        for other in self.places if commits(other.sync.instructions))
                found = reduce(Map.union, ways, Map.empty(found.get_space()))
            return found.intersect_range(z.points)
        return kept(self.memo, (x, place, count), behind)


def required_order(knl: LoopKernel, storages: Mapping[str, Storage], arrays: Collection[str],
                   where: Callable[[str, str], Meeting | None]) -> Iterator[tuple[Meet, Map]]:
    """Pairs of instances whose first must complete before the second starts, in the kernel's order.

    Both access one cell of one of *arrays*, temporaries, and one of them writes; or they depend on each other in
    arguments.

    :arg where: the loops that two statements share, and which of the two comes first; ``None`` for other statements.
    """
    found: list[tuple[Meet, Map]] = []
    for array in arrays:
        accessed_cells = storages[array].accessed_cells
        for a, b in product(accesses_by_array(knl).get(array, ()), repeat=2):
            met = where(a.statement, b.statement)
            if met is not None and (met.loops or met.before) and (a.is_write or b.is_write) and not commute(a, b):
                found.append(((a.statement, b.statement, array), same_element(accessed_cells(a), accessed_cells(b))))
    found += [((d.source, d.sink, d.array), d.relation) for d in dependences(knl) if d.array not in storages]
    for meet, pairs in found:
        source, sink, _ = meet
        met = where(source, sink)
        if met is not None:
            pairs = in_time_order(pairs, shared_loops(knl, source, sink, met.loops), met.before)
            if not pairs.is_empty():
                yield meet, pairs
