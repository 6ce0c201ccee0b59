"""The values that reads of temporaries get: a reader shares the writer's loops, or reads the value of its iteration.

A statement inherits the inames of the values that it reads, unless it is in a ``for`` block or mentions them. In
another loop over such an iname, it reads the value of the same iteration.
"""
from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from loopkit.analysis.accesses import Access, accesses_by_array, data_params
from loopkit.analysis.constructors import annotated, in_own_order, with_axes
from loopkit.analysis.dependences import between_iterations, flow_of_values
from loopkit.analysis.order import meeting_of
from loopkit.errors import ParseError, PreconditionError
from loopkit.expr.mappers import variables
from loopkit.expr.tokens import Source
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Dependence
from loopkit.language.program import (
    ForBlock,
    FunctionCall,
    IfBlock,
    Marker,
    Mention,
    ParsedAssignment,
    ParsedProgram,
    ProgramNode,
    Rules,
    bound_inames,
)
from loopkit.poly.domains import unbounded_iname

_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class ProgramPart:
    """An assignment, or the condition of a block.

    :ivar opened: the inames of the ``for`` blocks around it.
    :ivar above: the conditions of the blocks around it, whose loops are around it too.
    :ivar own: its inames except inherited ones: those in its text, in its rules, in ``{inames=}`` and around it.
    :ivar reducing: the inames of its reductions.
    :ivar written: the arrays and variables that it writes, each with the inames in the subscripts.
    """

    node: ParsedAssignment | FunctionCall | IfBlock
    opened: frozenset[str]
    above: tuple[ProgramPart, ...]
    own: frozenset[str]
    reads: frozenset[Mention]
    reducing: frozenset[str]
    written: Mapping[str, frozenset[str]]


def inames_of_parts(program: ParsedProgram, temporaries: Collection[str], rules: Rules) -> dict[int, frozenset[str]]:
    """The inames of each assignment or condition, by its place: its own ones, and those that it or its blocks inherit.

    A statement inherits through a temporary the inames that all writers of the temporary have and that none uses in
    its subscript. If a statement is needed to make a value that it reads, the result is the largest consistent
    solution.

    :raises ParseError: the reader is in a ``for`` block that leaves two readings, or reduces over the iname.
    """
    parts = list(_parts(rules, temporaries, program.body))
    writers: dict[str, list[ProgramPart]] = {name: [] for name in temporaries}
    for part in parts:
        for name in writers.keys() & part.written.keys():
            writers[name].append(part)
    gained = _largest(parts, writers, frozenset(rules.domains.parents))
    for part in parts:
        if clash := gained[part] if part.opened else gained[part] & part.reducing:
            raise _two_readings(program.source, part, min(clash), writers, gained)
    return {part.node.start: _all_inames(part, gained) for part in parts}


#: Stands among the inames of a value for which no bound was found yet.
_UNBOUND = ""

Writers = Mapping[str, Sequence[ProgramPart]]
Gains = Mapping[ProgramPart, frozenset[str]]


def _largest(parts: Sequence[ProgramPart], writers: Writers, every: frozenset[str]) -> Gains:
    """The largest solution: starts from *every* iname and removes some until all parts agree."""
    # {inames=} excludes further inames
    readers = [part for part in parts if part.reads and not part.node.options.inames.alone]
    gained = dict.fromkeys(parts, _NONE) | dict.fromkeys(readers, every | {_UNBOUND})
    while True:
        before = dict(gained)
        # in the order of the text: values mostly come from statements above
        for part in readers:
            gained[part] = _NONE.union(*(_gain(part, read, writers, gained) for read in part.reads))
        if gained == before:
            open_ended = next((part for part in readers if _UNBOUND in gained[part]), None)
            if open_ended is None:
                return gained
            # its value depends only on itself
            readers.remove(open_ended)
            gained[open_ended] = _NONE


def _gain(part: ProgramPart, read: Mention, writers: Writers, gained: Gains) -> frozenset[str]:
    """The inames that *part* inherits through *read*: those of the value outside of its writers' subscripts."""
    name, reducing = read
    each = [_all_inames(w, gained) - w.written[name] for w in writers[name]]
    found = frozenset.intersection(*each).difference(reducing, part.own) if each else _NONE
    # a reader after the end of a block gets the last value; without a block, the value is ambiguous
    return frozenset(x for x in found if not part.opened or any(x not in w.opened for w in writers[name]))


