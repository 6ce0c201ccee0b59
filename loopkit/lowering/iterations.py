"""Conditions in unrolled loops, limited to the iterations in which they can fail.

With constant lengths, a condition may hold in all iterations but the first, by the ranges of blocks and threads. The
CUDA compiler does not always find that. It unrolls the loop, though, and folds a comparison of the iteration with a
constant.
A condition with a size of the call stays as it is.
"""
from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Block, For, If, Node
from loopkit.ast.walk import map_child_nodes
from loopkit.expr.mappers import variables
from loopkit.poly.affine import NotAffineError
from loopkit.poly.piecewise import params_where
from loopkit.poly.sets import InstanceSet, Set, range_condition

Ranges = Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class About:
    """The conditions that are limited: those that depend on *threads* and not on *sizes*."""

    threads: AbstractSet[str]
    sizes: AbstractSet[str]

    def __contains__(self, condition: object) -> bool:
        if not isinstance(condition, p.Comparison):
            return False
        names = variables(condition)
        return self.sizes.isdisjoint(names) and not self.threads.isdisjoint(names)


def saying_where(block: Block, ranges: Ranges, context: Set, about: About) -> Block:
    """*block*, inside loops that are unrolled over *ranges*, where conditions say in which iterations they may fail.

    :arg context: what is known around the block.
    """
    def one(node: Node) -> Node:
        match node:
            case If():
                parts = node.condition.children if isinstance(node.condition, p.LogicalAnd) else (node.condition,)
                found = tuple(_part(part, ranges, context, about) for part in parts)
                condition = found[0] if len(found) == 1 else p.LogicalAnd(found)
                return map_child_nodes(replace(node, condition=condition), one)
            case For(start=int() as start, stop=int() as stop):
                inside = context.intersect(range_condition(node.iname, start, stop - 1))
                return replace(node, body=saying_where(node.body, ranges, inside, about))
            case _:
                return map_child_nodes(node, one)
    return map_child_nodes(block, one)


def _part(part: Expression, ranges: Ranges, context: Set, about: About) -> Expression:
    inames = [x for x in ranges if x in variables(part)]
    if not inames or part not in about:
        return part
    try:
        fails = params_where(p.LogicalNot(part)).intersect(context)
    except NotAffineError:
        return part
    return unless(part, fails, {x: ranges[x] for x in inames})


def unless(part: Expression, fails: Set, ranges: Ranges) -> Expression:
    """*part*, which is false at points of *fails* only, with the iterations of one of *ranges* in which it is not.

    *part* alone, if these are not most of them: there is little to win, and a text to read.
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
