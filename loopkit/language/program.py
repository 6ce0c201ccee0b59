"""The parsed program: a tree of assignments, blocks and substitution rules."""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Instruction
from loopkit.expr.parsing import NameUse
from loopkit.expr.tokens import Source
from loopkit.kernel.data import SubstitutionRule


@dataclass(frozen=True)
class Pattern:
    """A statement id or a glob of ids, and its place in the text."""

    text: str
    start: int


@dataclass(frozen=True)
class InstructionOptions:
    """The options in the braces after an assignment.

    :ivar inames: further inames. If the option is given, even empty, the statement inherits none through temporaries.
    """

    id: str | None = None
    dep: tuple[Pattern, ...] = ()
    nosync: tuple[Pattern, ...] = ()
    inames: tuple[Pattern, ...] | None = None
    tags: frozenset[str] = frozenset()
    condition: Expression | None = None
    instructions: tuple[Instruction, ...] = ()


@dataclass(frozen=True)
class Assignment:
    """``assignee = expression``.

    :ivar start: its place in the text.
    :ivar temporary: the dtype's name, ``""`` for ``<>``, ``None`` if no temporary is declared.
    :ivar uses: every mention of a name, the assignee's first.
    """

    start: int
    assignee: p.Variable | p.Subscript
    written: str
    expression: Expression
    temporary: str | None
    options: InstructionOptions
    uses: tuple[NameUse, ...]

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The subscripts of its assignee, its expression and its condition."""
        condition = () if self.options.condition is None else (self.options.condition,)
        index = self.assignee.index_tuple if isinstance(self.assignee, p.Subscript) else ()
        return (*index, self.expression, *condition)


@dataclass(frozen=True)
class ForBlock:
    """``for i, j ... end``."""

    start: int
    inames: tuple[Pattern, ...]
    body: tuple[Node, ...]


@dataclass(frozen=True)
class IfBlock:
    """``if condition ... else ... end``; ``elif`` is an :class:`IfBlock` in ``otherwise``."""

    start: int
    condition: Expression
    uses: tuple[NameUse, ...]
    then: tuple[Node, ...]
    otherwise: tuple[Node, ...]


Node = Assignment | ForBlock | IfBlock


def walk(nodes: Iterable[Node]) -> Iterator[Node]:
    """*nodes* and all nodes in them, in textual order."""
    for node in nodes:
        yield node
        if isinstance(node, ForBlock):
            yield from walk(node.body)
        elif isinstance(node, IfBlock):
            yield from walk((*node.then, *node.otherwise))


def assignments(nodes: Iterable[Node]) -> list[Assignment]:
    """Every assignment in *nodes*, in textual order."""
    return [node for node in walk(nodes) if isinstance(node, Assignment)]


@dataclass(frozen=True)
class Rule:
    """A substitution rule and the mentions in its body."""

    start: int
    rule: SubstitutionRule
    uses: tuple[NameUse, ...]


@dataclass(frozen=True)
class ParsedProgram:
    """The whole text."""

    source: Source
    body: tuple[Node, ...]
    rules: tuple[Rule, ...]
