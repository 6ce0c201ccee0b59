"""Defaults that the pipelines share: sizes that follow from a dtype and from properties of every GPU."""
from __future__ import annotations

from math import gcd

import numpy as np
import numpy.typing as npt

from loopkit.kernel.kernel import LoopKernel
from loopkit.transform.data import as_dtype
from loopkit.transform.iname import split_iname

MOST_THREADS = 1024
#: Threads of a block: several blocks fit on a multiprocessor, each with enough warps to hide its own waiting.
THREADS = 256
#: Bytes of a line of the cache.
LINE = 128
#: Bytes of a sector: a line is read and written in these.
SECTOR = 32
#: Bytes that a thread has under way at once, so that few threads keep a memory busy.
BYTES_A_THREAD = 16


def known_dtype(dtype: npt.DTypeLike) -> np.dtype:
    """*dtype* as numpy's; :raises PreconditionError: kernels have no such dtype."""
    return as_dtype(dtype, "an array")


def items_a_thread(dtype: np.dtype) -> int:
    """Elements of *dtype* that a thread loads at once."""
    return max(BYTES_A_THREAD // dtype.itemsize, 1)


def vector_of_rows(columns: int, dtype: np.dtype) -> int:
    """Elements of a vector with at most 16 bytes, of which rows of *columns* elements are a whole number."""
    items = items_a_thread(dtype)
    while columns % items:
        items //= 2
    return items


def before_row(i: str, columns: int, multiple: int) -> str:
    """What is behind a multiple of *multiple* elements where row *i* begins, of *columns* each: ``- i % 4`` as text."""
    shift = columns % multiple
    return "" if shift == 0 else f"- {i} % {multiple}" if shift == 1 else f"- ({shift}*{i}) % {multiple}"


def longest_row(columns: int, multiple: int) -> int:
    """The most elements of a row of *columns*, with those between a multiple of *multiple* and where it begins."""
    return columns + multiple - gcd(columns, multiple)


def over_threads(knl: LoopKernel, threads: int, items: int) -> LoopKernel:
    """The iname ``i`` over blocks and threads, *items* of it a thread.

    Neighbouring threads have neighbouring elements, so that each load of a warp is one piece of memory; the items
    of a thread lie *threads* apart, in a loop that is unrolled, so that its loads are all under way at once.
    """
    if items == 1:
        return split_iname(knl, "i", threads, outer_tag="g.0", inner_tag="l.0")
    knl = split_iname(knl, "i", threads*items, outer_tag="g.0")
    return split_iname(knl, "i_inner", threads, outer_iname="i_item", inner_iname="i_thread", outer_tag="unr",
                       inner_tag="l.0")
