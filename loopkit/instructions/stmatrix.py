"""stmatrix: the lanes of a warp store small matrices from their registers to shared memory.

Two neighbouring sums of a product are one register in elements of 2 bytes. One instruction stores four registers of
each lane. The layouts are those of NVIDIA's "PTX ISA", section "Warp-level matrix store instruction: stmatrix".
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pymbolic.primitives as p

from loopkit.expr.mappers import array_of
from loopkit.instructions.base import InstructionText
from loopkit.instructions.matrix_moves import MatrixMove, MatrixMoveIssue, elements_of_copy, move_lines
from loopkit.instructions.nests import REGISTERS, Nest, NoMatchError, function_name
from loopkit.kernel.data import AddressSpace


@dataclass(frozen=True)
class StMatrix(MatrixMove):
    """Stores matrices, whose elements each lane has in an array of its own."""

    verb: ClassVar[str] = "stores"
    for_others: ClassVar[str] = "stores"
    capability: ClassVar[int] = 90

    def ends(self, nest: Nest) -> tuple[p.Subscript, p.Subscript]:
        source, target = elements_of_copy(nest, "compute the values in registers first, in loops of their own")
        here, there = nest.memory_of(source), nest.memory_of(target)
        if here.space is not AddressSpace.PRIVATE:
            raise NoMatchError(f"'{source.aggregate}' is in {here.space} memory, and not in registers of the thread",
                               "let the lanes that compute the elements store them")
        if there.space is not AddressSpace.SHARED:
            raise NoMatchError(f"'{target.aggregate}' is in {there.space} memory, and not in shared memory",
                               f"buffer_array(knl, '{target.aggregate}', ...) makes a tile in shared memory")
        return target, source

    def issued(self, row: p.Subscript, registers: tuple[p.Subscript, ...]) -> StMatrixIssue:
        return StMatrixIssue(self, row, registers)


@dataclass(frozen=True)
class StMatrixIssue(MatrixMoveIssue):
    """A store of matrices with its operands."""

    noun: ClassVar[str] = "a store of matrices"
    for_others: ClassVar[str] = "stores"

    def stored(self, array: str) -> tuple[p.Subscript, ...]:
        return self.elements if array_of(self.row) == array else ()


#: The instructions by name.
STMATRIX: Mapping[str, StMatrix] = {
    name: StMatrix(name, count, transposed) for count in (1, 2, 4) for transposed in (False, True)
    for name in [f"stmatrix.x{count}{'.trans' if transposed else ''}"]}


# CUDA

def _stmatrix_text(store: StMatrix) -> str:
    """The function for *store*."""
    values = [f"r{i}" for i in range(store.count)]
    registers = ", ".join(f"%{i + 1}" for i in range(store.count))
    read = ", ".join(f'"r"({r})' for r in values)
    what = "column" if store.transposed else "row"
    each = "the matrix" if store.count == 1 else "each matrix"
    return f"""
// all lanes of a warp: lane t provides the address of row t % 8 of matrix t / 8, 16 bytes in shared memory, and has
// word t % 4 of {what} t / 4 of {each}
__device__ __forceinline__ void {function_name(store)}({', '.join(f'unsigned int {r}' for r in values)},
    void *row)
{{
    asm volatile("stmatrix.sync.aligned.m8n8.x{store.count}{'.trans' if store.transposed else ''}.shared.b16 "
        "[%0], {{{registers}}};"
        :: "r"(static_cast<unsigned int>(__cvta_generic_to_shared(row))), {read} : "memory");
}}
"""


CUDA = InstructionText({**REGISTERS, **{function_name(store): _stmatrix_text(store) for store in STMATRIX.values()}},
                       region=move_lines)
