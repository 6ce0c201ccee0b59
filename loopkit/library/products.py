"""Products of matrices: tiles in shared memory, and a tile of the result in each thread's registers."""
from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loopkit.errors import PreconditionError
from loopkit.kernel.data import GlobalArg
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.options import Options
from loopkit.language.make import make_kernel
from loopkit.library.defaults import checked, items_a_thread, vector_of_rows
from loopkit.transform.data import add_dtypes
from loopkit.transform.iname import split_iname
from loopkit.transform.order import prioritize_loops
from loopkit.transform.padding import add_padding
from loopkit.transform.pipelining import pipeline
from loopkit.transform.prefetch import add_prefetch, precompute
from loopkit.transform.step import require_positive
from loopkit.transform.tags import tag_inames


def matmul(dtype: npt.DTypeLike = np.float32, *, tile: tuple[int, int, int] | None = None,
           threads: tuple[int, int] = (16, 16), min_blocks: int | None = None, stages: int = 2) -> LoopKernel:
    """``c[i, j] = sum(k, a[i, k]*b[k, j])``.

    A block computes a tile of *c* from strips of *a* and *b*, which it copies to shared memory piece by piece: what is
    copied once serves a whole row or column of the tile. Each thread has a small tile of its own in registers, so that
    what it loads from shared memory serves several products too. Strips are loaded in vectors of 16 bytes and read
    from shared memory in such, so that nearly all of a thread's instructions are products. The next strips are on
    their way to registers while a thread computes on these.

    :arg tile: rows and columns of a block's tile of *c*, and how many steps of *k* are copied at once; default:
        128 products a thread of four-byte elements, a quarter as many of larger ones.
    :arg threads: of a block, along the columns and the rows of its tile.
    :arg min_blocks: that shall fit on a multiprocessor, which limits the registers of a thread; 0: no limit; default:
        two where a thread's products take half of its 128 registers then, else one.
    :arg stages: strips of each matrix in shared memory; with one, a strip is stored between two barriers.
    :raises PreconditionError: only one row, one column or one step of *k* is copied at once.

    >>> knl = lk.library.matmul()
    >>> for x in ("i_outer", "i_reg", "i_thread", "j_outer", "j_reg", "j_thread"):
    ...     print(x, knl.tags[x])
    i_outer g.1
    i_reg unr
    i_thread l.1
    j_outer g.0
    j_reg unr
    j_thread l.0
    >>> knl(a=np.ones((2, 3), np.float32), b=np.ones((3, 2), np.float32)).c
    array([[3., 3.],
           [3., 3.]], dtype=float32)
    """
    known = checked(dtype)
    rows, columns, steps = tile or ((128, 256, 8) if known.itemsize <= 4 else (128, 64, 8))
    _require_strips(rows, columns, steps)
    if min_blocks is None:
        min_blocks = 2 if rows*columns*known.itemsize <= 256*threads[0]*threads[1] else 1
    knl = make_kernel("{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<l}", """
        a_columns(column, row) := a[row, column]
        c[i, j] = sum(k, a_columns(k, i)*b[k, j])
        """, [*(GlobalArg(x, known) for x in "abc"), "..."], name="matmul", options=Options(min_blocks=min_blocks))
    # a block has a tile
    knl = split_iname(knl, "i", rows, outer_tag="g.1")
    knl = split_iname(knl, "j", columns, outer_tag="g.0")
    knl = _in_registers(knl, ("i_inner", "j_inner"), steps, threads, known)
    return pipeline(knl, "k_outer", stages)


