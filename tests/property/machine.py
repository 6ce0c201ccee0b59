"""Runs a lowered kernel as a GPU would: blocks, threads that wait at barriers, and memory that records its accesses.

The loop program becomes one Python generator function a launch, which stops at each barrier. Every access is checked:
within its array, written before its value is used (temporaries), and no race: of two accesses to one cell, one of them
a write, by two blocks of a launch or by two threads of a block, a barrier must be between (threads of a block, or
of a warp where it is a barrier of warps). Nobody may touch what an asynchronous copy writes, or write what it reads,
before its thread waited for its group.
"""
from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
import pymbolic.primitives as p

from loopkit.ast.arrays import Array
from loopkit.ast.assumed import AlignedArray, Assumed, DivisibleSize
from loopkit.ast.nodes import Assign, Block, Define, For, Function, If, Node, Region, Scope, Sync
from loopkit.ast.walk import calls, rewritten
from loopkit.expr.evaluate import evaluate, truncated_quotient, truncated_remainder
from loopkit.expr.mappers import array_of, replaced
from loopkit.expr.nodes import REDUCTIONS, Combined, MakeTuple, Operation, TypeCast
from loopkit.expr.tuples import tuple_dtype
from loopkit.instructions.asynchronous_copy import AsynchronousCopy
from loopkit.instructions.atomic_update import AtomicUpdate
from loopkit.instructions.block_flag import BlockFlag
from loopkit.instructions.groups import commits, pending
from loopkit.instructions.ldmatrix import LdMatrixIssue
from loopkit.instructions.mma import MmaIssue
from loopkit.instructions.nests import Issue, statement_of
from loopkit.instructions.shuffle import Excluded, Shuffle, read_of_other_lane
from loopkit.instructions.simd_loop import SimdLoop
from loopkit.instructions.vector_access import (
    VectorAccess,
    assignment_of,
    copied_by,
    copied_element,
    for_all,
    in_registers,
    loaded_by_elements,
    vectors_of,
)
from loopkit.interpreter.interpreter import Evaluator, function_value
from loopkit.kernel.data import AddressSpace
from loopkit.lowering.lowered import Lowered
from loopkit.poly.affine import TruncatedQuotient, TruncatedRemainder, add
from tests.property.matrix_units import added, loaded

GRID, BLOCK = ("g.0", "g.1", "g.2"), ("l.0", "l.1", "l.2")


#: What a thread says in place of a barrier's number while it waits for another block.
WAITS = 0


class MachineError(AssertionError):
    """What a right program never does: a race, a stray or early access, a barrier that not all threads meet."""


@dataclass
class Place:
    """Who runs: set by the scheduler, read by the memories.

    :ivar epoch: how many barriers of the block are behind it; *warp_epoch*: of its *warp*, since then.
    """

    launch: int = 0
    block: tuple[int, ...] = ()
    thread: tuple[int, ...] = ()
    warp: int = 0
    epoch: int = 0
    warp_epoch: int = 0
    statement: str = ""
    shuffle: Shuffle | None = None
    extents: tuple[int, int, int] = (1, 1, 1)

    def number(self, thread: tuple[int, ...]) -> int:
        """The number of *thread* in its block, the first axis fastest."""
        return thread[0] + self.extents[0]*(thread[1] + self.extents[1]*thread[2])

    @property
    def source(self) -> int:
        """The number of the thread whose registers are read."""
        here = self.number(self.thread)
        if self.shuffle is None:
            return here
        if self.shuffle.is_butterfly:
            return here ^ self.shuffle.offset
        return here - here % self.shuffle.width if self.shuffle.offset is None else here + self.shuffle.offset

    def access(self) -> Access:
        return Access(self.launch, self.block, self.thread, self.warp, self.epoch, self.warp_epoch, self.statement)


@dataclass(frozen=True)
class Access:
    """Who touched a cell, and when."""

    launch: int
    block: tuple[int, ...]
    thread: tuple[int, ...]
    warp: int
    epoch: int
    warp_epoch: int
    statement: str

    def before(self, here: Place) -> bool:
        """Is it ordered before whatever *here* does now?"""
        if self.launch != here.launch:
            return True
        if self.block != here.block:
            return False
        return self.thread == here.thread or self.epoch < here.epoch or (
            self.warp == here.warp and self.warp_epoch < here.warp_epoch)


class Unwritten:
    """The value of a cell that nobody wrote: it may be copied, as a fetch does for a reader that never comes."""

    def __init__(self, what: str) -> None:
        self.what = what

    def _used(self, *_: object) -> Any:
        raise MachineError(self.what)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = _used
    __mod__ = __rmod__ = __truediv__ = __rtruediv__ = __neg__ = __lt__ = __le__ = __gt__ = __ge__ = _used
    __bool__ = __int__ = __float__ = __index__ = __getitem__ = _used
    __eq__ = __ne__ = _used          # type: ignore[assignment]
    __hash__ = None                  # type: ignore[assignment]


