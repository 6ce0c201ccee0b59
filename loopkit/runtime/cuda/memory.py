"""Our own memory on a GPU: results in no other library's kind, copies of numpy's arrays, scratch.

Arrays are shared with other libraries by DLPack's capsules, without a copy. The structures are those of its
specification, https://dmlc.github.io/dlpack/latest/c_api.html.
"""
from __future__ import annotations

import ctypes
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, cached_property
from math import prod
from typing import Any

import numpy as np

from loopkit.errors import DeviceError
from loopkit.expr.kinds import is_of_ml_dtypes, is_tuple, named_dtype
from loopkit.expr.tuples import dtype_text
from loopkit.runtime.cuda.devices import Gpu
from loopkit.runtime.views import ArrayView, NumpyArray, addresses, bytes_of, c_strides

_CUDA = 2
_KINDS = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_ML_KINDS = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12}
_READ_ONLY = 1
_PLAIN, _PLAIN_USED = b"dltensor", b"used_dltensor"
_VERSIONED, _VERSIONED_USED = b"dltensor_versioned", b"used_dltensor_versioned"


class _Tensor(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64))


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Versioned(ctypes.Structure):
    _fields_ = (("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor))


def _api(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_name = _api("PyCapsule_GetName", ctypes.c_char_p, ctypes.py_object)
_pointer = _api("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_rename = _api("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)


class Imported:
    """The array of a capsule; deleting it calls the capsule's deleter."""

    def __init__(self, capsule: Any) -> None:
        name = _name(capsule)
        if name not in (_PLAIN, _VERSIONED):
            raise ValueError("a capsule of another sort, or one that was used before")
        address = _pointer(capsule, name)
        versioned = name == _VERSIONED
        managed: Any = (_Versioned if versioned else _Managed).from_address(address)
        if versioned and managed.major != 1:
            raise ValueError(f"DLPack {managed.major}, of which only 1 is known")
        _rename(capsule, _VERSIONED_USED if versioned else _PLAIN_USED)
        if managed.deleter:
            weakref.finalize(self, _DELETER(managed.deleter), address)
        tensor = managed.tensor
        dtype, shape = _dtype(tensor.code, tensor.bits, tensor.lanes), tuple(tensor.shape[:tensor.ndim])
        strides = tuple(s * dtype.itemsize for s in tensor.strides[:tensor.ndim]) if tensor.strides else \
            c_strides(shape, dtype.itemsize)
        self.device_type = int(tensor.device_type)
        self.view = ArrayView(dtype, shape, strides, (tensor.data or 0) + int(tensor.byte_offset),
                               int(tensor.device_id), writeable=not (versioned and managed.flags & _READ_ONLY))


def _dtype(code: int, bits: int, lanes: int) -> np.dtype[Any]:
    kind = next((k for k, c in (*_KINDS.items(), *_ML_KINDS.items()) if c == code), None)
    if lanes != 1 or kind is None or bits % 8:
        raise ValueError(f"elements that numpy does not support (code {code}, {bits} bits, {lanes} lanes)")
    if kind in _ML_KINDS:
        dtype = named_dtype(kind)
        if bits != 8*dtype.itemsize:
            raise ValueError(f"a {dtype} of {bits} bits")
        return dtype
    return np.dtype(np.bool_) if kind == "b" else np.dtype(f"{kind}{bits // 8}")


def export_capsule(view: ArrayView, owner: object) -> Any:
    """A capsule over *view*; *owner* lives until the capsule's consumer deletes it.

    :raises BufferError: its elements are tuples, which DLPack lacks.
    """
    if is_tuple(view.dtype):
        raise BufferError(f"DLPack has no arrays of structs {dtype_text(view.dtype)}")
    # numpy exports truth values and the reals of ml_dtypes only as integers
    own = _ML_KINDS.get(view.dtype.name)
    array = addresses(view, view.dtype.str if own is None and view.dtype.kind != "b" else f"<u{view.itemsize}", owner)
    # numpy makes the capsule of an array in the host's memory: the device and the kind of the elements are replaced
    capsule = array.__dlpack__()
    tensor = _Managed.from_address(_pointer(capsule, _PLAIN)).tensor
    tensor.device_type, tensor.device_id, tensor.code = _CUDA, view.ordinal, own or _KINDS[view.dtype.kind]
    return capsule


class DeviceArray:
    """An array on a GPU, in C order by default, with the two protocols for sharing arrays between libraries.

    >>> view = torch.as_tensor(array)           # doctest: +SKIP
    >>> view = cupy.from_dlpack(array)          # doctest: +SKIP

    :ivar view: its memory; *pointer*: the address of its first element; *strides*: in bytes.
    :ivar imported: the array came through DLPack; *namespace*: its library, if known.
    """

    def __init__(self, view: ArrayView, owner: object, *, namespace: Any = None, imported: bool = False) -> None:
        self.view = view
        self.pointer, self.ordinal = view.pointer, view.ordinal
        self.shape, self.strides, self.dtype, self.nbytes = view.shape, view.strides, view.dtype, view.nbytes
        self.owner = owner
        self.namespace = namespace
        self.imported = imported

    @property
    def __cuda_array_interface__(self) -> Mapping[str, Any]:
        # numpy's own text of float8_e5m2, f1, is one that it cannot read
        typestr = f"|V{self.dtype.itemsize}" if is_of_ml_dtypes(self.dtype) else self.dtype.str
        return {"version": 3, "typestr": typestr, "shape": self.shape, "strides": self.strides,
                "data": (self.pointer, not self.view.writeable), "stream": None}

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.ordinal or 0

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
    """New memory on *gpu*, freed when the array is deleted; :raises DeviceError: there is not enough."""
    size = max(prod(shape) * int(dtype.itemsize), 1)
    with gpu:
        try:
            memory = gpu.pycuda.mem_alloc(size)
        except gpu.pycuda.MemoryError:
            raise out_of_memory(gpu, size) from None
        if zero:
            gpu.pycuda.memset_d8(int(memory), 0, size)
            gpu.driver.synchronize(0)                  # also for streams that do not wait for this one
    array = DeviceArray(ArrayView.packed(shape, dtype, gpu.ordinal, int(memory)), memory)
    weakref.finalize(array, _free, gpu, memory)
    return array


def _free(gpu: Gpu, memory: Any) -> None:
    with suppress(DeviceError, gpu.pycuda.Error), gpu:         # the context may be lost, with its memory
        memory.free()


def out_of_memory(gpu: Gpu, size: int) -> DeviceError:
    """The error for *size* bytes beyond the free memory of *gpu*, whose context is current."""
    free = gpu.free_bytes()
    return DeviceError(f"{gpu} has no {_readable(size)} for an array; {_readable(free)} are free.",
                       hint="free other arrays, torch's cache (torch.cuda.empty_cache()) among them")


def _readable(size: int) -> str:
    for scale, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} bytes"


# Copies between the host's memory and a GPU's

# A copy from pageable memory goes through the driver's own pinned buffer at the rate of one processor's memcpy. Large
# copies are cut into pieces: several threads copy a piece to pinned memory while the bus transfers the piece before it.

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
        source = bytes_of(np.ascontiguousarray(array))
        if source.size >= LARGE and self._pinned:
            self._copy_in_pieces(source, pointer, up=True)
        elif source.size:
            # the driver has read pageable memory when it returns
            self._gpu.pycuda.memcpy_htod_async(pointer, source, self._stream)

    def download(self, array: NumpyArray, pointer: int) -> None:
        """Copy the array at *pointer*, in C order, to *array*, of any strides."""
        packed = array if array.flags.c_contiguous else np.empty(array.shape, array.dtype)
        target = bytes_of(packed)
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
        for i, start in enumerate(range(0, array.size, _PIECE)):
            part, (memory, event) = array[start:start + _PIECE], self._pinned[i % _PIECES]
            pinned = memory[:part.size]
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


@cache
def _pool() -> ThreadPoolExecutor:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return ThreadPoolExecutor(min(usable, _MOST_THREADS), thread_name_prefix="loopkit-copy")
