"""The host C backend: functions of a shared object, called through ctypes."""
from __future__ import annotations

import ctypes
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from loopkit.ast.nodes import Block
from loopkit.ast.order import calls
from loopkit.errors import DeviceError
from loopkit.expr.kinds import is_half
from loopkit.kernel.data import GlobalArg
from loopkit.kernel.kernel import LoopKernel
from loopkit.runtime.arguments import BoundArguments
from loopkit.runtime.cache import DiskCache, cache_directory
from loopkit.runtime.compiler import find_compiler
from loopkit.runtime.execution import Execution
from loopkit.runtime.kinds import NUMPY, general_kind, host_view
from loopkit.runtime.library import load_library
from loopkit.runtime.outputs import Outputs
from loopkit.runtime.program import Getter, getter
from loopkit.runtime.timing import Timing, TimingRequest
from loopkit.runtime.typed import Text, TypedKernels
from loopkit.runtime.views import Array, ArrayLike
from loopkit.target.code import GeneratedCode, GeneratedKernel, Parameter, ParameterKind
from loopkit.target.host import CTarget


class _Complex64(ctypes.Structure):
    # passed in registers just like C's ``float complex`` on the ABIs in use (x86-64, aarch64)
    _fields_ = [("re", ctypes.c_float), ("im", ctypes.c_float)]


class _Complex128(ctypes.Structure):
    _fields_ = [("re", ctypes.c_double), ("im", ctypes.c_double)]


#: More than a processor's caches hold, in bytes.
_CACHE_BYTES = 64 << 20