def _all_inames(part: ProgramPart, gained: Gains) -> frozenset[str]:
    return part.own.union(*(gained[source] for source in (part, *part.above)))


def _parts(rules: Rules, temporaries: Collection[str], nodes: Iterable[ProgramNode], around: frozenset[str] = _NONE,
           opened: frozenset[str] = _NONE, above: tuple[ProgramPart, ...] = ()) -> Iterator[ProgramPart]:
    """The parts of *nodes*, in blocks over the inames *around*, of which those *opened* have a ``for`` block."""
    for node in nodes:
        if isinstance(node, ForBlock):
            inames = frozenset(token.text for token in node.inames)
            yield from _parts(rules, temporaries, node.body, around | inames, opened | inames, above)
            continue
        if isinstance(node, Marker):
            continue
        every = [rules.expanded(e, node.start, only_reducing=True) for e in node.parts]
        mentions = frozenset(mention for e in every for mention in rules.mentions(e))
        listed = around.union(token.text for token in node.options.inames.listed)
        own = rules.domains.ancestors(listed | rules.free_inames(mentions))
        reads = mentions.union((name, ()) for name in rules.domains.bounds(own))
        part = ProgramPart(node, opened, above, own, frozenset(read for read in reads if read[0] in temporaries),
                           _NONE.union(*map(bound_inames, every)), written_by(rules, node))
        yield part
        if isinstance(node, IfBlock):
            yield from _parts(rules, temporaries, (*node.then, *node.otherwise), own, opened, (*above, part))


def written_by(rules: Rules, node: ParsedAssignment | FunctionCall | IfBlock) -> Mapping[str, frozenset[str]]:
    """The arrays and variables that *node* writes, each with the inames in the subscripts."""
    match node:
        case ParsedAssignment():
            return {node.written: rules.free_inames(rules.mentions(node.assignee))}
        case FunctionCall():
            return {r.array: rules.free_inames(rules.mentions(r.written_part)) for r in node.results}
        case IfBlock():
            return {}


def _two_readings(source: Source, part: ProgramPart, iname: str, writers: Writers, gained: Gains) -> ParseError:
    read = next(read for read in sorted(part.reads) if iname in _gain(part, read, writers, gained))
    shown = [w.node.start for w in writers[read[0]] if not part.opened or iname not in w.opened]
    # the last writer above, if there is one
    writer = max([start for start in shown if start < part.node.start] or shown)
    value = f"'{read[0]}' has a value for each '{iname}' ({source.place_of(writer)})"
    if not part.opened:
        return source.error(
            part.node.start, f"{value}, and this statement reads it outside of its reduction over '{iname}'.",
            f"'{read[0]}' inside of the reduction, or a reduction over another iname",
            hint="for the last value: {inames=} after the statement")
    around = source.span_of(*sorted((writer, part.node.start)))
    return source.error(
        part.node.start, f"{value}, and this block has no loop over '{iname}'. It is ambiguous "
        f"whether '{read[0]}' means each of these values here, or the last one.", f"a loop over '{iname}' that decides",
        hint=f"for each value: 'for {iname} ... end' around {around}; for the last one: 'for {iname} ... end' "
             f"around {source.place_of(writer)} alone, or {{inames=}} after this line")


# Values in the made kernel

def with_values_of_iterations(kernel: LoopKernel, declared: Collection[str], of_functions: Collection[str]
                              ) -> LoopKernel:
    """*kernel* with an axis of each temporary for each iname over which one loop writes and another reads it.

    All writers of the temporary have such an iname and do not use it in its subscript. Within one loop, the textual
    order decides the value of a read; in another loop or a reduction over the iname, a read gets the value of the same
    iteration.

    :arg declared: the temporaries with a declared shape.
    :arg of_functions: the temporaries of called functions, which have these axes already.
    :raises PreconditionError: a temporary cannot have such an axis, or is read as if it had none.
    """
    while True:
        crossed = ((name, _crossed(kernel, name, accesses)) for name, accesses in accesses_by_array(kernel).items()
                   if name not in of_functions)
        name, inames = next((found for found in crossed if found[1]), ("", ()))
        if not inames:
            return kernel
        _require_cells(kernel, name, inames, declared)
        t = kernel.temporaries[name]
        open_shape = {**kernel.temporaries, name: replace(t, shape=None)}
        kernel = in_own_order(with_axes(annotated(kernel, temporaries=open_shape), [name], inames))


