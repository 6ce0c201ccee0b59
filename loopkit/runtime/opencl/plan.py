"""The launches of the calls of one signature on an OpenCL device."""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from loopkit.errors import CallError, DeviceError, LaunchError, LimitError
from loopkit.expr.evaluate import evaluator
from loopkit.expr.kinds import is_narrow
from loopkit.runtime.calls import BoundCall, CallArray, CheckedCall, Run
from loopkit.runtime.functions import FunctionPlan, describe, require_block
from loopkit.runtime.kinds import host_view
from loopkit.runtime.opencl.devices import OpenCLDevice
from loopkit.runtime.opencl.kinds import APART, PyopenclKind, whole_buffer
from loopkit.runtime.results import Outputs
from loopkit.runtime.views import bytes_of
from loopkit.target.code import GeneratedKernel

#: The most blocks along an axis: their numbers are ints in the text.
_MOST_BLOCKS = 2**31 - 1


class OpenCLFunction:
    """A kernel of a program with its launch; :raises LimitError: the device cannot run its blocks."""

    def __init__(self, device: OpenCLDevice, program: Any, launch: GeneratedKernel) -> None:
        self.launch = launch
        self._device = device
        self._kernel = device.cl.Kernel(program, launch.name)
        self._extents = tuple(map(evaluator, (*launch.grid, *launch.block)))
        self._lock = threading.Lock()
        limit = device.cl.kernel_work_group_info.WORK_GROUP_SIZE
        self._threads = most = int(self._kernel.get_work_group_info(limit, device.device))
        fixed = prod(extent for extent in launch.block if isinstance(extent, int))
        if fixed > most:
            raise LimitError("threads per block", most, fixed, where=f"'{launch.name}' on {device}",
                             hint="its threads need too many registers; split the l.* inames by smaller lengths")

    def shape(self, values: Mapping[str, Any]) -> tuple[int, ...]:
        """The blocks, and the threads of a block, along each axis; :raises LimitError: they are too many."""
        found = tuple(int(extent(values)) for extent in self._extents)
        along = self._device.device.max_work_item_sizes
        require_block(self.launch, found[3:], self._threads, along, str(self._device))
        for axis, blocks in zip("xyz", found, strict=False):
            if blocks > _MOST_BLOCKS:
                raise LimitError(f"blocks along {axis}", _MOST_BLOCKS, blocks,
                                 where=f"'{self.launch.name}' on {self._device}", hint="split by more")
        return found

    def enqueue(self, queue: Any, shape: Sequence[int], arguments: Sequence[Any], events: Sequence[Any]) -> Any:
        """Launch after *events*; gives the event of the end."""
        grid, block = shape[:3], tuple(shape[3:])
        with self._lock:                               # the arguments belong to one thread at a time
            self._kernel.set_args(*arguments)
            return self._device.cl.enqueue_nd_range_kernel(
                queue, self._kernel, tuple(g * b for g, b in zip(grid, block, strict=True)), block, wait_for=events)


@dataclass(frozen=True)
class DeviceMemory:
    """The buffer of an array during a call.

    :ivar back: copies what the kernel wrote to the place of the array, after an event, and gives an event or ``None``.
    """

    buffer: Any
    events: tuple[Any, ...] = ()
    back: Callable[[Any], Any] | None = None


