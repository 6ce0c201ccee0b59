"""Kernels and arrays that the tests on fake GPUs share."""
from __future__ import annotations

from typing import Any

import numpy as np

import loopkit as lk
from tests.runtime.cuda.conftest import Lab
from tests.runtime.cuda.fake_arrays import Exporter, Interface, Tensor, on_gpu

F = np.float32

#: Where the arrays of a kind lie: in the host's memory or on a GPU.
HOST_KINDS = ("numpy", "torch_cpu")
GPU_KINDS = ("torch", "cupy", "pycuda", "interface", "dlpack")
KINDS = (*HOST_KINDS, *GPU_KINDS)


def saxpy(dtype: Any = F, **options: Any) -> lk.LoopKernel:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "z[i] = alpha*x[i] + y[i]", name="saxpy", **options)
    knl = lk.add_dtypes(knl, {"x": dtype, "y": dtype, "alpha": dtype})
    return lk.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def rows(dtype: Any = F) -> lk.LoopKernel:
    """Two axes, so that strides matter."""
    knl = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", "y[i,j] = 2*x[i,j]", name="rows")
    knl = lk.add_dtypes(knl, {"x": dtype})
    return lk.tag_inames(lk.split_iname(knl, "j", 32, inner_tag="l.0"), {"i": "g.0", "j_outer": "g.1"})


def increment(dtype: Any = F) -> lk.LoopKernel:
    """Reads what it writes."""
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = y[i] + 1", name="increment")
    return lk.split_iname(lk.add_dtypes(knl, {"y": dtype}), "i", 32, outer_tag="g.0", inner_tag="l.0")


def spread() -> lk.LoopKernel:
    """Writes every other element."""
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "z[2*i] = x[i]", name="spread"), {"x": F})
    return lk.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def through_memory() -> lk.LoopKernel:
    """``z = 2*(x + 1)``, reversed, by way of a temporary in global memory: two launches."""
    knl = lk.make_kernel(
        "{[i,j]: 0<=i,j<n}",
        """
        t[i] = x[i] + 1
        z[j] = 2*t[n-1-j]
        """, name="through_memory", kernel_data=[lk.GlobalArg("x", F), lk.GlobalArg("z", F),
                                                 lk.TemporaryVariable("t", F), "..."])
    knl = lk.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    return lk.split_iname(knl, "j", 32, outer_tag="g.0", inner_tag="l.0")


def make(lab: Lab, kind: str, array: np.ndarray, ordinal: int = 0) -> Any:
    """A copy of *array* as that kind."""
    match kind:
        case "numpy":
            return array.copy()
        case "torch_cpu":
            return lab.torch.from_numpy(array.copy())
        case "torch":
            return lab.torch.from_numpy(array).cuda(ordinal)
        case "cupy":
            with lab.cupy.cuda.Device(ordinal):
                return lab.cupy.asarray(array)
        case "pycuda":
            with lab.machine.context(lab.machine.primary(ordinal)):
                return lab.gpuarray.to_gpu(array)
        case "interface":
            return Interface(on_gpu(lab.machine, array, ordinal))
        case "dlpack":
            return Exporter(on_gpu(lab.machine, array, ordinal))
    raise AssertionError(kind)


def read(lab: Lab, x: Any) -> np.ndarray:
    """The elements of an array, waiting for no more than its library would."""
    if isinstance(x, Tensor):
        return x.cpu().numpy()
    if isinstance(x, np.ndarray):
        return x
    if hasattr(x, "get"):
        found: np.ndarray = x.get()
        return found
    return read_device_array(lab, x)


def read_device_array(lab: Lab, x: Any) -> np.ndarray:
    """One of the runtime's own arrays, which are complete when they are handed out."""
    memory = lab.machine.find(x.pointer)
    assert memory is not None
    count = int(np.prod(x.shape)) * x.dtype.itemsize
    start = x.pointer - memory.start
    return memory.bytes()[start:start + count].copy().view(x.dtype).reshape(x.shape)
