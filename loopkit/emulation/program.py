"""The nodes of a function of a loop program as executions of strands."""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from loopkit.ast.nodes import (
    Assign,
    Block,
    Call,
    Define,
    For,
    If,
    Instruction,
    Node,
    OneStep,
    Region,
    Scope,
    Sync,
    Tiles,
)
from loopkit.emulation.expressions import Compiler, Value
from loopkit.emulation.memory import Lanes
from loopkit.emulation.strands import Rendezvous, Run, Strand
from loopkit.errors import PreconditionError
from loopkit.expr.nodes import REDUCTIONS

#: A part of a program at which no thread waits.
Step = Callable[[Strand], None]


class Nodes(Protocol):
    """The executions of nodes, for the emulations of instructions."""

    @property
    def expressions(self) -> Compiler: ...

    @property
    def warp_arrays(self) -> Collection[str]:
        """The arrays in warp registers."""

    def emulation(self, instruction: Instruction) -> Emulation:
        """The emulation of *instruction*."""

    def with_expressions(self, expressions: Compiler) -> Nodes:
        """This one with names or arrays of the instruction's own."""

    def plain(self, node: Assign) -> Step:
        """An assignment by plain loads and stores."""

    def step(self, node: Node) -> Step:
        """A node without barriers and without instructions of several threads."""


@dataclass(frozen=True)
class Emulation:
    """The emulation of one class of instructions; like :class:`~loopkit.instructions.base.InstructionText`.

    :ivar assignment: an assignment by the instruction; ``None``: plain loads and stores.
    :ivar vectors: a loop over such assignments, several elements at a time; ``None``: not possible.
    :ivar one_by_one: the threads of a strand execute such an assignment one after another.
    :ivar loop: a loop that the instruction executes.
    :ivar region: a region that the threads of its scope execute together.
    :ivar sync: at a synchronisation of threads; *ended*: has the event happened for which it waits?
    :ivar assumes_layout: it is correct only if arrays have the layout that the instruction assumes.
    """

    assignment: Callable[[Nodes, Assign, Any], Step | None] | None = None
    vectors: Callable[[Nodes, For], Step | None] | None = None
    one_by_one: bool = False
    loop: Callable[[Nodes, For, Any], Step] | None = None
    region: Callable[[Nodes, Region, Any], Step] | None = None
    sync: Callable[[Nodes, Any], Step] | None = None
    ended: Callable[[Nodes, Any], Callable[[Strand], bool]] | None = None
    assumes_layout: bool = False


#: The emulations of instructions by their classes.
Emulations = Mapping[type[Instruction], Emulation]


