"""Functions loaded onto a GPU, and their launches: the source of each parameter, the driver's structures."""
from __future__ import annotations

import ctypes
import hashlib
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from loopkit.errors import InternalError, LimitError
from loopkit.runtime.cuda.devices import Gpu
from loopkit.runtime.cuda.driver import Driver, LaunchConfig
from loopkit.runtime.scalars import Scalar
from loopkit.runtime.views import ArrayLike, stride
from loopkit.target.code import GeneratedKernel, Parameter, ParameterKind

#: Bytes of each parameter in the buffer; every type is then aligned.
_SLOT = 16

#: Alignment of allocated memory, in bytes.
_ALIGNED = 256

#: The ticket counter of blocks with inter-block flags has 32 bits.
_MOST_COUNTED = 2**32 - 1

#: Writes a scalar into a buffer at an offset.
Writer = Callable[[Any, int, Any], None]


def writer(dtype: np.dtype[Any]) -> Writer:
    """The function that writes a number as the bytes of *dtype*."""
    if dtype.kind == "c":
        pair = struct.Struct("2f" if dtype.itemsize == 8 else "2d")
        return lambda buffer, offset, value: pair.pack_into(buffer, offset, value.real, value.imag)
    if dtype.kind == "V":                              # bfloat16, which struct does not support
        return lambda buffer, offset, value: _write_bytes(buffer, offset, dtype.type(value).tobytes())
    return struct.Struct(dtype.char).pack_into


def _write_bytes(buffer: Any, offset: int, content: bytes) -> None:
    buffer[offset:offset + len(content)] = content


def _one_layout(pointers: int, scalars: Sequence[tuple[np.dtype[Any], int]]) -> str | None:
    """The format of addresses followed by *scalars*, dtypes with their offsets; ``None`` if struct has none."""
    text, at = f"={pointers}Q", 8 * pointers
    for dtype, offset in scalars:
        if dtype.kind not in "biuf" or offset < at:
            return None
        text += f"{offset - at}x{_STANDARD[dtype.name]}"
        at = offset + dtype.itemsize
    return text


#: The letters of struct's standard sizes.
_STANDARD = {"bool": "?", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I",
             "int64": "q", "uint64": "Q", "float16": "e", "float32": "f", "float64": "d"}


