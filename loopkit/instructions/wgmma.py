"""wgmma: the threads of a warpgroup add the product of two matrices to sums in their registers.

The matrix units read the factors by themselves, from shared memory through the asynchronous proxy; the left one also
from the registers of the threads. A descriptor has the address of a matrix and its layout. The layouts of the sums and
of the matrices are those of NVIDIA's "PTX ISA", section "Asynchronous warpgroup level matrix multiply-accumulate
operation using wgmma.mma_async instruction".
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from textwrap import wrap
from typing import ClassVar

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Completion, Instruction, Region, Scope
from loopkit.ast.value_ranges import ValueRanges
from loopkit.expr.mappers import array_of
from loopkit.expr.nodes import to_text
from loopkit.instructions.base import InstructionText, Printer
from loopkit.instructions.fragments import Fragment
from loopkit.instructions.nests import (
    REGISTERS,
    WORD,
    Issue,
    Nest,
    NoMatchError,
    Passed,
    element_at,
    function_name,
    require_registers,
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
    elements_in,
    moving_names,
    place_of_element,
    product_parts,
)
from loopkit.instructions.shared_matrices import SharedMatrix, distance_of, require_layout, shared_matrix
from loopkit.kernel.data import AddressSpace


@dataclass(frozen=True)
class Wgmma(Product):
    """The product of a matrix in shared memory, or in registers, with one in shared memory."""

    scope: ClassVar[Scope] = Scope.WARPGROUP
    completion: ClassVar[Completion] = Completion.PRODUCTS
    asynchronous_proxy: ClassVar[bool] = True
    asynchronous_registers: ClassVar[bool] = True
    only_on: ClassVar[str] = "sm_90a"

    def in_order_with(self, other: Instruction) -> bool:
        return self == other

    def issue(self, nest: Nest) -> WgmmaIssue:
        parts = product_parts(self, nest)
        own = moving_names(nest, parts)
        left, right, target = (element_at(e, own) for e in (parts.left, parts.right, parts.target))
        sums = elements_in(self.sums, nest, parts, target, (parts.rows, parts.columns))
        return WgmmaIssue(self, elements_in(self.left, nest, parts, left, (parts.rows, parts.depth))
                          if nest.memory_of(left).space is AddressSpace.WARP else
                          shared_matrix(self, nest, parts, left, parts.rows),
                          shared_matrix(self, nest, parts, right, parts.columns), sums,
                          _distances_of_sums(self, nest, sums))


@dataclass(frozen=True)
class WgmmaIssue(Issue):
    """A product with its operands.

    :ivar left: a matrix in shared memory; or for each register of a thread, the element in it.
    :ivar sums: for each register of a thread, the element in it.
    :ivar distances: the elements between sums of the digits of the register's number, the slowest first.
    """

    left: SharedMatrix | tuple[p.Subscript, ...]
    right: SharedMatrix
    sums: tuple[p.Subscript, ...]
    distances: tuple[int, ...]

    noun: ClassVar[str] = "a product of matrices"
    scope: ClassVar[Scope] = Scope.WARPGROUP
    completion: ClassVar[Completion] = Completion.PRODUCTS
    asynchronous_proxy: ClassVar[bool] = True
    asynchronous_registers: ClassVar[bool] = True

    @property
    def matrices(self) -> tuple[SharedMatrix, ...]:
        """The factors in shared memory."""
        return (self.left, self.right) if isinstance(self.left, SharedMatrix) else (self.right,)

    @property
    def titles(self) -> tuple[str, ...]:
        left = str(self.left) if isinstance(self.left, SharedMatrix) else \
            f"each has {', '.join(map(to_text, self.left))}"
        return (f"{self.instruction.name} by the threads of a warpgroup: {left}; {self.right}",)

    @property
    def operands(self) -> tuple[Expression, ...]:
        left = (self.left.first,) if isinstance(self.left, SharedMatrix) else self.left
        return (*left, self.right.first, *self.sums)

    @property
    def alignments(self) -> Mapping[str, int]:
        found = dict[str, int]()
        for part in self.matrices:
            array = array_of(part.first)
            found[array] = max(found.get(array, 0), part.layout.alignment)
        return found

    def in_order_with(self, other: Instruction) -> bool:
        return isinstance(other, WgmmaIssue) and self.instruction == other.instruction

    def passed(self, nest: Nest) -> tuple[Passed, ...]:
        wgmma = self.instruction
        assert isinstance(wgmma, Wgmma)
        parts = product_parts(wgmma, nest)
        own = moving_names(nest, parts)
        for part, e, axis in ((self.left, parts.left, parts.rows), (self.right, parts.right, parts.columns)):
            if isinstance(part, SharedMatrix):
                require_layout(wgmma, nest, parts, element_at(e, own), axis, part)
            else:
                require_registers(nest, part, {*parts.lanes, *(x.iname for x in nest.loops)})
        if _distances_of_sums(wgmma, nest, self.sums) != self.distances:
            raise NoMatchError(f"its sums are not {self.distances} elements apart")
        row, column, step = (axis.number(wgmma.sums.lanes) for axis in (parts.rows, parts.columns, parts.depth))
        sums = Passed(parts.target, self.sums, *wgmma.sums.holder(row, column))
        return (sums,) if isinstance(self.left, SharedMatrix) else \
            (Passed(parts.left, self.left, *wgmma.left.holder(row, step)), sums)


# Sums

def _distances_of_sums(of: Product, nest: Nest, sums: Sequence[p.Subscript]) -> tuple[int, ...]:
    """The elements between sums of each digit of the register's number; :raises NoMatchError: not constant."""
    memory, digits = nest.memory_of(sums[0]), of.sums.digits_of_registers
    weights = [prod(d.extent for d in digits[k + 1:]) for k in range(len(digits))]
    found = tuple(distance_of(memory, sums[weight], sums[0]) or 0 for weight in weights)
    places = [sum(by*int(value) for by, value in zip(found, of.sums.register_digits(number), strict=True))
              for number in range(len(sums))]
    if any(distance_of(memory, e, sums[0]) != place for e, place in zip(sums, places, strict=True)):
        raise NoMatchError(f"the registers of {to_text(sums[0])} depend on the thread, or are not in rows",
                           "leave the axes of the sums as tensorize orders them")
    return found


