"""One kernel, z = alpha*x + y, in each library: what a launch of it is, with its arguments ready on the GPU.

A library is imported where it is used, loopkit too: without it, its contestants are left out.
"""
from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

#: Small, so that the GPU is done sooner than the host.
N = 1000
BLOCK = 128
GRID = -(-N // BLOCK)

SOURCE = """
extern "C" __global__ void __launch_bounds__(128)
saxpy(const float *__restrict__ x, const float *__restrict__ y, float *__restrict__ z, const float alpha, const int n)
{
    const int i = blockIdx.x*128 + threadIdx.x;
    if (i < n)
        z[i] = alpha*x[i] + y[i];
}
"""


@dataclass(frozen=True)
class Problem:
    """Random arrays in the host's memory and what has to come out.

    :ivar nothing: NaN, which the outputs hold before each check.
    """

    x: np.ndarray
    y: np.ndarray
    nothing: np.ndarray
    alpha: float
    expected: np.ndarray

    def check(self, found: np.ndarray) -> None:
        """:raises AssertionError: *found* is not the result."""
        np.testing.assert_allclose(found, self.expected, rtol=1e-6)


def make_problem() -> Problem:
    random = np.random.default_rng()
    x, y = random.random(N, np.float32), random.random(N, np.float32)
    return Problem(x, y, np.full(N, np.nan, np.float32), 2.5, 2.5*x.astype(np.float64) + y)


def reason(err: Exception) -> str:
    """Why a contestant has no figure, in one line."""
    text = str(err).strip().partition("\n")[0]
    return f"left out: {text}" if isinstance(err, ImportError) else f"failed: {type(err).__name__}: {text}"


@dataclass(frozen=True)
class Arrays:
    """The arrays of a problem in one library, *z* filled with NaN.

    :ivar poison: fills *z* with NaN.
    :ivar to_host: gives an array of the library as numpy's.
    :ivar wait: returns when the GPU is through.
    """

    x: Any
    y: Any
    z: Any
    poison: Callable[[], object]
    to_host: Callable[[Any], Any]
    wait: Callable[[], object]


@dataclass(frozen=True)
class Launch:
    """An expression that launches the kernel once.

    :ivar names: what the expression refers to.
    :ivar result: gives z from the value of the expression.
    """

    call: str
    names: Mapping[str, Any]
    arrays: Arrays
    result: Callable[[Any], Any]


@dataclass(frozen=True)
class Contestant:
    """One way to launch the kernel.

    :ivar most_microseconds: our goal for it, *most_ratio*: the same as a multiple of pycuda's prepared call.
    :ivar remark: why its figure is no launch like the others.
    """

    name: str
    make: Callable[[Problem], Launch]
    most_microseconds: float | None = None
    most_ratio: float | None = None
    remark: str = ""


# Arrays


def numpy_arrays(p: Problem) -> Arrays:
    z = p.nothing.copy()
    return Arrays(p.x, p.y, z, lambda: z.fill(np.nan), np.asarray, lambda: None)


def torch_arrays(p: Problem) -> Arrays:
    import torch
    x, y, z = (torch.from_numpy(a.copy()).cuda() for a in (p.x, p.y, p.nothing))
    return Arrays(x, y, z, lambda: z.fill_(float("nan")), lambda a: a.cpu().numpy(), torch.cuda.synchronize)


def cupy_arrays(p: Problem) -> Arrays:
    import cupy
    x, y, z = (cupy.asarray(a) for a in (p.x, p.y, p.nothing))
    return Arrays(x, y, z, lambda: z.set(p.nothing), cupy.asnumpy, cupy.cuda.Device().synchronize)


def pycuda_arrays(p: Problem) -> Arrays:
    import pycuda.autoprimaryctx  # noqa: F401  (makes the context current)
    from pycuda import driver, gpuarray
    x, y, z = (gpuarray.to_gpu(a) for a in (p.x, p.y, p.nothing))
    return Arrays(x, y, z, lambda: z.set(p.nothing), lambda a: a.get(), driver.Context.synchronize)


def numba_arrays(p: Problem) -> Arrays:
    # it warns of grids that do not fill the GPU, as this one
    os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")
    from numba import cuda
    x, y, z = (cuda.to_device(a) for a in (p.x, p.y, p.nothing))
    return Arrays(x, y, z, lambda: z.copy_to_device(p.nothing), lambda a: a.copy_to_host(), cuda.synchronize)

# Loopkit


def loopkit_kernel() -> Any:
    import loopkit as lk
    knl = lk.make_kernel("{[i]: 0<=i<n}", "z[i] = alpha*x[i] + y[i]", name="saxpy")
    knl = lk.add_dtypes(knl, {"x": np.float32, "y": np.float32, "alpha": np.float32})
    return lk.split_iname(knl, "i", BLOCK, outer_tag="g.0", inner_tag="l.0")


def loopkit_compiled() -> Any:
    import loopkit as lk
    return lk.compile(loopkit_kernel(), target="cuda")


def loopkit_call(arrays_of: Callable[[Problem], Arrays], p: Problem) -> Launch:
    a = arrays_of(p)
    return in_place("saxpy(x=x, y=y, z=z, alpha=alpha)", a, saxpy=loopkit_compiled(), alpha=p.alpha)


def loopkit_allocating(p: Problem) -> Launch:
    a = torch_arrays(p)
    names = {"saxpy": loopkit_compiled(), "x": a.x, "y": a.y, "alpha": p.alpha}
    return Launch("saxpy(x=x, y=y, alpha=alpha)", names, a, lambda outputs: outputs.z)


def loopkit_bound(p: Problem) -> Launch:
    a = torch_arrays(p)
    return in_place("bound()", a, bound=loopkit_compiled().bind(x=a.x, y=a.y, z=a.z, alpha=p.alpha))


def loopkit_graph(p: Problem) -> Launch:
    import torch
    a = torch_arrays(p)
    bound = loopkit_compiled().bind(x=a.x, y=a.y, z=a.z, alpha=p.alpha)
    bound()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        bound()
    return in_place("graph.replay()", a, graph=graph, bound=bound)

# Others


def pycuda_function(cache: str | bool) -> Any:
    """The kernel for the current context, kept in the directory *cache*, which exists, or not kept."""
    from pycuda.compiler import SourceModule
    return SourceModule(SOURCE, no_extern_c=True, cache_dir=cache).get_function("saxpy")


def pycuda_prepared(p: Problem) -> Launch:
    a = pycuda_arrays(p)
    saxpy = pycuda_function(cache=False).prepare("PPPfi")
    names = {"saxpy": saxpy, **addresses(a), "alpha": p.alpha, "n": N, "grid": (GRID, 1), "block": (BLOCK, 1, 1)}
    return Launch("saxpy.prepared_call(grid, block, x, y, z, alpha, n)", names, a, lambda _: a.z)


def pycuda_plain(p: Problem) -> Launch:
    return in_place("saxpy(x, y, z, alpha, n, block=block, grid=grid)", pycuda_arrays(p),
                    saxpy=pycuda_function(cache=False), alpha=np.float32(p.alpha), n=np.int32(N), grid=(GRID, 1),
                    block=(BLOCK, 1, 1))


def addresses(a: Arrays) -> dict[str, int]:
    """Where pycuda's arrays lie."""
    return {"x": int(a.x.gpudata), "y": int(a.y.gpudata), "z": int(a.z.gpudata)}


def cuda_core_kernel(cache: Any = None) -> Any:
    """The kernel for the current device; *cache* is one of ``cuda.core.utils``."""
    from cuda.core import Device, Program, ProgramOptions
    device = Device()
    device.set_current()
    program = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{device.arch}"))
    binary = program.compile("cubin") if cache is None else program.compile("cubin", cache=cache)
    return binary.get_kernel("saxpy")


def cuda_core_launch(p: Problem) -> Launch:
    """On pycuda's arrays: to cuda.core an address is an int, whoever allocated it."""
    from cuda.core import Device, LaunchConfig, launch
    a = pycuda_arrays(p)
    saxpy = cuda_core_kernel()
    names = {"launch": launch, "stream": Device().default_stream, "config": LaunchConfig(grid=GRID, block=BLOCK),
             "saxpy": saxpy, **addresses(a), "alpha": np.float32(p.alpha), "n": np.int32(N)}
    return Launch("launch(stream, config, saxpy, x, y, z, alpha, n)", names, a, lambda _: a.z)


def cupy_raw_kernel(p: Problem) -> Launch:
    import cupy
    return in_place("saxpy(grid, block, (x, y, z, alpha, n))", cupy_arrays(p), saxpy=cupy.RawKernel(SOURCE, "saxpy"),
                    alpha=np.float32(p.alpha), n=np.int32(N), grid=(GRID,), block=(BLOCK,))


def numba_launch(p: Problem) -> Launch:
    a = numba_arrays(p)
    from launch_kernel_numba import saxpy
    return in_place("saxpy(x, y, z, alpha, n)", a, saxpy=saxpy[GRID, BLOCK], alpha=np.float32(p.alpha), n=N)


def triton_launch(p: Problem) -> Launch:
    a = torch_arrays(p)
    from launch_kernel_triton import saxpy
    return in_place("saxpy(x, y, z, alpha, n, block=block)", a, saxpy=saxpy[(GRID,)], alpha=p.alpha, n=N, block=BLOCK)


def torch_add(p: Problem) -> Launch:
    a = torch_arrays(p)
    import torch
    return in_place("add(y, x, alpha=alpha, out=z)", a, add=torch.add, alpha=p.alpha)


def in_place(call: str, a: Arrays, **names: Any) -> Launch:
    """A launch that writes the array z."""
    return Launch(call, {"x": a.x, "y": a.y, "z": a.z, **names}, a, lambda _: a.z)


PREPARED = "pycuda, prepared call"

CONTESTANTS = (
    Contestant("loopkit, torch's tensors", partial(loopkit_call, torch_arrays), 10, 2),
    Contestant("loopkit, CuPy's arrays", partial(loopkit_call, cupy_arrays), 10, 2),
    Contestant("loopkit, bound", loopkit_bound, most_ratio=1),
    Contestant("loopkit, allocates its output", loopkit_allocating),
    Contestant("loopkit, numpy's arrays", partial(loopkit_call, numpy_arrays), remark="copies, waits"),
    Contestant("loopkit, bound, in torch's graph", loopkit_graph, remark="replay"),
    Contestant(PREPARED, pycuda_prepared),
    Contestant("pycuda, plain call", pycuda_plain),
    Contestant("cuda.core, launch", cuda_core_launch),
    Contestant("CuPy, RawKernel", cupy_raw_kernel),
    Contestant("numba, cuda.jit", numba_launch),
    Contestant("Triton, jit", triton_launch),
    Contestant("torch, add", torch_add),
)
