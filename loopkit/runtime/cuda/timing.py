"""Timing on a GPU, by events around the launches."""
from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from loopkit.errors import CallError
from loopkit.runtime.cache import DiskCache, cache_directory
from loopkit.runtime.calls import BoundCall
from loopkit.runtime.cuda.compiler import load_binary
from loopkit.runtime.cuda.devices import Gpu
from loopkit.runtime.cuda.launching import GpuProgram, PreparedLaunch, Sources
from loopkit.runtime.cuda.memory import DeviceArray, allocate
from loopkit.runtime.timing import Timing, TimingRequest
from loopkit.runtime.views import ArrayLike, DeviceView
from loopkit.target.code import GeneratedKernel, Parameter, ParameterKind
from loopkit.target.cuda import CudaTarget

#: A kernel that delays the GPU, so that the host runs ahead and does not limit the timed launches.
_DELAY = """\
extern "C" __global__ void delay(const long long cycles)
{
    const long long start = clock64();
    while (clock64() - start < cycles) {
    }
}
"""
#: Alignment of allocated arrays, in bytes.
_ALIGNMENT = 256
#: GPU cycles for the host's work on one launch or event; an upper bound.
_CYCLES_A_STEP = 20_000
_MOST_STEPS = 600


def argument_sets(gpu: Gpu, given: Mapping[str, Any], views: Mapping[str, ArrayLike], written: frozenset[str],
                  request: TimingRequest) -> list[dict[str, Any]]:
    """Sets of arguments to rotate among, on *gpu*, whose context is current; arrays that are *written* are copies."""
    size = sum(v.nbytes for v in views.values())
    number = request.number_of_sets(size, gpu.l2_bytes)
    if number > 1 and number * size > gpu.free_bytes() // 2:
        raise CallError(f"{number} sets of arguments to rotate among do not fit into the memory of {gpu}.",
                        argument="", hint="time(rotate=False), whose arguments are larger than the cache by themselves")
    copied = {x: v for x, v in views.items() if isinstance(v, np.ndarray) or x in written}
    block = _Block(gpu, [*copied.values(), *(number - 1) * [*views.values()]])
    return [{**given, **{x: block.copy(v) for x, v in (views if k else copied).items()}} for k in range(number)]


class _Block:
    """One piece of memory on a GPU, whose context is current, for copies of *views*."""

    def __init__(self, gpu: Gpu, views: Sequence[ArrayLike]) -> None:
        self._gpu = gpu
        size = sum(map(_room, views))
        self._memory = allocate(gpu, (size,), np.dtype(np.uint8))
        self._next = self._memory.pointer

    def copy(self, view: ArrayLike) -> DeviceArray:
        """A copy; a copy of an array on the GPU keeps its strides and its alignment, on which the text may depend."""
        start = self._next
        self._next += _room(view)
        if isinstance(view, np.ndarray):
            packed = np.ascontiguousarray(view)
            if packed.size:
                self._gpu.pycuda.memcpy_htod(start, packed.reshape(-1).view(np.uint8))
            return DeviceArray(DeviceView.packed(view.shape, view.dtype, self._gpu.ordinal, start), self._memory)
        low, high = view.span
        start += (view.pointer + low) % _ALIGNMENT
        if high > low:
            self._gpu.pycuda.memcpy_dtod(start, view.pointer + low, high - low)
        return DeviceArray(replace(view, pointer=start - low, ordinal=self._gpu.ordinal, writeable=True), self._memory)


def _room(view: ArrayLike) -> int:
    """Bytes of a copy with any start, a multiple of every dtype's alignment."""
    low, high = (0, view.nbytes) if isinstance(view, np.ndarray) else view.span
    return -(-(high - low + _ALIGNMENT) // _ALIGNMENT) * _ALIGNMENT


def measured(gpu: Gpu, stream: Any, runs: Sequence[BoundCall], request: TimingRequest) -> Timing:
    """The time of *runs* in turns, on *stream*."""
    delay = _delay(gpu).enter
    handle = int(stream.handle)
    turns = itertools.cycle(runs)
    for run in itertools.islice(turns, max(request.warmup, len(runs))):
        run()
    gpu.driver.synchronize(handle)
    steps = 1 + runs[0].number_of_launches
    times: list[float] = []
    batch = 1
    end = perf_counter() + request.duration
    while len(times) < request.fewest or (perf_counter() < end and len(times) < request.most):
        events = [gpu.pycuda.Event() for _ in range(batch + 1)]
        code = delay((), (batch * steps * _CYCLES_A_STEP,), handle)
        if code:
            raise gpu.driver.failure("cuLaunchKernelEx", code)
        events[0].record(stream)
        for event in events[1:]:
            next(turns)()
            event.record(stream)
        gpu.driver.synchronize(handle)
        times += [a.time_till(b) * 1e-3 for a, b in itertools.pairwise(events)]
        # large enough that the host rarely checks the time, and at most a quarter of the time
        batch = max(min(_MOST_STEPS // steps, 2 * batch, int(request.duration / 4 / max(min(times), 1e-7))), 1)
    return Timing.of(times, request)


def _delay(gpu: Gpu) -> PreparedLaunch:
    launch = GeneratedKernel("delay", (Parameter("cycles", ParameterKind.VALUE, np.dtype(np.int64), "cycles"),))
    binary = load_binary(_DELAY, "delay", CudaTarget(arch=gpu.known_arch), DiskCache(cache_directory()))
    program = GpuProgram(gpu, binary.cubin, (launch,))
    return PreparedLaunch(gpu.driver, program.functions["delay"], launch, (1, 1, 1), Sources({}, {}, {}, {"cycles": 0}))
