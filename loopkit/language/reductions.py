"""Reductions become statements: init, update, and the statement that uses the result."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.mappers import children, conjunction, conjuncts, has_reduction, map_children, with_children
from loopkit.expr.nodes import Neutral, Reduction
from loopkit.expr.parsing import InlineReduction
from loopkit.kernel.data import TemporaryVariable
from loopkit.kernel.statement import ReductionNode, Statement
from loopkit.kernel.tree import Leaf, Tree, nest, seq
from loopkit.language.conditions import opposite, split
from loopkit.language.domains import Domains
from loopkit.language.names import fresh
from loopkit.language.program import Ids
from loopkit.poly.sets import InstanceSet


@dataclass(frozen=True)
class Evaluation:
    """The place of an evaluation.

    :ivar inames: the loops around it, outermost first.
    :ivar predicates: the conditions that are not affine.
    :ivar inline: the texts of the domains of the reductions around it.
    """

    owner: str
    inames: tuple[str, ...]
    conditions: tuple[Expression, ...] = ()
    predicates: tuple[Expression, ...] = ()
    inline: tuple[str, ...] = ()

    def under(self, condition: Expression, affine_names: frozenset[str], *, only_affine: bool = False) -> Evaluation:
        """This place under *condition*, or under its affine part, as a further one."""
        affine, others = split(condition, affine_names)
        return replace(self, conditions=self.conditions + affine,
                       predicates=self.predicates + (() if only_affine else others))


@dataclass
class Made:
    """The parts of a kernel that its statements make.

    :ivar temporaries: those of reductions and of conditions.
    :ivar opened: for each statement of the text, the inames of the ``for`` blocks around it.
    :ivar final: the statements with ``{inames=}``, which inherit none.
    :ivar blocks: the inames of the ``for`` blocks around one another, outermost first.
    """

    statements: list[Statement] = field(default_factory=list)
    temporaries: dict[str, TemporaryVariable] = field(default_factory=dict)
    reductions: dict[str, ReductionNode] = field(default_factory=dict)
    opened: dict[str, frozenset[str]] = field(default_factory=dict)
    final: set[str] = field(default_factory=set)
    blocks: list[tuple[str, ...]] = field(default_factory=list)


@dataclass
class Hoister:
    """Takes the reductions out of the expressions of one kernel.

    :ivar affine_names: the names allowed in conditions of an instance set.
    :ivar taken: every variable name in use.
    """

    domains: Domains
    affine_names: frozenset[str]
    taken: set[str]
    ids: Ids
    made: Made

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
                # a branch is evaluated where its condition holds: its subscripts may rely on that
                then = walk(e.then, here.under(condition, names))
                otherwise = walk(e.else_, here.under(opposite(condition, names), names))
                return with_children(e, (condition, then, otherwise))
            if isinstance(e, p.LogicalAnd | p.LogicalOr):
                parts: tuple[Expression, ...] = ()
                for child in e.children:
                    part = walk(child, here)
                    parts += (part,)
                    # later operands are evaluated if it does not decide the value
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
        self.made.statements.append(replace(template, expression=whole, domain=self._domain(around), predicates=()))
        return flag, seq(*trees, Leaf(owner))

    def flag(self) -> tuple[p.Variable, str]:
        """A new temporary for the value of a condition, and the id of the statement that computes it."""
        name = fresh("cond", self.taken)
        self.made.temporaries[name] = TemporaryVariable(name, np.dtype(bool), ())
        return p.Variable(name), fresh(f"insn_{name}", self.ids.taken)

    def _reduction(self, e: Reduction, around: Evaluation, place: Evaluation, template: Statement
                   ) -> tuple[p.Variable, Tree]:
        """The reduction *e* at *place*: the place *around*, under the conditions of the branches around *e*.

        The init is not under those conditions: the accumulator has a value in every instance that reads it.
        """
        joined = "_".join(e.inames)
        name = fresh(f"{template.id}.{joined}", set(self.made.reductions))
        accumulator = p.Variable(fresh(f"acc_{joined}", self.taken))
        self.made.temporaries[accumulator.name] = TemporaryVariable(accumulator.name, shape=())
        node = ReductionNode(name, e.operation, accumulator.name, e.inames, f"{name}.init", (f"{name}.update",),
                             place.owner)
        self.made.reductions[name] = node
        self.made.statements.append(replace(
            template, id=node.init, assignee=accumulator, expression=Neutral(e.operation), reduction=name,
            domain=self._domain(around), predicates=()))
        inner = replace(place, owner=node.update, inames=place.inames + e.inames,
                        inline=place.inline + ((e.domain_text,) if isinstance(e, InlineReduction) else ()))
        operand, trees = self.hoist(e.expr, inner, template)
        self.made.statements.append(replace(
            template, id=node.update, assignee=accumulator, expression=operand, reduction=name, combine=e.operation,
            domain=self._domain(inner), predicates=inner.predicates))
        return accumulator, seq(Leaf(node.init), nest(e.inames, seq(*trees, Leaf(node.update))))

    def _domain(self, place: Evaluation) -> InstanceSet:
        return self.domains.instances(place.inames, place.conditions, place.inline)


def bound_twice(expr: Expression, inames: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Each iname and operation of a reduction in *expr* over one of *inames*, or within one over the same iname."""
    if isinstance(expr, Reduction):
        yield from ((x, expr.operation) for x in expr.inames if x in inames)
        inames += expr.inames
    for child in children(expr) if has_reduction(expr) else ():
        yield from bound_twice(child, inames)
