"""Inames of statements: mentioned, or inherited through a temporary from the loops of the value's writer."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pymbolic.typing import Expression

from loopkit.errors import ParseError
from loopkit.expr.mappers import children, has_reduction, variables
from loopkit.expr.nodes import Reduction
from loopkit.expr.tokens import Source
from loopkit.language.program import Assignment, ForBlock, IfBlock, ParsedProgram, ProgramNode
from loopkit.language.rules import Rules, bound_inames

#: A temporary that is read, and the reduction inames around the read.
Read = tuple[str, tuple[str, ...]]

_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class ProgramPart:
    """An assignment, or the condition of a block.

    :ivar opened: the inames of the ``for`` blocks around it.
    :ivar above: the conditions of the blocks around it, whose loops are around it too.
    :ivar own: its inames except inherited ones: those in its text, in its rules, in ``{inames=}`` and around it.
    :ivar reducing: the inames of its reductions.
    :ivar subscripts: the inames in the subscripts of its assignee.
    """

    node: Assignment | IfBlock
    opened: frozenset[str]
    above: tuple[ProgramPart, ...]
    own: frozenset[str]
    reads: frozenset[Read]
    reducing: frozenset[str]
    subscripts: frozenset[str]


def inames_of_parts(program: ParsedProgram, temporaries: Collection[str], rules: Rules) -> dict[int, frozenset[str]]:
    """The inames of each assignment or condition, by its place: its own ones and those that it inherits.

    A statement inherits through a temporary the inames that all writers of the temporary have and that none uses in
    its subscript. If a statement is needed to make a value that it reads, the result is the largest consistent
    solution.

    :raises ParseError: the reader is in a ``for`` block that leaves two readings, or reduces over the iname.
    """
    parts = list(_PartCollector(rules, frozenset(temporaries)).parts(program.body))
    writers = {name: [part for part in parts if isinstance(part.node, Assignment) and part.node.written == name]
               for name in temporaries}
    gained = _largest(parts, writers, frozenset(rules.domains.parents))
    for part in parts:
        if clash := gained[part] if part.opened else gained[part] & part.reducing:
            raise _two_readings(program.source, part, min(clash), writers, gained)
    return {part.node.start: part.own | gained[part] for part in parts}


#: Stands among the inames of a value for which no bound was found yet.
_UNBOUND = ""

Writers = Mapping[str, Sequence[ProgramPart]]
Gains = Mapping[ProgramPart, frozenset[str]]


def _largest(parts: Sequence[ProgramPart], writers: Writers, every: frozenset[str]) -> Gains:
    """The largest solution: starts from *every* iname and removes some until all parts agree."""
    # {inames=} excludes further inames
    readers = [part for part in parts if part.reads and part.node.options.inames is None]
    gained = dict.fromkeys(parts, _NONE) | dict.fromkeys(readers, every | {_UNBOUND})
    while True:
        found = {part: _NONE.union(*(_gain(part, read, writers, gained) for read in part.reads)) for part in readers}
        if found.items() <= gained.items():
            open_ended = next((part for part in readers if _UNBOUND in found[part]), None)
            if open_ended is None:
                return gained
            # it computes its value from nothing but itself
            readers.remove(open_ended)
            found = {open_ended: _NONE}
        gained |= found


def _gain(part: ProgramPart, read: Read, writers: Writers, gained: Gains) -> frozenset[str]:
    """The inames that *part* inherits through *read*: those of the value outside of its writers' subscripts."""
    name, reducing = read
    each = [w.own.union(*(gained[source] for source in (w, *w.above))) - w.subscripts for w in writers[name]]
    found = frozenset.intersection(*each).difference(reducing, part.own) if each else _NONE
    # behind the end of a block the last value is meant; only loops that no block shows leave it open
    return frozenset(x for x in found if not part.opened or any(x not in w.opened for w in writers[name]))


@dataclass(frozen=True)
class _PartCollector:
    """Collects the parts of the program from the tree of the text."""

    rules: Rules
    temporaries: frozenset[str]

    def parts(self, nodes: Iterable[ProgramNode], around: frozenset[str] = _NONE, opened: frozenset[str] = _NONE,
              above: tuple[ProgramPart, ...] = ()) -> Iterator[ProgramPart]:
        """The parts of *nodes*, in blocks over the inames *around*, of which those *opened* have a ``for`` block."""
        for node in nodes:
            if isinstance(node, ForBlock):
                inames = frozenset(token.text for token in node.inames)
                yield from self.parts(node.body, around | inames, opened | inames, above)
                continue
            part = self._part(node, around.union(token.text for token in node.options.inames or ()), opened, above)
            yield part
            if isinstance(node, IfBlock):
                yield from self.parts((*node.then, *node.otherwise), part.own, opened, (*above, part))

    def _part(self, node: Assignment | IfBlock, around: frozenset[str], opened: frozenset[str],
              above: tuple[ProgramPart, ...]) -> ProgramPart:
        rules = self.rules
        own = rules.domains.ancestors(around.union(*(
            rules.free_inames(rules.expanded(e, node.start, only_reducing=True)) for e in node.parts)))
        every = [rules.expanded(e, node.start) for e in node.parts] if self.temporaries else []
        reads = frozenset((name, ()) for name in self.temporaries & rules.domains.bounds(own))
        return ProgramPart(node, opened, above, own, reads.union(*(self._reads(e, ()) for e in every)),
                           _NONE.union(*map(bound_inames, every)),
                           rules.free_inames(node.assignee) if isinstance(node, Assignment) else _NONE)

    def _reads(self, expr: Expression, around: tuple[str, ...]) -> Iterator[Read]:
        """The temporaries in *expr*, in which rules are expanded, with the reduction inames around each."""
        if not has_reduction(expr):
            yield from ((name, around) for name in variables(expr) & self.temporaries)
        elif isinstance(expr, Reduction):
            bounds = self.rules.domains.bounds(expr.inames, expr.declared)
            yield from ((name, around) for name in self.temporaries & bounds)
            yield from self._reads(expr.expr, around + expr.inames)
        else:
            for child in children(expr):
                yield from self._reads(child, around)


def _two_readings(source: Source, part: ProgramPart, iname: str, writers: Writers, gained: Gains) -> ParseError:
    read = next(read for read in sorted(part.reads) if iname in _gain(part, read, writers, gained))
    shown = [w.node.start for w in writers[read[0]] if not part.opened or iname not in w.opened]
    # the last writer above, if there is one
    line = source.line_of(max([start for start in shown if start < part.node.start] or shown))
    value = f"'{read[0]}' has a value for each '{iname}' (line {line})"
    if not part.opened:
        return source.error(
            part.node.start, f"{value}, and this statement reads it outside of its reduction over '{iname}'.",
            f"'{read[0]}' inside of the reduction, or a reduction over another iname",
            hint="for the last value: {inames=} behind the statement")
    first, last = sorted((line, source.line_of(part.node.start)))
    return source.error(
        part.node.start, f"{value}, and no loop over '{iname}' stands in this block: '{read[0]}' may mean each of "
        "these values here, or the last one.", f"a loop over '{iname}' that shows which",
        hint=f"for each value: 'for {iname} ... end' around lines {first} to {last}; "
             f"for the last one: 'for {iname} ... end' around line {line} alone, or {{inames=}} behind this line")
