"""The loop program after scheduling: its nodes, and the hardware instructions that they carry."""
from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import ClassVar, TypeVar

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.arrays import Array
from loopkit.ast.assumed import Assumed
from loopkit.ast.phases import Phase
from loopkit.ast.tensor_maps import TensorMap
from loopkit.poly.sets import Map

#: An element whose accesses by one operation may run in any order, and at once; ``None`` is the operation of a store.
Commuting = tuple[p.Variable | p.Subscript, str | None]

#: An access or a place of a launch.
E = TypeVar("E", bound=Hashable)


class Scope(IntEnum):
    """The threads that execute an instruction, or wait for each other, together."""

    THREAD = 0
    WARP = 1
    WARPGROUP = 2
    BLOCK = 3
    CLUSTER = 4


class Completion(Enum):
    """The event at which an access is performed; until then no other access may rely on it.

    IMMEDIATE: its issue. GROUP: a wait of the issuing thread for its commit group of copies. PRODUCTS: one for its
    group of products. STORES: one for its group of stores by TMA, which has read shared memory then. PHASE: a wait of
    any thread for the end of its phase. PROXY: for accesses through the asynchronous proxy, a proxy fence of the
    issuing thread. REGISTERS: for instructions that access registers asynchronously, a register fence. FLAG: a thread
    of another block has read the inter-block flag that is stored with the value.
    """

    IMMEDIATE = "immediate"
    GROUP = "group"
    PRODUCTS = "group of products"
    STORES = "group of stores"
    PHASE = "phase"
    PROXY = "proxy fence"
    REGISTERS = "register fence"
    FLAG = "flag"

    @property
    def needs_wait(self) -> bool:
        """Must threads of the block wait for it?"""
        return self not in (Completion.IMMEDIATE, Completion.FLAG)


#: The events that are fences: they order accesses that are performed before.
FENCES = (Completion.PROXY, Completion.REGISTERS)

#: The events for which a block waits before it ends: the accesses are to its shared memory.
BEFORE_END = (Completion.STORES,)


@dataclass(frozen=True)
class Instruction:
    """A hardware instruction, which replaces the node that it belongs to.

    The node defines the result of the instruction: a target without the instruction runs the node itself, and the
    checks compare the two. A new instruction is one file of :mod:`loopkit.instructions`.

    :cvar noun: its name in messages.
    :cvar scope: the threads that execute it together; all of them must reach it.
    :cvar completion: the event at which its accesses are performed.
    :cvar executes_loops: it executes an assignment with the loops around it.
    :cvar for_others: the accesses, ``"loads"`` or ``"stores"``, that a thread may make for another one of its scope.
    :cvar completes: the event that it completes, for accesses of the threads *completes_for*; ``None``: no event.
    :cvar asynchronous_proxy: it accesses shared memory through the asynchronous proxy, and not the generic one.
    :cvar asynchronous_registers: it accesses registers of its threads later than other instructions do.
    :cvar capability: the first architecture that has it: 80 for sm_80; *only_on*: the only one; ``""``: all later ones.
    """

    noun: ClassVar[str] = "an instruction"
    scope: ClassVar[Scope] = Scope.THREAD
    completion: ClassVar[Completion] = Completion.IMMEDIATE
    executes_loops: ClassVar[bool] = False
    for_others: ClassVar[str] = ""
    asynchronous_proxy: ClassVar[bool] = False
    asynchronous_registers: ClassVar[bool] = False
    completes: ClassVar[Completion | None] = None
    completes_for: ClassVar[Scope] = Scope.THREAD
    capability: ClassVar[int] = 0
    only_on: ClassVar[str] = ""

    @property
    def titles(self) -> tuple[str, ...]:
        """The lines or options of the printed loop program for it."""
        return (self.noun,)

    def accessing(self, *, stores: bool, loads: tuple[str, ...]) -> Instruction:
        """For a temporary's instruction: that of an assignment that stores to it, or loads from the arrays *loads*."""
        return self

    @property
    def operands(self) -> tuple[Expression, ...]:
        """The expressions that a thread evaluates for it in addition to those of the node."""
        return ()

    def with_values(self, change: Callable[[Expression], Expression]) -> Instruction:
        """For an instruction at a synchronisation: it, with its expressions in the inames around it changed."""
        return self

    @property
    def phase(self) -> Phase | None:
        """The phase of its accesses, or the one that it waits for; ``None``: it has none."""
        return None

    def commuting(self, target: p.Variable | p.Subscript, value: Expression, combine: str | None) -> Commuting | None:
        """The access of ``target = value``, or of an update by *combine*, that it makes in any order among others."""
        return None

    @property
    def assumed(self) -> tuple[Assumed, ...]:
        """The assumptions of the instruction about the arguments of a call."""
        return ()

    @property
    def tensor_maps(self) -> tuple[str, ...]:
        """The names of the tensor maps of its function that it uses."""
        return ()

    @property
    def alignments(self) -> Mapping[str, int]:
        """For arrays that it accesses: each array begins at a multiple of this number of bytes."""
        return {}

    def in_order_with(self, other: Instruction) -> bool:
        """Are its accesses performed after those of *other*, which is issued before it, without a wait?"""
        return False

    def claims(self, element: Expression, target: Expression) -> bool:
        """Does the instruction access *element* in an assignment to *target*? No other instruction may then."""
        return False

    def foreign_elements(self, region: Region, warp_arrays: Collection[str]) -> Iterable[Expression]:
        """The elements of arrays in warp registers that it reads from other lanes in *region*, which it executes.

        :raises InternalError: *region* has another result than the instruction.
        """
        return ()

    def waits_for(self, access: E, own: E, places: Mapping[E, tuple[Instruction, ...]], first: Callable[[E, E], Map],
                  in_phase: Callable[[E, E], Map | None]) -> Map | None:
        """The pairs of an *access* and a later execution of it by which the access is performed; ``None``: none.

        :arg own: its place, among the *places* of a launch with instructions.
        :arg first: the pairs of executions in one block, of an access or a place each, of which the former runs first.
        :arg in_phase: those of an access and a place that have one phase.
        """
        return None


