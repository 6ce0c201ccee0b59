"""The emulations of matrix instructions, by the layouts of their fragments and the bytes of their registers."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import pymbolic.primitives as p

from loopkit.ast.nodes import Region
from loopkit.emulation.memory import EmulatedArray, NumpyArray, Place, SharedArray
from loopkit.emulation.program import Nodes, Step
from loopkit.emulation.strands import Strand
from loopkit.errors import VerificationError
from loopkit.expr.functions import FUNCTIONS
from loopkit.expr.kinds import named_dtype
from loopkit.expr.mappers import array_of
from loopkit.instructions.fragments import Fragment
from loopkit.instructions.ldmatrix import LdMatrixIssue
from loopkit.instructions.matrix_moves import MatrixMove, MatrixMoveIssue
from loopkit.instructions.mma import Mma, MmaIssue
from loopkit.instructions.nests import WORD
from loopkit.instructions.products import Product
from loopkit.instructions.stmatrix import StMatrixIssue

#: Lanes of a warp; rows of a matrix that ldmatrix loads, and bytes of a row.
_LANES, _ROWS, _BYTES = 32, 8, 16


@lru_cache(maxsize=256)
def places_in(layout: Fragment, lanes: int = _LANES) -> tuple[NumpyArray, NumpyArray]:
    """The row and the column of the element in each register of each of the *lanes*."""
    every = [[layout.element(lane, register) for register in range(layout.registers)] for lane in range(lanes)]
    rows, columns = np.moveaxis(np.array(every), -1, 0)
    return rows, columns


def _require_warps(s: Strand, what: str) -> int:
    """The number of warps of a strand; :raises VerificationError: a warp has fewer than 32 threads."""
    if len(s.threads) % _LANES:
        raise VerificationError(f"A warp of block {s.block_number} has fewer than {_LANES} threads for {what}.",
                                check="emulation")
    return len(s.threads) // _LANES


# Products

def product(nodes: Nodes, _: Region, issue: MmaIssue) -> Step:
    """A product of the matrices in the registers of the lanes, added to their sums."""
    mma = issue.instruction
    assert isinstance(mma, Mma)
    factors = [FactorRegisters(nodes, part, mma.factor.size) for part in (issue.left, issue.right)]
    sums = [nodes.expressions.element(e) for e in issue.sums]
    whole, dtype = np.dtype(np.int64 if mma.sum.ptx == "s32" else np.float64), named_dtype(mma.sum.dtype)

    def multiply(s: Strand) -> None:
        _require_warps(s, mma.noun)
        places = [place(s) for place in sums]
        total = matrix(mma.sums, np.stack([s.lanes(cells.load(s, at)) for cells, at in places], axis=1), whole)
        left, right = (matrix(layout, of_unit(mma, registers.values(s, registers.places(s))), whole)
                       for layout, registers in zip((mma.left, mma.right), factors, strict=True))
        new = (total + left @ right).astype(dtype)[places_in(mma.sums)]
        for (cells, at), values in zip(places, new.T, strict=True):
            cells.store(s, at, values)
    return multiply


class FactorRegisters:
    """The values of a factor: the elements of each lane, and in warp registers all elements of each word."""

    def __init__(self, nodes: Nodes, elements: Sequence[p.Subscript], size: int) -> None:
        held = array_of(elements[0]) in nodes.warp_arrays
        self._word = max(WORD // size, 1) if held else 1
        self._places = [nodes.expressions.element(e) for e in elements[::self._word]]

    def places(self, s: Strand) -> list[tuple[EmulatedArray, Place]]:
        """The first element of each word."""
        return [place(s) for place in self._places]

    def values(self, s: Strand, places: Sequence[tuple[EmulatedArray, Place]]) -> NumpyArray:
        """The elements of each lane from these :meth:`places` on."""
        found = list[NumpyArray]()
        for cells, first in places:
            found += [s.lanes(cells.load(s, EmulatedArray.after(first, k))) for k in range(self._word)]
        return np.stack(found, axis=1)


def of_unit(mma: Product, values: NumpyArray) -> NumpyArray:
    """The numbers that the matrix unit takes *values* for."""
    return FUNCTIONS[mma.factor.through].value(values) if mma.factor.through else values


def matrix(layout: Fragment, registers: NumpyArray, dtype: np.dtype, lanes: int = _LANES) -> NumpyArray:
    """The matrix whose elements are in the *registers* of each of the *lanes*."""
    found = np.empty(layout.extents, dtype)
    found[places_in(layout, lanes)] = registers.astype(dtype)
    return found


# Moves of matrices

#: The elements of the lanes' rows in shared memory, and the place of the first element in each register.
_Operands = tuple[SharedArray, Place, list[tuple[EmulatedArray, Place]]]


def _operands_of_move(nodes: Nodes, issue: MatrixMoveIssue) -> Callable[[Strand], _Operands]:
    """The operands of a move; :raises VerificationError: it has other registers, or a row is not aligned."""
    moves = issue.instruction
    assert isinstance(moves, MatrixMove)
    row, size = nodes.expressions.element(issue.row), nodes.expressions.dtype_of(issue.row).itemsize
    registers = [nodes.expressions.element(e) for e in issue.registers[::max(WORD // size, 1)]]
    if len(registers) != moves.count:
        raise VerificationError(f"{moves.name} has {moves.count} registers, and not {len(registers)}.",
                                check="emulation")

    def found(s: Strand) -> _Operands:
        _require_warps(s, issue.noun)
        cells, (*_, first) = row(s)
        assert isinstance(cells, SharedArray)
        first = s.lanes(first)[:_ROWS*moves.count]
        if (first*size % _BYTES).any():
            raise VerificationError(f"{issue.noun} of '{cells.name}' begins a row at no multiple of {_BYTES} bytes.",
                                    check="emulation")
        return cells, (first[:, None] + np.arange(_BYTES // size),), [place(s) for place in registers]
    return found


def _turned(moves: MatrixMove, matrices: NumpyArray) -> NumpyArray:
    """The bytes of the lanes' words as those of the rows, or the other way round."""
    pairs = matrices.reshape(moves.count, _ROWS, _BYTES // 2, 2)
    return np.ascontiguousarray(pairs.transpose(0, 2, 1, 3) if moves.transposed else pairs)


def load(nodes: Nodes, _: Region, issue: LdMatrixIssue) -> Step:
    """The lanes' rows of matrices, and a word of each matrix for each lane."""
    operands, loads = _operands_of_move(nodes, issue), issue.instruction
    assert isinstance(loads, MatrixMove)

    def move(s: Strand) -> None:
        cells, rows, registers = operands(s)
        matrices = _turned(loads, np.ascontiguousarray(cells.load(s, rows)).view(np.uint8))
        for (held, start), word in zip(registers, matrices.reshape(loads.count, _LANES, WORD), strict=True):
            for k, value in enumerate(word.view(cells.data.dtype).T):
                held.store(s, EmulatedArray.after(start, k), value)
    return move


def store(nodes: Nodes, _: Region, issue: StMatrixIssue) -> Step:
    """A word of each matrix from each lane, at the lanes' rows of matrices."""
    operands, stores = _operands_of_move(nodes, issue), issue.instruction
    assert isinstance(stores, MatrixMove)

    def move(s: Strand) -> None:
        cells, (rows,), registers = operands(s)
        items = WORD // cells.data.itemsize
        words = np.stack([np.stack([s.lanes(held.load(s, EmulatedArray.after(start, k))) for k in range(items)], axis=1)
                          for held, start in registers])
        matrices = _turned(stores, np.ascontiguousarray(words).view(np.uint8))
        cells.load(s, (rows,))                          # they are inside of the array
        cells.data[rows] = matrices.reshape(-1, _BYTES).view(cells.data.dtype)
        cells.unfenced[rows] = s.threads[:len(rows), None]
    return move
