"""The host C backend: shared objects, compiled or taken from the cache; their functions, called through ctypes."""
from __future__ import annotations

import contextlib
import ctypes
import hashlib
import itertools
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from loopkit.ast.walk import calls
from loopkit.errors import CompilerError, DeviceError
from loopkit.expr.evaluate import evaluate
from loopkit.expr.kinds import is_narrow
from loopkit.kernel.data import GlobalArg
from loopkit.kernel.kernel import LoopKernel
from loopkit.runtime.bounds import raising
from loopkit.runtime.cache import DiskCache, cache_directory
from loopkit.runtime.callbacks import callback_type, raising_failures, reference_call
from loopkit.runtime.calls import BoundCall, CallSignatures, CheckedCall, Run, Runner
from loopkit.runtime.compiler import (
    COMPILED,
    FROM_CACHE,
    LOG,
    HostCompiler,
    KeptInMemory,
    dump,
    find_compiler,
    loopkit_version,
    undefined_hint,
)
from loopkit.runtime.functions import FunctionPlan, require_block
from loopkit.runtime.kinds import ArrayKinds, host_view
from loopkit.runtime.results import Outputs, Timing, TimingRequest
from loopkit.runtime.views import address_of
from loopkit.target.c.target import CTarget
from loopkit.target.code import GeneratedKernel, Parameter, Pointer, ReferencePointer


class _Complex64(ctypes.Structure):
    # passed in registers like C's ``float complex`` on the supported ABIs (x86-64, aarch64)
    _fields_ = [("re", ctypes.c_float), ("im", ctypes.c_float)]


class _Complex128(ctypes.Structure):
    _fields_ = [("re", ctypes.c_double), ("im", ctypes.c_double)]


#: More than the size of a processor's caches, in bytes.
_CACHE_BYTES = 64 << 20

#: The threads of a block whose size comes from a call: each of their private arrays is on the stack.
MOST_THREADS = 1024

#: Bytes of a cache line.
_LINE = 64

#: The types of dtypes for which numpy has none.
_CTYPES: dict[str, Any] = {"float16": ctypes.c_uint16, "bfloat16": ctypes.c_uint16,
                           "float8_e4m3fn": ctypes.c_uint8, "float8_e5m2": ctypes.c_uint8,
                           "complex64": _Complex64, "complex128": _Complex128}


class HostPlan(FunctionPlan):
    """The launches of the calls of one signature on the host, whose operands are addresses and numbers."""

    def __init__(self, checked: CheckedCall, functions: Mapping[str, Any]) -> None:
        kernels, failures = checked.text.code.kernels, list[BaseException]()
        own = {x.name: raising(raising_failures(functions[x.name], x, failures), x, checked) for x in kernels}
        super().__init__(checked, own, _passed_as, {
            p.name: reference_call(p, failures) for x in kernels for p in x.parameters
            if isinstance(p, ReferencePointer)})
        _require_blocks(checked)
        shapes = checked.text.scratch_shapes(checked.bound.values)
        self._scratch = tuple(partial(_scratch_array, shapes[p.name], np.dtype(p.dtype)) for p in checked.text.scratch)

    @cached_property
    def run(self) -> Run:
        check, results, scratch = self._checked.check, self._checked.results, self._scratch
        outputs = [(partial(x.new, zero=True), x.kind.address) for x in self._checked.outputs]
        launch, scalars, constants = self._launch, self._scalars, self._constants
        checked: list[int] = []

        def run(values: Sequence[Any], addresses: list[int], originals: Sequence[Any]) -> Outputs:
            nonlocal checked
            if addresses != checked:
                check(addresses)
                checked = addresses
            # even empty comprehensions would take a third of a small call's time
            operands: list[Any] = [*addresses]
            made: list[Any] = []
            if outputs:
                made = [make() for make, _ in outputs]
                operands += [address(x) for x, (_, address) in zip(made, outputs, strict=True)]
            memory = [make() for make in scratch] if scratch else ()
            if memory:
                operands += [address_of(x) for x in memory]
            if scalars:
                operands += [passed(convert(values[i])) for i, convert, passed in scalars]
            launch([*operands, *constants])
            return results(originals, made)
        return run

    @cached_property
    def _launch(self) -> Callable[[Sequence[Any]], None]:
        """A function that calls the text's functions with a call's operands."""
        if self._checked.text.code.order is None:
            every = tuple(self._functions.values())

            def launch(operands: Sequence[Any]) -> None:
                for function, pick in every:
                    function(*pick(operands))
            return launch

        def launch_in_loops(operands: Sequence[Any]) -> None:
            for function, arguments, _ in self.launches(operands):
                function(*arguments)
        return launch_in_loops

    def bound(self, values: Sequence[Any], addresses: Sequence[int], originals: Sequence[Any]) -> BoundCall:
        self._checked.check(addresses)
        scratch = [make() for make in self._scratch]
        operands = [*addresses, *[address_of(x) for x in scratch], *self.scalars(values), *self._constants]
        launches = [partial(self._launch, operands)] if self._checked.text.code.order is not None else [
            partial(function, *pick(operands)) for function, pick in self._functions.values()]
        outputs = self._checked.results(originals, ())

        def run() -> Outputs:
            for launch in launches:
                launch()
            return outputs
        return BoundCall(run, launches, (values, originals, scratch))


