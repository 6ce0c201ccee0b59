"""Stage 6: barriers, each for a dependence that crosses threads of a block."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, accesses_by_array, commute, data_params
from loopkit.analysis.dependences import dependences, shared_loops
from loopkit.analysis.legality import axis_inames, packed_coordinate, places_on_axis
from loopkit.analysis.matrix_products import is_product
from loopkit.analysis.waived import not_waived, waived
from loopkit.analysis.witnesses import parameters_of, witness_at
from loopkit.errors import IllegalTransformError
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.devices import WARP
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import GroupTag, LocalTag
from loopkit.kernel.tree import Barrier, Loop, Path, Seq, Step, Tree, leaves, meeting, paths, seq
from loopkit.lowering.binding import BLOCK, BoundStatement, Launch
from loopkit.lowering.copies import unfinished, with_groups
from loopkit.lowering.schedule import parted_by
from loopkit.lowering.storage import Storage
from loopkit.poly.affine import add, floor_div, multiply
from loopkit.poly.limits import affordable
from loopkit.poly.relations import (
    carried_at,
    equal_coordinates,
    in_one_iteration,
    in_time_order,
    other_instance,
    same_element,
    smallest_pair,
)
from loopkit.poly.sets import InstanceSet, Map, Set


@dataclass(frozen=True)
class Hazard:
    """Pairs of instances on different threads of one block that touch one element, one of them writing.

    :ivar pairs: source to sink, in time order.
    :ivar in_warp: the two threads are always of one warp.
    :ivar kind: ``"flow"``, ``"anti"`` or ``"output"``; *reason* says it to a reader of the code.
    :ivar of_value: a flow that brings a value; other pairs of a write and a read only share a cell.
    :ivar of_copy: the source copies asynchronously; the two may be on one thread.
    """

    array: str
    source: str
    sink: str
    pairs: Map
    kind: str
    in_warp: bool
    of_value: bool = True
    of_copy: bool = False

    @property
    def reason(self) -> str:
        first, second = {"flow": ("writes", "reads"), "anti": ("reads", "overwrites"),
                         "output": ("writes", "overwrites")}[self.kind]
        return f"{self.array}: {self.source} {first}, {self.sink} {second}"


def place_barriers(knl: LoopKernel, launch: Launch, storages: Mapping[str, Storage]) -> Launch:
    """*launch* with a barrier wherever a hazard needs one, and no more than a sequence needs.

    :raises IllegalTransformError: two threads touch an element in no order, or ``nosync=`` hides a race.
    """
    ways = paths(launch.tree)
    wants: dict[Path, list[_Want]] = {}
    copies = [Hazard(u.array, u.source, u.sink, u.pairs, u.kind, in_warp=False, of_copy=True)
              for u in unfinished(knl, launch, storages)]
    for hazard in (*copies, *(_hazards(knl, launch, storages, ways) if launch.threads > 1 else ())):
        for where, want in _wants(knl, hazard, ways):
            wants.setdefault(where, []).append(want)
    for where, want in _asked_for(knl, launch, ways) if launch.threads > 1 else ():
        wants.setdefault(where, []).append(want)
    if not wants:
        return launch
    tree, _ = _with_barriers(knl, launch.tree, (), wants)
    return replace(launch, tree=with_groups(knl, launch, storages, tree))


# {{{ hazards

def _hazards(knl: LoopKernel, launch: Launch, storages: Mapping[str, Storage], ways: Mapping[str, Path]
             ) -> Iterator[Hazard]:
    for array, accesses in accesses_by_array(knl).items():
        here = [a for a in accesses if a.statement in launch.statements]
        storage = storages.get(array)
        if storage is not None and (storage.space is AddressSpace.PRIVATE or storage.lanes):
            continue                         # what lanes read of each other, they read when all of them are there
        if not any(a.is_write for a in here):
            continue
        if storage is None:
            yield from _argument_hazards(knl, launch, array)
        else:
            yield from _storage_hazards(knl, launch, storage, here, ways)


def _argument_hazards(knl: LoopKernel, launch: Launch, array: str) -> Iterator[Hazard]:
    """Between accesses to an argument: the kernel's own dependences, inside one block."""
    for d in dependences(knl):
        if d.array != array or d.source not in launch.statements or d.sink not in launch.statements:
            continue
        pairs = _other_thread(knl, launch, d.source, d.sink, d.relation)
        if pairs is not None:
            yield Hazard(array, d.source, d.sink, pairs, d.kind, _in_warp(knl, launch, d.source, d.sink, pairs))


