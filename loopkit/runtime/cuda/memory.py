"""Our own memory on a GPU: results in no other library's kind, staged copies of numpy's arrays, scratch."""
from __future__ import annotations

import weakref
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from loopkit.errors import DeviceError
from loopkit.runtime.cuda.devices import Gpu
from loopkit.runtime.cuda.dlpack import export_capsule
from loopkit.runtime.views import DeviceView


class DeviceArray:
    """An array on a GPU, in C order by default, with the two protocols for sharing arrays between libraries.

    >>> view = torch.as_tensor(array)           # doctest: +SKIP
    >>> view = cupy.from_dlpack(array)          # doctest: +SKIP

    :ivar view: its memory; *pointer*: the address of its first element; *strides*: in bytes.
    :ivar owner: the object that keeps the memory alive.
    :ivar imported: the array came through DLPack; *namespace*: its library, if known.
    """

    def __init__(self, view: DeviceView, owner: object, *, namespace: Any = None, imported: bool = False) -> None:
        self.view = view
        self.pointer, self.ordinal = view.pointer, view.ordinal
        self.shape, self.strides, self.dtype, self.nbytes = view.shape, view.strides, view.dtype, view.nbytes
        self.owner = owner
        self.namespace = namespace
        self.imported = imported

    @property
    def __cuda_array_interface__(self) -> Mapping[str, Any]:
        return {"version": 3, "typestr": self.dtype.str, "shape": self.shape, "strides": self.strides,
                "data": (self.pointer, not self.view.writeable), "stream": None}

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.ordinal

    def __dlpack__(self, *, stream: object = None, max_version: object = None, dl_device: object = None,
                   copy: bool | None = None) -> Any:
        if copy or (dl_device is not None and dl_device != self.__dlpack_device__()):
            raise BufferError("an array on a GPU is exported in place, without a copy")
        # the array's writers are ordered before all later launches, except on non-blocking streams; and results are
        # exported only when they are complete
        return export_capsule(self.view, self)

    def __repr__(self) -> str:
        return f"<DeviceArray of shape {self.shape}, dtype {self.dtype}, on GPU {self.ordinal}>"


def allocate(gpu: Gpu, shape: tuple[int, ...], dtype: np.dtype[Any], *, zero: bool = False) -> DeviceArray:
    """New memory on *gpu*, freed when the array is deleted.

    :raises DeviceError: there is not enough.
    """
    size = max(prod(shape) * int(dtype.itemsize), 1)
    with gpu:
        try:
            memory = gpu.pycuda.mem_alloc(size)
        except gpu.pycuda.MemoryError:
            raise out_of_memory(gpu, size) from None
        if zero:
            gpu.pycuda.memset_d8(int(memory), 0, size)
            gpu.driver.synchronize(0)                  # also for streams that do not wait for this one
    array = DeviceArray(DeviceView.packed(shape, dtype, gpu.ordinal, int(memory)), memory)
    weakref.finalize(array, _free, gpu, memory)
    return array


def _free(gpu: Gpu, memory: Any) -> None:
    try:
        with gpu:
            memory.free()
    except (DeviceError, gpu.pycuda.Error):
        pass                                           # the context is lost, and so is its memory


def out_of_memory(gpu: Gpu, size: int) -> DeviceError:
    """The error for *size* bytes beyond the free memory of *gpu*, whose context is current."""
    free = int(gpu.pycuda.mem_get_info()[0])
    return DeviceError(f"{gpu} has no {_readable(size)} for an array; {_readable(free)} are free.",
                       hint="free other arrays, torch's cache (torch.cuda.empty_cache()) among them")


def _readable(size: int) -> str:
    for scale, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} bytes"
