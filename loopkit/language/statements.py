"""Makes statements, their instance sets and the order tree from the tree of the text.

A reduction becomes three statements: init, update, and the statement that uses the result.
"""
from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.mappers import (
    children,
    conjunction,
    conjuncts,
    has_reduction,
    map_children,
    opposite,
    split_affine,
    update_of,
    with_children,
)
from loopkit.expr.nodes import Neutral, Operation, Reduction
from loopkit.expr.tokens import Token
from loopkit.kernel.data import TemporaryVariable
from loopkit.kernel.statement import ReductionNode, RequestedBarrier, Statement, StatementOptions, owner
from loopkit.kernel.tree import Leaf, Loop, LoopPlace, Tree, leaves, nest, seq
from loopkit.language.domains import Domains
from loopkit.language.names import fresh, fresh_names
from loopkit.language.program import (
    BARRIERS,
    ForBlock,
    FunctionCall,
    Ids,
    IfBlock,
    Marker,
    ParsedAssignment,
    ProgramNode,
    Rules,
    walk,
)
from loopkit.poly.sets import InstanceSet

#: A part of a sequence: loops, which neighbours may share, and what is inside them. Loops of the text are known by
#: their inames alone.
Item = tuple[tuple[LoopPlace, ...], Tree]


def group(items: Iterable[Item], depth: int = 0) -> Tree:
    """*items* in order; neighbours share the longest common prefix of their loops."""
    parts: list[Tree] = []
    for loop, together in itertools.groupby(items, lambda item: item[0][depth:depth + 1]):
        if loop:
            inside = group(together, depth + 1)
            parts += [Loop(loop[0][0], inside)] if inside != seq() else []
        else:
            parts.extend(tree for _, tree in together)
    return seq(*parts)


def _of_text(inames: Iterable[str]) -> tuple[LoopPlace, ...]:
    """The loops over *inames* of a text."""
    return tuple((x, "") for x in inames)


@dataclass(frozen=True)
class Evaluation:
    """The place of an evaluation, or of a block of the program.

    :ivar owner: the statement that evaluates.
    :ivar inames: the loops around it, outermost first.
    :ivar opened: the number of them that already have a loop from a ``for`` block.
    :ivar predicates: the conditions that are not affine.
    :ivar inline: the texts of the domains of the reductions around it.
    :ivar own: the instance set of a statement that comes from a kernel.
    :ivar loops: the loops around the evaluation, as :data:`Item` has them.
    """

    owner: str = ""
    inames: tuple[str, ...] = ()
    opened: int = 0
    conditions: tuple[Expression, ...] = ()
    predicates: tuple[Expression, ...] = ()
    inline: tuple[str, ...] = ()
    own: InstanceSet | None = None
    loops: tuple[LoopPlace, ...] = ()

    def under(self, condition: Expression, affine_names: frozenset[str], *, only_affine: bool = False) -> Evaluation:
        """This place under *condition*, or under its affine part, as a further one."""
        affine, others = split_affine(condition, affine_names)
        return replace(self, conditions=self.conditions + affine,
                       predicates=self.predicates + (() if only_affine else others))