@dataclass
class Memory:
    """The cells of an array that several threads may touch.

    :ivar temporary: its cells may hold what nobody wrote.
    :ivar lanes: they are registers of the threads that write them.
    """

    name: str
    shape: tuple[int, ...]
    integer: bool
    place: Place
    temporary: bool = True
    lanes: bool = False
    values: dict[tuple[int, ...], Any] = field(default_factory=dict)
    writes: dict[tuple[int, ...], Access] = field(default_factory=dict)
    reads: dict[tuple[int, ...], dict[Any, Access]] = field(default_factory=dict)
    updates: dict[tuple[int, ...], dict[Any, Access]] = field(default_factory=dict)
    arriving: set[tuple[int, ...]] = field(default_factory=set)
    leaving: dict[tuple[int, ...], int] = field(default_factory=dict)

    def update(self, index: tuple[int, ...], operation: str, value: Any) -> None:
        """Combine *value* with a cell at one go: others that do so by the same *operation* need no order.

        Without an operation it is an atomic store.
        """
        self._check(index)
        self._require_here(index, written=True)
        here = self.place
        if index in self.writes:
            self._require_ordered(index, self.writes[index], "written")
        for other in self.reads.get(index, {}).values():
            self._require_ordered(index, other, "read")
        known = self.updates.setdefault(index, {})
        for (_, _, by), other in known.items():
            if by != operation:
                self._require_ordered(index, other, "updated")
        known[here.block, here.thread, operation] = here.access()
        old = self.values.get(index, Unwritten(f"{here.statement} updates {self.name}{list(index)}, which is empty"))
        new = {"+": lambda: old + value, "*": lambda: old*value, "max": lambda: max(old, value),
               "min": lambda: min(old, value), "": lambda: value}[operation]()
        self.values[index] = stored(new, integer=self.integer, temporary=self.temporary)

    def __getitem__(self, index: tuple[int, ...]) -> Any:
        self._check(index)
        self._require_here(index)
        here = self.place
        last = self.writes.get(index)
        if last is not None:
            self._require_ordered(index, last, "written")
            if self.lanes and here.number(last.thread) not in (here.number(here.thread), here.source):
                raise MachineError(f"{here.statement} reads {self.name}{list(index)}, which another lane holds")
        for update in self.updates.get(index, {}).values():
            self._require_ordered(index, update, "updated")
        self.reads.setdefault(index, {})[here.block, here.thread] = here.access()
        if index not in self.values:
            return Unwritten(f"{here.statement} reads {self.name}{list(index)}, which nobody wrote")
        return self.values[index]

    def __setitem__(self, index: tuple[int, ...], value: Any) -> None:
        self._check(index)
        self._require_here(index, written=True)
        here = self.place
        if index in self.writes:
            self._require_ordered(index, self.writes[index], "written")
        for read in self.reads.pop(index, {}).values():
            self._require_ordered(index, read, "read")
        for update in self.updates.pop(index, {}).values():
            self._require_ordered(index, update, "updated")
        self.writes[index] = here.access()
        self.values[index] = stored(value, integer=self.integer, temporary=self.temporary)

    def _require_here(self, index: tuple[int, ...], *, written: bool = False) -> None:
        if index in self.arriving or (written and self.leaving.get(index)):
            raise MachineError(f"{self.place.statement} touches {self.name}{list(index)}, of which a copy is under way")

    def _check(self, index: tuple[int, ...]) -> None:
        if len(index) != len(self.shape) or not all(0 <= i < e for i, e in zip(index, self.shape, strict=True)):
            raise MachineError(f"{self.place.statement} touches {self.name}{list(index)}, outside of {self.shape}")

    def require_aligned(self, first: tuple[int, ...], elements: int) -> None:
        """Has *first* a multiple of *elements* before it?"""
        if _number(first, self.shape) % elements:
            raise MachineError(f"{self.place.statement}: {self.name}{list(first)} is not aligned")

    def in_its_row(self, index: tuple[int, ...]) -> tuple[int, ...]:
        """The cell at *index*, whose last subscript may be beyond the row, in the row before or the next one."""
        number = _number(index, self.shape)
        if not 0 <= number < prod(self.shape):
            raise MachineError(f"{self.place.statement} touches {self.name}{list(index)}, outside of {self.shape}")
        return tuple(int(i) for i in np.unravel_index(number, self.shape))

    def _require_ordered(self, index: tuple[int, ...], other: Access, verb: str) -> None:
        here = self.place
        if not other.before(here):
            raise MachineError(
                f"race: {here.statement} in block {here.block}, thread {here.thread} touches {self.name}{list(index)}, "
                f"{verb} by {other.statement} in block {other.block}, thread {other.thread}")


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of all axes but the last, in elements, of an array without gaps."""
    return tuple(prod(shape[axis + 1:]) for axis in range(len(shape) - 1))


def _number(index: tuple[int, ...], shape: tuple[int, ...]) -> int:
    """How many cells of *shape* are before the one at *index*."""
    number = 0
    for i, extent in zip(index, shape, strict=True):
        number = number*extent + i
    return number


def stored(value: Any, *, integer: bool, temporary: bool) -> Any:
    """What a cell holds after *value* was written to it."""
    if isinstance(value, dict) or (temporary and isinstance(value, Unwritten)):
        return value                        # a tuple is a dict, which no program changes
    return int(value) if integer else float(value)


@dataclass
class Copies:
    """The asynchronous copies of one thread: groups, the oldest first, and those since the last group."""

    groups: list[list[Callable[[], None]]] = field(default_factory=list)
    begun: list[Callable[[], None]] = field(default_factory=list)

    def begin(self, target: Memory, at: tuple[int, ...], source: Memory | None, index: tuple[int, ...]) -> None:
        """Nobody may be using the target still, which has no value until the copy is done.

        Without a source it gets a zero. Elements that are too small for a copy, which the text stores at once, are as
        late here as all others.
        """
        value = 0 if source is None else source[index]
        target[at] = value
        target.arriving.add(at)
        if source is not None:
            source.leaving[index] = source.leaving.get(index, 0) + 1

        def done() -> None:
            target.arriving.discard(at)
            target[at] = value                          # as late as that
            if source is not None:
                source.leaving[index] -= 1
        self.begun.append(done)

    def commit(self) -> None:
        self.groups.append(self.begun)
        self.begun = []

    def wait(self, pending: int) -> None:
        while len(self.groups) > pending:
            for done in self.groups.pop(0):
                done()


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
            return Unwritten(f"{self.place.statement} reads {self.name}{list(index)}, which this thread did not write "
                             "(in this region)")
        return self.values[index]

    def __setitem__(self, index: tuple[int, ...], value: Any) -> None:
        self._check(index)
        self.values[index] = stored(value, integer=self.integer, temporary=True)

    _check = Memory._check


class WaitingError(Exception):
    """An element that another block hands on is not there yet: to be tried again."""


@dataclass
class Handed(Memory):
    """What blocks hand on: an element is there with its value, for whoever waits, as soon as it is published."""

    def wait_for(self, index: tuple[int, ...]) -> Any:
        self._check(index)
        if index not in self.values:
            raise WaitingError
        return self.values[index]

    def publish(self, index: tuple[int, ...], value: Any) -> None:
        self._check(index)
        if index in self.values:
            raise MachineError(f"{self.place.statement} publishes {self.name}{list(index)} again")
        self.values[index] = stored(value, integer=self.integer, temporary=False)

    def __getitem__(self, index: tuple[int, ...]) -> Any:
        raise MachineError(f"{self.place.statement} reads {self.name}{list(index)} and does not wait for it")

    def __setitem__(self, index: tuple[int, ...], value: Any) -> None:
        raise MachineError(f"{self.place.statement} writes {self.name}{list(index)} and nobody is told")


class Vector(dict[tuple[int, ...], Any]):
    """The elements of a vector that a thread holds."""

    def __missing__(self, index: tuple[int, ...]) -> Any:
        raise MachineError(f"element {index[0]} of a vector is read, which it does not have")


class Lanes(dict[int, Any]):
    """What each thread of a block gives for an instruction of its warp, by its number."""

    def __missing__(self, number: int) -> Any:
        raise MachineError(f"thread {number} gives nothing for an instruction of its warp, as it is not there")


def _row(array: Memory, first: tuple[int, ...], elements: int, read: Callable[[], list[Any]]) -> list[Any]:
    """The 16 bytes from the element *first* on, which begin at a multiple of 16."""
    array.require_aligned(first, elements)
    return read()


#: Meetings of a warp with larger numbers order nothing.
UNORDERED = 10**6


# The loop program as Python

class _Text:
    """Writes the body of a launch.

    :ivar arrays: what is subscripted: global memory, shared and private arrays.
    :ivar anywhere: those of which elements of the rows before and after may be read.
    """

    def __init__(self, function: Function, arrays: Sequence[str]) -> None:
        self.function = function
        self.arrays = frozenset(arrays)
        self.anywhere: frozenset[str] = frozenset()
        self.syncs: list[Sync] = []
        self.awaited: frozenset[str] = frozenset()
        self.known: list[str] = []
        self.operations: list[Operation] = []

    def source(self) -> str:
        own = [a for a in self.function.arrays if not (a.shared or a.thread_axes)]
        lines = ["def run(__memory, __place, __own, __given, __g, __l):", "    __copies = __Copies()"]
        lines += [f"    {_axis(a)} = {'__g' if a in GRID else '__l'}[{i % 3}]" for i, a in enumerate((*GRID, *BLOCK))]
        lines += [f"    {a.name} = __own({a.name!r})" for a in own if a.across_regions]
        lines += [f"    {a} = __memory[{a!r}]" for a in sorted(self.arrays - {a.name for a in own})]
        lines += [f"    {x} = {self.text(e)}" for x, e in self.function.coordinates.items()]
        lines += self._block(self.function.body, 1)
        return "\n".join([*lines, "    return", "    yield"])

    def _block(self, block: Block, depth: int) -> list[str]:
        defined = [c.name for c in block.children if isinstance(c, Define)]
        if len(set(defined)) < len(defined):
            raise MachineError(f"a name is defined twice in one block: {defined}")
        # what a block hides is there again after it
        pad, mark = "    "*depth, len(self.known)
        hidden = [name for name in defined if name in self.known]
        lines = [f"{pad}__{mark}_{name} = {name}" for name in hidden]
        for c in block.children:
            lines += self._node(c, depth)
            self.known += [c.name] if isinstance(c, Define) else []
        lines += [f"{pad}{name} = __{mark}_{name}" for name in hidden]
        del self.known[mark:]
        return lines or [f"{pad}pass"]

    def _node(self, node: Node, depth: int) -> list[str]:
        pad = "    "*depth
        match node:
            case Assign():
                lines = [f"{pad}__place.statement = {node.statement!r}", f"{pad}{self._assign(node)}"]
                return self._tried(lines, pad) if flag_of(node).loads else lines
            case For() if vectors_of(node):
                return self._copied_vectors(node, depth) if _copies(node) else self._in_vectors(node, depth)
            case For(instruction=SimdLoop()):
                # in no order: the last iteration comes first
                every = f"range({self.text(node.start)}, {self.text(node.stop)}, {node.step})"
                return [f"{pad}for {node.iname} in reversed({every}):", *self._block(node.body, depth + 1)]
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
                lines = [f"{pad}__place.statement = 'a copy'"]
                lines += [f"{pad}__copies.commit()"] if commits(node.instructions) else []
                left = pending(node.instructions)
                lines += [f"{pad}__copies.wait({left})"] if left is not None else []
                if node.scope is Scope.THREAD:
                    return lines
                self.syncs.append(node)
                return [*lines, f"{pad}yield {'-' if node.scope is Scope.WARP else ''}{len(self.syncs)}"]
            case Region(instruction=Issue() as issue):
                return [pad + line for line in (f"__place.statement = {statement_of(node)!r}", *self._by_lanes(issue))]
            case Region():
                fresh = [f"{pad}{a.name} = __own({a.name!r})" for a in self.function.arrays
                         if not (a.shared or a.thread_axes or a.across_regions)]
                lines = [*fresh, *self._block(node.body, depth)]
                # the lanes of a warp are there before and after a shuffle; nothing else may read what others hold
                if node.instruction is None:
                    return lines
                assert isinstance(node.instruction, Shuffle)
                if node.instruction.excluded is Excluded.SAME:
                    return self._by_all_lanes(node, node.instruction, depth)
                shuffle = f"__shuffle({node.instruction.offset}, {node.instruction.width})"
                return [*self._together(pad), f"{pad}__place.shuffle = {shuffle}", *lines,
                        f"{pad}__place.shuffle = None", *self._together(pad), *self._spoilt(node, pad)]
            case Block():
                return self._block(node, depth)

    def _tried(self, lines: list[str], pad: str) -> list[str]:
        """*lines* again and again until all that they wait for is there."""
        return [f"{pad}while True:", f"{pad}    try:", *(f"        {line}" for line in lines), f"{pad}        break",
                f"{pad}    except __WaitingError:", f"{pad}        yield {WAITS}"]

    def _in_vectors(self, node: For, depth: int) -> list[str]:
        """A loop as its vectors make it, where what they assume holds; else as it is."""
        pad, inner = "    "*depth, "    "*(depth + 1)
        assign, condition = assignment_of(node)
        assert assign is not None
        lines = [f"{inner}__place.statement = {assign.statement!r}"]
        for v in vectors_of(node):
            first = self._index(v.at(node.iname, node.start))
            lines += [f"{inner}{v.array}.require_aligned({first}, {v.length})",
                      f"{inner}{v.name} = __Vector()"]
        lanes = f"{inner}for {node.iname} in range({self.text(node.start)}, {self.text(node.stop)}):"
        for v in vectors_of(node):
            if v.loaded:
                element = self._index(v.element)
                if any(isinstance(a, AlignedArray) and a.strides for a in v.assumed):
                    element = f"{v.array}.in_its_row({element})"
                held = f"{v.name}[({node.iname} - {node.start}, )]"
                lines += [f"{inner}if {'True' if v.inside is None else self.text(v.inside)}:",
                          f"    {lanes}", f"{inner}        {held} = {v.array}[{element}]"]
                if v.inside is not None:
                    lines += [f"{inner}else:", *self._node(loaded_by_elements(node, v), depth + 2)]
        self.anywhere = frozenset(v.array for v in vectors_of(node)
                                  if isinstance(node.instruction, VectorAccess) and node.instruction.computes_all)
        lines += self._node(in_registers(node), depth + 1)
        self.anywhere = frozenset()
        for v in vectors_of(node):
            if v.stored:
                held = f"{v.name}[({node.iname} - {node.start}, )]"
                guard = "" if condition is None else f"if {self.text(condition)}: "
                lines += [lanes, f"{inner}    {guard}{self.text(v.element)} = {held}"]
                if condition is not None:
                    every = self.text(for_all(condition, node))
                    lines.append(f"{inner}if ({every}) and len({v.name}) != {node.stop} - {node.start}: "
                                 f"raise __MachineError('not all lanes of {v.name} are computed')")
        return [f"{pad}if {self._all_hold(node)}:", *lines, f"{pad}else:",
                *self._node(replace(node, instruction=None), depth + 1)]

    def _copied_vectors(self, node: For, depth: int) -> list[str]:
        """A loop as its copies of vectors make it, each of which may end with zeros."""
        pad, inner = "    "*depth, "    "*(depth + 1)
        source, target = vectors_of(node)
        x, length, count = node.iname, source.length, copied_by(node)
        lines = [f"{pad}for {x} in range({self.text(node.start)}, {self.text(node.stop)}, {length}):",
                 f"{inner}__place.statement = {assignment_of(node)[0].statement!r}",        # type: ignore[union-attr]
                 *(f"{inner}{v.array}.require_aligned({self._index(v.element)}, {length})" for v in (source, target)),
                 f"{inner}__first, __count = {x}, {length if count is None else self.text(count)}",
                 f"{inner}if not 0 <= __count <= {length}: raise __MachineError('a copy of too many elements')",
                 f"{inner}for {x} in range(__first, __first + {length}):",
                 f"{inner}    __some = {x} - __first < __count",
                 f"{inner}    __copies.begin({target.array}, {self._index(target.element)}, "
                 f"{source.array} if __some else None, {self._index(source.element)} if __some else ())"]
        return [f"{pad}if {self._all_hold(node)}:", *(f"    {line}" for line in lines), f"{pad}else:",
                *self._node(replace(node, instruction=None), depth + 1)]

    def _all_hold(self, loop: For) -> str:
        """Whether all is so that the vectors of *loop* assume."""
        return " and ".join(dict.fromkeys(self._holds(a) for v in vectors_of(loop) for a in v.assumed)) or "True"

    def _by_lanes(self, issue: Issue) -> list[str]:
        """What lanes do together: each gives what is in its registers, all meet, each takes what it needs of others.

        They only meet: what one wrote before need not be there for another.
        """
        name = issue.instruction.name
        match issue:
            case MmaIssue():
                given = (f"({''.join(f'{self.text(e)}, ' for e in part)})" for part in (issue.left, issue.right))
                take = f"__found = __added({name!r}, __lane, __given[0], __given[1])"
                own = [f"{self.text(e)} = {self.text(e)} + __found[{n}]" for n, e in enumerate(issue.sums)]
            case LdMatrixIssue():
                array = next(a for a in self.function.arrays if a.name == issue.row.aggregate.name)
                *others, first = issue.row.index_tuple
                length = 16 // array.dtype.itemsize
                row = [self.text(p.Subscript(issue.row.aggregate, (*others, add(first, k)))) for k in range(length)]
                given = (f"__row({array.name}, {self._index(issue.row)}, {length}, lambda: [{', '.join(row)}]) "
                         f"if __lane % 32 < {8*issue.instruction.count} else None",)
                take = f"__found = __loaded({name!r}, __lane, __given[0])"
                own = [f"{self.text(e)} = __found[{n}]" for n, e in enumerate(issue.registers)]
                own.insert(0, f"if len(__found) != {len(own)}: raise __MachineError('a load of other registers')")
            case _:
                raise MachineError(f"no lanes know {issue}")
        gives = [f"__given[{n}][__lane] = {text}" for n, text in enumerate(given)]
        return ["__lane = __place.number(__place.thread)", *gives, self._meet(), take, *own, self._meet()]

    def _meet(self) -> str:
        self.syncs.append(Sync((), Scope.WARP))
        return f"yield -{UNORDERED + len(self.syncs)}"

    def _index(self, element: p.Subscript) -> str:
        return f"({''.join(self.text(i) + ', ' for i in element.index_tuple)})"

    def _holds(self, a: Assumed) -> str:
        """Whether rows are aligned, or a size is divisible; every array begins at the best of places, without gaps."""
        if isinstance(a, DivisibleSize):
            return f"{self.text(a.size)} % {a.divisor} == 0"
        if a.strides:
            return f"__strides({a.array}.shape) == ({''.join(self.text(s) + ', ' for s in a.strides)})"
        return f"(len({a.array}.shape) < 2 or {a.array}.shape[-1] % {a.elements} == 0)"

    def _spoilt(self, node: Region, pad: str) -> list[str]:
        """What lanes hold that have no part in a shuffle, and need not."""
        match node.body.children:
            case (If(then=Block(children=(Assign() as inner,))) as guard,) \
                    if isinstance(node.instruction, Shuffle) and node.instruction.excluded is Excluded.UNUSED:
                return [f"{pad}if not {self.text(guard.condition)}:", f"{pad}    {self.text(inner.target)} = __spare"]
            case _:
                return []

    def _by_all_lanes(self, region: Region, shuffle: Shuffle, depth: int) -> list[str]:
        """A step of a butterfly, which all lanes compute from registers; or a result, from each lane's own register."""
        pad = "    "*depth
        assign, read = read_of_other_lane(region, {a.name for a in self.function.arrays if a.thread_axes})
        rows = "".join(f"{self.text(i)}, " for i in read.index_tuple[:-1])
        own = replace(assign, value=replaced(assign.value, {read: p.Variable("__held")}))
        if shuffle.offset is None:
            lane = f"__place.number(__place.thread) % {shuffle.width}"
            body = rewritten(region.body, lambda inner: own if inner is assign else inner)
            return [f"{pad}__held = {array_of(read)}[({rows}{lane},)]", *self._block(body, depth)]
        assert isinstance(assign.target, p.Subscript)
        lane = f"{self.text(assign.target.index_tuple[-1])} ^ {shuffle.offset}"
        target, (line,) = self.text(assign.target), self._node(own, 0)[1:]
        return [*self._together(pad), f"{pad}__place.statement = {assign.statement!r}",
                f"{pad}__place.shuffle = __shuffle({shuffle.offset}, {shuffle.width}, __same)",
                f"{pad}__held = {array_of(read)}[({rows}{lane},)]", f"{pad}__place.shuffle = None",
                *self._together(pad), f"{pad}__place.statement = {assign.statement!r}",
                # the rows that have no part hold nothing
                f"{pad}if isinstance(__held, __Unwritten) or isinstance({target}, __Unwritten):",
                f"{pad}    {target} = __spare", f"{pad}else:", f"{pad}    {line}"]

    def _together(self, pad: str) -> list[str]:
        self.syncs.append(Sync((), Scope.WARP))
        return [f"{pad}yield -{len(self.syncs)}"]

    def _assign(self, node: Assign) -> str:
        self.awaited = frozenset(flag_of(node).loads)
        text = self._assignment(node)
        self.awaited = frozenset()
        return text

    def _assignment(self, node: Assign) -> str:
        value, target = self.text(node.value), self.text(node.target)
        if flag_of(node).stores:
            name, index = (node.target.aggregate, node.target.index_tuple) if isinstance(node.target, p.Subscript) \
                else (node.target, ())
            at = "".join(f"{self.text(i)}, " for i in index)
            return f"{name.name}.publish(({at}), {value})"
        if is_asynchronous_copy(node):
            assert isinstance(node.target, p.Subscript)
            begin = f"__copies.begin({node.target.aggregate}, {self._index(node.target)}"
            source, condition = copied_element(node.value) or (None, None)
            if source is None:
                return f"{begin}, None, ())"
            copy = f"{begin}, {source.aggregate}, {self._index(source)})"
            return copy if condition is None else f"{copy} if {self.text(condition)} else {begin}, None, ())"
        if AtomicUpdate() in node.instructions:
            name, index = (node.target.aggregate, node.target.index_tuple) if isinstance(node.target, p.Subscript) \
                else (node.target, ())
            at = "".join(f"{self.text(i)}, " for i in index)
            combine = REDUCTIONS[node.combine].combine if node.combine is not None else ""
            return f"{name.name}.update(({at}), {combine!r}, {value})"
        if node.combine is None:
            return f"{target} = {value}"
        old = {"+": f"{target} + {value}", "*": f"{target} * {value}", "max": f"max({target}, {value})",
               "min": f"min({target}, {value})"}[REDUCTIONS[node.combine].combine]
        return f"{target} = {old}"

    def text(self, e: Any) -> str:
        match e:
            case p.Variable(name=name) if name in self.awaited:
                return f"{name}.wait_for(())"
            case p.Variable(name=name):
                return f"{name}[()]" if name in self.arrays else _axis(name)
            case p.Subscript(aggregate=p.Variable(name=name)) if name in self.awaited:
                return f"{name}.wait_for(({''.join(self.text(i) + ', ' for i in e.index_tuple)}))"
            case p.Subscript(aggregate=p.Variable(name=name)) if name in self.anywhere:
                return f"{name}[{name}.in_its_row({self._index(e)})]"
            case p.Subscript(aggregate=p.Variable(name=name)):
                return f"{name}[{self._index(e)}]"
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
            case p.Quotient():
                return f"__float_function('divide', {self.text(e.numerator)}, {self.text(e.denominator)})"
            case p.Power():
                return f"__float_function('power', {self.text(e.base)}, {self.text(e.exponent)})"
            case p.Call(function=p.Variable(name=name)):
                return f"__float_function({name!r}, {', '.join(map(self.text, e.parameters))})"
            case TruncatedQuotient():
                return f"__quotient({self.text(e.numerator)}, {self.text(e.denominator)})"
            case TruncatedRemainder():
                return f"__remainder({self.text(e.numerator)}, {self.text(e.denominator)})"
            case p.FloorDiv():
                return f"({self.text(e.numerator)} // {self.text(e.denominator)})"
            case p.Remainder():
                return f"({self.text(e.numerator)} % {self.text(e.denominator)})"
            case p.Comparison():
                return f"({self.text(e.left)} {e.operator} {self.text(e.right)})"
            case p.If():
                return f"({self.text(e.then)} if {self.text(e.condition)} else {self.text(e.else_)})"
            case MakeTuple():
                parts = (f"{field!r}: {self.text(value)}" for field, value in zip(e.fields, e.values, strict=True))
                return f"{{{', '.join(parts)}}}"
            case p.Lookup():
                return f"{self.text(e.aggregate)}[{e.name!r}]"
            case Combined():
                self.operations.append(e.operation)
                return f"__combined({len(self.operations) - 1}, {self.text(e.left)}, {self.text(e.right)})"
            case TypeCast():
                return f"({'int' if e.dtype.kind in 'iub' else 'float'}({self.text(e.child)}))"
            case bool() | int() | np.bool_() | np.integer():
                return f"({int(e)})"
            case float() | np.floating():
                return f"float('{float(e)}')"
            case _:
                raise MachineError(f"no program has a {type(e).__name__}: {e}")


