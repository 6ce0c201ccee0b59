"""Order: dependent executions run in the order of the kernel, with barriers between threads."""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_by_array, commute
from loopkit.analysis.dependences import dependences, shared_loops, without_assumed
from loopkit.ast.nodes import Assign, Completion, For, Scope, Sync, completion_of
from loopkit.expr.mappers import variables
from loopkit.instructions.groups import commits, pending
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tree import Meeting, meeting, paths
from loopkit.lowering.lowered import Storage
from loopkit.poly.affine import floor_div
from loopkit.poly.limits import kept
from loopkit.poly.piecewise import piecewise_relation, projected
from loopkit.poly.relations import (
    SharedLoop,
    apart_along,
    equal_coordinates,
    in_one_iteration,
    in_time_order,
    only_dims,
    out_of_time_order,
    same_element,
    smallest_pair,
    subscript_relation,
)
from loopkit.poly.sets import Map, Set, conjunction, range_from, universe_params
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

    def shared(self, other: _Coordinates, names: Sequence[str]) -> list[SharedLoop]:
        return [(self.names.index(x), other.names.index(x)) for x in names]

    def equal(self, other: _Coordinates, names: Sequence[str]) -> Map:
        """Pairs that agree in *names*."""
        values = [p.Variable(x) for x in names]
        return equal_coordinates(self.names, values, other.names, values)

    @cached_property
    def instances(self) -> tuple[Map, list[int]]:
        """The map to the inames that these coordinates determine, and the places of those inames."""
        kept = [i for i, value in enumerate(self.execution.instance)
                if not variables(value) & set(self.execution.coordinates).difference(self.names)]
        values = [self.execution.instance[i] for i in kept]
        return piecewise_relation(self.names, values).intersect_domain(self.points), kept


