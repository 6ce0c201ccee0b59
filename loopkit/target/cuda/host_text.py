"""The launch sequence as C++ for readers, in one file with the kernels for nvcc."""
from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Call, For
from loopkit.ast.value_ranges import Signs
from loopkit.ast.walk import mentioned
from loopkit.expr.mappers import variables
from loopkit.instructions.base import if_else
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
    Parameter,
    Pointer,
    ScratchPointer,
    Value,
    split_condition,
)
from loopkit.target.cuda.dialect import CUDA, HOST
from loopkit.target.emit import Emitter, Hooks, wrapped
from loopkit.target.memory import Addresses, function_lines, type_of


def host_text(lowered: Lowered, launches: Sequence[GeneratedKernel], layout: Layout) -> str:
    """The runtime's work as a C++ function on device pointers: allocations and launches in order."""
    scratch = {x.name: x for launch in launches for x in launch.parameters if isinstance(x, ScratchPointer)}
    known = _Known(points=lowered.kernel.assumptions)
    writer = _Writer(lowered, {launch.name: launch for launch in launches}, layout.index)
    body: list[str] = []
    for number, x in enumerate(scratch.values()):
        body += writer.allocation(x, known, list(scratch)[:number])
    body += [f"cudaFuncSetAttribute({writer.function(launch)}, cudaFuncAttributeMaxDynamicSharedMemorySize, "
             f"{launch.dynamic_shared_bytes});" for launch in launches if launch.dynamic_shared_bytes]
    body += writer.emitter.lines(lowered.program.order, known)
    body += [f"cudaFree({name});" for name in scratch]
    lines = function_lines(f"void launch_{lowered.kernel.name}", _taken(lowered, launches, scratch.values(), layout),
                           [*_helpers(body), *wrapped(body)], CUDA, passes_on=True)
    includes = ["#include <algorithm>", ""] if any("std::" in line for line in body) else []
    return "\n".join([*includes, *lines]) + "\n"


@dataclass(frozen=True)
class _Known(Signs):
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

    def _launch(self, call: Call, known: Signs) -> Iterator[str]:
        """The launch, under a condition that its grid is not empty: a launch without blocks is an error."""
        assert isinstance(known, _Known)
        launch = self.launches[call.name]
        condition, grid = split_condition(launch.grid)
        inside = known if condition is None else known.where(condition)
        for extent in grid:
            inside = inside.where(p.Comparison(extent, ">=", 1))
        if affordable(inside.points.is_empty, otherwise=False):
            return
        clear = condition_expression(inside.points, known.points)
        unclear = [p.Comparison(extent, ">", 0) for extent in grid if not _positive(extent, inside.points)]
        extents = ", ".join(self.emitter.text(extent, inside) for extent in grid)
        shape = [f"dim3({extents})", f"dim3({', '.join(map(str, launch.block))})"]
        if launch.dynamic_shared_bytes:
            shape.append(str(launch.dynamic_shared_bytes))
        text = f"{self.function(launch)}<<<{', '.join(shape)}>>>({', '.join(x.name for x in launch.parameters)});"
        tests = [] if clear is None else [self.emitter.condition(clear, known)]
        tests += [self.emitter.condition(test, inside) for test in unclear]
        if tests:
            if len(tests) > 1 and isinstance(clear, p.LogicalOr):
                tests[0] = f"({tests[0]})"
            yield f"if ({' && '.join(tests)})"
            text = f"    {text}"
        yield text


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


def _taken(lowered: Lowered, launches: Sequence[GeneratedKernel], scratch: Collection[ScratchPointer], layout: Layout
           ) -> tuple[Parameter, ...]:
    """The parameters of the host's function: those of the launches, and the sizes of its loops."""
    result: dict[str, Parameter] = {}
    for x in (x for launch in launches for x in launch.parameters):
        known = result.get(x.name)
        if not (isinstance(x, ScratchPointer | HostIname) or (isinstance(known, Pointer) and known.written)):
            result[x.name] = x
    extents = [*(e for launch in launches for e in launch.grid), *(e for x in scratch for e in x.shape)]
    names = mentioned(lowered.program.order).union(*map(variables, extents))
    for a in lowered.kernel.arguments:
        if a.name in names:
            dtype = layout.index if a.dtype is None else np.dtype(a.dtype)
            result.setdefault(a.name, Value(a.name, dtype))
    return tuple(result.values())
