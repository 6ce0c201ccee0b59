"""Parameters of a generated function, and the memory of its arrays; the same for all targets."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from textwrap import wrap
from typing import ClassVar

import numpy as np

from loopkit.analysis.accesses import accesses_of
from loopkit.ast.nodes import Function
from loopkit.ast.walk import mentioned
from loopkit.expr.mappers import variables
from loopkit.instructions.base import indented
from loopkit.kernel.data import AddressSpace, GlobalArg
from loopkit.lowering.lowered import Launch, Lowered
from loopkit.target.addresses import Flat
from loopkit.target.c.dialect import Dialect
from loopkit.target.code import Layout, Parameter, ParameterKind


@dataclass(frozen=True)
class Signature:
    """The parameters of a function, and the memory of arguments and global temporaries."""

    parameters: tuple[Parameter, ...]
    places: Mapping[str, Flat]


@dataclass(frozen=True)
class FunctionText:
    """The text of one launch."""

    lowered: Lowered
    launch: Launch
    function: Function
    layout: Layout

    dialect: ClassVar[Dialect]

    @cached_property
    def signature(self) -> Signature:
        """Arrays in the kernel's order, global temporaries, values, strides."""
        launch, layout, knl = self.launch, self.layout, self.launch.kernel
        accesses = [a for s in launch.statements.values() for a in accesses_of(knl, s.statement)]
        written, read = ({a.array for a in accesses if a.is_write is kind} for kind in (True, False))
        arrays, strides, values = list[Parameter](), list[Parameter](), list[Parameter]()
        places: dict[str, Flat] = {}
        for a in knl.arguments:
            if not isinstance(a, GlobalArg):
                # a size without a declared dtype is as wide as the text's indices
                kind = ParameterKind.HOST if a.name in launch.hosts else ParameterKind.VALUE
                values.append(Parameter(a.name, kind, layout.index if a.dtype is None else np.dtype(a.dtype), a.name))
            elif a.name in written | read:
                assert a.dtype is not None
                arrays.append(Parameter(a.name, ParameterKind.ARRAY, np.dtype(a.dtype), a.name,
                                        written=a.name in written, read=a.name in read))
                shape = self.lowered.shapes[a.name]
                axes = range(len(shape)) if a.name in layout.strided or any(e is None for e in shape[1:]) else ()
                names = tuple(knl.fresh_name(f"{a.name}_stride_{k}") for k in axes)
                strides += [Parameter(x, ParameterKind.STRIDE, layout.index, a.name, k) for k, x in enumerate(names)]
                places[a.name] = Flat(shape, names)
        for storage in self.lowered.storages.values():
            if storage.space is AddressSpace.GLOBAL and storage.name in written | read:
                instruction = storage.temporary.instruction
                text = None if instruction is None else self.dialect.instructions.get(type(instruction))
                arrays.append(Parameter(
                    storage.name, ParameterKind.SCRATCH, storage.dtype, storage.name, shape=storage.in_memory,
                    written=storage.name in written, read=storage.name in read,
                    element=None if text is None else text.element, cleared=text is not None))
                places[storage.name] = Flat(storage.in_memory)
        if self.function.ticketed and any(x.cleared for x in arrays):
            arrays.append(Parameter(count_of(launch), ParameterKind.SCRATCH, np.dtype(np.uint32), count_of(launch),
                                    shape=(1,), written=True, read=True, cleared=True))
        extents = [e for place in places.values() if not place.strides for e in place.shape[1:] if e is not None]
        needed = mentioned(self.function.body).union(
            *map(variables, (*launch.mapping.extents.values(), *launch.mapping.coordinates.values(), *extents)))
        return Signature((*arrays, *(v for v in values if v.name in needed), *strides), places)


def count_of(launch: Launch) -> str:
    """The name of the counter of started blocks."""
    return launch.kernel.fresh_name(f"{launch.name}_started")


def type_of(parameter: Parameter, dialect: Dialect) -> str:
    """The type of *parameter*, or of its elements."""
    name = dialect.type_name(parameter.dtype)
    return name if parameter.element is None else parameter.element.type_name(name)


def function_lines(start: str, parameters: tuple[Parameter, ...], body: Iterable[str], dialect: Dialect, *,
                   passes_on: bool = False) -> Iterator[str]:
    """``start(parameters)``, wrapped, and *body*.

    :arg passes_on: the function passes its pointers on and reads nothing itself.
    """
    # NVIDIA's compiler treats memory behind a const and __restrict__ pointer as constant. It turns "c ? x[i] : a[i]"
    # into one load from either address, and treats that load as constant too, even if a is written between two such
    # loads (observed with NVRTC 13.0 and 13.5). In a function that reads an array it writes, the other pointers are
    # therefore declared without it: the declaration of a alone separates loads from stores. Values between blocks are
    # not read by loads of C++.
    safe = passes_on or not dialect.syntax.constant_by_restrict or not any(
        x.read and x.written and not x.cleared for x in parameters)
    items: list[str] = []
    for x in parameters:
        pointer = f"*{f'{dialect.syntax.restrict} ' if safe or x.written else ''}" if x.is_pointer else ""
        items.append(f"{'' if x.is_pointer and x.written else 'const '}{type_of(x, dialect)} {pointer}{x.name}")
    # a line is broken between parameters only
    first, *others = (text.replace(" ", "\0") for text in (start, *items))
    lines = wrap(f"{first}({', '.join(others) or dialect.syntax.no_parameters})", 110, subsequent_indent="    ",
                 break_long_words=False, break_on_hyphens=False)
    yield from (line.replace("\0", " ") for line in lines)
    yield "{"
    yield from indented(body)
    yield "}"
