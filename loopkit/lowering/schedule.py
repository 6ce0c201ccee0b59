"""The stage ``schedule``: the order that runs. Parallel loops leave the tree, and the kernel is cut into launches."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from loopkit.analysis.constructors import annotated
from loopkit.analysis.dependences import dependences, shared_loops
from loopkit.analysis.host_loops import obstacle
from loopkit.analysis.legality import across_blocks, iname_range, is_between_blocks, violations
from loopkit.analysis.order import execution_paths, meeting_of, vectors_last
from loopkit.errors import InternalError
from loopkit.kernel.dependence import Dependence
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import RequestedBarrier
from loopkit.kernel.tags import AutoLocalTag, InameTag, LocalTag, is_innermost, is_parallel
from loopkit.kernel.tree import Leaf, Loop, Seq, Tree, leaves, seq
from loopkit.lowering.lowered import HostLoop, HostNode, LaunchBody, Schedule, SchedulePoint
from loopkit.poly.relations import in_one_iteration


def schedule(knl: LoopKernel, apart: frozenset[tuple[str, str]] = frozenset()) -> Schedule:
    """Cut the kernel's order into launches: where a dependence crosses blocks, a launch ends.

    A sequential loop that holds such a dependence becomes the host's, with launches in each of its iterations.

    :arg apart: pairs of statements that must not be in one launch for other reasons.
    """
    tree = sequential(knl.tree, knl.tags, ())
    launches: list[LaunchBody] = []
    order = _Cutter(knl, apart, launches).cut(tree, ())
    return Schedule(knl, tree, tuple(launches), order)


def launches_of(knl: LoopKernel) -> dict[str, SchedulePoint]:
    """In which launch each statement runs, also in an order that is refused.

    A loop that the host would have to run and cannot stays in its launch.
    """
    tree = sequential(knl.tree, knl.tags, ())
    launches: list[LaunchBody] = []
    order = _Cutter(knl, asked_apart(knl), launches, refused=True).cut(tree, ())
    return Schedule(knl, tree, tuple(launches), order).places()


def asked_apart(knl: LoopKernel) -> frozenset[tuple[str, str]]:
    """Pairs of statements between which a user wants a launch to end."""
    return frozenset((a, b) for barrier in knl.barriers if barrier.kind == "global" for a, b in parted_by(knl, barrier))


def parted_by(knl: LoopKernel, barrier: RequestedBarrier) -> Iterator[tuple[str, str]]:
    """The statements before and behind *barrier*: a name stands for all parts of a reduction."""
    ways = execution_paths(knl)
    first, second = ([s for s in ways if s == x or s.startswith(f"{x}.")] for x in (barrier.first, barrier.second))
    yield from ((a, b) for a in first for b in second if meeting_of(ways, a, b).before)


@dataclass(frozen=True)
class _Cutter:
    """Cuts a tree into *launches*, which it fills.

    :ivar refused: the order may be one that the kernel must not have.
    """

    kernel: LoopKernel
    apart: frozenset[tuple[str, str]]
    launches: list[LaunchBody]
    refused: bool = False

    def cut(self, tree: Tree, hosts: tuple[str, ...]) -> tuple[HostNode, ...]:
        """The host's order for *tree*, which stands in its loops *hosts*."""
        children = tree.children if isinstance(tree, Seq) else (tree,)
        finished, on_host, flows = self._needs(children, hosts)
        if self.refused:
            on_host = frozenset(i for i in on_host if self._obstacle(children[i], hosts) is None)
        nodes: list[HostNode] = []
        start = 0

        def launch_till(end: int) -> None:
            nonlocal start
            if start < end:
                nodes.append(len(self.launches))
                self.launches.append(LaunchBody(seq(*children[start:end]), hosts))
            start = end
        for i, child in enumerate(children):
            if i in on_host:
                launch_till(i)
            elif finished.get(i, -1) >= start:
                # this end serves all that a later one would
                last = max(first for later, first in finished.items() if later >= i > first)
                launch_till(_with_fewest_across(flows, range(last + 1, i + 1)))
            if i in on_host:
                assert isinstance(child, Loop)
                if (why := self._obstacle(child, hosts)) is not None:
                    raise InternalError(f"The loop over '{child.iname}' should be the host's, but {why}.")
                nodes.append(HostLoop(child.iname, self.cut(child.body, (*hosts, child.iname))))
                start = i + 1
        launch_till(len(children))
        return tuple(nodes)

    def _obstacle(self, loop: Tree, hosts: tuple[str, ...]) -> str | None:
        """Why the host cannot run *loop*, which stands in its loops *hosts*."""
        assert isinstance(loop, Loop)
        return obstacle(self.kernel, next(leaves(loop)), (*hosts, loop.iname))

    def _needs(self, children: Sequence[Tree], hosts: tuple[str, ...]
               ) -> tuple[dict[int, int], frozenset[int], Mapping[str, set[tuple[int, int]]]]:
        """For children the last earlier one that must be finished before; those that the host must run; and from
        which to which child the values of each temporary go.
        """
        place = {s: i for i, child in enumerate(children) for s in leaves(child)}
        finished: dict[int, int] = {}
        on_host: set[int] = set()
        flows: dict[str, set[tuple[int, int]]] = {}
        cache: dict[object, bool] = {}

        def crosses(d: Dependence) -> bool:
            inames = [self.kernel.statement_by_id[s].inames for s in (d.source, d.sink)]
            key = (id(d.relation), *inames, d.of_value, is_between_blocks(self.kernel, d))
            if key not in cache:
                cache[key] = self._crosses(d, hosts)
            return cache[key]
        for d in dependences(self.kernel):
            first, second = place.get(d.source), place.get(d.sink)
            if first is None or second is None or first > second:
                continue
            if d.of_value and d.kind == "flow":
                flows.setdefault(d.array, set()).add((first, second))
            if first == second:
                if first not in on_host and isinstance(children[first], Loop) and crosses(d):
                    on_host.add(first)
            elif finished.get(second, -1) < first and crosses(d):
                finished[second] = first
        for pair in self.apart:
            if all(s in place for s in pair):
                first, second = sorted(place[s] for s in pair)
                if first == second:
                    on_host.add(first)
                else:
                    finished[second] = max(finished.get(second, -1), first)
        return finished, frozenset(on_host), flows

    def _crosses(self, d: Dependence, hosts: tuple[str, ...]) -> bool:
        """Must the two statements of *d* be in different launches within one iteration of the loops *hosts*?"""
        pairs = across_blocks(self.kernel, d)
        if pairs is None:
            return False
        return not in_one_iteration(pairs, shared_loops(self.kernel, d.source, d.sink, hosts)).is_empty()