def _crossed(kernel: LoopKernel, name: str, accesses: Sequence[Access]) -> tuple[str, ...]:
    """The inames of the values of *name* whose loop around a value's writer is not the loop around its reader."""
    if name not in kernel.temporaries:
        return ()
    common = _inames_of_values(kernel, accesses)
    paths = {kernel.paths[a.statement] for a in accesses}
    loops = {(step.iname, path[:k + 1]) for path in paths for k, step in enumerate(path) if step.iname in common}
    if len(loops) == len({iname for iname, _ in loops}):
        return ()
    found = {x for d in flow_of_values(kernel, name) for x in _apart(kernel, d.source, d.sink, common)}
    return tuple(x for x in kernel.inames if x in found)


def _inames_of_values(kernel: LoopKernel, accesses: Sequence[Access]) -> frozenset[str]:
    """The inames that all writers have and do not subscript the temporary with."""
    own = [frozenset(kernel.statement_by_id[a.statement].inames).difference(*map(variables, a.subscripts))
           for a in accesses if a.is_write]
    return frozenset.intersection(*own) if own else frozenset()


def _apart(kernel: LoopKernel, writer: str, reader: str, inames: Collection[str]) -> frozenset[str]:
    """The *inames* for which the two have separate loops."""
    if writer == reader:
        return frozenset()
    shared = meeting_of(kernel.paths, writer, reader).loops
    return frozenset(kernel.statement_by_id[reader].inames).intersection(inames).difference(shared)


def require_one_meaning(kernel: LoopKernel, opened: Mapping[str, Collection[str]], final: Collection[str],
                        of_functions: Collection[str]) -> None:
    """Refuse a scalar temporary with two readings: a value for each iteration of an iname, or the last value.

    This concerns temporaries whose writers, updates left out, have different inames. Values reach a reader directly or
    through updates. An iname that not all writers have is ambiguous at a read in two cases:

    - The reader has it in another loop than the writer of the value. Either all writers whose values reach the reader
      have it, or the writer is not an update and has it outside of ``for`` blocks.
    - The reader lacks it, and all writers whose values reach the reader have it. A ``for`` block over it around the
      writer, or ``{inames=}`` after the reader, shows that the last value is meant.

    Temporaries with subscripts are storage, as arguments are.

    :arg opened: the inames of the ``for`` blocks around each statement of the text.
    :arg final: the statements with ``{inames=}``.
    :arg of_functions: the temporaries of called functions, which were checked with these.
    :raises PreconditionError: a read of a temporary is ambiguous.
    """
    accumulators = {node.accumulator for node in kernel.reductions.values()}
    for name, accesses in accesses_by_array(kernel).items():
        if name not in kernel.temporaries or name in accumulators or name in of_functions or accesses[0].subscripts:
            continue
        writers = {a.statement: a for a in accesses if a.is_write}
        begun = writers.keys() - {a.statement for a in accesses if not a.is_write}
        if len({_inames_of_values(kernel, [writers[s]]) for s in begun}) < 2:
            continue
        common, flows = _inames_of_values(kernel, accesses), list(flow_of_values(kernel, name))
        for d in flows:
            writer, reader = _owner(kernel, d.source), _owner(kernel, d.sink)
            shared = _inames_of_values(kernel, [writers[w] for w in _reaching(flows, d.sink) & writers.keys()]) - common
            own = _inames_of_values(kernel, [writers[d.source]]).difference(common, opened[writer]) \
                if d.source in begun else frozenset()
            lacked = frozenset() if reader in final else \
                shared.difference(kernel.statement_by_id[d.sink].inames, opened[writer])
            if ambiguous := _apart(kernel, d.source, d.sink, shared | own) | lacked:
                raise _two_meanings(kernel, d, name, min(ambiguous), writers)


