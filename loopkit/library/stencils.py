"""Stencils: each thread goes down its column, a few rows at a time."""
from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loopkit.kernel.kernel import LoopKernel
from loopkit.language.make import make_kernel
from loopkit.library.defaults import THREADS, WARP, checked
from loopkit.transform.data import add_dtypes
from loopkit.transform.iname import split_iname


def stencil_2d(dtype: npt.DTypeLike = np.float32, *, rows: int = 8, threads: int = THREADS) -> LoopKernel:
    """The five-point Laplacian ``a[i-1, j] + a[i+1, j] + a[i, j-1] + a[i, j+1] - 4*a[i, j]`` of the inner points.

    Of what a row needs of the rows above and below, the thread that goes down the column has loaded most already:
    unrolled, *rows* of it are one piece of code, in which each element of the column is loaded once. Neighbours along
    a row come from the L1 cache, where other threads of the warp have them.

    :arg rows: that a thread computes.
    :arg threads: of a block, all along a row.

    >>> knl = lk.library.stencil_2d(rows=4)
    >>> {x: str(t) for x, t in knl.tags.items()}
    {'i_outer': 'g.1', 'i_inner': 'unr', 'j_outer': 'g.0', 'j_inner': 'l.0'}
    >>> knl(a=np.eye(4, dtype=np.float32)).out
    array([[ 0.,  0.,  0.,  0.],
           [ 0., -4.,  2.,  0.],
           [ 0.,  2., -4.,  0.],
           [ 0.,  0.,  0.,  0.]], dtype=float32)
    """
    knl = make_kernel("{[i, j]: 1<=i<n-1 and 1<=j<m-1}",
                      "out[i, j] = a[i-1, j] + a[i+1, j] + a[i, j-1] + a[i, j+1] - 4*a[i, j]", name="stencil_2d")
    knl = add_dtypes(knl, {"a,out": checked(dtype)})
    knl = split_iname(knl, "i", rows, outer_tag="g.1", inner_tag="unr")
    return split_iname(knl, "j", threads, outer_tag="g.0", inner_tag="l.0")


def stencil_3d(dtype: npt.DTypeLike = np.float32, *, planes: int = 8, threads: tuple[int, int] = (WARP, 8)
               ) -> LoopKernel:
    """The seven-point Laplacian of the inner points; each thread goes through *planes* as in :func:`stencil_2d`.

    A block's threads cover a rectangle of a plane: the L1 cache then has the rows above and below too.

    :arg planes: that a thread computes.
    :arg threads: of a block, along a row and across the rows.

    >>> knl = lk.library.stencil_3d()
    >>> {x: str(t) for x, t in knl.tags.items()}
    {'i_outer': 'g.2', 'i_inner': 'unr', 'j_outer': 'g.1', 'j_inner': 'l.1', 'k_outer': 'g.0', 'k_inner': 'l.0'}
    """
    along, across = threads
    knl = make_kernel(
        "{[i, j, k]: 1<=i<n-1 and 1<=j<m-1 and 1<=k<l-1}",
        "out[i, j, k] = a[i-1, j, k] + a[i+1, j, k] + a[i, j-1, k] + a[i, j+1, k]"
        " + a[i, j, k-1] + a[i, j, k+1] - 6*a[i, j, k]", name="stencil_3d")
    knl = add_dtypes(knl, {"a,out": checked(dtype)})
    knl = split_iname(knl, "i", planes, outer_tag="g.2", inner_tag="unr")
    knl = split_iname(knl, "j", across, outer_tag="g.1", inner_tag="l.1")
    return split_iname(knl, "k", along, outer_tag="g.0", inner_tag="l.0")
