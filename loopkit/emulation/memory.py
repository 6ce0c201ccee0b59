"""The memory of an emulated launch: arrays in global memory, of a block and of its threads, in their real layouts."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol

import numpy as np

from loopkit.ast.arrays import Array
from loopkit.errors import BoundsError, VerificationError, cell_text
from loopkit.expr.kinds import is_tuple, kind_of
from loopkit.expr.tuples import field_dtypes

NumpyArray = np.ndarray[Any, np.dtype[Any]]

#: A number, or one for each thread of a strand.
Lanes = Any

#: The place of an element: one subscript for each axis of the array that holds the data, the last one in memory order.
Place = tuple[Lanes, ...]

#: The byte of which integers without a value consist.
_POISON = 0x5a


class Reader(Protocol):
    """The threads that access an element; the name of an array is that of :class:`EmulatedArray`.

    :ivar threads: their numbers in the block; *mask*: those that are active.
    :ivar block_number: the number of their block.
    """

    @property
    def threads(self) -> NumpyArray: ...

    @property
    def mask(self) -> NumpyArray: ...

    @property
    def block_number(self) -> int: ...


def poisoned(shape: Sequence[int], dtype: np.dtype[Any]) -> NumpyArray:
    """An array without values: NaN in real numbers, and an odd pattern of bits in others.

    >>> poisoned((2,), np.dtype("float32")), hex(poisoned((1,), np.dtype("int32"))[0])
    (array([nan, nan], dtype=float32), '0x5a5a5a5a')
    """
    new = np.empty(tuple(shape), dtype)
    if is_tuple(dtype):
        for name, own in field_dtypes(dtype).items():
            new[name] = poisoned(shape, own)
    elif kind_of(dtype) in "fc":
        new[...] = np.nan
    else:
        new.view(np.uint8)[...] = 1 if dtype.kind == "b" else _POISON
    return new


@dataclass(eq=False)
class EmulatedArray:
    """The elements of one array; *data* in memory order.

    :ivar extents: the shape by which subscripts address it.
    """

    name: str
    data: NumpyArray
    extents: tuple[int, ...]

    def place(self, who: Reader, index: Sequence[Lanes]) -> Place:
        """The place of the element with the subscripts *index*; :raises BoundsError: an active thread's is outside."""
        return tuple(self._inside(who, index, axis, extent) for axis, extent in enumerate(self.extents))

    def vector_place(self, who: Reader, index: Sequence[Lanes]) -> Place:
        """The place of the first element of a vector, which may begin in another row than *index* names."""
        return self.place(who, index)

    def load(self, who: Reader, place: Place) -> Lanes:
        """The values at *place*; :raises BoundsError: it is outside."""
        try:
            return self.data[place]
        except IndexError:                  # perhaps only for threads that are not active
            place = tuple(np.where(who.mask, x, 0) if isinstance(x, np.ndarray) and x.shape == who.mask.shape else x
                          for x in place)
        try:
            return self.data[place]
        except IndexError:
            raise self._outside(who, (), place[-1]) from None

    def store(self, who: Reader, place: Place, value: Lanes) -> None:
        """Store the values of the active threads; :raises BoundsError: *place* is outside."""
        mask = who.mask
        is_lanes = isinstance(value, np.ndarray)
        if not any(isinstance(x, np.ndarray) for x in place):
            if is_lanes:
                value = value[mask][-1]
        elif not mask.all():
            place = tuple(x[mask] if isinstance(x, np.ndarray) else x for x in place)
            value = value[mask] if is_lanes else value
        try:
            self.data[place] = value
        except IndexError:
            raise self._outside(who, (), place[-1]) from None

    @staticmethod
    def after(place: Place, by: Lanes) -> Place:
        """The place *by* elements further on in memory."""
        return (*place[:-1], place[-1] + by)

    def _inside(self, who: Reader, index: Sequence[Lanes], axis: int, extent: int) -> Lanes:
        at = index[axis]
        if not isinstance(at, np.ndarray):
            if not 0 <= at < extent:
                raise self._outside(who, index, at)
            return at
        bad = at.view(np.uint64) >= extent
        if bad.any():
            if (bad & who.mask).any():
                raise self._outside(who, index, at[bad & who.mask])
            at = np.where(bad, 0, at)
        return at

    def _outside(self, who: Reader, index: Sequence[Lanes], at: Lanes) -> BoundsError:
        thread = who.threads[who.mask][0]
        shown = tuple(int(x[who.mask][0]) if isinstance(x, np.ndarray) else int(x) for x in index)
        where = cell_text(self.name, shown) if len(shown) == len(self.extents) > 0 else \
            f"element {np.max(at)} in memory"
        return BoundsError(f"'{self.name}' of shape {self.extents} is accessed outside: {where}, near thread {thread} "
                           f"of block {who.block_number}.", check="emulation")


