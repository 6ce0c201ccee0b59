"""The loop program after scheduling: its nodes, the hardware instructions that they carry, and its text."""
from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, ClassVar, TypeVar

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.tensor_maps import MappedArray, TensorMap
from loopkit.expr.nodes import to_text
from loopkit.expr.tuples import dtype_text
from loopkit.poly.sets import Map

#: An element whose accesses by one operation may run in any order, and at once; ``None`` is the operation of a store.
Commuting = tuple[p.Variable | p.Subscript, str | None]

#: An access or a place of a launch.
E = TypeVar("E", bound=Hashable)


class Scope(IntEnum):
    """The threads that execute an instruction, or wait for each other, together."""

    THREAD = 0
    WARP = 1
    BLOCK = 2


class Completion(Enum):
    """The event at which an access is performed; until then no other access may rely on it.

    IMMEDIATE: its issue. GROUP: a wait of the issuing thread for its commit group. FLAG: a thread of another block has
    read the inter-block flag that is stored with the value.
    """

    IMMEDIATE = "immediate"
    GROUP = "group"
    FLAG = "flag"

    @property
    def needs_wait(self) -> bool:
        """Must the issuing thread wait for it?"""
        return self not in (Completion.IMMEDIATE, Completion.FLAG)


@dataclass(frozen=True)
class Instruction:
    """A hardware instruction, which replaces the node that it belongs to.

    The node defines the result of the instruction: a target without the instruction runs the node itself, and the
    checks compare the two. A new instruction is one file of :mod:`loopkit.instructions`.

    :cvar noun: its name in messages.
    :cvar scope: the threads that execute it together; all of them must reach it.
    :cvar completion: the event at which its accesses are performed.
    :cvar loads_for_others: a thread may load an element for another thread of its scope.
    :cvar completes: the event that it completes, for accesses of its thread; ``None``: no event.
    :cvar capability: the first architecture that has it: 80 for sm_80.
    """

    noun: ClassVar[str] = "an instruction"
    scope: ClassVar[Scope] = Scope.THREAD
    completion: ClassVar[Completion] = Completion.IMMEDIATE
    loads_for_others: ClassVar[bool] = False
    completes: ClassVar[Completion | None] = None
    capability: ClassVar[int] = 0

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

    def claims(self, element: Expression, target: Expression) -> bool:
        """Does the instruction access *element* in an assignment to *target*? No other instruction may then."""
        return False

    def foreign_elements(self, region: Region, warp_arrays: Collection[str]) -> Iterable[Expression]:
        """The elements of arrays in warp registers that it reads from other lanes in *region*, which it executes.

        :raises InternalError: *region* has another result than the instruction.
        """
        return ()

    def waits_for(self, access: E, own: E, places: Mapping[E, tuple[Instruction, ...]], first: Callable[[E, E], Map]
                  ) -> Map | None:
        """The pairs of an *access* and a later execution of it by which the access is performed; ``None``: none.

        :arg own: its place, among the *places* of a launch with instructions.
        :arg first: the pairs of executions in one block, of an access or a place each, of which the former runs first.
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
class AlignedArray:
    """The assumption that an array argument and each of its rows begin at a multiple of *elements* elements.

    That is: its last stride is 1 element, and its other strides are such multiples.

    :ivar strides: the exact strides of all axes but the last, in elements; rows may then begin anywhere.
    """

    array: str
    elements: int
    strides: tuple[Expression, ...] = ()

    def __str__(self) -> str:
        rows = ", rows without gaps" if self.strides else ""
        return f"{self.array} aligned to {self.elements} elements{rows}"


@dataclass(frozen=True)
class DivisibleSize:
    """The assumption that an integer expression in the sizes is a multiple of *divisor*."""

    size: Expression
    divisor: int

    def __str__(self) -> str:
        return f"{self.size} divisible by {self.divisor}"


Assumed = AlignedArray | DivisibleSize | MappedArray


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
class Define:
    """A named integer: ``const int name = value``."""

    name: str
    value: Expression


@dataclass(frozen=True)
class Sync:
    """Each thread executes *instructions*, in this order, then the threads of each *scope* wait for each other.

    :ivar serves: the dependences that need it, as text.
    """

    serves: tuple[str, ...] = ()
    scope: Scope = Scope.BLOCK
    instructions: tuple[Instruction, ...] = ()

    @property
    def title(self) -> str:
        """A short description."""
        own = [title for i in self.instructions for title in i.titles]
        if self.scope is not Scope.THREAD:
            own.append("warp barrier" if self.scope is Scope.WARP else "barrier")
        return ", ".join(own)


@dataclass(frozen=True)
class Region:
    """Code without a barrier, run by all threads of the block.

    :ivar instruction: it executes *body*, which is one assignment, perhaps under a guard, or a nest of loops around it.
        The threads of its scope execute it at once: each reads before any of them writes.
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
    """All nodes of one call of a function; a target may emit them as a function of their own.

    :ivar call: the id of the call.
    """

    call: str = ""


@dataclass(frozen=True)
class OneStep(Block):
    """The load of an element and its update by an instruction; no other access to the element comes between."""


Node = Assign | For | If | Define | Sync | Region | Call | Block | FunctionBody | OneStep


def own_instructions(node: Node) -> tuple[Instruction, ...]:
    """The instructions of *node* itself."""
    if isinstance(node, For | Region):
        return () if node.instruction is None else (node.instruction,)
    return node.instructions if isinstance(node, Assign | Sync) else ()