@dataclass
class StatementMaker:
    """Makes the statements of one kernel.

    :ivar inames: those of each part of the program, by its place.
    :ivar call: makes the statements of a call, and their tree.
    :ivar operations: the user's operations that may combine their operands in any order.
    :ivar opened: for each statement, the inames of the ``for`` blocks around it, outermost first.
    :ivar blocks: the inames of the loops around each ``for`` block.
    :ivar barriers: those that the text requests between two statements.
    """

    rules: Rules
    ids: Ids
    inames: Mapping[int, frozenset[str]]
    reductions: ReductionMaker
    call: Callable[[StatementMaker, FunctionCall, Evaluation], Tree]
    operations: Sequence[Operation] = ()
    opened: dict[str, tuple[str, ...]] = field(default_factory=dict)
    blocks: list[tuple[str, ...]] = field(default_factory=list)
    barriers: list[RequestedBarrier] = field(default_factory=list)

    def make(self, body: Sequence[ProgramNode]) -> Tree:
        """The order tree of *body*; the statements are collected on the way."""
        return group(self._items(body, Evaluation()))

    def _items(self, nodes: Sequence[ProgramNode], around: Evaluation) -> list[Item]:
        items: list[Item] = []
        barriers: list[tuple[int, str]] = []
        for node in nodes:
            match node:
                case ParsedAssignment():
                    items.append(self._assignment(node, around))
                case FunctionCall():
                    place = self._place(node, around)
                    items.append((_of_text(place.inames[place.opened:]), self.call(self, node, place)))
                case ForBlock():
                    items.append(self._for(node, around))
                case IfBlock():
                    items.extend(self._if(node, around))
                case Marker():
                    self.ids.earlier(node)
                    self._require_inames(node.options.inames.listed)
                    if node.kind in BARRIERS:
                        barriers.append((len(items), BARRIERS[node.kind]))
                        items.append(self._barrier(node, around))
        for at, kind in barriers:
            before, after = ([owner(s) for _, tree in part for s in leaves(tree)] for part in (items[:at], items[at:]))
            if before and after:
                self.barriers.append(RequestedBarrier(before[-1], after[0], kind))
        return items

    def _barrier(self, node: Marker, around: Evaluation) -> Item:
        """The place of a barrier, between the loops of the statements beside it over other inames than its own."""
        if around.conditions or around.predicates:
            raise self.rules.source.error(node.start, "A barrier is in an 'if' block.", "a barrier outside of it",
                                          hint="all threads must reach it")
        own = self.rules.domains.ancestors(token.text for token in node.options.inames.listed)
        nested = around.inames + self.rules.domains.sorted(own.difference(around.inames))
        return _of_text(nested[around.opened:]), seq()

    def _nest(self, node: ParsedAssignment | FunctionCall | IfBlock, around: Evaluation) -> tuple[str, ...]:
        """The inames of a statement, outermost first."""
        every = self.rules.domains.ancestors(self.inames[node.start])
        return around.inames + self.rules.domains.sorted(every.difference(around.inames))

    def _require_inames(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            if token.text not in self.rules.domains.parents:
                raise self.rules.source.unknown(token.start, "iname", token.text, self.rules.domains.parents)

    def _for(self, node: ForBlock, around: Evaluation) -> Item:
        self._require_inames(node.inames)
        order = around.inames
        for token in node.inames:
            iname = token.text
            if iname in order:
                raise self.rules.source.error(token.start, f"This loop is already inside a loop over '{iname}'.",
                                        "another iname")
            missing = self.rules.domains.sorted(self.rules.domains.parents[iname].difference(order))
            if missing:
                raise self.rules.source.error(
                    token.start, f"The bounds of '{iname}' depend on '{missing[0]}', which has no loop here.",
                    f"'{missing[0]}'", hint=f"for {', '.join(missing)}, {iname}")
            order += (iname,)
        self.blocks.append(order)
        inner = replace(around, inames=order, opened=len(order))
        body = group(self._items(node.body, inner))
        body = nest(order[len(around.inames):], body) if body != seq() else body
        return _of_text(around.inames[around.opened:]), body

    def _if(self, node: IfBlock, around: Evaluation) -> list[Item]:
        condition = self.rules.expanded(node.condition, node.start)
        names = self.reductions.affine_names
        affine, others = split_affine(condition, names)
        if not others:
            then = around.under(condition, names)
            otherwise = replace(around, conditions=(*around.conditions, opposite(condition, names)))
            return self._items(node.then, then) + self._items(node.otherwise, otherwise)
        if node.otherwise:
            affine, others = (), (condition,)           # the else needs the whole condition's value
        # the block may write what the condition reads: evaluate it once
        flag, owner = self.reductions.flag()
        around = replace(around, owner=owner, inames=self._shared_loops(node, around),
                         conditions=around.conditions + affine)
        # the flag is set in each iteration, so no old value is read; it begins with the conditions around the block
        first = self.add(replace(around, predicates=()), flag, conjunction((*around.predicates, *others)), node)
        then = replace(around, predicates=(flag,))
        otherwise = replace(around, predicates=(*around.predicates, p.LogicalNot(flag)))
        return [first, *self._items(node.then, then), *self._items(node.otherwise, otherwise)]

    def _shared_loops(self, node: IfBlock, around: Evaluation) -> tuple[str, ...]:
        """The loops in which the value of a condition is computed and used.

        They are the condition's own inames. If its block has no ``for`` block, they are also all further inames that
        its statements share, because loops over these inames may compute values that the condition reads.
        """
        own = self._nest(node, around)
        inner = list(walk((*node.then, *node.otherwise)))
        if any(isinstance(n, ForBlock) for n in inner):
            return own
        inside = replace(around, inames=own)
        nests = [self._nest(a, inside) for a in inner if isinstance(a, ParsedAssignment | FunctionCall)]
        levels = itertools.takewhile(lambda level: len(set(level)) == 1, zip(*nests, strict=False))
        return tuple(level[0] for level in levels)

    def _assignment(self, node: ParsedAssignment, around: Evaluation) -> Item:
        place = self._place(node, around)
        assignee = self.rules.expanded(node.assignee, node.start)
        assert isinstance(assignee, p.Variable | p.Subscript)
        expression = self.rules.expanded(node.expression, node.start, only_reducing=True)
        return self.add(place, assignee, expression, node)

    def _place(self, node: ParsedAssignment | FunctionCall, around: Evaluation) -> Evaluation:
        """The place of the evaluation of *node*."""
        self._require_inames(node.options.inames.listed)
        place = self._loops_of(node, around)
        if node.options.condition is None:
            return place
        return place.under(self.rules.expanded(node.options.condition, node.start), self.reductions.affine_names)

    def _loops_of(self, node: ParsedAssignment | FunctionCall, around: Evaluation) -> Evaluation:
        owner = self.ids.of[node.start]
        if isinstance(node, FunctionCall) or node.place is None:
            return replace(around, owner=owner, inames=self._nest(node, around))
        inames, opened = node.place.domain.inames, around.inames
        if inames[:len(opened)] != opened:
            raise self.rules.source.error(
                node.start, f"This statement has loops over {', '.join(inames) or 'no iname'}, and its block has loops "
                f"over {', '.join(opened)}.", "a statement without loops of its own",
                hint=f"copy(within_inames={sorted({*inames, *opened})})")
        known = self.rules.domains.instances(inames)
        if not node.place.domain.is_subset(known):
            raise self.rules.source.error(
                node.start, f"This statement runs for {node.place.domain.text}, and the domains have {known.text}.",
                "domains that contain its instances", hint="copy(place=None), for the instances of the domains")
        return replace(around, owner=owner, inames=inames, own=node.place.domain, opened=len(inames),
                       loops=node.place.loops[len(opened):])

    def add(self, place: Evaluation, assignee: p.Variable | p.Subscript, expression: Expression,
            node: ParsedAssignment | FunctionCall | IfBlock) -> Item:
        """Add the statement ``assignee = expression`` with its reductions."""
        self.opened[place.owner] = place.inames[:place.opened]
        options = node.options
        statement = Statement(place.owner, assignee, expression,
                              self.reductions.instances(place), place.predicates,
                              options=StatementOptions(self.ids.earlier(node), self.ids.others(node), options.tags))
        self._require_bound_once(statement, node)
        statement, body = self.reductions.hoisted(statement, place)
        if options.instructions:
            statement = replace(statement, instructions=options.instructions)
        self.reductions.statements.append(self._as_update(statement) if statement.commutes else statement)
        return (place.loops if place.own is not None else _of_text(place.inames[place.opened:])), body

    def _require_bound_once(self, statement: Statement, node: ParsedAssignment | FunctionCall | IfBlock) -> None:
        """:raises ParseError: a reduction runs over an iname that *statement* already has."""
        every = (*statement.predicates, statement.assignee, statement.expression)
        for iname, operation in (found for e in every for found in _bound_twice(e, statement.inames)):
            raise self.rules.source.error(
                next((u.start for u in node.uses if u.name == iname), node.start),
                f"The iname '{iname}' is a reduction iname and used outside its reduction.",
                f"an iname other than '{iname}'",
                hint=f"for the {operation} of two values put '{iname}' second: {operation}(3, {iname})"
                if operation in ("min", "max") else None)

    def _as_update(self, statement: Statement) -> Statement:
        """The atomic *statement* as an update by an operation, if it is one; else it is a store."""
        found = update_of(statement.assignee, statement.expression, self.operations)
        return statement if found is None else replace(statement, combine=found[0], expression=found[1])


def _bound_twice(expr: Expression, inames: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Each iname and operation of a reduction in *expr* over one of *inames*, or within one over the same iname."""
    if isinstance(expr, Reduction):
        yield from ((x, expr.operation) for x in expr.inames if x in inames)
        inames += expr.inames
    for child in children(expr) if has_reduction(expr) else ():
        yield from _bound_twice(child, inames)


@dataclass
class ReductionMaker:
    """Makes statements of reductions, and of conditions that several statements read.

    :ivar affine_names: the names allowed in conditions of an instance set.
    :ivar taken: every variable name in use.
    :ivar ids: every statement id in use.
    :ivar statements: all statements of the kernel so far.
    :ivar temporaries: those made for reductions and conditions.
    :ivar new_names: for each beginning of a name, the names that are still free.
    """

    domains: Domains
    affine_names: frozenset[str]
    taken: set[str]
    ids: set[str]
    statements: list[Statement] = field(default_factory=list)
    temporaries: dict[str, TemporaryVariable] = field(default_factory=dict)
    nodes: dict[str, ReductionNode] = field(default_factory=dict)
    node_names: set[str] = field(default_factory=set)
    new_names: dict[str, Iterator[str]] = field(default_factory=dict)

    def _new_name(self, base: str, taken: set[str]) -> str:
        """The next one of the names that begin with *base*: no search from the first one."""
        return next(self.new_names.setdefault(base, fresh_names(base, taken)))

    def hoisted(self, statement: Statement, place: Evaluation) -> tuple[Statement, Tree]:
        """*statement* with accumulators for its reductions, whose statements are added, and the tree of all."""
        if not any(map(has_reduction, (*place.predicates, statement.assignee, statement.expression))):
            return statement, Leaf(statement.id)
        # in the order of evaluation of one expression, if(predicate, if(predicate, assignee == expression))
        whole: Expression = p.Comparison(statement.assignee, "==", statement.expression)
        for predicate in reversed(place.predicates):
            whole = p.If(predicate, whole, False)
        new, trees = self.hoist(whole, replace(place, predicates=()), statement)
        predicates: tuple[Expression, ...] = ()
        while isinstance(new, p.If):
            predicates, new = (*predicates, new.condition), new.then
        assert isinstance(new, p.Comparison)
        assignee = new.left
        assert isinstance(assignee, p.Variable | p.Subscript)
        final = replace(statement, assignee=assignee, expression=new.right, predicates=predicates)
        return final, seq(*trees, Leaf(final.id))

    def hoist(self, expr: Expression, place: Evaluation, template: Statement) -> tuple[Expression, list[Tree]]:
        """*expr* with accumulators for its reductions, and the trees of the statements that must run before it.

        :arg template: the statement from which the new ones take dependences and tags.
        """
        if not has_reduction(expr):
            return expr, []
        trees: list[Tree] = []
        names = self.affine_names

        def walk(e: Expression, here: Evaluation) -> Expression:
            if isinstance(e, Reduction):
                accumulator, tree = self._reduction(e, place, here, template)
                trees.append(tree)
                return accumulator
            if isinstance(e, p.If):
                condition: Expression
                if has_reduction(e.condition) and (has_reduction(e.then) or has_reduction(e.else_)):
                    condition, tree = self.answer(e.condition, here, place, template)
                    trees.append(tree)
                else:
                    condition = walk(e.condition, here)
                # a branch is evaluated only if its condition holds: its subscripts may depend on that
                then = walk(e.then, here.under(condition, names))
                otherwise = walk(e.else_, here.under(opposite(condition, names), names))
                return with_children(e, (condition, then, otherwise))
            if isinstance(e, p.LogicalAnd | p.LogicalOr):
                parts: tuple[Expression, ...] = ()
                for child in e.children:
                    part = walk(child, here)
                    parts += (part,)
                    # later operands are evaluated only if this one does not decide the value
                    here = here.under(part if isinstance(e, p.LogicalAnd) else opposite(part, names), names,
                                      only_affine=True)
                return with_children(e, parts)
            return map_children(e, lambda child: walk(child, here))
        return walk(expr, place), trees

    def answer(self, condition: Expression, place: Evaluation, around: Evaluation, template: Statement
               ) -> tuple[p.Variable, Tree]:
        """A temporary with the value of *condition* at *place*, and the tree of the statements that compute it.

        Several readers may use it. So it is computed in every instance of *around*: it is false if the conditions of
        *place* do not hold.
        """
        flag, owner = self.flag()
        template = replace(template, id=owner, assignee=flag)
        new, trees = self.hoist(condition, replace(place, owner=owner), template)
        first = tuple(c for c in place.conditions if c not in around.conditions)
        whole = conjunction(tuple(c for e in (*first, *place.predicates, new) for c in conjuncts(e)))
        self.statements.append(replace(template, expression=whole, domain=self.instances(around), predicates=()))
        return flag, seq(*trees, Leaf(owner))

    def flag(self) -> tuple[p.Variable, str]:
        """A new temporary for the value of a condition, and the id of the statement that computes it."""
        name = fresh("cond", self.taken)
        self.temporaries[name] = TemporaryVariable(name, np.dtype(bool), ())
        return p.Variable(name), fresh(f"insn_{name}", self.ids)

    def _reduction(self, e: Reduction, around: Evaluation, place: Evaluation, template: Statement
                   ) -> tuple[p.Variable, Tree]:
        """The reduction *e* at *place*: the place *around*, under the conditions of the branches around *e*.

        The init is not under those conditions: the accumulator has a value in every instance that reads it.
        """
        joined = "_".join(e.inames)
        name = self._new_name(f"{template.id}.{joined}", self.node_names)
        accumulator = p.Variable(self._new_name(f"acc_{joined}", self.taken))
        self.temporaries[accumulator.name] = TemporaryVariable(accumulator.name, shape=())
        node = ReductionNode(name, e.operation, accumulator.name, e.inames, f"{name}.init", (f"{name}.update",),
                             place.owner)
        self.nodes[name] = node
        self.statements.append(replace(
            template, id=node.init, assignee=accumulator, expression=Neutral(e.operation),
            domain=self.instances(around), predicates=()))
        inner = replace(place, owner=node.update, inames=place.inames + e.inames,
                        inline=place.inline + e.declared)
        operand, trees = self.hoist(e.expr, inner, template)
        self.statements.append(replace(
            template, id=node.update, assignee=accumulator, expression=operand, combine=e.operation,
            domain=self.instances(inner), predicates=inner.predicates))
        return accumulator, seq(Leaf(node.init), nest(e.inames, seq(*trees, Leaf(node.update))))

    def instances(self, place: Evaluation) -> InstanceSet:
        """The instance set of an evaluation at *place*."""
        return self.domains.instances(place.inames, place.conditions, place.inline, place.own)
