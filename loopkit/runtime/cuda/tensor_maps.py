"""Tensor maps of a launch: encoded by the driver when the address of their array changes, and kept by address."""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from loopkit.ast.tensor_maps import SWIZZLES, UNIT, TensorMap
from loopkit.expr.evaluate import evaluate
from loopkit.runtime.cuda.driver import SUCCESS
from loopkit.runtime.typed import unmapped
from loopkit.runtime.views import ArrayView
from loopkit.target.cuda.tensor_maps import DATA_TYPES, PROMOTION, data_type

#: The bytes of a tensor map, and those of which its address is a multiple.
_BYTES, _ALIGNMENT = 128, 64

#: The most addresses whose maps a launch keeps; then all are dropped.
_MOST_KEPT = 256

#: ``cuTensorMapEncodeTiled``, which gives a ``CUresult``.
Encode = Callable[..., int]


def described_part(tensor_map: TensorMap, array: ArrayView, sizes: Mapping[str, Any]) -> ArrayView:
    """The part of *array* that *tensor_map* describes: the elements beyond the kernel's sizes are outside for TMA."""
    return replace(array, shape=tuple(int(evaluate(e, sizes)) for e in tensor_map.extents) or array.shape)


class EncodedMap:
    """The tensor map of one array among the parameters of a launch; for one thread at a time.

    :arg array: its shape and strides; the address may differ between calls.
    :ivar place: the address of the 128 bytes that the driver copies at a launch.
    """

    def __init__(self, encode: Encode, tensor_map: TensorMap, array: ArrayView) -> None:
        self._memory = (ctypes.c_char * (_BYTES + _ALIGNMENT))()
        self.place = -(-ctypes.addressof(self._memory) // _ALIGNMENT) * _ALIGNMENT
        self._array = tensor_map.array
        self._is_empty = 0 in array.shape
        self._encode = partial(_encoded, encode, self.place, tensor_map, array)
        self._known: dict[int, bytes] = {}
        self._address: int | None = None

    def describe(self, address: int) -> int:
        """Let the map describe the array at *address*, and give the ``CUresult``.

        :raises CallError: the array is empty.
        """
        if address == self._address:
            return SUCCESS
        known = self._known.get(address)
        if known is not None:
            ctypes.memmove(self.place, known, _BYTES)
        else:
            if self._is_empty:
                raise unmapped(self._array, "it is empty, and the kernel copies boxes of it",
                               f"call the kernel only if '{self._array}' has elements")
            self._address = None
            code = self._encode(address)
            if code != SUCCESS:
                return code
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            self._known[address] = ctypes.string_at(self.place, _BYTES)
        self._address = address
        return SUCCESS


def _encoded(encode: Encode, place: int, tensor_map: TensorMap, array: ArrayView, address: int) -> int:
    """Call the driver's *encode*, which counts axes from the last."""
    m, k, shape = tensor_map, tensor_map.open_axis, [*array.shape]
    strides = [*reversed(_legal_strides(array.shape, array.strides, array.itemsize))]
    box, steps = [*m.traversed], [*m.all_steps]
    if k is not None:
        address -= box[k]*strides[k]
        shape, strides = m.axes(shape, shape[k] + 1, box[k]), m.axes(strides, strides[k], strides[k])
        box, steps = m.axes(box, 1, box[k]), m.axes(steps, 1, steps[k])
    rank = len(shape)
    # a vector has no stride that the driver reads
    return encode(
        ctypes.c_void_p(place), ctypes.c_int(DATA_TYPES.index(data_type(array.dtype))), ctypes.c_uint32(rank),
        ctypes.c_void_p(address), (ctypes.c_uint64 * rank)(*reversed(shape)),
        (ctypes.c_uint64 * max(rank - 1, 1))(*reversed(strides)), (ctypes.c_uint32 * rank)(*reversed(box)),
        (ctypes.c_uint32 * rank)(*reversed(steps)), ctypes.c_int(0),
        ctypes.c_int(SWIZZLES.index(tensor_map.swizzle)), ctypes.c_int(PROMOTION), ctypes.c_int(0))


def _legal_strides(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> list[int]:
    """The strides of all axes but the last, from the last but one to the first.

    An axis of one element gets a stride that the driver takes: that of its array is open.
    """
    found, inner = list[int](), itemsize * shape[-1]
    for extent, stride in zip(shape[-2::-1], strides[-2::-1], strict=True):
        found.append(stride if extent > 1 else -(-inner // UNIT) * UNIT)
        inner = found[-1] * extent
    return found
