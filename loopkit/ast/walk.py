"""Walks over the nodes of a loop program: children, all nodes in order, rewriting, the host's calls.

Unchanged nodes are shared.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, assert_never, overload

from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign, Block, Call, Define, For, If, Node, Region, Sync
from loopkit.expr.evaluate import evaluate
from loopkit.expr.mappers import variables

Change = Callable[[Node], Node]


def child_nodes(node: Node) -> tuple[Node, ...]:
    """The nodes directly in *node*, in textual order: the children of a block, or the block of a loop.

    >>> child_nodes(For("i", 0, 4, 1, Block((Call("f"),))))
    (Block(children=(Call(name='f'),)),)
    """
    match node:
        case Block():
            return node.children
        case For() | Region():
            return (node.body,)
        case If():
            return (node.then,) if node.otherwise is None else (node.then, node.otherwise)
        case Assign() | Define() | Sync() | Call():
            return ()
        case _:
            assert_never(node)


def expressions_of(node: Node) -> tuple[Expression, ...]:
    """The expressions of *node* itself, and not of those in it; of a loop with an instruction its operands, too.

    >>> expressions_of(For("i", 0, 4, 1, Block((Define("j", 5),))))
    (0, 4)
    """
    match node:
        case Assign():
            return (node.target, node.value)
        case For():
            return (node.start, node.stop, *(() if node.instruction is None else node.instruction.operands))
        case If():
            return (node.condition,)
        case Define():
            return (node.value,)
        case Sync() | Region() | Call() | Block():
            return ()
        case _:
            assert_never(node)


def nodes_in(node: Node) -> Iterator[Node]:
    """*node* and every node in it, in textual order: each before those in it.

    >>> loop = For("i", 0, 4, 1, Block((Call("f"), Call("g"))))
    >>> [type(node).__name__ for node in nodes_in(loop)]
    ['For', 'Block', 'Call', 'Call']
    """
    ahead = [node]
    while ahead:
        node = ahead.pop()
        yield node
        ahead.extend(reversed(child_nodes(node)))


def mentioned(node: Node) -> frozenset[str]:
    """The names in the expressions of *node* and of the nodes in it."""
    return frozenset().union(*(variables(e) for inner in nodes_in(node) for e in expressions_of(inner)))


@overload
def map_child_nodes(node: Block, f: Change) -> Block: ...
@overload
def map_child_nodes(node: Node, f: Change) -> Node: ...
def map_child_nodes(node: Node, f: Change) -> Node:
    """*node* with *f* applied to each node directly in it, in textual order; *node* itself if *f* changes none.

    If *f* replaces the block of a loop, a branch or a region by another node, the result has that node in a block.
    """
    match node:
        case Block():
            new = tuple([f(child) for child in node.children])
            return node if all(a is b for a, b in zip(new, node.children, strict=True)) else Block(new)
        case For() | Region():
            body = as_block(f(node.body))
            return node if body is node.body else replace(node, body=body)
        case If():
            then = as_block(f(node.then))
            otherwise = None if node.otherwise is None else as_block(f(node.otherwise))
            same = then is node.then and otherwise is node.otherwise
            return node if same else replace(node, then=then, otherwise=otherwise)
        case Assign() | Define() | Sync() | Call():
            return node
        case _:
            assert_never(node)


@overload
def rewritten(node: Block, f: Change) -> Block: ...
@overload
def rewritten(node: Node, f: Change) -> Node: ...
def rewritten(node: Node, f: Change) -> Node:
    """*node* with *f* applied to every node in it, the inner ones first; *node* itself if *f* changes none.

    >>> twice = rewritten(Block((Call("f"),)), lambda node: Block((node, node)) if isinstance(node, Call) else node)
    >>> [type(node).__name__ for node in nodes_in(twice)]
    ['Block', 'Block', 'Call', 'Call']
    """
    new = f(map_child_nodes(node, lambda child: rewritten(child, f)))
    return as_block(new) if isinstance(node, Block) else new


def as_block(node: Node) -> Block:
    """*node* as a block."""
    return node if isinstance(node, Block) else Block((node,))


def calls(order: Block, values: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The functions to call at the sizes *values*, each with those values and the ones of the host's loops around its
    call.

    >>> from pymbolic.primitives import Variable
    >>> order = Block((Call("begin"), For("t", 0, Variable("n"), 1, Block((Call("step"),)))))
    >>> [(name, dict(seen)) for name, seen in calls(order, {"n": 2})]
    [('begin', {'n': 2}), ('step', {'n': 2, 't': 0}), ('step', {'n': 2, 't': 1})]
    """
    for node in order.children:
        match node:
            case Call():
                yield node.name, values
            case Define():
                values = {**values, node.name: evaluate(node.value, values)}
            case For():
                for x in range(evaluate(node.start, values), evaluate(node.stop, values), node.step):
                    yield from calls(node.body, {**values, node.iname: x})
            case If():
                holds = evaluate(node.condition, values)
                yield from calls(node.then if holds else node.otherwise or Block(), values)
            case Block():
                yield from calls(node, values)
            case Assign() | Region() | Sync():
                raise AssertionError(node)
