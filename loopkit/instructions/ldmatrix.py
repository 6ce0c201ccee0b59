"""ldmatrix: the lanes of a warp load small matrices from shared memory into fragments.

A matrix has 8 rows of 16 bytes. Each of the first 8, 16 or 32 lanes provides the address of a row of one of 1, 2 or 4
matrices. Each lane gets 4 bytes of each matrix: those of one row, or with ``.trans`` two elements of one column. The
layouts are those of NVIDIA's "PTX ISA", section "Warp-level matrix load instruction: ldmatrix".
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import ClassVar

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Region
from loopkit.ast.value_ranges import ValueRanges
from loopkit.expr.mappers import array_of, variables
from loopkit.expr.nodes import to_text
from loopkit.instructions.base import InstructionText, Printer
from loopkit.instructions.fragments import Digit, Digits
from loopkit.instructions.nests import (
    AS_SPLIT,
    LANE,
    REGISTERS,
    WORD,
    Axis,
    Issue,
    Nest,
    NestInstruction,
    NoMatchError,
    Passed,
    element_at,
    element_of_numbers,
    function_name,
    range_of,
    require_registers,
    statement_of,
    with_joined_digits,
)
from loopkit.kernel.data import AddressSpace
from loopkit.poly.affine import add, affine_difference, digit_of, integer_factor, multiply

#: Rows of a matrix, bytes of a row, and the digits of the lane's number: rows of the result, and words of a row.
_ROWS, _BYTES = 8, 16
_LANES: Digits = (Digit(8, True, 1), Digit(4, True, 0))


@dataclass(frozen=True)
class LdMatrix(NestInstruction):
    """Loads *count* matrices; *transposed*: a lane gets elements of a column."""

    count: int
    transposed: bool

    capability: ClassVar[int] = 75

    def issue(self, nest: Nest) -> LdMatrixIssue:
        parts = _load_parts(self, nest)
        own = {x: value for x, value in nest.names.items() if variables(value) & {*parts.lanes}}
        lane = p.Variable("l.0")                        # or a multiple of 32 more
        # lane t provides row t % 8 of matrix t // 8
        source, own_row = element_at(parts.source, own), ((Digit(_ROWS, True, 0),), [digit_of(lane, 1, _ROWS)])
        matrix = parts.matrix.digits(lane, _ROWS)
        columns = [element_of_numbers(element_at(source, {**parts.column.digits(k), **matrix}), (parts.row, *own_row))
                   for k in range(prod(parts.column.extents))]
        row = with_joined_digits(columns[0])
        _require_adjacent(self, nest, columns)
        _require_aligned(nest, row)
        target, items = element_at(parts.target, own), prod(parts.item.extents)
        values = ({**parts.matrix.digits(number // items), **parts.item.digits(number % items)}
                  for number in range(self.count*items))
        targets = tuple(element_at(target, at) for at in values)
        require_registers(nest, targets, {*parts.lanes, *(x.iname for x in nest.loops)})
        return LdMatrixIssue(self, row, targets)


@dataclass(frozen=True)
class LdMatrixIssue(Issue):
    """A load of matrices: the first element of the row that a lane provides, and the element for each register."""

    row: p.Subscript
    targets: tuple[p.Subscript, ...]

    noun: ClassVar[str] = "a load of matrices"

    @property
    def titles(self) -> tuple[str, ...]:
        return (f"{self.instruction.name} by the lanes of a warp: each provides the row that begins at "
                f"{to_text(self.row)}",)

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.row, *self.targets)

    def loaded(self, array: str) -> tuple[p.Subscript, ...]:
        return self._elements if array_of(self.row) == array else ()

    @property
    def _elements(self) -> tuple[p.Subscript, ...]:
        """The elements of the row."""
        load = self.instruction
        assert isinstance(load, LdMatrix)
        *rows, last = self.row.index_tuple
        # a lane gets a word of each matrix
        length = _BYTES // WORD*len(self.targets) // load.count
        return tuple(p.Subscript(self.row.aggregate, (*rows, add(last, k))) for k in range(length))

    @property
    def alignments(self) -> Mapping[str, int]:
        return {array_of(self.row): _BYTES}

    def passed(self, nest: Nest) -> tuple[Passed, ...]:
        load = self.instruction
        assert isinstance(load, LdMatrix)
        parts = _load_parts(load, nest)
        require_registers(nest, self.targets, {*parts.lanes, *(x.iname for x in nest.loops)})
        _require_aligned(nest, self.row)
        matrix, row, column, item = (axis.number(_LANES) for axis in (
            parts.matrix, parts.row, parts.column, parts.item))
        return (Passed(parts.source, self._elements, add(multiply(_ROWS, matrix), row), column),
                Passed(parts.target, self.targets, LANE, add(multiply(prod(parts.item.extents), matrix), item)))


# The parts of a nest

@dataclass(frozen=True)
class _LoadParts:
    """The parts of a nest that is a load of matrices.

    :ivar matrix: the loops over matrices; *row*: the inames of the rows in memory; *column*: of the elements of a row;
        *item*: the loop over the elements of one register.
    :ivar lanes: the inames of the lanes.
    """

    source: p.Subscript
    target: p.Subscript
    matrix: Axis
    row: Axis
    column: Axis
    item: Axis
    lanes: tuple[str, ...]


def _load_parts(load: LdMatrix, nest: Nest) -> _LoadParts:
    """:raises NoMatchError: *nest* does not load the matrices of *load*."""
    source, target = nest.assign.value, nest.assign.target
    if not isinstance(source, p.Subscript) or not isinstance(target, p.Subscript) or nest.assign.combine is not None:
        raise NoMatchError(f"{nest.assign.value} is not an element of an array", "let the statement copy elements")
    here, there = nest.memory_of(source), nest.memory_of(target)
    if here.space is not AddressSpace.SHARED:
        raise NoMatchError(f"'{source.aggregate}' is in {here.space} memory, and not in shared memory",
                           f"add_prefetch(knl, '{source.aggregate}', ...) before that of the fragment")
    if there.space is not AddressSpace.WARP:
        raise NoMatchError(f"'{target.aggregate}' is in {there.space} memory, and not in a fragment",
                           "add_prefetch(..., temporary_address_space='warp')")
    if here.dtype != there.dtype:
        raise NoMatchError(f"'{source.aggregate}' is {here.dtype}, and the fragment is {there.dtype}",
                           f"give '{source.aggregate}' the dtype of the fragment")
    size = here.dtype.itemsize
    if size > WORD:
        raise NoMatchError(f"an element has {size} bytes, and a register 4", "leave the copy to plain loads")
    if load.transposed and size != 2:
        raise NoMatchError(f"'{source.aggregate}' is {here.dtype}, and .trans loads elements of 2 bytes",
                           "let the matrix lie transposed in memory, and load it without .trans")
    extents = [d.extent for d in _LANES]
    lanes = nest.lane_inames(extents, "8 rows by 4 words of the matrices")
    loops = [x.iname for x in nest.loops]
    items = loops[-1:] if size < WORD else []
    matrix, item = (nest.loops_along(own) for own in (loops[:len(loops) - len(items)], items))
    if prod(matrix.extents) != load.count or prod(item.extents) != WORD // size:
        found = ", ".join(f"{x.iname} of {len(range_of(x))}" for x in nest.loops)
        raise NoMatchError(f"its loops are {found or 'none'}, but they must be {load.count} matrices"
                           + (f" of {WORD // size} elements in each register" if size < WORD else ""), AS_SPLIT)
    t1, t0 = (Axis((x,), (d.extent,), (0,), (d.place,)) for x, d in zip(lanes, _LANES, strict=True))
    words = Axis((*t0.inames, *item.inames), (*t0.extents, *item.extents), (*t0.starts, *item.starts),
                 (*t0.lanes, *item.lanes))
    row, column = (words, t1) if load.transposed else (t1, words)
    return _LoadParts(source, target, matrix, row, column, item, lanes)


def _require_adjacent(load: LdMatrix, nest: Nest, row: Sequence[p.Subscript]) -> None:
    """:raises NoMatchError: the elements of a *row* may not follow each other in memory."""
    steps, memory = [*[0]*(len(row[0].index_tuple) - 1), 1], nest.memory_of(row[0])
    other_form = load.name.removesuffix(".trans") if load.transposed else f"{load.name}.trans"
    for one, other in pairwise(row):
        if [affine_difference(i, j) for i, j in zip(other.index_tuple, one.index_tuple, strict=True)] != steps:
            raise NoMatchError(f"{to_text(one)} and {to_text(other)} are not next to each other in memory",
                               f"'{other_form}' loads them" if memory.dtype.itemsize == 2 else
                               f"store '{array_of(one)}' with the elements of a register in a row, or leave the copy "
                               "to plain loads")


def _require_aligned(nest: Nest, row: p.Subscript) -> None:
    """:raises NoMatchError: the 16 bytes from the element *row* on may not follow each other from a multiple of 16."""
    memory, length = nest.memory_of(row), _BYTES // nest.memory_of(row).dtype.itemsize
    last, extent = row.index_tuple[-1], memory.shape[-1]
    terms, array = last.children if isinstance(last, p.Sum) else (last,), array_of(row)
    if any((t if isinstance(t, int) else integer_factor(t)) % length for t in terms):
        raise NoMatchError(f"{to_text(row)} may not begin at a multiple of 16 bytes",
                           f"begin the box of the fragment at a multiple of {length} elements, or leave the copy to "
                           "plain loads")
    if not isinstance(extent, int) or extent % length:
        raise NoMatchError(f"a row of '{array}' has {extent} elements, which are not a multiple of 16 bytes",
                           f"add_padding(knl, '{array}', {len(memory.shape) - 2}, by={length})")
    if memory.swizzle is not None and memory.swizzle.chunk % length:
        raise NoMatchError(f"the swizzle of the array takes the 16 bytes from {row} on apart",
                           f"swizzle(knl, '{row.aggregate}', chunk={length})")


#: The instructions by name.
LDMATRIX: Mapping[str, LdMatrix] = {
    name: LdMatrix(name, count, transposed) for count in (1, 2, 4) for transposed in (False, True)
    for name in [f"ldmatrix.x{count}{'.trans' if transposed else ''}"]}


# CUDA

def _ldmatrix_text(load: LdMatrix) -> str:
    """The function for *load*."""
    results = [f"r{i}" for i in range(load.count)]
    registers = ", ".join(f"%{i}" for i in range(load.count))
    written = ", ".join(f'"=r"({r})' for r in results)
    what = "a column of" if load.transposed else "a row of"
    each = "the matrix" if load.count == 1 else "each matrix"
    targets = ", ".join(f"unsigned int &{r}" for r in results)
    return f"""
