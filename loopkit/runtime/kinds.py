"""The array libraries that kernels accept: how to read and make their arrays, and their current stream.

No library is imported here unless one of its arrays was passed.
"""
from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np

from loopkit.errors import CallError
from loopkit.expr.kinds import DTYPE_NAMES, is_of_ml_dtypes, is_tuple, named_dtype
from loopkit.expr.tuples import dtype_text
from loopkit.kernel.target import target_of_arrays
from loopkit.runtime.views import ArrayView, NumpyArray, address_of, strided_array

#: The handle of the legacy stream, which is ordered with all others.
LEGACY_STREAM = 0

#: Everything that a check of an array depends on except its address; hashable. The first entry is their number.
ArraySignature = tuple[Any, ...]
#: Reads the arrays at given positions of a call's values: their concatenated signatures, and their addresses. ``None``:
#: an array has a type that this reader does not support, or no address.
Reader = Callable[[Sequence[Any], Sequence[int]], tuple[list[Hashable], list[int]] | None]
#: DLPack's devices with addresses of NVIDIA's GPUs: CUDA, and CUDA managed.
ON_GPU = (2, 13)
#: Errors of arrays of other libraries without an address: deleted arrays, or arrays without a protocol.
_SILENT = (RuntimeError, AttributeError, TypeError, KeyError, ValueError)


class Kind(ABC):
    """One library's arrays."""

    name: ClassVar[str]
    #: Must a result be complete before :meth:`exported` makes it an array of another library?
    makes_others: bool = False

    @abstractmethod
    def signature(self, x: Any) -> tuple[ArraySignature, int]:
        """Everything that a check of *x* depends on except its address, and the address."""

    def address(self, x: Any) -> int:
        return self.signature(x)[1]

    @abstractmethod
    def view(self, name: str, x: Any) -> ArrayView:
        """*x*, the argument *name*, for checks; :raises CallError: it is not supported."""

    def numpy(self, x: Any) -> NumpyArray:
        """*x*, an array in the host's memory, as numpy's over the same memory."""
        raise NotImplementedError(f"{self.name} has no arrays in the host's memory")

    @abstractmethod
    def new(self, shape: tuple[int, ...], dtype: np.dtype[Any], ordinal: int | None, *, zero: bool) -> Any:
        """A new array in C order; zeroed or uninitialized.

        :arg ordinal: its device, whose context is current; ``None``: the host.
        """

    def strided(self, name: str, view: ArrayView, *, zero: bool) -> Any:
        """A new array with the shape and the strides of *view*; :raises CallError: the kind has none in this memory."""
        raise CallError(f"'{name}' is missing: its declared layout is not that of a new array.", argument=name,
                        hint=f"pass {name}=... with its declared strides")

    def of_outputs(self, x: Any) -> Kind:
        """The kind of the outputs of a call whose first array on a GPU is *x*."""
        return self

    def stream(self, ordinal: int) -> Callable[[], int]:
        """A function that gives the handle of the library's current stream."""
        return lambda: LEGACY_STREAM

    def exported(self, x: Any) -> Any:
        """A complete result as an array of the arguments' library."""
        return x


class NumpyKind(Kind):
    """numpy's arrays."""

    name = "numpy"

    def signature(self, x: NumpyArray) -> tuple[ArraySignature, int]:
        # some subclasses are rejected
        return (type(x), x.dtype, x.shape, x.strides, x.flags.num), address_of(x)

    def address(self, x: NumpyArray) -> int:
        return address_of(x)

    def view(self, name: str, x: NumpyArray) -> ArrayView:
        if isinstance(x, np.ma.MaskedArray):
            raise CallError(f"'{name}' is a masked array, whose mask the kernel would ignore.", argument=name,
                            hint=f"pass {name}.filled(...)")
        return ArrayView.of(x)

    def numpy(self, x: NumpyArray) -> NumpyArray:
        return x

    def new(self, shape: tuple[int, ...], dtype: np.dtype[Any], ordinal: int | None, *, zero: bool) -> NumpyArray:
        return np.zeros(shape, dtype) if zero else np.empty(shape, dtype)

    def strided(self, name: str, view: ArrayView, *, zero: bool) -> NumpyArray:
        return strided_array(view, zero=zero)


