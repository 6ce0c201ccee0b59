"""Functions loaded onto a GPU, and their launches: the source of each parameter, the driver's structures, failures."""
from __future__ import annotations

import ctypes
import hashlib
import os
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from loopkit.ast.nodes import Block
from loopkit.ast.walk import calls
from loopkit.errors import DeviceError, LaunchError, LimitError
from loopkit.expr.evaluate import evaluator
from loopkit.expr.mappers import variables
from loopkit.kernel.target import DEVICE_LIMITS
from loopkit.runtime.cuda.devices import Gpu
from loopkit.runtime.cuda.driver import OUT_OF_MEMORY, STICKY, Driver, DriverError, LaunchConfig
from loopkit.runtime.scalars import Scalar
from loopkit.runtime.views import ArrayLike, constant
from loopkit.target.code import GeneratedKernel, HostIname, Parameter, Pointer, ScratchPointer, Value

#: Bytes of each parameter in the buffer; every type is then aligned.
_SLOT = 16

#: Alignment of allocated memory, in bytes.
_ALIGNED = 256

_NOT_INITIALIZED = 3
#: Codes of a version, or of a form of binary, that this driver does not support.
_NOT_FOR_THIS_DRIVER = (200, 209, 222, 803)

#: The ticket counter of blocks with inter-block flags has 32 bits.
_MOST_COUNTED = 2**32 - 1


