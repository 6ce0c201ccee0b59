"""A compiled text loaded onto a GPU."""
from __future__ import annotations

import hashlib
import threading
from math import prod

from loopkit.errors import LimitError
from loopkit.runtime.cuda.devices import Gpu
from loopkit.target.code import GeneratedKernel

#: Blocks that wait for each other are counted in 32 bits.
_MOST_COUNTED = 2**32 - 1


class GpuProgram:
    """The functions of a text on one GPU.

    Their module stays loaded for the life of the process: a CUDA graph may launch them long after the kernel is gone.
    """

    def __init__(self, gpu: Gpu, cubin: bytes, launches: tuple[GeneratedKernel, ...]) -> None:
        self.gpu = gpu
        driver = gpu.driver
        with gpu:
            module = _module(gpu, cubin)
            self.functions = {launch.name: driver.function(module, launch.name) for launch in launches}
            for launch in launches:
                if launch.dynamic_shared_bytes:
                    driver.allow_shared_bytes(self.functions[launch.name], launch.dynamic_shared_bytes)


def require_grid(gpu: Gpu, launch: GeneratedKernel, grid: tuple[int, ...]) -> None:
    """:raises LimitError: the grid is larger than the GPU allows."""
    for axis, blocks, most in zip("xyz", grid, gpu.limits.grid, strict=True):
        if blocks > most:
            raise LimitError(f"blocks along {axis}", most, blocks, where=f"'{launch.name}' on {gpu}",
                             hint="map the longest iname to g.0, or split by more")
    if launch.ticketed and prod(grid) > _MOST_COUNTED:
        raise LimitError("blocks that are counted", _MOST_COUNTED, prod(grid), where=f"'{launch.name}' on {gpu}",
                         hint="split by more")


_modules: dict[tuple[Gpu, bytes], int] = {}
_lock = threading.Lock()


def _module(gpu: Gpu, cubin: bytes) -> int:
    """The module of *cubin* on *gpu*, whose context is current; loaded once."""
    key = gpu, hashlib.sha256(cubin).digest()
    with _lock:
        if key not in _modules:
            _modules[key] = gpu.driver.load_module(cubin)
        return _modules[key]