@dataclass(frozen=True)
class Swizzle:
    """A permuted layout of shared memory: in row *r*, column *c* is stored at column ``c ^ chunk*(r mod period)``.

    The column is the fastest axis. Both numbers are powers of two.

    :ivar axis: the number of the row axis, among all axes of the array.
    """

    axis: int
    chunk: int
    period: int

    def __str__(self) -> str:
        times = f"{self.chunk}*" if self.chunk > 1 else ""
        return f"columns ^ {times}(axis {self.axis} mod {self.period})"


@dataclass(frozen=True)
class Array:
    """An array that a function declares: shared by a block, or private to a thread.

    :ivar across_regions: it is private and keeps its value from one region to another.
    :ivar thread_axes: if not 0, an array in warp registers, and not *shared*: this many trailing axes have an element
        for each thread of the block. Warp instructions read it from other lanes.
    :ivar swizzle: the permutation of a shared array's columns. Only the emitted text uses it.
    :ivar initializer: the elements of a constant array, the last axis fastest; ``()``: statements write the elements.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    shared: bool
    across_regions: bool = False
    thread_axes: int = 0
    note: str = ""
    swizzle: Swizzle | None = None
    initializer: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Function:
    """One launch as a loop program.

    :ivar extents: the extents of the axes ``g.0`` ... ``l.2`` that are used.
    :ivar coordinates: the hardware inames in terms of the axes (``p.Variable("g.0")``), in order.
    :ivar ticketed: its blocks are numbered in the order in which they start; *tensor_maps*: those that it takes.
    """

    name: str
    extents: Mapping[str, Expression]
    coordinates: Mapping[str, Expression]
    arrays: tuple[Array, ...]
    body: Block
    ticketed: bool = False
    tensor_maps: tuple[TensorMap, ...] = ()


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


# The text that print(lk.lower(knl)) prints

#: Operations that C has an assignment for; the others print by name: ``max=``.
_OPERATORS = {"sum": "+", "product": "*", "bit_and": "&", "bit_or": "|", "bit_xor": "^"}


def program_text(program: Program) -> str:
    """*program* as text: its launches one after another, after the host's loops, if there are any.

    >>> import pymbolic.primitives as p
    >>> body = Block((For("i", 0, p.Variable("n"), 1, Block((Assign(p.Variable("s"), 1, "sum", "insn"),))),))
    >>> print(program_text(Program((Function("count", {}, {}, (), body),), Block((Call("count"),)))))
    launch count
      for i in 0 .. n
        s += 1  {id=insn}
    """
    host = [] if program.host_order is None else [["host", *_lines(program.order, 1)]]
    return "\n\n".join("\n".join(part) for part in (*host, *map(_function_lines, program.functions)))


def block_text(block: Block) -> str:
    """The nodes of *block* as text."""
    return "\n".join(_lines(block, 0))


def _function_lines(function: Function) -> Iterator[str]:
    yield f"launch {function.name}{', blocks by tickets' if function.ticketed else ''}"
    axes = [f"{axis}: {to_text(function.extents[axis])}" for axis in sorted(function.extents)]
    if axes:
        yield f"  axes {', '.join(axes)}"
    yield from (f"  let {iname} = {to_text(value)}" for iname, value in function.coordinates.items())
    yield from (f"  {described}" for described in (*function.tensor_maps, *map(_array, function.arrays)))
    yield from _lines(function.body, 1)


def _array(array: Array) -> str:
    extents = "".join(f"[{e}]" for e in array.shape)
    lasting = ", live across regions" if array.across_regions else ""
    where = "warp" if array.thread_axes else "shared" if array.shared else "constant" if array.initializer \
        else "private"
    note = f"  # {array.note}" if array.note else ""
    return f"{where} {dtype_text(array.dtype)} {array.name}{extents}{lasting}{note}"


def _lines(block: Block, depth: int) -> Iterator[str]:
    pad = "  " * depth
    for node in block.children:
        match node:
            case Assign():
                operator = "=" if node.combine is None else f"{_OPERATORS.get(node.combine, node.combine)}="
                options = ", ".join((f"id={node.statement}", *(title for i in node.instructions for title in i.titles)))
                yield f"{pad}{to_text(node.target)} {operator} {to_text(node.value)}  {{{options}}}"
            case For():
                step = "" if node.step == 1 else f" step {node.step}"
                yield (f"{pad}for {node.iname} in {to_text(node.start)} .. {to_text(node.stop)}{step}"
                       f"{'  [unroll]' if node.unroll else ''}")
                yield from (f"{pad}  # {title}" for i in own_instructions(node) for title in i.titles)
                yield from _lines(node.body, depth + 1)
            case If():
                yield f"{pad}if {to_text(node.condition)}{f'  # {node.comment}' if node.comment else ''}"
                yield from _lines(node.then, depth + 1)
                if node.otherwise is not None:
                    yield f"{pad}else"
                    yield from _lines(node.otherwise, depth + 1)
            case Define():
                yield f"{pad}let {node.name} = {to_text(node.value)}"
            case Sync():
                yield f"{pad}{node.title}"
                yield from (f"{pad}  # {reason}" for reason in node.serves)
            case Call():
                yield f"{pad}launch {node.name}"
            case Region():
                yield f"{pad}region{''.join(f'  [{title}]' for i in own_instructions(node) for title in i.titles)}"
                yield from _lines(node.body, depth + 1)
            case FunctionBody():
                yield f"{pad}call {node.call}"
                yield from _lines(node, depth + 1)
            case Block():
                yield f"{pad}{'one step' if isinstance(node, OneStep) else 'block'}"
                yield from _lines(node, depth + 1)
