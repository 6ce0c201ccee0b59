"""Kernels that use each element once: copies, axpy, add, and the transposition through a tile in shared memory."""
from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import numpy as np
import numpy.typing as npt
import pymbolic.primitives as p

import loopkit as lk
from loopkit.kernel.annotations import checked
from loopkit.library.defaults import SECTOR, items_a_thread, known_dtype, measured
from loopkit.transform.step import require_positive


@checked
def copy(dtype: npt.DTypeLike = np.float32, *, threads: int | None = None, items: int | None = None) -> lk.LoopKernel:
    """A kernel for ``y[i] = x[i]``.

    The kernel uses each element once, so memory bandwidth limits its speed. Each thread starts *items* loads before its
    first store.

    :arg threads: the number of threads of a block.
    :arg items: the number of elements per thread; default: as many as have 16 bytes.

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
def axpy(dtype: npt.DTypeLike = np.float32, *, threads: int | None = None, items: int | None = None) -> lk.LoopKernel:
    """A kernel for ``z[i] = alpha*x[i] + y[i]``, mapped like :func:`copy`.

    >>> lk.library.axpy()(x=np.ones(2, np.float32), y=np.arange(2, dtype=np.float32), alpha=3).z
    array([3., 4.], dtype=float32)
    """
    return _elementwise("axpy", "z[i] = alpha*x[i] + y[i]", "alpha,x,y,z", dtype, threads, items)


@checked
def add(dtype: npt.DTypeLike = np.float32, *, threads: int | None = None, items: int | None = None) -> lk.LoopKernel:
    """A kernel for ``z[i] = x[i] + y[i]``, mapped like :func:`copy`.

    >>> lk.library.add()(x=np.ones(2, np.float32), y=np.arange(2, dtype=np.float32)).z
    array([1., 2.], dtype=float32)
    """
    return _elementwise("add", "z[i] = x[i] + y[i]", "x,y,z", dtype, threads, items)


@checked
def make_copy_kernel(new_dim_tags: str, old_dim_tags: str = "C", *, shape: Sequence[str | int] = ()) -> lk.LoopKernel:
    """Make the kernel that copies an array ``input`` to ``output``, an array of another layout.

    :arg new_dim_tags: the tags of the axes of ``output``, one for each axis, as for :func:`loopkit.tag_array_axes`;
        *old_dim_tags*: those of ``input``.
    :arg shape: the extents of the axes; default: ``n0``, ``n1``, ... The tags ``sep`` and ``vec`` need a number.
    :raises PreconditionError: the tags have another form, or are not as many as the extents.

    >>> print(lk.make_copy_kernel("sep,C", shape=(2, "n")).statements_text)
    for i0, i1
      output_s0[i1] = input[i0, i1]  {id=insn_s0}
      output_s1[i1] = input[i0, i1]  {id=insn_s1}
    end
    """
    shape = shape or [f"n{k}" for k, _ in enumerate(new_dim_tags.split(","))]
    inames = ", ".join(f"i{k}" for k, _ in enumerate(shape))
    bounds = " and ".join(f"0 <= i{k} < {extent}" for k, extent in enumerate(shape))
    knl = lk.make_kernel(f"{{[{inames}]: {bounds}}}", f"output[{inames}] = input[{inames}]", name="copy")
    return lk.tag_array_axes(lk.tag_array_axes(knl, "output", new_dim_tags), "input", old_dim_tags)


def _elementwise(name: str, statement: str, names: str, dtype: npt.DTypeLike, threads: int | None,
                 items: int | None) -> lk.LoopKernel:
    """Each load of a warp reads contiguous memory. The items of a thread are *threads* elements apart."""
    known = known_dtype(dtype)
    threads, = measured(name, threads=threads)
    items = items_a_thread(known) if items is None else items
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", statement, name=name), {names: known})
    if items == 1:
        return lk.split_iname(knl, "i", threads, outer_tag="g.0", inner_tag="l.0")
    return lk.split_levels(knl, "i", {"i_outer": None, "i_item": items, "i_thread": threads},
                           tags={"i_outer": "g.0", "i_item": "unr", "i_thread": "l.0"})


@checked
def transpose(dtype: npt.DTypeLike = np.float32, *, rows: int | None = None,
              tile: int | tuple[int, int] | None = None, threads: tuple[int, int] | None = None) -> lk.LoopKernel:
    """A kernel for ``b[j, i] = a[i, j]``.

    A block reads a tile row by row of *a*, and writes it row by row of *b*. A warp then accesses one contiguous piece
    of memory instead of 32.

    Memory is written in sectors of 32 bytes. If a row of *b* starts inside a sector, two blocks write the sectors at
    the ends of their pieces. *rows* fixes the length of the rows of *b*, so that pieces begin at sectors. For this a
    block reads a few more rows of *a* from the cache, except for elements of one byte.

    :arg rows: the number of rows of *a*; default: any, taken from the arrays of a call.
    :arg tile: the rows and columns of a tile, or one number for both. With more rows, a block writes longer contiguous
        pieces; with more columns, it reads longer ones.
    :arg threads: the number of threads of a block along the rows and across them.

    >>> knl = lk.library.transpose()
    >>> print(lk.lower(knl, stop="storage"))
    shared float32 a_fetch[128][65]
    >>> knl(a=np.arange(6, dtype=np.float32).reshape(2, 3)).b
    array([[0., 3.],
           [1., 4.],
           [2., 5.]], dtype=float32)
    """
    known = known_dtype(dtype)
    (along, across), = measured("transpose", known, threads=threads)
    a = lk.GlobalArg("a", shape=(p.Variable("n"), p.Variable("m")))
    knl = lk.make_kernel("{[j, i]: 0<=j<m and 0<=i<n}", "b[j, i] = a[i, j]", [a, "..."], name="transpose")
    knl = lk.add_dtypes(knl, {"a,b": known})
    tile, = measured("transpose", known, **{"tile" if rows is None else "tile_of_rows": tile})
    height, width = tile if isinstance(tile, tuple) else (tile, tile)
    if rows is not None:
        knl = lk.fix_parameters(knl, n=require_positive(rows, "rows"))
        # the number of loads, not memory bandwidth, bounds one-byte elements, and a larger box has more loads
        if known.itemsize > 1:
            # rows of b are counted from the sector in which each begins
            sector = max(SECTOR // known.itemsize, 1)
            behind = rows % sector
            knl = lk.skew(knl, "i", f"{behind}*j % {sector}" if behind > 1 else f"j % {sector}") if behind else knl
    # a block has a tile; consecutive blocks write pieces of the same rows, so that memory gets long rows
    knl = lk.split_iname(knl, "i", height, outer_tag="g.0")
    knl = lk.split_iname(knl, "j", width, outer_tag="g.1")
    # a block reads its tile by rows of a, with as many warps side by side as a row has pieces; if the pieces of b begin
    # at different rows, it reads the box around them and one more row, so that no load has a condition
    beside = gcd(across, -(-width // along))
    knl = lk.add_prefetch(knl, "a", ["i_inner", "j_inner"], default_tag=None, fetch_bounding_box=True,
                          box_multiples=(across // beside, along*beside))
    knl = lk.split_levels(knl, "a_dim_1", {"a_round": None, "a_warp": beside, "a_lane": along},
                          tags={"a_round": "unr", "a_warp": "l.1", "a_lane": "l.0"})
    knl = lk.split_iname(knl, "a_dim_0", across // beside, inner_tag="l.1", outer_tag="unr")
    # a block writes its tile by rows of b
    knl = lk.split_iname(knl, "i_inner", along, inner_tag="l.0", outer_tag="unr")
    knl = lk.split_iname(knl, "j_inner", across, inner_tag="l.1", outer_tag="unr")
    # consecutive writes go to one row
    knl = lk.prioritize_loops(knl, ("j_inner_outer", "i_inner_outer"))
    # a warp then reads a column of the tile: with one more cell per row, its elements are in different banks
    knl = lk.add_padding(knl, "a_fetch", 0, by=1)
    # evicting results first writes them early and consecutively
    return lk.set_cache_policy(knl, "a", "evict_last")
