"""Statements with loopy's fields, made from loopkit's."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from pymbolic.typing import Expression

from loopkit.expr.mappers import array_of, subscripts_of, variables
from loopkit.expr.nodes import to_text
from loopkit.kernel.statement import Statement


@dataclass(frozen=True)
class InstructionBase:
    """What a kernel runs: an id, the loops around it, and what it depends on."""

    id: str | None = None
    depends_on: frozenset[str] = frozenset()
    no_sync_with: frozenset[Any] = frozenset()
    within_inames: frozenset[str] = frozenset()
    predicates: frozenset[Any] = frozenset()
    tags: frozenset[Any] = frozenset()

    def copy(self, **changes: Any) -> Self:
        return replace(self, **changes)


@dataclass(frozen=True)
class MultiAssignmentBase(InstructionBase):
    """A statement that writes."""

    expression: Any = None

    @property
    def assignees(self) -> tuple[Any, ...]:
        return ()

    def assignee_var_names(self) -> tuple[str, ...]:
        """The names that it writes."""
        return tuple(map(array_of, self.assignees))

    def write_dependency_names(self) -> frozenset[str]:
        """The names that it writes."""
        return frozenset(self.assignee_var_names())

    def read_dependency_names(self) -> frozenset[str]:
        """The names that it reads, inames included."""
        every = [self.expression, *self.predicates, *(i for a in self.assignees for i in subscripts_of(a))]
        return frozenset(x for e in every for x in variables(e))

    def dependency_names(self) -> frozenset[str]:
        """The names that it reads and writes."""
        return self.read_dependency_names() | self.write_dependency_names()

    def reduction_inames(self) -> frozenset[str]:
        """The inames of its reductions."""
        return frozenset(x for e in _nodes(self.expression) for x in getattr(e, "inames", ()))


@dataclass(frozen=True)
class Assignment(MultiAssignmentBase):
    """``assignee = expression``."""

    assignee: Any = None

    @property
    def assignees(self) -> tuple[Any, ...]:
        return (self.assignee,)

    def __str__(self) -> str:
        return f"{to_text(self.assignee)} = {to_text(self.expression)}  {{id={self.id}}}"


def _nodes(expr: Expression) -> Iterator[Any]:
    yield expr
    for value in vars(expr).values() if hasattr(expr, "__dict__") else ():
        for part in value if isinstance(value, tuple) else (value,):
            if hasattr(part, "__dict__"):
                yield from _nodes(part)


def instruction_of(statement: Statement, after: Mapping[str, frozenset[str]]) -> Assignment:
    """loopy's form of *statement*, which depends on the statements *after* gives it."""
    own = statement.options
    return Assignment(statement.id, own.depends_on | after.get(statement.id, frozenset()), own.no_sync_with,
                      frozenset(statement.inames), frozenset(statement.predicates), own.tags, statement.expression,
                      statement.assignee)
