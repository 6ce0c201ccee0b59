"""Products of small matrices by matrix units: their numbers, and the nests of loops that are such products.

Each lane holds some sums: those of a fragment layout. The instructions differ in the places of the factors.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.mappers import subexpressions, substitute, variables
from loopkit.expr.nodes import TypeCast, to_text
from loopkit.instructions.fragments import Digits, Fragment
from loopkit.instructions.nests import (
    AS_SPLIT,
    Axis,
    Nest,
    NestInstruction,
    NoMatchError,
    element_of_numbers,
    range_of,
    require_registers,
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
class Product(NestInstruction):
    """The product of two small matrices, added to a third.

    :ivar sums: the layout of the sums.
    :ivar factor: the numbers that are multiplied; *sum*: those that are added up.
    :ivar since: the first architecture that has it.
    :ivar left: the layout of the left matrix in registers.
    """

    sums: Fragment
    factor: Numbers
    sum: Numbers
    since: int
    left: Fragment

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


#: The numbers of the sums.
FLOAT64, FLOAT32, INT32 = Numbers("float64", "f64", 8), Numbers("float32", "f32", 4), Numbers("int32", "s32", 4)

#: The numbers of narrow factors.
FLOAT16, BFLOAT16 = Numbers("float16", "f16", 2), Numbers("bfloat16", "bf16", 2)
E4M3, E5M2 = Numbers("float8_e4m3fn", "e4m3", 1), Numbers("float8_e5m2", "e5m2", 1)
INT8, UINT8 = Numbers("int8", "s8", 1), Numbers("uint8", "u8", 1)
TF32 = Numbers("float32", "tf32", 4, "tf32")

#: The type of a number in C and its constraint in inline PTX, by its type in PTX; smaller factors are words.
OPERANDS = {"f64": ("double", "d"), "f32": ("float", "f"), "s32": ("int", "r")}


def place_of_element(layout: Fragment) -> str:
    """The row and the column of element ``e`` of lane ``t``, as C."""
    return "".join(f"[{to_text(i)}]" for i in layout.element(p.Variable("t"), p.Variable("e"))).replace("//", "/")


# The parts of a nest

@dataclass(frozen=True)
class ProductParts:
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


def product_parts(of: Product, nest: Nest) -> ProductParts:
    """:raises NoMatchError: *nest* is not a product of the shape and the numbers of *of*."""
    one, other = _two_factors(of, nest)
    extents = [d.extent for d in of.sums.lanes]
    lanes = nest.lane_inames(extents, f"{' by '.join(map(str, extents))} lanes of the sums")
    seen = [variables(e) | variables(substitute(e, nest.names)) for e in (one, other)]
    place = {x: d.place for x, d in zip(lanes, of.sums.lanes, strict=True)}
    of_rows = {place_of.place for place_of in of.sums.rows if place_of.of_lanes}
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
            raise NoMatchError(_wrong_loops(of, nest), AS_SPLIT)
        return Axis(tuple(names), tuple(d.extent for d in digits),
                    tuple(0 if x in place else loops[x].start for x in names), tuple(place.get(x) for x in names))
    depth = nest.loops_along([*nest.reduced])
    if prod(depth.extents) != of.shape[2]:
        raise NoMatchError(_wrong_loops(of, nest), AS_SPLIT)
    return ProductParts(one, other, target, axis([x for x in free if x in seen[0]], of.sums.rows),
                        axis([x for x in free if x in seen[1]], of.sums.columns), depth, lanes)


def moving_names(nest: Nest, parts: ProductParts) -> dict[str, Expression]:
    """The constants in scope that differ between iterations, or between lanes."""
    moved = {*parts.lanes, *(x.iname for x in nest.loops)}
    return {x: value for x, value in nest.names.items() if variables(value) & moved}


def elements_in(layout: Fragment, nest: Nest, parts: ProductParts, element: p.Subscript, axes: tuple[Axis, Axis]
                ) -> tuple[p.Subscript, ...]:
    """For each register of a lane the *element* in it, by the *axes* of the rows and of the columns of *layout*.

    :raises NoMatchError: those of an array in warp registers do not fill whole registers.
    """
    elements = list[p.Subscript]()
    for number in range(layout.registers):
        found = layout.values([*map(p.Variable, parts.lanes)], number)
        elements.append(element_of_numbers(element, *(
            (axis, digits, [found[d] for d in digits])
            for axis, digits in zip(axes, (layout.rows, layout.columns), strict=True))))
    require_registers(nest, elements, {*parts.lanes, *(x.iname for x in nest.loops)})
    return tuple(elements)


def _wrong_loops(of: Product, nest: Nest) -> str:
    found = ", ".join(f"{x.iname} of {len(range_of(x))}" for x in nest.loops)
    own = [f"{what} of {' and '.join(str(d.extent) for d in axis if not d.of_lanes)}" for what, axis in (
        ("rows", of.sums.rows), ("columns", of.sums.columns)) if not all(d.of_lanes for d in axis)]
    return f"its loops are {found}, but a lane has {', '.join((*own, f'{of.shape[2]} steps'))}"


def _quoted(names: set[str]) -> str:
    return " and ".join(map(repr, sorted(names)))


def _two_factors(of: Product, nest: Nest) -> tuple[p.Subscript, p.Subscript]:
    """The two elements whose products the nest adds up; :raises NoMatchError: it adds up something else."""
    assign = nest.assign
    match assign.value:
        case p.Product(children=(one, other)) if assign.combine == "sum" and isinstance(assign.target, p.Subscript):
            found = [_element(of, e) for e in (one, other)]
        case _:
            raise NoMatchError(f"it adds up {assign.value}, which is not a product of two elements", _COMPUTE_FIRST)
    own = nest.memory_of(assign.target)
    if own.dtype.name != of.sum.dtype:
        raise NoMatchError(f"its sums are {own.dtype}, and the instruction adds up {of.sum.dtype}",
                           f"set_accumulator_dtype(knl, '{of.sum.dtype}'), or an instruction for {own.dtype}")
    if own.space is not AddressSpace.PRIVATE:
        raise NoMatchError(f"its sums are in {own.space} memory, and not in the registers of a thread",
                           "let the lanes of one warp compute all terms of a sum")
    for e in found:
        memory = nest.memory_of(e)
        if any(i.claims(e, assign.target) for i in assign.instructions):
            raise NoMatchError(f"threads wait for {e} at each element", "copy the elements to shared memory first")
        if memory.dtype.name != of.factor.dtype:
            raise NoMatchError(f"'{e.aggregate}' is {memory.dtype}, and the instruction multiplies {of.factor.dtype}",
                               "choose an instruction for both factors; its name ends with their type")
        if memory.space is AddressSpace.PRIVATE:
            raise NoMatchError(f"'{e.aggregate}' is in the registers of one thread, where others cannot load it",
                               f"set_temporary_address_space(knl, '{e.aggregate}', 'local')")
        if any(isinstance(x, p.Subscript) for k in e.index_tuple for x in subexpressions(k)):
            raise NoMatchError(f"a subscript of {e} depends on data", "copy the elements to shared memory first")
    return found[0], found[1]


_COMPUTE_FIRST = "compute such factors first: precompute(knl, rule, ...)"


def _element(of: Product, factor: Expression) -> p.Subscript:
    """The element in *factor*, which converts it exactly, or passes it through a function of the instruction."""
    inner = factor
    if isinstance(inner, TypeCast) and inner.dtype.name == of.sum.dtype != of.factor.dtype:
        inner = inner.child
    match inner:
        case p.Call(function=p.Variable(name=of.factor.through), parameters=(p.Subscript() as element,)):
            return element
        case p.Subscript() if not of.factor.through:
            return inner
        case _:
            if of.factor.through:
                raise NoMatchError(f"the factor {factor} is not {of.factor.through}(...) of an element",
                                   f"set_operand_precision(knl, '{of.factor.through}')")
            raise NoMatchError(f"the factor {factor} is not an element of an array", _COMPUTE_FIRST)