def completion_of(instructions: Iterable[Instruction]) -> Completion:
    """The event at which accesses through *instructions* are performed."""
    return next((i.completion for i in instructions if i.completion is not Completion.IMMEDIATE), Completion.IMMEDIATE)


def commuting_of(instructions: Iterable[Instruction], target: p.Variable | p.Subscript, value: Expression,
                 combine: str | None) -> Commuting | None:
    """The access that one of *instructions* makes in any order among others; ``None``: there is none."""
    return next((found for i in instructions if (found := i.commuting(target, value, combine)) is not None), None)


def wait_for(event: Completion, instructions: Iterable[Instruction]) -> Instruction | None:
    """The one of *instructions* that completes *event*; ``None``: there is none."""
    return next((i for i in instructions if i.completes is event), None)


def events_between(source: Iterable[Instruction], sink: Iterable[Instruction], *, writes: bool, shared: bool,
                   private: bool) -> tuple[Completion, ...]:
    """The events between two accesses of one element by these instructions.

    :arg writes: the first one writes it; *shared*: it is in shared memory; *private*: in registers of a thread.
    """
    one, other = [*source], [*sink]
    event = completion_of(one)
    if any(later.in_order_with(i) for later in other for i in one):
        return ()
    found = [event] if event.needs_wait else []
    if shared and writes and any(i.asynchronous_proxy for i in other) and not any(i.asynchronous_proxy for i in one):
        found.append(Completion.PROXY)
    if private and any(i.asynchronous_registers for i in other):
        found.append(Completion.REGISTERS)
    return tuple(found)


def covering(event: Completion, source: Completion, instructions: Iterable[Instruction]) -> Instruction | None:
    """The one of *instructions* that waits until *event* has followed accesses which are performed at *source*.

    A fence orders accesses that are performed: it counts where the same instructions wait for them. ``None``: none.
    """
    own = [*instructions]
    found = wait_for(event, own)
    return wait_for(source, own) if found is not None and event in FENCES and source.needs_wait else found


@dataclass(frozen=True)
class Assign:
    """``target = value``, or ``target op= value`` for the reduction operation *combine*.

    :ivar instance: the value of each iname of that statement; not printed, but checked by translation validation.
    :ivar instructions: the instructions that make its accesses; ``()``: plain loads and stores.
    """

    target: p.Variable | p.Subscript
    value: Expression
    combine: str | None
    statement: str
    instance: tuple[tuple[str, Expression], ...] = ()
    instructions: tuple[Instruction, ...] = ()


@dataclass(frozen=True)
class For:
    """``for (iname = start; iname < stop; iname += step) body``; *unroll*: with an unroll directive."""

    iname: str
    start: Expression
    stop: Expression
    step: int
    body: Block
    unroll: bool = False
    instruction: Instruction | None = None


