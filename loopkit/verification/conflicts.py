"""Conflicts: instances on different threads that access one cell of shared or global memory, one of them writing.

The check uses the lowered launch alone: its tree with the barriers, the thread of each instance, and the cells of its
accesses. A conflict without a barrier between its two instances is a race.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import combinations_with_replacement, product
from typing import Any

from loopkit.analysis.accesses import Access, accesses_of, analysis_domain, commute, data_params
from loopkit.analysis.dependences import dependences, in_words
from loopkit.analysis.legality import to_later_blocks
from loopkit.analysis.shared_values import meeting_accesses, values_in
from loopkit.ast.nodes import Scope
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import kind_of
from loopkit.kernel.tree import Leaf, Path, meeting, nodes_in
from loopkit.lowering.lowered import BoundStatement, Launch
from loopkit.lowering.stored import Storage
from loopkit.poly.limits import affordable, kept, kept_in_memo
from loopkit.poly.relations import (
    SharedLoop,
    differing_first_at,
    in_one_iteration,
    in_time_order,
    neighbouring,
    other_instance,
    same_element,
    shared_dims,
)
from loopkit.poly.sets import Map, plain_hull
from loopkit.verification.threads import TOGETHER, PlacedBarrier, Threads, Ways, ways_of


@dataclass(frozen=True, eq=False)
class Candidate:
    """Two accesses that could conflict, the source being the earlier one, at one level of their shared loops.

    :ivar level: the first shared loop, from 0, in which their iterations differ; the number of shared loops: none.
    :ivar block: numbers of the block's barriers that must run between; *warp*: numbers of those of each warp.
    :ivar pattern: identifies the cells and the threads; conflicts of one pattern have the same instances.
    :ivar explicit: the pairs that dep= orders.
    """

    source: Access
    sink: Access
    loops: tuple[SharedLoop, ...]
    level: int
    block: frozenset[int]
    warp: frozenset[int]
    pattern: tuple[int, ...]
    explicit: Map | None = None

    @property
    def array(self) -> str:
        """``""`` of two statements ordered by dep=."""
        return self.source.array

    @property
    def at_once(self) -> bool:
        """Are both one statement in one iteration, so that no barrier can run between?"""
        return self.source.statement == self.sink.statement and self.level == len(self.loops)

    @property
    def what(self) -> str:
        return in_words(kind_between(self.source, self.sink), self.array, self.source.statement, self.sink.statement)


def kind_between(source: Access, sink: Access) -> str:
    """The kind of the dependence from *source* to *sink*; accesses without an array stand for ``dep=``."""
    return kind_of(source.is_write, sink.is_write) if source.array else "explicit"


@dataclass(frozen=True)
class Conflicts:
    """The conflicts of one launch."""

    launch: Launch
    storages: Mapping[str, Storage]
    memo: dict[object, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def kernel(self) -> LoopKernel:
        return self.launch.kernel

    @cached_property
    def ways(self) -> Ways:
        return ways_of(self.launch.tree)

    @cached_property
    def threads(self) -> Threads:
        return Threads(self.launch)

    @cached_property
    def shared(self) -> Mapping[str, tuple[Access, ...]]:
        """The accesses to arrays that several threads share and an instance writes, by array."""
        found: dict[str, list[Access]] = {}
        for bound in self.launch.statements.values():
            for a in accesses_of(self.kernel, bound.statement):
                storage = self.storages.get(a.array)
                if storage is None or storage.space is not AddressSpace.PRIVATE:
                    found.setdefault(a.array, []).append(a)
        return {name: tuple(own) for name, own in found.items() if any(a.is_write for a in own)}

    # Within a block

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """Pairs of accesses that could conflict in one block, by levels."""
        if self.launch.threads == 1:
            return ()
        return (*(c for own in self.shared.values() for a, b in product(own, repeat=2) if _clash(a, b)
                  and a.statement not in self._in_phases and not self.launch.in_two_roles(a.statement, b.statement)
                  for c in self._levels(a, b, self._pattern(a, b))), *self._requested())

    @cached_property
    def _in_phases(self) -> frozenset[str]:
        """The statements whose accesses have phases: any later access of any thread waits for the phase."""
        return frozenset(node.statement for node in nodes_in(self.launch.tree) if isinstance(node, Leaf)
                         and node.instruction is not None and node.instruction.phase is not None)

    def _requested(self) -> Iterator[Candidate]:
        """The pairs that dep= orders, treated as conflicts without an array."""
        statements = self.launch.statements
        for i, d in enumerate(dependences(self.kernel)):
            if d.kind == "explicit" and d.source in statements and d.sink in statements \
                    and d.source not in self._in_phases:
                a, b = (Access(s, "", (), is_first, statements[s].statement.domain, known=(), doubt=None)
                        for s, is_first in ((d.source, True), (d.sink, False)))
                yield from self._levels(a, b, (-1 - i,), d.relation)

    def _levels(self, a: Access, b: Access, pattern: tuple[int, ...], explicit: Map | None = None
                ) -> Iterator[Candidate]:
        loops, others = self.loops(a.statement, b.statement), self._no_barriers_for(a.array)
        for level, (block, warp) in self.levels(a.statement, b.statement).items():
            yield Candidate(a, b, loops, level, block, warp - others, pattern, explicit)

    def _no_barriers_for(self, array: str) -> frozenset[int]:
        """Places that do not order accesses to *array*: warp instructions, unless the array is in warp registers."""
        return frozenset() if self._in_warp_registers(array) else self._warp_instructions

    @cached_property
    def _warp_instructions(self) -> frozenset[int]:
        return frozenset(i for i, b in enumerate(self.ways.barriers) if b.barrier is TOGETHER)

    def in_registers(self, array: str) -> bool:
        """Is *array* in registers? Each thread waits for its own ones."""
        storage = self.storages.get(array)
        return storage is not None and storage.space in (AddressSpace.PRIVATE, AddressSpace.WARP)

    def _in_warp_registers(self, array: str) -> bool:
        storage = self.storages.get(array)
        return storage is not None and storage.space is AddressSpace.WARP

    @kept_in_memo
    def loops(self, first: str, second: str) -> tuple[SharedLoop, ...]:
        """The loops that two statements share, as dimensions of the first and of the second."""
        a, b = (self.launch.statements[s].statement.inames for s in (first, second))
        return tuple(shared_dims(a, b, meeting(self.ways.statements[first], self.ways.statements[second]).loops))

    @kept_in_memo
    def levels(self, first: str, second: str) -> Mapping[int, tuple[frozenset[int], frozenset[int]]]:
        """For each level at which the first may run before the second, or at once: the block's barriers that must run
        between, and those of each warp.
        """
        where = meeting(self.ways.statements[first], self.ways.statements[second])
        between = {}
        for level in range(len(where.loops) + (where.before or first == second)):
            at_once = first == second and level == len(where.loops)
            must = {i: b.barrier.scope for i, b in enumerate(self.ways.barriers)
                    if not at_once and b.must_separate(first, second, level)}
            warp = frozenset(i for i, scope in must.items() if scope is Scope.WARP)
            between[level] = frozenset(must) - warp, warp
        return between

    def pairs(self, c: Candidate, *, beyond_warps: bool = False) -> Map | None:
        """The pairs of instances of *c* that conflict; ``None`` if there are none.

        :arg beyond_warps: omit pairs within one warp.
        """
        def pairs() -> Map | None:
            agreeing = self._agreeing(c, c.level, beyond_warps=beyond_warps)
            found = None if agreeing is None else differing_first_at(agreeing, c.loops[c.level:], 0)
            return None if found is None or found.is_empty() else found
        return kept(self.memo, ("pairs", c.pattern, c.loops, c.level, beyond_warps), pairs)

    def _agreeing(self, c: Candidate, level: int, *, beyond_warps: bool) -> Map | None:
        """The pairs of :meth:`_meeting` in one iteration of the first *level* loops; ``None``: :meth:`_meeting` is."""
        if level == 0:
            return self._meeting(c, beyond_warps=beyond_warps)

        def agreeing() -> Map | None:
            outer = self._agreeing(c, level - 1, beyond_warps=beyond_warps)
            return None if outer is None else in_one_iteration(outer, c.loops[level - 1:level])
        return kept(self.memo, ("agreeing", c.pattern, c.loops[:level], beyond_warps), agreeing)

    def _meeting(self, c: Candidate, *, beyond_warps: bool) -> Map | None:
        """Pairs of instances on two threads of one block, or in two warps, that access one cell, in any order."""
        a, b = self._bound(c.source), self._bound(c.sink)
        accesses_for = max(x.statement.accesses_for(is_write=y.is_write) for x, y in ((a, c.source), (b, c.sink)))
        if self._in_warp_registers(c.array):        # each warp has the rows that it computes
            accesses_for = min(accesses_for, Scope.WARP)
        apart = partial(self.threads.in_two_warps if beyond_warps else self.threads.on_two_threads,
                        accesses_for=accesses_for)
        turned = ("block", beyond_warps, (*c.pattern[1::-1], *c.pattern[2:]))
        if turned[2] != c.pattern and turned in self.memo:
            known: Map | None = self.memo[turned]
            return None if known is None else known.reverse()
        # whoever stores an element, one thread does
        once = accesses_for is not Scope.THREAD and c.source is c.sink
        return kept(self.memo, ("block", beyond_warps, c.pattern), lambda: self._on_one_cell(
            c, lambda pairs: apart(a, b, self.threads.in_one_block(a, b, other_instance(pairs) if once else pairs))))

    def unseparated(self, c: Candidate) -> Map | None:
        """The conflicting pairs of *c* without a barrier between: races; ``None`` if there are none."""
        if c.block or (c.warp and self._stays_in_warps(c.array)):
            return None
        return self._left(c, frozenset())

    def _stays_in_warps(self, array: str) -> bool:
        """Is *array* in warp registers, with each element accessed by threads of one warp only?

        A sufficient test: compares each access with the first one, which writes all elements.
        """
        own = self.shared.get(array, ())
        return self._in_warp_registers(array) and kept(self.memo, ("in warps", array), lambda: all(
            a.relation.range().is_subset(own[0].relation.range())
            and self._meeting(self._anywhere(a, own[0]), beyond_warps=True) is None for a in own))

    def _anywhere(self, a: Access, b: Access) -> Candidate:
        """Two accesses, in any iterations of their loops."""
        return Candidate(a, b, (), 0, frozenset(), frozenset(), self._pattern(a, b))

    def served_by(self, barrier: int) -> Iterator[Candidate]:
        """The conflicts some of which would be races without *barrier*, each kind once."""
        found: set[str] = set()
        for c in self.candidates:
            # no other barrier of the block or the warp must separate it
            if (c.block or c.warp) == {barrier} and c.what not in found and self._needs(c, frozenset({barrier})):
                found.add(c.what)
                yield c

    def _needs(self, c: Candidate, gone: frozenset[int]) -> bool:
        """Are there conflicting pairs without any barrier between except those of *gone*?

        Most barriers order conflicts between neighbouring iterations, which are looked at first: it is faster.
        """
        others = self._others(c, gone)
        if all(b.runs_only_between(c.source.statement, c.sink.statement, c.level) for b in others):
            pairs = self.pairs(c, beyond_warps=bool(c.warp - gone))
            if pairs is None or not others or not neighbouring(pairs, c.loops[c.level]).is_empty():
                return pairs is not None
        return self._left(c, gone) is not None

    def _left(self, c: Candidate, gone: frozenset[int]) -> Map | None:
        """The conflicting pairs without any barrier between except those of *gone*."""
        pairs = self.pairs(c, beyond_warps=bool(c.warp - gone))
        if pairs is None or c.at_once:
            return pairs
        for b in self._others(c, gone):
            if pairs.is_empty():
                return None
            for apart in self._iterations_between(c, b):
                beyond = None
                if b.barrier.scope is Scope.WARP:
                    beyond = self.threads.in_two_warps(self._bound(c.source), self._bound(c.sink), apart)
                pairs = pairs.subtract(apart if beyond is None else apart.subtract(beyond))
        return None if pairs.is_empty() else pairs

    def _others(self, c: Candidate, gone: frozenset[int]) -> list[PlacedBarrier]:
        """The barriers that may run between some pairs of *c*, but need not run between all."""
        left_out = gone | c.block | c.warp | self._no_barriers_for(c.array)
        return [b for i, b in enumerate(self.ways.barriers)
                if i not in left_out and b.may_separate(c.source.statement, c.sink.statement, c.level)]

    def _iterations_between(self, c: Candidate, b: PlacedBarrier) -> Iterator[Map]:
        """Pairs between which *b* runs, in an iteration that may differ from the source's and the sink's."""
        source, sink = self.ways.statements[c.source.statement], self.ways.statements[c.sink.statement]
        for name in b.beside:
            bound = self.launch.statements[name]
            if data_params(self.kernel, bound.statement.domain):
                continue                            # it may not run
            behind = self._in_order(self._bound(c.source), source, bound, b.way)
            ahead = self._in_order(bound, b.way, self._bound(c.sink), sink)
            yield behind.apply_range(ahead)

    def _in_order(self, a: BoundStatement, first: Path, b: BoundStatement, second: Path) -> Map:
        """Pairs of instances in one block such that the first, at *first*, runs before the place *second* of the other.
        """
        domains = [analysis_domain(self.kernel, s.statement) for s in (a, b)]
        pairs = self.threads.in_one_block(a, b, Map.from_domain_and_range(domains[0].set, domains[1].set))
        where = meeting(first, second)
        return in_time_order(pairs, shared_dims(a.statement.inames, b.statement.inames, where.loops), where.before)

    # Across blocks

    def across_blocks(self) -> Iterator[tuple[Candidate, Map]]:
        """Accesses to one element of global memory in two blocks without an order."""
        if all(extent == 1 for extent in self.launch.grid):
            return
        for array, own in self.shared.items():
            if array in self.storages and self.storages[array].space is not AddressSpace.GLOBAL:
                continue
            for a, b in combinations_with_replacement(own, 2):
                if _clash(a, b):
                    c = self._anywhere(a, b)
                    apart = partial(self.threads.in_two_blocks, self._bound(a), self._bound(b))
                    pairs = kept(self.memo, ("blocks", c.pattern), partial(self._on_one_cell, c, apart))
                    if pairs is not None and not (left := self._without_later_blocks(c, pairs)).is_empty():
                        yield c, left

    def _without_later_blocks(self, c: Candidate, pairs: Map) -> Map:
        """The *pairs* in which no reader waits for an earlier block."""
        storage = self.storages.get(c.array)
        if storage is None or not storage.temporary.between_blocks or c.source.is_write == c.sink.is_write:
            return pairs
        first, second = c.source.statement, c.sink.statement
        if c.source.is_write:
            return pairs.subtract(to_later_blocks(self.kernel, first, second, pairs))
        return pairs.subtract(to_later_blocks(self.kernel, second, first, pairs.reverse()).reverse())

    # Cells

    def _bound(self, a: Access) -> BoundStatement:
        return self.launch.statements[a.statement]

    def _on_one_cell(self, c: Candidate, those: Callable[[Map], Map | None]) -> Map | None:
        """The pairs of *c* that access one cell, filtered by *those*; ``None`` if none is left.

        The filter first runs on a polyhedron around each union: usually its result is empty, and so is the exact one.
        """
        a, b = self._cells(c.source), self._cells(c.sink)
        if a.n_basic_map()*b.n_basic_map() > _FEW:
            around = same_element(plain_hull(a), plain_hull(b))
            if affordable(lambda: those(around) is None, otherwise=False, budget=_ROUGH):
                return None
        return those(c.explicit if c.explicit is not None else
                     kept(self.memo, ("one cell", c.pattern), lambda: same_element(a, b) if c.array in self.storages
                          else meeting_accesses(self.kernel, c.source, c.sink)))

    def _cells(self, a: Access) -> Map:
        storage = self.storages.get(a.array)
        return a.relation if storage is None else storage.accessed_cells(a)

    def _pattern(self, a: Access, b: Access) -> tuple[int, ...]:
        """The key of the conflicting pairs of two shared accesses to one array: their cells and their threads."""
        return self._numbers[id(a)], self._numbers[id(b)], a.statement == b.statement

    @cached_property
    def _numbers(self) -> Mapping[int, int]:
        """A number for each shared access, by its id; those with one number have the same cells and threads."""
        kinds: dict[object, int] = {}
        return {id(a): kinds.setdefault(self._kind(a), len(kinds)) for own in self.shared.values() for a in own}

    def _kind(self, a: Access) -> object:
        storage, bound = self.storages.get(a.array), self._bound(a)
        lead = None if storage is None else (storage.lead, storage.lows)
        return (lead, id(a.domain), a.affine, values_in(self.kernel, a), a.subscripts, bound.hardware, bound.auto,
                bound.alone_on, bound.producer, bound.statement.accesses_for(is_write=a.is_write))


#: Most pairs of pieces for which the relation itself is used.
_FEW = 8

#: isl's budget, in operations, for a test on polyhedra around unions.
_ROUGH = 10_000


def _clash(a: Access, b: Access) -> bool:
    """Does the order of two accesses to one cell matter?"""
    return (a.is_write or b.is_write) and not commute(a, b)
