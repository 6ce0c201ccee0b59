"""From the tree of the text to statements, their instance sets and the order tree."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.errors import ParseError
from loopkit.expr.mappers import has_reduction
from loopkit.expr.parsing import NameUse
from loopkit.expr.text import to_text
from loopkit.expr.tokens import Source
from loopkit.expr.updates import update_of
from loopkit.kernel.data import TemporaryVariable
from loopkit.kernel.kernel import unknown
from loopkit.kernel.statement import ReductionNode, Statement
from loopkit.kernel.tree import Leaf, Loop, Tree, nest, seq
from loopkit.language.conditions import conjunction, opposite, split
from loopkit.language.domains import Domains
from loopkit.language.ids import Ids
from loopkit.language.inames import Mentions
from loopkit.language.program import Assignment, ForBlock, IfBlock, Node, Pattern, Rule
from loopkit.language.reductions import Evaluation, Hoister
from loopkit.language.rules import write_out


@dataclass(frozen=True)
class Context:
    """The properties that a statement gets from the blocks around it.

    :ivar order: the outermost inames, in this order: those of ``for`` blocks and of conditions.
    :ivar opened: the number of them that already have a loop from a ``for`` block.
    :ivar mentions: inames that every statement inside has.
    :ivar conditions: the affine conditions.
    :ivar predicates: the other conditions.
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


def group(items: Sequence[Item], depth: int = 0) -> Tree:
    """*items* in order; neighbours share the longest common prefix of their loops."""
    parts: list[Tree] = []
    at = 0
    while at < len(items):
        inames = items[at].inames
        if len(inames) == depth:
            parts.append(items[at].body)
            at += 1
            continue
        stop = at + 1
        while stop < len(items) and len(items[stop].inames) > depth and items[stop].inames[depth] == inames[depth]:
            stop += 1
        parts.append(Loop(inames[depth], group(items[at:stop], depth + 1)))
        at = stop
    return seq(*parts)


