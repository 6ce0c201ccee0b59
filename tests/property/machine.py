"""Runs a lowered kernel as a GPU would: blocks, threads that meet at barriers, and memory that knows who touched it.

The loop program becomes one Python generator function a launch, which stops at each barrier. Every access is checked:
within its array, written before it is read (temporaries), and no race: of two accesses to one cell, one of them a
write, by two blocks of a launch or by two threads of a block, a barrier must stand between (threads of a block only).
"""
from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import pymbolic.primitives as p

from loopkit.ast.nodes import Array, Assign, Block, Define, For, Function, If, Node, Region, Sync
from loopkit.expr.evaluate import evaluate
from loopkit.expr.nodes import REDUCTIONS, TypeCast
from loopkit.kernel.data import AddressSpace
from loopkit.lowering.pipeline import Lowered

GRID, BLOCK = ("g.0", "g.1", "g.2"), ("l.0", "l.1", "l.2")


class MachineError(AssertionError):
    """What a right program never does: a race, a stray or early access, a barrier that not all threads meet."""


@dataclass
class Place:
    """Who runs: set by the scheduler, read by the memories."""

    launch: int = 0
    block: tuple[int, ...] = ()
    thread: tuple[int, ...] = ()
    epoch: int = 0
    statement: str = ""


@dataclass
class Memory:
    """The cells of an array that several threads may touch.

    :ivar blocks_apart: false for shared memory, of which each block has its own.
    """

    name: str
    shape: tuple[int, ...]
    integer: bool
    place: Place
    values: dict[tuple[int, ...], Any] = field(default_factory=dict)
    writes: dict[tuple[int, ...], Any] = field(default_factory=dict)
    reads: dict[tuple[int, ...], dict[Any, Any]] = field(default_factory=dict)

    def __getitem__(self, index: tuple[int, ...]) -> Any:
        self._check(index)
        here = self.place
        if index not in self.values:
            raise MachineError(f"{here.statement} reads {self.name}{list(index)}, which nobody wrote")
        last = self.writes.get(index)
        if last is not None:
            self._require_ordered(index, last, "written")
        self.reads.setdefault(index, {})[here.block, here.thread] = (
            here.launch, here.block, here.thread, here.epoch, here.statement)
        return self.values[index]

    def __setitem__(self, index: tuple[int, ...], value: Any) -> None:
        self._check(index)
        here = self.place
        if index in self.writes:
            self._require_ordered(index, self.writes[index], "written")
        for read in self.reads.pop(index, {}).values():
            self._require_ordered(index, read, "read")
        self.writes[index] = (here.launch, here.block, here.thread, here.epoch, here.statement)
        self.values[index] = int(value) if self.integer else float(value)

    def _check(self, index: tuple[int, ...]) -> None:
        if len(index) != len(self.shape) or not all(0 <= i < e for i, e in zip(index, self.shape, strict=True)):
            raise MachineError(f"{self.place.statement} touches {self.name}{list(index)}, outside of {self.shape}")

    def _require_ordered(self, index: tuple[int, ...], other: Any, verb: str) -> None:
        launch, block, thread, epoch, statement = other
        here = self.place
        if launch != here.launch or (block == here.block and (thread == here.thread or epoch < here.epoch)):
            return
        raise MachineError(f"race: {here.statement} in block {here.block}, thread {here.thread} touches "
                           f"{self.name}{list(index)}, {verb} by {statement} in block {block}, thread {thread}")


@dataclass
class Own:
    """The cells of a private array in one thread."""

    name: str
    shape: tuple[int, ...]
    integer: bool
    place: Place
    values: dict[tuple[int, ...], Any] = field(default_factory=dict)

    def __getitem__(self, index: tuple[int, ...]) -> Any:
        self._check(index)
        if index not in self.values:
            raise MachineError(f"{self.place.statement} reads {self.name}{list(index)}, which this thread did not "
                               "write (in this region)")
        return self.values[index]

    def __setitem__(self, index: tuple[int, ...], value: Any) -> None:
        self._check(index)
        self.values[index] = int(value) if self.integer else float(value)

    _check = Memory._check


