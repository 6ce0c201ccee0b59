"""Vector accesses of a loop program: elements of consecutive iterations that are moved together.

They are an annotation of a loop. What the program computes is said by the loop as it stands, iteration by iteration; a
target may move what a :class:`~loopkit.ast.nodes.Vector` names before and behind the loop, several elements an access.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import AlignedArray, Assumed, Block, DivisibleSize, For, Function, If, Node, Region, Vector
from loopkit.expr.mappers import children

#: Bytes of the widest access of a thread.
WIDEST = 16


def vectors_in(block: Block) -> Iterator[Vector]:
    """The vectors of all loops in *block*."""
    for node in block.children:
        yield from _vectors_of(node)


def _vectors_of(node: Node) -> Iterator[Vector]:
    match node:
        case For():
            yield from node.vectors
            yield from vectors_in(node.body)
        case If():
            yield from vectors_in(node.then)
            if node.otherwise is not None:
                yield from vectors_in(node.otherwise)
        case Region():
            yield from vectors_in(node.body)
        case Block():
            yield from vectors_in(node)
        case _:
            pass


def assumed_by(functions: Iterable[Function]) -> tuple[Assumed, ...]:
    """What the vectors of *functions* take for granted of a call: of each array the most, of each size once."""
    found = dict.fromkeys(a for f in functions for v in vectors_in(f.body) for a in v.assumed)
    most: dict[str, int] = {}
    for a in found:
        if isinstance(a, AlignedArray):
            most[a.array] = max(most.get(a.array, 0), a.elements)
    arrays = [AlignedArray(name, elements) for name, elements in most.items()]
    return (*arrays, *(a for a in found if isinstance(a, DivisibleSize)))


def certain_elements(expr: Expression) -> Iterator[p.Subscript]:
    """The elements that *expr* reads whatever their values are, the inner ones first."""
    match expr:
        case p.If():
            yield from certain_elements(expr.condition)
        case p.LogicalAnd() | p.LogicalOr():
            yield from certain_elements(expr.children[0])
        case p.Subscript():
            for i in expr.index_tuple:
                yield from certain_elements(i)
            yield expr
        case _:
            for child in children(expr):
                yield from certain_elements(child)