# The instructions

def _instructions_of_sizes() -> Iterator[Wgmma]:
    for factor, total in ((BFLOAT16, FLOAT32), (FLOAT16, FLOAT32), (TF32, FLOAT32), (E4M3, FLOAT32), (E5M2, FLOAT32),
                          (INT8, INT32), (UINT8, INT32)):
        k = 32 // factor.size
        for n in range(8, 257, 8):
            if total != INT32 or n in (8, 24) or n % 16 == 0:
                yield _wgmma(n, k, factor, total)


def _wgmma(n: int, k: int, factor: Numbers, total: Numbers) -> Wgmma:
    sums = Fragment.of("t2*4 r1*2 t1*8", f"{f'r2*{n // 8} ' if n > 8 else ''}t0*4 r0*2")
    word = WORD // factor.size
    left = Fragment.of("t2*4 r1*2 t1*8", f"r2*2 t0*4 r0*{word}") if word > 1 else \
        Fragment.of("t2*4 r0*2 t1*8", "r1*2 t0*4")
    return Wgmma(f"wgmma.m64n{n}k{k}.{total.ptx}.{factor.ptx}", sums, factor, total, 90, left)


#: The instructions by name.
WGMMA: Mapping[str, Wgmma] = {wgmma.name: wgmma for wgmma in _instructions_of_sizes()}


# CUDA: functions in PTX that the threads of a warpgroup call together

#: The number of a swizzle in a descriptor, by its bytes.
_SWIZZLES = {0: 0, 128: 1, 64: 2, 32: 3}

def _matrix_text(name: str, end: str = ";") -> str:
    """The function with this *name* for a descriptor; *end*: that of the line with the address."""
    return f"""
// the descriptor of a matrix in shared memory: its first element, and its leading and stride byte offsets. With SWIZZLE
// 1, 2 or 3, the matrix units find pieces of 16 bytes where TMA stores them with a swizzle of 128, 64 or 32 bytes.
template <int LEADING, int STRIDE, int SWIZZLE>
__device__ __forceinline__ unsigned long long {name}(const void *first)
{{
    const unsigned int address = __cvta_generic_to_shared(first){end}
    return (STRIDE / 16ull | (SWIZZLE + 0ull) << 30) << 32 | (address / 16 + (LEADING / 16u << 16));
}}
"""


def _place_of_sum(wgmma: Wgmma, register: int, names: Sequence[str]) -> str:
    """The place of the sum in a register, in terms of the distances."""
    digits = wgmma.sums.register_digits(register)
    terms = [x if value == 1 else f"{value}*{x}" for value, x in zip(digits, names, strict=True) if value]
    return " + ".join(terms) or "0"


def _function_of(wgmma: Wgmma, *, held: bool) -> str:
    """The name of the function for *wgmma*; *held*: with the left factor in registers."""
    return function_name(wgmma) + ("_registers" if held else "")


def _notes_on_factors(wgmma: Wgmma, *, held: bool) -> str:
    """Comments on the layouts of the factors."""
    of_left = """
// LEFT is 0 if elements of a row of left follow each other in memory, 1 if those of a column do. RIGHT is 0 for
// those of a column of right, 1 for a row."""
    of_right = """
// RIGHT is 0 if elements of a column of right follow each other in memory, 1 if those of a row do."""
    words = f"""
// Element number e of its words is left{place_of_element(wgmma.left)}.""" if held else ""
    return words + ("" if wgmma.factor.size != 2 else of_right if held else of_left)


