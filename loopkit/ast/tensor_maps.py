"""Tensor maps: descriptions of arrays in global memory, by which TMA copies boxes of them to and from shared memory."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeVar

import numpy as np
from pymbolic.typing import Expression

from loopkit.errors import PreconditionError
from loopkit.expr.tuples import dtype_text

T = TypeVar("T")

#: The sizes of elements that TMA copies, and its permutations of shared memory, in bytes, as ``CUtensorMapSwizzle``
#: numbers them from 0.
_ELEMENTS, SWIZZLES = (1, 2, 4, 8), (0, 32, 64, 128)

#: Bytes whose multiples are the address of a mapped array, its strides but the last, and the rows of a box.
UNIT = 16

#: The least stride in bytes that is too large, the largest extent, the most axes, and the largest extent of a box.
_STRIDES, _EXTENT, _AXES, _BOX = 2**40, 2**31, 5, 256

#: The largest step from one element of a box to the next.
_STEP = 8

#: Bytes of a line of shared memory; a swizzle permutes units by the number of their line, over so many rows.
LINE, ROWS = 128, 8


@dataclass(frozen=True)
class TensorMap:
    """An argument of a function that describes an array to TMA. Elements of a box outside of the array are zeros.

    :ivar name: name of the argument, new in the kernel.
    :ivar array: an array argument, or a temporary in global memory.
    :ivar box: the extents of a copy along the axes of the array, which are its extents in shared memory.
    :ivar swizzle: the bytes of a row of the box whose units of 16 bytes are permuted in shared memory; 0: it is in C
        order.
    :ivar steps: the distances in the array between neighbours of the box, in elements, along each axis; ``()``: all 1.
    :ivar extents: those that the kernel's sizes give the array, which may be larger; ``()``: the array's own.
    :ivar open_axis: each copy has an end of its own along this axis, and elements from there on are outside; ``None``:
        the array has one end for all copies.
    """

    name: str
    array: str
    box: tuple[int, ...]
    swizzle: int = 0
    steps: tuple[int, ...] = ()
    extents: tuple[Expression, ...] = ()
    open_axis: int | None = None

    def __str__(self) -> str:
        swizzle = f", swizzle {self.swizzle} bytes" if self.swizzle else ""
        steps = f", steps {' x '.join(map(str, self.steps))}" if self.steps else ""
        ends = "" if self.open_axis is None else f", an end along axis {self.open_axis} for each copy"
        return f"tensor map {self.name}: {self.array}, box {' x '.join(map(str, self.box))}{steps}{swizzle}{ends}"

    @property
    def all_steps(self) -> tuple[int, ...]:
        """The step along each axis."""
        return self.steps or (1,)*len(self.box)

    @property
    def traversed(self) -> tuple[int, ...]:
        """The elements of the array along each axis that the box goes over: those that it copies and those between."""
        return tuple(n*step for n, step in zip(self.box, self.all_steps, strict=True))

    def axes(self, of_array: Sequence[T], ends: T, rest: T) -> list[T]:
        """One value for each axis that TMA counts, from those *of_array*.

        Two of these make up an open axis, and both go along it in the array. Their coordinates are ``e`` and ``first +
        box - e`` where the box goes over so many elements from ``first`` on, and ``e`` is its end, ``min(end, first +
        box)``. The second axis has the extent of the box, and the address is that of element ``-box``: elements from
        ``e`` on have second coordinates of at least ``box``, so that they are outside. Elements before the array are
        not outside for TMA.

        :arg ends: the value of the first one; *rest*: that of the second one.
        """
        k = self.open_axis
        return [*of_array] if k is None else [*of_array[:k], ends, rest, *of_array[k + 1:]]

    @property
    def alignment(self) -> int:
        """The bytes whose multiple the address of a box in shared memory must be."""
        return max(LINE, ROWS*self.swizzle)

    def bytes_of_box(self, itemsize: int) -> int:
        """The bytes that a copy of a box transfers, also one that lies partly outside of the array."""
        return prod(self.box)*itemsize

    def place(self, byte: int) -> int:
        """The place in shared memory of a *byte* of a box in C order, both counted from its first byte.

        >>> rows = TensorMap("a_map", "a", (64, 64), swizzle=128)
        >>> [rows.place(128*row) for row in range(9)]
        [0, 144, 288, 432, 576, 720, 864, 1008, 1024]
        """
        return byte ^ byte // LINE % max(self.swizzle // UNIT, 1) * UNIT


@dataclass(frozen=True)
class MappedArray:
    """The assumption that tensor maps can describe an array.

    Its address and all strides but the last are positive multiples of 16 bytes, the strides below 2^40 bytes; its last
    stride is 1 element; its extents are at most 2^31.
    """

    array: str

    def __str__(self) -> str:
        return f"{self.array} mapped for TMA"

    def obstacle(self, shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[str, str] | None:
        """The reason why no tensor map can describe an array with these *strides* in bytes, and the way out.

        ``None``: there is no reason but perhaps the address. An empty array has none: nothing describes it.
        """
        if 0 in shape:
            return None
        copy, *rows, last = f"pass {self.array}.copy()", *enumerate(zip(shape, strides, strict=True))
        for axis, extent in enumerate(shape):
            if extent > _EXTENT:
                return f"its extent along axis {axis} is {extent}, more than 2^31", "split this axis into two"
        for axis, (extent, stride) in rows:
            if extent > 1 and not (0 < stride < _STRIDES and stride % UNIT == 0):
                return (f"its stride along axis {axis} is {stride} bytes, which is not a positive multiple of {UNIT} "
                        "below 2^40", copy if stride % UNIT == 0 else
                        f"give its rows a multiple of {UNIT//itemsize} elements: a slice of such an array will do; or "
                        "let threads copy it into such rows before TMA loads it, or store it without TMA")
        axis, (extent, stride) = last
        if extent > 1 and stride != itemsize:
            return f"its stride along axis {axis}, the last, is {stride} bytes, and an element has {itemsize}", copy
        return None


def requirements(tensor_map: TensorMap, dtype: np.dtype, rank: int) -> MappedArray:
    """The assumption about the array of *tensor_map*, whose elements have *dtype* and which has *rank* axes.

    :raises PreconditionError: TMA has no such copy, whatever the array.
    """
    for what, hint in _faults(tensor_map, dtype, rank):
        raise PreconditionError(f"{what}.", subject=tensor_map.name, hint=hint)
    return MappedArray(tensor_map.array)


def _faults(m: TensorMap, dtype: np.dtype, rank: int) -> Iterator[tuple[str, str]]:
    """The reasons why TMA has no copy by the tensor map *m*, each with a way out; a later one may rest on another."""
    size = dtype.itemsize
    axes = _AXES - (m.open_axis is not None)
    if not 1 <= rank <= axes:
        yield (f"'{m.array}' has {rank} axes, and a tensor map describes 1 to {axes}"
               + ("" if axes == _AXES else " if copies have ends of their own"),
               "use an array with fewer axes, or a copy without TMA")
    if len(m.box) != rank:
        yield (f"The box of '{m.name}' has {len(m.box)} axes, and '{m.array}' has {rank}",
               f"give it an extent for each axis of '{m.array}', 1 for an axis along which it does not extend")
    if size not in _ELEMENTS:
        yield (f"TMA copies elements of 1, 2, 4 or 8 bytes, and those of '{m.array}' ({dtype_text(dtype)}) have {size}",
               f"store the parts of the elements of '{m.array}' in an array with one more axis")
    if len(m.all_steps) != len(m.box):
        yield (f"The box of '{m.name}' has {len(m.box)} axes, and steps along {len(m.steps)}",
               "give it a step for each axis, 1 for neighbours in the array")
    for axis, (extent, step) in enumerate(zip(m.box, m.all_steps, strict=True)):
        if not 1 <= step <= (_STEP if axis < rank - 1 else 1):
            most = f"steps of 1 to {_STEP}" if axis < rank - 1 else "neighbours along the last axis"
            yield (f"Elements of the box of '{m.name}' are {step} apart along axis {axis}, and TMA copies {most}",
                   "let threads copy such elements")
        if not 1 <= extent*step <= _BOX:
            apart = f", {step} apart," if step > 1 else ""
            yield (f"The box of '{m.name}' has {extent} elements{apart} along axis {axis}, and TMA copies 1 to {_BOX}",
                   f"copy several boxes of at most {_BOX // step} elements along this axis")
    if m.swizzle not in SWIZZLES:
        yield (f"TMA has no swizzle of {m.swizzle} bytes, which '{m.name}' has",
               f"swizzles have {', '.join(map(str, SWIZZLES[1:-1]))} or {SWIZZLES[-1]} bytes, or 0 for none")
    row = m.box[-1]*size
    if row % UNIT:
        yield (f"A row of the box of '{m.name}' has {row} bytes, which is not a multiple of {UNIT}",
               f"give its last axis a multiple of {UNIT//size} elements, or let threads copy it")
    if m.swizzle not in (0, row):
        yield (f"A row of the box of '{m.name}' has {row} bytes, and its swizzle has {m.swizzle}",
               f"give its last axis {m.swizzle//size} elements, or use swizzle=0")
