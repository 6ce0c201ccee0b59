"""The launch sequence as C++ for readers, in one file with the kernels for nvcc."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Call, For
from loopkit.ast.value_ranges import ValueRanges
from loopkit.ast.walk import mentioned
from loopkit.expr.mappers import variables
from loopkit.instructions.base import if_else, indented
from loopkit.language.names import fresh
from loopkit.lowering.lowered import Lowered
from loopkit.lowering.types import index_types
from loopkit.poly.affine import if_affine
from loopkit.poly.codegen import condition_expression
from loopkit.poly.extents import is_at_least
from loopkit.poly.limits import affordable
from loopkit.poly.piecewise import params_where
from loopkit.poly.sets import Set
from loopkit.target.code import (
    GeneratedKernel,
    HostIname,
    Layout,
    MapParameter,
    Parameter,
    Pointer,
    ScratchPointer,
    Stride,
    Value,
    host_side,
    split_condition,
)
from loopkit.target.cuda.dialect import CUDA, HOST
from loopkit.target.cuda.tensor_maps import encoding_lines
from loopkit.target.emit import Emitter, Hooks, wrapped
from loopkit.target.memory import Addresses, Flat, function_lines, type_of


def host_text(lowered: Lowered, launches: Sequence[GeneratedKernel], layout: Layout, memory: Mapping[str, Flat]
              ) -> str:
    """The runtime's work as a C++ function on device pointers: allocations, tensor maps and launches in order.

    :arg memory: the memory of the arrays that have tensor maps.
    """
    scratch = {x.name: x for launch in launches
               for x in host_side(launch.parameters) if isinstance(x, ScratchPointer)}
    known = _Known(points=lowered.kernel.assumptions)
    writer = _Writer(lowered, {launch.name: launch for launch in launches}, layout.index, memory)
    body: list[str] = []
    for number, x in enumerate(scratch.values()):
        body += writer.allocation(x, known, list(scratch)[:number])
    body += [f"cudaFuncSetAttribute({writer.function(launch)}, cudaFuncAttributeMaxDynamicSharedMemorySize, "
             f"{launch.dynamic_shared_bytes});" for launch in launches if launch.dynamic_shared_bytes]
    body += writer.emitter.lines(lowered.program.order, known)
    body += [f"cudaFree({name});" for name in scratch]
    lines = function_lines(f"void launch_{lowered.kernel.name}", host_parameters(lowered, launches, layout),
                           [*_helpers(body), *wrapped(body)], CUDA, passes_on=True)
    used = {"algorithm": ("std::min", "std::max"), "cstdlib": ("std::abort",)}
    includes = [f"#include <{header}>" for header, names in used.items() if any(x in y for x in names for y in body)]
    return "\n".join([*includes, *([""] if includes else []), *lines]) + "\n"


@dataclass(frozen=True)
class _Known(ValueRanges):
    """The set of sizes and host inames that are possible at a place."""

    points: Set = field(kw_only=True)

    def nonnegative(self, expr: Expression) -> bool:
        return is_at_least(expr, 0, self.points)

    def defining(self, name: str, value: Expression) -> _Known:
        return self.where(p.Comparison(p.Variable(name), "==", value))

    def inside(self, loop: For) -> _Known:
        x = p.Variable(loop.iname)
        return self.where(p.Comparison(loop.start, "<=", x)).where(p.Comparison(x, "<", loop.stop))

    def where(self, condition: Expression) -> _Known:
        """The points at which *condition* holds; a superset if isl cannot express it."""
        points = if_affine(lambda: params_where(condition))
        return self if points is None else _Known(points=self.points.intersect(points))


@dataclass(frozen=True)
class _Writer:
    lowered: Lowered
    launches: Mapping[str, GeneratedKernel]
    index: np.dtype[Any]
    memory: Mapping[str, Flat]

    @cached_property
    def emitter(self) -> Emitter:
        kernel = self.lowered.kernel
        return Emitter(kernel, HOST, Addresses({}), self.index, index_types(kernel, self.index),
                       Hooks(call=self._launch))

    def allocation(self, scratch: ScratchPointer, known: _Known, before: Sequence[str]) -> Iterator[str]:
        """The allocation of a temporary; a negative extent allocates nothing.

        If memory is exhausted, nothing is launched: the text frees *before*, and CUDA's last error reports it.
        """
        name = type_of(scratch, CUDA)
        count = [f"sizeof({name})"]
        for extent in scratch.shape:
            safe = extent if known.nonnegative(extent) else p.Max((extent, 0))
            text = self.emitter.text(safe, known)
            count.append(text if isinstance(safe, int | p.Variable | p.Max) else f"({text})")
        size = "*".join(count)
        yield f"{name} *{scratch.name};"
        yield from if_else(f"cudaMalloc(&{scratch.name}, {size}) != cudaSuccess",
                           [*(f"cudaFree({x});" for x in before), "return;  // nothing runs: see cudaGetLastError()"])
        if scratch.cleared:
            yield f"cudaMemset({scratch.name}, 0, {size});"

    def function(self, launch: GeneratedKernel) -> str:
        """The name of a launch's function, also if an argument has the same name."""
        return f"::{launch.name}" if launch.name in self.emitter.types else launch.name

    def _launch(self, call: Call, known: ValueRanges) -> Iterator[str]:
        """The launch, under a condition that its grid is not empty: a launch without blocks is an error."""
        assert isinstance(known, _Known)
        launch = self.launches[call.name]
        condition, grid = split_condition(launch.grid)
        inside = known if condition is None else known.where(condition)
        by_sizes = [*grid, *(extent for extent in launch.block if not isinstance(extent, int))]
        for extent in by_sizes:
            inside = inside.where(p.Comparison(extent, ">=", 1))
        if affordable(inside.points.is_empty, otherwise=False):
            return
        clear = condition_expression(inside.points, known.points)
        unclear = [p.Comparison(extent, ">", 0) for extent in by_sizes if not _positive(extent, inside.points)]
        shape = [f"dim3({', '.join(self.emitter.text(extent, inside) for extent in extents)})"
                 for extents in (grid, launch.block)]
        if launch.dynamic_shared_bytes:
            shape.append(str(launch.dynamic_shared_bytes))
        text = f"{self.function(launch)}<<<{', '.join(shape)}>>>({', '.join(x.name for x in launch.parameters)});"
        tests = [] if clear is None else [self.emitter.condition(clear, known)]
        tests += [self.emitter.condition(test, inside) for test in unclear]
        maps = list(self._encoding(launch, inside))
        if len(tests) > 1 and isinstance(clear, p.LogicalOr):
            tests[0] = f"({tests[0]})"
        if maps:
            # braces also without a condition: the names of the maps end with the launch
            yield f"if ({' && '.join(tests)}) {{" if tests else "{"
            yield from indented([*maps, text])
            yield "}"
        elif tests:
            yield f"if ({' && '.join(tests)})"
            yield f"    {text}"
        else:
            yield text

    def _encoding(self, launch: GeneratedKernel, known: ValueRanges) -> Iterator[str]:
        """The lines that make the tensor maps of *launch*."""
        taken = {*self.lowered.kernel.all_names, *(x.name for x in launch.parameters)}
        for x in launch.parameters:
            if isinstance(x, MapParameter):
                names = [fresh(f"{x.name}_{part}", taken) for part in ("extents", "strides", "box", "steps")]
                yield from encoding_lines(x, self.memory[x.tensor_map.array], names,
                                          lambda e: self.emitter.text(e, known))