def aside(count: int) -> int:
    """*count* bytes, rounded up so that any type behind them is aligned."""
    return -(-count // _ALIGNED) * _ALIGNED


@dataclass(frozen=True, slots=True)
class SingleLaunch:
    """One step of a call on a GPU, for messages a launch of *kernel*.

    :ivar enter: puts the step onto a stream with a call's addresses and scalars, and returns the driver's ``CUresult``.
    :ivar values: of the sizes, and of the inames of the host's loops around it.
    """

    kernel: GeneratedKernel
    grid: tuple[int, ...]
    enter: Callable[[Sequence[int], Sequence[Scalar], int], int]
    values: Mapping[str, Any]

    def fixed(self, addresses: Sequence[int], scalars: Sequence[Scalar]) -> Callable[[int], int]:
        """:attr:`enter` for these arguments, as a function of the stream."""
        return partial(self.enter, addresses, scalars)


@dataclass(frozen=True)
class Sources:
    """The sources of the parameters of a call's launches.

    :ivar places: for each array and temporary, its index among a call's addresses.
    :ivar values: of the constant scalars; *varying*: for the others, the index among a call's scalars.
    """

    places: Mapping[str, int]
    arrays: Mapping[str, ArrayLike]
    values: Mapping[str, Scalar]
    varying: Mapping[str, int]


class PreparedLaunch:
    """A function with its grid, and a buffer for its parameters.

    Constant parameters are written once. A call writes the addresses and the varying scalars, and passes the buffer to
    the driver.

    :ivar enter: launches with a call's addresses and scalars on a stream, and returns the driver's ``CUresult``.
    """

    def __init__(self, driver: Driver, function: int, launch: GeneratedKernel, grid: tuple[int, ...], sources: Sources
                 ) -> None:
        self.kernel, self.grid, self.values = launch, grid, sources.values
        varying = sources.varying
        pointers = [p for p in launch.parameters if isinstance(p, Pointer)]
        # addresses come first, then the varying scalars: one call of struct writes them, and the gaps between them
        scalars = sorted((p for p in launch.parameters if p.name in varying), key=lambda p: varying[p.name])
        constants = [p for p in launch.parameters if p not in pointers and p.name not in varying]
        start = -(-8 * len(pointers) // _SLOT) * _SLOT
        offsets = {p.name: 8 * i for i, p in enumerate(pointers)}
        offsets |= {p.name: start + _SLOT * i for i, p in enumerate((*scalars, *constants))}
        self._buffer = (ctypes.c_char * (start + _SLOT * (len(scalars) + len(constants) + 1)))()
        pointed = [ctypes.addressof(self._buffer) + offsets[p.name] for p in launch.parameters]
        self._parameters = (ctypes.c_void_p * max(len(pointed), 1))(*pointed)
        self._config = LaunchConfig(*grid, *launch.block, launch.dynamic_shared_bytes, None, None, 0)
        self._stream = 0
        for p in constants:
            code, parts = _packing(p)
            struct.pack_into(code, self._buffer, offsets[p.name], *parts(constant(p, sources.arrays, sources.values)))
        form = f"{len(pointers)}P{start - 8 * len(pointers)}x" + "".join(
            f"{_packing(p)[0]}{_SLOT - np.dtype(p.dtype).itemsize}x" for p in scalars)
        self._pack = partial(struct.Struct(form).pack_into, self._buffer, 0)
        self._picks = [sources.places[p.name] for p in pointers]
        self._parts = [(_packing(p)[1], varying[p.name]) for p in scalars]
        self._lock = threading.RLock()
        self._enter = driver.launcher(self._config, function, self._parameters)
        # most launches take all addresses and scalars of the call in its order
        self.enter = self._launcher(as_they_come=all(parts is _one for parts, _ in self._parts)
                                    and self._picks == [*range(len(sources.places))]
                                    and [i for _, i in self._parts] == [*range(len(varying))])

    def _launcher(self, *, as_they_come: bool) -> Callable[[Sequence[int], Sequence[Scalar], int], int]:
        """The launch function of a call, with everything precomputed."""
        lock, enter, write, pack, config = self._lock, self._enter, self._write, self._pack, self._config

        def launch(addresses: Sequence[int], scalars: Sequence[Scalar], stream: int) -> int:
            with lock:                                 # the buffer belongs to one thread at a time
                if as_they_come:
                    pack(*addresses, *scalars)
                else:
                    write(addresses, scalars)
                if stream != self._stream:
                    config.stream = self._stream = stream
                code: int = enter()
            return code
        return launch

    def _write(self, addresses: Sequence[int], scalars: Sequence[Scalar]) -> None:
        self._pack(*[addresses[i] for i in self._picks], *[x for parts, i in self._parts for x in parts(scalars[i])])

    def enter_on(self, grid: Sequence[int], hosts: Sequence[int], addresses: Sequence[int], scalars: Sequence[Scalar],
                 stream: int) -> int:
        """:attr:`enter` with another grid, and with the values of the host's inames behind the scalars."""
        with self._lock:
            self._config.grid_x, self._config.grid_y, self._config.grid_z = grid
            return self.enter(addresses, [*scalars, *hosts], stream)

    def fixed(self, addresses: Sequence[int], scalars: Sequence[Scalar]) -> Callable[[int], int]:
        """:attr:`enter` for these arguments, as a function of the stream; no other call may use this launch."""
        self._write(addresses, scalars)
        return self._again

    def _again(self, stream: int) -> int:
        with self._lock:
            if stream != self._stream:
                self._config.stream = self._stream = stream
            code: int = self._enter()
        return code


def _packing(p: Parameter) -> tuple[str, Callable[[Any], tuple[Any, ...]]]:
    """The format of a scalar parameter in struct, and the values that it takes of a number."""
    dtype = np.dtype(p.dtype)
    if dtype.kind == "c":
        return "2f" if dtype.itemsize == 8 else "2d", lambda value: (value.real, value.imag)
    if dtype.kind == "V":                              # bfloat16, which struct does not support
        return "2s", lambda value: (dtype.type(value).tobytes(),)
    return dtype.char, _one


def _one(value: Any) -> tuple[Any, ...]:
    return (value,)


class HostedLaunches:
    """The launches of a call with host loops, in order: generated at each call, since their number may be large.

    :arg prepared: the functions by name, each prepared for any of its launches; the values of the inames *hosts* are
        behind the scalars of a call.
    :raises LimitError: a grid is larger than the GPU allows.
    """

    def __init__(self, gpu: Gpu, prepared: Mapping[str, PreparedLaunch], order: Block, hosts: Sequence[str],
                 values: Mapping[str, Any], first: Sequence[SingleLaunch]) -> None:
        self._first = first
        self._prepared = prepared
        self._order = order
        self._hosts = hosts
        self._values = values
        self._extents = {name: tuple(map(evaluator, x.kernel.grid)) for name, x in prepared.items()}
        self._fixed = {name: self._grid(name, values) for name, x in prepared.items()
                       if not any(variables(e) & set(hosts) for e in x.kernel.grid)}
        unchecked = set(prepared)
        for launch in self._launches():
            require_grid(gpu, launch.kernel, launch.grid)
            unchecked -= {launch.kernel.name} & self._fixed.keys()
            if not unchecked:
                return

    def __iter__(self) -> Iterator[SingleLaunch]:
        yield from self._first
        yield from self._launches()

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _grid(self, name: str, values: Mapping[str, Any]) -> tuple[int, ...]:
        return tuple(int(extent(values)) for extent in self._extents[name])

    def _launches(self) -> Iterator[SingleLaunch]:
        for name, values in calls(self._order, self._values):
            grid = self._fixed.get(name) or self._grid(name, values)
            if min(grid) > 0:
                prepared = self._prepared[name]
                # outside of a loop its iname has no value and is not used
                enter = partial(prepared.enter_on, grid, [values.get(x, 0) for x in self._hosts])
                yield SingleLaunch(prepared.kernel, grid, enter, values)


#: Anything that :class:`~loopkit.runtime.cuda.plan.CudaPlan` puts onto a stream.
AnyLaunch = PreparedLaunch | SingleLaunch
Launches = Sequence[AnyLaunch] | HostedLaunches


_modules: dict[tuple[Gpu, bytes], int] = {}
_lock = threading.Lock()


def loaded_functions(gpu: Gpu, cubin: bytes, launches: Sequence[GeneratedKernel]) -> Mapping[str, int]:
    """The functions of *launches* in *cubin* on *gpu*, by name.

    Their module stays loaded for the life of the process: a CUDA graph may launch them after the kernel is deleted.
    """
    with gpu:
        key = gpu, hashlib.sha256(cubin).digest()
        with _lock:
            if key not in _modules:
                _modules[key] = gpu.driver.load_module(cubin)
        functions = {launch.name: gpu.driver.function(_modules[key], launch.name) for launch in launches}
        for launch in launches:
            if launch.dynamic_shared_bytes:
                gpu.driver.allow_shared_bytes(functions[launch.name], launch.dynamic_shared_bytes)
    return functions


def require_grid(gpu: Gpu, launch: GeneratedKernel, grid: tuple[int, ...]) -> None:
    """:raises LimitError: the grid is larger than the GPU allows."""
    for axis, blocks, most in zip("xyz", grid, DEVICE_LIMITS[gpu.known_arch].grid, strict=True):
        if blocks > most:
            raise LimitError(f"blocks along {axis}", most, blocks, where=f"'{launch.name}' on {gpu}",
                             hint="map the longest iname to g.0, or split by more")
    if launch.ticketed and prod(grid) > _MOST_COUNTED:
        raise LimitError("blocks that are counted", _MOST_COUNTED, prod(grid), where=f"'{launch.name}' on {gpu}",
                         hint="split by more")


def launch_error(gpu: Gpu, kernel: str, launch: AnyLaunch, failure: DriverError, arguments: Sequence[str], *,
                 is_cause: bool) -> LaunchError:
    """The error for a launch of *kernel*; *is_cause*: every earlier one was waited for."""
    name, sticky, hint = launch.kernel.name, failure.code in STICKY, None
    if not sticky:
        what = f"'{name}' of kernel '{kernel}' could not be launched on {gpu}: {failure}."
    elif is_cause:
        what = f"'{name}' of kernel '{kernel}' failed on {gpu}: {failure}."
    else:
        what = (f"{gpu} reports an error of something that was launched before, seen when '{name}' of kernel "
                f"'{kernel}' was launched or waited for: {failure}.")
    if gpu.process != os.getpid() or failure.code == _NOT_INITIALIZED:
        hint = "CUDA does not survive a fork: start worker processes with multiprocessing's 'spawn'"
    elif failure.code == OUT_OF_MEMORY:
        hint = "free arrays, torch's cache (torch.cuda.empty_cache()) among them"
    elif sticky:
        find = "" if is_cause else "compile(knl, target='cuda', debug=True) waits for each launch and finds the one; "
        hint = f"{find}the process must be started anew, and compute-sanitizer python ... shows the access"
    return LaunchError(what, kernel=kernel, launch=name, grid=launch.grid, block=launch.kernel.block,
                       arguments=arguments, sticky=sticky, hint=hint)


@contextmanager
def reported(gpu: Gpu, kernel: str) -> Iterator[None]:
    """Within the block, the driver's errors become ``DeviceError``: of a copy, an allocation, the loading of code."""
    try:
        yield
    except (DriverError, gpu.pycuda.Error) as err:
        lost = isinstance(err, DriverError) and err.code in STICKY
        hint = None
        if isinstance(err, DriverError) and err.code in _NOT_FOR_THIS_DRIVER:
            hint = ("the driver is older than the compiler: update it, or take the compiler of its version "
                    "(pip install 'loopkit[cuda12]')")
        elif lost or "memory access" in str(err) or "launch failure" in str(err):
            hint = ("an earlier launch has broken the context: start the process anew, and compile with debug=True to "
                    "find the launch")
        raise DeviceError(f"{gpu} cannot run kernel '{kernel}': {err}.", hint=hint) from None


def describe(launch: AnyLaunch, arrays: Mapping[str, ArrayLike], addresses: Mapping[str, int], values: Mapping[str, Any]
             ) -> Iterator[str]:
    """A line for each parameter of *launch*."""
    for p in launch.kernel.parameters:
        match p:
            case ScratchPointer():
                yield f"{p.name}: {p.dtype}, a temporary, at {addresses[p.name]:#x}"
            case Pointer():
                array = arrays[p.name]
                yield (f"{p.name}: {array.dtype}, shape {array.shape}, strides {array.strides} bytes, at "
                       f"{addresses[p.name]:#x}")
            case Value() | HostIname():
                yield f"{p.name} = {values[p.name]}"
            case _:
                pass                                   # a stride is listed with its array
