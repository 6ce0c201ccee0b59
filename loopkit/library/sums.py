"""Sums over all elements, over rows and over columns, in two launches where blocks have to meet."""
from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loopkit.kernel.kernel import LoopKernel
from loopkit.language.make import make_kernel
from loopkit.library.defaults import THREADS, WARP, checked
from loopkit.transform.barrier import add_barrier
from loopkit.transform.data import add_dtypes, fix_parameters
from loopkit.transform.iname import split_iname
from loopkit.transform.tags import tag_inames


def full_sum(dtype: npt.DTypeLike = np.float32, *, blocks: int = 1024, threads: int = THREADS, items: int = 8
             ) -> LoopKernel:
    """``s[0]``, the sum of all ``x[i]``: *blocks* partial sums, and their sum in a second launch.

    The number of blocks is fixed, so that the second launch has little to do however long *x* is. In a step all blocks
    together read one piece of memory, *items* elements a thread.

    :arg blocks: of the first launch, more than run at once; they are the terms of the second.
    :arg threads: of a block.
    :arg items: loads that a thread has under way at once.

    >>> lk.library.full_sum()(x=np.arange(5, dtype=np.float32)).s
    array([10.], dtype=float32)
    """
    step = threads*items
    knl = make_kernel(
        [f"{{[b, c]: 0<=b,c<{blocks}}}",
         f"[b] -> {{[r, u, t]: 0<=r and 0<=u<{items} and 0<=t<{threads}"
         f" and {step*blocks}*r + {step}*b + {threads}*u + t < n}}"],
        f"""
        for b
            <> partial[b] = sum([r, u, t], x[{step*blocks}*r + {step}*b + {threads}*u + t])  {{id=partial}}
        end
        s[0] = sum(c, partial[c])  {{id=total}}
        """, name="full_sum")
    knl = add_dtypes(knl, {"x,s": checked(dtype)})
    knl = tag_inames(knl, {"b": "g.0", "t": "l.0", "u": "unr"})
    knl = split_iname(knl, "c", threads, inner_tag="l.0")
    return add_barrier(knl, "partial", "total.c.init")


def row_sum(dtype: npt.DTypeLike = np.float32, *, columns: int | None = None, threads: int = THREADS) -> LoopKernel:
    """``s[i]``, the sum of row *i* of *x*; a block has a row.

    :arg columns: how long rows are, so that all loads of a thread are under way at once; default: what the arrays of
        a call say.
    :arg threads: of a block; each adds up a part of the row, and a tree the parts.

    >>> lk.library.row_sum()(x=np.ones((2, 3), np.float32)).s
    array([3., 3.], dtype=float32)
    """
    knl = make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "s[i] = sum(j, x[i, j])", name="row_sum")
    knl = tag_inames(add_dtypes(knl, {"x,s": checked(dtype)}), {"i": "g.0"})
    if columns is not None:
        knl = fix_parameters(knl, m=columns)
    return split_iname(knl, "j", threads, outer_tag=None if columns is None else "unr", inner_tag="l.0")


def column_sum(dtype: npt.DTypeLike = np.float32, *, rows: int = 256, threads: tuple[int, int] = (WARP, 8),
               items: int = 4) -> LoopKernel:
    """``s[j]``, the sum of column *j* of *x*: sums over *rows* rows each, and their sum in a second launch.

    Neighbouring threads have neighbouring columns, so that a warp reads a piece of a row. There are too few columns
    for all threads of a GPU; so blocks share a column, and threads of a block do.

    :arg rows: that a block adds up.
    :arg threads: of a block, along a row and across the rows.
    :arg items: loads that a thread has under way at once.

    >>> lk.library.column_sum()(x=np.ones((2, 3), np.float32)).s
    array([2., 2., 2.], dtype=float32)
    """
    along, across = threads
    knl = make_kernel(
        [f"{{[b, j]: 0<=j<m and 0<=b and {rows}*b<n}}", f"[b] -> {{[i]: {rows}*b<=i<n and i<{rows}*b + {rows}}}",
         f"{{[k, c]: 0<=k<m and 0<=c and {rows}*c<n}}"],
        """
        for b, j
            <> partial[b, j] = sum(i, x[i, j])  {id=partial}
        end
        for k
            s[k] = sum(c, partial[c, k])  {id=total}
        end
        """, name="column_sum")
    knl = add_dtypes(knl, {"x,s": checked(dtype)})
    # a block has some rows, and as many columns as a warp has threads
    knl = tag_inames(knl, {"b": "g.1"})
    knl = split_iname(knl, "j", along, outer_tag="g.0", inner_tag="l.0")
    knl = split_iname(knl, "i", across*items)
    knl = split_iname(knl, "i_inner", across, outer_iname="i_item", inner_iname="i_thread", outer_tag="unr",
                      inner_tag="l.1")
    knl = split_iname(knl, "k", along, outer_tag="g.0", inner_tag="l.0")
    return add_barrier(knl, "partial", "total.c.init")
