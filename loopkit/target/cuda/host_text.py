"""The launch sequence as C++ for readers, in one file with the kernels for nvcc."""
from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign, Block, Call, Define, For, If, Node, Region, Sync
from loopkit.ast.walk import expressions_of, nodes_in
from loopkit.expr.dtypes import Type, weak
from loopkit.expr.mappers import variables
from loopkit.instructions.text import indented, or_else
from loopkit.lowering.lowered import Lowered
from loopkit.lowering.types import index_types
from loopkit.poly.affine import NotAffineError
from loopkit.poly.codegen import condition_expression
from loopkit.poly.extents import is_at_least
from loopkit.poly.limits import affordable
from loopkit.poly.piecewise import params_where
from loopkit.poly.sets import Set, at_least
from loopkit.target.c.expressions import CText
from loopkit.target.code import GeneratedKernel, Layout, Parameter, ParameterKind, split_condition
from loopkit.target.cuda.dialect import CUDA, HOST
from loopkit.target.emit import wrapped
from loopkit.target.signature import head_lines, type_of


def host_text(lowered: Lowered, launches: Sequence[GeneratedKernel], layout: Layout) -> str:
    """The runtime's work as a C++ function on device pointers: allocations and launches in order."""
    scratch = {x.name: x for launch in launches for x in launch.parameters if x.kind is ParameterKind.SCRATCH}
    known = lowered.kernel.assumptions
    index = np.dtype(np.int64 if layout.index_bits == 64 else np.int32)
    writer = _Writer({launch.name: launch for launch in launches}, index, index_types(lowered.kernel, index))
    body: list[str] = []
    for number, x in enumerate(scratch.values()):
        body += writer.allocation(x, known, list(scratch)[:number])
    body += [f"cudaFuncSetAttribute({writer.function(launch)}, cudaFuncAttributeMaxDynamicSharedMemorySize, "
             f"{launch.dynamic_shared_bytes});" for launch in launches if launch.dynamic_shared_bytes]
    body += writer.lines(lowered.program.order, known)
    body += [f"cudaFree({name});" for name in scratch]
    head = head_lines(f"void launch_{lowered.kernel.name}", _taken(lowered, launches, index), CUDA, passes_on=True)
    lines = [*head, "{", *indented([*_helpers(writer.used), *wrapped(body)]), "}"]
    includes = ["#include <algorithm>", ""] if any("std::" in line for line in body) else []
    return "\n".join([*includes, *lines]) + "\n"


