"""The stage ``barriers``: barriers, each for a dependence that crosses threads of a block."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from loopkit.analysis.accesses import data_params
from loopkit.analysis.dependences import shared_loops
from loopkit.analysis.legality import axis_inames
from loopkit.analysis.order import loops_of
from loopkit.analysis.witnesses import parameters_of, witness_at
from loopkit.ast.nodes import Completion, Scope
from loopkit.errors import IllegalTransformError
from loopkit.instructions.table import WAITS
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import GroupTag
from loopkit.kernel.tree import Barrier, Loop, Path, Seq, Step, Tree, leaves, meeting, paths, seq
from loopkit.lowering.completion import unfinished
from loopkit.lowering.groups import with_groups
from loopkit.lowering.hazards import Hazard, at_once, hazards, scope_of
from loopkit.lowering.lowered import GRID, Launch, Storage
from loopkit.lowering.schedule import parted_by
from loopkit.poly.limits import affordable
from loopkit.poly.piecewise import as_points
from loopkit.poly.relations import (
    carried_at,
    differing_first_at,
    in_one_iteration,
    in_time_order,
    only_dims,
    shared_dims,
    smallest_pair,
)
from loopkit.poly.sets import InstanceSet, Map, Set


def place_barriers(knl: LoopKernel, launch: Launch, storages: Mapping[str, Storage]) -> Launch:
    """*launch* with a barrier wherever a hazard needs one, and no more than a sequence needs.

    :raises IllegalTransformError: two threads touch an element in no order, or ``nosync=`` hides a race.
    """
    ways = paths(launch.tree)
    wants: dict[Path, list[_Want]] = {}
    late = [(u, scope_of(knl, launch, u.source, u.sink, u.pairs)) for u in unfinished(knl, launch, storages)]
    waits = [Hazard(u.array, u.source, u.sink, u.pairs, u.kind, scope, completion=u.completion) for u, scope in late]
    for hazard in (*waits, *(hazards(knl, launch, storages, ways) if launch.threads > 1 else ())):
        for where, want in _wants(knl, hazard, ways):
            wants.setdefault(where, []).append(want)
    for where, want in _asked_for(knl, launch, ways) if launch.threads > 1 else ():
        wants.setdefault(where, []).append(want)
    if not wants:
        return launch
    tree, _ = _with_barriers(launch, launch.tree, (), wants)
    for completion, numbered in _NUMBERED.items():
        tree = numbered(knl, launch, tree, [(u, scope) for u, scope in late if u.completion is completion])
    return replace(launch, tree=tree)


#: How the waits for an event, which wait for all of a thread's accesses, are made to wait for no more than is needed.
_NUMBERED = {Completion.GROUP: with_groups}


# {{{ places

@dataclass(frozen=True)
class _Want:
    """A barrier wanted in one of the gaps *first*..*last* of a body (gap g is after child g).

    :ivar source: the way to the statement that runs before it; *sink* to the one behind it.
    :ivar cyclic: the gap after the last child serves too (the dependence is carried by the body's loop).
    :ivar hazard: why; ``None``: a user asked for it.
    :ivar level: the loop that carries the hazard, of those that both stand in; their number: one iteration of all.
    """

    source: Path
    sink: Path
    first: int
    last: int
    cyclic: bool
    kind: str
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
        """Flow tells most within an iteration, flow and anti alike between iterations, output less."""
        order = ("flow", "anti", "output", "cell", "explicit", "asked")
        return 0 if self.cyclic and self.kind == "anti" else order.index(self.kind)


def _wants(knl: LoopKernel, h: Hazard, ways: Mapping[str, Path]) -> Iterator[tuple[Path, _Want]]:
    """The places for the barriers of a hazard: bodies of the tree, by their paths, and the gaps in each."""
    if h.scope is not Scope.THREAD and (h.source in knl.statement_by_id[h.sink].no_sync_with
                                        or h.sink in knl.statement_by_id[h.source].no_sync_with):
        raise _nosync_contradicted(knl, h)
    a, b = ways[h.source], ways[h.sink]
    where = meeting(a, b)
    carried = carried_at(h.pairs, shared_loops(knl, h.source, h.sink, where.loops))
    common = _common(a, b)
    kind = h.kind if h.of_value else "cell"
    level = -1
    for loop in range(len(where.loops)):
        level = next(i for i in range(level + 1, len(a)) if a[i].iname is not None)
        if carried[loop]:
            yield a[:level + 1], _Want(a, b, _position(a, level + 1), _position(b, level + 1) - 1, True, kind,
                                       h.reason, h, loop)
    if carried[-1]:
        if common >= len(a) or a[common].position >= b[common].position:
            raise at_once(knl, h, in_one_iteration(h.pairs, shared_loops(knl, h.source, h.sink, where.loops)))
        yield a[:common], _Want(a, b, a[common].position, b[common].position - 1, False, kind, h.reason, h,
                                len(where.loops))


def _asked_for(knl: LoopKernel, launch: Launch, ways: Mapping[str, Path]) -> Iterator[tuple[Path, _Want]]:
    """The places of the barriers that a user wants between statements of this launch."""
    for barrier in knl.barriers:
        pairs = [pair for pair in parted_by(knl, barrier) if launch.statements.keys() >= set(pair)]
        if barrier.kind == "local" and pairs:
            order = list(leaves(launch.tree))
            a, b = ways[max((a for a, _ in pairs), key=order.index)], ways[min((b for _, b in pairs), key=order.index)]
            common = _common(a, b)
            yield a[:common], _Want(a, b, a[common].position, b[common].position - 1, False, "asked",
                                    f"asked for between {barrier.first} and {barrier.second}")


def _common(first: Path, second: Path) -> int:
    """How many steps two ways have in common."""
    apart = (i for i, (x, y) in enumerate(zip(first, second, strict=False)) if x != y)
    return next(apart, min(len(first), len(second)))


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
    """A barrier that stands in *gap* of a body, to which *body* is the way.

    :ivar beside: the statements of that body: it runs wherever one of them does, for some thread.
    :ivar completes: the events that each thread waits for there.
    """

    body: Path
    gap: int
    beside: tuple[str, ...]
    scope: Scope
    completes: frozenset[Completion]

    def may_serve(self, w: _Want) -> bool:
        """Do all threads that *w* is about wait here, and for what it is about?"""
        return w.hazard is not None and w.scope <= self.scope and (
            w.completion is Completion.IMMEDIATE or w.completion in self.completes)

    def serves(self, w: _Want) -> bool:
        """Does it separate the source and the sink of *w*, one of which is in its body?

        It then runs behind the source, or before the sink, in the same iteration of its own loops. It surely runs, as
        the body does.
        """
        n = len(self.body)
        return (_common(self.body, w.source) == n and self._is_behind(w.source)) or (
            _common(self.body, w.sink) == n and self._is_before(w.sink))

    def _is_behind(self, way: Path) -> bool:
        n = _common(self.body, way)
        return _position(way, n) <= self.gap if n == len(self.body) else way[n].position < self.body[n].position

    def _is_before(self, way: Path) -> bool:
        n = _common(self.body, way)
        return self.gap < _position(way, n) if n == len(self.body) else self.body[n].position < way[n].position

    def between(self, launch: Launch, source: _End, sink: _End) -> Map | None:
        """The iterations of two statements, that of *source* first, between which it runs; ``None``: that is open."""
        grid = {**source.grid, **sink.grid}
        if grid != {**sink.grid, **source.grid}:
            return None                      # which blocks are the same is not said by names
        knl, points = launch.kernel, list[InstanceSet]()
        for b in (launch.statements[s] for s in self.beside):
            domain = b.statement.domain
            own = axis_inames(knl, domain.inames, GroupTag)
            if own.items() <= grid.items() and not set(GRID).intersection(b.alone_on) and not data_params(knl, domain):
                points.append(domain)
        if not points:
            return None
        names = (*(x for inames in grid.values() for x in inames), *loops_of(self.body))
        here = _End(self.body, grid, names)
        met = as_points(reduce(InstanceSet.union, (d.onto(names) for d in points)).set)
        return _in_order(source, source.anywhere, here, met, self._is_behind(source.way)).apply_range(
            _in_order(here, met, sink, sink.anywhere, self._is_before(sink.way)))


@dataclass(frozen=True)
class _End:
    """When a statement or a barrier runs: in a block, and in an iteration of the loops on the way to it.

    :ivar grid: its inames on each axis of the grid; it runs at every place along the other axes.
    :ivar names: those inames and those of the loops, in any order.
    """

    way: Path
    grid: Mapping[int, tuple[str, ...]]
    names: tuple[str, ...]

    @classmethod
    def of(cls, knl: LoopKernel, statement: str, way: Path) -> _End:
        """The end for a *statement* at the end of *way*."""
        inames = knl.statement_by_id[statement].inames
        grid = axis_inames(knl, inames, GroupTag)
        kept = {*(x for own in grid.values() for x in own), *loops_of(way)}
        return cls(way, grid, tuple(x for x in inames if x in kept))

    @property
    def anywhere(self) -> Set:
        return as_points(InstanceSet.universe(self.names).set)


def _in_order(a: _End, first: Set, b: _End, second: Set, before: bool) -> Map:
    """Pairs of one block, out of *first* and *second*, of which the first runs before the second."""
    blocks = [x for own in a.grid.values() for x in own]
    pairs = in_one_iteration(Map.from_domain_and_range(first, second), shared_dims(a.names, b.names, blocks))
    around = loops_of(a.way[:_common(a.way, b.way)])
    return in_time_order(pairs, shared_dims(a.names, b.names, around), before)


def _is_served(launch: Launch, w: _Want, placed: Sequence[_Placed]) -> bool:
    """Do the barriers of inner bodies separate what *w* wants separated?"""
    able = [b for b in placed if b.may_serve(w)]
    return any(b.serves(w) for b in able) or (bool(able) and affordable(
        lambda: _left(launch, w, able).is_empty(), otherwise=False))


def _left(launch: Launch, w: _Want, placed: Sequence[_Placed]) -> Map:
    """The iterations between which none of the barriers is known to run."""
    h, knl = w.hazard, launch.kernel
    assert h is not None
    ends = _End.of(knl, h.source, w.source), _End.of(knl, h.sink, w.sink)
    shared = shared_loops(knl, h.source, h.sink, meeting(w.source, w.sink).loops)
    inames = (knl.statement_by_id[s].inames for s in (h.source, h.sink))
    pairs = only_dims(differing_first_at(h.pairs, shared, w.level),
                      *([own.index(x) for x in end.names] for own, end in zip(inames, ends, strict=True)))
    for b in placed:
        between = b.between(launch, *ends)
        pairs = pairs if between is None else pairs.subtract(between)
    return pairs


def _with_barriers(launch: Launch, tree: Tree, here: Path, wants: Mapping[Path, list[_Want]]
                   ) -> tuple[Tree, list[_Placed]]:
    """*tree* with barriers in the gaps of each body, and where they stand; *here* is the path to *tree*.

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
    # between two iterations there may be others, with the barriers that each iteration has
    known = [*placed, *(_Placed(here, g, tuple(leaves(tree)), b.scope, _completed(b)) for g, b in gaps.items())]
    carried = [w for w in own if w.cyclic and not _is_served(launch, w, known)]
    gaps = _chosen_gaps([*within, *carried], len(children)) if carried else gaps
    result: list[Tree] = []
    for i, child in enumerate(below):
        result.append(child)
        if i in gaps:
            barrier = replace(gaps[i], left_out_last=i == len(children) - 1 and not gaps[i].instructions)
            result.append(barrier)
            if not barrier.left_out_last:
                placed.append(_Placed(here, i, tuple(leaves(tree)), barrier.scope, _completed(barrier)))
    return seq(*result), placed


def _completed(barrier: Barrier) -> frozenset[Completion]:
    return frozenset(i.completes for i in barrier.instructions if i.completes is not None)


def _chosen_gaps(wants: Sequence[_Want], n: int) -> dict[int, Barrier]:
    """As few gaps as serve all *wants*: what each serves, which threads must wait for each other there, and which
    events each waits for."""
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
    """Gaps that serve all *wants* together with those *given*: from the front, each as late as it may be."""
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

# }}}

