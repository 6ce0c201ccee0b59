"""Transposition through a tile in shared memory."""
from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loopkit.kernel.kernel import LoopKernel
from loopkit.language.make import make_kernel
from loopkit.library.defaults import WARP, checked
from loopkit.transform.data import add_dtypes, keep_loads
from loopkit.transform.iname import split_iname
from loopkit.transform.order import prioritize_loops
from loopkit.transform.padding import add_padding
from loopkit.transform.prefetch import add_prefetch


def transpose(dtype: npt.DTypeLike = np.float32, *, tile: int | tuple[int, int] | None = None,
              threads: tuple[int, int] = (WARP, 16)) -> LoopKernel:
    """``b[j, i] = a[i, j]``.

    Read along rows, the matrix would be written along columns: a warp would touch 32 pieces of memory for 32
    elements. So a block reads a tile by rows, and writes it by rows of the result.

    :arg tile: rows and columns of a tile, a number where there are as many of both; default: 64 columns, and twice as
        many rows of elements of four bytes or less. The more rows, the longer the pieces that are written.
    :arg threads: of a block, along the rows and across them.

    >>> knl = lk.library.transpose()
    >>> print(lk.lower(knl, stop="storage"))
    local float32 a_fetch[128][65]
    >>> knl(a=np.arange(6, dtype=np.float32).reshape(2, 3)).b
    array([[0., 3.],
           [1., 4.],
           [2., 5.]], dtype=float32)
    """
    along, across = threads
    known = checked(dtype)
    if tile is None:
        tile = (128 if known.itemsize <= 4 else 64, 64)
    rows, columns = tile if isinstance(tile, tuple) else (tile, tile)
    knl = make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "b[j, i] = a[i, j]", name="transpose")
    knl = add_dtypes(knl, {"a,b": known})
    # a block has a tile; blocks that follow each other write pieces of the same rows, so that the memory gets long ones
    knl = split_iname(knl, "i", rows, outer_tag="g.0")
    knl = split_iname(knl, "j", columns, outer_tag="g.1")
    # which it reads by rows of a
    knl = add_prefetch(knl, "a", ["i_inner", "j_inner"], default_tag=None)
    knl = split_iname(knl, "a_dim_1", along, inner_tag="l.0", outer_tag="unr")
    knl = split_iname(knl, "a_dim_0", across, inner_tag="l.1", outer_tag="unr")
    # and writes by rows of b
    knl = split_iname(knl, "i_inner", along, inner_tag="l.0", outer_tag="unr")
    knl = split_iname(knl, "j_inner", across, inner_tag="l.1", outer_tag="unr")
    # one after another, too
    knl = prioritize_loops(knl, ("j_inner_outer", "i_inner_outer"))
    # a warp then reads a column of the tile: with a cell more a row, its elements lie in different banks
    knl = add_padding(knl, "a_fetch", 0, by=1)
    # a cache that gives up results first writes them soon, and one after another
    return keep_loads(knl, "a")
