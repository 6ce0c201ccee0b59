"""The array libraries that support only GPUs."""
from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

import numpy as np

from loopkit.errors import CallError
from loopkit.runtime.cuda.devices import driver_in_use, find_gpu
from loopkit.runtime.cuda.driver import Driver
from loopkit.runtime.cuda.memory import DeviceArray, Imported, allocate
from loopkit.runtime.kinds import (
    ON_GPU,
    ArrayKinds,
    ArraySignature,
    Kind,
    dlpack_device,
    general_kind,
    host_view,
    not_an_array,
    unreadable,
)
from loopkit.runtime.views import ArrayView, NumpyArray, c_strides


class CupyKind(Kind):
    """CuPy's arrays."""

    name = "cupy"

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy

    def signature(self, x: Any) -> tuple[ArraySignature, int]:
        data = x.data
        return ("cupy", x.dtype, x.shape, x.strides, data.device_id), data.ptr

    def view(self, name: str, x: Any) -> ArrayView:
        return ArrayView(np.dtype(x.dtype), x.shape, x.strides, int(x.data.ptr), int(x.data.device_id))

    def new(self, shape: tuple[int, ...], dtype: np.dtype[Any], ordinal: int | None, *, zero: bool) -> Any:
        with self.cupy.cuda.Device(ordinal):
            return self.cupy.zeros(shape, dtype) if zero else self.cupy.empty(shape, dtype)

    def stream(self, ordinal: int) -> Callable[[], int]:
        current = self.cupy.cuda.get_current_stream    # a stream per device
        return lambda: int(current(ordinal).ptr)


class PycudaKind(Kind):
    """``pycuda.gpuarray.GPUArray``."""

    name = "pycuda"

    def __init__(self, gpuarray: Any, driver: Driver) -> None:
        self.gpuarray = gpuarray
        self._memset = gpuarray.drv.memset_d8
        self._driver = driver

    def signature(self, x: Any) -> tuple[ArraySignature, int]:
        pointer = int(x.gpudata) if x.size else 0
        # each context has memory of its own, so the device alone is not enough
        return ("pycuda", x.dtype, x.shape, x.strides, self._driver.place(pointer) if pointer else None), pointer

    def view(self, name: str, x: Any) -> ArrayView:
        (_, dtype, shape, strides, place), pointer = self.signature(x)
        return ArrayView(np.dtype(dtype), tuple(shape), tuple(strides), pointer, _ordinal(name, pointer, place))

    def new(self, shape: tuple[int, ...], dtype: np.dtype[Any], ordinal: int | None, *, zero: bool) -> Any:
        made = self.gpuarray.empty(shape, dtype)
        if zero and made.nbytes:
            self._memset(int(made.gpudata), 0, made.nbytes)
        return made


class InterfaceKind(Kind):
    """Arrays that have only ``__cuda_array_interface__``, e.g. numba's; *adopt* makes one of a :class:`DeviceArray`."""

    name = "__cuda_array_interface__"

    def __init__(self, driver: Driver, adopt: Callable[[DeviceArray], Any]) -> None:
        self._driver = driver
        self._adopt = adopt

    def signature(self, x: Any) -> tuple[ArraySignature, int]:
        interface = x.__cuda_array_interface__
        pointer, read_only = interface["data"][0] or 0, interface["data"][1]
        strides, dtype = interface.get("strides"), getattr(x, "dtype", None)
        # the object's own dtype may be more specific than the type string, which has no dtypes of ml_dtypes
        dtype = dtype if isinstance(dtype, np.dtype) else None
        return ((type(x), interface["typestr"], dtype, tuple(interface["shape"]),
                 None if strides is None else tuple(strides), read_only, interface.get("mask") is None,
                 interface.get("stream"), self._driver.place(pointer) if pointer else None), pointer)

    def view(self, name: str, x: Any) -> ArrayView:
        (_, typestr, dtype, shape, strides, read_only, unmasked, _, place), pointer = self.signature(x)
        if not unmasked:
            raise CallError(f"'{name}' has a mask, which the kernel would ignore.", argument=name)
        if dtype is None or dtype.itemsize != np.dtype(typestr).itemsize:
            dtype = np.dtype(typestr)
        return ArrayView(dtype, shape, c_strides(shape, dtype.itemsize) if strides is None else strides, pointer,
                         _ordinal(name, pointer, place), not read_only)

    def new(self, shape: tuple[int, ...], dtype: np.dtype[Any], ordinal: int | None, *, zero: bool) -> Any:
        return self._adopt(allocate(find_gpu(ordinal), shape, dtype, zero=zero))