@dataclass(frozen=True, eq=False)
class OrderCheck(LaunchCheck):
    """The check of the order of dependent executions."""

    def findings(self) -> Iterator[Mismatch]:
        for _ in (node for node in self.divergent if not isinstance(node, For)):
            yield self.mismatch("divergent", "",
                                "a barrier stands under a condition that may differ between the threads of a block")
        ways = paths(self.launch.tree)
        def where(source: str, sink: str) -> Meeting | None:
            return meeting(ways[source], ways[sink]) if source in ways and sink in ways else None
        required: dict[Meet, Map] = {}
        for (source, sink, array), pairs in required_order(self.kernel, self.storages, self.storages, where):
            if array in self.storages:
                pairs = without_assumed(self.kernel, array, source, sink, pairs)
            key = source, sink, array
            required[key] = required[key].union(pairs) if key in required else pairs
        for (source, sink, array), pairs in required.items():
            for first in self.executions.get(source, ()):
                for second in self.executions.get(sink, ()):
                    finding = self._pair(array, first, second, pairs, meeting(ways[source], ways[sink]))
                    if finding is not None:
                        yield finding

    # {{{ one pair of executions

    def _pair(self, array: str, first: Execution, second: Execution, pairs: Map, where: Meeting) -> Mismatch | None:
        loops, before = program_meeting(first, second)
        storage = self.storages.get(array)
        asked = []
        if not self._keeps_the_order(first, second, where, loops, before):
            asked.append("order")
        if self.launch.threads > 1 and (storage is None or storage.space is not AddressSpace.PRIVATE):
            asked.append("lanes" if storage is not None and storage.lanes else "barrier")
        assert isinstance(first.node, Assign)
        if completion_of(first.node.instructions) is Completion.GROUP:
            asked.append("group")
        rough = self._rough(first, second, pairs) if asked else None
        if rough is None:
            return None
        for kind in asked:
            for suspect in self._suspects(kind, *rough):
                broken = self._broken(kind, replace(first, condition=first.condition.intersect(suspect)), second, pairs)
                if broken is not None:
                    return self._finding(kind, array, first, second, broken)
        return None

    def _rough(self, first: Execution, second: Execution, pairs: Map) -> tuple[_Coordinates, _Coordinates, Map] | None:
        """*pairs* without the coordinates of threads, as small sets; ``None``: none."""
        loops, _ = program_meeting(first, second)
        x, y = self._uniform(first, loops), self._uniform(second, loops)
        (source, kept), (sink, other) = x.instances, y.instances
        some = source.apply_range(only_dims(pairs, kept, other)).apply_range(sink.reverse())
        some = some.intersect(x.equal(y, self.grid.along("g")))
        return None if some.is_empty() else (x, y, some)

    def _suspects(self, kind: str, x: _Coordinates, y: _Coordinates, rough: Map) -> Iterator[Set]:
        """Conditions on the first execution under which pairs may be broken; the last is implied by every broken pair.

        Most pairs have none. The first conditions are single sizes, blocks and iterations, which find an existing
        mismatch fast.
        """
        loops, before = program_meeting(x.execution, y.execution)
        match kind:
            case "order":
                left = out_of_time_order(rough, x.shared(y, loops), before)
            case "group":
                left = self._under_way(rough, x, y, self._widest)
            case _:
                left = self._bare_of(rough, x, y, self._block_barriers)
        if left is None or left.is_empty():
            return
        for low in (0, 5, 40):
            larger = left
            for name in self.kernel.value_params:
                larger = larger.intersect_params(range_from(name, low))
            if not larger.is_empty():
                parameters, point, _ = smallest_pair(larger, x.names, y.names)
                yield conjunction({**parameters, **point})
        yield universe_params()

    def _broken(self, kind: str, first: Execution, second: Execution, pairs: Map) -> Map | None:
        """Some of *pairs*, as executions of one block, that run in the wrong order or without a barrier between."""
        loops, before = program_meeting(first, second)
        run = piecewise_relation(first.coordinates, first.instance).intersect_domain(first.points).apply_range(
            pairs).apply_range(piecewise_relation(second.coordinates, second.instance).intersect_domain(
                second.points).reverse())
        run = in_one_iteration(run, self._same("g"))
        if kind == "order":
            shared = [(first.coordinates.index(x), second.coordinates.index(x)) for x in loops]
            return out_of_time_order(in_one_iteration(run, self._same("l")), shared, before)
        if kind == "group":
            return next((early for scope, some in self._by_scope(first, second, run)
                         if (early := self._early(first, second, some, scope)) is not None), None)
        for apart in self._on_two_threads(first, second, run):
            bare = self._bare(first, second, apart, self.barriers if kind == "barrier" else self._or_instructions)
            if bare is not None:
                return bare
        return None

    def _on_two_threads(self, first: Execution, second: Execution, pairs: Map) -> Iterator[Map]:
        """The *pairs* whose cell two threads may access."""
        if any(e.instruction is not None and e.instruction.loads_for_others for e in (first, second)):
            yield pairs                      # any lane of a warp may load the operands
            return
        for i, _ in self._same("l"):
            yield from apart_along(pairs, i)

    def _keeps_the_order(self, first: Execution, second: Execution, where: Meeting, loops: Sequence[str], before: bool
                         ) -> bool:
        """Is the program's order of two statements on one thread that of the kernel, loop by loop?"""
        own = [_of(first, x) for x in where.loops], [_of(second, x) for x in where.loops]
        meant = [p.Variable(x) for x in loops]
        return before == where.before and own[0] == meant and own[1] == meant

    def _same(self, kind: str) -> list[SharedLoop]:
        """The dimensions of the block's coordinates (``"g"``) or the thread's (``"l"``) in two executions."""
        return [(i, i) for i in map(self.grid.coordinates.index, self.grid.along(kind))]

    def _finding(self, kind: str, array: str, first: Execution, second: Execution, pairs: Map) -> Mismatch:
        assert isinstance(first.node, Assign)
        assert isinstance(second.node, Assign)
        if not self.grid.exact:
            real = self.grid.real(pairs.domain(), first.coordinates)
            if real is None:
                return Mismatch("undecided", self.launch.name, second.node.statement, "whether "
                                f"'{second.node.statement}' meets '{first.node.statement}' in a block that exists "
                                "cannot be told")
            pairs = pairs.intersect_domain(real)
        parameters, source, sink = smallest_pair(pairs, first.coordinates, second.coordinates)
        what = {"order": "runs behind, although it has to come first",
                "barrier": "runs on another thread with no barrier between",
                "lanes": "runs on another lane with neither a barrier nor an instruction of the warp between",
                "group": "is asynchronous, with no wait between that is sure to cover it"}[kind]
        on = f"on '{array}'" if array else "by dep="
        at = ", ".join(f"{k} = {v}" for k, v in source.items())
        return Mismatch("barrier" if kind == "lanes" else kind, self.launch.name, second.node.statement,
                        f"'{second.node.statement}' meets '{first.node.statement}' {on}, which {what}"
                        + (f", at {at}" if at else ""), parameters, sink)

    # }}}

    # {{{ barriers

    def _bare(self, first: Execution, second: Execution, pairs: Map, barriers: Sequence[Execution]) -> Map | None:
        """Some of the *pairs*, all on two threads of one block, without one of *barriers* between."""
        if pairs.is_empty():
            return None
        x, y = self._uniform(first), self._uniform(second)
        left = self._bare_of(_narrowed(pairs, x, y), x, y, self._block_barriers)
        if left is None:
            return None
        bare = pairs.intersect(_spread(left, x, y))
        if len(self._block_barriers) < len(barriers):
            left = self._bare_of(left, x, y, barriers)
            apart = self._other_warp(first, second, bare)
            bare = apart if left is None else apart.union(bare.intersect(_spread(left, x, y)))
        return None if bare.is_empty() else bare

    @cached_property
    def barriers(self) -> Sequence[Execution]:
        return [b for b in self._or_instructions if b.node is not TOGETHER]

    @cached_property
    def _or_instructions(self) -> Sequence[Execution]:
        """The barriers, and the warp instructions, which order arrays in warp registers only."""
        return [b for b in self.places if _sync(b).scope is not Scope.THREAD]

    @cached_property
    def _block_barriers(self) -> Sequence[Execution]:
        return [b for b in self.barriers if _sync(b).scope >= self._widest]

    @cached_property
    def _widest(self) -> Scope:
        """The scope of a barrier for all threads of a block: a warp if the block is one warp."""
        return Scope.WARP if self.launch.threads <= self.launch.machine.warp else Scope.BLOCK

    def _bare_of(self, pairs: Map, x: _Coordinates, y: _Coordinates, barriers: Sequence[Execution]) -> Map | None:
        """Some of the *pairs* of executions, identified by *x* and *y*, without one of *barriers* between."""
        for barrier in barriers:
            if pairs.is_empty():
                return None
            pairs = pairs.subtract(self._between(x, y, barrier))
        return None if pairs.is_empty() else pairs

    def _uniform(self, execution: Execution, also: Sequence[str] = ()) -> _Coordinates:
        """The coordinates that order it among barriers: the block's, the loops with barriers; and *also*."""
        def found() -> _Coordinates:
            loops = (program_meeting(execution, place)[0] for place in self.places)
            names = {*self.grid.along("g"), *also}.union(*loops)
            return _Coordinates(execution, tuple(x for x in execution.coordinates if x in names))
        return kept(self.memo, (execution, tuple(also)), found)

    def _between(self, x: _Coordinates, y: _Coordinates, barrier: Execution) -> Map:
        """Pairs of executions, by *x* and by *y*, with *barrier* between."""
        def between() -> Map:
            z = self._at(barrier)
            return self._first(x, z).intersect_range(z.points).apply_range(self._first(z, y))
        return kept(self.memo, (x, y, barrier), between)

    def _first(self, x: _Coordinates, y: _Coordinates) -> Map:
        """Pairs in one block, by *x* and by *y*, whose first runs before the second."""
        def first() -> Map:
            loops, before = program_meeting(x.execution, y.execution)
            return in_time_order(x.equal(y, self.grid.along("g")), x.shared(y, loops), before)
        return kept(self.memo, (x, y), first)

    def _at(self, place: Execution) -> _Coordinates:
        return kept(self.memo, place, lambda: _Coordinates(place, (*self.grid.along("g"), *place.loops)))

    def _other_warp(self, first: Execution, second: Execution, pairs: Map) -> Map:
        if self.launch.threads <= self.launch.machine.warp:
            return Map.empty(pairs.get_space())
        number = [floor_div(thread_number(self.grid, self.launch.block), self.launch.machine.warp)]
        return pairs.subtract(equal_coordinates(first.coordinates, number, second.coordinates, number))

    # }}}

    # {{{ commit groups

    def _by_scope(self, first: Execution, second: Execution, pairs: Map) -> Iterator[tuple[Scope, Map]]:
        """All *pairs* of one block, for which the first one's thread waits; those of two threads, and of two warps."""
        yield Scope.THREAD, pairs
        if all(_sync(place).scope >= self._widest for place in self.places
               if pending(_sync(place).instructions) is not None):
            return                           # each wait is for all threads
        for apart in self._on_two_threads(first, second, pairs):
            yield Scope.WARP, apart
            yield Scope.BLOCK, self._other_warp(first, second, apart)

    def _early(self, first: Execution, second: Execution, pairs: Map, scope: Scope) -> Map | None:
        """Some of the *pairs* of one block whose second may run before the asynchronous first completes."""
        x, y = self._uniform(first), self._uniform(second)
        left = self._under_way(_narrowed(pairs, x, y), x, y, scope)
        return None if left is None else pairs.intersect(_spread(left, x, y))

    def _under_way(self, pairs: Map, x: _Coordinates, y: _Coordinates, scope: Scope) -> Map | None:
        """Some of the *pairs* of executions without a wait between for the group of *x*."""
        for place in self.places:
            left = pending(_sync(place).instructions)
            # a thread's wait covers other threads only behind a barrier with them
            if left is None or pairs.is_empty() or _sync(place).scope < scope:
                continue
            z = self._at(place)
            waited = (self._ended if commits(_sync(place).instructions) else self._behind)(x, place, left + 1)
            pairs = pairs.subtract(waited.intersect_range(z.points).apply_range(self._first(z, y)))
        return None if pairs.is_empty() else pairs

    def _ended(self, x: _Coordinates, place: Execution, count: int) -> Map:
        """Executions of *x* and of *place*, which waits at least for the group committed *count* groups ago."""
        if count == 1:
            return self._first(x, self._at(place)).intersect_range(self._at(place).points)
        return self._behind(x, place, count - 1)

    def _behind(self, x: _Coordinates, place: Execution, count: int) -> Map:
        """Executions of *x* and of *place* with at least *count* commits between."""
        def behind() -> Map:
            z = self._at(place)
            found = Map.empty(self._first(x, z).get_space())
            for other in self.places:
                if commits(_sync(other).instructions):
                    found = found.union(self._ended(x, other, count).apply_range(self._first(self._at(other), z)))
            return found.intersect_range(z.points)
        return kept(self.memo, (x, place, count), behind)

    # }}}


