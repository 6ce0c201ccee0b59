"""From the tree of the text to statements, their instance sets and the order tree."""
from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.mappers import conjunction, has_reduction, update_of
from loopkit.expr.text import to_text
from loopkit.expr.tokens import Source
from loopkit.kernel.kernel import unknown
from loopkit.kernel.statement import Statement
from loopkit.kernel.tree import Leaf, Loop, Tree, nest, seq
from loopkit.language.conditions import opposite, split
from loopkit.language.program import Assignment, ForBlock, IfBlock, Pattern, ProgramNode, walk
from loopkit.language.reductions import Evaluation, Hoister, bound_twice
from loopkit.language.rules import Rules


@dataclass(frozen=True)
class Context:
    """The properties that a statement gets from the blocks around it.

    :ivar order: the outermost inames, in this order: those of ``for`` blocks and of conditions.
    :ivar opened: the number of them that already have a loop from a ``for`` block.
    :ivar mentions: inames that every statement inside has.
    :ivar predicates: the conditions that are not affine.
    """

    order: tuple[str, ...] = ()
    opened: int = 0
    mentions: frozenset[str] = frozenset()
    conditions: tuple[Expression, ...] = ()
    predicates: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class Item:
    """A part of a sequence: *body* inside loops over *inames*, which neighbours may share."""

    inames: tuple[str, ...]
    body: Tree


def group(items: Iterable[Item], depth: int = 0) -> Tree:
    """*items* in order; neighbours share the longest common prefix of their loops."""
    parts: list[Tree] = []
    for iname, together in itertools.groupby(items, lambda item: item.inames[depth:depth + 1]):
        if iname:
            parts.append(Loop(iname[0], group(together, depth + 1)))
        else:
            parts.extend(item.body for item in together)
    return seq(*parts)