class OwnKind(Kind):
    """Our own :class:`DeviceArray`, also one that DLPack imported from the library *namespace*."""

    name = "loopkit"

    def __init__(self, namespace: Any = None) -> None:
        self._namespace = namespace
        self.makes_others = hasattr(namespace, "from_dlpack")

    def signature(self, x: DeviceArray) -> tuple[ArraySignature, int]:
        return (("loopkit", x.dtype, x.shape, x.strides, x.ordinal, x.view.writeable, x.imported, x.namespace),
                x.pointer)

    def view(self, name: str, x: DeviceArray) -> ArrayView:
        return x.view

    def new(self, shape: tuple[int, ...], dtype: np.dtype[Any], ordinal: int | None, *, zero: bool) -> Any:
        return allocate(find_gpu(ordinal), shape, dtype, zero=zero)

    def of_outputs(self, x: DeviceArray) -> OwnKind:
        return OwnKind(x.namespace)

    def exported(self, x: DeviceArray) -> Any:
        return self._namespace.from_dlpack(x) if self.makes_others else x


class CudaArrayKinds(ArrayKinds):
    """The kinds of the host, of libraries that support only GPUs, and of arrays on a GPU with DLPack."""

    def __init__(self) -> None:
        super().__init__()
        self._driver = driver_in_use()
        self._kinds[DeviceArray] = OwnKind()

    def _library(self, x: Any) -> Kind | None:
        kind = general_kind(x)
        if kind is not None:
            return kind
        cupy, gpuarray = sys.modules.get("cupy"), sys.modules.get("pycuda.gpuarray")
        if cupy is not None and isinstance(x, cupy.ndarray):
            return CupyKind(cupy)
        if gpuarray is not None and isinstance(x, gpuarray.GPUArray):
            return PycudaKind(gpuarray, self._driver)
        if not dlpack_device(x) and hasattr(x, "__cuda_array_interface__"):
            return InterfaceKind(self._driver, _adopter(x))
        return None

    def _imported(self, name: str, x: Any) -> NumpyArray | DeviceArray:
        """*x* without a copy, ordered before later launches on the legacy stream."""
        device = dlpack_device(x)
        if not device:
            raise not_an_array(name, x)
        if device not in ON_GPU:
            return host_view(name, x)
        try:
            held = Imported(_capsule(x))
        except (BufferError, TypeError, ValueError, RuntimeError) as err:
            raise unreadable(name, err) from None
        if held.device_type not in ON_GPU:
            raise CallError(f"'{name}' reports a GPU through DLPack, but its memory is not on a GPU.", argument=name)
        space = getattr(x, "__array_namespace__", None)
        namespace = space() if callable(space) else None
        # jax arrays are immutable, but their capsules are not marked read-only
        immutable = type(x).__module__.split(".")[0] in ("jax", "jaxlib")
        return DeviceArray(replace(held.view, writeable=False) if immutable else held.view, (held, x), imported=True,
                           # it is part of the signature of calls
                           namespace=namespace if isinstance(namespace, Hashable) else None)


def _adopter(x: Any) -> Callable[[DeviceArray], Any]:
    """The function by which the library of *x* makes an array of its own over our memory."""
    if type(x).__module__.split(".")[0] in ("numba", "numba_cuda"):
        from numba import cuda
        return cuda.as_cuda_array                      # type: ignore[no-any-return]
    return lambda array: array


def _capsule(x: Any) -> Any:
    try:
        return x.__dlpack__(stream=1, max_version=(1, 0))
    except TypeError:                                  # the library precedes version 1 of the standard
        return x.__dlpack__(stream=1)


def _ordinal(name: str, pointer: int, place: tuple[int, int] | None) -> int:
    """The device of *pointer* in *place*, -1 for none (an empty array's)."""
    if not pointer:
        return -1
    if place is None:
        raise CallError(f"'{name}' reports a GPU as its place, but no GPU has its address.", argument=name)
    return place[0]
