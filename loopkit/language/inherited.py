"""Inames of statements: mentioned, or inherited through a temporary from the loops of the value's writer."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pymbolic.typing import Expression

from loopkit.errors import ParseError
from loopkit.expr.mappers import children, has_reduction, variables
from loopkit.expr.nodes import Reduction
from loopkit.expr.parsing import InlineReduction
from loopkit.expr.tokens import Source
from loopkit.language.program import Assignment, ForBlock, IfBlock, ParsedProgram, ProgramNode
from loopkit.language.rules import Rules, bound_inames

#: A temporary that is read, and the reduction inames around the read.
Read = tuple[str, frozenset[str]]

_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class ProgramPart:
    """An assignment, or the condition of a block.

    :ivar opened: the inames of the ``for`` blocks around it.
    :ivar above: the conditions of the blocks around it, whose loops are around it too.
    :ivar mentioned: the inames in its text, in its rules and in ``{inames=}``.
    :ivar own: its inames except inherited ones.
    :ivar reducing: the inames of its reductions.
    :ivar written: the temporary that it writes; ``None`` for a condition or if it writes an argument.
    :ivar subscripts: the inames in the subscripts of its assignee.
    :ivar final: ``{inames=}`` excludes further inames.
    """

    start: int
    opened: frozenset[str]
    above: tuple[ProgramPart, ...]
    mentioned: frozenset[str]
    own: frozenset[str]
    reads: frozenset[Read]
    reducing: frozenset[str]
    written: str | None = None
    subscripts: frozenset[str] = _NONE
    final: bool = False


def inames_of_parts(program: ParsedProgram, temporaries: Collection[str], rules: Rules) -> dict[int, frozenset[str]]:
    """The inames that each assignment or condition mentions or inherits, by its place.

    A statement inherits through a temporary the inames that all writers of the temporary have and that none uses in
    its subscript. If a statement is needed to make a value that it reads, the result is the largest consistent
    solution.

    :raises ParseError: the reader is in a ``for`` block that leaves two readings, or reduces over the iname.
    """
    parts = list(_PartCollector(rules, temporaries).parts(program.body, _NONE, _NONE, ()))
    writers = {name: [part for part in parts if part.written == name] for name in temporaries}
    gained = _largest(parts, writers, frozenset(rules.domains.parents))
    for part in parts:
        if clash := gained[part] if part.opened else gained[part] & part.reducing:
            raise _two_readings(program.source, part, min(clash), writers, gained)
    return {part.start: part.mentioned | gained[part] for part in parts}


#: Stands among the inames of a value for which no bound was found yet.
_UNBOUND = ""

Writers = Mapping[str, Sequence[ProgramPart]]
Gains = Mapping[ProgramPart, frozenset[str]]


def _largest(parts: Sequence[ProgramPart], writers: Writers, every: frozenset[str]) -> Gains:
    """The largest solution: starts from *every* iname and removes some until all parts agree."""
    readers = [part for part in parts if part.reads and not part.final]
    gained = dict.fromkeys(parts, _NONE) | dict.fromkeys(readers, every | {_UNBOUND})
    while True:
        found = {part: _gain(part, writers, gained) for part in readers}
        if found.items() <= gained.items():
            open_ended = next((part for part in readers if _UNBOUND in found[part]), None)
            if open_ended is None:
                return gained
            # it computes its value from nothing but itself
            readers.remove(open_ended)
            found = {open_ended: _NONE}
        gained |= found


def _gain(part: ProgramPart, writers: Writers, gained: Gains) -> frozenset[str]:
    result = _NONE
    for name, reducing in part.reads:
        found = _inames_of_values(writers[name], gained) - reducing - part.own
        # behind the end of a block the last value is meant; only loops that no block shows leave it open
        result |= {x for x in found if not part.opened or any(x not in w.opened for w in writers[name])}
    return result


def _inames_of_values(writers: Sequence[ProgramPart], gained: Gains) -> frozenset[str]:
    """The inames of a temporary's values: those that all of its writers have outside of its subscripts."""
    each = [w.own.union(*(gained[part] for part in (w, *w.above))) - w.subscripts for w in writers]
    return frozenset.intersection(*each) if each else _NONE


