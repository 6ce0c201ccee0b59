"""The stages ``schedule``, ``memory`` and ``launches``: decide where launches end, on trees without parallel loops.

The first stage ends launches at cross-block dependences, the second where temporaries are put in global memory, the
third where cross-block dependences remain. A statement outside a grid axis runs in block 0 of it if it writes global
memory, and in every block if it writes a private or shared temporary. A launch does not order a statement in block 0
and one in every block.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from loopkit.analysis.accesses import commute, why_undecided
from loopkit.analysis.dependences import Pair, dependences, shared_loops
from loopkit.analysis.legality import across_blocks, hosts_obstacle, is_between_blocks
from loopkit.analysis.order import execution_paths, meeting_of, not_separable, obstacle, sequential
from loopkit.analysis.shapes import array_shapes
from loopkit.analysis.witnesses import Violation
from loopkit.errors import IllegalTransformError, UndecidedError
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Dependence, RequestedBarrier, Statement
from loopkit.kernel.tree import Leaf, Loop, Tree, leaves, parts_of, seq
from loopkit.lowering.lowered import GRID, Launch
from loopkit.lowering.scheduled import LaunchBody, Schedule, SchedulePoint
from loopkit.lowering.storage import common_inames, leaves_its_launch, one_cell_across_blocks, space_of_flow, values_in
from loopkit.lowering.stored import Storage
from loopkit.poly.relations import in_one_iteration


def schedule(knl: LoopKernel, apart: frozenset[Pair] = frozenset(), *, refused: bool = False) -> Schedule:
    """Split the kernel's order into launches: a launch ends at a cross-block dependence.

    A sequential loop that holds such a dependence becomes the host's, with launches in each of its iterations.

    :arg apart: pairs of statements that must not be in one launch for other reasons.
    :arg refused: the order may be illegal. A loop that the host would have to run and cannot stays in its launch.
    """
    launches: list[LaunchBody] = []
    order = _Splitter(knl, apart, launches, refused).split(sequential(knl.tree, knl.tags), ())
    return Schedule(knl, tuple(launches), order, apart)


def launches_of(knl: LoopKernel) -> dict[str, SchedulePoint]:
    """The launch of each statement, also in an order that is refused."""
    return schedule(knl, requested_apart(knl), refused=True).places()


def requested_apart(knl: LoopKernel) -> frozenset[Pair]:
    """Pairs of statements between which the user requests the end of a launch."""
    return frozenset(pair for barrier in knl.barriers if barrier.kind == "global"
                     for pair in separated_by(knl, barrier))


def in_one_launch(knl: LoopKernel, statement: str) -> Iterator[Statement]:
    """The statements that may run in one launch with *statement*: the user requests no end of a launch between."""
    place = {s: i for i, s in enumerate(leaves(knl.tree))}
    ends = [(place[first], place[second]) for first, second in requested_apart(knl)]
    here = place[statement]
    for s in knl.statements:
        low, high = sorted((place[s.id], here))
        if not any(low <= first and second <= high for first, second in ends):
            yield s


def separated_by(knl: LoopKernel, barrier: RequestedBarrier) -> Iterator[Pair]:
    """The statements before and after *barrier*: an id stands for all parts of a reduction."""
    ways = execution_paths(knl)
    first, second = ([s for s in ways if s == x or s.startswith(f"{x}.")] for x in (barrier.first, barrier.second))
    yield from ((a, b) for a in first for b in second if meeting_of(ways, a, b).before)


@dataclass(frozen=True)
class _Splitter:
    """Cuts a tree into *launches*, which it fills. If *refused*, the order may be illegal."""

    kernel: LoopKernel
    apart: frozenset[Pair]
    launches: list[LaunchBody]
    refused: bool

    def split(self, tree: Tree, hosts: tuple[str, ...]) -> Tree:
        """The host's order for *tree*, which is inside the host's loops *hosts*."""
        children, place = _by_child(tree)
        finished = self._finished(children, place, hosts)
        nodes: list[Tree] = []
        start = 0

        def launch_till(end: int) -> None:
            nonlocal start
            if start < end:
                nodes.append(Leaf(str(len(self.launches))))
                self.launches.append(LaunchBody(seq(*children[start:end]), hosts))
            start = end
        for i, child in enumerate(children):
            if finished.get(i) == i:
                launch_till(i)
                assert isinstance(child, Loop)
                nodes.append(Loop(child.iname, self.split(child.body, (*hosts, child.iname))))
                start = i + 1
            elif finished.get(i, -1) >= start:
                # this end replaces all later ones
                last = max(first for later, first in finished.items() if later >= i > first)
                launch_till(_with_fewest_across(self.kernel, place, range(last + 1, i + 1)))
        launch_till(len(children))
        return seq(*nodes)

    def _obstacle(self, loop: Tree, hosts: tuple[str, ...]) -> str | None:
        """The reason why the host cannot run *loop*, which is inside its loops *hosts*; ``None``: it can."""
        assert isinstance(loop, Loop)
        return obstacle(self.kernel, next(leaves(loop)), (*hosts, loop.iname))

    def _finished(self, children: Sequence[Tree], place: Mapping[str, int], hosts: tuple[str, ...]) -> dict[int, int]:
        """For each child the last one that must be finished before; itself, if the host must run its iterations."""
        finished: dict[int, int] = {}
        cache: dict[object, bool] = {}

        def crosses(d: Dependence) -> bool:
            """Must the two statements of *d* be in different launches in one iteration of the loops *hosts*?"""
            inames = [self.kernel.statement_by_id[s].inames for s in (d.source, d.sink)]
            key = (id(d.relation), *inames, d.of_value, is_between_blocks(self.kernel, d))
            if key not in cache:
                pairs = across_blocks(self.kernel, d)
                cache[key] = pairs is not None and not in_one_iteration(
                    pairs, shared_loops(self.kernel, d.source, d.sink, hosts)).is_empty()
            return cache[key]

        def may_end(first: int, second: int) -> bool:
            """Can a launch end between these children, or in the one that both are?"""
            child = children[second]
            return first < second or (isinstance(child, Loop) and not (
                self.refused and self._obstacle(child, hosts) is not None))
        for d in dependences(self.kernel):
            first, second = place.get(d.source, -1), place.get(d.sink, -1)
            if finished.get(second, -1) < first <= second and may_end(first, second) and crosses(d):
                finished[second] = first
                if first == second and (why := self._obstacle(children[second], hosts)) is not None:
                    raise UndecidedError(
                        f"It is undecided whether '{d.sink}' needs values of '{d.array}' that '{d.source}' writes in "
                        f"another block, and the host cannot run the loop around both: {why}.",
                        why_undecided(self.kernel, d.array, d.source, d.sink),
                        hint="set the bounds and conditions of this loop by one statement each, without a condition")
        for pair in self.apart:
            first, second = sorted(place.get(s, -1) for s in pair)
            if finished.get(second, -1) < first and may_end(first, second):
                finished[second] = first
        return finished


def _by_child(tree: Tree) -> tuple[tuple[Tree, ...], dict[str, int]]:
    """The parts of *tree* in sequence, and the number of the part that holds each statement."""
    children = parts_of(tree)
    return children, {s: i for i, child in enumerate(children) for s in leaves(child)}


def _with_fewest_across(knl: LoopKernel, place: Mapping[str, int], ends: Sequence[int]) -> int:
    """The last of *ends* of a launch with the fewest temporaries alive across it.

    The sum that a later launch adds up starts there, and stays in registers.
    """
    flows = {(d.array, place[d.source], place[d.sink]) for d in dependences(knl)
             if d.of_value and d.kind == "flow" and d.source in place and d.sink in place}
    return min(reversed(ends), key=lambda at: len({array for array, first, second in flows if first < at <= second}))


def pairs_through_memory(schedule: Schedule) -> frozenset[Pair]:
    """Pairs of statements of one launch that must be in two, because a temporary is in global memory.

    Every block has its own copy of what is private or shared. But a value that lives from launch to launch, or one of
    as many as a size gives, has one cell, which other blocks may write or read too. Cells that an expansion can keep
    apart do not count.
    """
    knl = schedule.kernel
    found: set[Pair] = set()
    for v in values_in(schedule):
        in_memory = v.temporary.address_space is AddressSpace.GLOBAL \
            or not all(isinstance(e, int) for e in array_shapes(knl)[v.temporary.name]) \
            or any(space_of_flow(knl, d, v.places) is AddressSpace.GLOBAL if d.assumed
                   else leaves_its_launch(knl, d, v.places) for d in v.flows)
        if not in_memory or all(d.assumed for d in v.flows):
            continue
        lead = tuple(x for x in common_inames(v) if all(x in a.domain.inames for a in v.accesses))
        found |= {(a.statement, b.statement) for a in v.accesses for b in v.accesses
                  if a.is_write and a.statement != b.statement and not commute(a, b)
                  and one_cell_across_blocks(v, a, b, lead) is not None}
    # if no launch can end between the two, the storage is refused
    return frozenset((a, b) for a, b in found
                     if obstacle(knl, a, meeting_of(execution_paths(knl), a, b).loops) is None)


def crossing_pairs(launches: Sequence[Launch], storages: Mapping[str, Storage]) -> frozenset[Pair]:
    """Pairs of statements of one launch that must be in two.

    :raises IllegalTransformError: a loop that the host cannot run holds both, so that they cannot be.
    """
    found: set[Pair] = set()
    for launch in launches:
        grid = [axis for axis in GRID if axis in launch.mapping.extents]
        _, place = _by_child(launch.tree)
        for d in dependences(launch.kernel) if grid else ():
            storage = storages.get(d.array)
            in_memory = d.array and (storage is None or storage.space is AddressSpace.GLOBAL)
            if not in_memory or d.source not in place or d.sink not in place:
                continue
            alone = [launch.statements[s].alone_on for s in (d.source, d.sink)]
            # one of the two runs on block 0 of an axis only, and the other not
            if any((axis in alone[0]) != (axis in alone[1]) for axis in grid) and not d.relation.is_empty():
                if place[d.source] == place[d.sink]:
                    _require_separable(launch.kernel, d)
                found.add((d.source, d.sink))
    return frozenset(found)


def _require_separable(knl: LoopKernel, d: Dependence) -> None:
    """:raises IllegalTransformError: no launch can end between the two statements of *d*."""
    if not_separable(knl, d, meeting_of(execution_paths(knl), d.source, d.sink), d.relation) is None:
        return
    broken = Violation(d, d.relation, "blocks")
    raise IllegalTransformError(
        f"'{d.source}' runs in one block and '{d.sink}' in all blocks, although the second needs the first.",
        broken.broken(knl).witness(),
        [*hosts_obstacle(knl, broken), "end the sequential loop between the two statements, so that they become two "
                                       "launches"])
