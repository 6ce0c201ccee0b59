"""The stage ``barriers``: places barriers between dependent instances on different threads of a block."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import compress

from loopkit.analysis.accesses import accesses_by_array, data_params
from loopkit.analysis.dependences import shared_loops
from loopkit.analysis.events import Event
from loopkit.analysis.legality import OnAxes, axis_inames
from loopkit.analysis.order import loops_of
from loopkit.analysis.witnesses import BrokenPairs
from loopkit.ast.nodes import BEFORE_END, Completion, Scope, wait_for
from loopkit.errors import IllegalTransformError, PreconditionError
from loopkit.instructions.groups import CommitGroup, WaitGroup
from loopkit.instructions.phases import StartPhases
from loopkit.instructions.table import WAITS
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import GroupTag
from loopkit.kernel.tree import Barrier, Loop, Path, Seq, Step, Tree, leaves, meeting, parts_of, paths, rewrite, seq
from loopkit.lowering.groups import with_groups, with_registers
from loopkit.lowering.hazards import (
    Hazard,
    at_once,
    hazards,
    scope_between_places,
    steps_in_common,
    tile_reads,
    unfinished,
)
from loopkit.lowering.lowered import GRID, Launch
from loopkit.lowering.phases import with_phases
from loopkit.lowering.schedule import separated_by
from loopkit.lowering.stored import Storage
from loopkit.lowering.turns import with_turns
from loopkit.lowering.waits import Waits
from loopkit.poly.limits import affordable
from loopkit.poly.relations import by_first_difference, differing_first_at, in_one_iteration, only_dims
from loopkit.poly.sets import InstanceSet, Map, as_points


def place_barriers(launch: Launch, storages: Mapping[str, Storage]) -> Launch:
    """*launch* with a barrier wherever a hazard needs one, and as few barriers as possible in each sequence.

    :raises IllegalTransformError: two threads access an element in no order, or ``nosync=`` hides a race.
    """
    ways = paths(launch.tree)
    copies = list(unfinished(launch, storages))
    several = launch.threads != 1
    # the wait for a phase orders the accesses of all threads, without a barrier
    phased = [h for h in copies if h.completion is Completion.PHASE]
    by_phases = {h.source for h in phased}
    every = [h for h in (*copies, *(hazards(launch, storages) if several else ())) if h.source not in by_phases]
    released = [h for h in every if launch.in_two_roles(h.source, h.sink)]
    for h in (h for h in released if h.array not in {x.array for x in phased}):
        raise PreconditionError(f"'{h.sink}' and '{h.source}' run in two roles of a block, and no phase orders their "
                                f"accesses to '{h.array}'.", subject=h.array,
                                hint="specialize_warps(knl, ...) gives the producer copies of arrays that the launch "
                                     "does not write")
    wants = [want for h in every if h not in released for want in _wants(launch.kernel, h, ways)]
    wants += _requested(launch, ways) if several else ()
    if not wants and not phased:
        return replace(launch, tree=_with_waits_at_end(launch, launch.tree))
    tree, _ = _with_barriers(launch, launch.tree, (), wants)
    tree = with_phases(launch, tree, phased, released, copies) if phased else tree
    of = {h.source: h.completion for h in copies if h.completion in _COUNTED}
    for completion in _COUNTED:
        tree = with_groups(completion, launch, tree, [h for h in copies if of.get(h.source) is completion], [
            h for h in (tile_reads(launch) if launch.persistent else ()) if h.completion is completion])
    tree = _with_waits_at_end(launch, with_registers(launch, tree, copies))
    tree = with_turns(launch, rewrite(tree, partial(_among_consumers, launch)))
    if launch.persistent:
        rings = {h.array for h in phased}
        tree = _between_tiles(launch, tree, storages, [x for x, storage in storages.items() if x not in rings
                                             and storage.space is AddressSpace.SHARED])
    return replace(launch, tree=tree)


def _between_tiles(launch: Launch, tree: Tree, storages: Mapping[str, Storage], arrays: Sequence[str]) -> Tree:
    """*tree* of a block that runs several places of the grid, with a barrier before threads access shared *arrays*
    again that they used at the place before; its waits at the end come after all places.
    """
    knl = launch.kernel
    using = {a.statement for x in arrays for a in accesses_by_array(knl).get(x, ()) if a.statement in launch.statements}
    children, events = list(parts_of(tree)), {knl.statement_by_id[s].completion for s in using}
    at_end = tuple(WaitGroup(0, event) for event in BEFORE_END if event in events)
    if at_end and isinstance(children[-1], Barrier):
        own = tuple(i for i in children[-1].instructions if i not in at_end)
        children[-1:] = [*([replace(children[-1], instructions=own)] if own else ()),
                         replace(children[-1], instructions=at_end, outside=True)]
    first = next((i for i, child in enumerate(children) if not using.isdisjoint(leaves(child))), None)
    if first is not None:
        them = "them" if arrays[1:] else "it"
        why = f"{', '.join(arrays)}: the block's previous place of the grid may still use {them}"
        scope = scope_between_places(launch, storages, arrays)
        children.insert(first, Barrier((why,), scope, at_end,
                                       threads=launch.consumers if scope is Scope.BLOCK else 0))
    return seq(*children)


def _among_consumers(launch: Launch, node: Tree) -> Tree:
    """*node*; but the producer takes part in no barrier of the block, except that at which rings start."""
    if not isinstance(node, Barrier) or node.scope is not Scope.BLOCK or any(
            isinstance(i, StartPhases) for i in node.instructions):
        return node
    return replace(node, threads=launch.consumers)


#: The events of accesses for which threads wait by groups.
_COUNTED = (Completion.GROUP, Completion.PRODUCTS, Completion.STORES)


def _with_waits_at_end(launch: Launch, tree: Tree) -> Tree:
    """*tree* whose block does not end before some accesses to its shared memory are performed."""
    for event in BEFORE_END:
        own = [s for s, bound in launch.statements.items() if bound.statement.completion is event]
        wait = WaitGroup(0, event)
        why = "TMA has read shared memory before the block ends",
        ways = [tree, *(seq(tree, Barrier(why, Scope.THREAD, instructions))
                        for instructions in ((wait,), (CommitGroup(event), wait)))]
        tree = next((way for way in ways if not any(map(Waits(launch, way).still_running, own))), ways[-1])
    return tree


@dataclass(frozen=True)
class _Want:
    """A barrier wanted in one of the gaps *first*..*last* of the body at the path *body* (gap g is after child g).

    :ivar source: the path to the statement that runs before it; *sink*: to the one after it.
    :ivar reason: the user's, or the *hazard*'s.
    :ivar hazard: the reason for the barrier; ``None``: the user requested it. *scope* and *completion* are its own.
    :ivar cyclic: the body's loop carries the hazard: the gap after the last child serves too.
    """

    body: Path
    source: Path
    sink: Path
    reason: str
    hazard: Hazard | None = None
    scope: Scope = Scope.BLOCK
    completion: Completion = Completion.IMMEDIATE
    cyclic: bool = False

    @property
    def first(self) -> int:
        return _position(self.source, len(self.body))

    @property
    def last(self) -> int:
        return _position(self.sink, len(self.body)) - 1

    @property
    def late(self) -> bool:
        """Is it a wait of each thread for its own products? These end a group, and other products run until the wait,
        which is as late as it can be.
        """
        return self.completion is Completion.PRODUCTS and self.scope is Scope.THREAD and not self.cyclic

    def has(self, gap: int) -> bool:
        """Does a barrier in *gap* serve?"""
        if self.late:
            return gap == self.last
        return gap >= self.first or gap <= self.last if self.cyclic else self.first <= gap <= self.last

    @property
    def rank(self) -> int:
        """The priority of the reason: flow first and output last; between iterations, anti is like flow."""
        h = self.hazard
        kind = "requested" if h is None else h.kind if h.of_value else "cell"
        order = ("flow", "anti", "output", "cell", "explicit", "requested")
        return 0 if self.cyclic and kind == "anti" else order.index(kind)


def _wants(knl: LoopKernel, h: Hazard, ways: Mapping[str, Path]) -> Iterator[_Want]:
    """The places for the barriers of a hazard: bodies of the tree, and the gaps in each."""
    if h.scope is not Scope.THREAD and (h.source in knl.statement_by_id[h.sink].options.no_sync_with
                                        or h.sink in knl.statement_by_id[h.source].options.no_sync_with):
        raise IllegalTransformError(
            f"nosync= claims that '{h.source}' and '{h.sink}' need no barrier, but threads access '{h.array}' in "
            "conflict.",
            BrokenPairs.on_one_element(knl, h.array, h.kind, h.source, h.sink, h.pairs).witness(), ["drop nosync="])
    a, b = ways[h.source], ways[h.sink]
    around = a[:steps_in_common(a, b)]
    shared = shared_loops(knl, h.source, h.sink, loops_of(around))
    *carried, within = (not pairs.is_empty() for pairs in by_first_difference(h.pairs, shared))
    bodies = [a[:i + 1] for i, step in enumerate(around) if step.iname is not None]
    want = partial(_Want, source=a, sink=b, reason=h.reason, hazard=h, scope=h.scope, completion=h.completion)
    yield from (want(body, cyclic=True) for body in compress(bodies, carried))
    if within:
        here = want(around)
        if here.first > here.last:
            raise at_once(knl, h.array, h.kind, h.source, h.sink, in_one_iteration(h.pairs, shared))
        yield here


def _requested(launch: Launch, ways: Mapping[str, Path]) -> Iterator[_Want]:
    """The places of the barriers that the user requests between statements of this launch."""
    for barrier in launch.kernel.barriers:
        pairs = [pair for pair in separated_by(launch.kernel, barrier) if launch.statements.keys() >= set(pair)]
        if barrier.kind == "local" and pairs:
            order = list(leaves(launch.tree))
            a, b = ways[max((a for a, _ in pairs), key=order.index)], ways[min((b for _, b in pairs), key=order.index)]
            yield _Want(a[:steps_in_common(a, b)], a, b, f"requested between {barrier.first} and {barrier.second}")


def _position(way: Path, level: int) -> int:
    return way[level].position if level < len(way) else 0


@dataclass(frozen=True)
class _Placed:
    """A *barrier* in *gap* of the body at the path *body*; it runs if a statement *beside* it does for some thread."""

    body: Path
    gap: int
    beside: tuple[str, ...]
    barrier: Barrier

    def may_serve(self, w: _Want) -> bool:
        """Does the barrier include all threads of *w*, and complete its event?"""
        return w.hazard is not None and w.scope <= self.barrier.scope and (
            w.completion is Completion.IMMEDIATE or wait_for(w.completion, self.barrier.instructions) is not None)

    def _is_behind(self, way: Path) -> bool:
        """Is it after the statement at *way* in the text?"""
        return [step.position for step in way] < [*(step.position for step in self.body), self.gap + 1]

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
            here.in_order(sink, frozenset(blocks), not self._is_behind(sink.way)))


def _is_served(launch: Launch, w: _Want, placed: Sequence[_Placed]) -> bool:
    """Do the barriers of inner bodies separate the source and the sink of *w*?"""
    # the matrix units need not be done in a loop with the products whose sums are read after it
    by_itself = w.completion is Completion.PRODUCTS and w.scope is Scope.THREAD and not w.cyclic
    able = [b for b in placed if b.may_serve(w) and not (
        by_itself and len(b.body) > len(w.body) and w.source[:len(b.body)] == b.body)]
    return bool(able) and affordable(lambda: _separate_all(launch, w, able), otherwise=False)


def _separate_all(launch: Launch, w: _Want, placed: Sequence[_Placed]) -> bool:
    """Is one of the barriers *placed* known to run between the instances of each pair of *w*?"""
    h, knl = w.hazard, launch.kernel
    assert h is not None
    inames = [knl.statement_by_id[s].inames for s in (h.source, h.sink)]
    grids = [axis_inames(knl, own, GroupTag) for own in inames]
    grid = grids[0] | grids[1]
    if grid != grids[1] | grids[0]:
        return False                        # the names do not identify equal blocks
    blocks = {x for own in grid.values() for x in own}
    ends = [Event.anywhere(way, tuple(x for x in own if x in blocks or x in loops_of(way)))
            for way, own in zip((w.source, w.sink), inames, strict=True)]
    shared = shared_loops(knl, h.source, h.sink, meeting(w.source, w.sink).loops)
    pairs = only_dims(differing_first_at(h.pairs, shared, len(loops_of(w.body)) - w.cyclic),
                      *([own.index(x) for x in end.names] for own, end in zip(inames, ends, strict=True)))
    for b in placed:
        between = b.between(launch, grid, *ends)
        pairs = pairs if between is None else pairs.subtract(between)
    return bool(pairs.is_empty())


def _with_barriers(launch: Launch, tree: Tree, here: Path, wants: Sequence[_Want]
                   ) -> tuple[Tree, list[_Placed]]:
    """*tree*, at the path *here*, with barriers in the gaps of each body, and their places.

    The innermost bodies come first: a barrier that an inner loop needs anyway may serve the loops around it too. One
    that only separates the iterations of the inner loop then runs in the last iteration, too.
    """
    below: list[Tree] = []
    placed: list[_Placed] = []
    for i, child in enumerate(parts_of(tree)):
        way = (*here, Step(i, None)) if isinstance(tree, Seq) else here
        if isinstance(child, Loop):
            body, found = _with_barriers(launch, child.body, (*way, Step(0, child.iname)), wants)
            below.append(Loop(child.iname, body))
            placed += found
        else:
            below.append(child)
    own = [w for w in wants if w.body == here and not _is_served(launch, w, _run_in_each_iteration(placed))]
    kept = _kept_in_last_iteration(launch, own, placed)
    if kept:
        placed = [replace(b, barrier=kept.get(id(b.barrier), b.barrier)) for b in placed]
        below = [rewrite(child, lambda node: kept.get(id(node), node)) for child in below]
        own = [w for w in own if not _is_served(launch, w, _run_in_each_iteration(placed))]
    within = [w for w in own if not w.cyclic]
    beside = tuple(leaves(tree))
    gaps = _chosen_gaps(within, len(below))
    # further iterations may be between two iterations, with the barriers of each
    known = [*_run_in_each_iteration(placed), *(_Placed(here, g, beside, barrier) for g, barrier in gaps.items())]
    carried = [w for w in own if w.cyclic and not _is_served(launch, w, known)]
    gaps = _chosen_gaps([*within, *carried], len(below)) if carried else gaps
    placed += [_Placed(here, g, beside, barrier) for g, barrier in gaps.items()]
    return seq(*(node for i, child in enumerate(below) for node in (child, gaps.get(i)) if node is not None)), placed


def _kept_in_last_iteration(launch: Launch, wants: Sequence[_Want], placed: Sequence[_Placed]) -> dict[int, Barrier]:
    """The barriers between iterations of inner loops that serve some of *wants* if the last iteration has them too.

    :returns: by the identity of each barrier, the one in its place.
    """
    kept: dict[int, Barrier] = {}
    for b in (b for b in placed if b.barrier.left_out_last):
        served = [w.reason for w in wants if _is_served(launch, w, [*_run_in_each_iteration(placed), b])]
        if served:
            serves = tuple(dict.fromkeys((*b.barrier.serves, *served)))
            kept[id(b.barrier)] = replace(b.barrier, serves=serves, left_out_last=False)
    return kept


def _run_in_each_iteration(placed: Sequence[_Placed]) -> list[_Placed]:
    """Those of *placed* that run in each iteration of their loops."""
    return [b for b in placed if not b.barrier.left_out_last]


def _chosen_gaps(wants: Sequence[_Want], n: int) -> dict[int, Barrier]:
    """The fewest of *n* gaps that serve all *wants*, each with its barrier."""
    chosen: dict[int, Scope] = {}
    for scope in reversed(Scope):
        own = [w for w in wants if w.scope is scope]
        # from the front, each as late as possible
        for w in (*sorted((w for w in own if not w.cyclic), key=lambda w: w.last), *(w for w in own if w.cyclic)):
            if not any(map(w.has, chosen)):
                chosen[n - 1 if w.cyclic else w.last] = scope
    result = {w.first: Barrier(scope=Scope.THREAD, instructions=(CommitGroup(w.completion),)) for w in wants if w.late}
    waiting = list(wants)
    for g in sorted(chosen):
        able = [w for w in wants if w.has(g) and w.scope <= chosen[g]]
        events = {w.completion for w in able}
        waits = tuple(wait for event, wait in WAITS.items() if event in events)
        result[g] = Barrier(_reasons([w for w in waiting if w in able]), chosen[g], waits,
                            left_out_last=g == n - 1 and not waits)
        waiting = [w for w in waiting if w not in able]
    return result


def _reasons(served: Sequence[_Want]) -> tuple[str, ...]:
    """The dependences that a barrier serves: those within an iteration, if any, else those to the next one."""
    here = [w for w in served if not w.cyclic] or list(served)
    best = min((w.rank for w in here), default=0)
    return tuple(dict.fromkeys(w.reason for w in here if w.rank == best))
