"""Arrays of libraries that are not there, on GPUs that are not there: what the runtime uses of each, and no more."""
from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

from loopkit.runtime.cuda.memory import export_capsule
from loopkit.runtime.views import ArrayView
from tests.runtime.cuda.fake_gpu import Machine, Stream

NAMES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
         "float8_e4m3fn", "float8_e5m2", "float32", "float64", "complex64", "complex128")


def numpy_dtype(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


class Block:
    """Memory of an allocator that keeps what is freed for what comes later on the same stream."""

    def __init__(self, machine: Machine, ordinal: int, size: int, stream: int) -> None:
        self._machine, self._stream = machine, stream
        with machine.context(machine.primary(ordinal)):
            self._memory = machine.allocate(max(size, 1), "torch or cupy")

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        count = int(np.prod(shape)) * dtype.itemsize
        return self._memory.bytes()[:count].view(dtype).reshape(shape)

    def __del__(self) -> None:
        if hasattr(self, "_memory"):
            stream = self._machine.streams.get(self._stream)
            self._machine.give_back(self._memory, self._stream if stream is not None else 0)


class OnGpu:
    """A view of memory on a GPU.

    :ivar array: the same for numpy, which nobody may read before its stream was waited for.
    """

    def __init__(self, machine: Machine, ordinal: int, owner: Any, array: np.ndarray) -> None:
        self.machine, self.ordinal, self.owner, self.array = machine, ordinal, owner, array

    @property
    def pointer(self) -> int:
        return self.array.ctypes.data if self.array.size else 0

    def fill(self, value: Any, stream: int) -> None:
        """Set all elements on *stream*; *value* may be an array."""
        kept, array = np.array(value), self.array

        def run() -> None:
            array[...] = kept
        self.machine.enqueue("fill", stream, run, self.machine.primary(self.ordinal))

    def read(self, stream: int) -> np.ndarray:
        """The elements, when *stream* has come so far."""
        array = self.array
        found = np.empty(array.shape, array.dtype)

        def run() -> None:
            found[...] = array
        self.machine.finish(self.machine.enqueue("read", stream, run, self.machine.primary(self.ordinal)))
        return found


class CurrentStreams:
    """The stream that a library works on, by thread and device."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._local = threading.local()

    def of(self, ordinal: int) -> int:
        return int(getattr(self._local, f"on{ordinal}", 0))

    @contextmanager
    def using(self, ordinal: int, handle: int) -> Iterator[None]:
        before = self.of(ordinal)
        setattr(self._local, f"on{ordinal}", handle)
        try:
            yield
        finally:
            setattr(self._local, f"on{ordinal}", before)


# Torch

class TorchDtype:
    def __init__(self, name: str) -> None:
        self.name = name
        self.is_complex = name.startswith("complex")

    def __repr__(self) -> str:
        return f"torch.{self.name}"


class TorchDevice:
    def __init__(self, kind: str, index: int | None = None) -> None:
        self.type, self.index = kind, index

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"


class Tensor:
    """``torch.Tensor``: *data* is numpy's array, or one on a GPU."""

    def __init__(self, torch: Any, data: np.ndarray | OnGpu, *, dtype: TorchDtype | None = None, **flags: bool) -> None:
        self.torch, self.data = torch, data
        array = data.array if isinstance(data, OnGpu) else data
        self._array = array
        self.dtype = getattr(torch, array.dtype.name) if dtype is None else dtype
        self.shape = array.shape
        self.requires_grad = flags.get("requires_grad", False)
        self._neg, self._conj = flags.get("neg", False), flags.get("conj", False)
        self.layout = torch.sparse_coo if flags.get("sparse") else torch.strided
        self._meta = flags.get("meta", False)

    @property
    def device(self) -> TorchDevice:
        if self._meta:
            return TorchDevice("meta")
        return TorchDevice("cuda", self.data.ordinal) if isinstance(self.data, OnGpu) else TorchDevice("cpu")

    def get_device(self) -> int:
        return self.data.ordinal if isinstance(self.data, OnGpu) else -1

    def stride(self) -> tuple[int, ...]:
        if self.layout is not self.torch.strided:
            raise RuntimeError("sparse tensors do not have strides")
        return tuple(s // self._array.itemsize for s in self._array.strides)

    def is_contiguous(self) -> bool:
        if self.layout is not self.torch.strided:
            raise RuntimeError("sparse tensors do not have is_contiguous")
        return bool(self._array.flags.c_contiguous)

    def data_ptr(self) -> int:
        return 0 if self._meta or not self._array.size else self._array.ctypes.data

    def is_neg(self) -> bool:
        return self._neg

    def is_conj(self) -> bool:
        return self._conj

    def numpy(self) -> np.ndarray:
        assert isinstance(self.data, np.ndarray)
        if self.dtype.name == "bfloat16" or self.dtype.name.startswith("float8"):
            raise TypeError(f"Got unsupported ScalarType {self.dtype.name}")
        return self.data

    def view(self, dtype: TorchDtype) -> Tensor:
        assert isinstance(self.data, np.ndarray)
        return Tensor(self.torch, self.data.view(numpy_dtype(dtype.name)), dtype=dtype)

    def __getitem__(self, index: Any) -> Tensor:
        return self.seen(lambda a: a[index])

    def seen(self, how: Any) -> Tensor:
        """A view: *how* makes one of numpy's array."""
        data = how(self._array)
        return Tensor(self.torch, OnGpu(self.data.machine, self.data.ordinal, self.data.owner, data)
                      if isinstance(self.data, OnGpu) else data, dtype=self.dtype)

    def flagged(self, **flags: bool) -> Tensor:
        return Tensor(self.torch, self.data, dtype=self.dtype, **flags)

    def fill_(self, value: Any) -> Tensor:
        if isinstance(self.data, OnGpu):
            self.data.fill(value, self.torch.streams.of(self.data.ordinal))
        else:
            self._array[...] = value
        return self

    def cuda(self, ordinal: int = 0) -> Tensor:
        made: Tensor = self.torch.empty(self.shape, dtype=self.dtype, device=TorchDevice("cuda", ordinal))
        return made.fill_(self._array)

    def cpu(self) -> Tensor:
        if isinstance(self.data, np.ndarray):
            return self
        return Tensor(self.torch, self.data.read(self.torch.streams.of(self.data.ordinal)), dtype=self.dtype)


def fake_torch(machine: Machine, *, raw: bool = True) -> Any:
    """The module; :arg raw: it has the private way to the current stream."""
    torch: Any = ModuleType("torch")
    for name in NAMES:
        setattr(torch, name, TorchDtype(name))
    torch.strided, torch.sparse_coo = "torch.strided", "torch.sparse_coo"
    torch.Tensor, torch.device = Tensor, TorchDevice
    torch.streams = streams = CurrentStreams(machine)
    torch._C = SimpleNamespace(_cuda_getCurrentRawStream=streams.of) if raw else SimpleNamespace()
    torch.cuda = SimpleNamespace(
        current_stream=lambda ordinal: SimpleNamespace(cuda_stream=streams.of(ordinal)),
        Stream=lambda ordinal=0: _TorchStream(machine, ordinal),
        stream=lambda stream: streams.using(stream.ordinal, stream.cuda_stream))
    torch.from_numpy = lambda array: Tensor(torch, array)

    def empty(shape: Any, *, dtype: TorchDtype, device: TorchDevice) -> Tensor:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        assert device.index is not None
        kind = numpy_dtype(dtype.name)
        block = Block(machine, device.index, int(np.prod(shape)) * kind.itemsize, streams.of(device.index))
        return Tensor(torch, OnGpu(machine, device.index, block, block.array(shape, kind)), dtype=dtype)
    torch.empty = empty
    torch.zeros = lambda shape, *, dtype, device: empty(shape, dtype=dtype, device=device).fill_(0)
    return torch


class _TorchStream:
    """``torch.cuda.Stream``: does not wait for the legacy stream."""

    def __init__(self, machine: Machine, ordinal: int) -> None:
        self.ordinal = ordinal
        self._stream: Stream = machine.new_stream(blocking=False, context=machine.primary(ordinal))
        self.cuda_stream = self._stream.handle


# Cupy, pycuda

class CupyArray(OnGpu):
    """``cupy.ndarray``."""

    def __init__(self, cupy: Any, ordinal: int, owner: Any, array: np.ndarray) -> None:
        super().__init__(cupy.machine, ordinal, owner, array)
        self.cupy = cupy
        self.dtype, self.shape, self.strides = array.dtype, array.shape, array.strides
        self.data = SimpleNamespace(ptr=self.pointer, device_id=ordinal)

    def seen(self, how: Any) -> CupyArray:
        return CupyArray(self.cupy, self.ordinal, self.owner, how(self.array))

    def get(self) -> np.ndarray:
        return self.read(self.cupy.streams.of(self.ordinal))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"version": 3, "typestr": self.dtype.str, "shape": self.shape, "strides": self.strides,
                "data": (self.pointer, False), "stream": None}


def fake_cupy(machine: Machine) -> Any:
    cupy: Any = ModuleType("cupy")
    cupy.machine, cupy.ndarray = machine, CupyArray
    cupy.streams = streams = CurrentStreams(machine)

    def here() -> int:
        return machine.ordinal_of(machine.current) if machine.current else 0

    def empty(shape: Any, dtype: Any = np.float64) -> CupyArray:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        kind = np.dtype(dtype)
        block = Block(machine, here(), int(np.prod(shape)) * kind.itemsize, streams.of(here()))
        return CupyArray(cupy, here(), block, block.array(shape, kind))

    def filled(shape: Any, dtype: Any, value: Any) -> CupyArray:
        made = empty(shape, dtype)
        made.fill(value, streams.of(here()))
        return made
    cupy.empty = empty
    cupy.zeros = lambda shape, dtype=np.float64: filled(shape, dtype, 0)
    cupy.asarray = lambda a: filled(a.shape, a.dtype, a)
    cupy.cuda = SimpleNamespace(
        Device=lambda ordinal: machine.context(machine.primary(ordinal)),
        get_current_stream=lambda device_id=-1: SimpleNamespace(
            ptr=streams.of(here() if device_id < 0 else device_id)))
    return cupy


def fill_gpuarray(module: Any, driver: Any, machine: Machine) -> None:
    """Put ``GPUArray`` into ``pycuda.gpuarray``."""

    class GPUArray:
        def __init__(self, shape: tuple[int, ...], dtype: Any, gpudata: Any = None, strides: Any = None) -> None:
            self.shape, self.dtype = tuple(shape), np.dtype(dtype)
            self.size = int(np.prod(self.shape))
            self.nbytes = self.size * self.dtype.itemsize
            self.gpudata = gpudata
            if gpudata is None and self.size:
                self.gpudata = driver.mem_alloc(self.nbytes)
            self.strides = np.empty(self.shape, self.dtype).strides if strides is None else strides

        def get(self) -> np.ndarray:
            found = np.empty(self.shape, self.dtype)
            if self.size:
                with machine.context(machine.find(int(self.gpudata)).context):     # type: ignore[union-attr]
                    driver.memcpy_dtoh(found.reshape(-1).view(np.uint8), int(self.gpudata))
            return found

    def to_gpu(array: np.ndarray) -> GPUArray:
        made = GPUArray(array.shape, array.dtype)
        if array.size:
            driver.memcpy_htod(int(made.gpudata), np.ascontiguousarray(array).reshape(-1).view(np.uint8))
        return made
    module.GPUArray, module.to_gpu, module.drv = GPUArray, to_gpu, driver
    module.empty = lambda shape, dtype: GPUArray((shape,) if isinstance(shape, int) else shape, dtype)


# Arrays that have a protocol only

class Interface:
    """Nothing but ``__cuda_array_interface__``; *changes* replace entries of it."""

    def __init__(self, on_gpu: Any, **changes: Any) -> None:
        self.on_gpu = on_gpu
        array = on_gpu.array
        self.told: dict[str, Any] = {
            "version": 3, "typestr": array.dtype.str, "shape": array.shape, "strides": array.strides,
            "data": (on_gpu.pointer, False), "stream": None, **changes}

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.told

    def get(self) -> np.ndarray:
        return self.on_gpu.read(self.told["stream"] or 0)


class Exporter:
    """Nothing but DLPack, of a library that works on a stream of its own.

    :arg namespace: what ``__array_namespace__`` gives.
    """

    def __init__(self, data: OnGpu, stream: int = 0, namespace: Any = None) -> None:
        self.on_gpu, self._stream = data, stream
        self.asked: list[Any] = []
        if namespace is not None:
            self.__array_namespace__ = lambda: namespace

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.on_gpu.ordinal

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> Any:
        self.asked.append(stream)
        machine, context = self.on_gpu.machine, self.on_gpu.machine.primary(self.on_gpu.ordinal)
        last = machine.enqueue("record", self._stream, lambda: None, context)
        machine.enqueue("wait", 0 if stream in (None, 1) else stream, lambda: None, context, last)
        array = self.on_gpu.array
        return export_capsule(ArrayView(array.dtype, array.shape, array.strides, self.on_gpu.pointer,
                                        self.on_gpu.ordinal), self.on_gpu.owner)

    def get(self) -> np.ndarray:
        return self.on_gpu.read(self._stream)


def on_gpu(machine: Machine, array: np.ndarray, ordinal: int = 0, stream: int = 0) -> OnGpu:
    """A copy of *array*, in C order, made on *stream*."""
    block = Block(machine, ordinal, array.nbytes, stream)
    made = OnGpu(machine, ordinal, block, block.array(array.shape, array.dtype))
    made.fill(array, stream)
    return made
