"""The time to the first result of one contestant, in a process of its own.

    python benchmarks/launch_first.py CONTESTANT CACHES

The library is imported, a CUDA context made and the arrays on the GPU before the clock starts; it stops when the
result is there. What the library keeps on disk, it keeps in the directory CACHES. The last line printed is JSON.
"""
from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from launch_peers import (
    BLOCK,
    GRID,
    SOURCE,
    Arrays,
    N,
    Problem,
    addresses,
    cuda_core_kernel,
    cupy_arrays,
    loopkit_kernel,
    make_problem,
    numba_arrays,
    pycuda_arrays,
    pycuda_function,
    reason,
    torch_arrays,
)

#: The variables from which the libraries and the driver read where to keep things.
CACHE_VARIABLES = ("LOOPKIT_CACHE_DIR", "CUPY_CACHE_DIR", "NUMBA_CACHE_DIR", "TRITON_CACHE_DIR",
                   "TORCHINDUCTOR_CACHE_DIR", "CUDA_CACHE_PATH")

#: Says which stage has just ended.
Lap = Callable[[str], None]


@dataclass(frozen=True)
class First:
    """A contestant up to where the clock starts.

    :ivar run: what is timed; gives z.
    """

    arrays: Arrays
    run: Callable[[Lap], Any]


# Contestants


def with_loopkit(p: Problem, _caches: Path) -> First:
    import loopkit as lk
    a = torch_arrays(p)

    def run(lap: Lap) -> Any:
        knl = loopkit_kernel()
        lap("make")
        saxpy = lk.compile(knl, target="cuda", device=0)
        lap("open GPU")
        _ = saxpy.source                               # kept, and taken by what follows
        lap("generate")
        _ = saxpy.cubin
        lap("compile")
        return saxpy(x=a.x, y=a.y, z=a.z, alpha=p.alpha).z
    return First(a, run)


def with_pycuda(p: Problem, caches: Path) -> First:
    import pycuda.compiler  # noqa: F401  (before the clock starts)
    a = pycuda_arrays(p)

    def run(_lap: Lap) -> Any:
        saxpy = pycuda_function(cache=str(caches))
        saxpy(a.x, a.y, a.z, np.float32(p.alpha), np.int32(N), block=(BLOCK, 1, 1), grid=(GRID, 1))
        return a.z
    return First(a, run)


def with_cuda_core(p: Problem, caches: Path) -> First:
    from cuda.core import Device, LaunchConfig, launch
    from cuda.core.utils import FileStreamProgramCache
    a = pycuda_arrays(p)
    device = Device()
    device.set_current()

    def run(_lap: Lap) -> Any:
        saxpy = cuda_core_kernel(FileStreamProgramCache(caches / "cuda.core"))
        launch(device.default_stream, LaunchConfig(grid=GRID, block=BLOCK), saxpy, *addresses(a).values(),
               np.float32(p.alpha), np.int32(N))
        return a.z
    return First(a, run)


def with_cupy(p: Problem, _caches: Path) -> First:
    import cupy
    a = cupy_arrays(p)

    def run(_lap: Lap) -> Any:
        saxpy = cupy.RawKernel(SOURCE, "saxpy")
        saxpy((GRID,), (BLOCK,), (a.x, a.y, a.z, np.float32(p.alpha), np.int32(N)))
        return a.z
    return First(a, run)


def with_numba(p: Problem, _caches: Path) -> First:
    a = numba_arrays(p)
    from launch_kernel_numba import saxpy

    def run(_lap: Lap) -> Any:
        saxpy[GRID, BLOCK](a.x, a.y, a.z, np.float32(p.alpha), N)
        return a.z
    return First(a, run)


def with_triton(p: Problem, _caches: Path) -> First:
    a = torch_arrays(p)
    from launch_kernel_triton import saxpy

    def run(_lap: Lap) -> Any:
        saxpy[(GRID,)](a.x, a.y, a.z, p.alpha, N, block=BLOCK)
        return a.z
    return First(a, run)


def with_inductor(p: Problem, _caches: Path) -> First:
    import torch
    a = torch_arrays(p)

    def run(_lap: Lap) -> Any:
        return torch.compile(lambda x, y, alpha: alpha*x + y)(a.x, a.y, p.alpha)
    return First(a, run)

CONTESTANTS: dict[str, Callable[[Problem, Path], First]] = {
    "loopkit (NVRTC)": with_loopkit, "pycuda, SourceModule (nvcc)": with_pycuda,
    "cuda.core, Program (NVRTC)": with_cuda_core, "CuPy, RawKernel (NVRTC)": with_cupy, "numba, cuda.jit": with_numba,
    "Triton, jit": with_triton, "torch.compile (Inductor)": with_inductor}

#: Takes long, and a few processes have to do.
SLOW = ("torch.compile (Inductor)",)


def measure(prepare: Callable[[Problem, Path], First], caches: Path) -> dict[str, Any]:
    """Seconds in all and of each stage; the result is compared with numpy's."""
    p = make_problem()
    first = prepare(p, caches)
    first.arrays.wait()
    marks = {"": time.perf_counter()}
    z = first.run(lambda stage: marks.update({stage: time.perf_counter()}))
    first.arrays.wait()
    marks["load, launch"] = time.perf_counter()
    p.check(first.arrays.to_host(z))
    names, times = [*marks], [*marks.values()]
    stages = {name: after - before for name, before, after in zip(names[1:], times, times[1:], strict=False)}
    return {"seconds": times[-1] - times[0], "stages": stages if len(stages) > 1 else {}}


def main() -> None:
    name, caches = sys.argv[1], Path(sys.argv[2])
    for variable in CACHE_VARIABLES:                   # before any of the libraries is imported
        os.environ[variable] = str(caches / variable.lower())
    try:
        answer = measure(CONTESTANTS[name], caches)
    except Exception as err:  # noqa: BLE001  # whatever a library raises is its result
        answer = {"reason": reason(err)}
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
