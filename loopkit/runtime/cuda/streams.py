"""Streams of other libraries."""
from __future__ import annotations

from typing import Any

from loopkit.errors import CallError


def stream_handle(stream: Any) -> int:
    """The handle of *stream*: a number, or a stream of torch, CuPy, pycuda, numba or cuda.core.

    :raises CallError: it is no stream.
    """
    if isinstance(stream, int) and not isinstance(stream, bool):
        return _plain(stream)
    told = getattr(stream, "__cuda_stream__", None)
    if told is not None:                               # the protocol: a version and the handle
        return _plain(int((told() if callable(told) else told)[1]))
    for attribute in ("cuda_stream", "ptr", "handle"):
        value = getattr(stream, attribute, None)
        value = getattr(value, "value", value)         # numba's handles are ctypes' pointers, None for the default
        if isinstance(value, int):
            return _plain(value)
        if value is None and attribute == "handle" and hasattr(stream, attribute):
            return 0
    raise CallError(f"{stream!r} is no CUDA stream.", argument="stream",
                    hint="pass torch.cuda.current_stream(), or a stream of CuPy, pycuda or numba")


def _plain(handle: int) -> int:
    """0 and 1 are two names of one stream."""
    return 0 if handle == 1 else handle
