"""The option ``dup=``: private copies of inames for one statement."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

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
    private = _PrivateInames(rules, taken)
    return replace(program, body=tuple(private.renamed(node, frozenset()) for node in program.body))


@dataclass(frozen=True)
class _PrivateInames:
    """The copies of inames so far.

    :ivar taken: names that no further copy may have.
    :ivar copies: those of an option, by its place: all statements of a multiple assignment share one option.
    """

    rules: Rules
    taken: set[str]
    copies: dict[int, Mapping[str, str]] = field(default_factory=dict)

    def renamed(self, node: ProgramNode, around: frozenset[str]) -> ProgramNode:
        """*node*, in blocks over the inames *around*, with copies in place of its private inames."""
        match node:
            case ForBlock():
                inner = around.union(token.text for token in node.inames)
                return replace(node, body=tuple(self.renamed(n, inner) for n in node.body))
            case IfBlock(then=(ParsedAssignment() as first, *_)) if (
                    first.start < node.start and first.options.inames.private):
                # a multiple assignment, whose condition is an option behind its targets
                copies = self._copies(first, around, node.condition)
                return replace(node, condition=self._copied(node.condition, node.start, copies),
                               then=tuple(self.renamed(n, around) for n in node.then))
            case IfBlock():
                # the loops of a condition are those of its block
                inner = around | self.rules.free_inames(self.rules.mentions(node.condition))
                return replace(node, then=tuple(self.renamed(n, inner) for n in node.then),
                               otherwise=tuple(self.renamed(n, inner) for n in node.otherwise))
            case ParsedAssignment() if node.options.inames.private:
                return self._assignment(node, self._copies(node, around))
            case _:
                return node

    def _assignment(self, node: ParsedAssignment, copies: Mapping[str, str]) -> ParsedAssignment:
        assignee = self._copied(node.assignee, node.start, copies)
        assert isinstance(assignee, p.Variable | p.Subscript)
        inames, condition = node.options.inames, node.options.condition
        listed = tuple(token._replace(text=copies.get(token.text, token.text)) for token in inames.listed)
        options = replace(node.options, inames=replace(inames, listed=listed, private=()),
                          condition=None if condition is None else self._copied(condition, node.start, copies))
        return replace(node, assignee=assignee, expression=self._copied(node.expression, node.start, copies),
                       options=options, beside=tuple(self._copied(e, node.start, copies) for e in node.beside))

    def _copied(self, expr: Expression, start: int, copies: Mapping[str, str]) -> Expression:
        return _with_names_of_copies(self.rules.expanded(expr, start), copies)

    def _copies(self, node: ParsedAssignment, around: frozenset[str], *beside: Expression) -> Mapping[str, str]:
        """The copies of the private inames of *node*, in blocks over the inames *around*, and of expressions *beside*.
        """
        source, domains, private = self.rules.source, self.rules.domains, node.options.inames.private
        place = private[0][0].start
        if place in self.copies:
            return self.copies[place]
        copies = dict[str, str]()
        for token, given in private:
            if token.text not in domains.parents:
                raise source.unknown(token.start, "iname", token.text, domains.parents)
            if token.text in around:
                raise source.error(token.start, f"A block around the statement is over '{token.text}', which it cannot "
                                   "copy.", "another iname", hint="write the statement outside of the block")
            if given in self.taken:
                raise source.error(token.start, f"The name '{given}' is taken.", "another name for the copy")
            copies[token.text] = given or names.fresh(token.text, self.taken)
            self.taken.add(copies[token.text])
        parts = [self.rules.expanded(e, node.start) for e in (*node.parts, *beside)]
        every = domains.ancestors({*(token.text for token in node.options.inames.listed), *(
            x for e in parts for x, _ in self.rules.mentions(e) if x in domains.parents), *(
            x for e in parts for x in bound_inames(e))})
        for x in sorted(every - copies.keys()):
            for above in sorted(domains.parents.get(x, frozenset()) & copies.keys()):
                raise source.error(node.start, f"The bounds of '{x}' depend on '{above}', of which the statement gets "
                                   "a copy.", f"dup={above}:{x}")
        domains.add_copies(copies)
        self.copies[place] = copies
        return copies


def _with_names_of_copies(expr: Expression, copies: Mapping[str, str]) -> Expression:
    """*expr* with other names of inames, also where a reduction binds them."""
    if isinstance(expr, p.Variable):
        return p.Variable(copies[expr.name]) if expr.name in copies else expr
    if isinstance(expr, Reduction) and not copies.keys().isdisjoint(expr.inames):
        expr = replace(expr, inames=tuple(copies.get(x, x) for x in expr.inames))
    return map_children(expr, lambda e: _with_names_of_copies(e, copies))