class TorchKind(Kind):
    """torch's tensors, on a GPU or in the host's memory."""

    name = "torch"

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self._tensor = torch.Tensor
        # a dtype has the same name in torch and numpy
        self._names = {getattr(torch, name): name for name in DTYPE_NAMES.values() if hasattr(torch, name)}
        self._torch_dtypes = {d: t for t, d in self._names.items()}
        self._complex = frozenset(t for t in self._names if t.is_complex)
        # looked up once: a fraction of a microsecond per tensor matters
        self._methods = tuple(getattr(torch.Tensor, name) for name in (
            "is_contiguous", "stride", "get_device", "is_neg", "data_ptr"))
        # the public function takes as long as a launch
        self._raw_stream: Callable[[int], int] = getattr(
            torch._C, "_cuda_getCurrentRawStream",                          # noqa: SLF001
            lambda ordinal: int(torch.cuda.current_stream(ordinal).cuda_stream))

    def signature(self, x: Any) -> tuple[ArraySignature, int]:
        dtype = x.dtype
        # in C order strides are redundant: is_contiguous() costs less than stride()
        found = (dtype, x.shape, x.is_contiguous() or x.stride(), x.get_device(), x.requires_grad, x.is_neg())
        return (*found, x.is_conj()) if dtype in self._complex else found, x.data_ptr()

    def address(self, x: Any) -> int:
        return int(x.data_ptr())

    def is_plain(self, x: Any) -> bool:
        """Can :meth:`read_plain` read *x*, now and at later calls?"""
        return type(x) is self._tensor and x.dtype not in self._complex

    def read_plain(self, values: Sequence[Any], positions: Sequence[int]) -> tuple[list[Hashable], list[int]] | None:
        """A :data:`Reader` for plain tensors of real numbers: :meth:`signature` of each, in one loop.

        The entries of a complex tensor here are never its signature, so the two cannot be confused.
        """
        tensor = self._tensor
        is_contiguous, stride, get_device, is_neg, data_ptr = self._methods
        signature: list[Hashable] = []
        addresses = []
        try:
            for i in positions:
                x = values[i]
                if type(x) is not tensor:
                    return None
                signature += (x.dtype, x.shape, is_contiguous(x) or stride(x), get_device(x), x.requires_grad,
                              is_neg(x))
                addresses.append(data_ptr(x))
        except RuntimeError:                           # a tensor without strides, or without memory of its own
            return None
        return signature, addresses

    def view(self, name: str, x: Any) -> ArrayView:
        if x.layout != self.torch.strided:
            raise CallError(f"'{name}' is a tensor of the layout {x.layout}.", argument=name,
                            hint=f"pass {name}.to_dense(), or the dense tensors that it is made of")
        if x.requires_grad:
            raise CallError(f"'{name}' requires a gradient, which the kernel would not propagate.", argument=name,
                            hint=f"pass {name}.detach()")
        if x.is_neg() or x.is_conj():
            raise CallError(f"'{name}' is a view whose elements are stored negated or conjugated.", argument=name,
                            hint=f"pass {name}.resolve_neg().resolve_conj()")
        if x.dtype not in self._names:
            raise CallError(f"'{name}' has the dtype {x.dtype}, which kernels do not support.", argument=name)
        dtype = named_dtype(self._names[x.dtype])
        if x.device.type not in ("cpu", "cuda"):
            raise CallError(f"'{name}' is on the device '{x.device}', which kernels cannot access.", argument=name,
                            hint=f"pass {name}.cuda() or {name}.cpu()")
        size = dtype.itemsize
        return ArrayView(dtype, tuple(x.shape), tuple(s * size for s in x.stride()), x.data_ptr(),
                         x.get_device() if x.device.type == "cuda" else None)

    def numpy(self, x: Any) -> NumpyArray:
        dtype = named_dtype(self._names[x.dtype])
        plain = x.view(self._as_integers(dtype)) if is_of_ml_dtypes(dtype) else x
        return np.asarray(plain.numpy()).view(dtype)

    def new(self, shape: tuple[int, ...], dtype: np.dtype[Any], ordinal: int | None, *, zero: bool) -> Any:
        if is_tuple(dtype):
            raise CallError(f"torch has no tensors of structs {dtype_text(dtype)}, so an output cannot be one.",
                            argument="", hint="pass a numpy array for it, or write the fields to arrays of their own")
        if ordinal is None:                            # numpy zeroes large arrays when they are touched
            plain = np.dtype(f"i{dtype.itemsize}") if is_of_ml_dtypes(dtype) else dtype
            made = self.torch.from_numpy(NUMPY.new(shape, plain, None, zero=zero))
            return made.view(self._torch_dtypes[dtype.name]) if plain != dtype else made
        make = self.torch.zeros if zero else self.torch.empty
        return make(shape, dtype=self._torch_dtypes[dtype.name], device=self.torch.device("cuda", ordinal))

    def _as_integers(self, dtype: np.dtype[Any]) -> Any:
        """The integers as which numpy and torch exchange elements of *dtype*, of which numpy has no own."""
        return self.torch.int8 if dtype.itemsize == 1 else self.torch.int16

    def stream(self, ordinal: int) -> Callable[[], int]:
        return partial(self._raw_stream, ordinal)