@dataclass(eq=False)
class FlatArray(EmulatedArray):
    """An array in one piece of memory: *data* has one axis."""

    def place(self, who: Reader, index: Sequence[Lanes]) -> Place:
        return (self.address(super().place(who, index)),)

    def vector_place(self, who: Reader, index: Sequence[Lanes]) -> Place:
        return (self._inside(who, (self.address(index),), 0, len(self.data)),)

    def address(self, index: Sequence[Lanes]) -> Lanes:
        """The number of the element in memory."""
        return _offset(index, self.extents)


@dataclass(eq=False)
class SharedArray(FlatArray):
    """An array that the threads of a block share, perhaps with a swizzle.

    :ivar unfenced: for each element the thread whose store no proxy fence has followed yet; -1: there is none.
    """

    array: Array
    unfenced: NumpyArray = field(init=False)

    def __post_init__(self) -> None:
        self.unfenced = np.full(self.data.shape, -1)

    def store(self, who: Reader, place: Place, value: Lanes) -> None:
        super().store(who, place, value)
        EmulatedArray(self.name, self.unfenced, self.extents).store(who, place, who.threads)

    def address(self, index: Sequence[Lanes]) -> Lanes:
        own = list(index)
        if (swizzle := self.array.swizzle) is not None:
            row = _offset(swizzle.counted(own), swizzle.counted(self.extents))
            own[-1] = own[-1] ^ swizzle.mask(row)
        return _offset(own, self.extents)


def fenced(cells: SharedArray, numbers: NumpyArray) -> NumpyArray:
    """The elements with these *numbers* for the asynchronous proxy: without stores that no fence follows."""
    found = cells.data[numbers]
    return np.where(cells.unfenced[numbers] < 0, found, poisoned((1,), found.dtype))


@dataclass(eq=False)
class PrivateArray(EmulatedArray):
    """An array of each thread, or its part of an array in warp registers: a row of *data* for each thread."""

    def place(self, who: Reader, index: Sequence[Lanes]) -> Place:
        return (who.threads, _offset(super().place(who, index), self.extents))


@dataclass(eq=False)
class FlaggedArray(EmulatedArray):
    """An array whose values blocks pass to each other with flags.

    :ivar late: a value of another block is there only for those that wait for its flag.
    """

    late: bool
    flags: NumpyArray = field(init=False)
    writers: NumpyArray = field(init=False)

    def __post_init__(self) -> None:
        self.flags = np.zeros(self.data.shape, bool)
        self.writers = np.full(self.data.shape, -1)

    def load(self, who: Reader, place: Place) -> Lanes:
        found = super().load(who, place)
        if not self.late:
            return found
        own = self.writers[place] == who.block_number
        return np.where(own, found, poisoned((), self.data.dtype)) if np.ndim(own) else \
            found if own else poisoned((), self.data.dtype)[()]

    def store(self, who: Reader, place: Place, value: Lanes) -> None:
        super().store(who, place, value)
        EmulatedArray(self.name, self.writers, self.extents).store(who, place, who.block_number)

    def set_flags(self, who: Reader, place: Place) -> None:
        EmulatedArray(self.name, self.flags, self.extents).store(who, place, True)

    def load_flagged(self, who: Reader, place: Place) -> Lanes:
        """The values at *place*, all of whose flags are set; :raises VerificationError: one is not."""
        if not np.all(self.flags[place] | ~who.mask):
            raise VerificationError(f"Block {who.block_number} waits for a flag of '{self.name}' that no earlier block "
                                    "sets.", check="emulation")
        return super().load(who, place)


def _offset(index: Sequence[Lanes], extents: Sequence[int]) -> Lanes:
    offset: Lanes = 0
    for at, extent in zip(index, extents, strict=True):
        offset = offset*extent + at
    return offset


def of_argument(name: str, array: NumpyArray) -> EmulatedArray:
    """The memory of an argument."""
    return FlatArray(name, array.reshape(-1), array.shape) if array.flags.c_contiguous and array.ndim else \
        EmulatedArray(name, array, array.shape)


def of_function(array: Array, threads: int) -> EmulatedArray:
    """An array that a function declares, in a block with this number of *threads*, without values."""
    shape = array.shape[:len(array.shape) - array.thread_axes]
    if array.initializer:
        return EmulatedArray(array.name, np.array(array.initializer, array.dtype).reshape(array.shape), array.shape)
    if array.shared:
        return SharedArray(array.name, poisoned((prod(shape),), array.dtype), shape, array)
    return PrivateArray(array.name, poisoned((threads, prod(shape)), array.dtype), shape)


#: The arrays that a block can access, by name.
Memory = dict[str, EmulatedArray]