class OpenCLPlan(FunctionPlan):
    """The launches of the calls of one signature on one device.

    :arg chosen: the queue that the user has chosen; ``None``: that of the first array with one.
    :arg debug: wait for each launch.
    :arg vectors: indices of the inputs that vector accesses need aligned, each with the address bits that must be zero.
    :arg plain: gives the plan without vector accesses, from a call's values.
    """

    def __init__(self, device: OpenCLDevice, checked: CheckedCall, functions: Mapping[str, OpenCLFunction],
                 chosen: Any, debug: bool, vectors: Sequence[tuple[int, int]],
                 plain: Callable[[Sequence[Any]], OpenCLPlan]) -> None:
        super().__init__(checked, functions, _as_argument)
        self._device = device
        self._chosen = chosen
        self._debug = debug
        self._vectors = vectors
        self._plain = plain
        self._without_vectors: OpenCLPlan | None = None
        shapes = checked.text.scratch_shapes(checked.bound.values)
        self._scratch = [max(prod(shapes[p.name]), 1) * p.element_bytes for p in checked.text.scratch]

    @property
    def run(self) -> Run:
        return self._run

    def _run(self, values: Sequence[Any], addresses: list[int], originals: Sequence[Any]) -> Outputs:
        if any(addresses[place] & mask for place, mask in self._vectors):
            if self._without_vectors is None:
                self._without_vectors = self._plain(values)
            return self._without_vectors.run(values, addresses, originals)
        checked = self._checked
        checked.check(addresses)
        scalars, queue = self.scalars(values), self.queue(values)
        with self._reported():
            made = [_new(x, queue) for x in checked.outputs]
            given = [*(values[x.position] for x in checked.inputs), *made]
            places = [*places_of(checked.inputs, addresses), *(Place(0, x.view.nbytes) for x in checked.outputs)]
            memory = [self._memory(*x, queue) for x in zip(checked.arrays, given, places, strict=True)]
            scratch = list(map(self._allocator(values, queue), self._scratch))
            operands = [*(m.buffer for m in memory), *scratch, *scalars, *self._constants]
            last = self._launch(queue, operands, [e for m in memory for e in m.events])
            for x, a, m in zip(checked.arrays, given, memory, strict=True):
                end = last if m.back is None else m.back(last)
                if not x.view.on_host and end is not None:
                    a.add_event(end)
        return checked.results(originals, made)

    def queue(self, values: Sequence[Any]) -> Any:
        """The queue of a call: the user's, else that of its first array with one, else the device's."""
        if self._chosen is not None:
            return self._chosen
        queues = (values[x.position].queue for x in self._checked.inputs if not x.view.on_host)
        return next((q for q in queues if q is not None), None) or self._device.queue

    def _allocator(self, values: Sequence[Any], queue: Any) -> Callable[[int], Any]:
        """The allocator of the memory of temporaries: that of an array of the same queue, which may keep a pool."""
        cl = self._device.cl
        if not queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE:
            for a in (values[x.position] for x in self._checked.inputs if not x.view.on_host):
                # a pool gives freed memory to the next command of its queue
                if a.allocator is not None and a.queue == queue:
                    found: Callable[[int], Any] = a.allocator
                    return found
        return lambda size: cl.Buffer(self._device.context, cl.mem_flags.READ_WRITE, size)

    def _launch(self, queue: Any, operands: Sequence[Any], events: list[Any]) -> Any:
        """The event of the last launch, ``None`` without launches; each waits for the one before."""
        last = None
        for function, arguments, seen in self.launches(operands):
            shape = function.shape(seen)
            if min(shape) <= 0:
                continue
            try:
                last = function.enqueue(queue, shape, arguments, events)
                if self._debug:
                    last.wait()
            except self._device.cl.Error as failure:
                found = {**seen, **dict(zip(self._checked.operands, operands, strict=False))}
                lines = list(describe(function.launch, {x.name: x.view for x in self._checked.arrays}, found))
                raise LaunchError(
                    f"'{function.launch.name}' of kernel '{self._checked.kernel}' could not be launched on "
                    f"{self._device}: {failure}.", kernel=self._checked.kernel, launch=function.launch.name,
                    grid=shape[:3], block=shape[3:], arguments=lines, sticky=False) from None
            events = [last]
        return last

    def allocated(self, values: Sequence[Any]) -> dict[str, Any]:
        return {x.name: _new(x, self.queue(values), zero=True) for x in self._checked.outputs}

    def bound(self, values: Sequence[Any], addresses: Sequence[int], originals: Sequence[Any]) -> BoundCall:
        self._checked.check(addresses)
        return BoundCall(lambda: self.run(values, [*addresses], originals), self._checked.text.code.kernels, ())

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Within the block, errors of OpenCL become ``DeviceError``."""
        cl = self._device.cl
        try:
            yield
        except cl.MemoryError as err:
            raise DeviceError(f"{self._device} has no memory for the arrays of kernel '{self._checked.kernel}': {err}.",
                              hint="free other arrays, or pass smaller ones") from None
        except cl.Error as err:
            raise DeviceError(f"{self._device} cannot run kernel '{self._checked.kernel}': {err}.") from None

    # Memory

    def _memory(self, x: CallArray, given: Any, place: Place, queue: Any) -> DeviceMemory:
        if 0 in x.view.shape:
            return DeviceMemory(None)
        return self._copied_from_host(x, given, queue) if x.view.on_host else self._in_place(x, given, place, queue)

    def _copied_from_host(self, x: CallArray, given: Any, queue: Any) -> DeviceMemory:
        """A copy of an array in the host's memory, copied back if it is written."""
        cl, array = self._device.cl, host_view(x.name, given)
        packed = np.ascontiguousarray(array)
        flags = cl.mem_flags.READ_WRITE
        buffer = cl.Buffer(self._device.context, flags, packed.nbytes) if x.fully_written else \
            cl.Buffer(self._device.context, flags | cl.mem_flags.COPY_HOST_PTR, hostbuf=bytes_of(packed))

        def back(last: Any) -> None:
            if last is not None:
                found = packed if packed is array else np.empty_like(packed)
                cl.enqueue_copy(queue, bytes_of(found), buffer, wait_for=[last])
                if found is not array:
                    array[...] = found
        return DeviceMemory(buffer, back=back if x.written else None)

    def _in_place(self, x: CallArray, given: Any, place: Place, queue: Any) -> DeviceMemory:
        """The memory of an array on the device, or a copy if the device allows no buffer of just this memory."""
        cl, events = self._device.cl, tuple(given.events)
        if (place.alone and not given.offset) or not isinstance(given.base_data, cl.MemoryObjectHolder):
            return DeviceMemory(given.base_data, events)         # in shared virtual memory it is a pointer
        whole, _ = whole_buffer(cl, given.base_data)
        start, size = place.start, place.end - place.start
        if start % self._device.alignment == 0 and isinstance(whole, cl.Buffer) and not place.copied:
            return DeviceMemory(whole.get_sub_region(start, size), events)
        buffer = cl.Buffer(self._device.context, cl.mem_flags.READ_WRITE, size)
        copied = cl.enqueue_copy(queue, buffer, whole, byte_count=size, src_offset=start, wait_for=list(events))

        def back(last: Any) -> Any:
            return None if last is None else cl.enqueue_copy(
                queue, whole, buffer, byte_count=size, dst_offset=start, wait_for=[last])
        return DeviceMemory(buffer, (copied,), back if x.written else None)


