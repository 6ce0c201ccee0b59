"""wgmma: the threads of a warpgroup add the product of two matrices in shared memory to sums in their registers.

The matrix units read the factors by themselves, through the asynchronous proxy. A descriptor has the address of a
matrix and its layout. The layouts of the sums and of the matrices are those of NVIDIA's "PTX ISA", section
"Asynchronous warpgroup level matrix multiply-accumulate operation using wgmma.mma_async instruction".
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from textwrap import wrap
from typing import ClassVar

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Completion, Instruction, Region, Scope
from loopkit.ast.value_ranges import ValueRanges
from loopkit.expr.mappers import array_of, variables
from loopkit.expr.nodes import to_text
from loopkit.instructions.base import InstructionText, Printer
from loopkit.instructions.fragments import Digit, Digits, Fragment
from loopkit.instructions.nests import (
    Issue,
    Nest,
    NoMatchError,
    Passed,
    element_at,
    element_of_numbers,
    function_name,
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
    ProductParts,
    product_parts,
)
from loopkit.instructions.shared_matrices import SharedMatrix, distance_of, require_layout, shared_matrix


@dataclass(frozen=True)
class Wgmma(Product):
    """The product of two matrices in shared memory, with *depth* steps."""

    depth: int

    scope: ClassVar[Scope] = Scope.WARPGROUP
    completion: ClassVar[Completion] = Completion.PRODUCTS
    asynchronous_proxy: ClassVar[bool] = True
    asynchronous_registers: ClassVar[bool] = True
    only_on: ClassVar[str] = "sm_90a"

    @property
    def steps(self) -> Digits:
        return (Digit(self.depth, of_lanes=False, place=0),)

    def in_order_with(self, other: Instruction) -> bool:
        return self == other

    def issue(self, nest: Nest) -> WgmmaIssue:
        parts = product_parts(self, nest)
        own = _moving_names(nest, parts)
        left, right = (shared_matrix(self, nest, parts, element_at(e, own), axis) for e, axis in (
            (parts.left, parts.rows), (parts.right, parts.columns)))
        target = element_at(parts.target, own)
        sums = list[p.Subscript]()
        for number in range(self.sums.registers):
            found = self.sums.values([*map(p.Variable, parts.lanes)], number)
            sums.append(element_of_numbers(target, *(
                (axis, digits, [found[d] for d in digits]) for axis, digits in (
                    (parts.rows, self.sums.rows), (parts.columns, self.sums.columns)))))
        return WgmmaIssue(self, left, right, tuple(sums), _distances_of_sums(self, nest, sums))


@dataclass(frozen=True)
class WgmmaIssue(Issue):
    """A product with its operands.

    :ivar sums: for each register of a thread, the element in it.
    :ivar distances: the elements between sums of the digits of the register's number, the slowest first.
    """

    left: SharedMatrix
    right: SharedMatrix
    sums: tuple[p.Subscript, ...]
    distances: tuple[int, ...]

    noun: ClassVar[str] = "a product of matrices"
    scope: ClassVar[Scope] = Scope.WARPGROUP
    completion: ClassVar[Completion] = Completion.PRODUCTS
    asynchronous_proxy: ClassVar[bool] = True
    asynchronous_registers: ClassVar[bool] = True

    @property
    def titles(self) -> tuple[str, ...]:
        return (f"{self.instruction.name} by the threads of a warpgroup: {self.left}; {self.right}",)

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.left.first, self.right.first, *self.sums)

    @property
    def alignments(self) -> Mapping[str, int]:
        found = dict[str, int]()
        for part in (self.left, self.right):
            array = array_of(part.first)
            found[array] = max(found.get(array, 0), part.layout.alignment)
        return found

    def in_order_with(self, other: Instruction) -> bool:
        return isinstance(other, WgmmaIssue) and self.instruction == other.instruction

    def passed(self, nest: Nest) -> tuple[Passed, ...]:
        wgmma = self.instruction
        assert isinstance(wgmma, Wgmma)
        parts = product_parts(wgmma, nest)
        own = _moving_names(nest, parts)
        for part, e, axis in ((self.left, parts.left, parts.rows), (self.right, parts.right, parts.columns)):
            require_layout(wgmma, nest, parts, element_at(e, own), axis, part)
        if _distances_of_sums(wgmma, nest, self.sums) != self.distances:
            raise NoMatchError(f"its sums are not {self.distances} elements apart")
        row, column = (axis.number(wgmma.sums.lanes) for axis in (parts.rows, parts.columns))
        return (Passed(parts.target, self.sums, *wgmma.sums.holder(row, column)),)


def _moving_names(nest: Nest, parts: ProductParts) -> Mapping[str, Expression]:
    """The constants in scope that differ between iterations, or between threads of the warpgroup."""
    moved = {*parts.lanes, *(x.iname for x in nest.loops)}
    return {x: value for x, value in nest.names.items() if variables(value) & moved}


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
    return Wgmma(f"wgmma.m64n{n}k{k}.{total.ptx}.{factor.ptx}", sums, factor, total, 90, k)


#: The instructions by name.
WGMMA: Mapping[str, Wgmma] = {wgmma.name: wgmma for wgmma in _instructions_of_sizes()}


# CUDA: functions in PTX that the threads of a warpgroup call together

_MATRIX_AT = """
// the descriptor of a matrix in shared memory: its first element, and its leading and stride byte offsets. With SWIZZLE
// 1, the matrix units find piece p of 16 bytes of row r, of 128 bytes, at piece p ^ (r % 8), where TMA stores it.
template <int LEADING, int STRIDE, int SWIZZLE>
__device__ __forceinline__ unsigned long long matrix_at(const void *first)
{
    const unsigned long long address = static_cast<unsigned int>(__cvta_generic_to_shared(first));
    return (address & 0x3ffff) >> 4 | LEADING / 16ull << 16 | STRIDE / 16ull << 32 | (SWIZZLE + 0ull) << 62;
}
"""


def _place_of_sum(wgmma: Wgmma, register: int, names: Sequence[str]) -> str:
    """The place of the sum in a register, in terms of the distances."""
    digits = wgmma.sums.register_digits(register)
    terms = [x if value == 1 else f"{value}*{x}" for value, x in zip(digits, names, strict=True) if value]
    return " + ".join(terms) or "0"


def _wgmma_text(wgmma: Wgmma) -> str:
    """The function for *wgmma*."""
    m, n, k = wgmma.shape
    count, (kind, constraint) = wgmma.sums.registers, OPERANDS[wgmma.sum.ptx]
    digits = wgmma.sums.digits_of_registers
    names = [("ITEM", "PART", "BOX")[d.place] for d in digits]
    written = wrap(", ".join(f'"+{constraint}"(sums[{_place_of_sum(wgmma, number, names)}])'.replace(" ", "\0")
                             for number in range(count)), 100)
    registers = wrap(", ".join(f"%{number}" for number in range(count)), 90)
    turned = ("LEFT", "RIGHT") if wgmma.factor.size == 2 else ()
    scales = () if wgmma.sum == INT32 else ("1", "1")
    rest = "".join(f", {x}" for x in (*scales, *(f"%{count + 2 + number}" for number in range(len(turned)))))
    immediate = "".join(f', "n"({x})' for x in turned)
    template = ", ".join(f"int {x}" for x in (*names, *turned))
    place = " + ".join(f"{x}*{x[0].lower()}" for x in names)
    newline, zero = "\n", "\0"
    also = """
