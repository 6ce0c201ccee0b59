"""Reductions become statements: init, update, and the statement that uses the result."""
from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.errors import ParseError
from loopkit.expr.mappers import has_reduction, map_children
from loopkit.expr.nodes import Neutral, Reduction
from loopkit.expr.parsing import InlineReduction
from loopkit.kernel.data import TemporaryVariable
from loopkit.kernel.statement import ReductionNode, Statement
from loopkit.kernel.tree import Leaf, Tree, nest, seq
from loopkit.language.conditions import conjunction, conjuncts, opposite, split
from loopkit.language.domains import Domains
from loopkit.poly.sets import InstanceSet


@dataclass(frozen=True)
class Evaluation:
    """The place of an evaluation.

    :ivar owner: the id of its statement.
    :ivar inames: the loops around it, outermost first.
    :ivar conditions: affine conditions on its instances.
    :ivar predicates: the other conditions.
    :ivar inline: the texts of the domains of the reductions around it.
    """

    owner: str
    inames: tuple[str, ...]
    conditions: tuple[Expression, ...] = ()
    predicates: tuple[Expression, ...] = ()
    inline: tuple[str, ...] = ()

    def under(self, condition: Expression, affine_names: frozenset[str]) -> Evaluation:
        """This place under *condition* as a further one."""
        affine, others = split(condition, affine_names)
        return replace(self, conditions=self.conditions + affine, predicates=self.predicates + others)

    def under_affine(self, condition: Expression, affine_names: frozenset[str]) -> Evaluation:
        """This place under the affine part of *condition* as a further one."""
        return replace(self, conditions=self.conditions + split(condition, affine_names)[0])


@dataclass
class Hoister:
    """Takes the reductions out of the expressions of one kernel.

    :ivar affine_names: the names allowed in conditions of an instance set.
    :ivar fresh: makes an unused name for a variable.
    :ivar fresh_id: makes an unused id for a statement.
    :ivar nodes: the reductions found so far, by name.
    :ivar temporaries: the temporaries of their results and of the values of conditions.
    """

    domains: Domains
    affine_names: frozenset[str]
    fresh: Callable[[str], str]
    fresh_id: Callable[[str], str]
    nodes: dict[str, ReductionNode]
    temporaries: dict[str, TemporaryVariable]

    def hoist(self, expr: Expression, place: Evaluation, template: Statement,
              fail: Callable[[str, str], ParseError]) -> tuple[Expression, list[Statement], list[Tree]]:
        """*expr* with accumulators for its reductions, and the tree of the statements that must run before it.

        :arg template: the statement from which the new ones take dependences and tags.
        :arg fail: the error for an iname that is bound twice, and the operation that binds it.
        """
        statements: list[Statement] = []
        trees: list[Tree] = []
        names = self.affine_names

        def walk(e: Expression, here: Evaluation) -> Expression:
            if isinstance(e, Reduction):
                accumulator, new, tree = self._reduction(e, place, here, template, fail)
                statements.extend(new)
                trees.append(tree)
                return accumulator
            if isinstance(e, p.If):
                if has_reduction(e.condition) and (has_reduction(e.then) or has_reduction(e.else_)):
                    condition: Expression
                    condition, (new, tree) = self.answer(e.condition, here, place, template, fail)
                    statements.extend(new)
                    trees.append(tree)
                else:
                    condition = walk(e.condition, here)
                # what stands in a branch is evaluated where its condition holds: its subscripts may rely on that
                then = walk(e.then, here.under(condition, names))
                otherwise = walk(e.else_, here.under(opposite(condition, names), names))
                same = condition is e.condition and then is e.then and otherwise is e.else_
                return e if same else p.If(condition, then, otherwise)
            if isinstance(e, p.LogicalAnd | p.LogicalOr):
                parts = []
                for child in e.children:
                    parts.append(part := walk(child, here))
                    # later operands are evaluated if it does not decide the value
                    here = here.under_affine(part if isinstance(e, p.LogicalAnd) else opposite(part, names), names)
                return e if all(map(operator.is_, parts, e.children)) else type(e)(tuple(parts))
            return map_children(e, lambda child: walk(child, here))
        return walk(expr, place), statements, trees

    def answer(self, condition: Expression, place: Evaluation, around: Evaluation, template: Statement,
               fail: Callable[[str, str], ParseError]) -> tuple[p.Variable, tuple[list[Statement], Tree]]:
        """A temporary with the value of *condition* at *place*, and the statements and the tree that compute it.

        Several readers may use it. So it is computed in every instance of *around*: it is false if the conditions of
        *place* do not hold.
        """
        flag = p.Variable(self.fresh("cond"))
        self.temporaries[flag.name] = TemporaryVariable(flag.name, np.dtype(bool), ())
        here = replace(place, owner=self.fresh_id(f"insn_{flag.name}"))
        template = replace(template, id=here.owner, assignee=flag)
        new, statements, trees = self.hoist(condition, here, template, fail)
        first = tuple(c for c in place.conditions if c not in around.conditions)
        whole = conjunction(tuple(c for e in (*first, *place.predicates, new) for c in conjuncts(e)))
        statement = replace(template, expression=whole, domain=self._domain(around), predicates=())
        return flag, ([*statements, statement], seq(*trees, Leaf(statement.id)))

    def _reduction(self, e: Reduction, around: Evaluation, place: Evaluation, template: Statement,
                   fail: Callable[[str, str], ParseError]) -> tuple[p.Variable, list[Statement], Tree]:
        """The reduction *e* at *place*: the place *around*, under the conditions of the branches around *e*.

        The init is not under those conditions: the accumulator has a value in every instance that reads it.
        """
        for iname in e.inames:
            if iname in place.inames:
                raise fail(iname, e.operation)
        joined = "_".join(e.inames)
        name = self._node_name(f"{template.id}.{joined}")
        accumulator = p.Variable(self.fresh(f"acc_{joined}"))
        self.temporaries[accumulator.name] = TemporaryVariable(accumulator.name, shape=())
        node = ReductionNode(name, e.operation, accumulator.name, e.inames, f"{name}.init", (f"{name}.update",),
                             place.owner)
        self.nodes[name] = node
        inner = replace(place, owner=node.update, inames=place.inames + e.inames,
                        inline=place.inline + ((e.domain_text,) if isinstance(e, InlineReduction) else ()))
        operand, before, trees = self.hoist(e.expr, inner, template, fail)
        init = replace(template, id=node.init, assignee=accumulator, expression=Neutral(e.operation), reduction=name,
                       domain=self._domain(around), predicates=())
        update = replace(template, id=node.update, assignee=accumulator, expression=operand, reduction=name,
                         combine=e.operation, domain=self._domain(inner), predicates=inner.predicates)
        tree = seq(Leaf(node.init), nest(e.inames, seq(*trees, Leaf(node.update))))
        return accumulator, [init, *before, update], tree

    def _domain(self, place: Evaluation) -> InstanceSet:
        return self.domains.instances(place.inames, place.conditions, place.inline)

    def _node_name(self, base: str) -> str:
        name, number = base, 0
        while name in self.nodes:
            name, number = f"{base}_{number}", number + 1
        return name
