"""Instructions that execute a nest of loops around one assignment, and the values that their lanes pass to each other.

A statement names such an instruction. Lowering puts the nest of its loops into a region of its own. If the nest matches
the instruction, the region gets the instruction with its operands.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import permutations
from math import prod
from typing import ClassVar

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.arrays import Swizzle
from loopkit.ast.nodes import Assign, For, If, Instruction, Region, Scope
from loopkit.ast.tensor_maps import LINE, ROWS, SWIZZLES, UNIT, TensorMap
from loopkit.expr.mappers import array_of, conjunction, elements_of, substitute, variables
from loopkit.expr.nodes import to_text
from loopkit.instructions.fragments import Digits, combined
from loopkit.kernel.data import AddressSpace
from loopkit.poly.affine import add, affine_difference, digit_of, integer_factor, multiply, subtract
from loopkit.poly.sets import Set


class NoMatchError(Exception):
    """The reason why an instruction cannot execute a nest, as the end of a sentence; *hint*: a way out."""

    def __init__(self, reason: str, hint: str = "see the conditions of tensorize") -> None:
        super().__init__(reason)
        self.hint = hint


#: A way out where inames are not those that tensorize makes.
AS_SPLIT = "leave the inames of a box as tensorize splits and tags them"


@dataclass(frozen=True)
class ElementMemory:
    """The memory of an array.

    :ivar shape: its extents.
    :ivar thread_axes: the number of its last axes that name the thread, if it is in warp registers.
    """

    dtype: np.dtype
    space: AddressSpace
    shape: tuple[Expression, ...]
    thread_axes: int = 0
    swizzle: Swizzle | None = None

    @property
    def registers(self) -> tuple[Expression, ...]:
        """The extents of the registers of a thread."""
        return self.shape[:len(self.shape) - self.thread_axes]

    @property
    def row_swizzled(self) -> int | None:
        """The bytes of a row whose pieces of 16 bytes are permuted as TMA and the matrix units do it: by the number of
        their 128 bytes in memory. 0: there is no permutation; ``None``: there is another one.
        """
        own, size, columns = self.swizzle, self.dtype.itemsize, self.shape[-1]
        if own is None:
            return 0
        if own.axis != len(self.shape) - 2 or not isinstance(columns, int) or columns*size not in SWIZZLES:
            return None
        counted = [e for e in own.counted(self.shape) if isinstance(e, int)]
        whole = len(counted) == own.row_axes and (prod(counted) % ROWS == 0 or own.row_axes == len(self.shape) - 1)
        found = own.chunk*size, own.every*columns*size, own.period*UNIT
        return columns*size if whole and found == (UNIT, LINE, columns*size) else None

    def swizzle_call(self, name: str) -> str:
        """The call that gives rows of the array *name* the layout of TMA and the matrix units, and those rows."""
        columns, size = self.shape[-1], self.dtype.itemsize
        row = columns*size if isinstance(columns, int) and columns*size in SWIZZLES else LINE
        narrow = f", period={row // UNIT}, every={LINE // row}" if row < LINE else ""
        return f"swizzle(knl, '{name}', chunk={UNIT // size}{narrow}) for rows of {row // size} elements"


@dataclass(frozen=True)
class Nest:
    """Loops around one assignment.

    :ivar loops: with constant ranges, outermost first.
    :ivar names: the constants in scope.
    :ivar reduced: the loops along which the assignment adds up values.
    :ivar lanes: the inames on the first axis of the block, the slowest first, each with its extent if it runs from 0;
        lanes of a warp differ in the last ones. *blocks*: those on the first axis of the grid.
    :ivar memory: the memory of an array; *assumptions*: those about the sizes.
    :ivar condition: it assigns only where this holds, a condition inside of the loops.
    """

    loops: tuple[For, ...]
    assign: Assign
    names: Mapping[str, Expression]
    reduced: frozenset[str]
    lanes: tuple[tuple[str, int | None], ...]
    blocks: tuple[tuple[str, int | None], ...]
    memory: Callable[[str], ElementMemory]
    assumptions: Set
    condition: Expression | None = None

    def memory_of(self, element: p.Subscript) -> ElementMemory:
        """The memory that *element* is in."""
        return self.memory(array_of(element))

    def loops_along(self, inames: Sequence[str]) -> Axis:
        """The axis of the loops over *inames*."""
        own = {x.iname: range_of(x) for x in self.loops if x.iname in inames}
        return Axis(tuple(own), tuple(map(len, own.values())), tuple(r.start for r in own.values()), (None,)*len(own))

    def lane_inames(self, extents: Sequence[int], whole: str) -> tuple[str, ...]:
        """The inames of the lanes of an instruction whose digits of the lane's number have these *extents*.

        :raises NoMatchError: they have others; *whole* describes what is needed.
        """
        found = self.lanes[-len(extents):]
        if tuple(extent for _, extent in found) != tuple(extents):
            given = ", ".join(f"{x} of {extent or 'other values'}" for x, extent in self.lanes) or "no inames"
            raise NoMatchError(f"the last inames on l.0 must be {whole}: there are {given}",
                               "prioritize_loops before tensorize: rows first, then columns, then steps")
        return tuple(x for x, _ in found)


def range_of(loop: For) -> range:
    """The values of the variable of *loop*; :raises NoMatchError: they are not constant, or not consecutive."""
    if not isinstance(loop.start, int) or not isinstance(loop.stop, int) or loop.step != 1:
        raise NoMatchError(f"the loop over '{loop.iname}' has no constant range",
                           "pad_domain(knl, ...) before the splits gives partial tiles all iterations")
    return range(loop.start, loop.stop)


def nest_in(region: Region) -> tuple[tuple[For, ...], Expression | None, Assign | None]:
    """The loops at the top of *region*, outermost first, the condition in them, and the assignment under it, if these
    are the only nodes.
    """
    loops, conditions, nodes = list[For](), list[Expression](), region.body.children
    while True:
        match nodes:
            case (For() as loop,):
                loops.append(loop)
                nodes = loop.body.children
            case (If(otherwise=None) as inner,):
                conditions.append(inner.condition)
                nodes = inner.then.children
            case (Assign() as assign,):
                return tuple(loops), conjunction(conditions) if conditions else None, assign
            case _:
                return tuple(loops), None, None


@dataclass(frozen=True)
class NestInstruction(Instruction):
    """An instruction that executes all iterations of a nest.

    :ivar name: its name, which a statement prints.
    :cvar has_condition: it executes nests with a condition inside of their loops.
    """

    name: str

    scope: ClassVar[Scope] = Scope.WARP
    executes_loops: ClassVar[bool] = True
    for_others: ClassVar[str] = "loads"
    has_condition: ClassVar[bool] = False

    @property
    def noun(self) -> str:                          # type: ignore[override]
        return self.name

    @property
    def capability(self) -> int:                    # type: ignore[override]
        raise NotImplementedError

    @property
    def titles(self) -> tuple[str, ...]:
        return (f"by={self.name}",)

    @property
    def fraction_of_sums(self) -> int | None:
        """The bits of the fraction of the sums that it computes; ``None``: those of the sums' dtype."""
        return None

    def issue(self, nest: Nest) -> Issue:
        """The instruction with its operands; :raises NoMatchError: it cannot execute *nest*."""
        raise NotImplementedError