@dataclass
class StatementMaker:
    """Makes the statements of one kernel.

    :ivar affine_names: the names allowed in conditions of an instance set.
    :ivar rules_written_out: the rules that are expanded in expressions. In conditions and subscripts of assignees, all
        *rules* are.
    :ivar inherited: the inames inherited through temporaries, by the place of the assignment or the condition.
    :ivar taken: every variable name in use.
    :ivar opened: for each statement of the text, the inames of the ``for`` blocks around it.
    :ivar final: the statements with ``{inames=}``, which inherit none.
    :ivar blocks: the inames of the ``for`` blocks around one another, outermost first.
    """

    source: Source
    domains: Domains
    mentions: Mentions
    ids: Ids
    affine_names: frozenset[str]
    rules: dict[str, Rule]
    rules_written_out: dict[str, Rule]
    inherited: Mapping[int, frozenset[str]]
    taken: set[str]
    statements: list[Statement] = field(default_factory=list)
    temporaries: dict[str, TemporaryVariable] = field(default_factory=dict)
    reductions: dict[str, ReductionNode] = field(default_factory=dict)
    opened: dict[str, frozenset[str]] = field(default_factory=dict)
    final: set[str] = field(default_factory=set)
    blocks: list[tuple[str, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._hoister = Hoister(self.domains, self.affine_names, self.fresh, self.ids.new, self.reductions,
                                self.temporaries)

    def fresh(self, base: str) -> str:
        """An unused name: *base*, or *base* with the first free number appended. Marks it as used."""
        name, number = base, 0
        while name in self.taken:
            name, number = f"{base}_{number}", number + 1
        self.taken.add(name)
        return name

    def make(self, body: Sequence[Node]) -> Tree:
        """The order tree of *body*; the statements are collected on the way."""
        return group(self._items(body, Context()))

    def _items(self, nodes: Sequence[Node], context: Context) -> list[Item]:
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

    # {{{ loops

    def _nest(self, mentioned: frozenset[str], context: Context) -> tuple[str, ...]:
        """The inames of a statement that mentions *mentioned*, outermost first."""
        every = self.domains.ancestors(mentioned | context.mentions)
        return context.order + self.domains.sorted(every.difference(context.order))

    def _require_inames(self, patterns: Sequence[Pattern]) -> None:
        for pattern in patterns:
            if pattern.text not in self.domains.order:
                where = f"the kernel (line {self.source.line_of(pattern.start)})"
                raise unknown("iname", pattern.text, self.domains.order, where=where)

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
        self.blocks.append(order)
        inner = replace(context, order=order, opened=len(order), mentions=context.mentions.union(order))
        body = nest(order[len(context.order):], group(self._items(node.body, inner)))
        return Item(context.order[context.opened:], body)

    # }}}

    # {{{ conditions

    def _if(self, node: IfBlock, context: Context) -> list[Item]:
        condition = write_out(self.source, node.condition, self.rules, node.start)
        affine, others = split(condition, self.affine_names)
        mentioned = self.mentions.free(condition) | self.inherited.get(node.start, frozenset())
        context = replace(context, mentions=context.mentions | mentioned)
        if not others:
            then = replace(context, conditions=context.conditions + affine)
            otherwise = replace(context, conditions=(*context.conditions, opposite(condition, self.affine_names)))
            return self._items(node.then, then) + self._items(node.otherwise, otherwise)
        if node.otherwise:
            affine, others = (), (condition,)           # the else needs the whole condition's value
        context = replace(context, conditions=context.conditions + affine,
                          order=self._shared_loops(node, context))
        # the block may write what the condition reads: evaluate it once
        flag = p.Variable(self.fresh("cond"))
        self.temporaries[flag.name] = TemporaryVariable(flag.name, np.dtype(bool), ())
        # the flag is always set, so that its value is that of this iteration; what is around it comes first in it
        place = Evaluation(self.ids.new(f"insn_{flag.name}"), context.order, context.conditions, ())
        first = self._add(place, flag, conjunction((*context.predicates, *others)), context, node.start, node.uses)
        then = replace(context, predicates=(flag,))
        otherwise = replace(context, predicates=(*context.predicates, p.LogicalNot(flag)))
        return [first, *self._items(node.then, then), *self._items(node.otherwise, otherwise)]

    def _shared_loops(self, node: IfBlock, context: Context) -> tuple[str, ...]:
        """The loops in which the value of a condition is computed and used.

        They are the condition's own inames. If its block has no ``for`` block, they are also all further inames that
        its statements share, as loops over these may compute values that the condition reads.
        """
        own = self._nest(frozenset(), context)
        direct = _direct_statements((*node.then, *node.otherwise))
        if direct is None:
            return own
        inside = replace(context, order=own)
        nests = [self._nest(self._mentioned(a), inside) for a in direct]
        shared = len(own)
        while all(len(n) > shared and n[shared] == nests[0][shared] for n in nests):
            shared += 1
        return nests[0][:shared]

    # }}}

    # {{{ assignments

    def _mentioned(self, node: Assignment) -> frozenset[str]:
        options = node.options
        listed = self.inherited.get(node.start, frozenset()).union(pattern.text for pattern in options.inames or ())
        if not node.reductions and not (self.rules_written_out and any(
                u.name in self.rules_written_out for u in node.uses)):
            return self.mentions.in_uses(node.uses) | listed
        parts = [node.assignee, node.expression, *((options.condition,) if options.condition is not None else ())]
        return listed.union(*(self.mentions.free(self._written_out(e, node)) for e in parts))

    def _written_out(self, expr: Expression, node: Assignment) -> Expression:
        return write_out(self.source, expr, self.rules_written_out, node.start)

    def _assignment(self, node: Assignment, context: Context) -> Item:
        self._require_inames(node.options.inames or ())
        inames = self._nest(self._mentioned(node), context)
        conditions, predicates = context.conditions, context.predicates
        if node.options.condition is not None:
            condition = write_out(self.source, node.options.condition, self.rules, node.start)
            affine, others = split(condition, self.affine_names)
            conditions, predicates = conditions + affine, predicates + others
        place = Evaluation(self.ids.of(node), inames, conditions, predicates)
        assignee = write_out(self.source, node.assignee, self.rules, node.start)
        assert isinstance(assignee, p.Variable | p.Subscript)
        return self._add(place, assignee, self._written_out(node.expression, node), context, node.start,
                         node.uses, node)

    def _add(self, place: Evaluation, assignee: p.Variable | p.Subscript, expression: Expression, context: Context,
             start: int, uses: Sequence[NameUse], node: Assignment | None = None) -> Item:
        """Add the statement ``assignee = expression`` with its reductions."""
        self.opened[place.owner] = frozenset(context.order[:context.opened])
        if node is not None and node.options.inames is not None:
            self.final.add(place.owner)
        domain = self.domains.instances(place.inames, place.conditions)
        statement = Statement(place.owner, assignee, expression, domain, place.predicates)
        if node is not None:
            options = node.options
            statement = replace(statement, tags=options.tags, depends_on=self.ids.earlier(options.dep, node),
                                no_sync_with=self.ids.others(options.nosync, node))
        body: Tree = Leaf(statement.id)
        if node is None or node.reductions or self.rules_written_out:
            statement, body = self._hoisted(
                statement, place, lambda iname, by: self._bound_twice(iname, by, start, uses))
        if node is not None:
            statement = replace(statement, instructions=node.options.instructions)
        if statement.commutes:
            statement = self._update(statement, start)
        self.statements.append(statement)
        return Item(place.inames[context.opened:], body)

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

    def _hoisted(self, statement: Statement, place: Evaluation,
                 fail: Callable[[str, str], ParseError]) -> tuple[Statement, Tree]:
        """*statement* with accumulators for its reductions, and the tree of it and of their statements, which are
        added.
        """
        trees: list[Tree] = []

        def without(expr: Expression, here: Evaluation) -> Expression:
            new, statements, before = self._hoister.hoist(expr, here, statement, fail)
            self.statements.extend(statements)
            trees.extend(before)
            return new
        predicates: tuple[Expression, ...] = ()
        rest = [*place.predicates, statement.assignee, statement.expression]
        for predicate in place.predicates:
            here = replace(place, predicates=predicates)
            del rest[0]
            if has_reduction(predicate) and any(map(has_reduction, rest)):
                flag, (statements, before) = self._hoister.answer(predicate, here, place, statement, fail)
                self.statements.extend(statements)
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

    def _bound_twice(self, iname: str, operation: str, start: int, uses: Sequence[NameUse]) -> ParseError:
        """The error for a reduction over an iname that the statement already has."""
        places = [u.start for u in uses if u.name == iname]
        return self.source.error(
            places[0] if places else start, f"The iname '{iname}' is a reduction iname and used outside its reduction.",
            f"an iname other than '{iname}'",
            hint=f"for the {operation} of two values put '{iname}' second: {operation}(3, {iname})"
            if operation in ("min", "max") else None)

    # }}}


def _direct_statements(nodes: Sequence[Node]) -> list[Assignment] | None:
    """The assignments in *nodes*; ``None`` if a ``for`` block is among them."""
    found: list[Assignment] = []
    for node in nodes:
        match node:
            case Assignment():
                found.append(node)
            case ForBlock():
                return None
            case IfBlock():
                inside = _direct_statements((*node.then, *node.otherwise))
                if inside is None:
                    return None
                found.extend(inside)
    return found