def _wgmma_text(wgmma: Wgmma, *, held: bool) -> str:
    """The function for *wgmma*; *held*: with the left factor in registers."""
    m, n, k = wgmma.shape
    count, (kind, constraint) = wgmma.sums.registers, OPERANDS[wgmma.sum.ptx]
    digits = wgmma.sums.digits_of_registers
    names = [("ITEM", "PART", "BOX")[d.place] for d in digits]
    written = wrap(", ".join(f'"+{constraint}"(sums[{_place_of_sum(wgmma, number, names)}])'.replace(" ", "\0")
                             for number in range(count)), 100)
    registers = wrap(", ".join(f"%{number}" for number in range(count)), 90)
    words = wgmma.left.registers*wgmma.factor.size // WORD
    left = [f"left{number}" for number in range(words)] if held else ["left"]
    turned = () if wgmma.factor.size != 2 else ("RIGHT",) if held else ("LEFT", "RIGHT")
    numbers = iter(range(count, count + len(left) + 1 + len(turned)))
    of_left = ", ".join(f"%{next(numbers)}" for _ in left)
    scales = () if wgmma.sum == INT32 else ("1", "1")
    rest = ", ".join((f"{{{of_left}}}" if held else of_left, f"%{next(numbers)}", "p", *scales,
                      *(f"%{number}" for number in numbers)))
    read = ", ".join((*(f'"{"r" if held else "l"}"({x})' for x in left), '"l"(right)', *(f'"n"({x})' for x in turned)))
    template = ", ".join(f"int {x}" for x in (*names, *turned))
    place = " + ".join(f"{x}*{x[0].lower()}" for x in names)
    given = ", ".join(f"unsigned {'int' if held else 'long long'} {x}" for x in left)
    newline, zero = "\n", "\0"
    return f"""
// all threads of a warpgroup, asynchronously: sums += left*right, {m}x{n} by {m}x{k} and {k}x{n}. Thread t has the sums
// [16*(t / 32) + 8*p + t % 32 / 4][{'8*b + ' if n > 8 else ''}2*(t % 4) + i] at {place}.\
{_notes_on_factors(wgmma, held=held)}
template <{template}> __device__ __forceinline__ void {_function_of(wgmma, held=held)}(
    {kind} *sums, {given},{f"{newline}    " if held else " "}unsigned long long right)
{{
    asm volatile("{{ .reg .pred p; setp.eq.u32 p, 0, 0; wgmma.mma_async.sync.aligned.m{m}n{n}k{k}."
        "{wgmma.sum.ptx}.{wgmma.factor.ptx}.{wgmma.factor.ptx} "
        "{{{f' "{newline}        "'.join(registers)}}}, {f'"{newline}        "' if held else ""}{rest}; }}"
        : {f'{newline}          '.join(written).replace(zero, " ")}
        : {read});
}}
"""


def _wgmma_lines(printer: Printer, region: Region, issue: WgmmaIssue, bounds: ValueRanges,
                 matrix: str = "matrix_at") -> Iterator[str]:
    wgmma = issue.instruction
    assert isinstance(wgmma, Wgmma)
    if printer.annotate:
        yield f"// {statement_of(region)}"

    def place(element: p.Subscript) -> str:
        return printer.place(element, bounds, printer.dtype_of(element))
    held = () if isinstance(issue.left, SharedMatrix) else issue.left
    words = [f"word_at({place(e)})" for e in held[::WORD // wgmma.factor.size]]
    factors = [*map(", ".join, zip(words[::2], words[1::2], strict=True)), *(
        f"{matrix}<{m.leading}, {m.stride}, {_SWIZZLES[m.layout.swizzle]}>(&{place(m.first)})"
        for m in issue.matrices)]
    turned = [int(m.layout.transposed) for m in issue.matrices] if wgmma.factor.size == 2 else []
    template = ", ".join(map(str, (*issue.distances, *turned)))
    yield f"{_function_of(wgmma, held=bool(held))}<{template}>(&{place(issue.sums[0])},"
    yield from (f"    {x}," for x in factors[:-1])
    yield f"    {factors[-1]});"


CUDA = InstructionText({
    **REGISTERS, "matrix_at": _matrix_text("matrix_at"),
    # above 18 bits, the address may have the number of the block in its cluster
    "matrix_in_cluster": _matrix_text("matrix_in_cluster", " & 0x3ffff;  // without the block"),
    **{_function_of(w, held=held): partial(_wgmma_text, w, held=held)
       for held in (False, True) for w in WGMMA.values()}},
    region=_wgmma_lines)
CUDA_IN_CLUSTER = replace(CUDA, region=partial(_wgmma_lines, matrix="matrix_in_cluster"))