@dataclass(frozen=True)
class Place:
    """The bytes of an array in a buffer, from *start* to *end*.

    OpenCL gives no meaning to kernels that write to one of two buffers with common memory.

    :ivar alone: no other array of the call is in the buffer, or the kernel writes to none of them.
    :ivar copied: the kernel only reads the array, and writes to another one between its elements.
    """

    start: int
    end: int
    alone: bool = True
    copied: bool = False


def places_of(arrays: Sequence[CallArray], addresses: Sequence[int]) -> list[Place]:
    """The places of *arrays*, at *addresses*; :raises CallError: the kernel writes to two that are interleaved."""
    found = [(x, *divmod(address, APART)) for x, address in zip(arrays, addresses, strict=True)]
    result = []
    for x, buffer, start in found:
        others = [] if x.view.on_host or not buffer else [
            (y, first) for y, other, first in found if other == buffer and y is not x]
        end, shared = start + x.view.span[1], x.written or any(y.written for y, _ in others)
        between = next((y for y, first in others if y.written and first < end and start < first + y.view.span[1]), None)
        if between is not None and x.written:
            raise CallError(f"'{x.name}' and '{between.name}' are written, and lie between each other in one buffer.",
                            argument=x.name, hint=f"pass {x.name}.copy()")
        result.append(Place(start, end, not (others and shared), between is not None))
    return result


def _new(x: CallArray, queue: Any, *, zero: bool = False) -> Any:
    """A new output, for a launch on *queue*."""
    return replace(x, kind=x.kind.on(queue)).new(zero=zero) if isinstance(x.kind, PyopenclKind) else x.new(zero=zero)


def _as_argument(dtype: np.dtype[Any] | None) -> Callable[[Any], Any]:
    """The conversion of a Python number to pyopencl's argument for *dtype*."""
    if dtype is None:
        return lambda value: value
    if is_narrow(dtype):
        return lambda value: np.array(value, dtype).view(f"u{dtype.itemsize}")[()]
    return (np.dtype(np.uint8) if dtype.kind == "b" else dtype).type
