"""The launch sequence as C++ for a reader."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Block, Call, Define, For, If, Node
from loopkit.ast.signs import Signs
from loopkit.expr.c import CText
from loopkit.expr.dtypes import INT32, weak
from loopkit.expr.mappers import variables
from loopkit.lowering.pipeline import Lowered
from loopkit.target.code import Launch, Layout, Parameter, ParameterKind, split_condition
from loopkit.target.dialects import CUDA
from loopkit.target.emit import indented, wrapped
from loopkit.target.signature import head_lines


def host_text(lowered: Lowered, launches: Sequence[Launch], layout: Layout) -> str:
    """What the runtime does, as a C++ function on device pointers: allocations, launches, in order."""
    scratch = {x.name: x for launch in launches for x in launch.parameters if x.kind is ParameterKind.SCRATCH}
    signs = Signs(dict.fromkeys(lowered.kernel.value_params, 0))
    body: list[str] = []
    for x in scratch.values():
        count = "*".join([f"sizeof({CUDA.type_name(x.dtype)})", *(_factor(_printer(signs), e) for e in x.shape)])
        body += [f"{CUDA.type_name(x.dtype)} *{x.name};", f"cudaMalloc(&{x.name}, {count});"]
    body += [f"cudaFuncSetAttribute({launch.name}, cudaFuncAttributeMaxDynamicSharedMemorySize, "
             f"{launch.dynamic_shared_bytes});" for launch in launches if launch.dynamic_shared_bytes]
    body += _Writer({launch.name: launch for launch in launches}, layout).lines(
        lowered.program.order, signs, inside=False)
    body += [f"cudaFree({name});" for name in scratch]
    head = head_lines(f"void launch_{lowered.kernel.name}", _taken(lowered, launches, layout), CUDA)
    return "\n".join([*head, "{", *wrapped([*indented(body)]), "}"]) + "\n"


@dataclass(frozen=True)
class _Writer:
    """Prints what the host does.

    :ivar launches: by name.
    """

    launches: Mapping[str, Launch]
    layout: Layout

    def lines(self, block: Block, signs: Signs, *, inside: bool) -> Iterator[str]:
        """The lines of *block*; *inside* a loop nothing is launched in vain."""
        for node in block.children:
            yield from self._node(node, signs, inside=inside)
            if isinstance(node, Define):
                signs = signs.defining(node.name, node.value)

    def _node(self, node: Node, signs: Signs, *, inside: bool) -> Iterator[str]:
        printer = _printer(signs)
        match node:
            case Call():
                yield from self._launch(self.launches[node.name], printer, inside=inside)
            case For():
                step = f"++{node.iname}" if node.step == 1 else f"{node.iname} += {node.step}"
                yield (f"for ({self._index} {node.iname} = {printer.text(node.start)}; "
                       f"{node.iname} < {printer.text(node.stop)}; {step}) {{")
                yield from indented(self.lines(node.body, signs.from_start(node.iname, node.start), inside=True))
                yield "}"
            case If():
                yield f"if ({printer.condition(node.condition)}) {{"
                yield from indented(self.lines(node.then, signs, inside=True))
                if node.otherwise is not None:
                    yield "} else {"
                    yield from indented(self.lines(node.otherwise, signs, inside=True))
                yield "}"
            case Define():
                yield f"const {self._index} {node.name} = {printer.text(node.value)};"
            case Block():
                yield "{"
                yield from indented(self.lines(node, signs, inside=inside))
                yield "}"
            case _:
                raise AssertionError(node)

    @property
    def _index(self) -> str:
        return CUDA.type_name(_index_dtype(self.layout))

    def _launch(self, launch: Launch, printer: CText, *, inside: bool) -> Iterator[str]:
        condition, grid = split_condition(launch.grid)
        shape = [f"dim3({', '.join(map(printer.text, grid))})", f"dim3({', '.join(map(str, launch.block))})"]
        if launch.dynamic_shared_bytes:
            shape.append(str(launch.dynamic_shared_bytes))
        call = f"{launch.name}<<<{', '.join(shape)}>>>({', '.join(x.name for x in launch.parameters)});"
        some = [condition] if condition is not None else [
            p.Comparison(e, ">", 0) for e in grid if not isinstance(e, int)]
        if some and not inside:             # a launch of no blocks is an error
            yield f"if ({' && '.join(map(printer.condition, some))})"
            call = f"    {call}"
        yield call


def _taken(lowered: Lowered, launches: Sequence[Launch], layout: Layout) -> tuple[Parameter, ...]:
    """What the host's function takes: all that the launches take from outside, and the sizes of its loops."""
    result: dict[str, Parameter] = {}
    for x in (x for launch in launches for x in launch.parameters):
        if x.kind not in (ParameterKind.SCRATCH, ParameterKind.HOST):
            known = result.get(x.name)
            result[x.name] = replace(x, written=x.written or (known is not None and known.written))
    for a in lowered.kernel.arguments:
        if a.name in _mentioned(lowered.program.order):
            dtype = _index_dtype(layout) if a.dtype is None else np.dtype(a.dtype)
            result.setdefault(a.name, Parameter(a.name, ParameterKind.VALUE, dtype, a.name))
    return tuple(result.values())


def _mentioned(block: Block) -> frozenset[str]:
    """The names in the bounds and conditions of *block*."""
    found: set[str] = set()
    for node in block.children:
        match node:
            case For():
                found |= variables(node.start) | variables(node.stop) | _mentioned(node.body)
            case If():
                found |= variables(node.condition) | _mentioned(node.then)
                if node.otherwise is not None:
                    found |= _mentioned(node.otherwise)
            case Define():
                found |= variables(node.value)
            case Block():
                found |= _mentioned(node)
            case _:
                pass
    return frozenset(found)


def _printer(signs: Signs) -> CText:
    return CText(CUDA, lambda _name: weak(INT32), lambda name, _indices: name, signs.nonnegative)


def _index_dtype(layout: Layout) -> np.dtype[Any]:
    return np.dtype(np.int64 if layout.index_bits == 64 else np.int32)


def _factor(printer: CText, extent: Expression) -> str:
    text = printer.text(extent)
    return text if isinstance(extent, int | p.Variable) else f"({text})"