def _with_fewest_across(flows: Mapping[str, set[tuple[int, int]]], places: Sequence[int]) -> int:
    """The last of *places* for the end of a launch behind which fewest temporaries have values from before it.

    The sum that a later launch adds up starts there, and stays in registers.
    """
    return min(reversed(places), key=lambda at: sum(any(a < at <= b for a, b in own) for own in flows.values()))


def without_idle_auto(knl: LoopKernel) -> LoopKernel:
    """*knl* with ``l.auto`` inames as ordinary loops, if its blocks have but one thread to spread them over.

    As parallel inames they may stand where loops may not; then they stay, and become loops around single statements.
    """
    if not any(isinstance(tag, AutoLocalTag) for tag in knl.tags.values()) \
            or any(isinstance(tag, LocalTag) and iname_range(knl, x)[1] != 1 for x, tag in knl.tags.items()):
        return knl
    loops = annotated(knl, tags={x: tag for x, tag in knl.tags.items() if not isinstance(tag, AutoLocalTag)})
    return loops if next(violations(loops), None) is None else knl


def sequential(tree: Tree, tags: Mapping[str, InameTag], pending: tuple[str, ...]) -> Tree:
    """*tree* without parallel loops, and with ``ilp`` and ``vec`` loops around single statements."""
    match tree:
        case Loop(iname, body):
            tag = tags.get(iname)
            if is_parallel(tag):
                return sequential(body, tags, pending)
            if is_innermost(tag):
                return sequential(body, tags, (*pending, iname))
            return Loop(iname, sequential(body, tags, pending))
        case Seq(children):
            return seq(*(sequential(c, tags, pending) for c in children))
        case Leaf():
            result: Tree = tree
            for iname in reversed(vectors_last(pending, lambda x: x, tags)):
                result = Loop(iname, result)
            return result
        case _:
            return tree


