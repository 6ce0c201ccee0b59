"""The view of an array that a call needs, in numpy's terms, on the host or a GPU; tests for shared memory."""
from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from operator import itemgetter
from types import SimpleNamespace
from typing import Any, Self

import numpy as np

from loopkit.target.code import Extent, Parameter, Stride

NumpyArray = np.ndarray[Any, np.dtype[Any]]

_word_at = ctypes.c_size_t.from_address
_ARRAY = np.zeros(1)

#: Does the address of the data follow the head of numpy's arrays? The C interface of numpy 1 and 2 has it there, where
#: every compiled extension reads it. The size of the head is right in debug and free-threaded builds, too. The
#: supported ``array.ctypes.data`` takes six times as long: with two arrays, a third of the time of a small call.
_IS_FIRST = sys.implementation.name == "cpython" and _word_at(id(_ARRAY) + object.__basicsize__).value == \
    _ARRAY.ctypes.data


def address_of(array: NumpyArray) -> int:
    """The address of the element with all subscripts 0."""
    return _word_at(id(array) + object.__basicsize__).value if _IS_FIRST else array.ctypes.data


#: Most work of the exact overlap test (in numpy's measure); above it, overlapping address ranges count as overlap.
_WORK = 10_000


@dataclass(frozen=True, slots=True)
class ArrayView:
    """The place and form of an array on the host or a GPU, with the attributes of numpy's arrays that checks use.

    :ivar pointer: the address of the element with all subscripts 0; 0 for an array that a call will allocate.
    :ivar ordinal: its GPU, -1 for none (an empty array's); ``None``: the array is in the host's memory.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    pointer: int = 0
    ordinal: int | None = None
    writeable: bool = True

    @classmethod
    def packed(cls, shape: tuple[int, ...], dtype: np.dtype[Any], ordinal: int | None = None, pointer: int = 0) -> Self:
        """An array in C order."""
        return cls(dtype, shape, c_strides(shape, dtype.itemsize), pointer, ordinal)

    @classmethod
    def of(cls, array: NumpyArray) -> Self:
        return cls(array.dtype, array.shape, array.strides, address_of(array), None, array.flags.writeable)

    @property
    def on_host(self) -> bool:
        return self.ordinal is None

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def alignment(self) -> int:
        """The bytes whose multiple its address must be."""
        return self.dtype.alignment if self.on_host else self.itemsize

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.itemsize

    @property
    def span(self) -> tuple[int, int]:
        """The first byte and the one after the last, relative to the pointer; equal for an empty array."""
        if 0 in self.shape:
            return 0, 0
        reaches = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        return sum(r for r in reaches if r < 0), sum(r for r in reaches if r > 0) + self.itemsize

    @property
    def in_c_order(self) -> bool:
        in_order = zip(self.shape, self.strides, c_strides(self.shape, self.itemsize), strict=True)
        return 0 in self.shape or all(n == 1 or s == c for n, s, c in in_order)


def c_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The strides in bytes of an array in C order."""
    return tuple(itemsize * prod(shape[axis + 1:]) for axis in range(len(shape)))


def constant(p: Parameter, arrays: Mapping[str, ArrayView], values: Mapping[str, Any]) -> Any:
    """The value of a parameter that is the same in each call of a signature: a stride in elements, an extent, or a
    scalar."""
    if isinstance(p, Extent):
        return arrays[p.array].shape[p.axis]
    if not isinstance(p, Stride):
        return values[p.name]
    array = arrays[p.array]
    # numpy leaves the stride of one element open
    return array.strides[p.axis] // array.itemsize if array.shape[p.axis] > 1 else 0


def picker(places: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """A function that gives the operands at *places*."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda operands: [operands[i] for i in places]


def share_memory(a: ArrayView, b: ArrayView) -> bool:
    """Do two arrays, of the host or a GPU, have a byte in common? An undecided test counts as yes."""
    # only their difference matters, and an address on a device may be longer than numpy's
    start = a.pointer - (1 << 62)
    a, b = replace(a, pointer=a.pointer - start), replace(b, pointer=b.pointer - start)
    try:
        # numpy accepts any bound on the work; its type annotation allows only 0 and -1
        return np.shares_memory(addresses(a, f"|V{a.itemsize}"), addresses(b, f"|V{b.itemsize}"),
                                max_work=_WORK)        # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def addresses(view: ArrayView, typestr: str, owner: object = None) -> NumpyArray:
    """The addresses of *view* as a numpy array, which keeps *owner*; its memory is never read."""
    return np.asarray(SimpleNamespace(owner=owner, __array_interface__={
        "version": 3, "typestr": typestr, "shape": view.shape, "strides": view.strides, "data": (view.pointer, False)}))


def bytes_of(array: NumpyArray) -> NumpyArray:
    """The bytes of an array in C order; some dtypes have no buffer of their own."""
    return np.asarray(array).reshape(-1).view(np.uint8)        # the plain array behind a subclass (np.matrix)


def strided_array(view: ArrayView, *, zero: bool) -> NumpyArray:
    """A new array in the host's memory with the shape and the strides of *view*, none of which is negative."""
    size = view.span[1] // view.itemsize
    memory = (np.zeros if zero else np.empty)(size, view.dtype)
    return np.ndarray(view.shape, view.dtype, memory, 0, view.strides)


def laid_out(array: NumpyArray, strides: Sequence[int] | None = None) -> NumpyArray:
    """A copy of *array* with *strides* in elements, by default its own."""
    view = ArrayView.of(array)
    own = view.strides if strides is None else tuple(stride * array.itemsize for stride in strides)
    view = replace(view, strides=own)
    if min(own, default=0) < 0 or internal_overlap(view):
        return array.copy()
    result = strided_array(view, zero=False)
    result[...] = array
    return result


def internal_overlap(array: ArrayView) -> bool:
    """Can two different subscripts of *array* have one address?

    Exact for views made by slicing and transposing; any other array whose strides interleave counts as overlapping.
    """
    if 0 in array.shape:
        return False
    reach = array.itemsize
    for stride, length in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1):
        if stride < reach:
            return True
        reach += stride * (length - 1)
    return False