@dataclass(frozen=True)
class Passed:
    """Elements that lanes pass to each other, or to themselves, for a nest.

    :ivar own: an element of the assignment.
    :ivar elements: the elements that a lane provides, by the number of its register.
    :ivar lane: the lane that provides *own*, in terms of ``lane`` and of the loops of the nest.
    :ivar register: its register.
    """

    own: p.Subscript
    elements: tuple[p.Subscript, ...]
    lane: Expression
    register: Expression


@dataclass(frozen=True)
class MovedBox:
    """Elements that an instruction copies by itself: those of a box with these *extents*, by the names of its axes.

    :ivar target: the element at a place of the box; *source*: the one that is copied to it.
    :ivar within: the array to which elements go as far as they are inside; ``""``: all do.
    """

    target: p.Subscript
    source: p.Subscript
    extents: Mapping[str, int]
    within: str = ""


@dataclass(frozen=True)
class Issue(Instruction):
    """A nest instruction with its operands, at a place of a loop program."""

    noun: ClassVar[str] = "an instruction of a warp"
    scope: ClassVar[Scope] = Scope.WARP
    for_others: ClassVar[str] = "loads"

    instruction: NestInstruction

    def foreign_elements(self, region: Region, warp_arrays: Collection[str]) -> Iterable[Expression]:
        *_, assign = nest_in(region)
        return () if assign is None else elements_of(assign.value, warp_arrays)

    def loaded(self, array: str) -> tuple[p.Subscript, ...]:
        """The elements of *array* that a lane loads by its first access; empty: it loads none."""
        return next(((e,) for e in self.operands if isinstance(e, p.Subscript) and array_of(e) == array), ())

    def stored(self, array: str) -> tuple[p.Subscript, ...]:
        """The elements of *array* that a lane stores for others; empty: it stores its own."""
        return ()

    def passed(self, nest: Nest) -> tuple[Passed, ...]:
        """The elements that the instruction reads and writes for the iterations of *nest*.

        :raises NoMatchError: it cannot execute *nest*.
        """
        raise NotImplementedError

    def moved(self, nest: Nest) -> MovedBox | None:
        """The elements that it copies by itself; ``None``: all pass through registers.

        :raises NoMatchError: it cannot execute *nest*.
        """
        return None

    @property
    def made_maps(self) -> tuple[TensorMap, ...]:
        """The tensor maps of its copies."""
        return ()


