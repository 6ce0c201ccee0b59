"""Arrays that share memory: a kernel's arguments must not, where one of them is written."""
from __future__ import annotations

import numpy as np

from loopkit.errors import CallError
from loopkit.runtime.views import Array, ArrayLike, DeviceView

#: Work that the exact test may do (numpy's measure); beyond it, arrays whose ranges meet are refused.
_WORK = 10_000


def overlapping(written: str, other: str) -> CallError:
    """The error for a written argument that shares memory with another one."""
    return CallError(f"'{written}' is written and overlaps '{other}' in memory.", argument=written,
                     hint=f"pass {other}.copy(), or another array for '{written}'")


def share_memory(a: ArrayLike, b: ArrayLike) -> bool:
    """Do two arrays have a byte in common? What cannot be excluded counts as yes."""
    x, y = _addresses(a), _addresses(b)
    if not np.may_share_memory(x, y):
        return False
    try:
        # numpy takes any bound on the work; its types know 0 and -1 only
        return np.shares_memory(x, y, max_work=_WORK)         # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


class _Ghost:
    """Offers numpy the addresses of an array on a GPU; nothing reads what is there."""

    def __init__(self, view: DeviceView) -> None:
        self.__array_interface__ = {"version": 3, "typestr": f"|V{view.itemsize}", "shape": view.shape,
                                    "strides": view.strides, "data": (view.pointer, True)}


def _addresses(array: ArrayLike) -> Array:
    if isinstance(array, DeviceView):
        # a GPU and the host have one space of addresses, so that both kinds can be compared
        return np.asarray(_Ghost(array)) if array.pointer else np.empty(0, np.uint8)
    assert isinstance(array, np.ndarray)
    return array


def internal_overlap(array: ArrayLike) -> bool:
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
