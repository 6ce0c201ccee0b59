"""Sizes of the pipelines: those that follow from a dtype and from properties of every GPU, and the measured ones."""
from __future__ import annotations

import tomllib
from importlib.resources import files
from math import gcd
from typing import Any

import numpy as np
import numpy.typing as npt

import loopkit as lk
from loopkit.transform.data import as_dtype

#: The data of the device for which the pipelines are tuned; they are explained there.
DEVICE = tomllib.loads(files("loopkit.library").joinpath("devices/h200.toml").read_text(encoding="utf-8"))

MOST_THREADS = 1024
#: Bytes of a cache line.
LINE = 128
#: Bytes of a sector, the unit of a read or write of global memory.
SECTOR = 32
#: Bytes of one thread's concurrent loads. Few threads then keep the memory busy.
BYTES_A_THREAD = 16


def measured(pipeline: str, dtype: np.dtype | None = None, /, **given: Any) -> tuple[Any, ...]:
    """The values *given* for arguments of *pipeline*; for ``None``, the device's size of this name.

    >>> measured("histogram", threads=None, items=4)
    (512, 4)
    """
    sizes = {**DEVICE["sizes"], **DEVICE["sizes"].get(pipeline, {})}
    return tuple(_of_dtype(sizes[name], dtype) if value is None else value for name, value in given.items())


def _of_dtype(size: Any, dtype: np.dtype | None) -> Any:
    """*size*; that for *dtype* if it depends on the bytes of an element."""
    if isinstance(size, dict) and dtype is not None:
        size = size[max((least for least in size if int(least) <= dtype.itemsize), key=int)]
    return tuple(size) if isinstance(size, list) else size


def known_dtype(dtype: npt.DTypeLike) -> np.dtype:
    """*dtype* as a numpy dtype; :raises PreconditionError: kernels do not support it."""
    return as_dtype(dtype, "an array")


def items_a_thread(dtype: np.dtype) -> int:
    """The number of elements of *dtype* that a thread loads at once."""
    return max(BYTES_A_THREAD // dtype.itemsize, 1)


def vector_of_rows(columns: int, dtype: np.dtype) -> int:
    """The number of elements of the longest vector, of at most 16 bytes, that divides a row of *columns* elements."""
    return gcd(columns, items_a_thread(dtype))


def vector(items: int) -> str:
    """The tag of the iname over the *items* elements that a thread moves at once."""
    return "vec" if items > 1 else "unr"


def before_row(i: str, columns: int, multiple: int) -> str:
    """The start of row *i*, of *columns* elements each, modulo *multiple* elements, negated, as text: ``- i % 4``."""
    shift = columns % multiple
    return "" if shift == 0 else f"- {i} % {multiple}" if shift == 1 else f"- ({shift}*{i}) % {multiple}"


def longest_row(columns: int, multiple: int) -> int:
    """The longest row of *columns* elements, counted from the last multiple of *multiple* elements before its start."""
    return columns + multiple - gcd(columns, multiple)


def in_vectors(knl: lk.LoopKernel, iname: str, items: int, threads: int, *, outer_tag: str) -> lk.LoopKernel:
    """Split *iname* into vectors of *items*, one for each of *threads* neighbouring threads."""
    if items > 1:
        knl = lk.split_iname(knl, iname, items, outer_iname=f"{iname}_vec", inner_iname=f"{iname}_item",
                             inner_tag="vec")
        iname = f"{iname}_vec"
    return lk.split_iname(knl, iname, threads, outer_tag=outer_tag, inner_tag="l.0")