def is_asynchronous_copy(assign: Assign) -> bool:
    return any(isinstance(i, AsynchronousCopy) for i in assign.instructions)


def flag_of(assign: Assign) -> BlockFlag:
    """The flags that *assign* accesses; perhaps none."""
    return next((i for i in assign.instructions if isinstance(i, BlockFlag)), BlockFlag())


def _copies(loop: For) -> bool:
    """Is a loop one of asynchronous copies? Its vectors are these copies, more at a time."""
    match loop.body.children:
        case (Assign() as assign,):
            return is_asynchronous_copy(assign)
        case _:
            return False


def _float_function(name: str, *arguments: Any) -> float:
    """What the function *name*, a quotient or a power of numbers is."""
    given = [np.float64(float(a)) for a in arguments]      # of what nobody wrote, it is an error to make a number
    with np.errstate(all="ignore"):
        operation = {"divide": np.divide, "power": np.power}.get(name)
        return float(function_value(name, *given) if operation is None else operation(*given))


def _combined(operation: Operation, a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """Two tuples combined, each number in 64 bits."""
    both = [[(float if any(isinstance(x[f], float) for x in (a, b)) else int)(x[f]) for f in operation.fields]
            for x in (a, b)]
    dtype = tuple_dtype(operation.fields, [np.dtype(type(number)) for number in both[0]])
    names = {name: np.array(tuple(own), dtype)[()] for name, own in zip("ab", both, strict=True)}
    found = Evaluator({"a": dtype, "b": dtype}, lambda _name, _index: None).of(operation.merged(dtype), names)
    return {field: found[field].item() for field in operation.fields}


def _axis(name: str) -> str:
    """The name of an axis: one that nothing of a kernel may have."""
    return f"__{name.replace('.', '_')}" if "." in name else name


# Running it

def execute(lowered: Lowered, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int],
            order: random.Random, *, warp: int | None = None, memory: type[Memory] | None = None
            ) -> dict[str, np.ndarray]:
    """The arrays after all launches ran; in each stretch between barriers the threads go in a random order.

    :arg warp: threads of a warp; ``None``: as many as the kernel was lowered for.
    :arg memory: what arrays and temporaries that threads share are, if not a :class:`Memory`.
    :raises MachineError: the program does what a right one never does.
    """
    place = Place()
    new = memory or Memory
    memories = {k: new(k, a.shape, a.dtype.kind in "iub", place, temporary=False,
                       values={i: v.item() for i, v in np.ndenumerate(a)}) for k, a in arrays.items()}
    for name, storage in lowered.storages.items():
        if storage.space is AddressSpace.GLOBAL:
            shape = tuple(max(0, evaluate(e, sizes)) for e in storage.in_memory)
            own = Handed if storage.temporary.between_blocks else new
            memories[name] = own(name, shape, storage.dtype.kind in "iub", place)
    functions = {function.name: function for function in lowered.program.functions}
    warps = {launch.name: warp or launch.machine.warp for launch in lowered.launches}
    for place.launch, (name, values) in enumerate(calls(lowered.program.order, sizes)):
        _launch(functions[name], memories, values, place, order, warps[name], new)
    return {k: np.array([memories[k].values[i] for i in np.ndindex(a.shape)], a.dtype).reshape(a.shape)
            for k, a in arrays.items()}


