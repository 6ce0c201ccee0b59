"""Parameters of a generated function, the memory of its arrays, and addresses of elements as text."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from math import prod
from textwrap import wrap

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_of
from loopkit.ast.arrays import Array, Swizzle
from loopkit.ast.nodes import Block, Function, Instruction, Node, Region, own_instructions
from loopkit.ast.tensor_maps import TensorMap
from loopkit.ast.walk import mentioned, nodes_in, rewritten
from loopkit.expr.mappers import variables
from loopkit.instructions.base import InstructionTexts, MemoryInstruction, indented
from loopkit.kernel.data import AddressSpace, GlobalArg
from loopkit.kernel.statement import Statement
from loopkit.lowering.lowered import Launch, Lowered
from loopkit.lowering.stored import serves
from loopkit.poly.affine import add, arithmetic, digit_of, integer_factor, multiply
from loopkit.target.c.conversions import integer_literal, real_literal
from loopkit.target.c.dialect import Dialect
from loopkit.target.code import (
    HostIname,
    Layout,
    MapParameter,
    Parameter,
    Pointer,
    ReferencePointer,
    ScratchPointer,
    Stride,
    Value,
    host_side,
)

Print = Callable[[Expression], str]

#: The type of a tensor map in CUDA.
MAP_TYPE = "CUtensorMap"


@dataclass(frozen=True)
class Flat:
    """An array in one piece of memory: in C order, or with *strides* in terms of parameters."""

    shape: tuple[Expression | None, ...]
    strides: tuple[Expression, ...] = ()

    def offset(self, indices: tuple[Expression, ...]) -> Expression:
        if self.strides:
            return _sum_in_order(multiply(add(i), add(s)) for i, s in zip(indices, self.strides, strict=True))
        result: Expression = 0
        for axis, index in enumerate(indices):
            if axis:
                extent = self.shape[axis]
                assert extent is not None
                result = p.Product((result, arithmetic(add(extent)))) if isinstance(result, p.Sum) \
                    and not isinstance(extent, int) else multiply(result, add(extent))
            result = _sum_in_order((result, add(index)))
        return result


@dataclass(frozen=True)
class Nested:
    """An array declared in the function: ``name[i][j]``.

    :ivar lead: text of subscripts before the array's own (the thread, on the host).
    :ivar array: it, if its columns may be permuted.
    :ivar thread_axes: number of last subscripts that are left out: a thread names its own element of an array in warp
        registers.
    """

    lead: str = ""
    array: Array | None = None
    thread_axes: int = 0


def array_declaration(array: Array, dialect: Dialect, lead: str = "") -> str:
    """``float acc[4][4];``, with a comment for readers; with the elements of a constant array."""
    note = f"  // {array.note}" if array.note else ""
    kind, values = ("", "") if not array.initializer else (
        f"{dialect.syntax.constant} ", f" = {_initializer(array, dialect.syntax.truth)}")
    return f"{kind}{dialect.type_name(array.dtype)} {array.name}{lead}{extents_text(array)}{values};{note}"


def _initializer(array: Array, truth: tuple[str, str]) -> str:
    """``{{1, 2}, {3, 4}}``, or ``1`` for a scalar: literals with the exact values of the elements."""
    texts = [truth[int(x)] if array.dtype.kind == "b" else real_literal(x, array.dtype).text if array.dtype.kind == "f"
             else integer_literal(x, array.dtype, typed=False).text for x in array.initializer]
    for extent in reversed(array.shape):
        texts = [f"{{{', '.join(texts[k:k + extent])}}}" for k in range(0, len(texts), extent)]
    return texts[0]


def extents_text(array: Array) -> str:
    """``[4][4]``."""
    return "".join(f"[{extent}]" for extent in array.shape)


@dataclass(frozen=True)
class Addresses:
    """The memory of every array that a function accesses.

    :ivar spelled: text for names with another spelling (``l0_`` for the axis ``l.0``).
    :ivar loaders: the helper functions that load from some arrays.
    """

    arrays: Mapping[str, Flat | Nested]
    spelled: Mapping[str, str] = field(default_factory=dict)
    loaders: Mapping[str, str] = field(default_factory=dict)

    def text(self, name: str, indices: tuple[Expression, ...], expr: Print) -> str:
        """An element as text; *expr* prints an integer expression."""
        place = self.arrays.get(name)
        if place is None:
            return self.spelled.get(name, name)         # a value, or a scalar of the function
        if isinstance(place, Flat):
            return f"{name}[{expr(place.offset(indices)) if indices else 0}]"
        own = [expr(add(i)) for i in indices[:len(indices) - place.thread_axes]]
        if place.array is not None and place.array.swizzle is not None:
            own[-1] = _swizzled(indices, place.array, place.array.swizzle, expr)
        return f"{name}{place.lead}{''.join(f'[{i}]' for i in own)}"


def _swizzled(indices: tuple[Expression, ...], array: Array, swizzle: Swizzle, expr: Print) -> str:
    """The column of the element with *indices*, as text."""
    extents, number = swizzle.counted(array.shape), swizzle.counted(indices)
    row = reduce(lambda row, own: add(multiply(own[0], row), own[1]), zip(extents, number, strict=True), add(0))
    period = swizzle.every*swizzle.period
    row, column = _modulo(row, period), add(indices[-1])
    if not isinstance(row, int) and prod(extents) > period and not (
            isinstance(row, p.Remainder) and row.denominator == period):
        row = p.Remainder(arithmetic(row), period)
    mask = multiply(swizzle.chunk, row if swizzle.every == 1 else digit_of(row, swizzle.every, 0))
    if isinstance(column, int) and isinstance(mask, int):
        return str(column ^ mask)
    if mask == 0:
        return expr(column)
    # compilers warn about sums and products beside "^" without parentheses
    left, right = (f"({text})" if " " in text or "*" in text or "%" in text else text
                   for text in (expr(column), expr(mask)))
    return f"{left} ^ {right}"


def _modulo(row: Expression, period: int) -> Expression:
    """A form with fewer terms that is *row* modulo *period*: so rows a period apart have one address more and less."""
    terms = row.children if isinstance(row, p.Sum) else (row,)
    kept = (t for t in terms if isinstance(t, int) or integer_factor(t) % period)
    rest = add(*(t % period if isinstance(t, int) else t for t in kept))
    match rest:
        case p.Remainder(numerator=number, denominator=int() as n) if n % period == 0:
            return p.Remainder(number, period)
        case _:
            return rest


def _sum_in_order(terms: Iterable[Expression]) -> Expression:
    """The terms in order, subtracted ones last, products unchanged."""
    parts = [part for t in terms for part in (t.children if isinstance(t, p.Sum) else (t,))]
    constant = sum(part for part in parts if isinstance(part, int))
    others = sorted((part for part in parts if not isinstance(part, int)), key=lambda part: integer_factor(part) < 0)
    if constant > 0 and others and integer_factor(others[0]) < 0:
        others.insert(0, constant)
    elif constant or not others:
        others.append(constant)
    return others[0] if len(others) == 1 else p.Sum(tuple(arithmetic(e) for e in others))


# Functions and their parameters

@dataclass(frozen=True)
class FunctionText:
    """The text of one launch."""

    lowered: Lowered
    launch: Launch
    function: Function
    layout: Layout
    dialect: Dialect

    @property
    def takes_all_values(self) -> bool:
        """Does the function take every scalar of the call, even those that the loop program does not mention?"""
        return False

    @property
    def instruction_texts(self) -> InstructionTexts:
        """The texts of instructions of the language that are right for the layout."""
        return {i: text for i, text in self.dialect.instructions.items()
                if self.layout.vectors or not text.assumes_layout}

    @cached_property
    def tensor_maps(self) -> tuple[TensorMap, ...]:
        """The tensor maps of the function that the texts of its instructions use."""
        used = {name for i in self._instructions for name in i.tensor_maps}
        return tuple(m for m in self.function.tensor_maps if m.name in used)

    @cached_property
    def alignments(self) -> Mapping[str, int]:
        """For arrays, multiples of bytes at which the texts of instructions need them to begin."""
        found = dict[str, int]()
        for array, size in (item for i in self._instructions for item in i.alignments.items()):
            found[array] = max(size, found.get(array, 0))
        return found

    @property
    def _instructions(self) -> Iterator[Instruction]:
        """The instructions of the function whose texts it has."""
        return (i for node in nodes_in(self.function.body) for i in own_instructions(node)
                if type(i) in self.instruction_texts)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Arrays in the kernel's order, global temporaries, tensor maps, values, strides.

        Arrays and temporaries that only tensor maps access are not among them.
        """
        launch, layout, knl = self.launch, self.layout, self.launch.kernel
        accesses = [a for s in launch.statements.values() for a in accesses_of(knl, s.statement)]
        written, read = ({a.array for a in accesses if a.is_write is kind} for kind in (True, False))
        arrays, strides, values = list[Pointer](), list[Stride](), list[Parameter]()
        extents = [*launch.mapping.extents.values(), *launch.mapping.coordinates.values()]
        named, given = self._names_in_text, dict[str, tuple[Parameter, ...]]()
        described = {m.array for m in self.tensor_maps}
        for a in knl.arguments:
            if not isinstance(a, GlobalArg):
                # a size without a declared dtype is as wide as the text's indices
                meaning = HostIname if a.name in launch.hosts else Value
                values.append(meaning(a.name, layout.index if a.dtype is None else np.dtype(a.dtype)))
            elif a.name in written | read:
                assert a.dtype is not None
                pointer = Pointer(a.name, np.dtype(a.dtype), a.name in written, a.name in read)
                shape = self.lowered.shapes[a.name]
                axes = range(len(shape)) if a.name in layout.strided or any(e is None for e in shape[1:]) else ()
                own = layout.declared_strides(a)
                found = [Stride(knl.fresh_name(f"{a.name}_stride_{k}"), layout.index, a.name, k)
                         for k in axes if not own or own[k] is None]
                given[a.name] = (pointer, *found)
                if a.name in described - named:
                    continue
                arrays.append(pointer)
                strides += found
                extents += [e for e in (own if axes and own else () if axes else shape[1:]) if e is not None]
        for storage in self.lowered.storages.values():
            if storage.space is AddressSpace.GLOBAL and storage.name in written | read:
                instruction = storage.temporary.instruction
                text = None if instruction is None else self.dialect.instructions.get(type(instruction))
                scratch = ScratchPointer(
                    storage.name, storage.dtype, storage.name in written, storage.name in read and text is None,
                    storage.in_memory, None if text is None else text.element, text is not None)
                given[storage.name] = (scratch,)
                if storage.name not in described - named:
                    arrays.append(scratch)
                    extents += storage.in_memory[1:]
        if self.function.ticketed and any(isinstance(x, ScratchPointer) and x.cleared for x in arrays):
            arrays.append(ScratchPointer(count_of(launch), np.dtype(np.uint32), written=True, shape=(1,), cleared=True))
        needed = named.union(*map(variables, extents))
        maps = (MapParameter(m.name, given[m.array][0].dtype, m, given[m.array]) for m in self.tensor_maps)
        return (*arrays, *maps, *(v for v in values if v.name in needed or self.takes_all_values), *strides)

    @property
    def _names_in_text(self) -> frozenset[str]:
        """The names that the text mentions: of a region that an instruction executes, those of the operands."""
        texts = self.instruction_texts

        def own(node: Node) -> Node:
            if not isinstance(node, Region) or node.instruction is None:
                return node
            text = texts.get(type(node.instruction))
            return node if text is None or text.region is None else replace(node, body=Block())
        return mentioned(rewritten(self.function.body, own))

    def memory_instructions(self) -> Iterator[tuple[Statement, MemoryInstruction]]:
        """The statements whose accesses are made by instructions.

        :raises PreconditionError: an instruction does not support the memory of its statement.
        """
        for s in (bound.statement for bound in self.launch.statements.values()):
            for i in (i for i in s.instructions if isinstance(i, MemoryInstruction)):
                if not serves(i, s, self.lowered.storages):
                    i.refuse_memory(s, self.lowered.storages[s.written].space)
                yield s, i

    @property
    def places(self) -> dict[str, Flat]:
        """The memory of arguments and global temporaries."""
        arguments = self.launch.kernel.array_args
        strides = {name: dict(enumerate(self.layout.declared_strides(a))) for name, a in arguments.items()}
        parameters = host_side(self.parameters)
        for s in parameters:
            if isinstance(s, Stride):
                strides[s.array][s.axis] = p.Variable(s.name)
        return {x.name: Flat(x.shape, ()) if isinstance(x, ScratchPointer) else Flat(
            self.lowered.shapes[x.name], tuple(e for _, e in sorted(strides[x.name].items()) if e is not None))
            for x in parameters if isinstance(x, Pointer)}


