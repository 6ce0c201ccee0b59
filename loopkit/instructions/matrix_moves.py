"""Moves of small matrices between shared memory and the registers of a warp's lanes, by ldmatrix and stmatrix.

A matrix has 8 rows of 16 bytes. Each of the first 8, 16 or 32 lanes provides the address of a row of one of 1, 2 or 4
matrices. Each lane has 4 bytes of each matrix in a register: those of one row, or with ``.trans`` two elements of one
column.
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
from loopkit.instructions.base import Printer
from loopkit.instructions.fragments import Digit, Digits
from loopkit.instructions.nests import (
    AS_SPLIT,
    LANE,
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
from loopkit.poly.affine import add, affine_difference, digit_of, integer_factor, multiply

#: Rows of a matrix, bytes of a row, and the digits of the lane's number: rows of the registers, and words of a row.
_ROWS, _BYTES = 8, 16
_LANES: Digits = (Digit(8, True, 1), Digit(4, True, 0))

#: A way out that holds for all moves.
PLAIN = "leave the copy to plain loads and stores"


@dataclass(frozen=True)
class MatrixMove(NestInstruction):
    """Moves *count* matrices; *transposed*: a lane has elements of a column.

    :cvar verb: the word for the move in messages.
    """

    count: int
    transposed: bool

    verb: ClassVar[str] = "moves"

    def ends(self, nest: Nest) -> tuple[p.Subscript, p.Subscript]:
        """The element in shared memory, and the one in a register; :raises NoMatchError: they are elsewhere."""
        raise NotImplementedError

    def issued(self, row: p.Subscript, registers: tuple[p.Subscript, ...]) -> MatrixMoveIssue:
        """The move with these operands."""
        raise NotImplementedError

    def issue(self, nest: Nest) -> MatrixMoveIssue:
        parts = _parts_of_move(self, nest)
        own = {x: value for x, value in nest.names.items() if variables(value) & {*parts.lanes}}
        lane = p.Variable("l.0")                        # or a multiple of 32 more
        # lane t provides row t % 8 of matrix t // 8
        shared, own_row = element_at(parts.shared, own), ((Digit(_ROWS, True, 0),), [digit_of(lane, 1, _ROWS)])
        matrix = parts.matrix.digits(lane, _ROWS)
        columns = [element_of_numbers(element_at(shared, {**parts.column.digits(k), **matrix}), (parts.row, *own_row))
                   for k in range(prod(parts.column.extents))]
        row = with_joined_digits(columns[0])
        _require_adjacent(self, nest, columns)
        _require_aligned(nest, row)
        held, items = element_at(parts.held, own), prod(parts.item.extents)
        values = ({**parts.matrix.digits(number // items), **parts.item.digits(number % items)}
                  for number in range(self.count*items))
        registers = tuple(element_at(held, at) for at in values)
        require_registers(nest, registers, {*parts.lanes, *(x.iname for x in nest.loops)})
        return self.issued(row, registers)


@dataclass(frozen=True)
class MatrixMoveIssue(Issue):
    """A move of matrices: the first element of the row that a lane provides, and the element in each register."""

    row: p.Subscript
    registers: tuple[p.Subscript, ...]

    noun: ClassVar[str] = "a move of matrices"

    @property
    def titles(self) -> tuple[str, ...]:
        return (f"{self.instruction.name} by the lanes of a warp: each provides the row that begins at "
                f"{to_text(self.row)}",)

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.row, *self.registers)

    @property
    def elements(self) -> tuple[p.Subscript, ...]:
        """The elements of the row."""
        move = self.instruction
        assert isinstance(move, MatrixMove)
        *rows, last = self.row.index_tuple
        # a lane has a word of each matrix
        length = _BYTES // WORD*len(self.registers) // move.count
        return tuple(p.Subscript(self.row.aggregate, (*rows, add(last, k))) for k in range(length))

    @property
    def alignments(self) -> Mapping[str, int]:
        return {array_of(self.row): _BYTES, array_of(self.registers[0]): WORD}

    def passed(self, nest: Nest) -> tuple[Passed, ...]:
        move = self.instruction
        assert isinstance(move, MatrixMove)
        parts = _parts_of_move(move, nest)
        require_registers(nest, self.registers, {*parts.lanes, *(x.iname for x in nest.loops)})
        _require_aligned(nest, self.row)
        matrix, row, column, item = (axis.number(_LANES) for axis in (
            parts.matrix, parts.row, parts.column, parts.item))
        return (Passed(parts.shared, self.elements, add(multiply(_ROWS, matrix), row), column),
                Passed(parts.held, self.registers, LANE, add(multiply(prod(parts.item.extents), matrix), item)))


# The parts of a nest

def elements_of_copy(nest: Nest, hint: str) -> tuple[p.Subscript, p.Subscript]:
    """The element that *nest* copies, and the one that it writes; :raises NoMatchError: it does not copy."""
    source, target = nest.assign.value, nest.assign.target
    if not isinstance(source, p.Subscript) or not isinstance(target, p.Subscript) or nest.assign.combine is not None:
        raise NoMatchError(f"{source} is not an element of an array", hint)
    return source, target


@dataclass(frozen=True)
class _MoveParts:
    """The parts of a nest that is a move of matrices.

    :ivar shared: the element in shared memory; *held*: the one in a register.
    :ivar matrix: the loops over matrices; *row*: the inames of the rows in memory; *column*: of the elements of a row;
        *item*: the loop over the elements of one register.
    :ivar lanes: the inames of the lanes.
    """

    shared: p.Subscript
    held: p.Subscript
    matrix: Axis
    row: Axis
    column: Axis
    item: Axis
    lanes: tuple[str, ...]


def _parts_of_move(move: MatrixMove, nest: Nest) -> _MoveParts:
    """:raises NoMatchError: *nest* does not move the matrices of *move*."""
    shared, held = move.ends(nest)
    here, there = nest.memory_of(shared), nest.memory_of(held)
    if here.dtype != there.dtype:
        raise NoMatchError(f"'{shared.aggregate}' is {here.dtype}, and '{held.aggregate}' is {there.dtype}",
                           "give both the same dtype, and convert in another statement")
    size = here.dtype.itemsize
    if size > WORD:
        raise NoMatchError(f"an element of '{shared.aggregate}' has {size} bytes, and ldmatrix and stmatrix move at "
                           f"most {WORD}", PLAIN)
    if move.transposed and size != 2:
        raise NoMatchError(f"'{shared.aggregate}' is {here.dtype}, and .trans {move.verb} elements of 2 bytes",
                           "let the matrix lie transposed in memory, and leave out .trans")
    extents = [d.extent for d in _LANES]
    lanes = nest.lane_inames(extents, "8 rows by 4 words of the matrices")
    loops = [x.iname for x in nest.loops]
    items = loops[-1:] if size < WORD else []
    matrix, item = (nest.loops_along(own) for own in (loops[:len(loops) - len(items)], items))
    if prod(matrix.extents) != move.count or prod(item.extents) != WORD // size:
        found = ", ".join(f"{x.iname} of {len(range_of(x))}" for x in nest.loops)
        raise NoMatchError(f"its loops are {found or 'none'}, but they must be {move.count} matrices"
                           + (f" of {WORD // size} elements in each register" if size < WORD else ""), AS_SPLIT)
    t1, t0 = (Axis((x,), (d.extent,), (0,), (d.place,)) for x, d in zip(lanes, _LANES, strict=True))
    words = Axis((*t0.inames, *item.inames), (*t0.extents, *item.extents), (*t0.starts, *item.starts),
                 (*t0.lanes, *item.lanes))
    row, column = (words, t1) if move.transposed else (t1, words)
    return _MoveParts(shared, held, matrix, row, column, item, lanes)


def _require_adjacent(move: MatrixMove, nest: Nest, row: Sequence[p.Subscript]) -> None:
    """:raises NoMatchError: the elements of a *row* may not follow each other in memory."""
    steps, memory = [*[0]*(len(row[0].index_tuple) - 1), 1], nest.memory_of(row[0])
    other_form = move.name.removesuffix(".trans") if move.transposed else f"{move.name}.trans"
    for one, other in pairwise(row):
        if [affine_difference(i, j) for i, j in zip(other.index_tuple, one.index_tuple, strict=True)] != steps:
            raise NoMatchError(f"{to_text(one)} and {to_text(other)} are not next to each other in memory",
                               f"'{other_form}' {move.verb} them" if memory.dtype.itemsize == 2 else
                               f"store '{array_of(one)}' with the elements of a register in a row, or {PLAIN}")


def _require_aligned(nest: Nest, row: p.Subscript) -> None:
    """:raises NoMatchError: the 16 bytes from the element *row* on may not follow each other from a multiple of 16."""
    memory, length = nest.memory_of(row), _BYTES // nest.memory_of(row).dtype.itemsize
    last, extent = row.index_tuple[-1], memory.shape[-1]
    terms, array = last.children if isinstance(last, p.Sum) else (last,), array_of(row)
    if any((t if isinstance(t, int) else integer_factor(t)) % length for t in terms):
        raise NoMatchError(f"{to_text(row)} may not begin at a multiple of 16 bytes",
                           f"begin the box of the fragment at a multiple of {length} elements, or {PLAIN}")
    if not isinstance(extent, int) or extent % length:
        raise NoMatchError(f"a row of '{array}' has {extent} elements, which are not a multiple of 16 bytes",
                           f"add_padding(knl, '{array}', {len(memory.shape) - 2}, by={length})")
    if memory.swizzle is not None and memory.swizzle.chunk % length:
        raise NoMatchError(f"the swizzle separates the 16 bytes that begin at {to_text(row)}",
                           f"swizzle(knl, '{row.aggregate}', chunk={length})")


# CUDA

def move_lines(printer: Printer, region: Region, issue: MatrixMoveIssue, bounds: ValueRanges) -> Iterator[str]:
    """The call of the function with the words in registers, and the address of the row."""
    if printer.annotate:
        yield f"// {statement_of(region)}"
    dtype = printer.dtype_of(issue.row)
    words = [f"word_at({printer.place(e, bounds, dtype)})" for e in issue.registers[::max(WORD // dtype.itemsize, 1)]]
    yield f"{function_name(issue.instruction)}({', '.join(words)}, &{printer.place(issue.row, bounds, dtype)});"
