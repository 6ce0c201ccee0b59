"""Calls of one kernel on GPUs: their launch plans, and their timing."""
from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from math import prod
from time import perf_counter
from typing import Any, Self

import numpy as np

from loopkit.ast.assumed import AlignedArray
from loopkit.ast.tensor_maps import UNIT, MappedArray
from loopkit.errors import CallError, DeviceError
from loopkit.expr.evaluate import evaluate
from loopkit.kernel.data import GlobalArg
from loopkit.kernel.kernel import LoopKernel
from loopkit.runtime.cache import DiskCache, cache_directory
from loopkit.runtime.calls import BoundCall, CallArray, CallSignatures, CheckedCall, Runner
from loopkit.runtime.cuda.compiler import find_cuda_compiler, load_binary
from loopkit.runtime.cuda.devices import Gpu, find_gpu, stream_handle, why_not
from loopkit.runtime.cuda.kinds import CudaArrayKinds, InterfaceKind, OwnKind
from loopkit.runtime.cuda.launching import (
    ALIGNED,
    GpuLaunch,
    HostedLaunches,
    Launches,
    PreparedLaunch,
    aside,
    loaded_functions,
    reported,
    require_shape,
)
from loopkit.runtime.cuda.memory import DeviceArray, allocate
from loopkit.runtime.cuda.plan import WITH_CONTEXTS, CudaPlan, Scratch, Streams
from loopkit.runtime.cuda.resources import Binary
from loopkit.runtime.kinds import ArrayKinds
from loopkit.runtime.results import Timing, TimingRequest
from loopkit.runtime.typed import Text, unmapped
from loopkit.target.code import GeneratedKernel, Value
from loopkit.target.cuda.target import CudaTarget

_MOST_STREAMS = 64