#: The lane's own number in :class:`Passed`.
LANE = p.Variable("lane")


def function_name(instruction: NestInstruction) -> str:
    """The name of its function in a text."""
    return instruction.name.replace(".", "_")


def statement_of(region: Region) -> str:
    """The id of the statement of the nest in *region*."""
    *_, assign = nest_in(region)
    assert assign is not None
    return assign.statement


# The inames of a nest

@dataclass(frozen=True)
class Axis:
    """The inames that make up the number of a row, a column or a step, the slowest first.

    :ivar extents: their numbers of values; *starts*: their least values.
    :ivar lanes: for each iname its place among the digits of the lane's number; ``None``: it is a loop.
    """

    inames: tuple[str, ...]
    extents: tuple[int, ...]
    starts: tuple[int, ...]
    lanes: tuple[int | None, ...]

    def at(self, digits: Digits, values: Sequence[Expression]) -> tuple[dict[str, Expression], dict[str, Expression]]:
        """The values of the inames at the number with these *values* of its *digits*, in two forms.

        The first has all of the number in the fastest iname. The others are unknown, and cancel out in a subscript that
        depends on the number alone.
        """
        if tuple(d.extent for d in digits) == self.extents:
            found = {x: add(start, value) for x, start, value in zip(self.inames, self.starts, values, strict=True)}
            return found, found
        unknown = {x: p.Variable(x + _UNKNOWN) for x in self.inames[:-1]}
        rest: Expression = 0
        for x, start, extent in zip(unknown, self.starts, self.extents[1:], strict=False):
            rest = multiply(extent, add(rest, subtract(unknown[x], start)))
        number = combined(digits, values)
        return {**unknown, self.inames[-1]: add(self.starts[-1], subtract(number, rest))}, self.digits(number)

    def digits(self, number: Expression, weight: int = 1) -> dict[str, Expression]:
        """The values of the inames at ``number // weight``, each by itself, modulo the extents."""
        found = dict[str, Expression]()
        for x, extent, start in zip(self.inames[::-1], self.extents[::-1], self.starts[::-1], strict=True):
            found[x] = add(start, digit_of(number, weight, extent))
            weight *= extent
        return found

    def number(self, lanes: Digits = ()) -> Expression:
        """The number in terms of :data:`LANE` and of the loops."""
        number: Expression = 0
        for x, extent, start, place in zip(self.inames, self.extents, self.starts, self.lanes, strict=True):
            value: Expression = subtract(p.Variable(x), start)
            if place is not None:
                below = [d.extent for d in lanes if d.place < place]
                value = digit_of(LANE, prod(below), extent)
            number = add(multiply(extent, number), value)
        return number


# Elements in registers

#: Bytes of a register.
WORD = 4


def element_at(element: p.Subscript, values: Mapping[str, Expression]) -> p.Subscript:
    """*element* with *values* in its subscripts."""
    return p.Subscript(element.aggregate, tuple(add(substitute(i, values)) for i in element.index_tuple))