# {{{ the loop program as Python

class _Text:
    """Writes the body of a launch.

    :ivar arrays: what is subscripted: global memory, shared and private arrays.
    """

    def __init__(self, function: Function, arrays: Sequence[str]) -> None:
        self.function = function
        self.arrays = frozenset(arrays)
        self.syncs: list[Sync] = []

    def source(self) -> str:
        own = [a for a in self.function.arrays if not a.shared]
        lines = ["def run(_memory, _place, _own, _g, _l):"]
        lines += [f"    {_axis(a)} = {'_g' if a in GRID else '_l'}[{i % 3}]" for i, a in enumerate((*GRID, *BLOCK))]
        lines += [f"    {a.name} = _own({a.name!r})" for a in own if a.across_regions]
        lines += [f"    {a} = _memory[{a!r}]" for a in sorted(self.arrays - {a.name for a in own})]
        lines += [f"    {x} = {self.text(e)}" for x, e in self.function.coordinates.items()]
        lines += self._block(self.function.body, 1)
        return "\n".join([*lines, "    return", "    yield"])

    def _block(self, block: Block, depth: int) -> list[str]:
        defined = [c.name for c in block.children if isinstance(c, Define)]
        if len(set(defined)) < len(defined):
            raise MachineError(f"a name is defined twice in one block: {defined}")
        lines = [line for c in block.children for line in self._node(c, depth)]
        return lines or ["    "*depth + "pass"]

    def _node(self, node: Node, depth: int) -> list[str]:
        pad = "    "*depth
        match node:
            case Assign():
                return [f"{pad}_place.statement = {node.statement!r}", f"{pad}{self._assign(node)}"]
            case For():
                head = f"{pad}for {node.iname} in range({self.text(node.start)}, {self.text(node.stop)}, {node.step}):"
                return [head, *self._block(node.body, depth + 1)]
            case If():
                lines = [f"{pad}if {self.text(node.condition)}:", *self._block(node.then, depth + 1)]
                if node.otherwise is not None:
                    lines += [f"{pad}else:", *self._block(node.otherwise, depth + 1)]
                return lines
            case Define():
                return [f"{pad}{node.name} = {self.text(node.value)}"]
            case Sync():
                self.syncs.append(node)
                return [f"{pad}yield {len(self.syncs)}"]
            case Region():
                fresh = [f"{pad}{a.name} = _own({a.name!r})" for a in self.function.arrays
                         if not a.shared and not a.across_regions]
                return [*fresh, *self._block(node.body, depth)]
            case Block():
                return self._block(node, depth)

    def _assign(self, node: Assign) -> str:
        value = self.text(node.value)
        target = self.text(node.target)
        if node.combine is None:
            return f"{target} = {value}"
        old = {"+": f"{target} + {value}", "*": f"{target} * {value}", "max": f"max({target}, {value})",
               "min": f"min({target}, {value})"}[REDUCTIONS[node.combine].combine]
        return f"{target} = {old}"

    def text(self, e: Any) -> str:
        match e:
            case p.Variable(name=name):
                return f"{name}[()]" if name in self.arrays else _axis(name)
            case p.Subscript(aggregate=p.Variable(name=name)):
                return f"{name}[({''.join(self.text(i) + ', ' for i in e.index_tuple)})]"
            case p.Sum(children=c):
                return f"({' + '.join(map(self.text, c))})"
            case p.Product(children=c):
                return f"({'*'.join(map(self.text, c))})"
            case p.Min(children=c):
                return f"min({', '.join(map(self.text, c))})"
            case p.Max(children=c):
                return f"max({', '.join(map(self.text, c))})"
            case p.LogicalAnd(children=c):
                return f"({' and '.join(map(self.text, c))})"
            case p.LogicalOr(children=c):
                return f"({' or '.join(map(self.text, c))})"
            case p.LogicalNot(child=c):
                return f"(not {self.text(c)})"
            case p.FloorDiv():
                return f"({self.text(e.numerator)} // {self.text(e.denominator)})"
            case p.Remainder():
                return f"({self.text(e.numerator)} % {self.text(e.denominator)})"
            case p.Comparison():
                return f"({self.text(e.left)} {e.operator} {self.text(e.right)})"
            case p.If():
                return f"({self.text(e.then)} if {self.text(e.condition)} else {self.text(e.else_)})"
            case TypeCast():
                return f"({'int' if e.dtype.kind in 'iub' else 'float'}({self.text(e.child)}))"
            case bool() | int() | np.bool_() | np.integer():
                return f"({int(e)})"
            case float() | np.floating():
                return f"float('{float(e)}')"
            case _:
                raise MachineError(f"no program has a {type(e).__name__}: {e}")


