"""wgmma: the threads of a warpgroup add the product of two matrices in shared memory to sums in their registers.

The matrix units read the factors by themselves, through the asynchronous proxy. A descriptor has the address of a
matrix and its layout. The layouts of the sums and of the matrices are those of NVIDIA's "PTX ISA", section
"Asynchronous warpgroup level matrix multiply-accumulate operation using wgmma.mma_async instruction".
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Completion, Instruction, Region, Scope
from loopkit.ast.value_ranges import LowerBounds
from loopkit.expr.evaluate import evaluate
from loopkit.expr.mappers import array_of, subexpressions, variables
from loopkit.expr.nodes import to_text
from loopkit.instructions.base import InstructionText, Printer
from loopkit.instructions.fragments import Digit, Digits, Fragment
from loopkit.instructions.nests import (
    Axis,
    ElementMemory,
    Issue,
    Nest,
    NoMatchError,
    Passed,
    element_at,
    element_of_numbers,
    function_name,
    statement_of,
)
from loopkit.instructions.products import (
    BFLOAT16,
    E4M3,
    E5M2,
    FLOAT16,
    FLOAT32,
    INT8,
    INT32,
    OPERANDS,
    TF32,
    UINT8,
    Numbers,
    Product,
    ProductParts,
    product_parts,
)
from loopkit.kernel.data import AddressSpace
from loopkit.poly.affine import (
    NotAffineError,
    add,
    affine_difference,
    digit_of,
    from_aff,
    if_affine,
    multiply,
    remainder,
    subtract,
    to_aff,
)
from loopkit.poly.piecewise import params_where

#: Bytes of a piece of a row: the unit of layouts; of a swizzled row; of the rows after which the swizzle repeats.
_PIECE, _ROW, _REPEAT = 16, 128, 1024

#: Rows of a piece of a matrix.
_ROWS = 8

#: Bytes that a descriptor has no more room for.
_FAR = 1 << 18


@dataclass(frozen=True)
class MatrixLayout:
    """The places of the elements of a matrix in shared memory.

    :ivar transposed: elements of one step are next to each other; else steps of one row.
    :ivar swizzle: pieces of rows of 128 bytes are permuted over 8 rows; else rows of 16 bytes follow each other.
    """

    transposed: bool
    swizzle: bool

    @property
    def unit(self) -> int:
        """The bytes of a row of a box."""
        return _ROW if self.swizzle else _PIECE

    def digits(self, size: int) -> tuple[tuple[int, str], tuple[int, str]]:
        """For a row of the matrix, then for a step: the number in a box, and the distance of boxes.

        Elements of *size* bytes. The axis along the rows of a box has as many as fit, the other axis has 8.
        """
        along, across = (self.unit // size, self._far), (_ROWS, self._near)
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


@dataclass(frozen=True)
class Wgmma(Product):
    """The product of two matrices in shared memory, with *depth* steps."""

    depth: int

    scope: ClassVar[Scope] = Scope.WARPGROUP
    completion: ClassVar[Completion] = Completion.PRODUCTS
    asynchronous_proxy: ClassVar[bool] = True
    asynchronous_registers: ClassVar[bool] = True
    only_on: ClassVar[str] = "sm_90a"

    @property
    def steps(self) -> Digits:
        return (Digit(self.depth, of_lanes=False, place=0),)

    @property
    def transposes(self) -> bool:
        """Does it multiply matrices whose elements of one step are next to each other?"""
        return self.factor.size == 2

    def in_order_with(self, other: Instruction) -> bool:
        return self == other

    def issue(self, nest: Nest) -> WgmmaIssue:
        parts = product_parts(self, nest)
        own = _moving_names(nest, parts)
        left, right = (_shared_matrix(self, nest, parts, element_at(e, own), axis) for e, axis in (
            (parts.left, parts.rows), (parts.right, parts.columns)))
        target = element_at(parts.target, own)
        sums = list[p.Subscript]()
        for number in range(self.sums.registers):
            found = self.sums.values([*map(p.Variable, parts.lanes)], number)
            sums.append(element_of_numbers(target, *(
                (axis, digits, [found[d] for d in digits]) for axis, digits in (
                    (parts.rows, self.sums.rows), (parts.columns, self.sums.columns)))))
        return WgmmaIssue(self, left, right, tuple(sums), _distances_of_sums(self, nest, sums))


@dataclass(frozen=True)
class WgmmaIssue(Issue):
    """A product with its operands.

    :ivar sums: for each register of a thread, the element in it.
    :ivar distances: the elements between sums of the digits of the register's number, the slowest first.
    """

    left: SharedMatrix
    right: SharedMatrix
    sums: tuple[p.Subscript, ...]
    distances: tuple[int, ...]

    noun: ClassVar[str] = "a product of matrices"
    scope: ClassVar[Scope] = Scope.WARPGROUP
    completion: ClassVar[Completion] = Completion.PRODUCTS
    asynchronous_proxy: ClassVar[bool] = True
    asynchronous_registers: ClassVar[bool] = True

    @property
    def titles(self) -> tuple[str, ...]:
        return (f"{self.instruction.name} by the threads of a warpgroup: {self.left}; {self.right}",)

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.left.first, self.right.first, *self.sums)

    @property
    def alignments(self) -> Mapping[str, int]:
        found = dict[str, int]()
        for part in (self.left, self.right):
            array = array_of(part.first)
            found[array] = max(found.get(array, 0), _REPEAT if part.layout.swizzle else _PIECE)
        return found

    def in_order_with(self, other: Instruction) -> bool:
        return isinstance(other, WgmmaIssue) and self.instruction == other.instruction

    def passed(self, nest: Nest) -> tuple[Passed, ...]:
        wgmma = self.instruction
        assert isinstance(wgmma, Wgmma)
        parts = product_parts(wgmma, nest)
        own = _moving_names(nest, parts)
        for part, e, axis in ((self.left, parts.left, parts.rows), (self.right, parts.right, parts.columns)):
            _require_layout(wgmma, nest, parts, element_at(e, own), axis, part)
        if _distances_of_sums(wgmma, nest, self.sums) != self.distances:
            raise NoMatchError(f"its sums are not {self.distances} elements apart")
        row, column = (axis.number(wgmma.sums.lanes) for axis in (parts.rows, parts.columns))
        return (Passed(parts.target, self.sums, *wgmma.sums.holder(row, column)),)


def _moving_names(nest: Nest, parts: ProductParts) -> Mapping[str, Expression]:
    """The constants in scope that differ between iterations, or between threads of the warpgroup."""
    moved = {*parts.lanes, *(x.iname for x in nest.loops)}
    return {x: value for x, value in nest.names.items() if variables(value) & moved}


# Matrices in shared memory

def _shared_matrix(of: Wgmma, nest: Nest, parts: ProductParts, element: p.Subscript, axis: Axis) -> SharedMatrix:
    """The matrix with an *element* for each row or column on *axis* and each step.

    :raises NoMatchError: its elements are not where a descriptor can say.
    """
    memory = nest.memory_of(element)
    name, size = array_of(element), memory.dtype.itemsize
    if memory.space is not AddressSpace.SHARED:
        raise NoMatchError(f"'{name}' is in {memory.space} memory, and the instruction multiplies matrices in shared "
                           "memory", f"add_prefetch(knl, '{name}', ...) or precompute the tile")
    _require_rows(memory, name)

    def at(row: int, step: int) -> p.Subscript:
        return element_at(element, {**axis.digits(row), **parts.depth.digits(step)})

    def distance(row: int, step: int) -> int:
        """The elements from the first one to this one, if all names are 0; the layout is proven afterwards."""
        here, start = (linear(e.index_tuple, memory.shape) for e in (at(row, step), first))
        difference = subtract(here, start)
        return evaluate(difference, dict.fromkeys(variables(difference), 0))
    first, rows = at(0, 0), prod(axis.extents)
    layout = MatrixLayout(of.transposes and distance(1, 0) == 1, memory.swizzle is not None)
    distances = {"leading": _PIECE, "stride": _PIECE}
    (in_row, of_rows), (in_step, of_steps) = layout.digits(size)
    for place, count, extent, field in (((in_row, 0), in_row, rows, of_rows),
                                        ((0, in_step), in_step, of.depth, of_steps)):
        if extent > count:
            distances[field] = distance(*place)*size
    found = SharedMatrix(_in_short(first), layout, distances["leading"], distances["stride"])
    _require_layout(of, nest, parts, element, axis, found)
    return found


def _require_rows(memory: ElementMemory, name: str) -> None:
    """:raises NoMatchError: the swizzle of an array is not that of the matrix units."""
    own, size = memory.swizzle, memory.dtype.itemsize
    if own is None:
        return
    *_, rows, row = memory.shape
    right = own.chunk*size == _PIECE and own.period == _ROWS and own.axis == len(memory.shape) - 2
    whole = isinstance(rows, int) and (rows % _ROWS == 0 or len(memory.shape) == 2)
    if not right or not whole or not isinstance(row, int) or row*size != _ROW:
        raise NoMatchError(f"the matrix units cannot read '{name}' with the swizzle '{own}' of rows of {to_text(row)} "
                           "elements", _as_rows(name, size))


def _as_rows(name: str, size: int) -> str:
    """A way out: the layout that serves most."""
    return (f"let the last axis of '{name}' have {_ROW // size} elements, which split_array_axis and tag_array_axes "
            f"give it, and swizzle(knl, '{name}', chunk={_PIECE // size})")


def _require_layout(of: Wgmma, nest: Nest, parts: ProductParts, element: p.Subscript, axis: Axis, matrix: SharedMatrix
                    ) -> None:
    """:raises NoMatchError: some *element* may not be where the descriptor of *matrix* says."""
    memory, layout = nest.memory_of(element), matrix.layout
    name, size = array_of(element), memory.dtype.itemsize
    if layout.transposed and not of.transposes:
        raise NoMatchError(f"steps of one row of {to_text(element)} are not next to each other, and {of.factor.dtype} "
                           "matrices are not transposed", f"store '{name}' with the steps along its last axis")
    if any(not 0 <= by < _FAR or by % _PIECE for by in matrix.distances.values()):
        raise NoMatchError(f"boxes of '{name}' are {matrix.leading} and {matrix.stride} bytes apart",
                           _as_rows(name, size))
    first, place = (multiply(size, linear(e.index_tuple, memory.shape)) for e in (matrix.first, element))
    row, step = (replace(a, lanes=(None,)*len(a.lanes)).number() for a in (axis, parts.depth))
    inside: list[Expression] = []
    for x, extent, start in zip((*axis.inames, *parts.depth.inames), (*axis.extents, *parts.depth.extents),
                                (*axis.starts, *parts.depth.starts), strict=True):
        inside += [p.Comparison(start, "<=", p.Variable(x)), p.Comparison(p.Variable(x), "<", start + extent)]
    wanted = add(first, layout.offset(row, step, size, matrix.distances))
    if not _never((*inside, p.Comparison(subtract(place, wanted), "!=", 0))):
        raise NoMatchError(f"the elements {to_text(element)} of a matrix are not where the instruction looks for them",
                           _as_rows(name, size))
    inside = [c for i, extent in zip(matrix.first.index_tuple, memory.shape, strict=True)
              for c in (p.Comparison(i, ">=", 0), p.Comparison(i, "<", extent))]
    starts = (p.Comparison(remainder(first, _PIECE), "!=", 0),
              *((p.Comparison(remainder(first, _REPEAT), ">=", _ROW),) if layout.swizzle else ()))
    if not all(_never((*inside, wrong)) for wrong in starts):
        what = f"a multiple of {_ROWS} rows and " if layout.swizzle else ""
        raise NoMatchError(f"the matrix from {to_text(matrix.first)} on may not begin at {what}a multiple of {_PIECE} "
                           "bytes", "begin the boxes of a product at multiples of their shape")


def _in_short(element: p.Subscript) -> p.Subscript:
    """*element* without the quotients and the remainders that its subscripts do not need."""
    def divides(i: Expression) -> bool:
        return any(isinstance(e, p.FloorDiv | p.Remainder) for e in subexpressions(i))

    def short(i: Expression) -> Expression:
        found = if_affine(lambda: from_aff(to_aff(i, ()))) if divides(i) else None
        return i if found is None or divides(found) else found
    return p.Subscript(element.aggregate, tuple(map(short, element.index_tuple)))


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


def _distance_of(memory: ElementMemory, element: p.Subscript, first: p.Subscript) -> int | None:
    """The number of elements from *first* to *element*; ``None``: it is not constant."""
    return affine_difference(*(linear(e.index_tuple, memory.shape) for e in (element, first)))


# Sums

def _distances_of_sums(of: Product, nest: Nest, sums: Sequence[p.Subscript]) -> tuple[int, ...]:
    """The elements between sums of each digit of the register's number; :raises NoMatchError: not constant."""
    memory, digits = nest.memory_of(sums[0]), of.sums.digits_of_registers
    weights = [prod(d.extent for d in digits[k + 1:]) for k in range(len(digits))]
    found = tuple(_distance_of(memory, sums[weight], sums[0]) or 0 for weight in weights)
    places = [sum(by*int(value) for by, value in zip(found, of.sums.register_digits(number), strict=True))
              for number in range(len(sums))]
    if any(_distance_of(memory, e, sums[0]) != place for e, place in zip(sums, places, strict=True)):
        raise NoMatchError(f"the registers of {to_text(sums[0])} depend on the thread, or are not in rows",
                           "leave the axes of the sums as tensorize orders them")
    return found