class HostRunner(Runner):
    """Runs one kernel on the host: compiles it with the host's C compiler, caches the object on disk, and loads it."""

    def __init__(self, knl: LoopKernel, target: CTarget, device: object = None, debug: bool = False) -> None:
        if device is not None:
            raise DeviceError(f"The host target has no device {device!r}.", hint="compile(knl, target='cuda')")
        super().__init__(knl, target)
        self._cache = DiskCache(cache_directory())
        self._compiler = find_compiler(target, self._cache)

    @cached_property
    def kinds(self) -> ArrayKinds:
        return ArrayKinds()

    def _plan(self, known: CallSignatures, values: Sequence[Any]) -> HostPlan:
        arrays = self._arrays(known, values)
        for array in arrays:
            host_view(array.name, values[array.position])      # an error for an array on a GPU
        checked = self._checked(known, values, arrays, self.text_target)
        code = checked.text.code
        with self._lock:                               # only one thread compiles
            library = load_library(code.source, checked.kernel, self._compiler, self._cache)
        return HostPlan(checked, {x.name: _function(library, x) for x in code.kernels})

    def time(self, given: Mapping[str, Any], request: TimingRequest) -> Timing:
        arrays = {k: host_view(k, v) for k, v in given.items()
                  if isinstance(self._arguments.get(k), GlobalArg) and v is not None}
        written = self.kernels.kernel.written_names
        number = request.number_of_sets(sum(v.nbytes for v in arrays.values()), _CACHE_BYTES)
        sets = [self.bind({**given, **{k: v.copy(order="K") for k, v in arrays.items() if turn or k in written}})
                for turn in range(number)]
        times: list[float] = []
        for run in itertools.islice(itertools.cycle(sets), max(request.warmup, 1)):
            run()
        end = time.perf_counter() + request.duration
        for run in itertools.cycle(sets):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
            if len(times) >= request.fewest and (time.perf_counter() >= end or len(times) >= request.most):
                break
        return Timing.of(times, request)


def _require_blocks(checked: CheckedCall) -> None:
    """:raises LimitError: the sizes of a call give a block more than :data:`MOST_THREADS` threads."""
    code, values = checked.text.code, checked.bound.values
    by_sizes = {x.name: x for x in code.kernels if not all(isinstance(extent, int) for extent in x.block)}
    every = calls(code.order, values) if code.order is not None and by_sizes else ((name, values) for name in by_sizes)
    for launch, seen in ((by_sizes[name], seen) for name, seen in every if name in by_sizes):
        block = [int(evaluate(extent, seen)) for extent in launch.block]
        require_block(launch, block, MOST_THREADS, [MOST_THREADS]*3, "the host")


def _scratch_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """An array that begins at a cache line, so that no vector of its rows lies in two of them without need."""
    size = prod(shape)*dtype.itemsize
    memory = np.empty(size + _LINE, np.uint8)
    start = -memory.ctypes.data % _LINE
    return memory[start:start + size].view(dtype).reshape(shape)


def _function(library: ctypes.CDLL, launch: GeneratedKernel) -> Any:
    function = getattr(library, launch.name)
    function.argtypes = [_ctype(p) for p in launch.parameters]
    function.restype = None
    return function


def _ctype(parameter: Parameter) -> Any:
    if isinstance(parameter, Pointer):
        return ctypes.c_void_p
    if isinstance(parameter, ReferencePointer):
        return callback_type(parameter)
    return _CTYPES.get(parameter.dtype.name) or np.ctypeslib.as_ctypes_type(parameter.dtype)


def _passed_as(dtype: np.dtype[Any] | None) -> Callable[[Any], Any]:
    """The conversion of a Python number to a ctypes argument for *dtype*."""
    if dtype is not None and dtype.kind == "c":
        pair = _CTYPES[dtype.name]
        return lambda value: pair(value.real, value.imag)
    if dtype is not None and is_narrow(dtype):
        return lambda value: int(np.array(value, dtype).view(f"u{dtype.itemsize}"))
    return lambda value: value


@KeptInMemory
def load_library(source: str, kernel: str, compiler: HostCompiler, disk: DiskCache) -> ctypes.CDLL:
    """The loaded *source*, kept in memory and on disk; :raises CompilerError: it is rejected, or cannot be loaded."""
    key = object_key(source, compiler)
    dump(source, kernel, ".c")
    kept = disk.lookup(key)
    if kept is not None:
        # an undamaged object may not be for this machine (a library that it needs is missing): compile it here
        with contextlib.suppress(OSError):
            library = _mapped(kept[0])
            LOG.debug(FROM_CACHE, kernel)
            return library
    content = compiler.compile(source, kernel)
    LOG.debug(COMPILED, kernel)
    disk.put(key, content, {"kernel": kernel, "compiler": list(compiler.command), "version": compiler.version,
                            "flags": list(compiler.flags)})
    try:
        return _mapped(content)
    except OSError as err:
        raise CompilerError(f"The compiled object of kernel '{kernel}' cannot be loaded.", log=str(err),
                            hint=undefined_hint(str(err))) from None


def object_key(source: str, compiler: HostCompiler) -> str:
    """The key of a compiled object: everything that its bytes depend on."""
    return hashlib.sha256(f"{source}\0{compiler.identity}\0{loopkit_version()}".encode()).hexdigest()


def _mapped(content: bytes) -> ctypes.CDLL:
    """The object *content*, mapped from a file that is removed at once; :raises OSError: the loader rejects it."""
    with tempfile.TemporaryDirectory(prefix="loopkit-", ignore_cleanup_errors=True) as place:
        path = Path(place, "kernel.so")
        path.write_bytes(content)
        return ctypes.CDLL(str(path))