def _storage_hazards(knl: LoopKernel, launch: Launch, storage: Storage, accesses: Sequence[Access],
                     ways: Mapping[str, Path]) -> Iterator[Hazard]:
    """Between accesses to cells of a shared or global temporary: all pairs, in the order that runs."""
    cache: dict[object, Map | None] = {}
    values = {(d.source, d.sink) for d in dependences(knl)
              if d.of_value and d.kind == "flow" and d.array == storage.name}
    touched = [(a, storage.touched(a)) for a in accesses]
    for a, first in touched:
        for b, second in touched:
            if not (a.is_write or b.is_write) or commute(a, b):
                continue
            where = meeting(ways[a.statement], ways[b.statement])
            if not where.loops and not where.before and a.statement != b.statement:
                continue
            key = (id(a.domain), a.subscripts, id(b.domain), b.subscripts, where, a.statement == b.statement,
                   launch.statements[a.statement].auto, launch.statements[b.statement].auto,
                   launch.statements[a.statement].alone_on, launch.statements[b.statement].alone_on)
            if key not in cache:
                touching = same_element(first, second)
                if a.statement == b.statement:
                    touching = other_instance(touching)
                cache[key] = _other_thread(knl, launch, a.statement, b.statement, touching)
            pairs = cache[key]
            if pairs is None:
                continue
            if waived(knl, storage.name):
                pairs = not_waived(knl, storage.name, a.statement, b.statement, pairs)
                if pairs.is_empty():
                    continue
            loops = shared_loops(knl, a.statement, b.statement, where.loops)
            _require_ordered(knl, storage.name, a, b, pairs, loops, where.before)
            ordered = in_time_order(pairs, loops, where.before)
            if not ordered.is_empty():
                kind = ("output" if b.is_write else "flow") if a.is_write else "anti"
                yield Hazard(storage.name, a.statement, b.statement, ordered, kind,
                             _in_warp(knl, launch, a.statement, b.statement, ordered),
                             kind != "flow" or (a.statement, b.statement) in values)


def _require_ordered(knl: LoopKernel, array: str, a: Access, b: Access, pairs: Map,
                     loops: Sequence[tuple[int, int]], before: bool) -> None:
    """Two threads that touch one cell at the same time are a race that no barrier can order."""
    if before or a.statement != b.statement:
        return
    at_once = in_one_iteration(pairs, loops)
    if at_once.is_empty():
        return
    kind = ("output" if b.is_write else "flow") if a.is_write else "anti"
    raise _at_once(knl, Hazard(array, a.statement, b.statement, at_once, kind, in_warp=False), at_once)


def _at_once(knl: LoopKernel, h: Hazard, pairs: Map) -> IllegalTransformError:
    """The error for *pairs* of *h* between which no barrier can come."""
    a, b = knl.statement_by_id[h.source], knl.statement_by_id[h.sink]
    params, first, second = smallest_pair(pairs, a.inames, b.inames, parameters_of(knl))
    return IllegalTransformError(
        f"Two threads would touch one element of '{h.array}' at once.",
        witness_at(knl, h.array, h.kind, params, (a.id, first), (b.id, second)), ["keep one of the inames sequential"])