def _launch(function: Function, memories: Mapping[str, Memory], sizes: Mapping[str, int], place: Place,
            order: random.Random, warp: int, new: type[Memory]) -> None:
    text = _Text(function, [*memories, *(a.name for a in function.arrays)])
    names: dict[str, Any] = {**sizes, "__quotient": truncated_quotient, "__remainder": truncated_remainder,
                             "__MachineError": MachineError, "__Vector": Vector, "__shuffle": Shuffle,
                             "__same": Excluded.SAME, "__Unwritten": Unwritten,
                             "__float_function": _float_function, "__strides": _strides,
                             "__WaitingError": WaitingError, "__Copies": Copies,
                             "__added": added, "__loaded": loaded, "__row": _row,
                             "__spare": Unwritten("what a spare lane holds is read"),
                             "__combined": lambda at, a, b: _combined(text.operations[at], a, b)}
    exec(compile(text.source(), f"<launch {function.name}>", "exec"), names)
    grid = [range(evaluate(function.extents.get(axis, 1), sizes)) for axis in GRID]
    place.extents = tuple(evaluate(function.extents.get(axis, 1), sizes) for axis in BLOCK)
    along_x, along_y, along_z = (range(evaluate(function.extents.get(axis, 1), sizes)) for axis in BLOCK)
    threads = [(x, y, z) for z, y, x in itertools.product(along_z, along_y, along_x)]       # in the order of numbers
    warps = [threads[i:i + warp] for i in range(0, len(threads), warp)]
    blocks = [(x, y, z) for z, y, x in itertools.product(*reversed(grid))]

    def started(block: tuple[int, ...]) -> Iterator[bool]:
        shared = {a.name: new(a.name, a.shape, a.dtype.kind in "iub", place, lanes=a.thread_axes > 0)
                  for a in function.arrays if a.shared or a.thread_axes}
        return _block(names["run"], function, {**memories, **shared}, place, block, warps, order)
    if function.ticketed:
        _at_once(map(started, blocks), order.randint(1, 4), order)
    else:
        order.shuffle(blocks)
        _at_once(map(started, blocks), 1, order)


