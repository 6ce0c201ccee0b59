"""Stencils: each thread goes down some columns, which it loads as vectors, a few rows at a time."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from loopkit.kernel.kernel import LoopKernel
from loopkit.language.make import make_kernel
from loopkit.library.defaults import WARP, checked, items_a_thread
from loopkit.transform.data import add_dtypes
from loopkit.transform.iname import split_iname
from loopkit.transform.partition import duplicate_inames
from loopkit.transform.peel import peel
from loopkit.transform.tags import tag_inames


def stencil_2d(dtype: npt.DTypeLike = np.float32, *, rows: int = 16, threads: tuple[int, int] = (WARP, 8)
               ) -> LoopKernel:
    """The five-point Laplacian ``a[i-1, j] + a[i+1, j] + a[i, j-1] + a[i, j+1] - 4*a[i, j]`` of the inner points.

    A thread has 16 bytes of a row at once, which it loads by one instruction. Of what a row needs of the rows above
    and below, the thread that goes down its columns has loaded most already: unrolled, *rows* of it are one piece of
    code, in which each element is loaded once. Of the neighbours along a row all but two are in its own registers;
    those come from the L1 cache, where other threads of the warp have them.

    :arg rows: that a thread computes.
    :arg threads: of a block, along a row and across the rows.

    >>> knl = lk.library.stencil_2d(rows=4)
    >>> for x in ("i_outer_outer", "i_outer_inner", "i_inner", "j_vec_outer", "j_vec_inner", "j_item"):
    ...     print(x, knl.tags[x])
    i_outer_outer g.1
    i_outer_inner l.1
    i_inner unr
    j_vec_outer g.0
    j_vec_inner l.0
    j_item vec
    >>> knl(a=np.eye(4, dtype=np.float32)).out
    array([[ 0.,  0.,  0.,  0.],
           [ 0., -4.,  2.,  0.],
           [ 0.,  2., -4.,  0.],
           [ 0.,  0.,  0.,  0.]], dtype=float32)
    """
    along, across = threads
    known = checked(dtype)
    knl = make_kernel("{[i, j]: 1<=i<n-1 and 1<=j<m-1}",
                      "out[i, j] = a[i-1, j] + a[i+1, j] + a[i, j-1] + a[i, j+1] - 4*a[i, j]", name="stencil_2d")
    knl = _in_vectors(add_dtypes(knl, {"a,out": known}), ["i"], "j", items_a_thread(known))
    knl = split_iname(knl, "j_vec", along, outer_tag="g.0", inner_tag="l.0")
    knl = split_iname(knl, "i", rows, inner_tag="unr")
    knl = split_iname(knl, "i_outer", across, outer_tag="g.1", inner_tag="l.1")
    # the first blocks of all rows have their edges
    knl = split_iname(knl, "i_edge", rows*across, outer_tag="g.1")
    return split_iname(knl, "i_edge_inner", along, inner_tag="l.0")


def stencil_3d(dtype: npt.DTypeLike = np.float32, *, planes: int = 8, threads: tuple[int, int] = (16, 16)
               ) -> LoopKernel:
    """The seven-point Laplacian of the inner points; each thread goes through *planes* as in :func:`stencil_2d`.

    A block's threads cover a rectangle of a plane: the L1 cache then has the rows above and below too.

    :arg planes: that a thread computes.
    :arg threads: of a block, along a row and across the rows.

    >>> knl = lk.library.stencil_3d()
    >>> for x in ("i_outer", "i_inner", "j_outer", "j_inner", "k_vec_outer", "k_vec_inner", "k_item"):
    ...     print(x, knl.tags[x])
    i_outer g.2
    i_inner unr
    j_outer g.1
    j_inner l.1
    k_vec_outer g.0
    k_vec_inner l.0
    k_item vec
    """
    along, across = threads
    known = checked(dtype)
    knl = make_kernel(
        "{[i, j, k]: 1<=i<n-1 and 1<=j<m-1 and 1<=k<l-1}",
        "out[i, j, k] = a[i-1, j, k] + a[i+1, j, k] + a[i, j-1, k] + a[i, j+1, k]"
        " + a[i, j, k-1] + a[i, j, k+1] - 6*a[i, j, k]", name="stencil_3d")
    knl = _in_vectors(add_dtypes(knl, {"a,out": known}), ["i", "j"], "k", items_a_thread(known))
    knl = split_iname(knl, "k_vec", along, outer_tag="g.0", inner_tag="l.0")
    knl = split_iname(knl, "j", across, outer_tag="g.1", inner_tag="l.1")
    knl = split_iname(knl, "i", planes, outer_tag="g.2", inner_tag="unr")
    # the first blocks of all rows have their edges
    knl = split_iname(knl, "j_edge", across, outer_tag="g.1", inner_tag="l.1")
    return split_iname(knl, "i_edge", planes, outer_tag="g.2", inner_tag="l.0")


def _in_vectors(knl: LoopKernel, outer: Sequence[str], inner: str, items: int) -> LoopKernel:
    """Rows, along *inner*, in vectors of *items*, and what is not a whole one at their ends in loops of its own.

    Inner points begin at 1, vectors at multiples of their length. In one loop with the others the first and the last
    vector would be conditions on all of them, under which elements are moved one by one.
    """
    if items == 1:
        # an element has 16 bytes by itself; vectors are of two
        items = 2
    knl = split_iname(knl, inner, items, outer_iname=f"{inner}_vec", inner_iname=f"{inner}_item")
    knl = peel(knl, f"{inner}_vec", first=1, last=1)
    # the ends of rows have loops over the rows too, so that nothing stands between the rows of the others
    knl = duplicate_inames(knl, [*outer, f"{inner}_item"], within="insn_*",
                           new_inames=[f"{x}_edge" for x in [*outer, inner]])
    return tag_inames(knl, {f"{inner}_item": "vec"})
