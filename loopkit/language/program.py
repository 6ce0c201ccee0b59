"""The parsed program: a tree of assignments, blocks and substitution rules, and the ids of its statements."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import ClassVar

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Instruction
from loopkit.expr.parsing import NameUse
from loopkit.expr.tokens import Source, Token
from loopkit.kernel.data import SubstitutionRule
from loopkit.language.names import fresh


@dataclass(frozen=True)
class InstructionOptions:
    """The options in the braces after an assignment; with *inames*, even empty, it inherits no others.

    :ivar dep: globs of statement ids, as *nosync*.
    """

    id: str | None = None
    dep: tuple[Token, ...] = ()
    nosync: tuple[Token, ...] = ()
    inames: tuple[Token, ...] | None = None
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
    inames: tuple[Token, ...]
    body: tuple[ProgramNode, ...]


@dataclass(frozen=True)
class IfBlock:
    """``if condition ... else ... end``; ``elif`` is an :class:`IfBlock` in ``otherwise``."""

    options: ClassVar[InstructionOptions] = InstructionOptions()

    start: int
    condition: Expression
    uses: tuple[NameUse, ...]
    then: tuple[ProgramNode, ...]
    otherwise: tuple[ProgramNode, ...]

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.condition,)


ProgramNode = Assignment | ForBlock | IfBlock


def walk(nodes: Iterable[ProgramNode]) -> Iterator[ProgramNode]:
    """*nodes* and all nodes in them, in textual order."""
    for node in nodes:
        yield node
        if isinstance(node, ForBlock):
            yield from walk(node.body)
        elif isinstance(node, IfBlock):
            yield from walk((*node.then, *node.otherwise))


def assignments(nodes: Iterable[ProgramNode]) -> list[Assignment]:
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
    body: tuple[ProgramNode, ...]
    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class Ids:
    """The ids of a program's statements, and the statements that ``dep=`` and ``nosync=`` name by them.

    :ivar of: the id of the assignment at each place.
    :ivar places: the place of each id.
    :ivar taken: the ids of all statements, also of those that the text does not show.
    """

    source: Source
    of: dict[int, str]
    places: dict[str, int]
    taken: set[str]

    def earlier(self, node: Assignment | IfBlock) -> frozenset[str]:
        """The statements that *node* names in ``dep=``.

        :raises UnknownNameError: there is no such statement.
        :raises ParseError: it comes after *node*; statements run in textual order.
        """
        own, found = self.of.get(node.start), set[str]()
        for pattern in node.options.dep:
            matches = self._matches(pattern)
            before = {x for x in matches if self.places[x] < node.start}
            if not before:
                later = min(matches)
                raise self.source.error(pattern.start, f"'{own}' cannot depend on '{later}', which does not stand "
                                        "above it: statements run in textual order.", "an earlier statement",
                                        hint=f"write '{later}' above it" if later != own else None)
            found |= before
        return frozenset(found)

    def others(self, node: Assignment | IfBlock) -> frozenset[str]:
        """The statements that *node* names in ``nosync=``; :raises UnknownNameError: there is no such statement."""
        return frozenset(x for pattern in node.options.nosync for x in self._matches(pattern)
                         if x != self.of.get(node.start))

    def _matches(self, pattern: Token) -> Sequence[str]:
        if pattern.text in self.places:
            return [pattern.text]
        matches = [x for x in self.places if fnmatchcase(x, pattern.text)]
        if not matches:
            raise self.source.unknown(pattern.start, "statement", pattern.text, self.places)
        return matches


def number_statements(program: ParsedProgram) -> Ids:
    """Give each assignment an id: ``id=``, else ``insn``, ``insn_0``, ...; :raises ParseError: an id is given twice."""
    every, taken = assignments(program.body), set[str]()
    for node in every:
        given = node.options.id
        if given in taken:
            raise program.source.error(node.start, f"The id '{given}' is given to two statements.", "another id")
        if given is not None:
            taken.add(given)
    of = {node.start: node.options.id or fresh("insn", taken) for node in every}
    return Ids(program.source, of, {name: start for start, name in of.items()}, taken)