def count_of(launch: Launch) -> str:
    """The name of the counter of started blocks."""
    return launch.kernel.fresh_name(f"{launch.name}_started")


def type_of(parameter: Parameter, dialect: Dialect) -> str:
    """The type of *parameter*, or of its elements."""
    if isinstance(parameter, MapParameter):
        return MAP_TYPE
    name = dialect.type_name(parameter.dtype)
    element = parameter.element if isinstance(parameter, ScratchPointer) else None
    return name if element is None else element.type_name(name)


def function_lines(start: str, parameters: tuple[Parameter, ...], body: Iterable[str], dialect: Dialect, *,
                   passes_on: bool = False) -> Iterator[str]:
    """``start(parameters)``, wrapped, and *body*.

    :arg passes_on: the function passes its pointers on and reads nothing itself.
    """
    # A compiler that treats memory behind a const pointer with restrict as constant may turn "c ? x[i] : a[i]" into one
    # load from either address, and treats that load as constant too, even if a is written between two such loads. In a
    # function that reads an array it writes, the other pointers are therefore declared without it: the declaration of a
    # alone separates loads from stores.
    safe = passes_on or not dialect.syntax.constant_by_restrict or not any(
        isinstance(x, Pointer) and x.read and x.written for x in parameters)
    items: list[str] = []
    for x in parameters:
        if isinstance(x, ReferencePointer):
            arguments = ", ".join(map(dialect.type_name, x.arguments))
            items.append(f"{dialect.type_name(x.dtype)} (*{x.name})({arguments})")
            continue
        written = isinstance(x, Pointer) and x.written
        pointer = f"*{f'{dialect.syntax.restrict} ' if safe or written else ''}" if isinstance(x, Pointer) else ""
        memory = dialect.syntax.memories.get(AddressSpace.GLOBAL, "") if isinstance(x, Pointer) else ""
        const = "const __grid_constant__ " if isinstance(x, MapParameter) else "" if written else "const "
        items.append(f"{memory}{const}{type_of(x, dialect)} {pointer}{x.name}")
    yield from wrapped_head(start, items)
    yield "{"
    yield from indented(body)
    yield "}"


def wrapped_head(start: str, parameters: Iterable[str]) -> Iterator[str]:
    """``start(parameters)``, wrapped between parameters only."""
    first, *others = (text.replace(" ", "\0") for text in (start, *parameters))
    lines = wrap(f"{first}({', '.join(others)})", 110, subsequent_indent="    ",
                 break_long_words=False, break_on_hyphens=False)
    yield from (line.replace("\0", " ") for line in lines)