// LEFT is 0 if elements of a row of left follow each other in memory, 1 if those of a column do. RIGHT is 0 for
// those of a column of right, 1 for a row.""" if turned else ""
    return f"""
// all threads of a warpgroup, asynchronously: sums += left*right, {m}x{n} by {m}x{k} and {k}x{n}. Thread t has the sums
// [16*(t / 32) + 8*p + t % 32 / 4][{'8*b + ' if n > 8 else ''}2*(t % 4) + i] at {place}.{also}
template <{template}> __device__ __forceinline__ void {function_name(wgmma)}(
    {kind} *sums, unsigned long long left, unsigned long long right)
{{
    asm volatile("{{ .reg .pred p; setp.eq.u32 p, 0, 0; wgmma.mma_async.sync.aligned.m{m}n{n}k{k}."
        "{wgmma.sum.ptx}.{wgmma.factor.ptx}.{wgmma.factor.ptx} "
        "{{{f' "{newline}        "'.join(registers)}}}, %{count}, %{count + 1}, p{rest}; }}"
        : {f'{newline}          '.join(written).replace(zero, " ")}
        : "l"(left), "l"(right){immediate});
}}
"""


def _wgmma_lines(printer: Printer, region: Region, issue: WgmmaIssue, bounds: ValueRanges) -> Iterator[str]:
    wgmma = issue.instruction
    assert isinstance(wgmma, Wgmma)
    if printer.annotate:
        yield f"// {statement_of(region)}"
    matrices = [f"matrix_at<{m.leading}, {m.stride}, {int(m.layout.swizzle)}>"
                f"(&{printer.place(m.first, bounds, printer.dtype_of(m.first))})" for m in (issue.left, issue.right)]
    turned = [int(m.layout.transposed) for m in (issue.left, issue.right)] if wgmma.factor.size == 2 else []
    template = ", ".join(map(str, (*issue.distances, *turned)))
    sums = printer.place(issue.sums[0], bounds, printer.dtype_of(issue.sums[0]))
    yield f"{function_name(wgmma)}<{template}>(&{sums},"
    yield f"    {matrices[0]},"
    yield f"    {matrices[1]});"


CUDA = InstructionText({"matrix_at": _MATRIX_AT, **{function_name(w): partial(_wgmma_text, w) for w in WGMMA.values()}},
                       region=_wgmma_lines)