def _other_thread(knl: LoopKernel, launch: Launch, source: str, sink: str, pairs: Map) -> Map | None:
    """Those *pairs* that run in one block on threads that may differ; ``None`` if there are none."""
    a, b = launch.statements[source], launch.statements[sink]
    x, y = a.statement.inames, b.statement.inames
    first, second = axis_inames(knl, x, GroupTag), axis_inames(knl, y, GroupTag)
    blocks = [pair for axis in first.keys() & second.keys()
              for pair in places_on_axis(knl, first[axis], second[axis]) or ()]
    if blocks:
        pairs = pairs.intersect(equal_coordinates(x, [c for c, _ in blocks], y, [c for _, c in blocks]))
    same: Map | None = pairs
    known: list[tuple[Expression, Expression]] = []
    for axis in (axis for axis, extent in zip(BLOCK, launch.block, strict=True) if extent > 1):
        ca, cb = _along(knl, a, axis), _along(knl, b, axis)
        if ca is not None and cb is not None:
            known.append((ca, cb))
        elif ca is not None or cb is not None or a.auto or b.auto:
            same = None                      # one side is met on every thread along the axis, or on any
    if is_product(knl, a.statement) or is_product(knl, b.statement):
        same = None                          # what an instance reads, any lane of its warp may load
    if same is not None and known:
        same = equal_coordinates(x, [c for c, _ in known], y, [c for _, c in known])
    if same is not None:
        pairs = pairs.subtract(same)
    return None if pairs.is_empty() else pairs


def _in_warp(knl: LoopKernel, launch: Launch, source: str, sink: str, pairs: Map) -> bool:
    """Do all *pairs* run in one warp? It holds threads with neighbouring numbers, ``l.0`` fastest."""
    if launch.threads <= WARP:
        return True
    a, b = launch.statements[source], launch.statements[sink]
    first, second = _thread_number(knl, launch, a), _thread_number(knl, launch, b)
    if first is None or second is None:
        return False
    warps = [floor_div(first, WARP)], [floor_div(second, WARP)]
    return bool(pairs.is_subset(equal_coordinates(a.statement.inames, warps[0], b.statement.inames, warps[1])))


def _thread_number(knl: LoopKernel, launch: Launch, bound: BoundStatement) -> Expression | None:
    """The number in its block of the thread that runs an instance; ``None`` if several do, or any may."""
    result: Expression = 0
    stride = 1
    for axis, extent in zip(BLOCK, launch.block, strict=True):
        along = _along(knl, bound, axis) if extent > 1 else 0
        if along is None:
            return None
        result = add(result, multiply(stride, along))
        stride *= extent
    return result


def _along(knl: LoopKernel, bound: BoundStatement, axis: str) -> Expression | None:
    """Where along an axis of the block an instance runs; ``None``: everywhere."""
    own = axis_inames(knl, bound.statement.inames, LocalTag).get(int(axis[2:]))
    if own is not None:
        return packed_coordinate(knl, own)
    return 0 if axis in bound.alone_on else None

# }}}


# {{{ places

@dataclass(frozen=True)
class _Want:
    """A barrier wanted in one of the gaps *first*..*last* of a body (gap g is after child g).

    :ivar source: the way to the statement that runs before it; *sink* to the one behind it.
    :ivar cyclic: the gap after the last child serves too (the dependence is carried by the body's loop).
    :ivar hazard: why; ``None``: a user asked for it.
    """

    source: Path
    sink: Path
    first: int
    last: int
    cyclic: bool
    kind: str
    reason: str
    hazard: Hazard | None = None

    @property
    def in_warp(self) -> bool:
        return self.hazard is not None and self.hazard.in_warp

    @property
    def of_copy(self) -> bool:
        return self.hazard is not None and self.hazard.of_copy

    def has(self, gap: int) -> bool:
        """Does a barrier in *gap* serve?"""
        return gap >= self.first or gap <= self.last if self.cyclic else self.first <= gap <= self.last

    @property
    def rank(self) -> int:
        """Flow tells most within an iteration, flow and anti alike between iterations, output less."""
        order = ("flow", "anti", "output", "cell", "asked")
        return 0 if self.cyclic and self.kind == "anti" else order.index(self.kind)


