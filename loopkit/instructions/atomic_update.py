"""Atomic update: one indivisible step reads an element, combines it with an operand and writes it."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign, Commuting
from loopkit.ast.value_ranges import ValueRanges
from loopkit.errors import PreconditionError
from loopkit.expr.kinds import is_narrow
from loopkit.expr.mappers import replaced, subexpressions
from loopkit.expr.nodes import REDUCTIONS
from loopkit.instructions.base import InstructionText, MemoryInstruction, Printer, indented
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.statement import Statement


@dataclass(frozen=True)
class AtomicUpdate(MemoryInstruction):
    """The atomic update of an element by an assignment with an operation."""

    noun: ClassVar[str] = "an atomic update"
    memories: ClassVar[frozenset[AddressSpace]] = frozenset(
        {AddressSpace.WARP, AddressSpace.SHARED, AddressSpace.GLOBAL})
    titles: ClassVar[tuple[str, ...]] = ("atomic",)

    def claims(self, element: Expression, target: Expression) -> bool:
        return element == target

    def commuting(self, target: p.Variable | p.Subscript, value: Expression, combine: str | None) -> Commuting:
        return target, combine


@dataclass(frozen=True)
class AtomicFetch(MemoryInstruction):
    """The load of an element's old value in one step with the atomic update that follows.

    :ivar operation: the operation of the update.
    """

    noun: ClassVar[str] = "the old value of an atomic update"
    memories: ClassVar[frozenset[AddressSpace]] = frozenset(AddressSpace)

    operation: str

    @property
    def titles(self) -> tuple[str, ...]:
        return (f"old value of {self.operation}",)

    def commuting(self, target: p.Variable | p.Subscript, value: Expression, combine: str | None) -> Commuting | None:
        return (value, self.operation) if isinstance(value, p.Variable | p.Subscript) else None


# CUDA, C with OpenMP, and OpenCL

def _keeping(update_text: Callable[[Printer, Assign, AtomicUpdate, ValueRanges], Iterator[str]], printer: Printer,
             load: Assign, update: Assign, bounds: ValueRanges) -> Iterator[str]:
    """The line of *update*, a call, and before it the place that keeps the result.

    :raises PreconditionError: the place has another dtype.
    """
    own, dtype = printer.dtype_of(load.target), printer.dtype_of(update.target)
    if own != dtype:
        raise PreconditionError(f"'{load.statement}' keeps a value of dtype {dtype} as {own}.",
                                subject=load.statement, hint="give both one dtype")
    [call] = update_text(printer, update, AtomicUpdate(), bounds)
    yield f"{printer.place(load.target, bounds)} = {call}"


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
__device__ __forceinline__ T swap_in_word(Word *word, const T *, F new_value, unsigned int shift)
{
    const Word others = sizeof(T) == sizeof(Word) ? 0 : ~((((Word)1 << 8*sizeof(T) % (8*sizeof(Word))) - 1) << shift);
    Word last, seen = *word;
    T old = {};
    do {
        last = seen;
        const Word part = last >> shift;
        memcpy(&old, &part, sizeof(T));
        const T value = new_value(old);
        Word bits = 0;
        memcpy(&bits, &value, sizeof(T));
        seen = atomicCAS(word, last, (last & others) | bits << shift);
    } while (seen != last);
    return old;
}
""", "atomic_update": """
template <typename T, typename F>
__device__ __forceinline__ T atomic_update(T *target, F new_value)
{
    if constexpr (sizeof(T) == 8) {
        return swap_in_word(reinterpret_cast<unsigned long long *>(target), target, new_value, 0);
    } else if constexpr (sizeof(T) == 4) {
        return swap_in_word(reinterpret_cast<unsigned int *>(target), target, new_value, 0);
    } else {
        const unsigned int at = reinterpret_cast<unsigned long long>(target) % 4;
        return swap_in_word(
            reinterpret_cast<unsigned int *>(reinterpret_cast<char *>(target) - at), target, new_value, 8*at);
    }
}
"""}

#: The value before the update, in the text of the new one.
_OLD = p.Variable("old_")