NUMPY = NumpyKind()
_torch_kind = lru_cache(maxsize=1)(TorchKind)


class ArrayKinds:
    """The kind of each array type passed so far: numpy's, torch's, and arrays in the host's memory with DLPack."""

    def __init__(self) -> None:
        self._kinds: dict[type, Kind] = {np.ndarray: NUMPY}

    def of(self, x: object) -> Kind:
        """The kind of an opened array."""
        return self._kinds[type(x)]

    def open(self, name: str, x: Any) -> Any:
        """*x*, or its replacement, of a type that is supported from now on; :raises CallError: it is not an array."""
        if type(x) not in self._kinds:
            kind = self._library(x)
            if kind is None:
                return self._imported(name, x)
            self._kinds[type(x)] = kind
        return x

    def _library(self, x: Any) -> Kind | None:
        """The kind of *x*, of a type that was not passed before, if it is not imported at each call."""
        return general_kind(x)

    def _imported(self, name: str, x: Any) -> Any:
        """The replacement of *x*; :raises CallError: it is not an array."""
        return host_view(name, x)

    def signature(self, name: str, x: Any) -> tuple[ArraySignature, int]:
        """The signature of the opened array *x*, and its address; :raises CallError: it has none."""
        try:
            return self.of(x).signature(x)
        except _SILENT as err:
            try:
                self.of(x).view(name, x)               # its kind may raise a more specific error
            except CallError:                          # which is a RuntimeError, too
                raise
            except _SILENT:
                pass
            raise CallError(f"The memory of '{name}' is unknown: {err}.", argument=name) from None

    def read(self, values: Sequence[Any], positions: Sequence[int]) -> tuple[list[Hashable], list[int]] | None:
        """The :data:`Reader` for arrays of all types passed so far."""
        kinds = self._kinds
        result: list[Hashable] = []
        addresses = []
        try:
            for i in positions:
                x = values[i]
                kind = kinds.get(type(x))
                if kind is None:
                    return None
                found, address = kind.signature(x)
                result += found
                addresses.append(address)
        except _SILENT:
            return None
        return result, addresses

    def reader(self, arrays: Sequence[Any]) -> Reader:
        """The fastest reader of *arrays*."""
        kind = self._kinds.get(type(arrays[0])) if arrays else None
        return kind.read_plain if isinstance(kind, TorchKind) and all(map(kind.is_plain, arrays)) else self.read


def general_kind(x: object) -> Kind | None:
    """The kind of *x*, if it is an array of numpy or torch; arrays of both may be in the host's memory."""
    if isinstance(x, np.ndarray):
        return NUMPY
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return _torch_kind(torch)
    return None


def host_view(name: str, x: object) -> NumpyArray:
    """The argument *name* as a numpy array over the same memory; :raises CallError: it is not an array of the host."""
    kind, device = general_kind(x), dlpack_device(x)
    if kind is None and device in (1, 3):
        try:
            return np.from_dlpack(x)              # type: ignore[arg-type]
        except (BufferError, TypeError, ValueError, RuntimeError) as err:
            raise unreadable(name, err) from None
    if kind is not None and kind.view(name, x).on_host:
        return kind.numpy(x)
    if (target := target_of_arrays((x,))) is not None:
        raise CallError(f"'{name}' is an array of the target '{target}', and the kernel was compiled for another one.",
                        argument=name, hint=f"compile(knl, target={target!r}), or copy the array to the host")
    if kind is not None or device in ON_GPU or hasattr(x, "__cuda_array_interface__"):
        raise CallError(f"'{name}' lies on a GPU, and the kernel runs on the host here.", argument=name,
                        hint="compile(knl, target='cuda') runs it on the GPU, or copy the array to the host")
    raise not_an_array(name, x)


def unreadable(name: str, err: Exception) -> CallError:
    """The error for an argument whose library refuses its capsule."""
    return CallError(f"'{name}' cannot be read through DLPack: {err}.", argument=name)


def not_an_array(name: str, x: object) -> CallError:
    """The error for an argument that is not an array."""
    return CallError(f"'{name}' must be an array, not {type(x).__name__}.", argument=name,
                     hint=f"pass np.asarray({name}), with the dtype of the argument")


def dlpack_device(x: object) -> int:
    """The kind of device of an array with DLPack: 1 the host, 2 CUDA, 3 pinned, 13 managed; 0 without DLPack."""
    ask = getattr(x, "__dlpack_device__", None)
    try:
        return int(ask()[0]) if callable(ask) else 0
    except (BufferError, RuntimeError, TypeError, ValueError):
        return 0