#: The comment of a condition under which a version without guards runs.
FULL_TILE = "a full tile"


@dataclass(frozen=True)
class If:
    """``if (condition) then else otherwise``; *comment* explains the condition to a reader."""

    condition: Expression
    then: Block
    otherwise: Block | None = None
    comment: str = ""


@dataclass(frozen=True)
class ByRole(If):
    """At once, the producer thread runs *then*, and the first *threads* ones *otherwise*: they meet at phases only."""

    threads: int = 0


@dataclass(frozen=True)
class Define:
    """A named integer: ``const int name = value``."""

    name: str
    value: Expression


@dataclass(frozen=True)
class Sync:
    """Each thread executes *instructions*, in this order, then the threads of each *scope* wait for each other.

    :ivar serves: the dependences that need it, as text.
    :ivar threads: at a barrier of the block, the number of its first threads that take part; 0: all.
    """

    serves: tuple[str, ...] = ()
    scope: Scope = Scope.BLOCK
    instructions: tuple[Instruction, ...] = ()
    threads: int = 0

    @property
    def title(self) -> str:
        """A short description."""
        own = [title for i in self.instructions for title in i.titles]
        if self.scope is not Scope.THREAD:
            own.append(f"barrier of {self.threads} threads" if self.threads else
                       "barrier" if self.scope is Scope.BLOCK else f"{self.scope.name.lower()} barrier")
        return ", ".join(own)


@dataclass(frozen=True)
class Region:
    """Code without a barrier, run by all threads of the block.

    :ivar instruction: it executes *body*, which is one assignment, perhaps under a guard, or a nest of loops around it.
        The threads of its scope execute it at once: each reads before any of them writes. If that is one thread, the
        region may be in another one.
    """

    body: Block
    instruction: Instruction | None = None


@dataclass(frozen=True)
class Call:
    """A launch of the function *name*; only in the host's part of a program."""

    name: str


@dataclass(frozen=True)
class Block:
    """Nodes one after another."""

    children: tuple[Node, ...] = ()


@dataclass(frozen=True)
class FunctionBody(Block):
    """All nodes of the call of a function with the id *call*; a target may emit them as a function of their own."""

    call: str = ""


@dataclass(frozen=True)
class OneStep(Block):
    """The load of an element and its update by an instruction; no other access to the element comes between."""


@dataclass(frozen=True)
class Tiles:
    """The threads of a role run *body* at each place of the grid that a block of a persistent launch has, in turn.

    In *body*, the coordinates of the grid are those of the place. Each of *blocks* blocks has a place of the first
    *blocks* ones, one of the next, and so on: in each second round the blocks count backwards.

    :ivar group: 0: places are counted along ``g.0`` first, then along ``g.1``; else so many of these, for each place on
        ``g.2``, before the next group.
    """

    body: Block
    blocks: int
    group: int = 0


Node = Assign | For | If | ByRole | Define | Sync | Region | Call | Block | FunctionBody | OneStep | Tiles


def own_instructions(node: Node) -> tuple[Instruction, ...]:
    """The instructions of *node* itself."""
    if isinstance(node, For | Region):
        return () if node.instruction is None else (node.instruction,)
    return node.instructions if isinstance(node, Assign | Sync) else ()


@dataclass(frozen=True)
class Function:
    """One launch as a loop program.

    :ivar extents: the extents of the axes ``g.0`` ... ``l.2`` that are used; with :class:`Tiles`, the grid is one of
        places that fewer blocks run.
    :ivar coordinates: the hardware inames in terms of the axes (``p.Variable("g.0")``), in order.
    :ivar ticketed: blocks are numbered as they start; *tensor_maps*: those it takes; *cluster*: blocks of a cluster.
    """

    name: str
    extents: Mapping[str, Expression]
    coordinates: Mapping[str, Expression]
    arrays: tuple[Array, ...]
    body: Block
    ticketed: bool = False
    tensor_maps: tuple[TensorMap, ...] = ()
    cluster: int = 1


@dataclass(frozen=True)
class Program:
    """The functions of a kernel, one for each launch.

    :ivar order: the host's part: calls of the functions, and loops with launches in each iteration.
    """

    functions: tuple[Function, ...]
    order: Block

    @property
    def host_order(self) -> Block | None:
        """*order*, unless it is one call of each function."""
        return None if all(isinstance(node, Call) for node in self.order.children) else self.order
