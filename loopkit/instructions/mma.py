"""Matrix multiply-accumulate (mma): the lanes of a warp add the product of two small matrices to a third.

A nest of loops around one statement defines the result. Each lane holds some elements of each matrix: those of its
fragment layout, from NVIDIA's "PTX ISA", section "Matrix multiply-accumulate operation using mma instruction".
Factors come from fragments, which are temporaries in the registers of a warp; other factors are loaded by each lane.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Region
from loopkit.ast.value_ranges import LowerBounds
from loopkit.expr.mappers import subexpressions, substitute, variables
from loopkit.expr.nodes import TypeCast, to_text
from loopkit.instructions.base import InstructionText, Printer
from loopkit.instructions.fragments import Digits, Fragment
from loopkit.instructions.nests import (
    AS_SPLIT,
    REGISTERS,
    WORD,
    Axis,
    Issue,
    Nest,
    NestInstruction,
    NoMatchError,
    Passed,
    element_at,
    element_of_numbers,
    function_name,
    range_of,
    require_registers,
    statement_of,
)
from loopkit.kernel.data import AddressSpace


@dataclass(frozen=True)
class Numbers:
    """The numbers of a matrix.

    :ivar dtype: the name of their dtype in memory; *size*: the bytes of one; *ptx*: the name of their type in PTX.
    :ivar through: the function of the language that a factor passes through; ``""``: none.
    """

    dtype: str
    ptx: str
    size: int
    through: str = ""


@dataclass(frozen=True)
class Mma(NestInstruction):
    """The product of two small matrices, added to a third.

    :ivar left: the layout of the left matrix; *right*: of the right one; *sums*: of the sums.
    :ivar factor: the numbers that are multiplied; *sum*: those that are added up.
    :ivar since: the first architecture that has it.
    """

    left: Fragment
    right: Fragment
    sums: Fragment
    factor: Numbers
    sum: Numbers
    since: int

    @property
    def capability(self) -> int:                    # type: ignore[override]
        return self.since

    @property
    def fraction_of_sums(self) -> int | None:
        return 13 if self.factor.ptx in ("e4m3", "e5m2") else None      # on sm_89 and sm_90

    @property
    def shape(self) -> tuple[int, int, int]:
        """The rows and the columns of the sums, and the steps of each sum."""
        return (*self.sums.extents, self.left.extents[1])

    def issue(self, nest: Nest) -> MmaIssue:
        parts = _product_parts(self, nest)
        moved = {*parts.lanes, *(x.iname for x in nest.loops)}
        own = {x: value for x, value in nest.names.items() if variables(value) & moved}

        def operand(element: p.Subscript, layout: Fragment, axes: tuple[Axis, Axis]) -> tuple[p.Subscript, ...]:
            elements = list[p.Subscript]()
            for number in range(layout.registers):
                found = layout.values([*map(p.Variable, parts.lanes)], number)
                elements.append(element_of_numbers(element, *(
                    (axis, digits, [found[d] for d in digits])
                    for axis, digits in zip(axes, (layout.rows, layout.columns), strict=True))))
            require_registers(nest, elements, moved)
            return tuple(elements)
        left, right, target = (element_at(e, own) for e in (parts.left, parts.right, parts.target))
        return MmaIssue(self, operand(left, self.left, (parts.rows, parts.depth)),
                        operand(right, self.right, (parts.depth, parts.columns)),
                        operand(target, self.sums, (parts.rows, parts.columns)))


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
        parts = _product_parts(mma, nest)
        for part in (self.left, self.right):
            require_registers(nest, part, {*parts.lanes, *(x.iname for x in nest.loops)})
        row, column, step = (axis.number(mma.sums.lanes) for axis in (parts.rows, parts.columns, parts.depth))
        return (Passed(parts.left, self.left, *mma.left.holder(row, step)),
                Passed(parts.right, self.right, *mma.right.holder(step, column)),
                Passed(parts.target, self.sums, *mma.sums.holder(row, column)))


# The parts of a nest

@dataclass(frozen=True)
class _ProductParts:
    """The parts of a nest that is a product: its elements, and the inames of its three axes.

    :ivar lanes: the inames of the lanes, the slowest first.
    """

    left: p.Subscript
    right: p.Subscript
    target: p.Subscript
    rows: Axis
    columns: Axis
    depth: Axis
    lanes: tuple[str, ...]


def _product_parts(mma: Mma, nest: Nest) -> _ProductParts:
    """:raises NoMatchError: *nest* is not a product of the shape and the numbers of *mma*."""
    one, other = _two_factors(mma, nest)
    extents = [d.extent for d in mma.sums.lanes]
    lanes = nest.lane_inames(extents, f"{' by '.join(map(str, extents))} lanes of the sums")
    seen = [variables(e) | variables(substitute(e, nest.names)) for e in (one, other)]
    place = {x: d.place for x, d in zip(lanes, mma.sums.lanes, strict=True)}
    of_rows = {place_of.place for place_of in mma.sums.rows if place_of.of_lanes}
    rows = {x for x in lanes if place[x] in of_rows}
    if not rows <= seen[0]:
        one, other, seen = other, one, seen[::-1]
    columns = {*lanes} - rows
    if not (rows <= seen[0] and columns <= seen[1]) or rows & seen[1] or columns & seen[0]:
        raise NoMatchError(f"one of {one} and {other} must depend on {_quoted(rows)} and not on {_quoted(columns)}, "
                           f"and the other on {_quoted(columns)} and not on {_quoted(rows)}", AS_SPLIT)
    loops = {x.iname: range_of(x) for x in nest.loops}
    free = [x for x in loops if x not in nest.reduced]
    if unclear := [x for x in free if (x in seen[0]) == (x in seen[1])]:
        raise NoMatchError(f"exactly one of {one} and {other} must depend on '{unclear[0]}'", _COMPUTE_FIRST)
    target = nest.assign.target
    assert isinstance(target, p.Subscript)

    def axis(own: Sequence[str], digits: Digits) -> Axis:
        names, at = list[str](), iter(own)
        for d in digits:
            x = next((x for x in lanes if place[x] == d.place), None) if d.of_lanes else next(at, None)
            if x is None or (not d.of_lanes and len(loops[x]) != d.extent):
                break
            names.append(x)
        if len(names) < len(digits) or next(at, None) is not None:
            raise NoMatchError(_wrong_loops(mma, nest), AS_SPLIT)
        return Axis(tuple(names), tuple(d.extent for d in digits),
                     tuple(0 if x in place else loops[x].start for x in names), tuple(place.get(x) for x in names))
    depth = nest.loops_along([*nest.reduced])
    if prod(depth.extents) != mma.shape[2]:
        raise NoMatchError(_wrong_loops(mma, nest), AS_SPLIT)
    return _ProductParts(one, other, target, axis([x for x in free if x in seen[0]], mma.sums.rows),
                  axis([x for x in free if x in seen[1]], mma.sums.columns), depth, lanes)


def _wrong_loops(mma: Mma, nest: Nest) -> str:
    found = ", ".join(f"{x.iname} of {len(range_of(x))}" for x in nest.loops)
    own = [f"{what} of {' and '.join(str(d.extent) for d in axis if not d.of_lanes)}" for what, axis in (
        ("rows", mma.sums.rows), ("columns", mma.sums.columns)) if not all(d.of_lanes for d in axis)]
    return f"its loops are {found}, but a lane has {', '.join((*own, f'{mma.shape[2]} steps'))}"


def _quoted(names: set[str]) -> str:
    return " and ".join(map(repr, sorted(names)))


def _two_factors(mma: Mma, nest: Nest) -> tuple[p.Subscript, p.Subscript]:
    """The two elements whose products the nest adds up; :raises NoMatchError: it adds up something else."""
    assign = nest.assign
    match assign.value:
        case p.Product(children=(one, other)) if assign.combine == "sum" and isinstance(assign.target, p.Subscript):
            found = [_element(mma, e) for e in (one, other)]
        case _:
            raise NoMatchError(f"it adds up {assign.value}, which is not a product of two elements", _COMPUTE_FIRST)
    own = nest.memory_of(assign.target)
    if own.dtype.name != mma.sum.dtype:
        raise NoMatchError(f"its sums are {own.dtype}, and the instruction adds up {mma.sum.dtype}",
                           f"set_accumulator_dtype(knl, '{mma.sum.dtype}'), or an instruction for {own.dtype}")
    if own.space is not AddressSpace.PRIVATE:
        raise NoMatchError(f"its sums are in {own.space} memory, and not in the registers of a thread",
                           "let the lanes of one warp compute all terms of a sum")
    for e in found:
        memory = nest.memory_of(e)
        if any(i.claims(e, assign.target) for i in assign.instructions):
            raise NoMatchError(f"threads wait for {e} at each element", "copy the elements to shared memory first")
        if memory.dtype.name != mma.factor.dtype:
            raise NoMatchError(f"'{e.aggregate}' is {memory.dtype}, and the instruction multiplies {mma.factor.dtype}",
                               "choose an instruction for both factors; its name ends with their type")
        if memory.space is AddressSpace.PRIVATE:
            raise NoMatchError(f"'{e.aggregate}' is in the registers of one thread, where others cannot load it",
                               f"set_temporary_address_space(knl, '{e.aggregate}', 'local')")
        if any(isinstance(x, p.Subscript) for k in e.index_tuple for x in subexpressions(k)):
            raise NoMatchError(f"a subscript of {e} depends on data", "copy the elements to shared memory first")
    return found[0], found[1]


_COMPUTE_FIRST = "compute such factors first: precompute(knl, rule, ...)"


def _element(mma: Mma, factor: Expression) -> p.Subscript:
    """The element in *factor*, which converts it exactly, or passes it through a function of the instruction."""
    inner = factor
    if isinstance(inner, TypeCast) and inner.dtype.name == mma.sum.dtype != mma.factor.dtype:
        inner = inner.child
    match inner:
        case p.Call(function=p.Variable(name=mma.factor.through), parameters=(p.Subscript() as element,)):
            return element
        case p.Subscript() if not mma.factor.through:
            return inner
        case _:
            if mma.factor.through:
                raise NoMatchError(f"the factor {factor} is not {mma.factor.through}(...) of an element",
                                   f"set_operand_precision(knl, '{mma.factor.through}')")
            raise NoMatchError(f"the factor {factor} is not an element of an array", _COMPUTE_FIRST)


# The instructions

_FLOAT64, _FLOAT32, _INT32 = Numbers("float64", "f64", 8), Numbers("float32", "f32", 4), Numbers("int32", "s32", 4)


def _all() -> Iterator[Mma]:
    sums = Fragment.of("r1*2 t1*8", "t0*4 r0*2")
    yield Mma("mma.m8n8k4.f64", Fragment.of("t1*8", "t0*4"), Fragment.of("t0*4", "t1*8"),
              Fragment.of("t1*8", "t0*4 r0*2"), _FLOAT64, _FLOAT64, 80)
    for k in (4, 8, 16):
        more = f"r1*{k // 4} " if k > 4 else ""
        yield Mma(f"mma.m16n8k{k}.f64", Fragment.of("r0*2 t1*8", f"{more}t0*4"),
                  Fragment.of(f"{more.replace('r1', 'r0')}t0*4", "t1*8"), sums, _FLOAT64, _FLOAT64, 80)
    for k, more in ((4, ""), (8, "r1*2 ")):
        yield Mma(f"mma.m16n8k{k}.f32.tf32", Fragment.of("r0*2 t1*8", f"{more}t0*4"),
                  Fragment.of(f"{more.replace('r1', 'r0')}t0*4", "t1*8"), sums,
                  Numbers("float32", "tf32", 4, "tf32"), _FLOAT32, 80)
    narrow = ((Numbers("float16", "f16", 2), _FLOAT32, 80), (Numbers("bfloat16", "bf16", 2), _FLOAT32, 80),
              (Numbers("float8_e4m3fn", "e4m3", 1), _FLOAT32, 89), (Numbers("float8_e5m2", "e5m2", 1), _FLOAT32, 89),
              (Numbers("int8", "s8", 1), _INT32, 80), (Numbers("uint8", "u8", 1), _INT32, 80))
    for factor, total, since in narrow:
        word = WORD // factor.size
        for k in (8, 16) if word == 2 else (32,) if total == _FLOAT32 else (16, 32):
            halves = k // (4*word)
            more = f"*{halves} " if halves > 1 else ""
            yield Mma(f"mma.m16n8k{k}.{total.ptx}.{factor.ptx}",
                      Fragment.of("r1*2 t1*8", f"{'r2' + more if more else ''}t0*4 r0*{word}"),
                      Fragment.of(f"{'r1' + more if more else ''}t0*4 r0*{word}", "t1*8"), sums, factor, total, since)


#: The instructions by name.
MMA: Mapping[str, Mma] = {mma.name: mma for mma in _all()}


# CUDA: functions in PTX that the lanes of a warp call together

#: The type of a number in C and its constraint in inline PTX, by its type in PTX; smaller factors are words.
_OPERANDS = {"f64": ("double", "d"), "f32": ("float", "f"), "s32": ("int", "r")}
_WORDS = ("unsigned int", "r")


def _mma_lines(printer: Printer, region: Region, issue: MmaIssue, bounds: LowerBounds) -> Iterator[str]:
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


def _place_of_element(layout: Fragment) -> str:
    """The row and the column of element ``e`` of lane ``t``, as C."""
    return "".join(f"[{to_text(i)}]" for i in layout.element(p.Variable("t"), p.Variable("e"))).replace("//", "/")


def _mma_text(mma: Mma) -> str:
    """The function for *mma*."""
    m, n, k = mma.shape
    words = max(WORD // mma.factor.size, 1)
    counts = mma.sums.registers, mma.left.registers // words, mma.right.registers // words
    c, a, b = ([f"{x}{i}" if count > 1 else x for i in range(count)] for x, count in zip("cab", counts, strict=True))
    numbers = iter(range(sum(counts)))
    sums, left, right = ("{" + ", ".join(f"%{next(numbers)}" for _ in part) + "}" for part in (c, a, b))
    total = _OPERANDS[mma.sum.ptx]
    factor = _OPERANDS.get(mma.factor.ptx, _WORDS)
    written = ", ".join(f'"+{total[1]}"({x})' for x in c)
    read = ", ".join(f'"{factor[1]}"({x})' for x in (*a, *b))
    types = f"{mma.sum.ptx}.{mma.factor.ptx}.{mma.factor.ptx}.{mma.sum.ptx}"
    code = f"""\
    asm volatile("mma.sync.aligned.m{m}n{n}k{k}.row.col.{types} "
        "{sums}, {left}, {right}, {sums};"
        : {written}
        : {read});"""
    if mma.factor == _FLOAT64 and m > 8:                 # before sm_90 a product of 8 rows by 4 steps
        small = function_name(MMA["mma.m8n8k4.f64"])
        others = "\n".join(f"    {small}({c[2*r]}, {c[2*r + 1]}, {a[2*q + r]}, {b[q]});"
                           for q in range(k // 4) for r in range(2))
        code = f"#if __CUDA_ARCH__ >= 900\n{code}\n#else\n{others}\n#endif"
    places, newline = {"a": mma.left, "b": mma.right, "c": mma.sums}, "\n"
    return f"""
// all lanes of a warp: c += a*b, {m}x{n} by {m}x{k} and {k}x{n}. Elements number e of lane t:
{newline.join(f'// {x}{_place_of_element(layout)}' for x, layout in places.items())}
__device__ __forceinline__ void {function_name(mma)}({', '.join(f'{total[0]} &{x}' for x in c)},
    {', '.join(f'{factor[0]} {x}' for x in (*a, *b))})
{{
{code}
}}
"""


CUDA = InstructionText({**REGISTERS, **{function_name(mma): _mma_text(mma) for mma in MMA.values()}}, region=_mma_lines)
