"""Products with sparse matrices."""
from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loopkit.kernel.kernel import LoopKernel
from loopkit.language.make import make_kernel
from loopkit.library.defaults import THREADS, WARP, checked
from loopkit.transform.data import add_dtypes
from loopkit.transform.iname import split_iname


def csr_matvec(dtype: npt.DTypeLike = np.float32, *, row_length: float | None = None, lanes: int | None = None,
               threads: int = THREADS) -> LoopKernel:
    """``y[i]``, the sum of ``val[k]*x[col[k]]`` over ``rowptr[i] <= k < rowptr[i+1]``.

    Some threads share a row, so that they read a piece of it at once; shuffles add up their parts.

    :arg row_length: how many elements a row has in the mean.
    :arg lanes: threads that share a row, at most a warp; default: a power of two, about half as many as a row has
        elements, of which each thread has two then, and one for rows that are shorter than 8; 8 without *row_length*.
        If a few rows have most of the elements, more are better.
    :arg threads: of a block.

    >>> rowptr, col = np.array([0, 2, 3], np.int32), np.array([0, 1, 1], np.int32)
    >>> val, x = np.array([1, 2, 3], np.float32), np.array([10, 20], np.float32)
    >>> lk.library.csr_matvec()(rowptr=rowptr, col=col, val=val, x=x).y
    array([50., 60.], dtype=float32)
    """
    if lanes is None:
        lanes = 8 if row_length is None else lanes_for(row_length)
    knl = make_kernel(
        ["{[i]: 0<=i<n}", "{[k]: first<=k<last}"],
        """
        for i
            <> first = rowptr[i]
            <> last = rowptr[i+1]
            y[i] = sum(k, val[k]*x[col[k]])
        end
        """, name="csr_matvec")
    knl = add_dtypes(knl, {"val,x,y": checked(dtype), "rowptr,col": np.int32})
    if lanes == 1:
        return split_iname(knl, "i", threads, outer_tag="g.0", inner_tag="l.0")
    knl = split_iname(knl, "i", max(threads//lanes, 1), outer_tag="g.0", inner_tag="l.1")
    return split_iname(knl, "k", lanes, inner_tag="l.0")


def lanes_for(row_length: float) -> int:
    """A power of two, about half of *row_length*; a lane's share of a row must be worth what combining it costs."""
    if row_length < 8:
        return 1
    return min(1 << (round(row_length).bit_length() - 2), WARP)
