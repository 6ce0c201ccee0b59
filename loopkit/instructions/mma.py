"""Matrix multiply-accumulate (mma): the lanes of a warp add the product of two small matrices to a third.

A nest of loops around one statement defines the result. Each lane holds some elements of each matrix: those of its
fragment layout, from NVIDIA's "PTX ISA", section "Matrix multiply-accumulate operation using mma instruction".
Factors come from fragments, which are temporaries in the registers of a warp; other factors are loaded by each lane.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Region
from loopkit.ast.value_ranges import ValueRanges
from loopkit.expr.nodes import to_text
from loopkit.instructions.base import InstructionText, Printer
from loopkit.instructions.fragments import Fragment
from loopkit.instructions.nests import (
    REGISTERS,
    WORD,
    Issue,
    Nest,
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
    FLOAT64,
    INT8,
    INT32,
    OPERANDS,
    TF32,
    UINT8,
    Product,
    elements_in,
    moving_names,
    place_of_element,
    product_parts,
)
from loopkit.kernel.data import AddressSpace


@dataclass(frozen=True)
class Mma(Product):
    """The product of two matrices in fragments.

    :ivar right: the layout of the right matrix.
    """

    right: Fragment

    def issue(self, nest: Nest) -> MmaIssue:
        parts = product_parts(self, nest)
        own = moving_names(nest, parts)
        left, right, target = (element_at(e, own) for e in (parts.left, parts.right, parts.target))
        return MmaIssue(self, elements_in(self.left, nest, parts, left, (parts.rows, parts.depth)),
                        elements_in(self.right, nest, parts, right, (parts.depth, parts.columns)),
                        elements_in(self.sums, nest, parts, target, (parts.rows, parts.columns)))


@dataclass(frozen=True)
class MmaIssue(Issue):
    """A product with its operands: for each register of a lane, the element in it.

    :ivar left: those of the left matrix; *right*: of the right one; *sums*: of the sums.
    """

    left: tuple[p.Subscript, ...]
    right: tuple[p.Subscript, ...]
    sums: tuple[p.Subscript, ...]

    noun: ClassVar[str] = "a product of matrices"

    @property
    def titles(self) -> tuple[str, ...]:
        left, right = (", ".join(map(to_text, part)) for part in (self.left, self.right))
        return (f"{self.instruction.name} by the lanes of a warp: each has {left} and {right}",)

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (*self.left, *self.right, *self.sums)

    def passed(self, nest: Nest) -> tuple[Passed, ...]:
        mma = self.instruction
        assert isinstance(mma, Mma)
        parts = product_parts(mma, nest)
        for part in (self.left, self.right):
            require_registers(nest, part, {*parts.lanes, *(x.iname for x in nest.loops)})
        row, column, step = (axis.number(mma.sums.lanes) for axis in (parts.rows, parts.columns, parts.depth))
        return (Passed(parts.left, self.left, *mma.left.holder(row, step)),
                Passed(parts.right, self.right, *mma.right.holder(step, column)),
                Passed(parts.target, self.sums, *mma.sums.holder(row, column)))


# The instructions

def _all() -> Iterator[Mma]:
    sums = Fragment.of("r1*2 t1*8", "t0*4 r0*2")
    yield Mma("mma.m8n8k4.f64", Fragment.of("t1*8", "t0*4 r0*2"), FLOAT64, FLOAT64, 80,
              Fragment.of("t1*8", "t0*4"), Fragment.of("t0*4", "t1*8"))
    for k in (4, 8, 16):
        more = f"r1*{k // 4} " if k > 4 else ""
        yield Mma(f"mma.m16n8k{k}.f64", sums, FLOAT64, FLOAT64, 80, Fragment.of("r0*2 t1*8", f"{more}t0*4"),
                  Fragment.of(f"{more.replace('r1', 'r0')}t0*4", "t1*8"))
    for k, more in ((4, ""), (8, "r1*2 ")):
        yield Mma(f"mma.m16n8k{k}.f32.tf32", sums, TF32, FLOAT32, 80, Fragment.of("r0*2 t1*8", f"{more}t0*4"),
                  Fragment.of(f"{more.replace('r1', 'r0')}t0*4", "t1*8"))
    for factor, total, since in ((FLOAT16, FLOAT32, 80), (BFLOAT16, FLOAT32, 80), (E4M3, FLOAT32, 89),
                                 (E5M2, FLOAT32, 89), (INT8, INT32, 80), (UINT8, INT32, 80)):
        word = WORD // factor.size
        for k in (8, 16) if word == 2 else (32,) if total == FLOAT32 else (16, 32):
            halves = k // (4*word)
            more = f"*{halves} " if halves > 1 else ""
            yield Mma(f"mma.m16n8k{k}.{total.ptx}.{factor.ptx}", sums, factor, total, since,
                      Fragment.of("r1*2 t1*8", f"{'r2' + more if more else ''}t0*4 r0*{word}"),
                      Fragment.of(f"{'r1' + more if more else ''}t0*4 r0*{word}", "t1*8"))


#: The instructions by name.
MMA: Mapping[str, Mma] = {mma.name: mma for mma in _all()}


# CUDA: functions in PTX that the lanes of a warp call together

#: The type of a smaller factor in C and its constraint: a word.
_WORDS = ("unsigned int", "r")


def _mma_lines(printer: Printer, region: Region, issue: MmaIssue, bounds: ValueRanges) -> Iterator[str]:
    mma = issue.instruction
    assert isinstance(mma, Mma)
    if printer.annotate:
        yield f"// {statement_of(region)}"
    arguments = [printer.place(e, bounds, printer.dtype_of(e)) for e in issue.sums]
    count = max(WORD // mma.factor.size, 1)
    for part in (issue.left, issue.right):
        held = printer.memory_of(part[0]) is AddressSpace.WARP
        texts = [printer.place(e, bounds, printer.dtype_of(e)) for e in part]
        for first in range(0, len(part), count):
            own = texts[first:first + count]
            arguments.append(own[0] if mma.factor.size > WORD else f"word_at({own[0]})" if held else
                             f"packed({', '.join(own)})")
    yield f"{function_name(mma)}({', '.join(arguments)});"


def _mma_text(mma: Mma) -> str:
    """The function for *mma*."""
    m, n, k = mma.shape
    words = max(WORD // mma.factor.size, 1)
    counts = mma.sums.registers, mma.left.registers // words, mma.right.registers // words
    c, a, b = ([f"{x}{i}" if count > 1 else x for i in range(count)] for x, count in zip("cab", counts, strict=True))
    numbers = iter(range(sum(counts)))
    sums, left, right = ("{" + ", ".join(f"%{next(numbers)}" for _ in part) + "}" for part in (c, a, b))
    total = OPERANDS[mma.sum.ptx]
    factor = OPERANDS.get(mma.factor.ptx, _WORDS)
    written = ", ".join(f'"+{total[1]}"({x})' for x in c)
    read = ", ".join(f'"{factor[1]}"({x})' for x in (*a, *b))
    types = f"{mma.sum.ptx}.{mma.factor.ptx}.{mma.factor.ptx}.{mma.sum.ptx}"
    code = f"""\
    asm volatile("mma.sync.aligned.m{m}n{n}k{k}.row.col.{types} "
        "{sums}, {left}, {right}, {sums};"
        : {written}
        : {read});"""
    if mma.factor == FLOAT64 and m > 8:                 # before sm_90 a product of 8 rows by 4 steps
        small = function_name(MMA["mma.m8n8k4.f64"])
        others = "\n".join(f"    {small}({c[2*r]}, {c[2*r + 1]}, {a[2*q + r]}, {b[q]});"
                           for q in range(k // 4) for r in range(2))
        code = f"#if __CUDA_ARCH__ >= 900\n{code}\n#else\n{others}\n#endif"
    places, newline = {"a": mma.left, "b": mma.right, "c": mma.sums}, "\n"
    return f"""
// all lanes of a warp: c += a*b, {m}x{n} by {m}x{k} and {k}x{n}. Elements number e of lane t:
{newline.join(f'// {x}{place_of_element(layout)}' for x, layout in places.items())}
__device__ __forceinline__ void {function_name(mma)}({', '.join(f'{total[0]} &{x}' for x in c)},
    {', '.join(f'{factor[0]} {x}' for x in (*a, *b))})
{{
{code}
}}
"""


CUDA = InstructionText({**REGISTERS, **{function_name(mma): _mma_text(mma) for mma in MMA.values()}}, region=_mma_lines)