def _positive(extent: Expression, known: Set) -> bool:
    """Is *extent* positive at all points of *known*?"""
    if isinstance(extent, p.Product):
        return all(_positive(factor, known) for factor in extent.children)
    return is_at_least(extent, 1, known)


def _helpers(lines: Sequence[str]) -> Iterator[str]:
    """Functions that C++ lacks, as lambdas in the host's function: the device's functions may have their names."""
    for name, text in HOST.helpers("\n".join(lines)).items():
        head, _, *body, _ = text.splitlines()
        yield f"const auto {name} = []({head.partition('(')[2]} {{"
        yield from body
        yield "};"


def host_parameters(lowered: Lowered, launches: Sequence[GeneratedKernel], layout: Layout) -> tuple[Parameter, ...]:
    """The parameters of the host's function: those of the launches, and the sizes of its loops."""
    result: dict[str, Parameter] = {}
    every = [x for launch in launches for x in launch.parameters]
    arrays = [*lowered.kernel.array_args]

    def position(x: Parameter) -> int:
        """As in a function of the device that takes all of the arrays: arrays, temporaries, values, strides."""
        last = len(arrays) + isinstance(x, Stride)
        return arrays.index(x.name) if isinstance(x, Pointer) and x.name in arrays else last
    for x in (x for launch in launches for x in sorted(host_side(launch.parameters), key=position)):
        known = result.get(x.name)
        inside = isinstance(x, ScratchPointer | HostIname)
        if not (inside or (isinstance(known, Pointer) and known.written)):
            result[x.name] = x
    extents = [*(e for launch in launches for e in (*launch.grid, *launch.block)),
               *(e for x in every if isinstance(x, ScratchPointer) for e in x.shape),
               *(e for x in every if isinstance(x, MapParameter)
                 for e in lowered.shapes.get(x.tensor_map.array, ()) if e is not None)]
    names = mentioned(lowered.program.order).union(*map(variables, extents))
    for a in lowered.kernel.arguments:
        if a.name in names:
            dtype = layout.index if a.dtype is None else np.dtype(a.dtype)
            result.setdefault(a.name, Value(a.name, dtype))
    return tuple(result.values())
