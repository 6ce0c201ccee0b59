"""Matrix multiply-accumulate (mma): the lanes of a warp add the product of two small matrices to a third.

The instruction belongs to a nest of loops around one statement. The nest defines its result for each thread.
A target loads a few elements of both matrices in each lane and issues one or more warp instructions.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign, For, Instruction, Scope
from loopkit.ast.value_ranges import LowerBounds
from loopkit.expr.evaluate import evaluate
from loopkit.expr.mappers import substitute
from loopkit.expr.nodes import to_text
from loopkit.instructions.base import InstructionText, Printer
from loopkit.poly.affine import add

#: Lanes of a warp that execute it.
_LANES = 32


@dataclass(frozen=True)
class Fragment:
    """A fragment layout: *row* and *column* of the element that ``lane`` holds in ``register``, and the inverse."""

    row: Expression
    column: Expression
    lane: Expression
    register: Expression

    def element(self, lane: Expression, register: Expression) -> tuple[Expression, Expression]:
        """The row and the column of the element that a lane holds in a register."""
        values = {"lane": lane, "register": register}
        return substitute(self.row, values), substitute(self.column, values)

    def holder(self, row: Expression, column: Expression) -> tuple[Expression, int]:
        """The lane and the register of an element; its row and column may depend on ``lane``, the register must not."""
        values = {"row": row, "column": column}
        number, = {evaluate(substitute(self.register, values), {"lane": t}) for t in range(_LANES)}
        return substitute(self.lane, values), number


def fragments(rows: int) -> tuple[Fragment, Fragment, Fragment]:
    """The layouts of the left matrix, of the right one, and of the sums; *rows*: rows of the sums in each lane.

    >>> left, _, sums = fragments(2)
    >>> [evaluate(e, {}) for e in sums.element(5, 3)], left.holder(9, 5)[1]        # a sum in row 9; of its operands one
    ([9, 3], 3)
    """
    lane, register, row, column = map(p.Variable, ("lane", "register", "row", "column"))
    left = Fragment(lane // 4 + 8*(register % rows), lane % 4 + 4*(register // rows),
                    4*(row % 8) + column % 4, rows*(column // 4) + row // 8)
    right = Fragment(lane % 4 + 4*register, lane // 4, 4*column + row % 4, row // 4)
    sums = Fragment(lane // 4 + 8*(register // 2), 2*(lane % 4) + register % 2,
                    4*(row % 8) + column // 2, 2*(row // 8) + column % 2)
    return left, right, sums


@dataclass(frozen=True)
class Mma(Instruction):
    """The product of two small matrices, added to a third: a nest of loops around one statement.

    :func:`fragments` gives the elements that each lane holds; its sums are the elements that its iterations add to.

    :ivar row: the iname of the lane's rows; ``None``: it has one row.
    :ivar column: the iname of its two columns.
    :ivar depth: the iname along which products are added.
    :ivar left: the elements of the left matrix that a lane loads: all rows of the first column, then of the next.
    :ivar right: the elements of the right matrix that a lane loads.
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
        """The number of rows of the sums in each lane."""
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
    """*loop* and the loops in it, outermost first, and the assignment in them, if it is the only one."""
    match loop.body.children:
        case (For() as inner,):
            loops, assign = nest_of(inner)
            return (loop, *loops), assign
        case (Assign() as assign,):
            return (loop,), assign
        case _:
            return (loop,), None


