"""The calls of functions in a loop program: the nodes of each call together, as a target may emit them."""
from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopkit.ast.nodes import Assign, Block, Define, For, FunctionBody, If, Node, Region, Sync
from loopkit.ast.walk import child_nodes, map_child_nodes, mentioned, nodes_in
from loopkit.kernel.kernel import LoopKernel


def with_function_bodies(block: Block, knl: LoopKernel, depth: int = 0) -> Block:
    """*block* with the nodes of each call in a :class:`~loopkit.ast.nodes.FunctionBody`.

    If statements of the caller are between those of a call, the nodes of this call stay where they are.

    :arg depth: the number of calls around *block*.
    """
    if not knl.calls:
        return block
    children: list[Node] = []
    rest = list(block.children)
    while rest:
        call = _call_of(rest[0], knl, depth)
        length = 1 if call is None else _length_of_call(rest, call, knl, depth)
        own, rest = rest[:length], rest[length:]
        if call is None or _is_around(own, call, knl):
            children += (map_child_nodes(node, lambda child: _inside(child, knl, depth)) for node in own)
        elif _is_whole(own, rest, call, knl):
            inner = with_function_bodies(Block(tuple(own)), knl, depth + 1)
            children.append(FunctionBody(inner.children, call))
        else:
            children += with_function_bodies(Block(tuple(own)), knl, depth + 1).children
    return Block(tuple(children))


def _inside(node: Node, knl: LoopKernel, depth: int) -> Node:
    return with_function_bodies(node, knl, depth) if isinstance(node, Block) else \
        map_child_nodes(node, lambda child: _inside(child, knl, depth))


def _statements(node: Node) -> Iterator[str]:
    return (inner.statement for inner in nodes_in(node) if isinstance(inner, Assign))


def _call_of(node: Node, knl: LoopKernel, depth: int) -> str | None:
    """The call at *depth* to which all statements in *node* belong; ``None``: there is none, or no statement."""
    found = {knl.statement_by_id[s].options.calls[depth:depth + 1] if s in knl.statement_by_id else ()
             for s in _statements(node)}
    return next(iter(next(iter(found))), None) if len(found) == 1 else None


def _length_of_call(nodes: Sequence[Node], call: str, knl: LoopKernel, depth: int) -> int:
    """The number of first *nodes* that belong to *call*, with the barriers and names between them."""
    length = 1
    for i, node in enumerate(nodes[1:], 2):
        if _call_of(node, knl, depth) == call:
            length = i
        elif not isinstance(node, Sync | Define):
            break
    return length


def _is_around(nodes: Sequence[Node], call: str, knl: LoopKernel) -> bool:
    """Are *nodes* one node that only leads to *call*: a loop over an iname of it, a region, or a condition?"""
    match nodes:
        case [For(iname=iname)]:
            return iname in knl.calls[call].inames
        case [Region(instruction=None)]:
            return True
        case [If() as node]:
            return all(_of_call(call, knl) <= {*_statements(branch)} for branch in child_nodes(node))
        case _:
            return False


def _of_call(call: str, knl: LoopKernel) -> frozenset[str]:
    return frozenset(s.id for s in knl.statements if call in s.options.calls)


def _is_whole(own: Sequence[Node], after: Sequence[Node], call: str, knl: LoopKernel) -> bool:
    """Do the nodes *own* hold all statements of *call* in its loops, and define no name of the nodes *after* them?"""
    defined = {node.name for node in own if isinstance(node, Define)}
    inner = {x.iname if isinstance(x, For) else x.name for node in own for x in nodes_in(node)
             if isinstance(x, For | Define)}
    return _of_call(call, knl) <= {s for node in own for s in _statements(node)} \
        and inner.isdisjoint(knl.calls[call].inames) and defined.isdisjoint(
            frozenset().union(*map(mentioned, after)))
