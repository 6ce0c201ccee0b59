"""Inames inherited through temporaries: a statement that reads a value runs in the loops of the value's writer."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pymbolic.typing import Expression

from loopkit.errors import InternalError, ParseError
from loopkit.expr.mappers import children, has_reduction, variables
from loopkit.expr.nodes import Reduction
from loopkit.expr.parsing import InlineReduction
from loopkit.expr.tokens import Source
from loopkit.language.program import Assignment, ForBlock, IfBlock, Node, ParsedProgram
from loopkit.language.rules import Rules, bound_inames

#: A temporary that is read, and the reduction inames around the read.
Read = tuple[str, frozenset[str]]

_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Around:
    """The properties that a statement gets from the blocks around it.

    :ivar inames: the inames of ``for`` blocks and of conditions.
    :ivar opened: the ones of *inames* with a loop from a ``for`` block.
    :ivar above: the conditions, whose loops are around it too.
    """

    inames: frozenset[str] = _NONE
    opened: frozenset[str] = _NONE
    above: tuple[ProgramPart, ...] = ()


@dataclass(frozen=True, eq=False)
class ProgramPart:
    """An assignment, or the condition of a block.

    :ivar own: its inames except inherited ones.
    :ivar reducing: the inames of its reductions.
    :ivar written: the temporary that it writes; ``None`` for a condition or if it writes an argument.
    :ivar subscripts: the inames in the subscripts of its assignee.
    :ivar final: ``{inames=}`` excludes further inames.
    """

    start: int
    around: Around
    own: frozenset[str]
    reads: frozenset[Read]
    reducing: frozenset[str]
    written: str | None = None
    subscripts: frozenset[str] = _NONE
    final: bool = False


def inherited(program: ParsedProgram, temporaries: Collection[str], rules: Rules) -> dict[int, frozenset[str]]:
    """The inherited inames of each assignment or block, by its place.

    A statement inherits through a temporary the inames that all writers of the temporary have and that none uses in
    its subscript. If a statement is needed to make a value that it reads, the result is the largest consistent
    solution.

    :raises ParseError: the reader is in a ``for`` block that leaves two readings, or reduces over the iname.
    """
    if not temporaries:
        return {}
    parts = list(_PartCollector(rules, temporaries).parts(program.body, Around()))
    writers: dict[str, list[ProgramPart]] = {}
    for part in parts:
        if part.written is not None:
            writers.setdefault(part.written, []).append(part)
    gained = _largest(parts, writers)
    for part in parts:
        if clash := gained[part] if part.around.opened else gained[part] & part.reducing:
            raise _two_readings(program.source, part, min(clash), writers, gained)
    return {part.start: found for part, found in gained.items() if found}


# {{{ the largest solution

#: ``None`` means every iname: no bound was found yet.
_Gains = dict[ProgramPart, frozenset[str] | None]


def _largest(parts: Sequence[ProgramPart], writers: Mapping[str, Sequence[ProgramPart]]
             ) -> dict[ProgramPart, frozenset[str]]:
    """The largest solution: starts from all inames and removes some until all parts agree."""
    readers = [part for part in parts if part.reads and not part.final]
    gained: _Gains = dict.fromkeys(parts, _NONE) | dict.fromkeys(readers)
    while True:
        changed = False
        for part in readers:
            found = _gain(part, writers, gained)
            if found != gained[part]:
                gained[part], changed = found, True
        if not changed:
            open_ended = [part for part in readers if gained[part] is None]
            if not open_ended:
                return {part: found or _NONE for part, found in gained.items()}
            # it computes its value from nothing but itself
            gained[open_ended[0]] = _NONE
            readers.remove(open_ended[0])


def _gain(part: ProgramPart, writers: Mapping[str, Sequence[ProgramPart]], gained: _Gains) -> frozenset[str] | None:
    result = _NONE
    for name, reducing in part.reads:
        found = _inames_of_values(writers.get(name, ()), gained)
        if found is None:
            return None
        if part.around.opened:
            # behind the end of a block the last value is meant; only loops that no block shows leave it open
            found = frozenset(x for x in found if any(x not in w.around.opened for w in writers[name]))
        result |= found - reducing - part.own
    return result


def _inames(part: ProgramPart, gained: _Gains) -> frozenset[str] | None:
    result = part.own
    for one in (part, *part.around.above):
        found = gained[one]
        if found is None:
            return None
        result |= found
    return result


def _inames_of_values(writers: Sequence[ProgramPart], gained: _Gains) -> frozenset[str] | None:
    """The inames of a temporary's values: those that all of its writers have outside of its subscripts."""
    result: frozenset[str] | None = None if writers else _NONE
    for w in writers:
        own = _inames(w, gained)
        if own is not None:
            result = own - w.subscripts if result is None else result & (own - w.subscripts)
    return result

