"""Small products of matrices in a loop program: what the lanes of a warp may compute together.

They are an annotation of a nest of loops. What the program computes is said by the loops as they stand, each thread for
itself; a target may have each lane load a few elements of both matrices, and one instruction for all of the warp.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign, For, MatrixProduct, Node
from loopkit.ast.walk import nodes_in
from loopkit.expr.mappers import substitute
from loopkit.poly.affine import add


def nest_of(loop: For) -> tuple[tuple[For, ...], Assign | None]:
    """*loop* and the loops in it, outermost first, with the one assignment that they are around, if it is one."""
    loops = [loop]
    while True:
        match loops[-1].body.children:
            case (For() as inner,):
                loops.append(inner)
            case (Assign() as assign,):
                return tuple(loops), assign
            case _:
                return tuple(loops), None


def sums_of(loop: For, product: MatrixProduct) -> Iterator[p.Subscript]:
    """What a lane adds up by *product*, which *loop* stands for: both columns of the first row, and so on."""
    loops, assign = nest_of(loop)
    assert assign is not None
    starts = {x.iname: x.start for x in loops}
    for row in range(product.rows):
        for column in range(2):
            at = {product.column: add(starts[product.column], column)}
            if product.row is not None:
                at[product.row] = add(starts[product.row], row)
            yield element_at(assign.target, at)


def element_at(element: p.Variable | p.Subscript, values: Mapping[str, Expression]) -> p.Subscript:
    """*element* with *values* in its subscripts."""
    assert isinstance(element, p.Subscript)
    return p.Subscript(element.aggregate, tuple(add(substitute(i, values)) for i in element.index_tuple))


def products_in(node: Node) -> Iterator[tuple[For, MatrixProduct]]:
    """The loops in *node* that are products of matrices."""
    for inner in nodes_in(node):
        if isinstance(inner, For) and inner.product is not None:
            yield inner, inner.product