def _cuda(printer: Printer, node: Assign, _: AtomicUpdate, bounds: ValueRanges) -> Iterator[str]:
    """The access on a GPU. If the old value is not used further, the thread does not wait for it.

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

CUDA = InstructionText(_HELPERS, assignment=_cuda, one_step=partial(_keeping, _cuda))


def _openmp(printer: Printer, node: Assign, _: AtomicUpdate, bounds: ValueRanges) -> list[str] | None:
    """The access on the host: atomic for global memory, as the threads of one block run one after another."""
    pragma = "#pragma omp atomic" + (" write" if node.combine is None else "")
    return [pragma, printer.plain(node, bounds)] if printer.memory_of(node.target) is AddressSpace.GLOBAL else None


def _captured(printer: Printer, load: Assign, update: Assign, bounds: ValueRanges) -> list[str] | None:
    pair = indented((printer.plain(load, bounds), printer.plain(update, bounds)))
    is_global = printer.memory_of(update.target) is AddressSpace.GLOBAL
    return ["#pragma omp atomic capture", "{", *pair, "}"] if is_global else None


#: For the threads of the host.
OPENMP = InstructionText(assignment=_openmp, one_step=_captured)


#: OpenCL's functions of integers of 32 bits, by operation; those of 64 bits are an extension's.
_OPENCL_FUNCTIONS = {"+": "add", "min": "min", "max": "max", "&": "and", "|": "or", "^": "xor"}
_OPENCL_VALUES = {"+": "old + value", "*": "old*value", "min": "fmin(old, value)", "max": "fmax(old, value)"}
_OPENCL_WORDS = {"+": "add", "*": "multiply", "min": "min", "max": "max"}
_OPENCL_TYPES = {"float32": "float", "float64": "double", "int32": "int", "uint32": "uint", "int64": "long",
                 "uint64": "ulong"}

#: Other updates, by compare-and-swap.
_OPENCL_UPDATE = """
static inline TYPE NAME(volatile MEMORY TYPE *to, const TYPE value)
{
    volatile MEMORY BITS *word = (volatile MEMORY BITS *)to;
    BITS last, seen = *word;
    TYPE old;
    do {
        last = seen;
        old = as_TYPE(last);
        seen = CAS(word, last, as_BITS(VALUE));
    } while (seen != last);
    return old;
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


def _opencl(printer: Printer, node: Assign, _: AtomicUpdate, bounds: ValueRanges) -> Iterator[str]:
    """:raises PreconditionError: there is no such function, and no compare-and-swap of so many bits."""
    operation = None if node.combine is None else REDUCTIONS[node.combine]
    combine, dtype = "" if operation is None else operation.combine, printer.dtype_of(node.target)
    name = _OPENCL_TYPES.get(dtype.name)
    memory = "global" if printer.memory_of(node.target) is AddressSpace.GLOBAL else "local"
    target, operand = printer.value(node.target, bounds, dtype), printer.value(node.value, bounds, dtype)
    if name is not None and operation is None and node.target not in subexpressions(node.value):
        yield f"*(volatile __{memory} {name} *)&{target} = {operand};"
    elif name is not None and dtype.kind in "iu" and combine in _OPENCL_FUNCTIONS:
        function = f"atom{'' if dtype.itemsize == 8 else 'ic'}_{_OPENCL_FUNCTIONS[combine]}"
        yield f"{function}(&{target}, {operand});"
    elif name is not None and combine in _OPENCL_VALUES:
        yield f"{_opencl_update(combine, dtype.name, memory)}(&{target}, {operand});"
    else:
        raise PreconditionError(
            f"OpenCL has no atomic {node.combine or 'update by an expression'} of {dtype.name}, as "
            f"'{node.statement}' needs it.", subject=node.statement,
            hint=f"the dtypes are {', '.join(_OPENCL_TYPES)}" if combine in _OPENCL_VALUES else
            "use sum, product, min, max, or bit_and, bit_or, bit_xor of integers")


OPENCL = InstructionText(dict(_opencl_updates()), assignment=_opencl, one_step=partial(_keeping, _opencl))


def has_openmp(statement: Statement, dtype: np.dtype) -> bool:
    """Can OpenMP make the atomic access of *statement* to an element of *dtype*?"""
    if dtype.kind == "c" or is_narrow(dtype) or dtype.names is not None:
        return False
    if statement.combine is None:
        return statement.assignee not in subexpressions(statement.expression)
    operation = REDUCTIONS.get(statement.combine)
    return operation is not None and operation.combine in ("+", "*", "&", "|", "^")
