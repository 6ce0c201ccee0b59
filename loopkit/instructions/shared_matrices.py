"""Matrices in shared memory that matrix units read by themselves: their layouts, and the proof that a tile has one.

A descriptor has the address of a matrix, its swizzle, and the bytes between boxes of rows. The layouts are those of
NVIDIA's "PTX ISA", section "Asynchronous warpgroup level matrix multiply-accumulate instructions".
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.tensor_maps import LINE, ROWS, UNIT
from loopkit.expr.evaluate import evaluate
from loopkit.expr.indices import short_index
from loopkit.expr.mappers import array_of, variables
from loopkit.expr.nodes import to_text
from loopkit.instructions.nests import Axis, ElementMemory, Nest, NoMatchError, element_at
from loopkit.instructions.products import Product, ProductParts
from loopkit.kernel.data import AddressSpace
from loopkit.poly.affine import (
    NotAffineError,
    add,
    affine_difference,
    digit_of,
    multiply,
    remainder,
    subtract,
)
from loopkit.poly.piecewise import params_where

#: Bytes that a descriptor has no more room for.
_FAR = 1 << 18


@dataclass(frozen=True)
class MatrixLayout:
    """The places of the elements of a matrix in shared memory.

    :ivar transposed: elements of one step are next to each other; else steps of one row.
    :ivar swizzle: the bytes of a row, whose pieces are permuted over 8 rows; 0: rows of 16 bytes follow each other.
    """

    transposed: bool
    swizzle: int

    @property
    def unit(self) -> int:
        """The bytes of a row of a box."""
        return self.swizzle or UNIT

    @property
    def alignment(self) -> int:
        """The bytes at a multiple of which an array with it begins."""
        return ROWS*self.swizzle or UNIT

    def digits(self, size: int) -> tuple[tuple[int, str], tuple[int, str]]:
        """For a row of the matrix, then for a step: the number in a box, and the distance of boxes.

        Elements of *size* bytes. The axis along the rows of a box has as many as fit, the other axis has 8.
        """
        along, across = (self.unit // size, self._far), (ROWS, self._near)
        return (along, across) if self.transposed else (across, along)

    @property
    def _far(self) -> str:
        return "stride" if self.transposed and not self.swizzle else "leading"

    @property
    def _near(self) -> str:
        return "leading" if self.transposed and not self.swizzle else "stride"

    def offset(self, row: Expression, step: Expression, size: int, distances: Mapping[str, int]) -> Expression:
        """The bytes from the first element to that of *row* and *step*, before the swizzle."""
        total: Expression = 0
        for number, (count, distance), along in zip((row, step), self.digits(size), (self.transposed,
                                                    not self.transposed), strict=True):
            total = add(total, multiply(size if along else self.unit, digit_of(number, 1, count)),
                        multiply(distances[distance], digit_of(number, count, 0)))
        return total


@dataclass(frozen=True)
class SharedMatrix:
    """A matrix in shared memory: its first element, and its layout with the distances of boxes in bytes.

    :ivar leading: the distance in the first field of a descriptor for one; *stride*: that in the second one.
    """

    first: p.Subscript
    layout: MatrixLayout
    leading: int
    stride: int

    @property
    def distances(self) -> Mapping[str, int]:
        return {"leading": self.leading, "stride": self.stride}

    def __str__(self) -> str:
        swizzled = ", swizzled" if self.layout.swizzle else ""
        turned = ", transposed" if self.layout.transposed else ""
        return f"the matrix from {to_text(self.first)} on{turned}{swizzled}"


def shared_matrix(of: Product, nest: Nest, parts: ProductParts, element: p.Subscript, axis: Axis) -> SharedMatrix:
    """The matrix with an *element* for each row or column on *axis* and each step.

    :raises NoMatchError: a descriptor cannot have the places of its elements.
    """
    memory = nest.memory_of(element)
    name, size = array_of(element), memory.dtype.itemsize
    if memory.space is AddressSpace.WARP:
        raise NoMatchError(f"'{name}' is in registers, from which the instruction takes the factor of the rows only",
                           f"set_temporary_address_space(knl, '{name}', 'shared')")
    if memory.space is not AddressSpace.SHARED:
        raise NoMatchError(f"'{name}' is in {memory.space} memory, and the instruction multiplies matrices in shared "
                           "memory", f"add_prefetch(knl, '{name}', ...) or precompute the tile")
    swizzle = _swizzle_of(memory, name)

    def at(row: int, step: int) -> p.Subscript:
        return element_at(element, {**axis.digits(row), **parts.depth.digits(step)})

    def distance(row: int, step: int) -> int:
        """The elements from the first one to this one, if all names are 0; the layout is proven afterwards."""
        here, start = (linear(e.index_tuple, memory.shape) for e in (at(row, step), first))
        difference = subtract(here, start)
        return evaluate(difference, dict.fromkeys(variables(difference), 0))
    first, rows = at(0, 0), prod(axis.extents)
    if distance(0, 1) != 1 and not _may_be_transposed(of):
        raise NoMatchError(f"steps of {to_text(element)} are not next to each other, as the instruction needs them for "
                           f"{of.factor.dtype}", f"store '{name}' with the steps along its last axis")
    layout = MatrixLayout(_may_be_transposed(of) and distance(1, 0) == 1, swizzle)
    distances = {"leading": UNIT, "stride": UNIT}
    (in_row, of_rows), (in_step, of_steps) = layout.digits(size)
    for place, count, extent, field in (((in_row, 0), in_row, rows, of_rows),
                                        ((0, in_step), in_step, of.shape[2], of_steps)):
        if extent > count:
            distances[field] = distance(*place)*size
    found = SharedMatrix(p.Subscript(first.aggregate, tuple(map(short_index, first.index_tuple))), layout,
                         distances["leading"], distances["stride"])
    require_layout(of, nest, parts, element, axis, found)
    return found


def _may_be_transposed(of: Product) -> bool:
    """May elements of one step be next to each other, and not steps of one row?"""
    return of.factor.size == 2


def _swizzle_of(memory: ElementMemory, name: str) -> int:
    """The bytes of a swizzled row; 0: none; :raises NoMatchError: the swizzle is not one of the matrix units."""
    row = memory.row_swizzled
    if row is None:
        raise NoMatchError(f"the matrix units cannot read '{name}' with the swizzle '{memory.swizzle}' of rows of "
                           f"{to_text(memory.shape[-1])} elements", _as_rows(name, memory))
    return row


def _as_rows(name: str, memory: ElementMemory) -> str:
    """A way out: the layout that serves most."""
    size = memory.dtype.itemsize
    swizzled, row = f"swizzle(knl, '{name}', chunk={UNIT // size})", LINE // size
    if memory.shape[-1] == row and memory.swizzle is None:
        return swizzled
    return (f"let the last axis of '{name}' have {row} elements, and {swizzled}: split_iname, split_array_axis and "
            "tag_array_axes make boxes of them")


def require_layout(of: Product, nest: Nest, parts: ProductParts, element: p.Subscript, axis: Axis, matrix: SharedMatrix
                   ) -> None:
    """:raises NoMatchError: some *element* may not be where *matrix* has it."""
    memory, layout = nest.memory_of(element), matrix.layout
    name, size = array_of(element), memory.dtype.itemsize
    if layout.transposed and not _may_be_transposed(of):
        raise NoMatchError(f"{of.factor.dtype} matrices are not transposed")
    if any(not 0 <= by < _FAR or by % UNIT for by in matrix.distances.values()):
        raise NoMatchError(f"boxes of '{name}' are {matrix.leading} and {matrix.stride} bytes apart",
                           _as_rows(name, memory))
    first, place = (multiply(size, linear(e.index_tuple, memory.shape)) for e in (matrix.first, element))
    row, step = (replace(a, lanes=(None,)*len(a.lanes)).number() for a in (axis, parts.depth))
    inside: list[Expression] = []
    for x, extent, start in zip((*axis.inames, *parts.depth.inames), (*axis.extents, *parts.depth.extents),
                                (*axis.starts, *parts.depth.starts), strict=True):
        inside += [p.Comparison(start, "<=", p.Variable(x)), p.Comparison(p.Variable(x), "<", start + extent)]
    wanted = add(first, layout.offset(row, step, size, matrix.distances))
    if not _never((*inside, p.Comparison(subtract(place, wanted), "!=", 0))):
        raise NoMatchError(f"the elements {to_text(element)} of a matrix are not where the instruction looks for them",
                           _as_rows(name, memory))
    inside = [c for i, extent in zip(matrix.first.index_tuple, memory.shape, strict=True)
              for c in (p.Comparison(i, ">=", 0), p.Comparison(i, "<", extent))]
    starts = (p.Comparison(remainder(first, UNIT), "!=", 0), *(
        (p.Comparison(remainder(first, layout.alignment), ">=", layout.unit),) if layout.swizzle else ()))
    if not all(_never((*inside, wrong)) for wrong in starts):
        what = f"a multiple of {ROWS} rows and " if layout.swizzle else ""
        raise NoMatchError(f"the matrix from {to_text(matrix.first)} on may not begin at {what}a multiple of {UNIT} "
                           "bytes", "begin the boxes of a product at multiples of their shape")


def _never(conditions: Sequence[Expression]) -> bool:
    """Do the *conditions* hold together for no values of names?"""
    try:
        return bool(params_where(p.LogicalAnd(tuple(conditions))).is_empty())
    except NotAffineError:
        return False


def linear(index: Sequence[Expression], shape: Sequence[Expression]) -> Expression:
    """The number of the element at *index* of an array of *shape*."""
    number: Expression = 0
    for i, extent in zip(index, shape, strict=True):
        number = add(multiply(extent, number), i)
    return number


def distance_of(memory: ElementMemory, element: p.Subscript, first: p.Subscript) -> int | None:
    """The number of elements from *first* to *element*; ``None``: it is not constant."""
    return affine_difference(*(linear(e.index_tuple, memory.shape) for e in (element, first)))
