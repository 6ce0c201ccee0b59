"""The view of an array that a call needs, in numpy's terms, on the host or a GPU; the test for shared memory."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from loopkit.errors import CallError

Array = np.ndarray[Any, np.dtype[Any]]

# bits of numpy's ndarray.flags.num
_C_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400

#: Most work of the exact overlap test (in numpy's measure); above it, overlapping address ranges count as overlap.
_WORK = 10_000


class ArrayLike(Protocol):
    """The attributes of an array that checks use: those of numpy's arrays, and of :class:`DeviceView` for a GPU."""

    @property
    def dtype(self) -> np.dtype[Any]: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def strides(self) -> tuple[int, ...]: ...

    @property
    def ndim(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def itemsize(self) -> int: ...

    @property
    def flags(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class Flags:
    """The bits of ``ndarray.flags.num`` that calls use."""

    num: int


@dataclass(frozen=True, slots=True)
class DeviceView:
    """An array on a GPU.

    :ivar strides: in bytes.
    :ivar pointer: the address of the element with all subscripts 0; 0 for an array that a call will allocate.
    :ivar ordinal: number of its device.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    pointer: int
    ordinal: int
    writeable: bool = True

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        return int(self.dtype.itemsize)

    @property
    def size(self) -> int:
        total = 1
        for length in self.shape:
            total *= length
        return total

    @property
    def flags(self) -> Flags:
        return Flags((_C_CONTIGUOUS if is_contiguous(self.shape, self.strides, self.itemsize) else 0)
                     | (_ALIGNED if self.pointer % self.itemsize == 0 else 0) | (_WRITEABLE if self.writeable else 0))


def c_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The strides in bytes of an array in C order."""
    strides = []
    step = itemsize
    for length in reversed(shape):
        strides.append(step)
        step *= length
    return tuple(reversed(strides))


def is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Is an array in C order without gaps? The stride of an axis of one element does not matter."""
    if 0 in shape:
        return True
    return all(n == 1 or s == c for n, s, c in zip(shape, strides, c_strides(shape, itemsize), strict=True))


def span(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """The first byte of an array and the one behind its last, relative to its pointer; equal for an empty array."""
    if 0 in shape:
        return 0, 0
    reaches = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    return sum(r for r in reaches if r < 0), sum(r for r in reaches if r > 0) + itemsize


def stride(array: ArrayLike, axis: int) -> int:
    """The stride along *axis* in elements; 0 for one element, whose stride numpy leaves open."""
    return array.strides[axis] // array.itemsize if array.shape[axis] > 1 else 0


def overlapping(written: str, other: str) -> CallError:
    """The error for a written argument that shares memory with another one."""
    return CallError(f"'{written}' is written and overlaps '{other}' in memory.", argument=written,
                     hint=f"pass {other}.copy(), or another array for '{written}'")


def share_memory(a: ArrayLike, b: ArrayLike) -> bool:
    """Do two arrays have a byte in common? An undecided test counts as yes."""
    x, y = _addresses(a), _addresses(b)
    if not np.may_share_memory(x, y):
        return False
    try:
        # numpy accepts any bound on the work; its type annotation allows only 0 and -1
        return np.shares_memory(x, y, max_work=_WORK)         # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


class _Ghost:
    """Gives numpy the addresses of an array on a GPU; its memory is never read."""

    def __init__(self, view: DeviceView) -> None:
        self.__array_interface__ = {"version": 3, "typestr": f"|V{view.itemsize}", "shape": view.shape,
                                    "strides": view.strides, "data": (view.pointer, True)}


def _addresses(array: ArrayLike) -> Array:
    if isinstance(array, DeviceView):
        # a GPU and the host share one address space, so that arrays on both can be compared
        return np.asarray(_Ghost(array)) if array.pointer else np.empty(0, np.uint8)
    assert isinstance(array, np.ndarray)
    return array


def internal_overlap(array: ArrayLike) -> bool:
    """Can two different subscripts of *array* have one address?

    Exact for views made by slicing and transposing; any other array whose strides interleave counts as overlapping.
    """
    if array.size == 0:
        return False
    reach = array.itemsize
    for stride, length in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1):
        if stride < reach:
            return True
        reach += stride * (length - 1)
    return False