class CudaRunner(Runner):
    """Runs one kernel on GPUs.

    :arg target: the options of compilation; without an architecture, that of the GPU of each call.
    :arg device: the only GPU to run on; ``None``: the GPU of the arrays of a call.
    """

    def __init__(self, knl: LoopKernel, target: CudaTarget, device: object = None, debug: bool = False) -> None:
        super().__init__(knl, target)
        self._target: CudaTarget = target
        self._gpu = None if device is None else find_gpu(device)
        self._debug = debug
        self._stream: int | None = None
        self._others: dict[int, Self] = {}

    def on(self, stream: object) -> Self:
        handle = stream_handle(stream)
        found = self._others.get(handle)
        if found is None:
            found = object.__new__(type(self))
            found.__dict__.update(self.__dict__, _stream=handle, _signatures={})
            if len(self._others) >= _MOST_STREAMS:
                self._others.clear()
            self._others[handle] = found
        return found

    @property
    def kinds(self) -> ArrayKinds:
        return array_kinds()

    @property
    def text_target(self) -> CudaTarget:
        """The target, with the architecture of the current GPU if it has none."""
        if self._target.arch is not None or (self._gpu is None and why_not() is not None):
            return self._target
        return replace(self._target, arch=(self._gpu or find_gpu(None)).known_arch)

    def _place_signature(self, arrays: Sequence[Any]) -> tuple[Hashable, ...]:
        """The current GPU, if no array is on a GPU."""
        on_host = all(isinstance(x, np.ndarray) or getattr(x, "is_cpu", False) for x in arrays)
        return (find_gpu().ordinal,) if self._gpu is None and on_host else ()

    def time(self, given: Mapping[str, Any], request: TimingRequest) -> Timing:
        passed = {x: a for x, a in given.items() if a is not None and isinstance(self._arguments.get(x), GlobalArg)}
        known, values = self._known(passed), [self.kinds.open(x, a) for x, a in passed.items()]
        arrays = self._arrays(known, values)
        gpu = self._place(arrays)
        with reported(gpu, self.kernels.kernel.name), gpu:
            stream = gpu.pycuda.Stream()
            gpu.pycuda.Context.synchronize()           # earlier work on the arrays
            size = sum(a.view.nbytes for a in arrays)
            number = request.number_of_sets(size, gpu.l2_bytes)
            if number > 1 and number * size > gpu.free_bytes() // 2:
                raise CallError(f"{number} sets of arguments to rotate among do not fit into the memory of {gpu}.",
                                argument="", hint="time(rotate=False), whose arguments are larger than the cache by "
                                                  "themselves")
            sets = [{**given, **{a.name: _copy(gpu, a, values[a.position]) for a in arrays
                                 if turn or a.view.on_host or a.written}} for turn in range(number)]
            runs = list(map(self.on(int(stream.handle)).bind, sets))
            try:
                return _measured(gpu, stream, runs, request)
            finally:
                stream.synchronize()

    def _plan(self, known: CallSignatures, values: Sequence[Any], *, vectors: bool = True) -> CudaPlan:
        """The plan; with vector accesses and tensor maps if *vectors* and shapes and strides permit.

        :raises CallError: there is no plan without a tensor map of an array whose address is not aligned.
        """
        arrays = self._arrays(known, values)
        gpu = self._place(arrays)
        checked = self._checked(known, values, arrays, self.target_on(gpu), gpu.ordinal, vectors=vectors)
        text, aligned = checked.text, _address_masks(checked)
        if not vectors:
            _require_mapped_addresses(checked, aligned)
        shapes = text.scratch_shapes(checked.bound.values)
        # one element at least
        scratch = {p.name: max(prod(shapes[p.name]), 1) * p.element_bytes for p in text.scratch}
        launches = self._launches(gpu, checked, scratch)
        allocator = next((a.kind for a in arrays
                          if not (a.view.on_host or isinstance(a.kind, InterfaceKind | OwnKind))), OwnKind())
        wait = _must_wait(checked, values, chosen=self._stream is not None)
        return CudaPlan(
            gpu, checked, launches, Scratch(scratch, sum(p.cleared for p in text.scratch), allocator),
            Streams(_streams(arrays, values, gpu), self._stream, wait), self._debug, aligned,
            partial(self._plan, known, vectors=False))

    def _place(self, arrays: Sequence[CallArray]) -> Gpu:
        """The GPU to run on; :raises CallError: arrays are on another one."""
        found: dict[int, str] = {}
        for a in arrays:
            if a.view.ordinal is not None and a.view.ordinal >= 0:
                found.setdefault(a.view.ordinal, a.name)
        if len(found) > 1:
            (one, first), (two, second) = list(found.items())[:2]
            raise CallError(f"'{first}' lies on GPU {one} and '{second}' on GPU {two}.", argument=second,
                            hint="copy one of them to the other's GPU")
        if self._gpu is not None and found and self._gpu.ordinal not in found:
            ordinal, name = next(iter(found.items()))
            raise CallError(f"'{name}' lies on GPU {ordinal}, and the kernel was compiled for {self._gpu}.",
                            argument=name, hint="compile(knl, device=None) takes the GPU of the arrays")
        gpu = self._gpu if self._gpu is not None else find_gpu(next(iter(found), None))
        for a in arrays:
            if not a.view.on_host and a.view.pointer and a.kind.name not in WITH_CONTEXTS:
                place = gpu.driver.place(a.view.pointer)
                if place is not None and place[1] not in (0, gpu.context_handle):
                    raise CallError(f"'{a.name}' is in a CUDA context of its own, which kernels cannot access: they "
                                    "run in the primary context of the device, as torch, CuPy and numba do.",
                                    argument=a.name, hint="import pycuda.autoprimaryctx instead of pycuda.autoinit")
        return gpu

    def target_on(self, gpu: Gpu) -> CudaTarget:
        """The target of texts on *gpu*; :raises DeviceError: the GPU cannot run the requested architecture."""
        if self._target.arch is None:
            return replace(self._target, arch=gpu.known_arch)
        architecture = self._target.arch.removeprefix("sm_")
        major, minor = divmod(int(architecture.rstrip("af")), 10)
        exact = architecture[-1] == "a"
        if gpu.capability[0] != major or gpu.capability[1] < minor or (exact and gpu.capability[1] != minor):
            raise DeviceError(f"Code for {self._target.arch} does not run on {gpu}.",
                              hint=f"compile(knl, target=lk.CudaTarget(arch='{gpu.arch}')), or target='cuda' for "
                                   f"whatever GPU there is")
        return self._target

    def ptx(self, text: Text) -> str:
        return find_cuda_compiler().ptx(text.code.source, self.kernels.kernel.name, self.text_target)

    def machine_code(self, text: Text, target: CudaTarget | None = None) -> tuple[Binary, CudaTarget]:
        target = target or self.text_target
        return load_binary(text.code.source, self.kernels.kernel.name, target, DiskCache(cache_directory())), target

    def _launches(self, gpu: Gpu, checked: CheckedCall, scratch: Mapping[str, int]) -> Launches:
        text, bound, code = checked.text, checked.bound, checked.text.code
        with self._lock:                               # only one thread compiles
            binary, _ = self.machine_code(text, self.target_on(gpu))
        with reported(gpu, checked.kernel):
            functions = loaded_functions(gpu, binary.cubin, code.kernels)
        places = {x: k for k, x in enumerate((*checked.operands, *text.hosts))}
        views = text.views(bound)

        def prepared(launch: GeneratedKernel, shape: tuple[int, ...]) -> PreparedLaunch:
            return PreparedLaunch(gpu.driver, functions[launch.name], launch, shape, places, views, bound.values)

        cleared = [p.name for p in text.scratch if p.cleared]
        first: list[GpuLaunch] = []
        if cleared:
            place, count = places[cleared[0]], sum(aside(scratch[x]) for x in cleared)
            first = [GpuLaunch(code.kernels[0], (1,)*6, lambda operands, stream: gpu.driver.clear(
                operands[place], count, stream), bound.values)]
        if code.order is not None:
            every = {launch.name: prepared(launch, (1,)*6) for launch in code.kernels}
            return HostedLaunches(gpu, every, code.order, text.hosts, bound.values, first)
        result = [*first]
        for launch in code.kernels:
            shape = tuple(int(evaluate(e, bound.values)) for e in (*launch.grid, *launch.block))
            if min(shape) > 0:
                require_shape(gpu, launch, shape)
                result.append(prepared(launch, shape))
        return result


