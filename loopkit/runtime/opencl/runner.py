"""Calls of one kernel on OpenCL devices: their launch plans, and their timing."""
from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from time import perf_counter
from typing import Any, Self

import numpy as np

from loopkit.ast.assumed import AlignedArray
from loopkit.errors import CallError
from loopkit.kernel.data import GlobalArg
from loopkit.kernel.kernel import LoopKernel
from loopkit.runtime.calls import CallArray, CallSignatures, Runner
from loopkit.runtime.kinds import ArrayKinds, host_view
from loopkit.runtime.opencl.compiler import build_program
from loopkit.runtime.opencl.devices import OpenCLDevice, find_opencl, known_device, why_no_opencl
from loopkit.runtime.opencl.kinds import OpenCLArrayKinds, PyopenclKind
from loopkit.runtime.opencl.plan import OpenCLFunction, OpenCLPlan
from loopkit.runtime.results import Timing, TimingRequest
from loopkit.target.opencl.target import OpenCLTarget


class OpenCLRunner(Runner):
    """Runs one kernel on OpenCL devices.

    :arg target: the options of compilation; without limits, those of the device of each call.
    :arg device: the only device to run on, with the queue to launch on if it is one; ``None``: the device of the
        arrays of a call, and for arrays of the host the first one.
    """

    def __init__(self, knl: LoopKernel, target: OpenCLTarget, device: object = None, debug: bool = False) -> None:
        super().__init__(knl, target)
        self._target: OpenCLTarget = target
        self._debug = debug
        self._device = None if device is None else find_opencl(device)
        is_queue = self._device is not None and isinstance(device, self._device.cl.CommandQueue)
        self._queue: Any = device if is_queue else None

    def on(self, stream: object) -> Self:
        device = find_opencl()
        if not isinstance(stream, device.cl.CommandQueue):
            raise CallError(f"{stream!r} is not a queue of OpenCL.", argument="stream",
                            hint="pass a pyopencl.CommandQueue")
        other: Self = object.__new__(type(self))
        other.__dict__.update(self.__dict__, _queue=stream, _signatures={},
                              _device=known_device(stream.context, stream.device))
        return other

    @cached_property
    def kinds(self) -> ArrayKinds:
        return OpenCLArrayKinds()

    @property
    def text_target(self) -> OpenCLTarget:
        """The target, with the limits of the device if it has none."""
        if self._device is None and why_no_opencl() is not None:
            return self._target
        return self._target_on(self._device or find_opencl())

    def _target_on(self, device: OpenCLDevice) -> OpenCLTarget:
        return self._target if self._target.limits is not None else replace(self._target, limits=device.limits)

    def _place_signature(self, arrays: Sequence[Any]) -> tuple[Hashable, ...]:
        return () if self._device is not None else (find_opencl().ordinal,)

    def _place(self, arrays: Sequence[CallArray], values: Sequence[Any]) -> OpenCLDevice:
        """The device to run on; :raises CallError: arrays are on another one."""
        device, first = self._device, ""
        for x in arrays:
            given = values[x.position]
            if not isinstance(x.kind, PyopenclKind):
                host_view(x.name, given)               # an error for an array on a GPU
                continue
            own = known_device(given.context, given.queue.device if given.queue is not None else
                               given.context.devices[0])
            if device is None:
                device, first = own, x.name
            elif own.context != device.context:
                problem = f"'{x.name}' and '{first}' are in different contexts of OpenCL" if first else \
                    f"'{x.name}' is in another context of OpenCL than the one that the kernel was compiled for"
                raise CallError(f"{problem}.", argument=x.name,
                                hint="make all arrays with queues of one context, or copy them through the host")
        return device or find_opencl()

    def _plan(self, known: CallSignatures, values: Sequence[Any], *, vectors: bool = True) -> OpenCLPlan:
        arrays = self._arrays(known, values)
        device = self._place(arrays, values)
        target = self._target_on(device)
        checked = self._checked(known, values, arrays, target, device.ordinal, vectors=vectors)
        code = checked.text.code
        with self._lock:                               # only one thread compiles
            program = build_program(code.source, checked.kernel, device, target.options)
        functions = {x.name: OpenCLFunction(device, program, x) for x in code.kernels}
        aligned = tuple((k, a.elements * x.view.itemsize - 1) for k, x in enumerate(checked.inputs)
                        for a in code.assumed
                        if isinstance(a, AlignedArray) and a.array == x.name and not x.view.on_host)
        return OpenCLPlan(device, checked, functions, self._queue, self._debug, aligned,
                          partial(self._plan, known, vectors=False))

    def time(self, given: Mapping[str, Any], request: TimingRequest) -> Timing:
        passed = {x: a for x, a in given.items() if a is not None and isinstance(self._arguments.get(x), GlobalArg)}
        known, values = self._known(passed), [self.kinds.open(x, a) for x, a in passed.items()]
        arrays = self._arrays(known, values)
        device = self._place(arrays, values)
        cl = device.cl
        queue = cl.CommandQueue(device.context, device.device, cl.command_queue_properties.PROFILING_ENABLE)
        for x in arrays:
            if not x.view.on_host:
                values[x.position].finish()            # earlier work on the arrays
        number = request.number_of_sets(sum(a.view.nbytes for a in arrays), device.cache_bytes)
        sets = [{**given, **{a.name: _copy_on_device(device, queue, a, values[a.position]) for a in arrays
                             if turn or a.view.on_host or a.written}} for turn in range(number)]
        runs = list(map(self.on(queue).bind, sets))
        times: list[float] = []
        turns = itertools.cycle(runs)
        for run in itertools.islice(turns, max(request.warmup, len(runs))):
            run()
        queue.finish()
        end = perf_counter() + request.duration
        while len(times) < request.fewest or (perf_counter() < end and len(times) < request.most):
            before = cl.enqueue_marker(queue)
            next(turns)()
            after = cl.enqueue_marker(queue)
            after.wait()
            times.append((after.profile.end - before.profile.end)*1e-9)
        return Timing.of(times, request)


def _copy_on_device(device: OpenCLDevice, queue: Any, array: CallArray, value: Any) -> Any:
    """A copy of *value* on *device*, in C order if it was on the host."""
    if not array.view.on_host:
        return value.copy(queue=queue)
    return device.cl.array.to_device(queue, np.ascontiguousarray(host_view(array.name, value)))
