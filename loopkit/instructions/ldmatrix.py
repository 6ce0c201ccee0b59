"""ldmatrix: the lanes of a warp load small matrices from shared memory into fragments.

The layouts are those of NVIDIA's "PTX ISA", section "Warp-level matrix load instruction: ldmatrix".
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
class LdMatrix(MatrixMove):
    """Loads matrices into a fragment."""

    verb: ClassVar[str] = "loads"
    capability: ClassVar[int] = 75

    def ends(self, nest: Nest) -> tuple[p.Subscript, p.Subscript]:
        source, target = elements_of_copy(nest, "let the statement copy elements")
        here, there = nest.memory_of(source), nest.memory_of(target)
        if here.space is not AddressSpace.SHARED:
            raise NoMatchError(f"'{source.aggregate}' is in {here.space} memory, and not in shared memory",
                               f"add_prefetch(knl, '{source.aggregate}', ...) before that of the fragment")
        if there.space is not AddressSpace.WARP:
            raise NoMatchError(f"'{target.aggregate}' is in {there.space} memory, and not in a fragment",
                               "add_prefetch(..., temporary_address_space='warp')")
        return source, target

    def issued(self, row: p.Subscript, registers: tuple[p.Subscript, ...]) -> LdMatrixIssue:
        return LdMatrixIssue(self, row, registers)


@dataclass(frozen=True)
class LdMatrixIssue(MatrixMoveIssue):
    """A load of matrices with its operands."""

    noun: ClassVar[str] = "a load of matrices"

    def loaded(self, array: str) -> tuple[p.Subscript, ...]:
        return self.elements if array_of(self.row) == array else ()


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
    what = "column" if load.transposed else "row"
    each = "the matrix" if load.count == 1 else "each matrix"
    targets = ", ".join(f"unsigned int &{r}" for r in results)
    return f"""
// all lanes of a warp: lane t provides the address of row t % 8 of matrix t / 8, 16 bytes in shared memory, and gets
// word t % 4 of {what} t / 4 of {each}
__device__ __forceinline__ void {function_name(load)}({targets},
    const void *row)
{{
    asm volatile("ldmatrix.sync.aligned.m8n8.x{load.count}{'.trans' if load.transposed else ''}.shared.b16 "
        "{{{registers}}}, [%{load.count}];"
        : {written}
        : "r"(static_cast<unsigned int>(__cvta_generic_to_shared(row))) : "memory");
}}
"""


CUDA = InstructionText({**REGISTERS, **{function_name(load): _ldmatrix_text(load) for load in LDMATRIX.values()}},
                       region=move_lines)