def required_order(knl: LoopKernel, storages: Mapping[str, Storage], arrays: Collection[str],
                   where: Callable[[str, str], Meeting | None]) -> Iterator[tuple[Meet, Map]]:
    """Pairs of instances whose first must complete before the second starts, in the kernel's order.

    Both access one cell of one of *arrays*, temporaries, and one of them writes; or they depend on each other in
    arguments.

    :arg where: the loops that two statements share, and which of the two comes first; ``None`` for other statements.
    """
    found: list[tuple[Meet, Map]] = []
    cache: dict[object, Map] = {}
    for array in arrays:
        accessed_cells = storages[array].accessed_cells
        for a, b in product(accesses_by_array(knl).get(array, ()), repeat=2):
            met = where(a.statement, b.statement)
            if met is not None and (met.loops or met.before) and (a.is_write or b.is_write) and not commute(a, b):
                key = (id(a.domain), a.subscripts, a.affine, id(b.domain), b.subscripts, b.affine, array)
                if key not in cache:
                    cache[key] = same_element(accessed_cells(a), accessed_cells(b))
                found.append(((a.statement, b.statement, array), cache[key]))
    found += [((d.source, d.sink, d.array), d.relation) for d in dependences(knl) if d.array not in storages]
    for meet, pairs in found:
        source, sink, _ = meet
        met = where(source, sink)
        if met is not None:
            pairs = in_time_order(pairs, shared_loops(knl, source, sink, met.loops), met.before)
            if not pairs.is_empty():
                yield meet, pairs


