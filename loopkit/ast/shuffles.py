"""What stands in a region that all lanes of a warp run at once."""
from __future__ import annotations

from collections.abc import Collection, Iterator

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign, Block, If, Region
from loopkit.ast.walk import rewritten
from loopkit.errors import InternalError
from loopkit.expr.mappers import children


def read_of_other_lane(region: Region, lanes: Collection[str]) -> tuple[Assign, p.Subscript]:
    """The assignment in *region* and what it reads of another lane.

    :arg lanes: the arrays in lanes.
    :raises InternalError: the region is not one assignment with one such read, perhaps under a guard.
    """
    found = list(_assignments(region.body))
    if len(found) != 1:
        raise InternalError("A shuffle should be one assignment, perhaps under a guard.")
    node, = found
    reads = {e for e in elements_of(node.value, lanes) if e != node.target}
    if len(reads) != 1:
        raise InternalError(f"The shuffle of '{node.statement}' should read one element of another lane.")
    return node, reads.pop()


def with_assignment(block: Block, node: Assign) -> Block:
    """*block* with *node* for its only assignment."""
    return rewritten(block, lambda old: node if isinstance(old, Assign) else old)


def elements_of(expr: Expression, arrays: Collection[str]) -> Iterator[p.Subscript]:
    """The elements of *arrays* in *expr*."""
    if isinstance(expr, p.Subscript) and isinstance(expr.aggregate, p.Variable) and expr.aggregate.name in arrays:
        yield expr
    for child in children(expr):
        yield from elements_of(child, arrays)


def _assignments(block: Block) -> Iterator[Assign]:
    for node in block.children:
        match node:
            case Assign():
                yield node
            case If(otherwise=None):
                yield from _assignments(node.then)
            case _:
                raise InternalError("A shuffle should be one assignment, perhaps under a guard.")