def _address_masks(checked: CheckedCall) -> tuple[tuple[int, int], ...]:
    """Indices of the inputs on the GPU whose address the text assumes aligned, with the bits that must be zero."""
    return tuple((k, (a.elements * x.view.itemsize if isinstance(a, AlignedArray) else UNIT) - 1)
                 for k, x in enumerate(checked.inputs) for a in checked.text.code.assumed
                 if isinstance(a, AlignedArray | MappedArray) and a.array == x.name and not x.view.on_host)


def _require_mapped_addresses(checked: CheckedCall, aligned: Sequence[tuple[int, int]]) -> None:
    """:raises CallError: an address is not aligned for a tensor map, which each text for the call has."""
    for k, mask in aligned:
        x = checked.inputs[k]
        if x.view.pointer & mask:
            raise unmapped(x.name, f"its address is {x.view.pointer & mask} bytes past a multiple of {mask + 1}",
                           f"pass {x.name}.copy()")


#: The kinds of arrays passed in this process so far.
array_kinds = cache(CudaArrayKinds)


def _streams(arrays: Sequence[CallArray], values: Sequence[Any], gpu: Gpu) -> tuple[Callable[[], int], ...]:
    """Functions that give the streams of the libraries with arrays on the GPU, those with a current stream first."""
    found: dict[object, Callable[[], int]] = {}
    for a in sorted((a for a in arrays if not a.view.on_host), key=lambda a: a.kind.name not in WITH_CONTEXTS):
        if isinstance(a.kind, InterfaceKind):
            stream = stream_handle(int(values[a.position].__cuda_array_interface__.get("stream") or 0))
            found[a.kind, stream] = partial(int, stream)
        else:
            found[a.kind.name] = a.kind.stream(gpu.ordinal)
    return tuple(found.values())


def _must_wait(checked: CheckedCall, values: Sequence[Any], *, chosen: bool) -> bool:
    """Is there an array whose library is not ordered with the launches, and might read or free it too early?

    :arg chosen: the caller chose the stream, and orders everything with it except arrays imported through DLPack.
    """
    own = [values[a.position] for a in checked.inputs if isinstance(a.kind, OwnKind)]
    if chosen:
        return any(x.kind.makes_others for x in checked.outputs) or any(x.imported for x in own)
    return bool(own) or any(isinstance(x.kind, OwnKind | InterfaceKind) for x in checked.outputs)


#: A kernel that delays the GPU, so that the host runs ahead and does not limit the timed launches.
_DELAY = """\
extern "C" __global__ void delay(const long long cycles)
{
    const long long start = clock64();
    while (clock64() - start < cycles) {
    }
}
"""
#: GPU cycles for the host's work on one launch or event; an upper bound.
_CYCLES_A_STEP = 20_000
_MOST_STEPS = 600


def _copy(gpu: Gpu, array: CallArray, value: Any) -> DeviceArray:
    """A copy of *value* on *gpu*; an array on a GPU keeps its strides and alignment, on which the text may depend."""
    view = array.view
    if view.on_host:
        made = allocate(gpu, view.shape, view.dtype)
        if view.nbytes:
            source = np.ascontiguousarray(array.kind.numpy(value))
            gpu.pycuda.memcpy_htod(made.pointer, source.reshape(-1).view(np.uint8))
        return made
    low, high = view.span
    first = (view.pointer + low) % ALIGNED
    memory = allocate(gpu, (first + high - low,), np.dtype(np.uint8))
    start = memory.pointer + first
    if high > low:
        gpu.pycuda.memcpy_dtod(start, view.pointer + low, high - low)
    return DeviceArray(replace(view, pointer=start - low, ordinal=gpu.ordinal, writeable=True), memory)


def _measured(gpu: Gpu, stream: Any, runs: Sequence[BoundCall], request: TimingRequest) -> Timing:
    """The time of *runs* in turns, on *stream*."""
    launch = GeneratedKernel("delay", (Value("cycles", np.dtype(np.int64)),))
    binary = load_binary(_DELAY, "delay", CudaTarget(arch=gpu.known_arch), DiskCache(cache_directory()))
    functions = loaded_functions(gpu, binary.cubin, (launch,))
    delay = PreparedLaunch(gpu.driver, functions["delay"], launch, (1,)*6, {"cycles": 0}, {}, {}).enter
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
        code = delay((batch * steps * _CYCLES_A_STEP,), handle)
        if code:
            raise gpu.driver.failure(code)
        events[0].record(stream)
        for event in events[1:]:
            next(turns)()
            event.record(stream)
        gpu.driver.synchronize(handle)
        times += [a.time_till(b) * 1e-3 for a, b in itertools.pairwise(events)]
        # large enough that the host rarely checks the time, and at most a quarter of the time
        batch = max(min(_MOST_STEPS // steps, 2 * batch, int(request.duration / 4 / max(min(times), 1e-7))), 1)
    return Timing.of(times, request)
