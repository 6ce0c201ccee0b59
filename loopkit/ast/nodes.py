"""The loop program after scheduling: its nodes, and the hardware instructions that they carry."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import ClassVar

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression


class Scope(IntEnum):
    """The threads that execute an instruction, or wait for each other, together."""

    THREAD = 0
    WARP = 1
    BLOCK = 2


class Completion(Enum):
    """The event at which an access is performed; until then no other access may rely on it.

    IMMEDIATE: where it is issued. GROUP: where the issuing thread waits for its commit group. FLAG: where a thread of
    another block has seen the inter-block flag that is stored with the value.
    """

    IMMEDIATE = "immediate"
    GROUP = "group"
    FLAG = "flag"


@dataclass(frozen=True)
class Instruction:
    """What the hardware does in the place of the node on which it stands.

    The node is its meaning and its emulation: a target without the instruction runs the node as it stands, and the
    checks compare the instruction with the node. A new instruction is one file of :mod:`loopkit.instructions`.

    :cvar noun: what messages call it.
    :cvar scope: the threads that execute it together; all of them have to reach it.
    :cvar completion: the event at which its accesses are performed.
    :cvar loads_for_others: a thread may load an element for what another thread of its scope computes.
    :cvar completes: the event that it brings about, for accesses of its thread that complete so; ``None``: no event.
    :cvar memories: the address spaces on which it works, and ``"lanes"`` for arrays in registers of a warp; a statement
        that writes elsewhere uses plain loads and stores.
    :cvar commutes: updates of one array by one operation through it may come in any order, and at once.
    """

    noun: ClassVar[str] = "an instruction"
    scope: ClassVar[Scope] = Scope.THREAD
    completion: ClassVar[Completion] = Completion.IMMEDIATE
    loads_for_others: ClassVar[bool] = False
    completes: ClassVar[Completion | None] = None
    memories: ClassVar[frozenset[str]] = frozenset()
    commutes: ClassVar[bool] = False

    @property
    def titles(self) -> tuple[str, ...]:
        """What the printed loop program says of it, a line or an option each."""
        return (self.noun,)

    def accessing(self, *, stores: bool, loads: tuple[str, ...]) -> Instruction:
        """Of a temporary's instruction: that of an assignment which stores to it, or loads from the arrays *loads*."""
        return self

    @property
    def operands(self) -> tuple[Expression, ...]:
        """The expressions that a thread evaluates for it beside those of the node."""
        return ()

    @property
    def assumed(self) -> tuple[Assumed, ...]:
        """What it assumes of the arguments of a call."""
        return ()

    @property
    def aligned(self) -> frozenset[str]:
        """The arrays that it needs to begin at a multiple of its widest access."""
        return frozenset()

    def claims(self, element: Expression, target: Expression) -> bool:
        """Does it make the access to *element* itself, in an assignment to *target*, so that nothing else may?"""
        return False

    def foreign_elements(self, region: Region, lanes: Collection[str]) -> Iterable[Expression]:
        """The elements of arrays in registers of a warp that it reads in other lanes of the warp."""
        return ()

    def faults(self, region: Region, lanes: Collection[str]) -> Iterator[str]:
        """What is wrong with the code of *region*, which it stands for."""
        return iter(())


def completion_of(instructions: Iterable[Instruction]) -> Completion:
    """The event at which accesses through *instructions* are performed."""
    return next((i.completion for i in instructions if i.completion is not Completion.IMMEDIATE), Completion.IMMEDIATE)


@dataclass(frozen=True)
class Assign:
    """``target = value``, or ``target op= value`` for the reduction operation *combine*.

    :ivar statement: id of the statement it comes from.
    :ivar instance: what each iname of that statement is here, which nothing prints: the program is checked by it.
    :ivar instructions: those by which its accesses are made; ``()``: plain loads and stores.
    """

    target: p.Variable | p.Subscript
    value: Expression
    combine: str | None
    statement: str
    instance: tuple[tuple[str, Expression], ...] = ()
    instructions: tuple[Instruction, ...] = ()


@dataclass(frozen=True)
class AlignedArray:
    """An array argument begins at a multiple of *elements* elements, and so does each of its rows.

    That is, its last stride is one element, and the others are such multiples.

    :ivar strides: in elements, of all axes but the last, where rows may begin anywhere: then it has exactly these.
    """

    array: str
    elements: int
    strides: tuple[Expression, ...] = ()

    def __str__(self) -> str:
        rows = ", rows without gaps" if self.strides else ""
        return f"{self.array} in {self.elements}s{rows}"


