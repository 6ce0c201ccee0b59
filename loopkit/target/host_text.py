"""The launch sequence as C++ for a reader."""
from __future__ import annotations

from collections.abc import Sequence

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.signs import Signs
from loopkit.expr.c import CText
from loopkit.expr.dtypes import INT32, weak
from loopkit.lowering.pipeline import Lowered
from loopkit.target.code import Launch, ParameterKind, split_condition
from loopkit.target.dialects import CUDA
from loopkit.target.signature import head_lines


def host_text(lowered: Lowered, launches: Sequence[Launch]) -> str:
    """What the runtime does, as a C++ function on device pointers: allocations, launches, in order."""
    sizes = Signs(dict.fromkeys(lowered.kernel.value_params, 0))
    printer = CText(CUDA, lambda _name: weak(INT32), lambda name, _indices: name, sizes.nonnegative)
    taken = {x.name: x for launch in launches for x in launch.parameters if x.kind is not ParameterKind.SCRATCH}
    scratch = {x.name: x for launch in launches for x in launch.parameters if x.kind is ParameterKind.SCRATCH}
    body: list[str] = []
    for x in scratch.values():
        count = "*".join([f"sizeof({CUDA.type_name(x.dtype)})", *(_factor(printer, e) for e in x.shape)])
        body += [f"{CUDA.type_name(x.dtype)} *{x.name};", f"cudaMalloc(&{x.name}, {count});"]
    for launch in launches:
        condition, grid = split_condition(launch.grid)
        shape = [f"dim3({', '.join(map(printer.text, grid))})", f"dim3({', '.join(map(str, launch.block))})"]
        if launch.dynamic_shared_bytes:
            size = str(launch.dynamic_shared_bytes)
            shape.append(size)
            body.append(f"cudaFuncSetAttribute({launch.name}, cudaFuncAttributeMaxDynamicSharedMemorySize, {size});")
        call = f"{launch.name}<<<{', '.join(shape)}>>>({', '.join(x.name for x in launch.parameters)});"
        some = [condition] if condition is not None else [
            p.Comparison(e, ">", 0) for e in grid if not isinstance(e, int)]
        if some:                            # a launch of no blocks is an error
            body.append(f"if ({' && '.join(map(printer.condition, some))})")
            call = f"    {call}"
        body.append(call)
    body += [f"cudaFree({name});" for name in scratch]
    head = head_lines(f"void launch_{lowered.kernel.name}", tuple(taken.values()), CUDA)
    return "\n".join([*head, "{", *(f"    {line}" for line in body), "}"]) + "\n"


def _factor(printer: CText, extent: Expression) -> str:
    text = printer.text(extent)
    return text if isinstance(extent, int | p.Variable) else f"({text})"
