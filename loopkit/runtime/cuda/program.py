"""A compiled text loaded onto a GPU."""
from __future__ import annotations

import weakref

from loopkit.errors import DeviceError, LimitError
from loopkit.runtime.cuda.devices import Gpu
from loopkit.runtime.cuda.driver import DriverError
from loopkit.target.code import Launch


class GpuProgram:
    """The functions of a text on one GPU; unloaded when it goes."""

    def __init__(self, gpu: Gpu, cubin: bytes, launches: tuple[Launch, ...]) -> None:
        self.gpu = gpu
        driver = gpu.driver
        with gpu:
            module = driver.load_module(cubin)
            weakref.finalize(self, _unload, gpu, module)
            self.functions = {launch.name: driver.function(module, launch.name) for launch in launches}
            for launch in launches:
                if launch.dynamic_shared_bytes:
                    driver.allow_shared_bytes(self.functions[launch.name], launch.dynamic_shared_bytes)

    def blocks_per_multiprocessor(self, launch: Launch) -> int:
        """How many blocks of *launch* fit on a multiprocessor at once, by the driver's own count."""
        threads = launch.block[0] * launch.block[1] * launch.block[2]
        with self.gpu:
            return self.gpu.driver.blocks_per_multiprocessor(self.functions[launch.name], threads,
                                                             launch.dynamic_shared_bytes)


def require_grid(gpu: Gpu, launch: Launch, grid: tuple[int, ...]) -> None:
    """:raises LimitError: the grid is larger than the GPU allows."""
    for axis, blocks, most in zip("xyz", grid, gpu.limits.grid, strict=True):
        if blocks > most:
            raise LimitError(f"blocks along {axis}", most, blocks, where=f"'{launch.name}' on {gpu}",
                             hint="map the longest iname to g.0, or split by more")


def _unload(gpu: Gpu, module: int) -> None:
    try:
        with gpu:
            gpu.driver.unload_module(module)
    except (DeviceError, DriverError, gpu.pycuda.Error):
        pass                                           # the context is gone, and with it the module
