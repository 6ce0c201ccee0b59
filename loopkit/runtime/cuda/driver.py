"""The entry points of the CUDA driver that pycuda lacks, through ctypes.

pycuda launches only on streams of its own making. A kernel must run on the current stream of torch or CuPy, also while
torch captures a graph, so modules and launches use the driver directly. Contexts, memory, copies, and our own streams
and events are pycuda's. ``cuLaunchKernelEx`` takes everything in prepared structures: through ctypes such a launch
costs less than pycuda's prepared call.
"""
from __future__ import annotations

import ctypes
import sys
from functools import lru_cache, partial
from typing import Any

from loopkit.errors import DeviceError

#: Codes of ``CUresult`` that this module distinguishes.
SUCCESS, OUT_OF_MEMORY = 0, 2
#: The errors of a launch in another context: an invalid or destroyed context, an invalid handle.
ANOTHER_CONTEXT = frozenset({201, 709, 400})
#: After these errors the process's context is unusable.
STICKY = frozenset({214, 700, 702, 714, 715, 716, 717, 718, 719, 720})

_CONTEXT, _DEVICE_ORDINAL = 1, 9
_MAX_DYNAMIC_SHARED = 8


class LaunchConfig(ctypes.Structure):
    """``CUlaunchConfig``."""

    _fields_ = (("grid_x", ctypes.c_uint), ("grid_y", ctypes.c_uint), ("grid_z", ctypes.c_uint),
                ("block_x", ctypes.c_uint), ("block_y", ctypes.c_uint), ("block_z", ctypes.c_uint),
                ("shared_bytes", ctypes.c_uint), ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p),
                ("attribute_count", ctypes.c_uint))


class DriverError(RuntimeError):
    """A driver call that failed, with its ``CUresult``."""

    def __init__(self, code: int, text: str) -> None:
        self.code = code
        super().__init__(text)


class Driver:
    """The driver functions that the runtime uses; tests replace them on a machine without a GPU."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code != SUCCESS:
            raise self.failure(code)

    def failure(self, code: int) -> DriverError:
        """The error of a ``CUresult``."""
        words = []
        for ask in ("cuGetErrorName", "cuGetErrorString"):
            text = ctypes.c_char_p()
            known = getattr(self._library, ask)(code, ctypes.byref(text)) == SUCCESS
            words.append(text.value.decode() if known and text.value else "")
        name, meaning = words[0] or f"CUDA error {code}", words[1]
        return DriverError(code, f"{name}: {meaning}" if meaning else name)

    def load_module(self, cubin: bytes) -> int:
        """The handle of a module in the current context."""
        module = ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(cubin))
        return module.value or 0

    def function(self, module: int, name: str) -> int:
        """The handle of a function of *module*."""
        function = ctypes.c_void_p()
        self._call("cuModuleGetFunction", ctypes.byref(function), ctypes.c_void_p(module),
                   ctypes.c_char_p(name.encode()))
        return function.value or 0

    def allow_shared_bytes(self, function: int, count: int) -> None:
        """Allow *count* bytes of dynamic shared memory in launches of *function*."""
        self._call("cuFuncSetAttribute", ctypes.c_void_p(function), ctypes.c_int(_MAX_DYNAMIC_SHARED),
                   ctypes.c_int(count))

    def launcher(self, config: LaunchConfig, function: int, parameters: ctypes.Array[ctypes.c_void_p]) -> Any:
        """A function that launches and gives the ``CUresult``; the caller keeps *config* and *parameters* alive."""
        # made once: converting plain arguments at each launch would cost a microsecond
        return partial(self._library.cuLaunchKernelEx, ctypes.c_void_p(ctypes.addressof(config)),
                       ctypes.c_void_p(function), ctypes.c_void_p(ctypes.addressof(parameters)), ctypes.c_void_p(None))

    def tensor_map_encoder(self) -> Any:
        """``cuTensorMapEncodeTiled``, a function that gives the ``CUresult``; :raises DeviceError: there is none."""
        found = getattr(self._library, "cuTensorMapEncodeTiled", None)
        if found is None:
            raise DeviceError("NVIDIA's driver on this machine has no tensor maps (cuTensorMapEncodeTiled), which the "
                              "kernel needs.", hint="update the driver: that of CUDA 12 has them")
        return found

    def current_device(self) -> int | None:
        """The ordinal of the device whose context is current."""
        context, ordinal = ctypes.c_void_p(), ctypes.c_int()
        # checked first: querying the device without a context is an error that profiling tools report
        if self._library.cuCtxGetCurrent(ctypes.byref(context)) != SUCCESS or not context.value:
            return None
        return ordinal.value if self._library.cuCtxGetDevice(ctypes.byref(ordinal)) == SUCCESS else None

    def place(self, pointer: int) -> tuple[int, int] | None:
        """Ordinal of the device and handle of the context of *pointer*; ``None``: it has none."""
        ordinal, context = ctypes.c_int(-1), ctypes.c_void_p()
        kinds = (ctypes.c_int * 2)(_DEVICE_ORDINAL, _CONTEXT)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(ordinal), ctypes.addressof(context))
        code = self._library.cuPointerGetAttributes(ctypes.c_uint(2), kinds, values, ctypes.c_uint64(pointer))
        return (ordinal.value, context.value or 0) if code == SUCCESS and ordinal.value >= 0 else None

    def synchronize(self, stream: int) -> None:
        self._call("cuStreamSynchronize", ctypes.c_void_p(stream))

    def clear(self, pointer: int, count: int, stream: int) -> int:
        """Zero *count* bytes in the order of *stream*; gives the ``CUresult``."""
        code: int = self._library.cuMemsetD8Async(
            ctypes.c_uint64(pointer), ctypes.c_ubyte(0), ctypes.c_size_t(count), ctypes.c_void_p(stream))
        return code

    def order(self, first: int, then: int) -> None:
        """Let later launches on the stream *then* wait for earlier launches on *first*."""
        event = ctypes.c_void_p()
        without_timing = 2
        self._call("cuEventCreate", ctypes.byref(event), ctypes.c_uint(without_timing))
        try:
            self._call("cuEventRecord", event, ctypes.c_void_p(first))
            self._call("cuStreamWaitEvent", ctypes.c_void_p(then), event, ctypes.c_uint(0))
        finally:
            # the driver keeps the event until the wait is over
            self._call("cuEventDestroy_v2", event)


@lru_cache(maxsize=1)
def load_driver() -> Driver:
    """The driver of this machine; :raises OSError: there is none."""
    return Driver(ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"))
