"""Functions loaded onto a GPU, and their launches: the source of each parameter, the driver's structures, failures."""
from __future__ import annotations

import ctypes
import os
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from math import prod
from typing import Any

import numpy as np

from loopkit.ast.nodes import Block
from loopkit.ast.walk import calls
from loopkit.errors import DeviceError, LaunchError, LimitError
from loopkit.expr.evaluate import evaluator
from loopkit.expr.kinds import is_of_ml_dtypes
from loopkit.expr.mappers import variables
from loopkit.runtime.cuda.devices import FORKED, Gpu
from loopkit.runtime.cuda.driver import OUT_OF_MEMORY, STICKY, Driver, DriverError, LaunchConfig
from loopkit.runtime.cuda.tensor_maps import EncodedMap, described_part
from loopkit.runtime.functions import require_block
from loopkit.runtime.scalars import Scalar
from loopkit.runtime.views import ArrayView, constant, picker
from loopkit.target.code import GeneratedKernel, MapParameter, Parameter, Pointer
from loopkit.target.cuda.limits import DEVICE_LIMITS

#: Bytes of each parameter in the buffer; every type is then aligned.
_SLOT = 16

#: Alignment of allocated memory, in bytes.
ALIGNED = 256

_NOT_INITIALIZED = 3
#: Codes of a version, or of a form of binary, that this driver does not support.
_NOT_FOR_THIS_DRIVER = (200, 209, 222, 803)

#: The ticket counter of blocks with inter-block flags has 32 bits.
_MOST_COUNTED = 2**32 - 1


