"""Unrolling: marks on loops for an unroll directive, and loops written out iteration by iteration."""
from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign, Block, Call, Define, For, If, Node, Region, Sync
from loopkit.ast.walk import as_block, map_child_nodes
from loopkit.expr.mappers import map_children
from loopkit.poly.affine import add

Values = Mapping[str, Expression]


def marked_for_unrolling(block: Block, unrolled: AbstractSet[str]) -> Block:
    """*block* with an unroll directive on its loops of constant trip count over *unrolled*, except in regions."""
    def marked(node: Node) -> Node:
        match node:
            case For(start=int(), stop=int()) if node.iname in unrolled:
                return replace(node, body=marked_for_unrolling(node.body, unrolled), unroll=True)
            case Region():
                return node
            case _:
                return map_child_nodes(node, marked)
    return map_child_nodes(block, marked)


def unrolled_loops(node: Node, values: Values | None = None, kept: frozenset[str] = frozenset()) -> Node:
    """*node* with each loop that has an unroll directive replaced by its iterations, one after another.

    :arg values: the values of the loop variables around it.
    :arg kept: variables of loops that are not replaced.
    """
    known = values or {}

    def inner(child: Node) -> Block:
        return as_block(unrolled_loops(child, known, kept))
    match node:
        case For(unroll=True, start=int() as start, stop=int() as stop) if node.iname not in kept:
            return Block(tuple(unrolled_loops(node.body, {**known, node.iname: i}, kept)
                               for i in range(start, stop, node.step)))
        case For():
            return replace(node, start=_put(node.start, known), stop=_put(node.stop, known), body=inner(node.body))
        case If():
            return replace(node, condition=_put(node.condition, known), then=inner(node.then),
                           otherwise=None if node.otherwise is None else inner(node.otherwise))
        case Assign():
            target = _put(node.target, known)
            assert isinstance(target, p.Variable | p.Subscript)
            instance = tuple((x, _put(value, known)) for x, value in node.instance)
            return replace(node, target=target, value=_put(node.value, known), instance=instance)
        case Define():
            return Define(node.name, add(_put(node.value, known)))
        case Region() | Block() | Sync() | Call():
            return map_child_nodes(node, lambda child: unrolled_loops(child, known, kept))


def _put(expr: Expression, values: Values) -> Expression:
    """*expr* with loop variables replaced and sums of integers folded."""
    if isinstance(expr, p.Variable):
        return values.get(expr.name, expr)
    new = map_children(expr, lambda e: _put(e, values))
    return p.Subscript(new.aggregate, tuple(map(add, new.index_tuple))) \
        if isinstance(new, p.Subscript) and new is not expr else new
