"""Base classes of instructions that access memory, and of their source code in a target language."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign, For, Instruction, Region
from loopkit.ast.value_ranges import ValueRanges
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement


@dataclass(frozen=True)
class MemoryInstruction(Instruction):
    """An instruction that makes the accesses of a statement.

    :cvar memories: the address spaces that it can access; a statement that writes to others uses plain loads and
        stores.
    :cvar sizes: the bytes of one access, of an element or a vector; elements of other sizes that are in no such vector
        use plain loads and stores. Empty: any.
    :cvar alternative: a way out on architectures without it, as a part of a hint.
    """

    memories: ClassVar[frozenset[AddressSpace]] = frozenset()
    sizes: ClassVar[frozenset[int]] = frozenset()
    alternative: ClassVar[str] = ""

    def refuse_memory(self, statement: Statement, memory: AddressSpace) -> None:
        """Called if the assignee of *statement* is in a *memory* that the instruction cannot access.

        :raises PreconditionError: plain loads and stores cannot replace the instruction.
        """

    def refuse_size(self, statement: str, dtype: np.dtype) -> None:
        """Called if no access of *statement*, to elements of *dtype*, has one of the *sizes*.

        :raises PreconditionError: plain loads and stores cannot replace all of its accesses.
        """

    def require_operands(self, kernel: LoopKernel, statement: Statement, expression: Expression) -> None:
        """Check that the instruction can execute *statement*, whose *expression* has no calls of rules.

        :raises PreconditionError: the instruction cannot execute it.
        """


def sizes_of(instructions: Iterable[Instruction]) -> frozenset[int]:
    """The bytes of one access by *instructions* of an assignment; empty: any."""
    return frozenset[int]().union(*(i.sizes for i in instructions if isinstance(i, MemoryInstruction)))


class Printer(Protocol):
    """The emitter of one function, for the text of an instruction.

    The text of an expression depends on the value ranges that are known at its place.
    """

    @property
    def annotate(self) -> bool:
        """Do comments name the statements?"""

    @property
    def index(self) -> str:
        """The type of indices."""

    def type_name(self, dtype: np.dtype) -> str:
        """The type of an element of *dtype*."""

    def dtype_of(self, element: p.Variable | p.Subscript) -> np.dtype:
        """The dtype of an element."""

    def value(self, expr: Expression, bounds: ValueRanges, dtype: np.dtype) -> str:
        """A value of *dtype*."""

    def place(self, element: p.Variable | p.Subscript, bounds: ValueRanges, dtype: np.dtype | None = None) -> str:
        """The element itself, and not a load from it."""

    def memory_of(self, element: p.Variable | p.Subscript) -> AddressSpace:
        """The memory that the element is in."""

    def condition(self, expr: Expression, bounds: ValueRanges) -> str:
        """A condition."""

    def plain(self, node: Assign, bounds: ValueRanges) -> str:
        """The assignment by plain loads and stores."""

    def loop(self, node: For, bounds: ValueRanges) -> Iterator[str]:
        """The lines of a loop without its instruction."""

    def policy(self, array: str, *, load: bool) -> str:
        """The function that loads from *array*, or stores to it, under its cache policy; ``""``: a plain access."""

    def text_of(self, instruction: Instruction) -> InstructionText | None:
        """The text of the language for *instruction*; ``None``: it has none."""

    def with_registers(self, dtypes: Mapping[str, np.dtype]) -> Printer:
        """This emitter with small arrays of a thread, by name."""


@dataclass(frozen=True)
class ElementText:
    """An element of a temporary in global memory: its type and bytes, from those of its values."""

    type_name: Callable[[str], str]
    size: Callable[[int], int]


#: A text, or a function that makes it: a language has texts for hundreds of instructions, and most kernels use none.
Text = str | Callable[[], str]


def made_text(text: Text) -> str:
    """*text*, made if it is a function."""
    return text if isinstance(text, str) else text()


@dataclass(frozen=True)
class InstructionText:
    """The code of one class of instructions in one language.

    :ivar helpers: the texts of the functions that it calls, by name.
    :ivar assignment: the lines of an assignment by the instruction.
    :ivar one_step: the lines of the load of an element and its update by the instruction.
    :ivar loads: the helpers by which it loads from some arrays.
    :ivar vectors: the lines of a loop over such assignments, several elements at a time; ``None``: not possible.
    :ivar loop: the lines of a loop that the instruction executes.
    :ivar region: the lines of a region that the instruction executes.
    :ivar sync: the lines at a synchronisation of threads.
    :ivar assumes_layout: the text is correct only if arrays have the layout that the instruction assumes.
    :ivar element: a temporary's element in global memory; ``None``: that of its values.
    """

    helpers: Mapping[str, Text] = field(default_factory=dict)
    assignment: Callable[[Printer, Assign, Any, ValueRanges], Iterable[str] | None] | None = None
    one_step: Callable[[Printer, Assign, Assign, ValueRanges], Iterable[str] | None] | None = None
    loads: Callable[[Any], Mapping[str, str]] | None = None
    vectors: Callable[[Printer, For, ValueRanges], Iterable[str] | None] | None = None
    loop: Callable[[Printer, For, Any, ValueRanges], Iterable[str]] | None = None
    region: Callable[[Printer, Region, Any, ValueRanges], Iterable[str]] | None = None
    sync: Callable[[Printer, Any, ValueRanges], Iterable[str]] | None = None
    assumes_layout: bool = False
    element: ElementText | None = None


#: The texts of a language by the class of the instruction; nodes with other instructions are emitted without them.
InstructionTexts = Mapping[type[Instruction], InstructionText]


#: Bytes of the widest access of a thread.
WIDEST = 16

#: The qualifiers of memory in OpenCL C.
OPENCL_MEMORIES = {AddressSpace.GLOBAL: "__global ", AddressSpace.SHARED: "__local ", AddressSpace.PRIVATE: ""}


def if_else(condition: str, then: Iterable[str], otherwise: Iterable[str] = (), comment: str = "") -> Iterator[str]:
    """The lines of an ``if`` and its other branch, if that has lines. A single ``if`` there becomes ``else if``."""
    yield f"if ({condition}) {{{comment}"
    yield from indented(then)
    lines = list(otherwise)
    own = [line for line in lines if line and not line.startswith(" ")]
    if own and own[0].startswith("if (") and own[-1] == "}" and all(line.startswith("} else ") for line in own[1:-1]):
        yield f"}} else {lines[0]}"
        yield from lines[1:]
        return
    if own:
        yield "} else {"
        yield from indented(lines)
    yield "}"


def indented(lines: Iterable[str]) -> Iterator[str]:
    """*lines* one level deeper; directives of the preprocessor stay at the margin."""
    for line in lines:
        yield f"    {line}" if line else line