def aside(count: int) -> int:
    """*count* bytes, rounded up so that any type behind them is aligned."""
    return -(-count // _ALIGNED) * _ALIGNED


class PreparedClear:
    """Zeroes temporaries before the launches of a call; has the interface of a launch.

    :arg place: index of the first temporary among a call's addresses.
    :arg count: bytes of the temporaries, which are contiguous.
    :ivar launch: the launch that uses them, for messages.
    """

    grid = (1, 1, 1)

    def __init__(self, driver: Driver, launch: GeneratedKernel, place: int, count: int) -> None:
        self.launch = launch
        self._driver = driver
        self._place = place
        self._count = count
        self._address = 0

    def enter(self, addresses: Sequence[int], scalars: Sequence[Scalar], stream: int) -> int:
        """Zero the bytes, in the order of *stream*; returns the driver's ``CUresult``."""
        return self._driver.clear(addresses[self._place], self._count, stream)

    def fix(self, addresses: Sequence[int], scalars: Sequence[Scalar]) -> None:
        """Store the address for :meth:`again`."""
        self._address = addresses[self._place]

    def again(self, stream: int) -> int:
        """Like :meth:`enter`, at the stored address."""
        return self._driver.clear(self._address, self._count, stream)


class PreparedLaunch:
    """A function with its grid, and a buffer for its parameters.

    Constant parameters are written once. A call writes the addresses and the varying scalars, and passes the buffer to
    the driver.

    :arg places: for each array and temporary, its index among a call's addresses.
    :arg values: of the constant scalars; *varying*: for the others, the index among a call's scalars.
    :ivar launch: the generated launch, for messages.
    :ivar enter: launches with a call's addresses and scalars on a stream, and returns the driver's ``CUresult``.
    """

    def __init__(self, driver: Driver, function: int, launch: GeneratedKernel, grid: Sequence[int],
                 places: Mapping[str, int], arrays: Mapping[str, ArrayLike], values: Mapping[str, Scalar],
                 varying: Mapping[str, int]) -> None:
        self.launch = launch
        self.grid = tuple(grid)
        parameters = launch.parameters
        pointers = [p for p in parameters if p.kind in (ParameterKind.ARRAY, ParameterKind.SCRATCH)]
        # addresses are contiguous and first, so one call of struct writes them all
        offsets = {p.name: 8 * i for i, p in enumerate(pointers)}
        start = -(-8 * len(pointers) // _SLOT) * _SLOT
        # then the varying scalars: padding between them is overwritten, so no constant may be there
        others = sorted((p for p in parameters if p.name not in offsets),
                        key=lambda p: varying.get(p.name, len(parameters)))
        offsets |= {p.name: start + _SLOT * i for i, p in enumerate(others)}
        self._buffer = (ctypes.c_char * (start + _SLOT * len(others) + _SLOT))()
        base = ctypes.addressof(self._buffer)
        self._parameters = (ctypes.c_void_p * max(len(parameters), 1))(*(base + offsets[p.name] for p in parameters))
        self._config = LaunchConfig(*grid, *launch.block, launch.dynamic_shared_bytes, None, None, 0)
        self._stream = 0
        self._picks = tuple(places[p.name] for p in pointers)
        self._write_addresses = struct.Struct(f"{len(pointers)}P").pack_into
        dtypes = {p.name: np.dtype(p.dtype) for p in parameters}
        self._scalars: list[tuple[Writer, int, int]] = []
        for p in others:
            self._place(p, offsets[p.name], arrays, values, varying)
        # most launches take all addresses and scalars of the call in its order: one call of struct writes them
        layout = _one_layout(len(pointers), [(dtypes[p.name], offsets[p.name]) for p in others if p.name in varying])
        in_order = (self._picks == tuple(range(len(places)))
                    and [i for _, _, i in self._scalars] == list(range(len(varying))))
        self._lock = threading.Lock()
        self._enter = driver.launcher(self._config, function, self._parameters)
        self.enter = self._launcher(partial(struct.Struct(layout).pack_into, self._buffer, 0)
                                    if layout is not None and in_order else None)

    def _place(self, p: Parameter, offset: int, arrays: Mapping[str, ArrayLike], values: Mapping[str, Scalar],
               varying: Mapping[str, int]) -> None:
        write = writer(np.dtype(p.dtype))
        if p.kind is ParameterKind.STRIDE:
            write(self._buffer, offset, stride(arrays[p.array], p.axis))
        elif p.name in varying:
            self._scalars.append((write, offset, varying[p.name]))
        elif p.name in values:
            write(self._buffer, offset, values[p.name])
        else:
            raise InternalError(f"The parameter '{p.name}' of '{self.launch.name}' has no value.")

    def _launcher(self, write_all: Callable[..., None] | None) -> Callable[[Sequence[int], Sequence[Scalar], int], int]:
        """The launch function of a call, with everything precomputed.

        :arg write_all: writes all addresses and scalars of a call, if one call of struct can.
        """
        lock, enter, write, config = self._lock, self._enter, self._write, self._config

        def launch(addresses: Sequence[int], scalars: Sequence[Scalar], stream: int) -> int:
            with lock:                                 # the buffer belongs to one thread at a time
                if write_all is None:
                    write(addresses, scalars)
                else:
                    write_all(*addresses, *scalars)
                if stream != self._stream:
                    config.stream = self._stream = stream
                code: int = enter()
            return code
        return launch

    def _write(self, addresses: Sequence[int], scalars: Sequence[Scalar]) -> None:
        self._write_addresses(self._buffer, 0, *[addresses[i] for i in self._picks])
        for write, offset, i in self._scalars:
            write(self._buffer, offset, scalars[i])

    def enter_on(self, grid: Sequence[int], addresses: Sequence[int], scalars: Sequence[Scalar], stream: int) -> int:
        """:attr:`enter` with another grid."""
        config = self._config
        with self._lock:
            self._write(addresses, scalars)
            config.grid_x, config.grid_y, config.grid_z = grid
            if stream != self._stream:
                config.stream = self._stream = stream
            code: int = self._enter()
        return code

    def fix(self, addresses: Sequence[int], scalars: Sequence[Scalar]) -> None:
        """Write the parameters once; :meth:`again` launches with them."""
        self._write(addresses, scalars)

    def again(self, stream: int) -> int:
        """Launch with the stored parameters; returns the driver's ``CUresult``."""
        with self._lock:
            if stream != self._stream:
                self._config.stream = self._stream = stream
            code: int = self._enter()
        return code


class GpuProgram:
    """The functions of a text on one GPU.

    Their module stays loaded for the life of the process: a CUDA graph may launch them after the kernel is deleted.
    """

    def __init__(self, gpu: Gpu, cubin: bytes, launches: tuple[GeneratedKernel, ...]) -> None:
        self.gpu = gpu
        driver = gpu.driver
        with gpu:
            module = _module(gpu, cubin)
            self.functions = {launch.name: driver.function(module, launch.name) for launch in launches}
            for launch in launches:
                if launch.dynamic_shared_bytes:
                    driver.allow_shared_bytes(self.functions[launch.name], launch.dynamic_shared_bytes)


def require_grid(gpu: Gpu, launch: GeneratedKernel, grid: tuple[int, ...]) -> None:
    """:raises LimitError: the grid is larger than the GPU allows."""
    for axis, blocks, most in zip("xyz", grid, gpu.limits.grid, strict=True):
        if blocks > most:
            raise LimitError(f"blocks along {axis}", most, blocks, where=f"'{launch.name}' on {gpu}",
                             hint="map the longest iname to g.0, or split by more")
    if launch.ticketed and prod(grid) > _MOST_COUNTED:
        raise LimitError("blocks that are counted", _MOST_COUNTED, prod(grid), where=f"'{launch.name}' on {gpu}",
                         hint="split by more")


_modules: dict[tuple[Gpu, bytes], int] = {}
_lock = threading.Lock()


def _module(gpu: Gpu, cubin: bytes) -> int:
    """The module of *cubin* on *gpu*, whose context is current; loaded once."""
    key = gpu, hashlib.sha256(cubin).digest()
    with _lock:
        if key not in _modules:
            _modules[key] = gpu.driver.load_module(cubin)
        return _modules[key]
