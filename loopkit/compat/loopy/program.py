"""A program in loopy's language: its statements with loopy's inames and dependences, and loopkit's text."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.compat.loopy.order import Item, ordered, text_of
from loopkit.compat.loopy.spelling import LoopyOptions, Spelled, refuse_return, respelled
from loopkit.errors import PreconditionError, require_known
from loopkit.expr.mappers import called, variables
from loopkit.expr.nodes import Operation, to_text
from loopkit.expr.tokens import Source
from loopkit.instructions.table import STATEMENT_INSTRUCTIONS
from loopkit.language.arguments import Declared, find_temporaries
from loopkit.language.domains import Domains
from loopkit.language.iterations import inames_of_parts
from loopkit.language.names import fresh
from loopkit.language.program import (
    ForBlock,
    IfBlock,
    ParsedAssignment,
    ParsedProgram,
    ProgramNode,
    Rules,
    number_statements,
    read_rules,
)
from loopkit.language.syntax import parse_program


@dataclass(frozen=True)
class LoopyStatement:
    """One assignment of the program.

    :ivar conditions: those of its blocks and of its own.
    :ivar reads: every name that it reads, also through substitution rules.
    """

    id: str
    node: ParsedAssignment
    inames: frozenset[str]
    conditions: tuple[Expression, ...]
    reads: frozenset[str]
    options: LoopyOptions


@dataclass(frozen=True)
class LoopyProgram:
    """All of a program.

    :ivar ordering: the lines that only order others, as items.
    """

    statements: tuple[LoopyStatement, ...]
    ordering: tuple[Item, ...]
    rules: ParsedProgram


def loopkit_text(instructions: str | Iterable[str], domains: Domains, declared: Declared,
                 operations: Mapping[str, Operation], *, in_sequence: bool = False) -> str:
    """*instructions* of loopy as loopkit's text: in the order in which loopy runs them, with explicit loops.

    :arg operations: the user's reductions.
    :arg in_sequence: each statement depends on the one above it.

    >>> from loopkit.language.domains import read_domains
    >>> print(loopkit_text("y[i] = a[i]\\na[i] = 2*x[i]", read_domains("{[i]: 0<=i<n}"), {}, {}))
    for i
        a[i] = 2*x[i] {id=insn_0}
        y[i] = a[i] {id=insn}
    end
    """
    program = _read(respelled(instructions), domains, declared, operations)
    items = [*_items(program), *program.ordering]
    items = list(_in_sequence(items)) if in_sequence else items
    rules = [f"{r.rule.name}({', '.join(r.rule.arguments)}) := {to_text(r.rule.expr)}" for r in program.rules.rules]
    return "\n".join([*rules, *text_of(ordered(items, domains.sorted(domains.parents)))])


def _in_sequence(items: Sequence[Item]) -> Iterator[Item]:
    above: Item | None = None
    for item in sorted(items, key=lambda item: item.place):
        yield item if above is None else replace(item, after=item.after | {above.id})
        above = item


def _read(spelled: Spelled, domains: Domains, declared: Declared, operations: Mapping[str, Operation]) -> LoopyProgram:
    refuse_return(spelled.ordering)
    source = Source(spelled.text, "the instructions")
    parsed = parse_program(source, domains.parents.keys(), domains.add_inline, operations, {}, {})
    ids = number_statements(parsed)
    rules = read_rules(parsed, domains)
    inames = inames_of_parts(parsed, find_temporaries(parsed, declared), rules)
    statements = tuple(
        LoopyStatement(ids.of[node.start], node,
                       inames[node.start].union(domains.ancestors(own.more_inames)), conditions,
                       _reads(node, conditions, rules, inames[node.start]), own)
        for node, conditions in _flat(parsed.body)
        for own in [spelled.options.get(node.start, LoopyOptions())])
    taken = {s.id for s in statements}
    ordering = [(line, line.id or fresh(line.kind, taken)) for line in spelled.ordering]
    known = {*taken, *(name for _, name in ordering)}
    return LoopyProgram(statements, tuple(Item(name, line.place, frozenset(), frozenset(
        _named(line.options, name, known)), "") for line, name in ordering), parsed)


def _flat(nodes: Iterable[ProgramNode], conditions: tuple[Expression, ...] = ()
          ) -> Iterator[tuple[ParsedAssignment, tuple[Expression, ...]]]:
    """The assignments in *nodes* with the conditions of their blocks and their own."""
    for node in nodes:
        match node:
            case ForBlock():
                yield from _flat(node.body, conditions)
            case IfBlock():
                yield from _flat(node.then, (*conditions, node.condition))
                yield from _flat(node.otherwise, (*conditions, p.LogicalNot(node.condition)))
            case ParsedAssignment():
                own = node.options.condition
                yield node, conditions if own is None else (*conditions, own)
            case _:
                raise PreconditionError(f"The layer for loopy has nothing for {type(node).__name__}.",
                                        subject=type(node).__name__, hint="use lk.make_kernel")


def _reads(node: ParsedAssignment, conditions: Iterable[Expression], rules: Rules, inames: Collection[str]
           ) -> frozenset[str]:
    found: set[str] = set(rules.domains.bounds(inames))
    waiting = [*node.parts, *conditions]
    while waiting:
        expr = waiting.pop()
        found |= variables(expr)
        waiting += [rules.known[name].expr for name in called(expr) if name in rules.known]
        found |= {x for name in rules.domains.parents if name in variables(expr)
                  for x in rules.domains.bounds([name])}
    return frozenset(found)


# Dependences

def _items(program: LoopyProgram) -> Iterator[Item]:
    """The statements with loopy's dependences: given ones, and on the only writer of a name that they read."""
    writers: dict[str, list[str]] = {}
    for s in program.statements:
        writers.setdefault(s.node.written, []).append(s.id)
    known = {*(s.id for s in program.statements), *(item.id for item in program.ordering)}
    for s in program.statements:
        after = set(_named(s.options, s.id, known))
        if not s.options.dep_is_final:
            after |= {ids[0] for name in s.reads if len(ids := writers.get(name, [])) == 1} - {s.id}
        yield Item(s.id, s.node.start, s.inames, frozenset(after), _line(s))


def _named(options: LoopyOptions, own: str, known: Iterable[str]) -> set[str]:
    """The statements that ``dep=`` names; :raises UnknownNameError: one does not exist."""
    found: set[str] = set()
    for glob in options.dep:
        matches = {name for name in known if fnmatchcase(name, glob)}
        if not matches and not set("*?[") & set(glob):
            require_known("statement", [glob], sorted(known))
        found |= matches - {own}
    return found


# Text

def _line(statement: LoopyStatement) -> str:
    node = statement.node
    declared = "" if node.temporary is None else f"<{node.temporary}> "
    return (f"{declared}{to_text(node.assignee)} = {to_text(node.expression)} "
            f"{{{', '.join(_options(statement))}}}")


def _options(statement: LoopyStatement) -> Iterator[str]:
    options = statement.node.options
    yield f"id={statement.id}"
    if not statement.inames:
        yield "inames="
    if statement.conditions:
        yield f"if={to_text(_all_of(statement.conditions))}"
    if options.tags:
        yield f"tags={':'.join(sorted(map(str, options.tags)))}"
    yield from (name for name, instruction in STATEMENT_INSTRUCTIONS.items() if instruction in options.instructions)


def _all_of(conditions: Sequence[Expression]) -> Expression:
    return conditions[0] if len(conditions) == 1 else p.LogicalAnd(tuple(conditions))