@dataclass(frozen=True)
class DivisibleSize:
    """An integer expression in the sizes is a multiple of *divisor*."""

    size: Expression
    divisor: int

    def __str__(self) -> str:
        return f"{self.size} divisible by {self.divisor}"


Assumed = AlignedArray | DivisibleSize


@dataclass(frozen=True)
class For:
    """``for (iname = start; iname < stop; iname += step) body``; *unroll* asks for it to be unrolled.

    :ivar instruction: what the hardware may do in its place.
    """

    iname: str
    start: Expression
    stop: Expression
    step: int
    body: Block
    unroll: bool = False
    instruction: Instruction | None = None


@dataclass(frozen=True)
class If:
    """``if (condition) then else otherwise``; *comment* says what the condition means to a reader."""

    condition: Expression
    then: Block
    otherwise: Block | None = None
    comment: str = ""


@dataclass(frozen=True)
class Define:
    """A named integer: ``const int name = value``."""

    name: str
    value: Expression


@dataclass(frozen=True)
class Sync:
    """The threads of each *scope* wait for each other; *serves* are the dependences that need it.

    :ivar instructions: what each thread executes before it waits, in this order.
    """

    serves: tuple[str, ...]
    scope: Scope = Scope.BLOCK
    instructions: tuple[Instruction, ...] = ()

    @property
    def title(self) -> str:
        return sync_title(self.scope, self.instructions)


def sync_title(scope: Scope, instructions: tuple[Instruction, ...]) -> str:
    """What threads do where they synchronise, in a few words."""
    own = [title for i in instructions for title in i.titles]
    if scope is not Scope.THREAD:
        own.append("warp barrier" if scope is Scope.WARP else "barrier")
    return ", ".join(own)


@dataclass(frozen=True)
class Region:
    """Code without a barrier, run by all threads of the block.

    :ivar instruction: it is one assignment, perhaps under a guard, that the threads of the instruction's scope execute
        at once: each reads what was there before any of them writes.
    """

    body: Block
    instruction: Instruction | None = None


@dataclass(frozen=True)
class Call:
    """A launch of the function *name*; stands in what the host does only."""

    name: str


@dataclass(frozen=True)
class Block:
    """Nodes one after another."""

    children: tuple[Node, ...] = ()


Node = Assign | For | If | Define | Sync | Region | Call | Block


@dataclass(frozen=True)
class Swizzle:
    """In a row *r* of shared memory, the element of column *c* lies where that of ``c ^ chunk*(r mod period)`` would.

    Rows are told apart by one axis, columns are the axis that is fastest. Both numbers are powers of two.

    :ivar axis: the number of that axis, of all of an array's.
    """

    axis: int
    chunk: int
    period: int

    def __str__(self) -> str:
        times = f"{self.chunk}*" if self.chunk > 1 else ""
        return f"columns ^ {times}(axis {self.axis} mod {self.period})"


@dataclass(frozen=True)
class Array:
    """Cells that a function declares: shared by a block, or private to a thread.

    :ivar shape: ``()`` for a scalar.
    :ivar across_regions: a private one whose value lives from one region to another.
    :ivar lanes: an array of as many trailing axes with an element for each thread of the block, which it holds in a
        register, and instructions of a warp read elements of other lanes. It is not *shared*.
    :ivar note: what a reader may want to know.
    :ivar swizzle: how a shared one mixes its columns; that is for the text alone, all else counts cells by subscripts.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    shared: bool
    across_regions: bool = False
    lanes: int = 0
    note: str = ""
    swizzle: Swizzle | None = None


@dataclass(frozen=True)
class Function:
    """One launch as a loop program.

    :ivar extents: of the axes ``g.0`` ... ``l.2`` that are used.
    :ivar coordinates: the hardware inames in terms of the axes (``p.Variable("g.0")``), in order.
    :ivar arrays: what it declares.
    :ivar ticketed: its blocks are numbered in the order in which they start.
    """

    name: str
    extents: Mapping[str, Expression]
    coordinates: Mapping[str, Expression]
    arrays: tuple[Array, ...]
    body: Block
    ticketed: bool = False


@dataclass(frozen=True)
class Program:
    """The functions of a kernel, one a launch.

    :ivar order: what the host does: calls of the functions, in loops where an iteration has launches of its own.
    """

    functions: tuple[Function, ...]
    order: Block

    @property
    def host_order(self) -> Block | None:
        """*order*, where it is more than a call of each function, whatever the sizes."""
        return None if all(isinstance(node, Call) for node in self.order.children) else self.order
