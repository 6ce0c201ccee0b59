"""Phases of asynchronous copies: their numbers, and the waits of the threads that need the copies.

Each temporary that such copies write has a ring of phases. The number of a phase is that of its tile: a temporary that
:func:`loopkit.pipeline` gave *S* cells holds tile ``e`` in the cell ``e % S``. Verification proves that the phases end
in the order of these numbers.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, accesses_by_array
from loopkit.analysis.order import loops_of
from loopkit.analysis.ranges import constant_range, iname_range
from loopkit.ast.nodes import Instruction, Scope
from loopkit.ast.phases import Phase
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import variables
from loopkit.instructions.phases import StartPhases, WaitPhase
from loopkit.instructions.tma import TmaLoad
from loopkit.kernel.tags import is_collective
from loopkit.kernel.tree import Barrier, Leaf, Loop, Path, Seq, Step, Tree, paths, rewrite, seq
from loopkit.lowering.hazards import Hazard
from loopkit.lowering.lowered import Launch
from loopkit.poly.affine import subtract


def with_phases(launch: Launch, tree: Tree, copies: Sequence[Hazard]) -> Tree:
    """*tree*, whose *copies* have phases, with a wait before each statement that needs one of them.

    :raises PreconditionError: the phases of a temporary cannot be numbered.
    """
    ways = paths(tree)
    rings = {h.array: _Ring.of(launch, h.array, ways) for h in copies if h.array in launch.kernel.temporaries}
    writers = {s: ring for ring in rings.values() for s in ring.writers}
    waits: dict[Path, dict[WaitPhase, dict[str, None]]] = {}
    for h in copies:
        ring = rings.get(h.array)
        if ring is not None and h.sink not in ring.writers:
            for number in ring.numbers_at(h.sink):
                wait = WaitPhase(Phase(ring.name, number, ring.slots))
                at = waits.setdefault(_place_before(tree, ways[h.sink], variables(number)), {})
                at.setdefault(wait, {})[h.reason] = None

    def numbered(node: Tree) -> Tree:
        match node:
            case Leaf(statement, TmaLoad() as load) if statement in writers:
                ring = writers[statement]
                (number,) = ring.numbers_at(statement)
                return replace(node, instruction=replace(load, of=Phase(ring.name, number, ring.slots)))
            case _:
                return node
    starts: tuple[Instruction, ...] = tuple(StartPhases(r.name, r.slots, r.copies) for r in rings.values())
    start = Barrier(("all threads use the mbarriers after thread 0 prepared them",), Scope.BLOCK, starts)
    return seq(start, rewrite(_with_waits(tree, (), waits), numbered))


@dataclass(frozen=True)
class _Ring:
    """The phases of one temporary.

    :ivar accesses: the accesses to the temporary; *writers*: the statements that copy to it.
    :ivar copies: the copies of one phase.
    :ivar loops: without cells for several tiles: the loop around all accesses, if there is one.
    """

    launch: Launch
    name: str
    slots: int
    accesses: tuple[Access, ...]
    writers: frozenset[str]
    copies: int
    loops: tuple[str, ...] = ()

    @staticmethod
    def of(launch: Launch, array: str, ways: Mapping[str, Path]) -> _Ring:
        knl = launch.kernel
        accesses = tuple(a for a in accesses_by_array(knl)[array] if a.statement in launch.statements)
        writers = frozenset(a.statement for a in accesses if a.is_write)
        if others := sorted(s for s in writers if not any(
                isinstance(i, TmaLoad) for i in knl.statement_by_id[s].instructions)):
            raise PreconditionError(f"'{others[0]}' writes to '{array}', which TMA copies to.", subject=others[0],
                                    hint="let TMA alone write to the temporary, or nothing by TMA")
        slots = {int(i.denominator) for a in accesses for i in a.subscripts[:1]
                 if isinstance(i, p.Remainder) and isinstance(i.denominator, int)}
        own = _Ring(launch, knl.fresh_name(f"{array}_full"), min(slots, default=1), accesses, writers, 1)
        around = [[x for x in loops_of(ways[s]) if not is_collective(knl.tags.get(x))] for s in ways
                  if s in {a.statement for a in accesses}]
        shared = tuple(x for x in around[0] if all(x in loops for loops in around))
        if len(slots) == 0 and len(shared) > 1:
            raise PreconditionError(
                f"The copies to '{array}' run in the loops over {' and '.join(map(repr, shared))}, and no single loop "
                "counts their phases.", subject=array,
                hint=f"pipeline(knl, '{shared[-1]}', stages=2, temporaries=['{array}']), or copy before the inner loop")
        own = replace(own, loops=() if slots else shared)
        counts = {s: own.copies_of(s, loops_of(ways[s])) for s in sorted(writers)}
        if len({*counts.values()}) != 1:
            raise PreconditionError(f"Phases of '{array}' have different numbers of copies: "
                                    f"{', '.join(f'{s} {n}' for s, n in counts.items())}.", subject=array,
                                    hint="let one statement copy all of a tile")
        return replace(own, copies=next(iter(counts.values())))

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

    def copies_of(self, statement: str, loops: Sequence[str]) -> int:
        """The copies of *statement* for one tile."""
        knl, bound = self.launch.kernel, self.launch.statements[statement]
        (number,) = self.numbers_at(statement)
        last = max((k for k, x in enumerate(loops) if x in variables(number)), default=-1)
        count = 1
        for x in (x for x in loops[last + 1:] if not is_collective(knl.tags.get(x))):
            low, high = constant_range(knl, bound.statement.domain, x)
            if low is None or high is None:
                raise PreconditionError(f"'{statement}' makes a number of copies for each tile that depends on sizes.",
                                        subject=statement,
                                        hint=f"give '{x}' constant bounds: pad_domain, then split it")
            count *= high - low + 1
        return count


def _place_before(tree: Tree, way: Path, names: frozenset[str]) -> Path:
    """The path of the node before which threads wait: the outermost one on *way* in all loops of *names*."""
    depth = max((k + 1 for k, step in enumerate(way) if step.iname in names), default=0)
    node = tree
    for step in way[:depth]:
        node = node.body if isinstance(node, Loop) else node.children[step.position] if isinstance(node, Seq) else node
    return way[:depth + isinstance(node, Seq)]


def _with_waits(tree: Tree, here: Path, waits: Mapping[Path, Mapping[WaitPhase, Mapping[str, None]]]) -> Tree:
    """*tree*, at the path *here*, with *waits* before the nodes at their paths."""
    match tree:
        case Loop(iname, body):
            tree = Loop(iname, _with_waits(body, (*here, Step(0, iname)), waits))
        case Seq(children):
            tree = seq(*(_with_waits(child, (*here, Step(i, None)), waits) for i, child in enumerate(children)))
        case _:
            pass
    own = (Barrier(tuple(serves), Scope.THREAD, (wait,)) for wait, serves in waits.get(here, {}).items())
    return seq(*own, tree)