class _PartCollector:
    """Collects the parts of the program from the tree of the text."""

    def __init__(self, rules: Rules, temporaries: Collection[str]) -> None:
        self.rules = rules
        self.temporaries = frozenset(temporaries)
        self.bounds = {x: self.temporaries.intersection(d.params) for d in rules.domains.domains for x in d.inames}

    def parts(self, nodes: Iterable[ProgramNode], around: frozenset[str], opened: frozenset[str],
              above: tuple[ProgramPart, ...]) -> Iterator[ProgramPart]:
        """The parts of *nodes*, in blocks over the inames *around*, of which those *opened* have a ``for`` block."""
        for node in nodes:
            match node:
                case Assignment():
                    mentioned = frozenset(token.text for token in node.options.inames or ()).union(
                        *(self.rules.free_inames(self.rules.expanded(e, node.start, only_reducing=True))
                          for e in node.parts))
                    part = self._part(node.start, opened, above, mentioned, around, node.parts)
                    yield replace(part, written=node.written if node.written in self.temporaries else None,
                                  subscripts=self.rules.free_inames(node.assignee),
                                  final=node.options.inames is not None)
                case ForBlock():
                    inames = frozenset(token.text for token in node.inames)
                    yield from self.parts(node.body, around | inames, opened | inames, above)
                case IfBlock():
                    mentioned = self.rules.free_inames(self.rules.expanded(node.condition, node.start))
                    part = self._part(node.start, opened, above, mentioned, around, [node.condition])
                    yield part
                    yield from self.parts((*node.then, *node.otherwise), around | mentioned, opened, (*above, part))

    def _part(self, start: int, opened: frozenset[str], above: tuple[ProgramPart, ...], mentioned: frozenset[str],
              around: frozenset[str], expressions: Iterable[Expression]) -> ProgramPart:
        own = self.rules.domains.ancestors(around | mentioned)
        every = [self.rules.expanded(e, start) for e in expressions] if self.temporaries else []
        bounding = ((name, _NONE) for x in own for name in self.bounds.get(x, ()))
        reads = frozenset(bounding).union(*(self._reads(e, _NONE) for e in every))
        return ProgramPart(start, opened, above, mentioned, own, reads, _NONE.union(*map(bound_inames, every)))

    def _reads(self, expr: Expression, around: frozenset[str]) -> Iterator[Read]:
        """The temporaries in *expr*, in which rules are expanded, with the reduction inames around each."""
        if not has_reduction(expr):
            yield from ((name, around) for name in variables(expr) & self.temporaries)
        elif isinstance(expr, Reduction):
            bounding = self.rules.domains.inline[expr.domain_text].params if isinstance(expr, InlineReduction) \
                else [name for x in expr.inames for name in self.bounds.get(x, ())]
            yield from ((name, around) for name in self.temporaries.intersection(bounding))
            yield from self._reads(expr.expr, around.union(expr.inames))
        else:
            for child in children(expr):
                yield from self._reads(child, around)


def _two_readings(source: Source, part: ProgramPart, iname: str, writers: Writers, gained: Gains) -> ParseError:
    name, writer = _source_of(part, iname, writers, gained)
    line = source.line_of(writer.start)
    value = f"'{name}' has a value for each '{iname}' (line {line})"
    if not part.opened:
        return source.error(
            part.start, f"{value}, and this statement reads it outside of its reduction over '{iname}'.",
            f"'{name}' inside of the reduction, or a reduction over another iname",
            hint="for the last value: {inames=} behind the statement")
    first, last = sorted((line, source.line_of(part.start)))
    return source.error(
        part.start, f"{value}, and no loop over '{iname}' stands in this block: '{name}' may mean each of these values "
        "here, or the last one.", f"a loop over '{iname}' that shows which",
        hint=f"for each value: 'for {iname} ... end' around lines {first} to {last}; "
             f"for the last one: 'for {iname} ... end' around line {line} alone, or {{inames=}} behind this line")


def _source_of(part: ProgramPart, iname: str, writers: Writers, gained: Gains) -> tuple[str, ProgramPart]:
    """A temporary through which *part* inherits *iname*, and its last writer above that has the iname."""
    for name, reducing in sorted(part.reads, key=lambda read: (read[0], sorted(read[1]))):
        shown = [w for w in writers[name] if not part.opened or iname not in w.opened]
        if shown and iname in _inames_of_values(writers[name], gained) - reducing:
            above = [w for w in shown if w.start < part.start]
            return name, max(above or shown, key=lambda w: w.start)
    raise AssertionError(iname)