@dataclass(frozen=True, eq=False)
class NodeCompiler:
    """Makes executions of nodes.

    :ivar emulations: those of the instructions that are right for the layout of the arrays.
    :ivar left_out: instructions whose nodes run without them.
    """

    expressions: Compiler
    emulations: Emulations
    warp_arrays: frozenset[str]
    left_out: frozenset[type[Instruction]] = frozenset()

    def with_expressions(self, expressions: Compiler) -> NodeCompiler:
        return replace(self, expressions=expressions)

    def emulation(self, instruction: Instruction) -> Emulation:
        """:raises PreconditionError: there is none."""
        if type(instruction) in self.left_out:
            return Emulation()
        if type(instruction) not in self.emulations:
            raise PreconditionError(f"The emulation does not have {instruction.noun}.", subject=instruction.noun,
                                    hint="compile(knl) runs it on a GPU")
        return self.emulations[type(instruction)]

    # Parts without barriers

    def step(self, node: Node) -> Step:
        run = self.run(node)

        def whole(s: Strand) -> None:
            for meeting in run(s):
                raise AssertionError(meeting)
        return whole

    def plain(self, node: Assign) -> Step:
        dtype = self.expressions.dtype_of(node.target)
        place = self.expressions.element(node.target)
        value = self.expressions.converted(node.value if node.combine is None else REDUCTIONS[node.combine].apply(
            node.target, node.value), dtype)

        def assign(s: Strand) -> None:
            found = value(s)
            cells, at = place(s)
            cells.store(s, at, found)
        return assign

    def _assign(self, node: Assign) -> Step:
        step, one_by_one = self.plain(node) if not node.instructions else None, False
        for i in node.instructions:
            own = self.emulation(i)
            one_by_one = one_by_one or own.one_by_one
            if step is None and own.assignment is not None:
                step = own.assignment(self, node, i)
        if step is None:
            step = self.plain(node)
        return _one_by_one([step]) if one_by_one else step

    def _define(self, node: Define) -> Step:
        name, value = node.name, self.expressions.value(node.value)

        def define(s: Strand) -> None:
            s.names[name] = value(s)
        return define

    # Parts with barriers

    def run(self, node: Node) -> Run:
        """The execution of *node*, up to its end."""
        match node:
            case Tiles():
                return self._tiles(node)
            case OneStep():
                return _as_run(_one_by_one([self.plain(x) for x in node.children if isinstance(x, Assign)]))
            case Block():
                return self._block(node)
            case For():
                own = None if node.instruction is None else self.emulation(node.instruction).loop
                return self._for(node) if own is None else _as_run(own(self, node, node.instruction))
            case If():
                return self._if(node)
            case Sync():
                return self._sync(node)
            case Region():
                return self._region(node)
            case Assign():
                return _as_run(self._assign(node))
            case Define():
                return _as_run(self._define(node))
            case Call():
                raise AssertionError(node)

    def _block(self, block: Block) -> Run:
        """The nodes of a block, whose names end with it."""
        parts: list[tuple[Step | None, Run | None]] = []
        for node in block.children:
            parts.append((self._assign(node), None) if isinstance(node, Assign) else
                         (self._define(node), None) if isinstance(node, Define) else (None, self.run(node)))

        def run(s: Strand) -> Iterator[Rendezvous]:
            outer = s.names
            s.names = dict(outer)
            for step, inner in parts:
                if step is not None:
                    step(s)
                elif inner is not None:
                    yield from inner(s)
            s.names = outer
        return run

    def _tiles(self, node: Tiles) -> Run:
        body = self._block(node.body)

        def run(s: Strand) -> Iterator[Rendezvous]:
            for place in places_of(node, s.block_number, s.block.grid):
                assert s.block.enter is not None
                s.block.enter(s, place)
                yield from body(s)
        return run

    def _for(self, node: For) -> Run:
        x, step, body = node.iname, node.step, self.run(node.body)
        start, stop = (self._bound(e) for e in (node.start, node.stop))

        def run(s: Strand) -> Iterator[Rendezvous]:
            first, end, outer, names = start(s), stop(s), s.mask, s.names
            s.names = dict(names)
            if not isinstance(first, np.ndarray) and not isinstance(end, np.ndarray):
                for value in range(int(first), int(end), step):
                    s.names[x] = value
                    yield from body(s)
            else:
                values = s.lanes(first)
                while (mask := outer & (values < end)).any():
                    s.mask, s.names[x] = mask, values
                    yield from body(s)
                    values = values + step
                s.mask = outer
            s.names = names
        return run

    def _bound(self, expr: Any) -> Value:
        """A bound of a loop, an integer."""
        value = self.expressions.value(expr)

        def bound(s: Strand) -> Lanes:
            found = value(s)
            return found.astype(np.int64) if isinstance(found, np.ndarray) else int(found)
        return bound

    def _if(self, node: If) -> Run:
        condition = self.expressions.condition(node.condition)
        then, other = self.run(node.then), self.run(node.otherwise or Block())

        def run(s: Strand) -> Iterator[Rendezvous]:
            holds, outer = condition(s), s.mask
            if not isinstance(holds, np.ndarray):
                yield from (then if holds else other)(s)
                return
            for branch, mask in ((then, outer & holds), (other, outer & ~holds)):
                if mask.any():
                    s.mask = mask
                    yield from branch(s)
            s.mask = outer
        return run

    def _sync(self, node: Sync) -> Run:
        own = [sync(self, i) for i in node.instructions if (sync := self.emulation(i).sync) is not None]
        events = [(i, ended(self, i)) for i in node.instructions if (ended := self.emulation(i).ended) is not None]
        meeting = None if node.scope is Scope.THREAD else Rendezvous(
            node.scope, node, node.title, threads=node.threads)

        def run(s: Strand) -> Iterator[Rendezvous]:
            for step in own:
                step(s)
            for i, ended in events:
                if not ended(s):
                    yield Rendezvous(Scope.THREAD, node, i.noun, ready=partial(ended, s))
            if meeting is not None:
                yield meeting
        return run

    def _region(self, node: Region) -> Run:
        i = node.instruction
        own = None if i is None else self.emulation(i).region
        if i is None or own is None:
            return self.run(node.body)
        if i.scope is Scope.THREAD:
            return _as_run(own(self, node, i))
        meeting = Rendezvous(i.scope, node, i.noun, own(self, node, i))

        def run(_: Strand) -> Iterator[Rendezvous]:
            yield meeting
        return run


def places_of(tiles: Tiles, block: int, grid: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """The coordinates of the places of a *block*, in their order."""
    (along_x, along_y, along_z), number = grid, block
    group = tiles.group or along_x*along_y
    while number < along_x*along_y*along_z:
        first = number // (group*along_z)*group
        across, rest = min(group, along_x*along_y - first), number - first*along_z
        column = first + rest % across
        yield column % along_x, column // along_x, rest // across
        number += 2*(tiles.blocks - number % tiles.blocks) - 1


def _as_run(step: Step) -> Run:
    def run(s: Strand) -> Iterator[Rendezvous]:
        step(s)
        return
        yield
    return run


def _one_by_one(steps: Iterable[Step]) -> Step:
    """*steps* of one active thread after another."""
    every = tuple(steps)

    def run(s: Strand) -> None:
        outer = s.mask
        for k in s.block.choices.ordered(np.flatnonzero(outer)):
            s.mask = np.arange(len(outer)) == k
            for step in every:
                step(s)
        s.mask = outer
    return run
