"""pyopencl's arrays."""
from __future__ import annotations

import sys
from typing import Any

import numpy as np

from loopkit.errors import CallError
from loopkit.runtime.kinds import ArrayKinds, ArraySignature, Kind, general_kind
from loopkit.runtime.opencl.devices import known_device
from loopkit.runtime.views import ArrayView

#: Addresses of different buffers differ by at least this.
APART = 1 << 64


class PyopenclKind(Kind):
    """``pyopencl.array.Array``. The address is one that only this module gives: OpenCL's buffers have none.

    :arg queue: the queue of new arrays, *allocator*: that of their memory.
    """

    name = "pyopencl"

    def __init__(self, cl: Any, queue: Any = None, allocator: Any = None) -> None:
        self.cl = cl
        self._queue = queue
        self._allocator = allocator

    def signature(self, x: Any) -> tuple[ArraySignature, int]:
        queue = x.queue
        device = (queue.device if queue is not None else x.context.devices[0]).int_ptr
        return (self.name, x.dtype, x.shape, x.strides, x.context.int_ptr, device, x.allocator), self._address(x)

    def _address(self, x: Any) -> int:
        if not x.size:
            return 0
        if not isinstance(x.base_data, self.cl.MemoryObjectHolder):
            return int(x.base_data.svm_ptr) * APART + int(x.offset)
        buffer, offset = whole_buffer(self.cl, x.base_data)
        return int(buffer.int_ptr) * APART + offset + int(x.offset)

    def view(self, name: str, x: Any) -> ArrayView:
        if x.size and x.offset and not isinstance(x.base_data, self.cl.MemoryObjectHolder):
            raise CallError(f"'{name}' is a part of an array in shared virtual memory, which has no buffers of parts.",
                            argument=name, hint=f"pass {name}.copy()")
        if min(x.strides, default=0) < 0:
            raise CallError(f"'{name}' has negative strides.", argument=name, hint=f"pass {name}.copy()")
        device = known_device(x.context, x.queue.device if x.queue is not None else x.context.devices[0])
        return ArrayView(np.dtype(x.dtype), tuple(x.shape), tuple(x.strides), self._address(x), device.ordinal)

    def new(self, shape: tuple[int, ...], dtype: np.dtype[Any], ordinal: int | None, *, zero: bool) -> Any:
        make = self.cl.array.zeros if zero else self.cl.array.empty
        return make(self._queue, shape, dtype, allocator=self._allocator)

    def of_outputs(self, x: Any) -> PyopenclKind:
        return PyopenclKind(self.cl, x.queue, x.allocator)

    def on(self, queue: Any) -> PyopenclKind:
        """The kind of new arrays on *queue*."""
        return PyopenclKind(self.cl, queue, self._allocator)


def whole_buffer(cl: Any, buffer: Any) -> tuple[Any, int]:
    """The buffer that *buffer* is a part of, and its offset there in bytes."""
    outer = buffer.get_info(cl.mem_info.ASSOCIATED_MEMOBJECT)
    return (buffer, 0) if outer is None else (outer, int(buffer.get_info(cl.mem_info.OFFSET)))


class OpenCLArrayKinds(ArrayKinds):
    """The kinds of the host and pyopencl's."""

    def _library(self, x: Any) -> Kind | None:
        array = sys.modules.get("pyopencl.array")
        if array is not None and isinstance(x, array.Array):
            return PyopenclKind(sys.modules["pyopencl"])
        return general_kind(x)