// all lanes of a warp: lane t provides the address of row t % 8 of matrix t / 8, 16 bytes in shared memory, and gets
// 4 bytes of {what} {each}
__device__ __forceinline__ void {function_name(load)}({targets},
    const void *row)
{{
    asm volatile("ldmatrix.sync.aligned.m8n8.x{load.count}{'.trans' if load.transposed else ''}.shared.b16 "
        "{{{registers}}}, [%{load.count}];"
        : {written}
        : "r"(static_cast<unsigned int>(__cvta_generic_to_shared(row))) : "memory");
}}
"""


def _ldmatrix_lines(printer: Printer, region: Region, issue: LdMatrixIssue, bounds: ValueRanges) -> Iterator[str]:
    load = issue.instruction
    assert isinstance(load, LdMatrix)
    if printer.annotate:
        yield f"// {statement_of(region)}"
    dtype = printer.dtype_of(issue.row)
    count = max(WORD // dtype.itemsize, 1)
    words = [f"word_at({printer.place(e, bounds, dtype)})" for e in issue.targets[::count]]
    yield f"{function_name(load)}({', '.join(words)}, &{printer.place(issue.row, bounds, dtype)});"


CUDA = InstructionText({**REGISTERS, **{function_name(load): _ldmatrix_text(load) for load in LDMATRIX.values()}},
                       region=_ldmatrix_lines)
