"""Runs generated CUDA text through CuPy, so that the text itself is checked on a GPU."""
from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import loopkit as lk
from loopkit.expr.evaluate import evaluate
from loopkit.lowering.types import infer_types
from loopkit.runtime.arguments import CallPlan
from loopkit.target.code import Layout, Parameter, ParameterKind


def run_on_gpu(cupy: Any, knl: lk.LoopKernel, arguments: dict[str, Any]) -> dict[str, np.ndarray]:
    """The outputs of *knl* by name; what a call would allocate is poisoned with NaN first where it is all written."""
    bound = CallPlan(infer_types(knl)).bind(arguments)
    code = lk.generate_code(knl, target="cuda", layout=Layout(32, frozenset(bound.strided)))
    module = cupy.RawModule(code=str(code), backend="nvrtc", options=("--std=c++17",))
    device = {name: cupy.asarray(array) for name, array in bound.arrays.items()}
    scratch: dict[str, Any] = {}

    def value(parameter: Parameter) -> Any:
        match parameter.kind:
            case ParameterKind.ARRAY:
                return device[parameter.name]
            case ParameterKind.VALUE:
                return np.dtype(parameter.dtype).type(bound.values[parameter.name])
            case ParameterKind.STRIDE:
                array = bound.arrays[parameter.array]
                return np.dtype(parameter.dtype).type(array.strides[parameter.axis] // array.itemsize)
            case ParameterKind.SCRATCH:
                if parameter.name not in scratch:
                    size = prod(int(evaluate(e, bound.values)) for e in parameter.shape)
                    scratch[parameter.name] = cupy.empty(max(size, 1), np.dtype(parameter.dtype))
                return scratch[parameter.name]
    for launch in code.kernels:
        grid = tuple(int(evaluate(e, bound.values)) for e in launch.grid)
        if min(grid) > 0:
            function = module.get_function(launch.name)
            function.max_dynamic_shared_size_bytes = launch.dynamic_shared_bytes
            function(grid, launch.block, tuple(map(value, launch.parameters)), shared_mem=launch.dynamic_shared_bytes)
    cupy.cuda.Device().synchronize()
    return {name: cupy.asnumpy(device[name]) for name in device if name in knl.written_names}
