"""The stage ``barriers``: places barriers between dependent instances on different threads of a block."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from loopkit.analysis.accesses import data_params
from loopkit.analysis.dependences import shared_loops
from loopkit.analysis.legality import OnAxes, axis_inames
from loopkit.analysis.order import loops_of
from loopkit.analysis.witnesses import parameters_of, witness_at
from loopkit.ast.nodes import Completion, Scope
from loopkit.errors import IllegalTransformError
from loopkit.instructions.table import WAITS
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import GroupTag
from loopkit.kernel.tree import Barrier, Loop, Path, Seq, Step, Tree, leaves, meeting, paths, seq
from loopkit.lowering.groups import Event, steps_in_common, with_groups
from loopkit.lowering.hazards import Hazard, at_once, hazards, unfinished
from loopkit.lowering.lowered import GRID, Launch, Storage
from loopkit.lowering.schedule import separated_by
from loopkit.poly.limits import affordable
from loopkit.poly.relations import by_first_difference, differing_first_at, in_one_iteration, only_dims, smallest_pair
from loopkit.poly.sets import InstanceSet, Map, as_points


def place_barriers(launch: Launch, storages: Mapping[str, Storage]) -> Launch:
    """*launch* with a barrier wherever a hazard needs one, and as few barriers as possible in each sequence.

    :raises IllegalTransformError: two threads access an element in no order, or ``nosync=`` hides a race.
    """
    ways = paths(launch.tree)
    copies = list(unfinished(launch, storages))
    several = launch.threads > 1
    found = [want for h in (*copies, *(hazards(launch, storages) if several else ()))
             for want in _wants(launch.kernel, h, ways)]
    found += _requested(launch, ways) if several else ()
    if not found:
        return launch
    wants: dict[Path, list[_Want]] = {}
    for where, want in found:
        wants.setdefault(where, []).append(want)
    tree, _ = _with_barriers(launch, launch.tree, (), wants)
    return replace(launch, tree=with_groups(launch, tree, copies))


@dataclass(frozen=True)
class _Want:
    """A barrier wanted in one of the gaps *first*..*last* of a body (gap g is after child g).

    :ivar source: the path to the statement that runs before it; *sink*: to the one behind it.
    :ivar cyclic: the gap after the last child serves too (the dependence is carried by the body's loop).
    :ivar reason: the user's, or the *hazard*'s.
    :ivar hazard: the reason for the barrier; ``None``: the user requested it.
    :ivar level: the number of the shared loop that carries the hazard; the number of shared loops: none
        carries it.
    """

    source: Path
    sink: Path
    first: int
    last: int
    cyclic: bool
    reason: str
    hazard: Hazard | None = None
    level: int = 0

    @property
    def scope(self) -> Scope:
        return Scope.BLOCK if self.hazard is None else self.hazard.scope

    @property
    def completion(self) -> Completion:
        """The event at which the source is performed."""
        return Completion.IMMEDIATE if self.hazard is None else self.hazard.completion

    def has(self, gap: int) -> bool:
        """Does a barrier in *gap* serve?"""
        return gap >= self.first or gap <= self.last if self.cyclic else self.first <= gap <= self.last

    @property
    def rank(self) -> int:
        """The priority of the reason: within an iteration flow first, between iterations flow and anti alike, output
        last.
        """
        h = self.hazard
        kind = "asked" if h is None else h.kind if h.of_value else "cell"
        order = ("flow", "anti", "output", "cell", "explicit", "asked")
        return 0 if self.cyclic and kind == "anti" else order.index(kind)


def _wants(knl: LoopKernel, h: Hazard, ways: Mapping[str, Path]) -> Iterator[tuple[Path, _Want]]:
    """The places for the barriers of a hazard: bodies of the tree, by their paths, and the gaps in each."""
    if h.scope is not Scope.THREAD and (h.source in knl.statement_by_id[h.sink].no_sync_with
                                        or h.sink in knl.statement_by_id[h.source].no_sync_with):
        raise _nosync_contradicted(knl, h)
    a, b = ways[h.source], ways[h.sink]
    around = meeting(a, b).loops
    shared = shared_loops(knl, h.source, h.sink, around)
    carried = [not pairs.is_empty() for pairs in by_first_difference(h.pairs, shared)]
    loops = [i for i, step in enumerate(a) if step.iname is not None][:len(around)]
    for loop, level in enumerate(loops):
        if carried[loop]:
            yield a[:level + 1], _Want(a, b, _position(a, level + 1), _position(b, level + 1) - 1, True, h.reason, h,
                                       loop)
    if carried[-1]:
        common = steps_in_common(a, b)
        if common >= len(a) or a[common].position >= b[common].position:
            raise at_once(knl, h.array, h.kind, (h.source, h.sink), in_one_iteration(h.pairs, shared))
        yield a[:common], _Want(a, b, a[common].position, b[common].position - 1, False, h.reason, h, len(around))


def _requested(launch: Launch, ways: Mapping[str, Path]) -> Iterator[tuple[Path, _Want]]:
    """The places of the barriers that the user requests between statements of this launch."""
    for barrier in launch.kernel.barriers:
        pairs = [pair for pair in separated_by(launch.kernel, barrier) if launch.statements.keys() >= set(pair)]
        if barrier.kind == "local" and pairs:
            order = list(leaves(launch.tree))
            a, b = ways[max((a for a, _ in pairs), key=order.index)], ways[min((b for _, b in pairs), key=order.index)]
            common = steps_in_common(a, b)
            yield a[:common], _Want(a, b, a[common].position, b[common].position - 1, False,
                                    f"asked for between {barrier.first} and {barrier.second}")


def _position(way: Path, level: int) -> int:
    return way[level].position if level < len(way) and way[level].iname is None else 0


def _nosync_contradicted(knl: LoopKernel, h: Hazard) -> IllegalTransformError:
    a, b = knl.statement_by_id[h.source], knl.statement_by_id[h.sink]
    params, first, second = smallest_pair(h.pairs, a.inames, b.inames, parameters_of(knl))
    return IllegalTransformError(
        f"nosync= claims that '{h.source}' and '{h.sink}' need no barrier, but threads meet on '{h.array}'.",
        witness_at(knl, h.array, h.kind, params, (h.source, first), (h.sink, second)), ["drop nosync="])


@dataclass(frozen=True)
class _Placed:
    """A *barrier* in *gap* of the body at the path *body*.

    :ivar beside: the statements of that body: the barrier runs wherever one of them runs for some thread.
    """

    body: Path
    gap: int
    beside: tuple[str, ...]
    barrier: Barrier

    def may_serve(self, w: _Want) -> bool:
        """Does the barrier include all threads of *w*, and complete its event?"""
        return w.hazard is not None and w.scope <= self.barrier.scope and (
            w.completion is Completion.IMMEDIATE
            or any(w.completion is i.completes for i in self.barrier.instructions))

    def serves(self, w: _Want) -> bool:
        """Does it separate the source and the sink of *w*, one of which is in its body?

        It then runs behind the source, or before the sink, in the same iteration of its own loops. It must run, because
        the body does.
        """
        n = len(self.body)
        return (steps_in_common(self.body, w.source) == n and self._is_behind(w.source)) or (
            steps_in_common(self.body, w.sink) == n and self._is_before(w.sink))

    def _is_behind(self, way: Path) -> bool:
        n = steps_in_common(self.body, way)
        return _position(way, n) <= self.gap if n == len(self.body) else way[n].position < self.body[n].position

    def _is_before(self, way: Path) -> bool:
        n = steps_in_common(self.body, way)
        return self.gap < _position(way, n) if n == len(self.body) else self.body[n].position < way[n].position

    def between(self, launch: Launch, grid: OnAxes, source: Event, sink: Event) -> Map | None:
        """The iterations of two statements, that of *source* first, between which it runs; ``None``: not known.

        :arg grid: the inames of both on each axis of the grid.
        """
        knl, points = launch.kernel, list[InstanceSet]()
        for b in (launch.statements[s] for s in self.beside):
            domain = b.statement.domain
            own = axis_inames(knl, domain.inames, GroupTag)
            if own.items() <= grid.items() and not set(GRID).intersection(b.alone_on) and not data_params(knl, domain):
                points.append(domain)
        if not points:
            return None
        blocks = tuple(x for inames in grid.values() for x in inames)
        names = (*blocks, *loops_of(self.body))
        here = Event(self.body, names, as_points(reduce(InstanceSet.union, (d.onto(names) for d in points)).set))
        return source.in_order(here, frozenset(blocks), self._is_behind(source.way)).apply_range(
            here.in_order(sink, frozenset(blocks), self._is_before(sink.way)))


def _is_served(launch: Launch, w: _Want, placed: Sequence[_Placed]) -> bool:
    """Do the barriers of inner bodies separate the source and the sink of *w*?"""
    able = [b for b in placed if b.may_serve(w)]
    return any(b.serves(w) for b in able) or (bool(able) and affordable(
        lambda: _left(launch, w, able).is_empty(), otherwise=False))


def _left(launch: Launch, w: _Want, placed: Sequence[_Placed]) -> Map:
    """The iterations between which no barrier is known to run."""
    h, knl = w.hazard, launch.kernel
    assert h is not None
    inames = [knl.statement_by_id[s].inames for s in (h.source, h.sink)]
    grids = [axis_inames(knl, own, GroupTag) for own in inames]
    grid = {**grids[0], **grids[1]}
    blocks = {x for own in grid.values() for x in own}
    ends = [Event.anywhere(way, tuple(x for x in own if x in blocks or x in loops_of(way)))
            for way, own in zip((w.source, w.sink), inames, strict=True)]
    shared = shared_loops(knl, h.source, h.sink, meeting(w.source, w.sink).loops)
    pairs = only_dims(differing_first_at(h.pairs, shared, w.level),
                      *([own.index(x) for x in end.names] for own, end in zip(inames, ends, strict=True)))
    if grid != {**grids[1], **grids[0]}:
        return pairs                        # the names do not identify equal blocks
    for b in placed:
        between = b.between(launch, grid, *ends)
        pairs = pairs if between is None else pairs.subtract(between)
    return pairs


def _with_barriers(launch: Launch, tree: Tree, here: Path, wants: Mapping[Path, list[_Want]]
                   ) -> tuple[Tree, list[_Placed]]:
    """*tree* with barriers in the gaps of each body, and their places; *here* is the path to *tree*.

    The innermost bodies come first: a barrier that an inner loop needs anyway may serve the loops around it too.
    """
    children = tree.children if isinstance(tree, Seq) else (tree,)
    below: list[Tree] = []
    placed: list[_Placed] = []
    for i, child in enumerate(children):
        way = (*here, Step(i, None)) if isinstance(tree, Seq) else here
        inside, found = child, list[_Placed]()
        if isinstance(child, Loop):
            body, found = _with_barriers(launch, child.body, (*way, Step(0, child.iname)), wants)
            inside = Loop(child.iname, body)
        below.append(inside)
        placed += found
    own = [w for w in wants.get(here, []) if not _is_served(launch, w, placed)]
    within = [w for w in own if not w.cyclic]
    gaps = _chosen_gaps(within, len(children))
    # further iterations may be between two iterations, with the barriers of each
    known = [*placed, *(_Placed(here, g, tuple(leaves(tree)), b) for g, b in gaps.items())]
    carried = [w for w in own if w.cyclic and not _is_served(launch, w, known)]
    gaps = _chosen_gaps([*within, *carried], len(children)) if carried else gaps
    result: list[Tree] = []
    for i, child in enumerate(below):
        result.append(child)
        if i in gaps:
            barrier = replace(gaps[i], left_out_last=i == len(children) - 1 and not gaps[i].instructions)
            result.append(barrier)
            if not barrier.left_out_last:
                placed.append(_Placed(here, i, tuple(leaves(tree)), barrier))
    return seq(*result), placed


def _chosen_gaps(wants: Sequence[_Want], n: int) -> dict[int, Barrier]:
    """The fewest gaps that serve all *wants*: for each gap the wants that it serves, the scope of its barrier, and the
    events that it completes.
    """
    chosen: dict[int, Scope] = {}
    for scope in reversed(Scope):
        chosen |= dict.fromkeys(_fewest([w for w in wants if w.scope is scope], n, frozenset(chosen)), scope)
    result: dict[int, Barrier] = {}
    waiting = list(wants)
    for g in sorted(chosen):
        able = [w for w in wants if w.has(g) and w.scope <= chosen[g]]
        served = [w for w in waiting if w in able]
        events = {w.completion for w in able}
        result[g] = Barrier(_reasons(served), scope=chosen[g],
                            instructions=tuple(wait for event, wait in WAITS.items() if event in events))
        waiting = [w for w in waiting if w not in served]
    return result


def _fewest(wants: Sequence[_Want], n: int, given: frozenset[int]) -> frozenset[int]:
    """The fewest gaps that, with those *given*, serve all *wants*: from the front, each as late as possible."""
    chosen = set(given)

    def served(w: _Want) -> bool:
        return any(w.has(g) for g in chosen)
    for w in sorted((w for w in wants if not w.cyclic), key=lambda w: w.last):
        if not served(w):
            chosen.add(w.last)
    for w in wants:
        if w.cyclic and not served(w):
            chosen.add(n - 1)
    return frozenset(chosen - given)


def _reasons(served: Sequence[_Want]) -> tuple[str, ...]:
    """The dependences that a barrier serves: those within an iteration, if any, else those to the next one."""
    here = [w for w in served if not w.cyclic] or list(served)
    best = min((w.rank for w in here), default=0)
    return tuple(dict.fromkeys(w.reason for w in here if w.rank == best))
