"""The option ``dup=``: private copies of inames for one statement."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.mappers import map_children
from loopkit.expr.nodes import Reduction
from loopkit.language import names
from loopkit.language.program import (
    ForBlock,
    IfBlock,
    ParsedAssignment,
    ParsedProgram,
    ProgramNode,
    Rules,
    assignments,
    bound_inames,
)


def with_private_inames(program: ParsedProgram, rules: Rules) -> ParsedProgram:
    """*program* with the inames of ``dup=`` replaced by copies, whose domains *rules* gets.

    :raises UnknownNameError: ``dup=`` names no iname.
    :raises ParseError: the name of a copy is taken, or the iname cannot be copied for its statement alone.
    """
    taken = {*rules.domains.parents, *rules.domains.inline_inames, *rules.domains.params, *rules.known,
             *(use.name for node in assignments(program.body) for use in node.uses)}

    def renamed(node: ProgramNode, around: frozenset[str]) -> ProgramNode:
        match node:
            case ForBlock():
                inner = around.union(token.text for token in node.inames)
                return replace(node, body=tuple(renamed(n, inner) for n in node.body))
            case IfBlock():
                # the loops of a condition are those of its block
                inner = around | rules.free_inames(rules.mentions(node.condition))
                return replace(node, then=tuple(renamed(n, inner) for n in node.then),
                               otherwise=tuple(renamed(n, inner) for n in node.otherwise))
            case ParsedAssignment() if node.options.inames.private:
                return _with_private_copies(node, rules, taken, around)
            case _:
                return node
    return replace(program, body=tuple(renamed(node, frozenset()) for node in program.body))


def _with_private_copies(node: ParsedAssignment, rules: Rules, taken: set[str], around: frozenset[str]
                         ) -> ParsedAssignment:
    """*node* with its private inames, in blocks over the inames *around*."""
    source, copies = rules.source, dict[str, str]()
    for token, given in node.options.inames.private:
        if token.text not in rules.domains.parents:
            raise source.unknown(token.start, "iname", token.text, rules.domains.parents)
        if token.text in around:
            raise source.error(token.start, f"A block around the statement is over '{token.text}', which it cannot "
                               "copy.", "another iname", hint="write the statement outside of the block")
        if given in taken:
            raise source.error(token.start, f"The name '{given}' is taken.", "another name for the copy")
        copies[token.text] = given or names.fresh(token.text, taken)
        taken.add(copies[token.text])
    own = rules.expanded(node.assignee, node.start)
    parts = [own, rules.expanded(node.expression, node.start),
             *([] if node.options.condition is None else [rules.expanded(node.options.condition, node.start)])]
    every = rules.domains.ancestors({*(token.text for token in node.options.inames.listed), *(
        x for e in parts for x, _ in rules.mentions(e) if x in rules.domains.parents), *(
        x for e in parts for x in bound_inames(e))})
    for x in sorted(every - copies.keys()):
        for above in sorted(rules.domains.parents.get(x, frozenset()) & copies.keys()):
            raise source.error(node.start, f"The bounds of '{x}' depend on '{above}', of which the statement gets a "
                               "copy.", f"dup={above}:{x}")
    rules.domains.add_copies(copies)
    assignee, expression, *condition = (_with_names_of_copies(e, copies) for e in parts)
    assert isinstance(assignee, p.Variable | p.Subscript)
    inames = node.options.inames
    listed = tuple(token._replace(text=copies.get(token.text, token.text)) for token in inames.listed)
    options = replace(node.options, condition=condition[0] if condition else None,
                      inames=replace(inames, listed=listed, private=()))
    return replace(node, assignee=assignee, expression=expression, options=options)


def _with_names_of_copies(expr: Expression, copies: Mapping[str, str]) -> Expression:
    """*expr* with other names of inames, also where a reduction binds them."""
    if isinstance(expr, p.Variable):
        return p.Variable(copies[expr.name]) if expr.name in copies else expr
    if isinstance(expr, Reduction) and not copies.keys().isdisjoint(expr.inames):
        expr = replace(expr, inames=tuple(copies.get(x, x) for x in expr.inames))
    return map_children(expr, lambda e: _with_names_of_copies(e, copies))
