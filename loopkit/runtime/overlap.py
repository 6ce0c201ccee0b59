"""Arrays that share memory: a kernel's arguments must not, where one of them is written."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from loopkit.errors import CallError

Array = np.ndarray[Any, np.dtype[Any]]

#: Work that the exact test may do (numpy's measure); beyond it, arrays whose ranges meet are refused.
_WORK = 10_000


def require_disjoint(name: str, written: Array, arrays: Mapping[str, Array]) -> None:
    """:raises CallError: *written* shares an element with another of *arrays*, or that cannot be excluded."""
    for other_name, other in arrays.items():
        if other_name != name and np.may_share_memory(written, other) and _share(written, other):
            raise CallError(f"'{name}' is written and overlaps '{other_name}' in memory.", argument=name,
                            hint=f"pass {other_name}.copy(), or another array for '{name}'")


def _share(a: Array, b: Array) -> bool:
    try:
        # numpy takes any bound on the work; its types know 0 and -1 only
        return np.shares_memory(a, b, max_work=_WORK)         # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def internal_overlap(array: Array) -> bool:
    """May two different subscripts of *array* reach one address?

    Exact for views made by slicing and transposing; a stranger array whose strides interleave counts as overlapping.
    """
    if array.size == 0:
        return False
    reach = array.itemsize
    for stride, length in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1):
        if stride < reach:
            return True
        reach += stride * (length - 1)
    return False
