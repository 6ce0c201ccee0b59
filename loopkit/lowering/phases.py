"""Phases of asynchronous copies: their numbers, and the waits of the threads that need the copies.

Temporaries that such copies write have rings of phases. The number of a phase is that of its tile: a temporary that
:func:`loopkit.pipeline` gave *S* cells holds tile ``e`` in the cell ``e % S``. Temporaries share a ring if threads copy
their tiles, and wait for them, at the same times: then one wait serves for all. Verification proves that the phases end
in the order of their numbers.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import combinations

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, accesses_by_array
from loopkit.analysis.dependences import shared_loops
from loopkit.analysis.order import loops_of
from loopkit.analysis.ranges import constant_range, iname_range
from loopkit.ast.nodes import Completion, Instruction, Scope
from loopkit.ast.phases import Phase
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import substitute, variables
from loopkit.instructions.phases import MOST_COUNTED, ArrivePhase, StartPhases, WaitPhase
from loopkit.instructions.table import WAITS
from loopkit.instructions.tma import TmaLoad
from loopkit.kernel.tags import is_collective
from loopkit.kernel.tree import Barrier, Leaf, Loop, Path, Seq, Step, Tree, leaves, paths, rewrite, seq
from loopkit.lowering.block_values import block_values
from loopkit.lowering.hazards import Hazard
from loopkit.lowering.lowered import Launch
from loopkit.lowering.waits import Waits
from loopkit.poly.affine import add, subtract
from loopkit.poly.extents import extent_from, first_value
from loopkit.poly.relations import in_one_iteration, subscript_relation
from loopkit.poly.sets import InstanceSet, Set, as_points


def with_phases(launch: Launch, tree: Tree, copies: Sequence[Hazard], released: Sequence[Hazard],
                results: Sequence[Hazard]) -> Tree:
    """*tree*, whose *copies* have phases, with a wait before each statement that needs one of them.

    :arg released: the hazards of accesses to tiles that the producer overwrites: its copies wait for these accesses.
    :arg results: those of what products leave in registers.

    :raises PreconditionError: the phases of a temporary cannot be numbered.
    """
    ways = paths(tree)
    # a copy may not run at all if data bounds its loop: then nothing waits for it
    added = _Additions(bool(block_values(launch)))
    phases: dict[str, Phase] = {}
    starts: dict[str, Instruction] = {}
    for group in _sharing(launch, tree, copies):
        arrays = tuple(x.array for x in group)
        if launch.persistent and group[0].slots > MOST_COUNTED:
            raise PreconditionError(f"Threads count the phases of at most {MOST_COUNTED} cells at several places of "
                                    f"the grid, and '{arrays[0]}' has {group[0].slots}.", subject=arrays[0],
                                    hint=f"pipeline(knl, iname, {MOST_COUNTED}, ahead=0), or leave out persistent")
        ring = launch.kernel.fresh_name(_ring_name(arrays, "full"), *starts)
        starts[ring] = StartPhases(ring, group[0].slots, sum(x.copies for x in group), arrays,
                                    in_tiles=launch.persistent > 0)
        for x in group:
            for (place, number), reasons in x.waits(tree, ways, copies).items():
                wait = WaitPhase(Phase(ring, number, x.slots, launch.persistent > 0))
                added.add(added.before, place, (wait,), reasons)
            phases |= {s: Phase(ring, number, x.slots, launch.persistent > 0)
                       for s in x.writers for number in x.numbers_at(s)}
        own = [h for h in released if h.array in arrays]
        if own or launch.persistent:
            ring = launch.kernel.fresh_name(_ring_name(arrays, "empty"), *starts)
            places = _released(launch, tree, ways, ring, group, own, results, added)
            starts[ring] = StartPhases(
                ring, group[0].slots, places*launch.consumers // launch.machine.warp*launch.mapping.cluster, arrays,
                empty=True, in_tiles=launch.persistent > 0)

    def numbered(node: Tree) -> Tree:
        match node:
            case Leaf(statement, TmaLoad() as load) if statement in phases:
                return replace(node, instruction=replace(load, of=phases[statement]))
            case _:
                return node
    start = Barrier(("all threads use the mbarriers after thread 0 prepared them",),
                    Scope.CLUSTER if launch.mapping.cluster > 1 else Scope.BLOCK, (*starts.values(),), outside=True)
    return seq(start, rewrite(added.to(tree, ()), numbered))


def _released(launch: Launch, tree: Tree, ways: Mapping[str, Path], ring: str, group: Sequence[_Copied],
              hazards: Sequence[Hazard], results: Sequence[Hazard], added: _Additions) -> int:
    """Let the threads that read a tile of *group* arrive at *ring*, and let the producer wait for that before it copies
    another tile to its cell.

    Products of one iteration run on while those of the next one start: the tile of the iteration before is free then.
    If threads need their *results* in the same iteration, its tile is free there.

    :returns: the number of arrivals of a thread for a tile.
    """
    statements, slots, blocks = launch.kernel.statement_by_id, group[0].slots, launch.mapping.cluster

    def phase(number: Expression) -> Phase:
        return Phase(ring, add(number), slots, launch.persistent > 0)
    readers: dict[tuple[Path, Expression], dict[str, None]] = {}
    for x in group:
        for s in (s for s in ways if s in {a.statement for a in x.accesses} - x.writers):
            for number in x.numbers_at(s):
                readers.setdefault((_body_of(ways[s], number), number), {})[s] = None
    reasons = dict.fromkeys(h.reason for h in hazards) or {
        f"{x.array}: it is copied again for the next place of the grid": None for x in group}
    for (body, number), own in readers.items():
        events = {statements[s].completion for s in own}
        waits = tuple(wait for event, wait in WAITS.items() if event in events)
        needed = _first_need(launch, ways, body, own, results) if Completion.PRODUCTS in events and body else None
        if needed is not None:
            added.add(added.before, _node_before(tree, needed, number),
                      (*waits, ArrivePhase(phase(number), blocks)), reasons)
            continue
        late = Completion.PRODUCTS in events and slots > 1 and bool(body)
        if late:
            added.add(added.within, body, (*waits, ArrivePhase(phase(add(number, -1)), blocks)), reasons)
        else:
            reader = max((_node_before(tree, ways[s], number) for s in own), key=_positions)
            added.add(added.behind, reader, (*waits, ArrivePhase(phase(number), blocks)), reasons)
        # another place of the grid needs the last tile's cell
        if late and launch.persistent:
            iname = body[-1].iname
            assert iname is not None
            last = substitute(number, {iname: _last_iteration(launch, own, loops_of(body))})
            added.add(added.behind, body[:-1], (*waits, ArrivePhase(phase(last), blocks)), reasons)
    # before the first of the copies in a body
    writers: dict[tuple[Path, Expression], Path] = {}
    for s in (s for s in ways if any(s in x.writers for x in group)):
        for number in dict.fromkeys(n for x in group for n in x.numbers_at(s)):
            writers.setdefault((_body_of(ways[s], number), number), ways[s])
    for (_, number), way in writers.items():
        added.add(added.before, _node_before(tree, way, number), (WaitPhase(phase(subtract(number, slots))),), reasons,
                  producer=True)
    return _readers_of_tile(launch, ways, readers, group)


def _last_iteration(launch: Launch, statements: Iterable[str], loops: Sequence[str]) -> Expression:
    """The last iteration of the innermost of *loops*, around *statements*, in terms of the others and of the block."""
    of_threads = launch.mapping.thread_names.union(*(s.auto for s in launch.statements.values()))
    points = reduce(InstanceSet.union, (launch.statements[s].domain.onto(loops).without_params(of_threads)
                                        for s in statements)).bound(loops[:-1])
    low = first_value(points, launch.kernel.assumptions)
    return add(low, extent_from(points, low, launch.kernel.assumptions), -1)


def _readers_of_tile(launch: Launch, ways: Mapping[str, Path], readers: Mapping[tuple[Path, Expression], Iterable[str]],
                     group: Sequence[_Copied]) -> int:
    """In how many bodies a thread reads a tile; :raises PreconditionError: some tiles are read in more than others."""
    blocks = sorted(Waits(launch, launch.tree).blocks or ())
    of_threads = launch.mapping.thread_names.union(*(s.auto for s in launch.statements.values()))
    counts: list[tuple[Set, int]] = []
    for (body, number), own in readers.items():
        names = (*blocks, *loops_of(body))
        points = reduce(InstanceSet.union, (launch.statements[s].domain.onto(names).without_params(of_threads)
                                            for s in own))
        tiles = as_points(points.set).apply(subscript_relation(names, (*map(p.Variable, blocks), number)))
        same = next((k for k, (other, _) in enumerate(counts) if other.is_equal(tiles)), None)
        if same is None:
            counts.append((tiles, 1))
        else:
            counts[same] = tiles, counts[same][1] + 1
    apart = all(one.intersect(other).is_empty() for (one, _), (other, _) in combinations(counts, 2))
    if not apart or len({n for _, n in counts}) > 1:
        raise PreconditionError(f"Some tiles of '{group[0].array}' are read in more loops than others, so that their "
                                "readers are not counted.", subject=group[0].array,
                                hint="let each loop read all tiles, or tiles of its own")
    return counts[0][1] if counts else 0


def _first_need(launch: Launch, ways: Mapping[str, Path], body: Path, readers: Iterable[str],
                results: Sequence[Hazard]) -> Path | None:
    """The path of a statement in *body* that needs results of all *readers* in the same iteration; ``None``: unknown.
    """
    knl, found = launch.kernel, list[Path]()
    for s in (s for s in readers if knl.statement_by_id[s].completion is Completion.PRODUCTS):
        later = [h for h in results if h.source == s and ways[h.sink][:len(body)] == body
                 and _positions(ways[s]) < _positions(ways[h.sink])]
        needs = [ways[h.sink] for h in later if not in_one_iteration(
            h.pairs, shared_loops(knl, s, h.sink, loops_of(body))).is_empty()]
        if not needs:
            return None
        found.append(min(needs, key=_positions))
    return max(found, key=_positions, default=None)


def _positions(way: Path) -> list[int]:
    """The order of a statement in the text."""
    return [step.position for step in way]


#: Synchronisations of threads or of the producer by their instructions, each with the hazards that it serves.
_Syncs = dict[tuple[tuple[Instruction, ...], bool], dict[str, None]]


@dataclass(frozen=True)
class _Additions:
    """Synchronisations for a tree: *before* and *behind* the nodes at paths, and at the end of bodies, *within*.

    :ivar with_nodes: those before and behind a node run wherever the node does.
    """

    with_nodes: bool
    before: dict[Path, _Syncs] = field(default_factory=dict)
    behind: dict[Path, _Syncs] = field(default_factory=dict)
    within: dict[Path, _Syncs] = field(default_factory=dict)

    @staticmethod
    def add(where: dict[Path, _Syncs], path: Path, instructions: tuple[Instruction, ...], serves: Iterable[str], *,
            producer: bool = False) -> None:
        """Let one synchronisation at *path*, for the producer or for others, have these *instructions*."""
        where.setdefault(path, {}).setdefault((instructions, producer), {}).update(dict.fromkeys(serves))

    def to(self, tree: Tree, here: Path) -> Tree:
        """*tree*, at the path *here*, with the synchronisations."""
        inner = tree
        match tree:
            case Loop(iname, body):
                inside = (*here, Step(0, iname))
                inner = Loop(iname, seq(self.to(body, inside), *_barriers_of(self.within.get(inside))))
            case Seq(children):
                inner = seq(*(self.to(child, (*here, Step(i, None))) for i, child in enumerate(children)))
            case _:
                pass
        whole = () if here else _barriers_of(self.within.get(here))
        own = tuple(leaves(tree)) if self.with_nodes else ()
        return seq(*_barriers_of(self.before.get(here), own), inner, *_barriers_of(self.behind.get(here), own), *whole)


def _barriers_of(syncs: _Syncs | None, runs_with: tuple[str, ...] = ()) -> Iterator[Barrier]:
    for (instructions, producer), serves in (syncs or {}).items():
        yield Barrier(tuple(serves), Scope.THREAD, instructions, producer=producer, runs_with=runs_with)


def _sharing(launch: Launch, tree: Tree, copies: Sequence[Hazard]) -> list[list[_Copied]]:
    """The temporaries that *copies* write; those of a group share a ring."""
    ways, blocks = paths(tree), Waits(launch, tree).blocks
    groups: list[tuple[object, list[_Copied]]] = []
    for array in dict.fromkeys(h.array for h in copies if h.array in launch.kernel.temporaries):
        own = _Copied.of(launch, array, ways)
        times = array if blocks is None else (
            own.slots, own.waits(tree, ways, copies).keys(), own.copied(ways, blocks),
            {launch.statements[s].producer for s in own.writers})
        group = next((group for others, group in groups if others == times), None)
        if group is None:
            groups.append((times, [own]))
        else:
            group.append(own)
    return [group for _, group in groups]


def _ring_name(arrays: Sequence[str], state: str) -> str:
    """``tile_full`` of ``tile``; ``tiles_full`` of ``a_tile`` and ``b_tile``; ``a_and_b_full`` of ``a`` and ``b``.

    :arg state: the state of a tile for which threads wait: ``"full"``, as here, or ``"empty"``.
    """
    last = {x.rpartition("_")[2] for x in arrays}
    return f"{last.pop()}s_{state}" if len(arrays) > len(last) == 1 else f"{'_and_'.join(arrays)}_{state}"


@dataclass(frozen=True)
class _Copied:
    """A temporary to which asynchronous copies write, and the phases of its tiles.

    :ivar accesses: the accesses to the temporary; *writers*: the statements that copy to it.
    :ivar copies: the copies of one tile.
    :ivar loops: without cells for several tiles: the loop around all accesses, if there is one.
    """

    launch: Launch
    array: str
    slots: int
    accesses: tuple[Access, ...]
    writers: frozenset[str]
    copies: int
    loops: tuple[str, ...] = ()

    @staticmethod
    def of(launch: Launch, array: str, ways: Mapping[str, Path]) -> _Copied:
        knl = launch.kernel
        accesses = tuple(a for a in accesses_by_array(knl)[array] if a.statement in launch.statements)
        writers = frozenset(a.statement for a in accesses if a.is_write)
        if others := sorted(s for s in writers if not any(
                isinstance(i, TmaLoad) for i in knl.statement_by_id[s].instructions)):
            raise PreconditionError(f"'{others[0]}' writes to '{array}', which TMA copies to.", subject=others[0],
                                    hint="let TMA alone write to the temporary, or nothing by TMA")
        _require_one_role(launch, array, writers)
        slots = {int(i.denominator) for a in accesses for i in a.subscripts[:1]
                 if isinstance(i, p.Remainder) and isinstance(i.denominator, int)}
        own = _Copied(launch, array, min(slots, default=1), accesses, writers, 1)
        around = [[x for x in loops_of(ways[s]) if not is_collective(knl.tags.get(x))] for s in ways
                  if s in {a.statement for a in accesses}]
        shared = tuple(x for x in around[0] if all(x in loops for loops in around))
        if len(slots) == 0 and len(shared) > 1:
            raise PreconditionError(
                f"The copies to '{array}' run in the loops over {' and '.join(map(repr, shared))}, and no single loop "
                "counts their phases.", subject=array,
                hint=f"pipeline(knl, '{shared[-1]}', stages=2, temporaries=['{array}']), or copy before the inner loop")
        own = replace(own, loops=() if slots else shared)
        counts = {s: own.copies_of(s, ways[s]) for s in sorted(writers)}
        if len({*counts.values()}) != 1:
            raise PreconditionError(f"Phases of '{array}' have different numbers of copies: "
                                    f"{', '.join(f'{s} {n}' for s, n in counts.items())}.", subject=array,
                                    hint="let one statement copy all of a tile")
        return replace(own, copies=next(iter(counts.values())))

    def waits(self, tree: Tree, ways: Mapping[str, Path], copies: Sequence[Hazard]
              ) -> dict[tuple[Path, Expression], dict[str, None]]:
        """Why threads wait for tiles: by the node of *tree* before which threads wait, and the number of the tile.

        They wait for a tile once in a body, before the first node that needs it.
        """
        nodes: dict[tuple[Path, Expression], Path] = {}
        reasons: dict[tuple[Path, Expression], dict[str, None]] = {}
        for h in (h for h in copies if h.array == self.array and h.sink not in self.writers):
            for number in self.numbers_at(h.sink):
                node, place = _node_before(tree, ways[h.sink], number), (_body_of(ways[h.sink], number), number)
                nodes[place] = min(nodes.get(place, node), node, key=_positions)
                reasons.setdefault(place, {})[h.reason] = None
        return {(node, number): reasons[body, number] for (body, number), node in nodes.items()}

    def copied(self, ways: Mapping[str, Path], blocks: Iterable[str]) -> list[tuple[Path, Expression, InstanceSet]]:
        """The bodies that copy a tile, each with the number of the tile, and the iterations in which it copies one."""
        found = list[tuple[Path, Expression, InstanceSet]]()
        of_threads = self.launch.mapping.thread_names.union(*(s.auto for s in self.launch.statements.values()))
        for s in (s for s in ways if s in self.writers):
            for number in self.numbers_at(s):
                body = _body_of(ways[s], number)
                names = (*sorted(blocks), *loops_of(body))
                found.append((body, number, self.launch.statements[s].domain.onto(names).without_params(of_threads)))
        return found

    def numbers_at(self, statement: str) -> Iterator[Expression]:
        """The numbers of the phases of the tiles that *statement* accesses."""
        found = dict.fromkeys(self._number(a) for a in self.accesses if a.statement == statement)
        return iter(found)

    def _number(self, a: Access) -> Expression:
        if self.loops:
            return subtract(p.Variable(self.loops[0]), iname_range(self.launch.kernel, self.loops[0])[0])
        if self.slots == 1:
            return 0
        match a.subscripts[0]:
            case p.Remainder(numerator=number, denominator=self.slots):
                return number
            case number:
                return number

    def copies_of(self, statement: str, way: Path) -> int:
        """The copies of *statement* for one tile."""
        knl, bound = self.launch.kernel, self.launch.statements[statement]
        (number,) = self.numbers_at(statement)
        count = 1
        for x in loops_of(way[len(_body_of(way, number)):]):
            if is_collective(knl.tags.get(x)):
                continue
            low, high = constant_range(knl, bound.statement.domain, x)
            if low is None or high is None:
                raise PreconditionError(f"'{statement}' makes a number of copies for each tile that depends on sizes.",
                                        subject=statement,
                                        hint=f"give '{x}' constant bounds: pad_domain, then split it")
            count *= high - low + 1
        return count


def _require_one_role(launch: Launch, array: str, writers: Iterable[str]) -> None:
    """:raises PreconditionError: two roles copy to *array*, or others than the producer do in a persistent launch."""
    own = {s: launch.statements[s].producer is not None for s in sorted(writers)}
    others = [s for s, producer in own.items() if not producer]
    if others and (launch.persistent or len(others) < len(own)):
        why = "in blocks that run several places of the grid, only the producer copies by TMA" if launch.persistent \
            else f"the producer copies to '{array}' too"
        raise PreconditionError(f"'{others[0]}' runs in other threads than the producer's, and {why}.",
                                subject=others[0], hint=f"specialize_warps(knl, '{others[0]}')")


def _body_of(way: Path, number: Expression) -> Path:
    """The path on *way* of the body of the innermost loop that *number* depends on."""
    names = variables(number)
    return way[:max((k + 1 for k, step in enumerate(way) if step.iname in names), default=0)]


def _node_before(tree: Tree, way: Path, number: Expression) -> Path:
    """The path on *way* of the node before which threads wait: the outermost one in all loops of *number*."""
    body, node = _body_of(way, number), tree
    for step in body:
        node = node.body if isinstance(node, Loop) else node.children[step.position] if isinstance(node, Seq) else node
    return way[:len(body) + isinstance(node, Seq)]