_CTYPES: dict[str, Any] = {
    "bool": ctypes.c_bool, "float16": ctypes.c_uint16, "bfloat16": ctypes.c_uint16,
    "float32": ctypes.c_float, "float64": ctypes.c_double,
    "complex64": _Complex64, "complex128": _Complex128,
    **{f"{sign}int{bits}": getattr(ctypes, f"c_{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)}}


class HostProgram:
    """The functions of a translation unit, of a loaded library.

    :arg order: the calls of them, where it is more than each once.
    """

    def __init__(self, library: ctypes.CDLL, launches: Sequence[GeneratedKernel], order: Block | None = None) -> None:
        self._library = library
        self._order = order
        self._calls: tuple[tuple[Any, tuple[Getter, ...]], ...] = tuple(
            (_function(library, launch), tuple(_argument(p) for p in launch.parameters)) for launch in launches)
        self._launches = tuple(launches)

    def run(self, bound: BoundArguments, scratch: dict[str, Array]) -> None:
        if self._order is None:
            for function, getters in self._calls:
                function(*[get(bound, scratch) for get in getters])
        else:
            self._looped(self._order, bound, scratch)()

    def fixed(self, bound: BoundArguments, scratch: dict[str, Array]) -> tuple[Callable[[], object], ...]:
        """The launches with their arguments worked out; the arrays must live as long as they do."""
        if self._order is not None:
            return (self._looped(self._order, bound, scratch),)
        return tuple(partial(function, *[get(bound, scratch) for get in getters])
                     for function, getters in self._calls)

    def _looped(self, order: Block, bound: BoundArguments, scratch: dict[str, Array]) -> Callable[[], object]:
        """All calls, with what does not change from iteration to iteration worked out."""
        fixed = {}
        for launch, (function, getters) in zip(self._launches, self._calls, strict=True):
            hosts = [i for i, p in enumerate(launch.parameters) if p.kind is ParameterKind.HOST]
            given = [None if i in hosts else get(bound, scratch) for i, get in enumerate(getters)]
            fixed[launch.name] = function, given, [(i, launch.parameters[i].name) for i in hosts]

        def run() -> None:
            for name, values in calls(order, bound.values):
                function, given, hosts = fixed[name]
                arguments = [*given]
                for i, x in hosts:
                    arguments[i] = values[x]
                function(*arguments)
        return run


class HostBackend:
    """Compiles with the host's C compiler, keeps the objects on disk, and loads them."""

    def __init__(self, target: CTarget) -> None:
        self.cache = DiskCache(cache_directory())
        self.compiler = find_compiler(target, self.cache)

    def load(self, code: GeneratedCode, kernel: str) -> HostProgram:
        return HostProgram(load_library(code.source, kernel, self.compiler, self.cache), code.kernels, code.order)


class HostRunner:
    """Runs one kernel on the host."""

    def __init__(self, knl: LoopKernel, target: CTarget) -> None:
        self.kernels = TypedKernels(knl, target.machine)
        self.target = target
        self._names = frozenset(a.name for a in knl.arguments if isinstance(a, GlobalArg))
        self._backend = HostBackend(target)
        self._programs: dict[Text, HostProgram] = {}

    @property
    def text_target(self) -> CTarget:
        return self.target

    def call(self, given: Mapping[str, Any]) -> Outputs:
        call = self._prepare(given)
        call.program.run(call.bound, call.scratch)
        return call.outputs

    def bind(self, given: Mapping[str, Any]) -> BoundHostCall:
        return BoundHostCall(self._prepare(given))

    def time(self, given: Mapping[str, Any], request: TimingRequest) -> Timing:
        """By the host's clock; arrays that the kernel writes are copied first and left as they are."""
        sets = [self._prepare(copies) for copies in self._copies(given, request)]
        times: list[float] = []
        for call in itertools.islice(itertools.cycle(sets), max(request.warmup, 1)):
            call.program.run(call.bound, call.scratch)
        end = time.perf_counter() + request.duration
        for call in itertools.cycle(sets):
            start = time.perf_counter()
            call.program.run(call.bound, call.scratch)
            times.append(time.perf_counter() - start)
            if len(times) >= request.fewest and (time.perf_counter() >= end or len(times) >= request.most):
                break
        return Timing.of(times, request)

    def _copies(self, given: Mapping[str, Any], request: TimingRequest) -> list[dict[str, Any]]:
        arrays = {k: host_view(k, v) for k, v in given.items() if k in self._names and v is not None}
        written = self.kernels.kernel.written_names
        first = {**given, **{k: v.copy(order="K") if k in written else v for k, v in arrays.items()}}
        number = request.number_of_sets(sum(v.nbytes for v in arrays.values()), _CACHE_BYTES)
        return [first, *({**given, **{k: v.copy(order="K") for k, v in arrays.items()}} for _ in range(number - 1))]

    def _prepare(self, given: Mapping[str, Any]) -> _HostCall:
        views = {k: x if type(x) is np.ndarray or x is None or k not in self._names else host_view(k, x)
                 for k, x in given.items()}
        typed = self.kernels.of(views)
        bound = typed.plan.bind(views)
        text = typed.fitting(self.target, bound, bound.strided)
        program = self._programs.get(text)
        if program is None:
            program = self._programs[text] = self._backend.load(text.code, self.kernels.kernel.name)
        fields = typed.plan.outputs
        return _HostCall(program, bound, text.scratch.allocate(bound.values),
                         Outputs(fields, [given[x] if given.get(x) is not None else self._made(given, bound.arrays[x])
                                          for x in fields]))

    def _made(self, given: Mapping[str, Any], array: ArrayLike) -> Any:
        """An output that the call allocated, in the kind of the first array that is not numpy's."""
        for name, x in given.items():
            kind = general_kind(x) if name in self._names else None
            if kind is not None and kind is not NUMPY:
                assert isinstance(array, np.ndarray)
                return kind.adopt(array)
        return array


def _runner(knl: LoopKernel, target: CTarget, device: object, debug: bool) -> HostRunner:
    if device is not None:
        raise DeviceError(f"The host target knows no device {device!r}.", hint="compile(knl, target='cuda')")
    return HostRunner(knl, target)


#: Kernels for C are compiled and called here.
ON_THE_HOST = Execution(_runner, HostRunner.time)


@dataclass(frozen=True)
class _HostCall:
    """A checked call."""

    program: HostProgram
    bound: BoundArguments
    scratch: dict[str, Array]
    outputs: Outputs


class BoundHostCall:
    """A call on the host with all arguments fixed; made by :meth:`CompiledKernel.bind`."""

    def __init__(self, call: _HostCall) -> None:
        self._call = call                              # keeps the arrays alive
        self._launches = call.program.fixed(call.bound, call.scratch)

    def __call__(self) -> Outputs:
        for launch in self._launches:
            launch()
        return self._call.outputs


def _function(library: ctypes.CDLL, launch: GeneratedKernel) -> Any:
    function = getattr(library, launch.name)
    function.argtypes = [_ctype(p) for p in launch.parameters]
    function.restype = None
    return function


def _ctype(parameter: Parameter) -> Any:
    if parameter.kind in (ParameterKind.ARRAY, ParameterKind.SCRATCH):
        return ctypes.c_void_p
    return _CTYPES[np.dtype(parameter.dtype).name]


def _argument(parameter: Parameter) -> Getter:
    if parameter.kind is ParameterKind.VALUE and np.dtype(parameter.dtype).kind == "c":
        pair, name = _CTYPES[np.dtype(parameter.dtype).name], parameter.name
        return lambda bound, scratch: pair(bound.values[name].real, bound.values[name].imag)
    if parameter.kind is ParameterKind.VALUE and is_half(parameter.dtype):
        dtype, name = parameter.dtype, parameter.name
        return lambda bound, scratch: int(np.array(bound.values[name], dtype).view(np.uint16))
    return getter(parameter, _address)


def _address(array: Any) -> int:
    return int(array.ctypes.data)
