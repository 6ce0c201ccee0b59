"""Do the vector accesses of a text serve for the arrays and sizes of a call?

What follows from shapes, strides and sizes is settled when a text is chosen; addresses are looked at in each call.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from loopkit.ast.nodes import AlignedArray, Assumed
from loopkit.expr.evaluate import evaluate
from loopkit.runtime.views import ArrayLike, c_strides


def serves(assumed: Iterable[Assumed], arrays: Mapping[str, ArrayLike], values: Mapping[str, Any]) -> bool:
    """Does all that is *assumed* hold, apart from addresses? Arrays of the host are copied to C order."""
    return all(_has_rows(arrays[a.array], a, values) if isinstance(a, AlignedArray)
               else evaluate(a.size, values) % a.divisor == 0 for a in assumed)


def _has_rows(array: ArrayLike, assumed: AlignedArray, values: Mapping[str, Any]) -> bool:
    """Is the last stride one element, and each other one as *assumed*, or a multiple of its elements?"""
    strides = c_strides(array.shape, array.itemsize) if isinstance(array, np.ndarray) else array.strides
    if array.shape[-1] > 1 and strides[-1] != array.itemsize:
        return False
    if assumed.strides:
        wanted = (evaluate(s, values)*array.itemsize for s in assumed.strides)
        return all(s == w or n == 1 for n, s, w in zip(array.shape, strides, wanted, strict=False))
    rows = zip(array.shape[:-1], strides, strict=False)
    return all(s % (assumed.elements * array.itemsize) == 0 for n, s in rows if n > 1)


def address_masks(assumed: Iterable[Assumed], names: Sequence[str], sizes: Mapping[str, int]
                  ) -> tuple[tuple[int, int], ...]:
    """The places among *names* of arrays that must be aligned, each with the bits that its address must not have.

    :arg sizes: bytes of an element of each array.
    """
    return tuple((names.index(a.array), a.elements * sizes[a.array] - 1) for a in assumed
                 if isinstance(a, AlignedArray) and a.array in names)
