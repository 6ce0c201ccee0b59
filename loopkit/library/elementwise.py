"""Elementwise kernels: copy, axpy, add."""
from __future__ import annotations

import numpy as np
import numpy.typing as npt

import loopkit as lk
from loopkit.kernel.annotations import checked
from loopkit.library.defaults import THREADS, items_a_thread, known_dtype


@checked
def copy(dtype: npt.DTypeLike = np.float32, *, threads: int = THREADS, items: int | None = None) -> lk.LoopKernel:
    """``y[i] = x[i]``.

    The kernel uses each element once, so memory bandwidth bounds its speed. Each thread starts *items* loads before its
    first store.

    :arg threads: of a block.
    :arg items: elements per thread; default: 16 bytes of them.

    >>> knl = lk.library.copy(np.float64)
    >>> print(knl.statements_text)
    for i_outer [g.0], i_item [unr], i_thread [l.0]
      y[512*i_outer + 256*i_item + i_thread] = x[512*i_outer + 256*i_item + i_thread]  {id=insn}
    end
    >>> knl(x=np.arange(3.0)).y
    array([0., 1., 2.])
    """
    return _elementwise("copy", "y[i] = x[i]", "x,y", dtype, threads, items)


@checked
def axpy(dtype: npt.DTypeLike = np.float32, *, threads: int = THREADS, items: int | None = None) -> lk.LoopKernel:
    """``z[i] = alpha*x[i] + y[i]``, mapped like :func:`copy`.

    >>> lk.library.axpy()(x=np.ones(2, np.float32), y=np.arange(2, dtype=np.float32), alpha=3).z
    array([3., 4.], dtype=float32)
    """
    return _elementwise("axpy", "z[i] = alpha*x[i] + y[i]", "alpha,x,y,z", dtype, threads, items)


@checked
def add(dtype: npt.DTypeLike = np.float32, *, threads: int = THREADS, items: int | None = None) -> lk.LoopKernel:
    """``z[i] = x[i] + y[i]``, mapped like :func:`copy`.

    >>> lk.library.add()(x=np.ones(2, np.float32), y=np.arange(2, dtype=np.float32)).z
    array([1., 2.], dtype=float32)
    """
    return _elementwise("add", "z[i] = x[i] + y[i]", "x,y,z", dtype, threads, items)


def _elementwise(name: str, statement: str, names: str, dtype: npt.DTypeLike, threads: int,
                 items: int | None) -> lk.LoopKernel:
    """Each load of a warp reads one piece of memory. The items of a thread are *threads* elements apart."""
    known = known_dtype(dtype)
    items = items_a_thread(known) if items is None else items
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", statement, name=name), {names: known})
    if items == 1:
        return lk.split_iname(knl, "i", threads, outer_tag="g.0", inner_tag="l.0")
    return lk.split_levels(knl, "i", {"i_outer": None, "i_item": items, "i_thread": threads},
                           tags={"i_outer": "g.0", "i_item": "unr", "i_thread": "l.0"})