# The instructions

def _instructions_of_sizes() -> Iterator[Wgmma]:
    for factor, total in ((BFLOAT16, FLOAT32), (FLOAT16, FLOAT32), (TF32, FLOAT32), (E4M3, FLOAT32), (E5M2, FLOAT32),
                          (INT8, INT32), (UINT8, INT32)):
        k = 2*_PIECE // factor.size
        for n in range(8, 257, 8):
            if total != INT32 or n in (8, 24) or n % 16 == 0:
                yield _wgmma(n, k, factor, total)


def _wgmma(n: int, k: int, factor: Numbers, total: Numbers) -> Wgmma:
    sums = Fragment.of("t2*4 r1*2 t1*8", f"{f'r2*{n // 8} ' if n > 8 else ''}t0*4 r0*2")
    return Wgmma(f"wgmma.m64n{n}k{k}.{total.ptx}.{factor.ptx}", sums, factor, total, 90, k)


#: The instructions by name.
WGMMA: Mapping[str, Wgmma] = {wgmma.name: wgmma for wgmma in _instructions_of_sizes()}


# CUDA: functions in PTX that the threads of a warpgroup call together

_MATRIX_AT = """
// the descriptor of a matrix in shared memory: its first element, the bytes between its boxes, the kind of its swizzle
template <int LEADING, int STRIDE, int SWIZZLE>
__device__ __forceinline__ unsigned long long matrix_at(const void *first)
{
    const unsigned long long address = static_cast<unsigned int>(__cvta_generic_to_shared(first));
    return (address & 0x3ffff) >> 4 | LEADING / 16ull << 16 | STRIDE / 16ull << 32 | (SWIZZLE + 0ull) << 62;
}
"""


