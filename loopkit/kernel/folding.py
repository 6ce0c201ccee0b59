"""Reductions as expressions again, and the substitution rules that name them.

A kernel has the statements of a reduction from the start. A substitution rule that holds a reduction is a name for it:
an expression whose reductions, written out, have the form of the rule is a use of the rule.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.mappers import arguments_of, children, has_reduction, map_children, substitute, variables
from loopkit.expr.nodes import Reduction
from loopkit.kernel.data import SubstitutionRule
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import ReductionNode, Statement


def folded(knl: LoopKernel, *, with_domains: bool = False
           ) -> tuple[Mapping[str, Expression], Mapping[str, tuple[str, ...]]]:
    """The reductions that are expressions again, by accumulator; of others, by update, the inames that are folded.

    A reduction whose loops also hold other statements (a prefetch), or that starts from an addend, is printed as init,
    update and final. The loops
    around its update that hold nothing else are folded.

    :arg with_domains: the reductions have the domains of their updates.
    """
    nodes = {r.accumulator: r for r in knl.reductions.values()
             if r.inames and {r.init, r.update} <= knl.statement_by_id.keys() and not r.others
             and not starts_from_addend(knl, r)}
    inner = {r.update: x for r in nodes.values() if (x := _foldable(knl, r, _parts_of_reduction(nodes, r))) != r.inames}
    nodes = {a: r for a, r in nodes.items() if r.update not in inner}

    @cache
    def value(accumulator: str) -> Expression:
        node = nodes[accumulator]
        update = knl.statement_by_id[node.update]
        operand = update.expression
        outer = [x for x in update.inames if x not in node.inames] if with_domains else ()
        return Reduction(node.operation, node.inames, substitute(
            operand, {a: value(a) for a in nodes if a in variables(operand)}),
            (update.domain.bound(outer).text,) if with_domains else ())
    return {a: value(a) for a in nodes}, inner


def starts_from_addend(knl: LoopKernel, node: ReductionNode) -> bool:
    """Does a sum start from an addend, and not from its neutral element?"""
    return bool(variables(knl.statement_by_id[node.init].expression))


def _parts_of_reduction(nodes: Mapping[str, ReductionNode], node: ReductionNode) -> frozenset[str]:
    """The init and the update of a reduction and of those in its operand."""
    inside = (_parts_of_reduction(nodes, r) for r in nodes.values() if r.final == node.update)
    return frozenset({node.init, node.update}).union(*inside)


def _foldable(knl: LoopKernel, node: ReductionNode, own: frozenset[str]) -> tuple[str, ...]:
    """The inames of a reduction whose loops around the update hold nothing but the parts *own*."""
    path = knl.paths[node.update]
    alone = {step.iname for i, step in enumerate(path)
             if all(s in own for s, other in knl.paths.items() if other[:i + 1] == path[:i + 1])}
    return tuple(x for x in node.inames if x in alone)


# Rules that hold reductions

def reducing_rules(knl: LoopKernel) -> tuple[SubstitutionRule, ...]:
    """The substitution rules of *knl* that hold a reduction."""
    return tuple(rule for rule in knl.substitutions.values() if has_reduction(rule.expr))


def with_uses(knl: LoopKernel, expr: Expression) -> Expression:
    """*expr*, with its reductions written out, with uses of the rules of *knl* that hold them."""
    rules = reducing_rules(knl) if has_reduction(expr) else ()

    def walk(e: Expression) -> Expression:
        if not has_reduction(e):
            return e
        for rule in rules:
            args = arguments_of(rule.expr, rule.arguments, e)
            if args is not None:
                return p.Call(p.Variable(rule.name), tuple(map(walk, args)))
        return map_children(e, walk)
    return walk(expr) if rules else expr


def uses_of_rule(knl: LoopKernel, rule: SubstitutionRule, statement: Statement
                 ) -> Iterator[tuple[Expression, tuple[Expression, ...]]]:
    """The parts of the expression of *statement* that have the form of *rule*, which holds a reduction, and the
    arguments of the uses.

    An argument that holds a reduction itself is none: its value would have to be computed before that of the rule.
    """
    values, _ = folded(knl)

    def walk(e: Expression) -> Iterator[tuple[Expression, tuple[Expression, ...]]]:
        if variables(e).isdisjoint(values):
            return
        args = arguments_of(rule.expr, rule.arguments, substitute(e, values))
        if args is not None and not any(map(has_reduction, args)):
            yield e, args
            return
        for child in children(e):
            yield from walk(child)
    yield from walk(statement.expression)
