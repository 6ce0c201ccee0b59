"""Copies between the host's memory and a GPU's, through pinned memory for large arrays.

A copy from pageable memory goes through the driver's own pinned buffer at the rate of one processor's memcpy. Large
copies are cut into pieces: several threads copy a piece to pinned memory while the bus transfers the piece before it.
"""
from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, cached_property
from typing import Any

import numpy as np

from loopkit.runtime.cuda.devices import Gpu
from loopkit.runtime.cuda.memory import out_of_memory
from loopkit.runtime.views import NumpyArray

#: Bytes below which the driver's own copy is as fast.
LARGE = 32 << 20
_PIECE = 16 << 20
_PIECES = 3
_MOST_THREADS = 4
#: Bytes of GPU memory that are kept for the next call.
_KEPT = 256 << 20


class Staging:
    """The copies of one GPU, in one stream; for one thread at a time, with the GPU's context current."""

    def __init__(self, gpu: Gpu, pool: Any) -> None:
        self._gpu = gpu
        self._pool = pool
        self._stream = gpu.pycuda.Stream()
        self.handle = int(self._stream.handle)

    @contextmanager
    def buffers(self) -> Iterator[Callable[[int], int]]:
        """A function that allocates bytes until the end of the block; :raises DeviceError: there is not enough."""
        taken: list[Any] = []

        def take(size: int) -> int:
            try:
                taken.append(self._pool.allocate(max(size, 1)))
            except self._gpu.pycuda.MemoryError:
                raise out_of_memory(self._gpu, size) from None
            return int(taken[-1])
        try:
            yield take
        finally:
            with suppress(self._gpu.pycuda.Error):     # the context may be lost, and its error was reported
                for memory in taken:
                    memory.free()
                if self._pool.managed_bytes - self._pool.active_bytes > _KEPT:
                    self._pool.free_held()

    def wait(self) -> None:
        self._stream.synchronize()

    def clear(self, pointer: int, size: int) -> None:
        """Zero *size* bytes."""
        if size:
            self._gpu.pycuda.memset_d8_async(pointer, 0, size, self._stream)

    def upload(self, pointer: int, array: NumpyArray) -> None:
        """Copy *array*, of any strides, to *pointer* in C order."""
        source = _bytes(np.ascontiguousarray(array))
        if source.size >= LARGE and self._pinned:
            self._copy_in_pieces(source, pointer, up=True)
        elif source.size:
            # the driver has read pageable memory when it returns
            self._gpu.pycuda.memcpy_htod_async(pointer, source, self._stream)

    def download(self, array: NumpyArray, pointer: int) -> None:
        """Copy the array at *pointer*, in C order, to *array*, of any strides."""
        packed = array if array.flags.c_contiguous else np.empty(array.shape, array.dtype)
        target = _bytes(packed)
        if target.size >= LARGE and self._pinned:
            self._copy_in_pieces(target, pointer, up=False)
        elif target.size:
            self._gpu.pycuda.memcpy_dtoh_async(target, pointer, self._stream)
            self._stream.synchronize()
        if packed is not array:
            array[...] = packed

    def _copy_in_pieces(self, array: NumpyArray, pointer: int, *, up: bool) -> None:
        """Copy the bytes of *array* to or from *pointer*; done when it returns."""
        under_way: deque[tuple[NumpyArray, NumpyArray, Any]] = deque()
        for start, part, pinned, event in self._pieces(array):
            if len(under_way) == _PIECES:
                self._finish(*under_way.popleft(), up=up)
            if up:
                self._copy(pinned, part)
                self._gpu.pycuda.memcpy_htod_async(pointer + start, pinned, self._stream)
            else:
                self._gpu.pycuda.memcpy_dtoh_async(pinned, pointer + start, self._stream)
            event.record(self._stream)
            under_way.append((part, pinned, event))
        for piece in under_way:
            self._finish(*piece, up=up)

    def _finish(self, part: NumpyArray, pinned: NumpyArray, event: Any, *, up: bool) -> None:
        event.synchronize()
        if not up:
            self._copy(part, pinned)

    def _pieces(self, array: NumpyArray) -> Iterator[tuple[int, NumpyArray, NumpyArray, Any]]:
        """The pieces of *array*: the first byte, the piece, and its pinned memory with the event of its copy."""
        for start in range(0, array.size, _PIECE):
            part, (pinned, event) = array[start:start + _PIECE], self._pinned[start // _PIECE % _PIECES]
            yield start, part, pinned[:part.size], event

    def _copy(self, target: NumpyArray, source: NumpyArray) -> None:
        """Copy within the host's memory, by several threads: numpy releases the interpreter lock meanwhile."""
        list(_pool().map(np.copyto, np.array_split(target, _MOST_THREADS), np.array_split(source, _MOST_THREADS)))

    @cached_property
    def _pinned(self) -> list[tuple[NumpyArray, Any]]:
        """Pinned memory, each piece with the event of its copy."""
        pycuda = self._gpu.pycuda
        try:
            return [(pycuda.pagelocked_empty(_PIECE, np.uint8), pycuda.Event(pycuda.event_flags.DISABLE_TIMING))
                    for _ in range(_PIECES)]
        except pycuda.MemoryError:
            return []                                  # the system does not allow this much pinned memory


def staging_of(gpu: Gpu) -> Staging:
    """The copies of *gpu*, whose context is current and whose lock is held."""
    if gpu.staging is None:
        from pycuda.tools import DeviceMemoryPool
        gpu.staging = Staging(gpu, DeviceMemoryPool())
    found: Staging = gpu.staging
    return found


def _bytes(array: NumpyArray) -> NumpyArray:
    """The bytes of an array in C order; some dtypes have no buffer of their own."""
    return np.asarray(array).reshape(-1).view(np.uint8)        # the plain array behind a subclass (np.matrix)


@cache
def _pool() -> ThreadPoolExecutor:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return ThreadPoolExecutor(min(usable, _MOST_THREADS), thread_name_prefix="loopkit-copy")