def _wgmma_text(wgmma: Wgmma) -> str:
    """The function for *wgmma*."""
    m, n, k = wgmma.shape
    count, (kind, constraint) = wgmma.sums.registers, OPERANDS[wgmma.sum.ptx]
    digits = wgmma.sums.digits_of_registers
    names = [("ITEM", "PART", "BOX")[d.place] for d in digits]
    places = [" + ".join(f"{value}*{x}" for x, value in zip(names, wgmma.sums.register_digits(number), strict=True))
              for number in range(count)]
    written = [f'"+{constraint}"(sums[{place}])' for place in places]
    lines = ",\n            ".join(", ".join(written[first:first + 4]) for first in range(0, count, 4))
    registers = ", ".join(f"%{number}" for number in range(count))
    turned = ("LEFT", "RIGHT") if wgmma.transposes else ()
    scales = () if wgmma.sum == INT32 else ("1", "1")
    rest = "".join(f", {x}" for x in (*scales, *(f"%{count + 2 + number}" for number in range(len(turned)))))
    immediate = "".join(f', "n"({x})' for x in turned)
    template = ", ".join(f"int {x}" for x in (*names, *turned))
    place = " + ".join(f"{x}*{x[0].lower()}" for x in names)
    also = "; LEFT, RIGHT: is it transposed?" if turned else ""
    return f"""
// all threads of a warpgroup, asynchronously: sums += left*right, {m}x{n} by {m}x{k} and {k}x{n}. Thread t has the sums
// [16*(t / 32) + 8*p + t % 32 / 4][{'8*b + ' if n > 8 else ''}2*(t % 4) + i] at {place}{also}
template <{template}> __device__ __forceinline__ void {function_name(wgmma)}(
    {kind} *sums, unsigned long long left, unsigned long long right)
{{
    asm volatile("{{ .reg .pred p; setp.eq.u32 p, 0, 0; wgmma.mma_async.sync.aligned.m{m}n{n}k{k}."
        "{wgmma.sum.ptx}.{wgmma.factor.ptx}.{wgmma.factor.ptx} "
        "{{{registers}}}, "
        "%{count}, %{count + 1}, p{rest}; }}"
        : {lines}
        : "l"(left), "l"(right){immediate});
}}
"""


def _wgmma_lines(printer: Printer, region: Region, issue: WgmmaIssue, bounds: LowerBounds) -> Iterator[str]:
    wgmma = issue.instruction
    assert isinstance(wgmma, Wgmma)
    if printer.annotate:
        yield f"// {statement_of(region)}"
    matrices = [f"matrix_at<{m.leading}, {m.stride}, {int(m.layout.swizzle)}>"
                f"(&{printer.place(m.first, bounds, printer.dtype_of(m.first))})" for m in (issue.left, issue.right)]
    turned = [int(m.layout.transposed) for m in (issue.left, issue.right)] if wgmma.transposes else []
    template = ", ".join(map(str, (*issue.distances, *turned)))
    sums = printer.place(issue.sums[0], bounds, printer.dtype_of(issue.sums[0]))
    yield f"{function_name(wgmma)}<{template}>(&{sums}, {', '.join(matrices)});"


CUDA = InstructionText({"matrix_at": _MATRIX_AT, **{function_name(w): _wgmma_text(w) for w in WGMMA.values()}},
                       region=_wgmma_lines)
