"""Atomic update: one indivisible step reads an element, combines it with an operand and writes it."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign
from loopkit.ast.value_ranges import LowerBounds
from loopkit.errors import PreconditionError
from loopkit.expr.kinds import is_half
from loopkit.expr.nodes import REDUCTIONS
from loopkit.instructions.base import InstructionText, MemoryInstruction, Printer
from loopkit.kernel.data import AddressSpace


@dataclass(frozen=True)
class AtomicUpdate(MemoryInstruction):
    """The atomic update of an element by an assignment with an operation."""

    noun: ClassVar[str] = "an atomic update"
    memories: ClassVar[frozenset[AddressSpace]] = frozenset(
        {AddressSpace.WARP, AddressSpace.SHARED, AddressSpace.GLOBAL})
    commutes: ClassVar[bool] = True
    titles: ClassVar[tuple[str, ...]] = ("atomic",)

    def claims(self, element: Expression, target: Expression) -> bool:
        return element == target


# CUDA, and C with OpenMP

_INTEGERS = ("int32", "uint32", "int64", "uint64")
#: CUDA's functions and their dtypes, by operation.
_FUNCTIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "+": ("atomicAdd", (*_INTEGERS, "float32", "float64")),
    "min": ("atomicMin", _INTEGERS), "max": ("atomicMax", _INTEGERS)}


def _cuda(printer: Printer, node: Assign, _: AtomicUpdate, bounds: LowerBounds) -> Iterator[str]:
    """The update on a GPU. Its old value is not used, so that the thread does not wait for it.

    :raises PreconditionError: CUDA has no such function.
    """
    assert node.combine is not None
    function, dtypes = _FUNCTIONS.get(REDUCTIONS[node.combine].combine, ("", ()))
    dtype = printer.dtype_of(node.target)
    if dtype.name not in dtypes:
        raise PreconditionError(
            f"CUDA has no atomic {node.combine} of {dtype.name}, as '{node.statement}' needs it.",
            subject=node.statement, hint=f"the dtypes are {', '.join(dtypes)}" if dtypes else
            f"the atomic operations are {', '.join(op for op in REDUCTIONS if REDUCTIONS[op].combine in _FUNCTIONS)}")
    target, operand = printer.value(node.target, bounds, dtype), printer.value(node.value, bounds, dtype)
    if function == "atomicAdd" and dtype.name == "int64":     # the sum of two's complements is the same
        yield f"atomicAdd((unsigned long long *)&{target}, (unsigned long long)({operand}));"
    else:
        yield f"{function}(&{target}, {operand});"


CUDA = InstructionText(assignment=_cuda)


def _openmp(printer: Printer, node: Assign, _: AtomicUpdate, bounds: LowerBounds) -> list[str]:
    """The update on the host: atomic for global memory, as the threads of one block run one after another."""
    plain = printer.plain(node, bounds)
    return ["#pragma omp atomic", plain] if printer.is_global(node.target) else [plain]


#: For the threads of the host.
OPENMP = InstructionText(assignment=_openmp)


def has_openmp(operation: str, dtype: np.dtype) -> bool:
    """Can OpenMP update an element of *dtype* atomically by *operation*?"""
    return REDUCTIONS[operation].combine in ("+", "*") and dtype.kind != "c" and not is_half(dtype)