def _at_once(blocks: Iterator[Iterator[bool]], most: int, order: random.Random) -> None:
    """Run *blocks*, which start in this order, as soon as fewer than *most* are under way; they take random turns.

    Each says again and again, while it waits for others, whether it has done anything since.
    """
    running: list[Iterator[bool]] = []
    stuck: list[Iterator[bool]] = []
    while True:
        running += itertools.islice(blocks, most - len(running) - len(stuck))
        if not running:
            if stuck:
                raise MachineError("blocks wait for a value that does not come")
            return
        block = order.choice(running)
        moved = next(block, None)
        if moved is False:
            stuck.append(block)
            running.remove(block)
            continue
        running, stuck = [*running, *stuck], []
        if moved is None:
            running.remove(block)


def _block(run: Callable[..., Iterator[int]], function: Function, memories: Mapping[str, Memory], place: Place,
           block: tuple[int, ...], warps: Sequence[Sequence[tuple[int, ...]]], order: random.Random) -> Iterator[bool]:
    private: dict[str, Array] = {a.name: a for a in function.arrays if not (a.shared or a.thread_axes)}

    def own(name: str) -> Own:
        a = private[name]
        return Own(name, a.shape, a.dtype.kind in "iub", place)
    given = Lanes(), Lanes()
    running = {t: run(memories, place, own, given, block, t) for threads in warps for t in threads}
    for epoch in itertools.count():
        at = dict.fromkeys(range(len(warps)), 0)        # each warp's own epoch since the last barrier of the block
        met: dict[int, int | None] = {}
        while at.keys() - met.keys():                   # in turns, so that warps overtake each other
            warp = order.choice(sorted(at.keys() - met.keys()))
            # other blocks may have run since
            place.block, place.epoch, place.warp, place.warp_epoch = block, epoch, warp, at[warp]
            for moved in _warp(running, warps[warp], place, order, found := []):
                yield moved
                place.block, place.epoch, place.warp, place.warp_epoch = block, epoch, warp, at[warp]
            _require_one(found, f"warp {warp} of block {block}")
            if found[0] is None or found[0] > 0:
                met[warp] = found[0]
            if found[0] is None or found[0] > -UNORDERED:
                at[warp] += 1
        _require_one(met.values(), f"block {block}")
        if None in met.values():
            return


def _warp(running: Mapping[tuple[int, ...], Iterator[int]], threads: Sequence[tuple[int, ...]], place: Place,
          order: random.Random, met: list[int | None]) -> Iterator[bool]:
    """Run the threads of a warp to their next barrier, the numbers of which go to *met*: negative for one of warps.

    While some wait for other blocks: has anything happened since?
    """
    waiting = [*threads]
    while waiting:
        still = []
        for place.thread in order.sample(waiting, len(waiting)):
            barrier = next(running[place.thread], None)
            if barrier == WAITS:
                still.append(place.thread)
            else:
                met.append(barrier)
        if still:
            yield len(still) < len(waiting)
        waiting = still


def _require_one(met: Iterable[int | None], where: str) -> None:
    if len(set(met)) > 1:
        raise MachineError(f"not all threads of {where} meet at one barrier: {sorted(set(map(str, met)))}")


def thread_count(lowered: Lowered) -> int:
    """The most threads of a block."""
    return max((prod(e for e in (f.extents.get(axis, 1) for axis in BLOCK) if isinstance(e, int))
                for f in lowered.program.functions), default=1)