# }}}


# {{{ the parts of the text

class _PartCollector:
    """Collects the parts of the program from the tree of the text."""

    def __init__(self, rules: Rules, temporaries: Collection[str]) -> None:
        self.rules = rules
        self.temporaries = frozenset(temporaries)
        self.bounds = {x: self.temporaries.intersection(d.points.params) for d in rules.domains.domains
                       for x in d.inames}

    def parts(self, nodes: Iterable[Node], around: Around) -> Iterator[ProgramPart]:
        for node in nodes:
            match node:
                case Assignment():
                    part = self._part(node.start, self.rules.mentioned(node), around, node.parts)
                    yield replace(part, written=node.written if node.written in self.temporaries else None,
                                  subscripts=self.rules.free_inames(node.assignee),
                                  final=node.options.inames is not None)
                case ForBlock():
                    opened = frozenset(pattern.text for pattern in node.inames)
                    yield from self.parts(node.body, replace(around, inames=around.inames | opened,
                                                             opened=around.opened | opened))
                case IfBlock():
                    inames = self.rules.free_inames(self.rules.expanded(node.condition, node.start))
                    part = self._part(node.start, inames, around, [node.condition])
                    yield part
                    inside = replace(around, inames=around.inames | inames, above=(*around.above, part))
                    yield from self.parts((*node.then, *node.otherwise), inside)

    def _part(self, start: int, inames: frozenset[str], around: Around, expressions: Iterable[Expression]
              ) -> ProgramPart:
        own = self.rules.domains.ancestors(around.inames | inames)
        every = [self.rules.expanded(e, start) for e in expressions]
        bounding = ((name, _NONE) for x in own for name in self.bounds.get(x, ()))
        reads = frozenset(bounding).union(*(self._reads(e, _NONE) for e in every))
        return ProgramPart(start, around, own, reads, _NONE.union(*map(bound_inames, every)))

    def _reads(self, expr: Expression, around: frozenset[str]) -> Iterator[Read]:
        """The temporaries in *expr*, in which rules are expanded, with the reduction inames around each."""
        if not has_reduction(expr):
            yield from ((name, around) for name in variables(expr) if name in self.temporaries)
            return
        match expr:
            case Reduction(inames=inames):
                if isinstance(expr, InlineReduction):
                    bounding: Collection[str] = self.rules.domains.inline(expr.domain_text).points.params
                else:
                    bounding = [name for x in inames for name in self.bounds.get(x, ())]
                yield from ((name, around) for name in bounding if name in self.temporaries)
                yield from self._reads(expr.expr, around.union(inames))
            case _:
                for child in children(expr):
                    yield from self._reads(child, around)

# }}}


def _two_readings(source: Source, part: ProgramPart, iname: str, writers: Mapping[str, Sequence[ProgramPart]],
                  gained: Mapping[ProgramPart, frozenset[str]]) -> ParseError:
    name, writer = _source_of(part, iname, writers, gained)
    line = source.line_of(writer.start)
    value = f"'{name}' has a value for each '{iname}' (line {line})"
    if not part.around.opened:
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


def _source_of(part: ProgramPart, iname: str, writers: Mapping[str, Sequence[ProgramPart]],
               gained: Mapping[ProgramPart, frozenset[str]]) -> tuple[str, ProgramPart]:
    """A temporary through which *part* inherits *iname*, and its last writer above that has the iname."""
    for name, reducing in sorted(part.reads, key=lambda read: (read[0], sorted(read[1]))):
        found = _inames_of_values(writers.get(name, ()), dict(gained))
        shown = [w for w in writers.get(name, ()) if not part.around.opened or iname not in w.around.opened]
        if found and iname in found and iname not in reducing and shown:
            above = [w for w in shown if w.start < part.start]
            return name, max(above or shown, key=lambda w: w.start)
    raise InternalError(f"'{iname}' comes through no temporary.")