def _wants(knl: LoopKernel, h: Hazard, ways: Mapping[str, Path]) -> Iterator[tuple[Path, _Want]]:
    """Where the tree offers places for the barriers of a hazard: the body, by its path, and the gaps."""
    if h.source in knl.statement_by_id[h.sink].no_sync_with or h.sink in knl.statement_by_id[h.source].no_sync_with:
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
                                       h.reason, h)
    if carried[-1]:
        if common >= len(a) or a[common].position >= b[common].position:
            raise _at_once(knl, h, in_one_iteration(h.pairs, shared_loops(knl, h.source, h.sink, where.loops)))
        yield a[:common], _Want(a, b, a[common].position, b[common].position - 1, False, kind, h.reason, h)


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
    :ivar waits: each thread waits for its copies there.
    """

    body: Path
    gap: int
    beside: tuple[str, ...]
    warp: bool
    waits: bool

    def serves(self, knl: LoopKernel, here: Path, w: _Want) -> bool:
        """Does it separate what *w*, of the body *here* around this one, wants separated?

        It does if it is sure to run behind the source, or before the sink, in the same iteration of the loops that it
        shares with that end, and the other end is on its other side.
        """
        if w.hazard is None or w.in_warp < self.warp or self.waits < w.of_copy:
            return False
        child = _position(self.body, len(here))
        return ((w.cyclic or child <= w.last) and self._is_behind(w.source)
                and self._is_sure(knl, w.source, w.hazard.source, w.hazard.pairs.domain())) or (
                (w.cyclic or child > w.first) and self._is_before(w.sink)
                and self._is_sure(knl, w.sink, w.hazard.sink, w.hazard.pairs.range()))

    def _is_behind(self, way: Path) -> bool:
        n = _common(self.body, way)
        return _position(way, n) <= self.gap if n == len(self.body) else way[n].position < self.body[n].position

    def _is_before(self, way: Path) -> bool:
        n = _common(self.body, way)
        return self.gap < _position(way, n) if n == len(self.body) else self.body[n].position < way[n].position

    def _is_sure(self, knl: LoopKernel, way: Path, statement: str, instances: Set) -> bool:
        """Does it run in each iteration of the loops shared with *statement* in which one of *instances* does?"""
        n = _common(self.body, way)
        if n == len(self.body):
            return True

        def own(inames: Sequence[str]) -> tuple[str, ...]:
            return tuple(x for x in inames if x in around or isinstance(knl.tags.get(x), GroupTag))
        around = {step.iname for step in self.body[:n]}
        inames = knl.statement_by_id[statement].inames
        names = own(inames)
        beside = [d for d in (knl.statement_by_id[s].domain for s in self.beside)
                  if set(own(d.inames)) == set(names) and not data_params(knl, d)]
        return bool(beside) and affordable(
            lambda: InstanceSet(inames, instances).onto(names).is_subset(
                reduce(InstanceSet.union, (d.onto(names) for d in beside))), otherwise=False)


def _with_barriers(knl: LoopKernel, tree: Tree, here: Path, wants: Mapping[Path, list[_Want]]
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
            body, found = _with_barriers(knl, child.body, (*way, Step(0, child.iname)), wants)
            inside = Loop(child.iname, body)
        below.append(inside)
        placed += found
    open_wants = [w for w in wants.get(here, []) if not any(b.serves(knl, here, w) for b in placed)]
    gaps = _chosen_gaps(open_wants, len(children))
    result: list[Tree] = []
    for i, child in enumerate(below):
        result.append(child)
        if i in gaps:
            barrier = replace(gaps[i], left_out_last=i == len(children) - 1 and gaps[i].pending is None)
            result.append(barrier)
            if not barrier.left_out_last:
                placed.append(_Placed(here, i, tuple(leaves(tree)), barrier.warp, barrier.pending is not None))
    return seq(*result), placed


def _chosen_gaps(wants: Sequence[_Want], n: int) -> dict[int, Barrier]:
    """As few gaps as serve all *wants*: what each serves, whether a barrier of each warp will do there, and whether it
    waits for copies."""
    of_block = _fewest([w for w in wants if not w.in_warp], n, frozenset())
    chosen = of_block | _fewest([w for w in wants if w.in_warp], n, of_block)
    result: dict[int, Barrier] = {}
    waiting = list(wants)
    for g in sorted(chosen):
        served = [w for w in waiting if w.has(g) and (w.in_warp or g in of_block)]
        copies = g in of_block and any(w.of_copy and w.has(g) for w in wants)
        result[g] = Barrier(_reasons(served), warp=g not in of_block, pending=0 if copies else None)
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
    """What a barrier serves, the most telling only: a value that is read within the iteration, if there is one,
    else what the next iteration overwrites and reads."""
    here = [w for w in served if not w.cyclic] or list(served)
    best = min((w.rank for w in here), default=0)
    return tuple(dict.fromkeys(w.reason for w in here if w.rank == best))

# }}}

