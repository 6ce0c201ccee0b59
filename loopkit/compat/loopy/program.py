"""A program in loopy's language: its statements with loopy's inames and dependences, and loopkit's text."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property

import pymbolic.primitives as p
from pymbolic.typing import Expression
from pytools.tag import Tag

from loopkit.compat.loopy.order import Item, Order, circle_of, ordered, text_of
from loopkit.compat.loopy.packing import Packing, packed_signature
from loopkit.compat.loopy.spelling import VariableTags, respelled, without_tags
from loopkit.compat.loopy.statements_after_loops import StatementsAfterLoops, with_loops_of_copies
from loopkit.errors import require_known
from loopkit.expr.functions import ScalarFunction
from loopkit.expr.mappers import array_of, called, conjunction, subexpressions, update_of, variables
from loopkit.expr.nodes import Reduction, to_text
from loopkit.expr.operations import ReductionOperation
from loopkit.expr.tokens import Source, tokenize
from loopkit.instructions.table import STATEMENT_INSTRUCTIONS
from loopkit.kernel.kernel import LoopKernel
from loopkit.language.arguments import Declared, readers_of_places, shapes_of
from loopkit.language.calls import signature_of
from loopkit.language.domains import Domains
from loopkit.language.elementwise import functions_with_dot
from loopkit.language.iterations import inames_of_parts, written_by
from loopkit.language.names import fresh
from loopkit.language.private_inames import with_private_inames
from loopkit.language.program import (
    BARRIERS,
    PREFIX,
    QUERY,
    ForBlock,
    FunctionCall,
    IfBlock,
    Marker,
    ParsedAssignment,
    ParsedProgram,
    ProgramNode,
    Rules,
    bound_inames,
    number_statements,
    read_rules,
    writes,
)
from loopkit.language.syntax import parse_program

_NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True)
class LoopyStatement:
    """One assignment or call of the program, or a line that only orders others.

    :ivar conditions: those of its blocks and of its own.
    :ivar reads: every name that it reads, also through substitution rules; *writes*: every name that it writes.
    :ivar variable_tags: tags of the variables that it names.
    """

    id: str
    node: ParsedAssignment | FunctionCall | Marker
    inames: frozenset[str] = _NOTHING
    conditions: tuple[Expression, ...] = ()
    reads: frozenset[str] = _NOTHING
    writes: frozenset[str] = _NOTHING
    variable_tags: VariableTags = field(default_factory=dict)


@dataclass(frozen=True)
class LoopyProgram:
    """All of a program.

    :ivar rules: the lines of its substitution rules.
    :ivar domains: those of its inames, with the copies of ``dup=``.
    :ivar groups: ids that name several statements.
    :ivar tags: user tags, by their labels in the text.
    :ivar is_nested: a ``for`` block is inside another one, or has several inames.
    """

    statements: tuple[LoopyStatement, ...]
    rules: tuple[str, ...]
    domains: Domains
    groups: Mapping[str, frozenset[str]]
    tags: Mapping[str, Tag]
    is_nested: bool = False
    _ids: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_ids", frozenset(s.id for s in self.statements))

    @property
    def written(self) -> frozenset[str]:
        """The names that statements write."""
        return frozenset().union(*(s.writes for s in self.statements))

    @property
    def tagged(self) -> Mapping[Tag, Sequence[str]]:
        """The statements with each user tag, which the text does not have."""
        own = [(s.id, s.node.options.tags) for s in self.statements if not isinstance(s.node, Marker)]
        return {tag: [x for x, labels in own if label in labels] for label, tag in self.tags.items()}

    @property
    def queries(self) -> frozenset[str]:
        """The match expressions of ``dep_query=`` and ``nosync_query=``."""
        return frozenset(t.text for s in self.statements for t in (
            *s.node.options.dep, *(claim.others for claim in s.node.options.nosync)) if t.kind == QUERY)

    def text(self, items: Sequence[Item]) -> str:
        """loopkit's text of the program: in the order in which loopy runs *items*, with explicit loops.

        If items depend on each other in a circle, the text keeps their dependences on items above them. It is empty
        without statements.
        """
        if all(isinstance(s.node, Marker) for s in self.statements):
            return "\n".join(self.rules)
        if circle_of(items):
            places = {item.id: item.place for item in items}
            items = [replace(item, after=frozenset(x for x in item.after if places.get(x, item.place) < item.place))
                     for item in items]
        return "\n".join([*self.rules, *text_of(ordered(items, self.domains.sorted(self.domains.parents)))])

    # Dependences

    def order(self, items: Sequence[Item], selected: Mapping[str, Collection[str]]) -> Order:
        """The relation between the statements that *items* have, and the claims of ``nosync=``."""
        claims = {s.id: frozenset([*((x, "any") for x in self.multiple_assignments.get(s.id, ())), *(
            (x, claim.scope) for claim in s.node.options.nosync for x in (
                {*selected.get(claim.others.text, ())} - {s.id} if claim.others.kind == QUERY else
                self._matches(claim.others.text)))]) for s in self.statements}
        barriers = frozenset(s.id for s in self.statements
                             if isinstance(s.node, Marker) and BARRIERS.get(s.node.kind) == "global")
        return Order({item.id: item.after for item in items}, claims, circle_of(items), barriers)

    def items(self, selected: Mapping[str, Collection[str]], *, in_sequence: bool = False,
              must_exist: bool = True) -> list[Item]:
        """The statements with loopy's dependences: given ones, and on the only writer of a name that they read.

        :arg selected: the statements that each match expression selects.
        :arg in_sequence: each statement depends on the one above it.
        :arg must_exist: ``dep=`` names statements of the program only.
        """
        items = list(self._items(selected, must_exist=must_exist))
        return list(_in_sequence(items)) if in_sequence else items

    def _items(self, selected: Mapping[str, Collection[str]], *, must_exist: bool) -> Iterator[Item]:
        writers: dict[str, list[LoopyStatement]] = {}
        for s in self.statements:
            for name in s.writes:
                writers.setdefault(name, []).append(s)
        whole = self.multiple_assignments
        for s in self.statements:
            final, named = self._named(s, selected, must_exist=must_exist)
            if not final:
                named |= {found[0].id for name in s.reads if len(found := writers.get(name, [])) == 1}
            own = whole.get(s.id, (s.id,))
            after = {x for name in named for x in whole.get(name, (name,)) if x not in own}
            line = _marker_line(s.node) if isinstance(s.node, Marker) else _line(s, s.node, self.tags)
            yield Item(s.id, s.node.start, s.inames, frozenset({*after, own[0]} - {s.id}), line)

    @cached_property
    def multiple_assignments(self) -> Mapping[str, tuple[str, ...]]:
        """For each statement of a multiple assignment all of its statements; the first one holds the values."""
        first = {name: s.id for s in self.statements for name in s.writes}
        groups: dict[str, tuple[str, ...]] = {}
        for s in self.statements:
            match s.node:
                case ParsedAssignment(expression=p.Lookup(aggregate=p.Variable(name=held)),
                                      beside=(_, *_)) if held in first:
                    own = (*groups.get(first[held], (first[held],)), s.id)
                    groups |= dict.fromkeys(own, own)
        return groups

    def _named(self, statement: LoopyStatement, selected: Mapping[str, Collection[str]], *, must_exist: bool
               ) -> tuple[bool, set[str]]:
        """Whether the statement has no other dependences, and the statements that ``dep=`` names.

        :raises UnknownNameError: one does not exist.
        """
        found: set[str] = set()
        globs = [t.text for t in statement.node.options.dep if t.kind != QUERY]
        final = any(glob.startswith("*") for glob in globs)
        for glob in (glob.removeprefix("*") if final else glob for glob in globs):
            matches = self._matches(glob)
            if glob and must_exist and matches in (set(), {statement.id}) and glob != statement.id:
                require_known("statement", [glob], sorted(self._ids))
            found |= matches
        for query in (t.text for t in statement.node.options.dep if t.kind == QUERY):
            found |= {*selected.get(query, ())}
        return final, found - {statement.id}

    def _matches(self, glob: str) -> set[str]:
        return {name for name in self._ids if fnmatchcase(name, glob)} | self.groups.get(glob, _NOTHING)


def _in_sequence(items: Sequence[Item]) -> Iterator[Item]:
    above: Item | None = None
    for item in sorted(items, key=lambda item: item.place):
        yield item if above is None else replace(item, after=item.after | {above.id})
        above = item


def read_program(instructions: str | Iterable[str], domains: Domains, declared: Declared,
                 functions: Mapping[str, ScalarFunction], kernels: Mapping[str, LoopKernel],
                 packed: Collection[str] = (), operations: Mapping[str, ReductionOperation] | None = None,
                 groups: Mapping[str, frozenset[str]] | None = None, tags: Mapping[str, Tag] | None = None,
                 tagged: Mapping[str, tuple[str, str]] | None = None) -> LoopyProgram:
    """The program of *instructions* in loopy's language.

    :arg functions: the user's functions of numbers; *kernels*: the kernels that statements may call.
    :arg packed: those of *kernels* whose slices may have another rank than their arguments.
    :arg operations: further reductions; *groups*: ids that name several statements.
    :arg tags: user tags, by their labels in the text; *tagged*: the rules of tagged elements.

    >>> from loopkit.language.domains import read_domains
    >>> program = read_program("y[i] = a[i]\\na[i] = 2*x[i]", read_domains("{[i]: 0<=i<n}"), {}, {}, {})
    >>> print(program.text(program.items({})))
    for i
        a[i] = 2*x[i] {id=insn_0, inames=}
        y[i] = a[i] {id=insn, inames=}
    end
    """
    text, variable_tags = without_tags(respelled(instructions))
    source = Source(text, "the instructions")
    signatures = {name: signature_of(f) for name, f in kernels.items()}
    parsed = parse_program(source, domains.parents.keys(), domains.add_inline, operations or {},
                           functions_with_dot(declared, functions), {
                               name: packed_signature(s) if name in packed else s for name, s in signatures.items()},
                           readers_of_places(declared), {}, shapes_of(declared))
    rules = read_rules(parsed, domains)
    lines = tuple(f"{r.rule.name}({', '.join(r.rule.arguments)}) := {to_text(r.rule.expr)}" for r in parsed.rules)
    ids = number_statements(parsed, groups or ())
    after = StatementsAfterLoops(_NOTHING.union(*(groups or {}).values()), {t.text for t in tokenize(source)},
                                 {*ids.places})
    kept = with_loops_of_copies(after.rest_of(parsed.body))
    parsed = with_private_inames(replace(parsed, body=(*_with_final_inames(kept), *after.moved)), rules)
    places = {name: start for start, name in ids.of.items()}
    inames = _inferred(parsed, rules, inames_of_parts(parsed, (), rules), [
        [places[x] for x in names if x in places] for names in (groups or {}).values()])
    inames = _with_loops_between(parsed, rules, inames, ids.of)
    packing = Packing(kernels, domains, {t.text for t in tokenize(source)})
    inside: dict[str, set[str]] = {}
    for node, _, _ in _flat(parsed.body):
        for name, _ in writes([node]):
            inside.setdefault(name, set()).update(domains.ancestors(inames[node.start]))
    statements = list[LoopyStatement]()
    for node, conditions, around in _flat(parsed.body):
        require_known("iname", sorted(around), domains.parents)
        if isinstance(node, Marker):
            statements.append(LoopyStatement(_marker_id(node, after.ids), node, domains.ancestors(around)))
            continue
        for name, part, more in after.parts(node, ids.of[node.start],
                                             lambda r: _shares_its_loop(r, domains, inside)):
            own = domains.ancestors(inames[node.start] | more)
            statements.append(LoopyStatement(
                name, part if not isinstance(part, FunctionCall) else packing.with_slices(
                    part, signatures[part.function], any_rank=part.function in packed), own, conditions,
                _reads(part, conditions, rules, own), frozenset(x for x, _ in writes([part])),
                _tags_of(part, variable_tags, tagged or {})))
    return LoopyProgram(tuple(statements), lines, domains, groups or {}, tags or {}, _is_nested(kept))


def _shares_its_loop(node: Reduction, domains: Domains, inside: Mapping[str, AbstractSet[str]]) -> bool:
    """Does a statement in the loop of *node* write a bound of a loop in it, or a number that it reads?

    :arg inside: for each name that statements write, the inames of their loops.
    """
    every = {x for e in subexpressions(node) if isinstance(e, Reduction) for x in e.inames}
    names = {*domains.bounds(every)}
    if not inside.keys().isdisjoint(domains.bounds(node.inames)):
        # no array can hold a number for each iteration
        parts = [*subexpressions(node.expr)]
        arrays = {array_of(e) for e in parts if isinstance(e, p.Subscript)}
        names |= {e.name for e in parts if isinstance(e, p.Variable)} - arrays
    return any(not inside.get(name, _NOTHING).isdisjoint(node.inames) for name in names)


def _tags_of(node: ParsedAssignment | FunctionCall, places: Mapping[int, frozenset[str]],
             rules: Mapping[str, tuple[str, str]]) -> VariableTags:
    """The sets of tags with which *node* reads and writes each variable, if it has any.

    :arg places: the tags of assigned variables; *rules*: the names of tagged elements, each for an array and a tag.
    """
    found: dict[tuple[str, str], frozenset[frozenset[str]]] = {}
    if isinstance(node, ParsedAssignment):
        every = [((use.name, "load" if k else "store"), places.get(use.start, _NOTHING))
                 for k, use in enumerate(node.uses)]
        every += [((rules[x][0], "load"), frozenset([rules[x][1]])) for x in called(node.expression) if x in rules]
        for key, own in every:
            found[key] = found.get(key, frozenset()) | {own}
    return {key: own for key, own in found.items() if any(own)}


def _inferred(program: ParsedProgram, rules: Rules, own: Mapping[int, frozenset[str]],
              groups: Iterable[Sequence[int]]) -> Mapping[int, frozenset[str]]:
    """The inames of each statement, by its place: its *own* ones, and those that it inherits.

    A statement inherits through a name, also that of an argument, the inames that all of its writers have and that none
    of them uses in its subscript; and all inames of those that write the bounds of its loops. The result is the
    smallest solution: a statement inherits nothing through a value that nothing but itself passes on.

    :arg groups: the statements that one of the user's text became, which have the same inames.
    """
    domains = rules.domains
    found = dict(own)
    flat = [(node, conditions) for node, conditions, _ in _flat(program.body) if not isinstance(node, Marker)]
    writers: dict[str, list[tuple[int, frozenset[str]]]] = {}
    for node, _ in flat:
        for name, used in written_by(rules, node).items():
            writers.setdefault(name, []).append((node.start, used))
    readers = [(node.start, _reads(node, conditions, rules, own[node.start]), frozenset[str]().union(
        *(bound_inames(rules.expanded(e, node.start, only_reducing=True)) for e in (*node.parts, *conditions))))
               for node, conditions in flat if not node.options.inames.alone]
    while True:
        before = dict(found)
        for at, reads, reducing in readers:
            each = [frozenset.intersection(*(found[w] - used for w, used in writers[name]))
                    for name in reads & writers.keys()]
            bounds = [found[w] for name in domains.bounds(found[at]) & writers.keys() for w, _ in writers[name]]
            found[at] = domains.ancestors(found[at].union(*each).difference(reducing).union(own[at], *bounds))
        for group in groups:
            found.update(dict.fromkeys(group, _NOTHING.union(*(found[at] for at in group))))
        if found == before:
            return found


def _with_loops_between(program: ParsedProgram, rules: Rules, inames: Mapping[int, frozenset[str]],
                        ids: Mapping[int, str]) -> Mapping[int, frozenset[str]]:
    """*inames*, and those of a loop inside which a number is needed between two statements of one iteration.

    The number is a temporary of its own, the loop does not change it, and its statement depends on one in this loop.
    """
    flat = [(x, conditions) for x, conditions, _ in _flat(program.body) if not isinstance(x, Marker)]
    found, reads = dict(inames), {x.start: _reads(x, conditions, rules, inames[x.start]) for x, conditions in flat}
    written = {x.start: {name for name, _ in writes([x])} for x, _ in flat}
    for node, _ in flat:
        if not isinstance(node, ParsedAssignment) or node.temporary is None or not node.options.dep or not isinstance(
                node.assignee, p.Variable):
            continue
        readers = [found[x.start] for x, _ in flat if node.written in reads[x.start] and x is not node]
        before = (found[x.start] for x, _ in flat if x is not node and any(
            fnmatchcase(ids[x.start], token.text) for token in node.options.dep))
        missing = frozenset.intersection(*readers) - found[node.start] if readers else _NOTHING
        for iname in sorted(missing & _NOTHING.union(*before)):
            if all(written[x.start].isdisjoint(reads[node.start]) for x, _ in flat if iname in found[x.start]):
                found[node.start] = rules.domains.ancestors(found[node.start] | {iname})
    return found


def _with_final_inames(nodes: Iterable[ProgramNode], *, inside: bool = False) -> tuple[ProgramNode, ...]:
    """*nodes* in which the statements *inside* of blocks inherit no inames: they read the last value of a loop."""
    found = list[ProgramNode]()
    for node in nodes:
        match node:
            case ForBlock():
                found.append(replace(node, body=_with_final_inames(node.body, inside=True)))
            case IfBlock():
                found.append(replace(node, then=_with_final_inames(node.then, inside=inside),
                                     otherwise=_with_final_inames(node.otherwise, inside=inside)))
            case _:
                # {inames=+j} in a block adds an iname and inherits others
                final = node.options.inames.alone or (inside and not node.options.inames.listed)
                inames = replace(node.options.inames, alone=final)
                found.append(replace(node, options=replace(node.options, inames=inames)))
    return tuple(found)


def _is_nested(nodes: Iterable[ProgramNode], *, inside: bool = False) -> bool:
    """Whether the blocks of *nodes* nest loops; *inside*: they are in a loop."""
    return any((inside or len(node.inames) > 1 or _is_nested(node.body, inside=True)) if isinstance(node, ForBlock) else
               isinstance(node, IfBlock) and _is_nested((*node.then, *node.otherwise), inside=inside) for node in nodes)


def _flat(nodes: Iterable[ProgramNode], conditions: tuple[Expression, ...] = (), around: frozenset[str] = _NOTHING
          ) -> Iterator[tuple[ParsedAssignment | FunctionCall | Marker, tuple[Expression, ...], frozenset[str]]]:
    """The statements in *nodes*: with the conditions of their blocks and their own, and the inames given for them."""
    for node in nodes:
        match node:
            case ForBlock():
                yield from _flat(node.body, conditions, around.union(token.text for token in node.inames))
            case IfBlock():
                yield from _flat(node.then, (*conditions, node.condition), around)
                yield from _flat(node.otherwise, (*conditions, p.LogicalNot(node.condition)), around)
            case _:
                own = node.options.condition
                yield (node, conditions if own is None else (*conditions, own),
                       around.union(token.text for token in node.options.inames.listed))


def _reads(node: ParsedAssignment | FunctionCall, conditions: Iterable[Expression], rules: Rules,
           inames: Collection[str]) -> frozenset[str]:
    found: set[str] = set(rules.domains.bounds(inames))
    own = replace(node, beside=()) if isinstance(node, ParsedAssignment) else node
    waiting = [*own.parts, *conditions]
    while waiting:
        expr = waiting.pop()
        found |= variables(expr)
        waiting += [rules.known[name].expr for name in called(expr) if name in rules.known]
        used = {*variables(expr), *(x for e in subexpressions(expr) if isinstance(e, Reduction) for x in e.inames)}
        found |= rules.domains.bounds(used & rules.domains.parents.keys())
    return frozenset(found)


# Text

def _marker_id(node: Marker, taken: set[str]) -> str:
    given = node.options.id
    return given.text if given is not None and given.kind != PREFIX else fresh(node.kind, taken)


def _marker_line(node: Marker) -> str:
    """A barrier at its place; ``""`` for a line that only orders others."""
    return f"... {node.kind}" if node.kind in BARRIERS else ""


def _line(statement: LoopyStatement, node: ParsedAssignment | FunctionCall, hidden: Collection[str]) -> str:
    """The line of *statement*, without the *hidden* labels."""
    options = f"{{{', '.join(_options(statement, hidden))}}}"
    if isinstance(node, FunctionCall):
        return f"{node.text} {options}"
    declared = "" if node.temporary is None else f"<{node.temporary}> "
    return f"{declared}{to_text(node.assignee)} = {to_text(node.expression)} {options}"


def _options(statement: LoopyStatement, hidden: Collection[str]) -> Iterator[str]:
    options = statement.node.options
    yield f"id={statement.id}"
    yield "inames="                 # all loops are in the text
    if statement.conditions:
        yield f"if={to_text(conjunction(statement.conditions))}"
    if labels := sorted(map(str, options.tags - {*hidden})):
        yield f"tags={':'.join(labels)}"
    node = statement.node
    # a plain write is as good where no update is: the proofs of races hold for it
    no_update = isinstance(node, ParsedAssignment) and update_of(node.assignee, node.expression) is None
    plain = {"atomic"} if no_update else set[str]()
    yield from (name for name, instruction in STATEMENT_INSTRUCTIONS.items()
                if instruction in options.instructions and name not in plain)