def aside(count: int) -> int:
    """*count* bytes, rounded up so that any type after them is aligned."""
    return -(-count // ALIGNED) * ALIGNED


@dataclass(eq=False)
class GpuLaunch:
    """One step of a call on a GPU, for messages a launch of *kernel*.

    :ivar shape: the blocks, and the threads of a block, along x, y, z.
    :ivar enter: puts the step onto a stream with a call's operands, and returns the driver's ``CUresult``.
    :ivar values: the values of the sizes, and of the inames of the host's loops around it.
    """

    kernel: GeneratedKernel
    shape: tuple[int, ...]
    enter: Callable[[Sequence[Any], int], int]
    values: Mapping[str, Any]

    def fixed(self, operands: Sequence[Any]) -> Callable[[int], int]:
        """:attr:`enter` for these operands, as a function of the stream."""
        return partial(self.enter, operands)


class PreparedLaunch(GpuLaunch):
    """A function with its grid and block, and a buffer for its parameters.

    Constant parameters are written once. A call writes its operands, and passes the buffer to the driver. Tensor maps
    have memory of their own, and are encoded for the address of their array.

    :arg places: for each array, temporary, scalar that differs between calls, and iname of the host's loops, its index
        among a call's operands; addresses come first.
    :arg arrays: those whose strides are constants, and those of the tensor maps; *values*: of the constant scalars.
    """

    def __init__(self, driver: Driver, function: int, launch: GeneratedKernel, shape: tuple[int, ...],
                 places: Mapping[str, int], arrays: Mapping[str, ArrayView], values: Mapping[str, Scalar]) -> None:
        maps = {p.name: p.tensor_map for p in launch.parameters if isinstance(p, MapParameter)}
        encoded = {x: EncodedMap(driver.tensor_map_encoder(), m, described_part(m, arrays[m.array], values))
                   for x, m in maps.items()}
        self._described = described = [(places[m.array], encoded[x].describe) for x, m in maps.items()]
        constants = [p for p in launch.parameters if p.name not in places.keys() | maps.keys()]
        operands = sorted((p for p in launch.parameters if p.name in places), key=lambda p: places[p.name])
        self._buffer = (ctypes.c_char * (_SLOT * (len(launch.parameters) + 1)))()
        start = ctypes.addressof(self._buffer)
        slots = {p.name: start + _SLOT * i for i, p in enumerate((*operands, *constants))}
        slots.update({x: m.place for x, m in encoded.items()})
        self._parameters = (ctypes.c_void_p * (len(slots) + 1))(*(slots[p.name] for p in launch.parameters))
        self._config = LaunchConfig(*shape, launch.dynamic_shared_bytes, None, None, 0)
        self._stream = 0
        for p in constants:
            form, item = _packing(p)
            struct.pack_into(form, self._buffer, slots[p.name] - start, item(constant(p, arrays, values)))
        forms, items = [_packing(p)[0] for p in operands], [_packing(p)[1] for p in operands]
        # one call of struct writes all operands, and the gaps between them
        self._pack = partial(struct.Struct("".join(forms)).pack_into, self._buffer, 0)
        picks = [places[p.name] for p in operands]
        plain = all(item is _itself for item in items)
        self._pick = picker(picks) if plain else lambda given: [
            item(given[i]) for item, i in zip(items, picks, strict=True)]
        self._lock = lock = threading.RLock()
        enter = driver.launcher(self._config, function, self._parameters)
        pick, pack, config = self._pick, self._pack, self._config
        # most launches take all operands of the call in its order
        as_they_come = plain and picks == [*range(len(places))]

        def run(operands: Sequence[Any] | None, stream: int) -> int:
            with lock:                                 # the buffer belongs to one thread at a time
                if operands is not None:
                    pack(*(operands if as_they_come else pick(operands)))
                    for place, describe in described:
                        if failed := describe(operands[place]):
                            return failed
                if stream != self._stream:             # self keeps the structures that the driver reads
                    config.stream = self._stream = stream
                code: int = enter()
            return code
        self._run = run
        super().__init__(launch, shape, run, values)

    def enter_on(self, shape: Sequence[int], hosts: Sequence[int], operands: Sequence[Any], stream: int) -> int:
        """:attr:`enter` with another shape, and with the values of the host's inames after the operands."""
        with self._lock:
            for (field, _), extent in zip(LaunchConfig._fields_, shape, strict=False):
                setattr(self._config, field, extent)
            return self.enter([*operands, *hosts], stream)

    def fixed(self, operands: Sequence[Any]) -> Callable[[int], int]:
        """:attr:`enter` for these operands, as a function of the stream; no other call may use this launch."""
        self._pack(*self._pick(operands))
        if any(describe(operands[place]) for place, describe in self._described):
            return super().fixed(operands)             # tries again, perhaps in another context
        return partial(self._run, None)


def _packing(p: Parameter) -> tuple[str, Callable[[Any], Any]]:
    """The format of struct for a parameter in a slot of its own, and its value as struct takes it."""
    dtype, code = np.dtype(p.dtype), "P"
    item: Callable[[Any], Any] = _itself
    if not isinstance(p, Pointer):
        code = dtype.char
        if dtype.kind == "c" or is_of_ml_dtypes(dtype):       # struct lacks these dtypes: they are bytes
            code, pair = f"{dtype.itemsize}s", struct.Struct("2f" if dtype.itemsize == 8 else "2d").pack
            item = (lambda x: pair(x.real, x.imag)) if dtype.kind == "c" else lambda x: dtype.type(x).tobytes()
    return f"{code}{_SLOT - struct.calcsize(code)}x", item


def _itself(value: Any) -> Any:
    return value


class HostedLaunches:
    """The launches of a call with host loops, in order: generated at each call, since their number may be large.

    :arg prepared: the functions by name, each prepared for any of its launches; the values of the inames *hosts* are
        after the operands of a call.
    :raises LimitError: a grid or a block is larger than the GPU allows.
    """

    def __init__(self, gpu: Gpu, prepared: Mapping[str, PreparedLaunch], order: Block, hosts: Sequence[str],
                 values: Mapping[str, Any], first: Sequence[GpuLaunch]) -> None:
        self._first = first
        self._prepared = prepared
        self._order = order
        self._hosts = hosts
        self._values = values
        self._extents = {name: tuple(map(evaluator, (*x.kernel.grid, *x.kernel.block))) for name, x in prepared.items()}
        self._fixed = {name: self._shape(name, values) for name, x in prepared.items()
                       if not any(variables(e) & set(hosts) for e in (*x.kernel.grid, *x.kernel.block))}
        unchecked = set(prepared)
        for launch in self._launches():
            require_shape(gpu, launch.kernel, launch.shape)
            unchecked -= {launch.kernel.name} & self._fixed.keys()
            if not unchecked:
                return

    def __iter__(self) -> Iterator[GpuLaunch]:
        yield from self._first
        yield from self._launches()

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _shape(self, name: str, values: Mapping[str, Any]) -> tuple[int, ...]:
        return tuple(int(extent(values)) for extent in self._extents[name])

    def _launches(self) -> Iterator[GpuLaunch]:
        for name, values in calls(self._order, self._values):
            shape = self._fixed.get(name) or self._shape(name, values)
            if min(shape) > 0:
                prepared = self._prepared[name]
                # outside of a loop its iname has no value and is not used
                enter = partial(prepared.enter_on, shape, [values.get(x, 0) for x in self._hosts])
                yield GpuLaunch(prepared.kernel, shape, enter, values)


Launches = Sequence[GpuLaunch] | HostedLaunches


@cache
def load_module(gpu: Gpu, cubin: bytes) -> int:
    """The handle of the module *cubin* on *gpu*, whose context is current."""
    return gpu.driver.load_module(cubin)


def loaded_functions(gpu: Gpu, cubin: bytes, launches: Sequence[GeneratedKernel]) -> Mapping[str, int]:
    """The functions of *launches* in *cubin* on *gpu*, by name.

    Their module stays loaded for the life of the process: a CUDA graph may launch them after the kernel is deleted.
    """
    with gpu:
        module = load_module(gpu, cubin)
        functions = {launch.name: gpu.driver.function(module, launch.name) for launch in launches}
        for launch in launches:
            if launch.dynamic_shared_bytes:
                gpu.driver.allow_shared_bytes(functions[launch.name], launch.dynamic_shared_bytes)
    return functions


def require_shape(gpu: Gpu, launch: GeneratedKernel, shape: tuple[int, ...]) -> None:
    """:raises LimitError: the grid or the block is larger than the GPU allows."""
    grid, limits = shape[:3], DEVICE_LIMITS[gpu.known_arch]
    require_block(launch, shape[3:], limits.threads, limits.block, str(gpu))
    for axis, blocks, most in zip("xyz", grid, limits.grid, strict=True):
        if blocks > most:
            raise LimitError(f"blocks along {axis}", most, blocks, where=f"'{launch.name}' on {gpu}",
                             hint="map the longest iname to g.0, or split by more")
    if launch.ticketed and prod(grid) > _MOST_COUNTED:
        raise LimitError("blocks that are counted", _MOST_COUNTED, prod(grid), where=f"'{launch.name}' on {gpu}",
                         hint="split by more")


def launch_error(gpu: Gpu, kernel: str, launch: GpuLaunch, failure: DriverError, arguments: Sequence[str], *,
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
        hint = FORKED
    elif failure.code == OUT_OF_MEMORY:
        hint = "free arrays, torch's cache (torch.cuda.empty_cache()) among them"
    elif sticky:
        find = "" if is_cause else "compile(knl, target='cuda', debug=True) waits for each launch and finds the one; "
        hint = f"{find}the process must be started anew, and compute-sanitizer python ... shows the access"
    return LaunchError(what, kernel=kernel, launch=name, grid=launch.shape[:3],
                       block=launch.shape[3:],
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