def sums_of(loop: For, product: Mma) -> Iterator[p.Subscript]:
    """The sums of a lane in *product*, which executes *loop*: both columns of the first row, then of the next."""
    loops, assign = nest_of(loop)
    assert assign is not None
    starts = {x.iname: x.start for x in loops}
    for number in range(2*product.rows):
        steps = {product.row: number // 2, product.column: number % 2}
        yield element_at(assign.target, {x: add(starts[x], step) for x, step in steps.items() if x is not None})


def element_at(element: p.Variable | p.Subscript, values: Mapping[str, Expression]) -> p.Subscript:
    """*element* with *values* in its subscripts."""
    assert isinstance(element, p.Subscript)
    return p.Subscript(element.aggregate, tuple(add(substitute(i, values)) for i in element.index_tuple))


# CUDA: functions in PTX that the lanes of a warp call together

# One text serves all architectures: what one has no instruction for it does by several smaller ones, or by shuffles.

#: Rows and columns of the left matrix that an instruction in float64 takes; all but the first are there from sm_90 on.
_SMALLEST = (8, 4)
_SHAPES = (_SMALLEST, (16, 4), (16, 8), (16, 16))


def _mma_calls(printer: Printer, loop: For, product: Mma, bounds: LowerBounds) -> Iterator[str]:
    _, assign = nest_of(loop)
    assert assign is not None
    if printer.annotate:
        yield f"// {assign.statement}"
    dtype = printer.dtype_of(assign.target)
    sums, left, right = ([printer.value(e, bounds, dtype) for e in part]
                         for part in (sums_of(loop, product), product.left, product.right))
    rows, steps = len(left) // len(right), len(right)
    depth = steps if (8*rows, 4*steps) in _SHAPES else 1
    name = _name(8*rows, 4*depth)
    for q in range(0, steps, depth):
        arguments = (*sums, *left[rows*q:rows*(q + depth)], *right[q:q + depth])
        yield f"{name}({', '.join(arguments)});"


def _name(m: int, k: int) -> str:
    return f"mma_m{m}n8k{k}_f64"


#: Without the instruction, each lane shares its elements by shuffles.
_BY_SHUFFLES = """\
    const int lane = threadIdx.x % 32;
    for (int k = 0; k < 4; ++k) {
        const double left = __shfl_sync(0xffffffff, a, k, 4);
        c0 += left*__shfl_sync(0xffffffff, b, 8*(lane % 4) + k);
        c1 += left*__shfl_sync(0xffffffff, b, 8*(lane % 4) + 4 + k);
    }"""


def _mma_function(m: int, k: int) -> str:
    """The function for one shape; a lane has rows that are 8 apart, and columns of *a* and rows of *b* 4 apart."""
    rows, quads = m // 8, k // 4
    c = [f"c{i}" for i in range(2*rows)]
    a, b = ([f"{x}{i}" if n > 1 else x for i in range(n)] for x, n in (("a", rows*quads), ("b", quads)))
    places = iter(range(len(c) + len(a) + len(b)))
    sums, left, right = ("{" + ", ".join(f"%{next(places)}" for _ in part) + "}" for part in (c, a, b))
    written, read = ", ".join(f'"+d"({x})' for x in c), ", ".join(f'"d"({x})' for x in (*a, *b))
    if (m, k) == _SMALLEST:
        first, other = 800, _BY_SHUFFLES
    else:
        first = 900
        other = "\n".join(f"    {_name(*_SMALLEST)}({c[2*r]}, {c[2*r + 1]}, {a[rows*q + r]}, {b[q]});"
                          for q in range(quads) for r in range(rows))
    row = "row t / 4" + (" and 8 more" if rows > 1 else "")
    column = " and ".join(["column t % 4", *(f"{4*q} more" for q in range(1, quads))])
    return f"""
// all lanes of a warp: c += a*b, {m}x8 by {m}x{k} and {k}x8. Lane t has {row} of a and c,
// {column} of a, and of b these as rows, column t / 4; and columns 2*(t % 4) and the next of c
__device__ __forceinline__ void {_name(m, k)}({', '.join(f'double &{x}' for x in c)},
    {', '.join(f'double {x}' for x in (*a, *b))})
{{
#if __CUDA_ARCH__ >= {first}
    asm volatile("mma.sync.aligned.m{m}n8k{k}.row.col.f64.f64.f64.f64 "
        "{sums}, {left}, {right}, {sums};"
        : {written}
        : {read});
#else
{other}
#endif
}}
"""


#: The functions by name, the smallest first, which the others call.
CUDA = InstructionText({_name(m, k): _mma_function(m, k) for m, k in _SHAPES}, loop=_mma_calls)