@dataclass(frozen=True)
class _Writer:
    """Prints the host's work; *known* is the set of sizes and host inames that are possible at a place.

    :ivar launches: by name.
    :ivar index: the dtype of the text's own integers.
    :ivar types: of the kernel's names.
    :ivar used: the helper functions that the text uses.
    """

    launches: Mapping[str, GeneratedKernel]
    index: np.dtype[Any]
    types: Mapping[str, Type]
    used: set[str] = field(default_factory=set)

    def lines(self, block: Block, known: Set) -> Iterator[str]:
        for node in block.children:
            yield from self._node(node, known)
            if isinstance(node, Define):
                known = _where(known, p.Comparison(p.Variable(node.name), "==", node.value))

    def allocation(self, scratch: Parameter, known: Set, before: Sequence[str]) -> Iterator[str]:
        """The allocation of a temporary; a negative extent allocates nothing.

        If memory is exhausted, nothing is launched: the text frees *before*, and CUDA's last error reports the failure
        like that of a launch.
        """
        printer, name = self._printer(known), type_of(scratch, CUDA)
        count = [f"sizeof({name})"]
        for extent in scratch.shape:
            safe = extent if is_at_least(extent, 0, known) else p.Max((extent, 0))
            text = printer.text(safe)
            count.append(text if isinstance(safe, int | p.Variable | p.Max) else f"({text})")
        size = "*".join(count)
        yield f"{name} *{scratch.name};"
        yield f"if (cudaMalloc(&{scratch.name}, {size}) != cudaSuccess) {{"
        yield from indented([*(f"cudaFree({x});" for x in before), "return;  // nothing runs: see cudaGetLastError()"])
        yield "}"
        if scratch.cleared:
            yield f"cudaMemset({scratch.name}, 0, {size});"

    def _node(self, node: Node, known: Set) -> Iterator[str]:
        printer, index = self._printer(known), CUDA.type_name(self.index)
        match node:
            case Call():
                yield from self._launch(self.launches[node.name], known)
            case For():
                step = f"++{node.iname}" if node.step == 1 else f"{node.iname} += {node.step}"
                stop = printer.text(node.stop)
                if isinstance(node.stop, p.If):
                    stop = f"({stop})"                 # "?:" binds weaker than "<"
                yield f"for ({index} {node.iname} = {printer.text(node.start)}; {node.iname} < {stop}; {step}) {{"
                x = p.Variable(node.iname)
                inside = _where(known, p.Comparison(node.start, "<=", x), p.Comparison(x, "<", node.stop))
                yield from indented(self.lines(node.body, inside))
                yield "}"
            case If():
                yield f"if ({printer.condition(node.condition)}) {{"
                yield from indented(self.lines(node.then, _where(known, node.condition)))
                fails = _where(known, p.LogicalNot(node.condition))
                yield from or_else([] if node.otherwise is None else list(self.lines(node.otherwise, fails)))
            case Define():
                yield f"const {index} {node.name} = {printer.text(node.value)};"
            case Block():
                yield "{"
                yield from indented(self.lines(node, known))
                yield "}"
            case Assign() | Region() | Sync():
                raise AssertionError(node)              # a function's: see emit

    def function(self, launch: GeneratedKernel) -> str:
        """The name of a launch's function, also if an argument has the same name."""
        return f"::{launch.name}" if launch.name in self.types else launch.name

    def _launch(self, launch: GeneratedKernel, known: Set) -> Iterator[str]:
        """The launch, under a condition that its grid is not empty: a launch without blocks is an error."""
        condition, grid = split_condition(launch.grid)
        some = known if condition is None else _where(known, condition)
        for extent in grid:
            has_blocks = at_least(extent, 1)
            some = some if has_blocks is None else some.intersect(has_blocks)
        unclear = [p.Comparison(extent, ">", 0) for extent in grid if not _positive(extent, some)]
        if affordable(some.is_empty, otherwise=False):
            return
        clear = condition_expression(some, known)
        printer = self._printer(some)
        shape = [f"dim3({', '.join(map(printer.text, grid))})", f"dim3({', '.join(map(str, launch.block))})"]
        if launch.dynamic_shared_bytes:
            shape.append(str(launch.dynamic_shared_bytes))
        call = f"{self.function(launch)}<<<{', '.join(shape)}>>>({', '.join(x.name for x in launch.parameters)});"
        tests = [] if clear is None else [self._printer(known).condition(clear)]
        tests += map(printer.condition, unclear)
        if tests:
            if len(tests) > 1 and isinstance(clear, p.LogicalOr):
                tests[0] = f"({tests[0]})"
            yield f"if ({' && '.join(tests)})"
            call = f"    {call}"
        yield call

    def _printer(self, known: Set) -> CText:
        return CText(HOST, lambda name: self.types.get(name) or weak(self.index), lambda name, _indices: name,
                     lambda e: is_at_least(e, 0, known), self.used, sizes=True)


def _positive(extent: Expression, known: Set) -> bool:
    """Is *extent* positive at all points of *known*?"""
    if isinstance(extent, p.Product):
        return all(_positive(factor, known) for factor in extent.children)
    return is_at_least(extent, 1, known)


def _where(known: Set, *conditions: Expression) -> Set:
    """The points of *known* at which *conditions* hold; a superset if isl cannot express them."""
    for condition in conditions:
        try:
            known = known.intersect(params_where(condition))
        except NotAffineError:
            continue
    return known


def _helpers(used: Collection[str]) -> Iterator[str]:
    """Functions that C++ lacks, as lambdas in the host's function: the device's functions may have their names."""
    for name in sorted(used):
        head, _, *body, _ = HOST.preamble({name}).splitlines()
        yield f"const auto {name} = []({head.partition('(')[2]} {{"
        yield from body
        yield "};"


def _taken(lowered: Lowered, launches: Sequence[GeneratedKernel], index: np.dtype[Any]) -> tuple[Parameter, ...]:
    """The parameters of the host's function: those of the launches, and the sizes of its loops."""
    result: dict[str, Parameter] = {}
    for x in (x for launch in launches for x in launch.parameters):
        if x.kind not in (ParameterKind.SCRATCH, ParameterKind.HOST):
            known = result.get(x.name)
            result[x.name] = replace(x, written=x.written or (known is not None and known.written))
    extents = [e for launch in launches for e in (*launch.grid, *(e for x in launch.parameters for e in x.shape))]
    mentioned = _mentioned(lowered.program.order).union(*map(variables, extents))
    for a in lowered.kernel.arguments:
        if a.name in mentioned:
            dtype = index if a.dtype is None else np.dtype(a.dtype)
            result.setdefault(a.name, Parameter(a.name, ParameterKind.VALUE, dtype, a.name))
    return tuple(result.values())


def _mentioned(block: Block) -> frozenset[str]:
    """The names in the bounds and conditions of *block*."""
    return frozenset().union(*(variables(e) for node in nodes_in(block) for e in expressions_of(node)))
