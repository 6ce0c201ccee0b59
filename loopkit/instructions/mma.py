"""Matrix multiply-accumulate (mma): the lanes of a warp add the product of two small matrices to a third.

The instruction stands on a nest of loops around one statement. The loops say what is computed, each thread for itself;
a target has each lane load a few elements of both matrices, and one instruction for the whole warp.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign, For, Instruction, Scope
from loopkit.expr.mappers import substitute
from loopkit.expr.text import to_text
from loopkit.poly.affine import add


@dataclass(frozen=True)
class Mma(Instruction):
    """A nest of loops, around one statement, that adds the product of two small matrices to a third.

    The lanes of a warp compute it together. Lane ``t`` has the rows ``t // 4`` and, of two, ``t // 4 + 8`` of the
    sums, and of each the columns ``2*(t % 4)`` and ``2*(t % 4) + 1``: those that its own iterations add to. Of the left
    matrix it loads the same rows in the columns ``t % 4``, ``t % 4 + 4`` and so on, of the right one the rows with the
    numbers of these columns in column ``t // 4``.

    :ivar row: the iname of its rows, ``None`` if it has one; *column*: of its two columns; *depth*: the one along which
        products are added up.
    :ivar left: what it loads of the left matrix, all rows of the first column, then of the next; *right*: of the right
        one.
    """

    row: str | None
    column: str
    depth: str
    left: tuple[p.Subscript, ...]
    right: tuple[p.Subscript, ...]

    noun: ClassVar[str] = "a product of matrices"
    scope: ClassVar[Scope] = Scope.WARP
    loads_for_others: ClassVar[bool] = True

    @property
    def rows(self) -> int:
        """How many rows of the sums a lane has."""
        return len(self.left) // len(self.right)

    def __str__(self) -> str:
        return f"{8*self.rows}x{4*len(self.right)} by {4*len(self.right)}x8"

    @property
    def titles(self) -> tuple[str, ...]:
        left, right = (", ".join(map(to_text, part)) for part in (self.left, self.right))
        return (f"{self} by the lanes of a warp: each loads {left} and {right}",)

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (*self.left, *self.right)


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


def sums_of(loop: For, product: Mma) -> Iterator[p.Subscript]:
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