def batched_matmul(dtype: npt.DTypeLike = np.float32, *, size: int = 64, steps: int = 16,
                   threads: tuple[int, int] | None = None) -> LoopKernel:
    """``c[e, i, j] = sum(k, a[e, i, k]*b[e, k, j])`` for many small square matrices.

    A block has one product, whose result is one tile of :func:`matmul`.

    :arg size: of the matrices.
    :arg steps: of *k* that are copied at once.
    :arg threads: of a block, along the columns and the rows; default: 8 by 8 for four-byte elements, each with 64
        products of a 64 by 64 matrix, twice as many for larger ones.
    :raises PreconditionError: only one row, one column or one step of *k* is copied at once.

    >>> a = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    >>> lk.library.batched_matmul(size=2, steps=2, threads=(2, 2))(a=a, b=a).c
    array([[[ 2.,  3.],
            [ 6., 11.]],
    <BLANKLINE>
           [[46., 55.],
            [66., 79.]]], dtype=float32)
    """
    known = checked(dtype)
    size = require_positive(size, "size")
    _require_strips(size, size, steps)
    knl = make_kernel(f"{{[e, i, j, k]: 0<=e<ne and 0<=i,j,k<{size}}}", """
        a_columns(column, row) := a[e, row, column]
        c[e, i, j] = sum(k, a_columns(k, i)*b[e, k, j])
        """, name="batched_matmul")
    knl = tag_inames(add_dtypes(knl, {"a,b,c": known}), {"e": "g.0"})
    threads = threads or ((8, 8) if known.itemsize <= 4 else (16, 8))
    # the result is a third of what is moved: it is stored in vectors too
    return _in_registers(knl, ("i", "j"), steps, threads, known, along="vec" if items_a_thread(known) > 1 else "unr")


def _require_strips(rows: int, columns: int, steps: int) -> None:
    """:raises PreconditionError: a strip of *a* or *b* is one row or one column, or none."""
    if min(rows, columns, steps) < 2:
        raise PreconditionError(
            f"Of a tile of {rows} by {columns} with {steps} steps a strip has less than two rows or columns.",
            hint="give at least two of each")


def _in_registers(knl: LoopKernel, inames: tuple[str, str], steps: int, threads: tuple[int, int], dtype: np.dtype,
                  along: str = "unr") -> LoopKernel:
    """The tile over *inames*, rows and columns, in the registers of a block's threads.

    :arg along: the tag of elements that follow each other in a row of the result.
    """
    items = items_a_thread(dtype)
    # a thread has pieces of rows and columns, a piece being what is loaded by one instruction
    for x, name, number, axis, tag in (("i", inames[0], threads[1], 1, "unr"), ("j", inames[1], threads[0], 0, along)):
        knl = split_iname(knl, name, items, outer_iname=f"{x}_piece", inner_iname=f"{x}_item", inner_tag=tag)
        knl = split_iname(knl, f"{x}_piece", number, outer_iname=f"{x}_reg", inner_iname=f"{x}_thread",
                          outer_tag="unr", inner_tag=f"l.{axis}")
    knl = split_iname(knl, "k", steps, inner_tag="unr")
    # the strip of a is stored with its columns as rows, so that a piece of a column lies in one place
    knl = precompute(knl, "a_columns", ["k_inner", "i_reg", "i_thread", "i_item"], temporary_name="a_tile",
                     precompute_inames=["a_k", "a_i"], default_tag=None)
    knl = add_prefetch(knl, "b", ["k_inner", "j_reg", "j_thread", "j_item"], temporary_name="b_tile",
                       dim_arg_names=["b_k", "b_j"], default_tag=None)
    # both come in vectors along the rows of a and b, as far as they divide the strip
    shared = ["a_i", "b_k"]
    for x, length in (("a_k", vector_of_rows(steps, dtype)), ("b_j", items)):
        if length > 1:
            knl = split_iname(knl, x, length, outer_iname=f"{x}_vec", inner_iname=f"{x}_item", outer_tag="l.auto",
                              inner_tag="vec")
        else:
            shared.append(x)
    knl = tag_inames(knl, dict.fromkeys(shared, "l.auto"))
    # for each k the thread adds the products of its column of a and its row of b to all of its tile
    knl = prioritize_loops(knl, "k_outer, k_inner, i_reg, i_item, j_reg, j_item")
    # threads that store a row of the strip meet in no bank, and pieces stay aligned
    return add_padding(knl, "a_tile", 0, by=items)