def _axis(name: str) -> str:
    return name.replace(".", "_")

# }}}


# {{{ running it

def execute(lowered: Lowered, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int],
            order: random.Random) -> dict[str, np.ndarray]:
    """The arrays after all launches ran; in each stretch between barriers the threads go in a random order.

    :raises MachineError: the program does what a right one never does.
    """
    place = Place()
    memories = {k: Memory(k, a.shape, a.dtype.kind in "iub", place, {i: v.item() for i, v in np.ndenumerate(a)})
                for k, a in arrays.items()}
    for name, storage in lowered.storages.items():
        if storage.space is AddressSpace.GLOBAL:
            shape = tuple(max(0, evaluate(e, sizes)) for e in storage.shape)
            memories[name] = Memory(name, shape, storage.dtype.kind in "iub", place)
    for place.launch, function in enumerate(lowered.program.functions):
        _launch(function, memories, sizes, place, order)
    return {k: np.array([memories[k].values[i] for i in np.ndindex(a.shape)], a.dtype).reshape(a.shape)
            for k, a in arrays.items()}


def _launch(function: Function, memories: Mapping[str, Memory], sizes: Mapping[str, int], place: Place,
            order: random.Random) -> None:
    text = _Text(function, [*memories, *(a.name for a in function.arrays)])
    names: dict[str, Any] = dict(sizes)
    exec(compile(text.source(), f"<launch {function.name}>", "exec"), names)
    grid = [range(evaluate(function.extents.get(axis, 1), sizes)) for axis in GRID]
    threads = list(itertools.product(*(range(evaluate(function.extents.get(axis, 1), sizes)) for axis in BLOCK)))
    blocks = list(itertools.product(*grid))
    order.shuffle(blocks)
    for block in blocks:
        place.block, place.epoch = block, 0
        shared = {a.name: Memory(a.name, a.shape, a.dtype.kind in "iub", place) for a in function.arrays if a.shared}
        _block(names["run"], function, {**memories, **shared}, place, threads, order)


def _block(run: Callable[..., Iterator[int]], function: Function, memories: Mapping[str, Memory], place: Place,
           threads: Sequence[tuple[int, ...]], order: random.Random) -> None:
    private: dict[str, Array] = {a.name: a for a in function.arrays if not a.shared}

    def own(name: str) -> Own:
        a = private[name]
        return Own(name, a.shape, a.dtype.kind in "iub", place)
    running = {t: run(memories, place, own, place.block, t) for t in threads}
    while True:
        met: dict[tuple[int, ...], int | None] = {}
        for place.thread in order.sample(threads, len(threads)):
            met[place.thread] = next(running[place.thread], None)
        if len(set(met.values())) > 1:
            raise MachineError(f"not all threads of block {place.block} meet at one barrier: {met}")
        if None in met.values():
            return
        place.epoch += 1


def thread_count(lowered: Lowered) -> int:
    """The most threads of a block."""
    return max((prod(e for e in (f.extents.get(axis, 1) for axis in BLOCK) if isinstance(e, int))
                for f in lowered.program.functions), default=1)

# }}}
