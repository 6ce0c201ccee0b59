"""Multiple assignment: ``a[i], b[i] = argmin(k, x[i, k])`` and ``a[i], b[i] = b[i], a[i]``.

It is a statement that stores the tuple on the right in a temporary, and one statement for each target that reads its
field. So all values are computed before the first target is written. The first statement has the id of the text.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.mappers import subscripts_of, update_of, variables
from loopkit.expr.parsing import BARE, NameUse
from loopkit.expr.tokens import Source
from loopkit.expr.tuples import field_of, fields_of
from loopkit.instructions.atomic_update import AtomicFetch, AtomicUpdate
from loopkit.language.names import fresh
from loopkit.language.program import PREFIX, IfBlock, InstructionOptions, ParsedAssignment, ProgramNode


@dataclass(frozen=True)
class AssignmentTarget:
    """One target of an assignment; the fields are those of :class:`~loopkit.language.program.ParsedAssignment`.

    :ivar start: its place in the text.
    """

    start: int
    assignee: p.Variable | p.Subscript
    written: str
    temporary: str | None
    uses: tuple[NameUse, ...]


@dataclass(frozen=True)
class MultipleAssignment:
    """``targets = value {options}``.

    :ivar starts: the places of the whole, of its ``=`` and of its first target, all different.
    :ivar uses: the mentions of names in *value*; *condition_uses*: those in the condition among the options.
    """

    targets: Sequence[AssignmentTarget]
    value: Expression
    options: InstructionOptions
    starts: tuple[int, int, int]
    uses: tuple[NameUse, ...]
    condition_uses: tuple[NameUse, ...]

    def statements(self, source: Source, taken: set[str]) -> tuple[ProgramNode, ...]:
        """Its statements; *taken* are all names of the text.

        :raises ParseError: *value* is not a tuple with a value for each target.
        """
        start, equals, first = self.starts
        if AtomicUpdate() in self.options.instructions:
            return self._under_condition(self._fetching(source, taken))
        fields, options = fields_of(self.value), self.options
        if len(fields) != len(self.targets):
            found = f"a tuple of {len(fields)} values" if fields else "no tuple"
            raise source.error(equals, f"{len(self.targets)} targets are assigned {found}.",
                               "one value for each target", hint=None if fields else
                               "a, b = t.value, t.index reads the fields of a tuple t")
        if options.instructions:
            titles = ", ".join(title for i in options.instructions for title in i.titles)
            raise source.error(start, f"A multiple assignment cannot be {titles}.", "one target")
        every = [index for target in self.targets for index in subscripts_of(target.assignee)]
        words = (target.written.strip("_") for target in self.targets)
        name = fresh("_".join(filter(None, words)) or "values", taken)
        held = p.Variable(name)
        plain = replace(options, condition=None)
        nodes: list[ProgramNode] = [ParsedAssignment(
            start, held, name, self.value, "", plain, (NameUse(name, BARE, start), *self.uses), beside=tuple(every))]
        for number, (target, field) in enumerate(zip(self.targets, fields, strict=True)):
            given = options.id
            own = plain if given is None or given.kind == PREFIX else replace(
                plain, id=given._replace(text=fresh(f"{given.text}_{number}", taken)))
            place = target.start if number else first
            uses = (*target.uses, NameUse(name, BARE, start))
            nodes.append(ParsedAssignment(place, target.assignee, target.written, field_of(held, field),
                                          target.temporary, own, uses, beside=(*every, self.value)))
        return self._under_condition(tuple(nodes))

    def _under_condition(self, nodes: tuple[ProgramNode, ...]) -> tuple[ProgramNode, ...]:
        if self.options.condition is None:
            return nodes
        return (IfBlock(self.starts[1], self.options.condition, self.condition_uses, nodes, ()),)

    def _fetching(self, source: Source, taken: set[str]) -> tuple[ProgramNode, ...]:
        """The two statements of an atomic update whose old value is kept: ``old, a[f] = a[f], a[f] + e {atomic}``.

        :raises ParseError: the assignment has another form.
        """
        options, start = replace(self.options, condition=None), self.starts[0]
        fields = fields_of(self.value)
        values = [field_of(self.value, name) for name in fields]
        for old, new in ((0, 1), (1, 0)) if len(self.targets) == len(values) == 2 else ():
            kept, updated = self.targets[old], self.targets[new]
            found = update_of(updated.assignee, values[new])
            if found is None or values[old] != updated.assignee or kept.written == updated.written:
                continue
            if kept.written in variables(values[new]):
                raise source.error(start, f"The update of '{updated.written}' uses '{kept.written}', which keeps its "
                                   "old value.", f"another name than '{kept.written}'",
                                   hint="copy the operand into a temporary first")
            given = options.id
            second = options if given is None or given.kind == PREFIX else replace(
                options, id=given._replace(text=fresh(f"{given.text}_1", taken)))
            first = replace(options, instructions=tuple(
                AtomicFetch(found[0]) if i == AtomicUpdate() else i for i in options.instructions))
            uses = [[*target.uses, *self.uses] for target in (kept, updated)]
            return (ParsedAssignment(start, kept.assignee, kept.written, values[old], kept.temporary, first,
                                     tuple(uses[0])),
                    ParsedAssignment(self.starts[2], updated.assignee, updated.written, values[new],
                                     updated.temporary, second, tuple(uses[1])))
        raise source.error(start, "An atomic assignment of several values keeps the old value of an update.",
                           "'old, h[f] = h[f], h[f] + e'", hint="the operations are +, *, min, max, and, or, &, |, ^")
