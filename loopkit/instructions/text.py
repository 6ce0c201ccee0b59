"""Texts of instructions: the text that a language has for one, and the emitter as such a text sees it."""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign, For, Instruction
from loopkit.ast.signs import Signs


class Printer(Protocol):
    """The emitter of one function, as the text of an instruction sees it.

    Texts of expressions take the signs that are known where they stand.
    """

    @property
    def used(self) -> set[str]:
        """The helper functions that the text calls, to which a text adds its own."""

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

    def value(self, expr: Expression, signs: Signs, dtype: np.dtype) -> str:
        """A value of *dtype*."""

    def place(self, element: p.Variable | p.Subscript, signs: Signs, dtype: np.dtype | None = None) -> str:
        """Where an element lies, and not what is loaded from there."""

    def is_global(self, element: p.Variable | p.Subscript) -> bool:
        """Does an element lie in global memory?"""

    def condition(self, expr: Expression, signs: Signs) -> str:
        """A condition."""

    def plain(self, node: Assign, signs: Signs) -> str:
        """The assignment by plain loads and stores."""

    def loop(self, node: For, signs: Signs) -> Iterator[str]:
        """The lines of a loop as it stands."""

    def policy_store(self, element: p.Variable | p.Subscript) -> str:
        """The function that stores to the element's array under its cache policy; ``""``: a plain store."""

    def policy_load(self, array: str) -> str:
        """The function that loads from *array* under its cache policy; ``""``: a plain load."""

    def text_of(self, instruction: Instruction) -> InstructionText | None:
        """What the language has for *instruction*."""

    def with_registers(self, dtypes: Mapping[str, np.dtype]) -> Printer:
        """The same with small arrays of a thread, by name."""

    def loading(self, arrays: Collection[str], function: str) -> Printer:
        """The same, which loads from *arrays* by the helper *function*."""


@dataclass(frozen=True)
class InstructionText:
    """What a language has for one class of instructions.

    :ivar helpers: text of the functions that it calls, by name.
    :ivar assignment: the lines of an assignment that the instruction makes.
    :ivar loads: the printer of an assignment some of whose loads the instruction makes.
    :ivar vectors: the lines of a loop over such assignments, several elements at a time; ``None``: it cannot.
    :ivar loop: the lines of a loop that the instruction stands for.
    :ivar sync: the lines that stand where threads synchronise.
    :ivar assumes_layout: it serves only where arrays lie as the instruction assumes.
    :ivar element_type: the type of a temporary's element in global memory, from that of its values.
    :ivar element_bytes: the bytes of such an element, from those of a value.
    """

    helpers: Mapping[str, str] = field(default_factory=dict)
    assignment: Callable[[Printer, Assign, Any, Signs], Iterable[str] | None] | None = None
    loads: Callable[[Printer, Any], Printer] | None = None
    vectors: Callable[[Printer, For, Signs], Iterable[str] | None] | None = None
    loop: Callable[[Printer, For, Any, Signs], Iterable[str]] | None = None
    sync: Callable[[set[str], Any], Iterable[str]] | None = None
    assumes_layout: bool = False
    element_type: Callable[[str], str] = str
    element_bytes: Callable[[int], int] = int


#: What a language has, by the class of the instruction; nodes with others are emitted as they stand.
InstructionTexts = Mapping[type[Instruction], InstructionText]


@dataclass(frozen=True)
class TicketText:
    """How a block learns its number among those of the launch, in the order in which they start.

    :ivar function: the helper function, of the counter of started blocks; *text*: its text.
    :ivar shared_bytes: the shared memory that it declares.
    """

    function: str
    text: str
    shared_bytes: int


def or_else(lines: Sequence[str]) -> Iterator[str]:
    """The end of an ``if`` with the *lines* of its other branch: none, or within braces, which one ``if`` does without.
    """
    own = [line for line in lines if line and not line.startswith(" ")]
    if own and own[0].startswith("if (") and own[-1] == "}" \
            and all(line.startswith("} else ") for line in own[1:-1]):
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
