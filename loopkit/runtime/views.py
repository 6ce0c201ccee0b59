"""What a call needs to know of an array, in numpy's terms, wherever the array lies."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

# bits of numpy's ndarray.flags.num
_C_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400


class ArrayLike(Protocol):
    """What checks ask of an array: numpy's arrays answer, and :class:`DeviceView` for those on a GPU."""

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
    """The bits of ``ndarray.flags.num`` that calls look at."""

    num: int


@dataclass(frozen=True, slots=True)
class DeviceView:
    """An array on a GPU.

    :ivar strides: in bytes.
    :ivar pointer: the address of the element with all subscripts 0; 0 for an array that a call is going to make.
    :ivar ordinal: the device it lies on.
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
    """Does an array lie in C order without gaps? The stride of an axis of one element does not matter."""
    if 0 in shape:
        return True
    return all(n == 1 or s == c for n, s, c in zip(shape, strides, c_strides(shape, itemsize), strict=True))


def span(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """The first byte of an array and the one behind its last, from its pointer; equal for an empty array."""
    if 0 in shape:
        return 0, 0
    reaches = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    return sum(r for r in reaches if r < 0), sum(r for r in reaches if r > 0) + itemsize