def _narrowed(pairs: Map, x: _Coordinates, y: _Coordinates) -> Map:
    """The *pairs* of executions, by *x* and *y*."""
    source, sink = ([z.execution.coordinates.index(c) for c in z.names] for z in (x, y))
    return only_dims(pairs, source, sink)


def _spread(pairs: Map, x: _Coordinates, y: _Coordinates) -> Map:
    """All executions that agree with *pairs* in *x* and *y*."""
    source, sink = (subscript_relation(z.execution.coordinates, tuple(map(p.Variable, z.names))) for z in (x, y))
    return source.apply_range(pairs).apply_range(sink.reverse())


def _sync(place: Execution) -> Sync:
    assert isinstance(place.node, Sync)
    return place.node


def program_meeting(first: Execution, second: Execution) -> tuple[tuple[str, ...], bool]:
    """The loops that two executions share, outermost first, and whether the first precedes the second in the text."""
    loops: list[str] = []
    for a, b in zip(first.path, second.path, strict=False):
        if a == b:
            if isinstance(a, str):
                loops.append(a)
        else:
            assert isinstance(a, int)
            assert isinstance(b, int)
            return tuple(loops), a < b
    return tuple(loops), False


def _of(execution: Execution, iname: str) -> Expression:
    assert isinstance(execution.node, Assign)
    return next(value for (x, _), value in zip(execution.node.instance, execution.instance, strict=True) if x == iname)
