"""The arrays that a function declares, and the layout of those in shared memory."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

V = TypeVar("V")
N = TypeVar("N", int, np.ndarray)


@dataclass(frozen=True)
class Swizzle:
    """A permuted layout of shared memory: column *c* of row *r* is stored at ``c ^ chunk*(r // every mod period)``.

    The column is the fastest axis. The numbers are powers of two.

    :ivar axis: the number of the row axis, among all axes of the array.
    :ivar row_axes: the number of axes that count the rows together: *axis*, and those before it in memory.
    :ivar every: the number of neighbouring rows that have the same permutation.
    """

    axis: int
    chunk: int
    period: int
    row_axes: int = 1
    every: int = 1

    def __str__(self) -> str:
        times = f"{self.chunk}*" if self.chunk > 1 else ""
        rows = f"axis {self.axis}" if self.row_axes == 1 else f"row of the {self.row_axes} axes up to {self.axis}"
        return f"columns ^ {times}({rows}{f' // {self.every}' if self.every > 1 else ''} mod {self.period})"

    def mask(self, row: N) -> N:
        """The bits of the column that change in *row*, a number or several."""
        return self.chunk*(row // self.every % self.period)

    def counted(self, of_axes: Sequence[V]) -> Sequence[V]:
        """The values *of_axes*, in the order of memory, of those that count the rows."""
        return of_axes[self.axis - self.row_axes + 1:self.axis + 1]


@dataclass(frozen=True)
class Array:
    """An array that a function declares: shared by a block, or private to a thread.

    :ivar across_regions: it is private and keeps its value from one region to another.
    :ivar thread_axes: if not 0, an array in warp registers, and not *shared*: this many trailing axes have an element
        for each thread of the block. Warp instructions read it from other lanes.
    :ivar swizzle: the permutation of a shared array's columns. Only the emitted text uses it.
    :ivar initializer: the elements of a constant array, the last axis fastest; ``()``: statements write the elements.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    shared: bool
    across_regions: bool = False
    thread_axes: int = 0
    note: str = ""
    swizzle: Swizzle | None = None
    initializer: tuple[Any, ...] = ()
