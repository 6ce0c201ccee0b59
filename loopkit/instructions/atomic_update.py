"""Atomic update: one indivisible step reads an element, combines it with an operand and writes it."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign
from loopkit.ast.value_ranges import LowerBounds
from loopkit.errors import PreconditionError
from loopkit.expr.kinds import is_half
from loopkit.expr.mappers import replaced, subexpressions
from loopkit.expr.nodes import REDUCTIONS
from loopkit.instructions.base import InstructionText, MemoryInstruction, Printer
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.statement import Statement


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
    "min": ("atomicMin", _INTEGERS), "max": ("atomicMax", _INTEGERS),
    "&": ("atomicAnd", _INTEGERS), "|": ("atomicOr", _INTEGERS), "^": ("atomicXor", _INTEGERS)}

#: CUDA's largest compare-and-swap, in bytes.
_LARGEST = 8

#: The dtypes that a store to volatile memory writes at once.
_STORED = ("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "float32", "float64")

_HELPERS = {"swap_in_word": """
// replaces an element by a function of its value, by compare-and-swap of the word around it
template <typename Word, typename T, typename F>
__device__ __forceinline__ void swap_in_word(Word *word, const T *, F new_value, unsigned int shift)
{
    const Word others = sizeof(T) == sizeof(Word) ? 0 : ~((((Word)1 << 8*sizeof(T) % (8*sizeof(Word))) - 1) << shift);
    Word last, seen = *word;
    do {
        last = seen;
        const Word part = last >> shift;
        T old = {};
        memcpy(&old, &part, sizeof(T));
        const T value = new_value(old);
        Word bits = 0;
        memcpy(&bits, &value, sizeof(T));
        seen = atomicCAS(word, last, (last & others) | bits << shift);
    } while (seen != last);
}
""", "atomic_update": """
template <typename T, typename F>
__device__ __forceinline__ void atomic_update(T *target, F new_value)
{
    if constexpr (sizeof(T) == 8) {
        swap_in_word(reinterpret_cast<unsigned long long *>(target), target, new_value, 0);
    } else if constexpr (sizeof(T) == 4) {
        swap_in_word(reinterpret_cast<unsigned int *>(target), target, new_value, 0);
    } else {
        const unsigned int at = reinterpret_cast<unsigned long long>(target) % 4;
        swap_in_word(reinterpret_cast<unsigned int *>(reinterpret_cast<char *>(target) - at), target, new_value, 8*at);
    }
}
"""}

#: The value before the update, in the text of the new one.
_OLD = p.Variable("old_")


def _cuda(printer: Printer, node: Assign, _: AtomicUpdate, bounds: LowerBounds) -> Iterator[str]:
    """The access on a GPU. The old value is not used further, so that the thread does not wait for it.

    :raises PreconditionError: the element is not a single word that CUDA swaps.
    """
    dtype = printer.dtype_of(node.target)
    if dtype.itemsize > _LARGEST or dtype.names is not None:
        what = "tuples" if dtype.names is not None else dtype.name
        raise PreconditionError(
            f"CUDA has no atomic access to {what}, as '{node.statement}' needs it.", subject=node.statement,
            hint=f"use one array for each part: the largest element is a number of {_LARGEST} bytes")
    target = printer.value(node.target, bounds, dtype)
    operation = None if node.combine is None else REDUCTIONS[node.combine]
    function, dtypes = _FUNCTIONS.get("" if operation is None else operation.combine, ("", ()))
    if dtype.name in dtypes:
        operand = printer.value(node.value, bounds, dtype)
        if function in _WITHOUT_SIGN and dtype.name == "int64":     # the bits of two's complements are the same
            yield f"{function}((unsigned long long *)&{target}, (unsigned long long)({operand}));"
        else:
            yield f"{function}(&{target}, {operand});"
        return
    new = replaced(node.value, {node.target: _OLD}) if operation is None else operation.apply(_OLD, node.value)
    if operation is None and new == node.value and dtype.name in _STORED:
        yield f"*(volatile {printer.type_name(dtype)} *)&{target} = {printer.value(new, bounds, dtype)};"
        return
    value = printer.with_registers({_OLD.name: dtype}).value(new, bounds, dtype)
    yield f"atomic_update(&{target}, [&]({printer.type_name(dtype)} {_OLD.name}) {{ return {value}; }});"


#: The functions that CUDA lacks for int64.
_WITHOUT_SIGN = ("atomicAdd", "atomicAnd", "atomicOr", "atomicXor")

CUDA = InstructionText(_HELPERS, assignment=_cuda)


def _openmp(printer: Printer, node: Assign, _: AtomicUpdate, bounds: LowerBounds) -> list[str]:
    """The access on the host: atomic for global memory, as the threads of one block run one after another."""
    plain = printer.plain(node, bounds)
    pragma = "#pragma omp atomic" + (" write" if node.combine is None else "")
    return [pragma, plain] if printer.is_global(node.target) else [plain]


#: For the threads of the host.
OPENMP = InstructionText(assignment=_openmp)


def has_openmp(statement: Statement, dtype: np.dtype) -> bool:
    """Can OpenMP make the atomic access of *statement* to an element of *dtype*?"""
    if dtype.kind == "c" or is_half(dtype) or dtype.names is not None:
        return False
    if statement.combine is None:
        return statement.assignee not in subexpressions(statement.expression)
    operation = REDUCTIONS.get(statement.combine)
    return operation is not None and operation.combine in ("+", "*", "&", "|", "^")