@dataclass
class StatementMaker(Hoister):
    """Makes the statements of one kernel. *inames* are those that each part mentions or inherits, by its place."""

    rules: Rules
    inames: Mapping[int, frozenset[str]]

    @property
    def source(self) -> Source:
        return self.rules.source

    def make(self, body: Sequence[ProgramNode]) -> Tree:
        """The order tree of *body*; the statements are collected on the way."""
        return group(self._items(body, Context()))

    def _items(self, nodes: Sequence[ProgramNode], context: Context) -> list[Item]:
        items: list[Item] = []
        for node in nodes:
            match node:
                case Assignment():
                    items.append(self._assignment(node, context))
                case ForBlock():
                    items.append(self._for(node, context))
                case IfBlock():
                    items.extend(self._if(node, context))
        return items

    def _nest(self, mentioned: frozenset[str], context: Context) -> tuple[str, ...]:
        """The inames of a statement that mentions *mentioned*, outermost first."""
        every = self.domains.ancestors(mentioned | context.mentions)
        return context.order + self.domains.sorted(every.difference(context.order))

    def _require_inames(self, patterns: Sequence[Pattern]) -> None:
        for pattern in patterns:
            if pattern.text not in self.domains.order:
                raise unknown("iname", pattern.text, self.domains.order,
                              where=f"the kernel (line {self.source.line_of(pattern.start)})")

    def _for(self, node: ForBlock, context: Context) -> Item:
        self._require_inames(node.inames)
        order = context.order
        for pattern in node.inames:
            iname = pattern.text
            if iname in order:
                raise self.source.error(pattern.start, f"A loop over '{iname}' stands around this one already.",
                                        "another iname")
            missing = self.domains.sorted(self.domains.parents[iname].difference(order))
            if missing:
                raise self.source.error(
                    pattern.start, f"The bounds of '{iname}' depend on '{missing[0]}', which has no loop here.",
                    f"'{missing[0]}'", hint=f"for {', '.join(missing)}, {iname}")
            order += (iname,)
        self.made.blocks.append(order)
        inner = replace(context, order=order, opened=len(order))
        body = nest(order[len(context.order):], group(self._items(node.body, inner)))
        return Item(context.order[context.opened:], body)

    def _if(self, node: IfBlock, context: Context) -> list[Item]:
        condition = self.rules.expanded(node.condition, node.start)
        affine, others = split(condition, self.affine_names)
        context = replace(context, mentions=context.mentions | self.inames[node.start])
        if not others:
            then = replace(context, conditions=context.conditions + affine)
            otherwise = replace(context, conditions=(*context.conditions, opposite(condition, self.affine_names)))
            return self._items(node.then, then) + self._items(node.otherwise, otherwise)
        if node.otherwise:
            affine, others = (), (condition,)           # the else needs the whole condition's value
        context = replace(context, conditions=context.conditions + affine,
                          order=self._shared_loops(node, context))
        # the block may write what the condition reads: evaluate it once
        flag, owner = self.flag()
        # the flag is always set, so that its value is that of this iteration; what is around it comes first in it
        place = Evaluation(owner, context.order, context.conditions, ())
        first = self._add(place, flag, conjunction((*context.predicates, *others)), context, node)
        then = replace(context, predicates=(flag,))
        otherwise = replace(context, predicates=(*context.predicates, p.LogicalNot(flag)))
        return [first, *self._items(node.then, then), *self._items(node.otherwise, otherwise)]

    def _shared_loops(self, node: IfBlock, context: Context) -> tuple[str, ...]:
        """The loops in which the value of a condition is computed and used.

        They are the condition's own inames. If its block has no ``for`` block, they are also all further inames that
        its statements share, as loops over these may compute values that the condition reads.
        """
        own = self._nest(frozenset(), context)
        inner = list(walk((*node.then, *node.otherwise)))
        if any(isinstance(n, ForBlock) for n in inner):
            return own
        inside = replace(context, order=own)
        nests = [self._nest(self.inames[a.start], inside) for a in inner if isinstance(a, Assignment)]
        levels = itertools.takewhile(lambda level: len(set(level)) == 1, zip(*nests, strict=False))
        return tuple(level[0] for level in levels)

    def _assignment(self, node: Assignment, context: Context) -> Item:
        self._require_inames(node.options.inames or ())
        place = Evaluation(self.ids.of[node.start], self._nest(self.inames[node.start], context), context.conditions,
                           context.predicates)
        if node.options.condition is not None:
            place = place.under(self.rules.expanded(node.options.condition, node.start), self.affine_names)
        assignee = self.rules.expanded(node.assignee, node.start)
        assert isinstance(assignee, p.Variable | p.Subscript)
        expression = self.rules.expanded(node.expression, node.start, only_reducing=True)
        return self._add(place, assignee, expression, context, node)

    def _add(self, place: Evaluation, assignee: p.Variable | p.Subscript, expression: Expression, context: Context,
             node: Assignment | IfBlock) -> Item:
        """Add the statement ``assignee = expression`` with its reductions."""
        self.made.opened[place.owner] = frozenset(context.order[:context.opened])
        options = node.options
        statement = Statement(place.owner, assignee, expression,
                              self.domains.instances(place.inames, place.conditions), place.predicates,
                              tags=options.tags, depends_on=self.ids.earlier(node), no_sync_with=self.ids.others(node))
        if options.inames is not None:
            self.made.final.add(place.owner)
        self._require_bound_once(statement, node)
        statement, body = self._hoisted(statement, place)
        statement = replace(statement, instructions=options.instructions)
        if statement.commutes:
            statement = self._update(statement, node.start)
        self.made.statements.append(statement)
        return Item(place.inames[context.opened:], body)

    def _require_bound_once(self, statement: Statement, node: Assignment | IfBlock) -> None:
        """:raises ParseError: a reduction runs over an iname that *statement* already has."""
        every = (*statement.predicates, statement.assignee, statement.expression)
        for iname, operation in (found for e in every for found in bound_twice(e, statement.inames)):
            raise self.source.error(
                next((u.start for u in node.uses if u.name == iname), node.start),
                f"The iname '{iname}' is a reduction iname and used outside its reduction.",
                f"an iname other than '{iname}'",
                hint=f"for the {operation} of two values put '{iname}' second: {operation}(3, {iname})"
                if operation in ("min", "max") else None)

    def _update(self, statement: Statement, start: int) -> Statement:
        """*statement* as an update by an operation; :raises ParseError: it is not one."""
        found = update_of(statement.assignee, statement.expression)
        if found is None:
            target = to_text(statement.assignee)
            titles = ", ".join(title for i in statement.instructions for title in i.titles)
            raise self.source.error(
                start, f"'{statement.id}' is {titles}, but does not combine '{target}' with something else.",
                f"{target} = {target} + ... (or *, min, max, and, or)")
        operation, operand = found
        return replace(statement, expression=operand, combine=operation)

    def _hoisted(self, statement: Statement, place: Evaluation) -> tuple[Statement, Tree]:
        """*statement* with accumulators for its reductions, whose statements are added, and the tree of all."""
        trees: list[Tree] = []
        predicates: tuple[Expression, ...] = ()
        rest = [*place.predicates, statement.assignee, statement.expression]
        if not any(map(has_reduction, rest)):
            return statement, Leaf(statement.id)

        def without(expr: Expression, here: Evaluation) -> Expression:
            new, before = self.hoist(expr, here, statement)
            trees.extend(before)
            return new
        for predicate in place.predicates:
            here = replace(place, predicates=predicates)
            del rest[0]
            if has_reduction(predicate) and any(map(has_reduction, rest)):
                flag, before = self.answer(predicate, here, place, statement)
                trees.append(before)
                predicates = (flag,)
            else:
                predicates += (without(predicate, here),)
        place = replace(place, predicates=predicates)
        assignee = without(statement.assignee, place)
        assert isinstance(assignee, p.Variable | p.Subscript)
        final = replace(statement, assignee=assignee, expression=without(statement.expression, place),
                        predicates=predicates)
        return final, seq(*trees, Leaf(final.id))
