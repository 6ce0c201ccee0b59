"""Sums over all elements, over rows and over columns; two launches if blocks share a sum."""
from __future__ import annotations

import numpy as np
import numpy.typing as npt

import loopkit as lk
from loopkit.kernel.annotations import checked
from loopkit.kernel.target import WARP
from loopkit.library.defaults import THREADS, in_vectors, items_a_thread, known_dtype, vector, vector_of_rows


@checked
def full_sum(dtype: npt.DTypeLike = np.float32, *, blocks: int = 1024, threads: int = THREADS, items: int = 4
             ) -> lk.LoopKernel:
    """``s[0]``, the sum of all ``x[i]``: *blocks* partial sums, and their sum in a second launch.

    The number of blocks is fixed, so the second launch has little work for any length of *x*. In each step all blocks
    together read one piece of memory, *items* vectors of 16 bytes per thread.

    :arg blocks: of the first launch, about as many as run at once; they are the terms of the second.
    :arg threads: of a block.
    :arg items: concurrent loads per thread.

    >>> lk.library.full_sum()(x=np.arange(5, dtype=np.float32)).s
    array([10.], dtype=float32)
    """
    known = known_dtype(dtype)
    length = items_a_thread(known)
    step = threads*items*length
    place = f"{step*blocks}*r + {step}*b + {threads*length}*u + {length}*t + v"
    knl = lk.make_kernel(
        [f"{{[b, c]: 0<=b,c<{blocks}}}",
         f"[b] -> {{[r, u, t, v]: 0<=r and 0<=u<{items} and 0<=t<{threads} and 0<=v<{length} and {place} < n}}"],
        f"""
        for b
            <> partial[b] = sum([r, u, t, v], x[{place}])  {{id=partial}}
        end
        s[0] = sum(c, partial[c])  {{id=total}}
        """, name="full_sum")
    knl = lk.add_dtypes(knl, {"x,s": known})
    knl = lk.tag_inames(knl, {"b": "g.0", "t": "l.0", "u": "unr", "v": vector(length)})
    knl = lk.split_iname(knl, "c", threads, inner_tag="l.0")
    return lk.add_barrier(knl, "partial", "total.c.init")


@checked
def row_sum(dtype: npt.DTypeLike = np.float32, *, columns: int | None = None, threads: int = THREADS) -> lk.LoopKernel:
    """``s[i]``, the sum of row *i* of *x*; a block has a row.

    :arg columns: length of the rows, so that all loads of a thread run concurrently, in the longest vectors of up to 16
        bytes that divide the length; default: any, given by the arrays of a call.
    :arg threads: of a block; each adds up a part of the row, and shuffles add up the parts.

    >>> lk.library.row_sum()(x=np.ones((2, 3), np.float32)).s
    array([3., 3.], dtype=float32)
    """
    known = known_dtype(dtype)
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "s[i] = sum(j, x[i, j])", name="row_sum")
    knl = lk.tag_inames(lk.add_dtypes(knl, {"x,s": known}), {"i": "g.0"})
    if columns is None:
        return lk.split_iname(knl, "j", threads, inner_tag="l.0")
    knl = lk.fix_parameters(knl, m=columns)
    return in_vectors(knl, "j", vector_of_rows(columns, known), threads, outer_tag="unr")


@checked
def column_sum(dtype: npt.DTypeLike = np.float32, *, rows: int = 256, threads: tuple[int, int] = (WARP, 8),
               items: int = 4) -> lk.LoopKernel:
    """``s[j]``, the sum of column *j* of *x*: sums over *rows* rows each, and their sum in a second launch.

    Neighbouring threads have neighbouring columns, so that a warp reads a piece of a row. A matrix has too few columns
    to occupy all threads of a GPU, so several blocks share a column, and so do threads of a block.

    :arg rows: that a block adds up.
    :arg threads: of a block, along a row and across the rows.
    :arg items: concurrent loads per thread.

    >>> lk.library.column_sum()(x=np.ones((2, 3), np.float32)).s
    array([2., 2., 2.], dtype=float32)
    """
    along, across = threads
    knl = lk.make_kernel(
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
    knl = lk.add_dtypes(knl, {"x,s": known_dtype(dtype)})
    # a block has some rows, and as many columns as a warp has threads
    knl = lk.tag_inames(knl, {"b": "g.1"})
    knl = lk.split_iname(knl, "j", along, outer_tag="g.0", inner_tag="l.0")
    knl = lk.split_levels(knl, "i", {"i_outer": None, "i_item": items, "i_thread": across},
                          tags={"i_item": "unr", "i_thread": "l.1"})
    knl = lk.split_iname(knl, "k", along, outer_tag="g.0", inner_tag="l.0")
    return lk.add_barrier(knl, "partial", "total.c.init")
