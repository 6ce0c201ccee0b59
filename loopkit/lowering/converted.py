"""Nodes of a loop program from isl's tree of loops."""
from __future__ import annotations

from collections.abc import Callable, Mapping

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Block, Define, For, If, Node
from loopkit.ast.walk import as_block
from loopkit.poly import codegen
from loopkit.poly.codegen import BlockNode, CallNode, ForNode, IfNode


def with_values(node: Node, inames: tuple[str, ...], values: tuple[Expression, ...]) -> Node:
    """*node* where loops that isl found to have one iteration are named constants."""
    defines = tuple(Define(x, v) for x, v in zip(inames, values, strict=True) if v != p.Variable(x))
    return Block((*defines, node)) if defines else node


def with_values_substituted(emit: Callable[[Mapping[str, Expression]], Node], inames: tuple[str, ...],
                            values: tuple[Expression, ...]) -> Node:
    """The result of *emit* for *values*: numbers are substituted, other values become named constants."""
    moved = {x: v for x, v in zip(inames, values, strict=True) if v != p.Variable(x)}
    if all(isinstance(v, int) for v in moved.values()):
        return emit(moved)
    return with_values(emit({}), inames, values)


def converted(node: codegen.Node, call: Callable[[CallNode], Node]) -> Node:
    """isl's program as nodes; *call* gives what stands for a leaf."""
    match node:
        case ForNode():
            return For(node.iname, node.start, node.stop, node.step, as_block(converted(node.body, call)))
        case IfNode():
            otherwise = as_block(converted(node.otherwise, call)) if node.otherwise is not None else None
            return If(node.condition, as_block(converted(node.then, call)), otherwise)
        case BlockNode():
            return Block(tuple(converted(c, call) for c in node.children))
        case CallNode():
            return call(node)