def element_of_numbers(element: p.Subscript, *numbers: tuple[Axis, Digits, Sequence[Expression]]) -> p.Subscript:
    """*element* where each axis has the number with these values of its digits."""
    found = [axis.at(digits, values) for axis, digits, values in numbers]
    short, exact = (reduce(dict.__or__, forms) for forms in zip(*found, strict=True))
    result = element_at(element, short)
    return element_at(element, exact) if any(x.endswith(_UNKNOWN) for x in variables(result)) else result


#: The end of the name of an unknown value; no iname ends with it.
_UNKNOWN = "?"


def with_joined_digits(element: p.Subscript) -> p.Subscript:
    """*element* with ``4*(x // 4 % 2) + x % 4`` as ``x % 8`` in its subscripts."""
    def joined(expr: Expression) -> Expression:
        terms = list(expr.children) if isinstance(expr, p.Sum) else [expr]
        for a, b in permutations(terms, 2):
            high, low = _Digit.of(a), _Digit.of(b)
            if high and low and high.number == low.number and high.below == low.below*low.extent \
                    and high.factor == low.factor*low.extent:
                both = multiply(low.factor, digit_of(low.number, low.below, low.extent*high.extent))
                return joined(add(*(t for t in terms if t not in (a, b)), both))
        return expr
    return p.Subscript(element.aggregate, tuple(map(joined, element.index_tuple)))


@dataclass(frozen=True)
class _Digit:
    """``factor*(number // below % extent)``."""

    factor: int
    number: Expression
    below: int
    extent: int

    @classmethod
    def of(cls, term: Expression) -> _Digit | None:
        factor = integer_factor(term)
        match term.children[-1] if isinstance(term, p.Product) else term:
            case p.Remainder(numerator=p.FloorDiv(numerator=number, denominator=int() as below),
                             denominator=int() as n):
                return cls(factor, number, below, n)
            case p.Remainder(numerator=number, denominator=int() as n):
                return cls(factor, number, 1, n)
            case _:
                return None


def require_registers(nest: Nest, elements: Sequence[p.Subscript], moved: set[str]) -> None:
    """Check that *elements* that a thread has fill whole registers of 32 bits.

    :raises NoMatchError: they do not, or the number of a register depends on one of the names *moved*.
    """
    memory = nest.memory_of(elements[0])
    if memory.space not in (AddressSpace.WARP, AddressSpace.PRIVATE):
        return
    shape = memory.registers
    count = max(WORD // memory.dtype.itemsize, 1)
    places = [_register(e.index_tuple, shape) for e in elements]
    if any(variables(place) & moved for place in places):
        raise NoMatchError(f"the register of {elements[0]} depends on the lane, or on an iteration",
                           "read the fragment at the inames of the rows, the columns and the steps")
    for first in range(0, len(places), count):
        own = places[first:first + count]
        terms = own[0].children if isinstance(own[0], p.Sum) else (own[0],)
        if any(affine_difference(place, own[0]) != k for k, place in enumerate(own)) or any(
                (t if isinstance(t, int) else integer_factor(t)) % count for t in terms):
            raise NoMatchError(f"{', '.join(map(to_text, elements[first:first + count]))} are not one register",
                               "leave the axes of the fragment as tensorize orders them")


def _register(index: Sequence[Expression], shape: Sequence[Expression]) -> Expression:
    """The number of the element at *index*, whose further subscripts name the lane, in an array of *shape*."""
    number: Expression = 0
    for i, extent in zip(index, shape, strict=False):
        number = add(multiply(extent, number), i)
    return number


#: Small functions that make registers of elements.
REGISTERS = {"word_at": """
// the 32 bits that begin at x: one register with elements that follow each other
template <class T> __device__ __forceinline__ unsigned int &word_at(T &x)
{
    return reinterpret_cast<unsigned int &>(x);
}
""", "packed": """
// one register with these elements, the first one in its lowest bits
template <class T, class... Others> __device__ __forceinline__ unsigned int packed(T first, Others... others)
{
    alignas(4) const T all[] = {first, others...};
    return reinterpret_cast<const unsigned int &>(all);
}
"""}