def _two_meanings(kernel: LoopKernel, flow: Dependence, name: str, iname: str, writers: Collection[str]
                  ) -> PreconditionError:
    source, owner = flow.source, _owner(kernel, flow.sink)
    statements = [kernel.statement_by_id[w] for w in writers]
    other = next(s.id for s in statements if iname not in s.inames or iname in variables(s.assignee))
    return PreconditionError(
        f"'{owner}' reads an ambiguous value of '{name}'. '{source}' writes a value for each '{iname}', in a loop "
        f"that '{owner}' does not share, and '{other}' writes '{name}' without '{iname}'. So '{name}' may mean the "
        f"value of each '{iname}', or the last one.", subject=name,
        hint=f"rename the temporary that '{other}' writes; or put '{source}' and '{owner}' into one 'for {iname}' "
             f"block, or '{source}' alone and {{inames=}} after '{owner}'")


def _reaching(flows: Sequence[Dependence], reader: str) -> set[str]:
    """The statements whose values *reader* may use, directly or through updates, and the readers of those values."""
    found = {reader}
    while more := {d.source for d in flows if d.sink in found} - found:
        found |= more
    return found


def _owner(kernel: LoopKernel, statement: str) -> str:
    """The statement of the text for *statement*, which may be a part of one of its reductions."""
    node = kernel.reduction_of.get(statement)
    return statement if node is None else _owner(kernel, node.final)


def _require_cells(kernel: LoopKernel, name: str, inames: tuple[str, ...], declared: Collection[str]) -> None:
    """:raises PreconditionError: the temporary *name* cannot have an axis for one of *inames*."""
    for x in inames:
        writer, reader = next((d.source, d.sink) for d in flow_of_values(kernel, name)
                              if _apart(kernel, d.source, d.sink, [x]))
        together = f"for each value: put '{writer}' and '{reader}' into one loop over '{x}'"
        for reason, hint in _obstacles(kernel, name, x, declared, together):
            raise PreconditionError(
                f"'{reader}' reads '{name}' in another loop over '{x}' than its writer '{writer}', so it needs the "
                f"value of each '{x}', but {reason}.", subject=name, hint=hint)


def _obstacles(kernel: LoopKernel, name: str, iname: str, declared: Collection[str], together: str
               ) -> Iterator[tuple[str, str]]:
    """The reasons why the temporary *name* cannot have an axis for *iname*, with their hints."""
    last = f"for the last value: copy it to another temporary after the loop over '{iname}', and read that"
    if name in declared:
        yield f"'{name}' is declared with another shape", f"{together}, or leave the shape open; {last}"
    for s in kernel.statements:
        if name in data_params(kernel, s.domain):
            yield f"'{name}' bounds a loop of '{s.id}', and a bound has no subscripts", f"{together}; {last}"
    for rule in kernel.substitutions.values():
        if iname in rule.arguments and name in variables(rule.expr) and name not in rule.arguments:
            yield (f"the rule '{rule.name}' reads it and calls an argument '{iname}'",
                   f"give the argument of '{rule.name}' another name")
    for s in kernel.statements:
        if s.written == name and (data := data_params(kernel, s.domain)) and unbounded_iname(
                s.domain.without_params(data).onto((iname,))):
            yield (f"the number of values depends on '{data[0]}', which is read from memory",
                   f"{together}, or write the value where it is read")
    for a in accesses_by_array(kernel)[name]:
        if iname not in a.domain.inames:
            yield (f"'{a.statement}' reads '{name}' outside of the loops over '{iname}'",
                   f"{last}; for each value: let '{a.statement}' have '{iname}' too")
    for d in flow_of_values(kernel, name):
        if not _apart(kernel, d.source, d.sink, [iname]) and between_iterations(kernel, d, [iname]) is not None:
            yield (f"'{d.sink}' reads the value that '{d.source}' left in an earlier iteration of '{iname}'",
                   f"write a separate temporary for the reader in the other loop, after '{d.source}'")
