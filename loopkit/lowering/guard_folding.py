"""Guard folding: drops the conditions, and the branches, that are known at their place in the code.

In unrolled loops, a condition that can fail in few iterations also tests the iteration. The CUDA compiler cannot find
that range, but it folds the test after unrolling.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import For, If, Node
from loopkit.ast.walk import map_child_nodes
from loopkit.expr.dtypes import Type, type_of
from loopkit.expr.mappers import conjunction, conjuncts, map_children, variables
from loopkit.poly.affine import NotAffineError, add
from loopkit.poly.piecewise import is_affine_condition, params_where, where_holds
from loopkit.poly.sets import InstanceSet, Set, range_condition

Ranges = Mapping[str, tuple[int, int]]


def folded(expr: Expression, points: InstanceSet, names: frozenset[str], types: Mapping[str, Type]) -> Expression:
    """*expr* as it is at all of *points*, without conditions on *names* that have one truth value there.

    A condition stays if dropping it would change the dtype of the expression.
    """
    if not isinstance(expr, p.If) or (holds := points_where(points, expr.condition, names)) is None:
        return map_children(expr, lambda e: folded(e, points, names, types))
    fails = points.subtract(holds)
    then, other = folded(expr.then, holds, names, types), folded(expr.else_, fails, names, types)
    dtype = type_of(expr, types.get)
    for branch, meant, never in ((then, expr.then, fails), (other, expr.else_, holds)):
        if never.is_empty() and dtype is not None and type_of(meant, types.get) == dtype:
            return branch
    return p.If(_plain(expr.condition), then, other)


def _plain(condition: Expression) -> Expression:
    """An affine *condition* with like terms collected on each side, as in subscripts."""
    if isinstance(condition, p.Comparison):
        return p.Comparison(add(condition.left), condition.operator, add(condition.right))
    return map_children(condition, _plain)


def points_where(points: InstanceSet, condition: Expression, names: frozenset[str]) -> InstanceSet | None:
    """The points where an affine *condition* holds; ``None``: it is affine at single values only."""
    return where_holds(points, condition, names) if is_affine_condition(condition, names) else None


def with_limited_conditions(node: Node, ranges: Ranges, context: Set, about: Callable[[Expression], bool]) -> Node:
    """*node*, in loops unrolled over *ranges*, with conditions limited to the iterations in which they can fail.

    :arg context: the conditions that hold around *node*; *about*: is a condition limited?
    """
    match node:
        case If():
            found = (_part(c, ranges, context) if about(c) else c for c in conjuncts(node.condition))
            node = replace(node, condition=conjunction(found))
        case For(start=int() as start, stop=int() as stop):
            context = context.intersect(range_condition(node.iname, start, stop - 1))
        case _:
            pass
    return map_child_nodes(node, lambda child: with_limited_conditions(child, ranges, context, about))


def _part(part: Expression, ranges: Ranges, context: Set) -> Expression:
    with suppress(NotAffineError):
        fails = params_where(p.LogicalNot(part)).intersect(context)
        return unless(part, fails, {x: own for x, own in ranges.items() if x in variables(part)})
    return part


def unless(part: Expression, fails: Set, ranges: Ranges) -> Expression:
    """*part*, which is false at points of *fails* only, or the iterations of one of *ranges* in which it cannot fail.

    *part* alone, if these are few: the longer text would save little.
    """
    for x, (first, last) in ranges.items():
        low, high = InstanceSet((), fails.from_params()).onto((x,)).constant_range(x)
        if low is None or high is None or 2*(high - low + 1) >= last - first + 1:
            continue
        before = (p.Comparison(p.Variable(x), "<", low),) if low > first else ()
        behind = (p.Comparison(high, "<", p.Variable(x)),) if high < last else ()
        if before or behind:
            return p.LogicalOr((*before, *behind, *(part.children if isinstance(part, p.LogicalOr) else (part,))))
    return part
