"""Statement ids: given or generated, and the statements that ``dep=`` and ``nosync=`` name by them."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from loopkit.expr.tokens import Source
from loopkit.kernel.kernel import unknown
from loopkit.language.names import fresh
from loopkit.language.program import Assignment, ParsedProgram, Pattern, assignments


@dataclass
class Ids:
    """The ids of a program's statements, in textual order.

    :ivar by_start: the id of the assignment that begins there.
    :ivar position: the place of each id in the text's order.
    """

    source: Source
    by_start: dict[int, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    position: dict[str, int] = field(default_factory=dict)

    def of(self, node: Assignment) -> str:
        """The id of *node*."""
        return self.by_start[node.start]

    def earlier(self, patterns: Sequence[Pattern], node: Assignment) -> frozenset[str]:
        """The statements that *node* names in ``dep=``.

        :raises UnknownNameError: there is no such statement.
        :raises ParseError: it comes after *node*; statements run in textual order.
        """
        if not patterns:
            return frozenset()
        here = self.position[self.of(node)]
        found: set[str] = set()
        for pattern in patterns:
            matches = self._matches(pattern)
            before = {x for x in matches if self.position[x] < here}
            if not before:
                later = min(matches)
                hint = f"write '{later}' above it" if later != self.of(node) else None
                raise self.source.error(pattern.start, f"'{self.of(node)}' cannot depend on '{later}', which does not "
                                        "stand above it: statements run in textual order.", "an earlier statement",
                                        hint=hint)
            found |= before
        return frozenset(found)

    def others(self, patterns: Sequence[Pattern], node: Assignment) -> frozenset[str]:
        """The statements that *node* names in ``nosync=``; :raises UnknownNameError: there is no such statement."""
        return frozenset(x for pattern in patterns for x in self._matches(pattern) if x != self.of(node))

    def _matches(self, pattern: Pattern) -> list[str]:
        if not any(c in pattern.text for c in "*?["):
            matches = [pattern.text] if pattern.text in self.position else []
        else:
            matches = [x for x in self.position if fnmatchcase(x, pattern.text)]
        if not matches:
            where = f"the kernel (line {self.source.line_of(pattern.start)})"
            raise unknown("statement", pattern.text, self.position, where=where)
        return matches


def number_statements(program: ParsedProgram) -> Ids:
    """Give every assignment its id: ``id=``, else ``insn``, ``insn_0``, ...

    :raises ParseError: an id is given twice.
    """
    ids = Ids(program.source)
    every = assignments(program.body)
    for node in every:
        given = node.options.id
        if given is None:
            continue
        if given in ids.taken:
            raise program.source.error(node.start, f"The id '{given}' is given to two statements.", "another id")
        ids.taken.add(given)
    for node in every:
        name = node.options.id or fresh("insn", ids.taken)
        ids.by_start[node.start] = name
        ids.position[name] = len(ids.position)
    return ids
