"""Atomic update: one indivisible step reads an element, combines it with an operand and writes it."""
from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
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


# CUDA, C with OpenMP, and OpenCL

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
        raise _missing_update("CUDA", node, dtype, _FUNCTIONS, dtypes)
    target, operand = printer.value(node.target, bounds, dtype), printer.value(node.value, bounds, dtype)
    if function == "atomicAdd" and dtype.name == "int64":     # the sum of two's complements is the same
        yield f"atomicAdd((unsigned long long *)&{target}, (unsigned long long)({operand}));"
    else:
        yield f"{function}(&{target}, {operand});"


def _missing_update(language: str, node: Assign, dtype: np.dtype, operations: Collection[str], dtypes: Collection[str]
             ) -> PreconditionError:
    """The error for an update that *language* lacks; it has *operations*, this one of *dtypes*."""
    return PreconditionError(
        f"{language} has no atomic {node.combine} of {dtype.name}, as '{node.statement}' needs it.",
        subject=node.statement, hint=f"the dtypes are {', '.join(dtypes)}" if dtypes else
        f"the atomic operations are {', '.join(op for op in REDUCTIONS if REDUCTIONS[op].combine in operations)}")


CUDA = InstructionText(assignment=_cuda)


def _openmp(printer: Printer, node: Assign, _: AtomicUpdate, bounds: LowerBounds) -> list[str]:
    """The update on the host: atomic for global memory, as the threads of one block run one after another."""
    plain = printer.plain(node, bounds)
    return ["#pragma omp atomic", plain] if printer.memory_of(node.target) is AddressSpace.GLOBAL else [plain]


#: For the threads of the host.
OPENMP = InstructionText(assignment=_openmp)


#: OpenCL's functions of integers of 32 bits, by operation; those of 64 bits are an extension's.
_OPENCL_FUNCTIONS = {"+": "add", "min": "min", "max": "max"}
_OPENCL_VALUES = {"+": "old + value", "*": "old*value", "min": "fmin(old, value)", "max": "fmax(old, value)"}
_OPENCL_WORDS = {"+": "add", "*": "multiply", "min": "min", "max": "max"}
_OPENCL_TYPES = {"float32": "float", "float64": "double", "int32": "int", "uint32": "uint", "int64": "long",
                 "uint64": "ulong"}

#: Other updates, by compare-and-swap.
_OPENCL_UPDATE = """
static inline void NAME(volatile MEMORY TYPE *to, const TYPE value)
{
    volatile MEMORY BITS *word = (volatile MEMORY BITS *)to;
    BITS last, seen = *word;
    do {
        last = seen;
        const TYPE old = as_TYPE(last);
        seen = CAS(word, last, as_BITS(VALUE));
    } while (seen != last);
}
"""


def _opencl_updates() -> Iterator[tuple[str, str]]:
    for operation, value in _OPENCL_VALUES.items():
        for dtype, name in _OPENCL_TYPES.items():
            if not dtype.startswith("float") and operation in _OPENCL_FUNCTIONS:
                continue
            bits, swap = ("ulong", "atom_cmpxchg") if dtype.endswith("64") else ("uint", "atomic_cmpxchg")
            for memory in ("global", "local"):
                text = _OPENCL_UPDATE.replace("VALUE", f"({name})({value})")
                for word, spelled in (("NAME", _opencl_update(operation, dtype, memory)), ("MEMORY", f"__{memory}"),
                                      ("TYPE", name), ("BITS", bits), ("CAS", swap)):
                    text = text.replace(word, spelled)
                yield _opencl_update(operation, dtype, memory), text


def _opencl_update(operation: str, dtype: str, memory: str) -> str:
    return f"atomic_{_OPENCL_WORDS[operation]}_{_OPENCL_TYPES[dtype]}_{memory}"


def _opencl(printer: Printer, node: Assign, _: AtomicUpdate, bounds: LowerBounds) -> Iterator[str]:
    """:raises PreconditionError: there is no such function, and no compare-and-swap of so many bits."""
    assert node.combine is not None
    operation, dtype = REDUCTIONS[node.combine].combine, printer.dtype_of(node.target)
    if operation not in _OPENCL_VALUES or dtype.name not in _OPENCL_TYPES:
        dtypes = _OPENCL_TYPES if operation in _OPENCL_VALUES else ()
        raise _missing_update("OpenCL", node, dtype, _OPENCL_VALUES, dtypes)
    target, operand = printer.value(node.target, bounds, dtype), printer.value(node.value, bounds, dtype)
    if dtype.kind in "iu" and operation in _OPENCL_FUNCTIONS:
        function = f"atom{'' if dtype.itemsize == 8 else 'ic'}_{_OPENCL_FUNCTIONS[operation]}"
        yield f"{function}(&{target}, {operand});"
    else:
        memory = "global" if printer.memory_of(node.target) is AddressSpace.GLOBAL else "local"
        yield f"{_opencl_update(operation, dtype.name, memory)}(&{target}, {operand});"


OPENCL = InstructionText(dict(_opencl_updates()), assignment=_opencl)


def has_openmp(operation: str, dtype: np.dtype) -> bool:
    """Can OpenMP update an element of *dtype* atomically by *operation*?"""
    return REDUCTIONS[operation].combine in ("+", "*") and dtype.kind != "c" and not is_half(dtype)
