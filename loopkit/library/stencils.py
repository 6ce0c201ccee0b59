"""Stencils: one sweep at the speed of the memory, and several sweeps with one read and one write of the grid."""
from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

import loopkit as lk
from loopkit.kernel.annotations import checked
from loopkit.library.defaults import in_vectors, items_a_thread, known_dtype, measured, vector_of_rows

#: Least length of a row for vectors that rows do not divide: columns of neighbouring rows may be needed.
LEAST_COLUMNS = 64


@checked
def stencil_2d(dtype: npt.DTypeLike = np.float32, *, columns: int | None = None, rows: int | None = None,
               threads: tuple[int, int] | None = None) -> lk.LoopKernel:
    """A kernel for the five-point Laplacian of the inner points of the grid *a*.

    ``out[i, j] = a[i-1, j] + a[i+1, j] + a[i, j-1] + a[i, j+1] - 4*a[i, j]``.

    One instruction loads 16 bytes of a row for a thread. The *rows* rows of a thread are unrolled into one piece of
    code that loads each element once. All but two of the neighbours along a row are in the thread's own registers.
    These two come from the L1 cache, and rows that two blocks share come from the L2 cache.

    If vectors do not divide long rows, a thread counts columns from the first aligned element of its first row. The
    columns are skewed from row to row, so that vectors of neighbouring rows are exactly above each other.

    :arg columns: the number of elements of a row; default: a multiple of a vector of 16 bytes. Calls with other rows
        run code without vectors. If *columns* is 64 or more and not such a multiple, the rows of a call must have the
        same remainder, and at least 64 elements.
    :arg rows: the number of rows that a thread computes; default: more if elements are moved one by one.
    :arg threads: the number of threads of a block along a row and across the rows.

    >>> knl = lk.library.stencil_2d()
    >>> inames = ("i_outer_outer", "i_outer_inner", "i_inner", "j_vec_outer", "j_vec_inner", "j_item")
    >>> print(*(f"{x}:{knl.tags[x]}" for x in inames))
    i_outer_outer:g.1 i_outer_inner:l.1 i_inner:unr j_vec_outer:g.0 j_vec_inner:l.0 j_item:vec
    >>> knl(a=np.eye(4, dtype=np.float32)).out
    array([[ 0.,  0.,  0.,  0.],
           [ 0., -4.,  2.,  0.],
           [ 0.,  2., -4.,  0.],
           [ 0.,  0.,  0.,  0.]], dtype=float32)
    >>> lk.library.stencil_2d(columns=16377).history[2].name
    'skew'
    """
    known = known_dtype(dtype)
    items, rest = _items(columns, known)
    rows, (along, across) = measured(f"stencil_2d{'_skewed' if rest else '_single' if items == 1 else ''}",
                                     rows=rows, threads=threads)
    knl = lk.make_kernel("{[i, j]: 1<=i<n-1 and 1<=j<m-1}",
                         "out[i, j] = a[i-1, j] + a[i+1, j] + a[i, j-1] + a[i, j+1] - 4*a[i, j]", name="stencil_2d",
                         assumptions=_promised("m", rest, items))
    knl = lk.split_iname(lk.add_dtypes(knl, {"a,out": known}), "i", rows)
    if rest:
        knl = lk.skew(knl, "j", _skew_offset({"i": (rest, rows)}, items))
    # inner points begin at 1 and vectors at multiples of their length: the first and the last vector of a row are
    # loaded whole, and stored without the elements that are not inner points
    knl = lk.tag_inames(in_vectors(knl, "j", items, along, outer_tag="g.0"), {"i_inner": "unr"})
    return lk.split_iname(knl, "i_outer", across, outer_tag="g.1", inner_tag="l.1")


@checked
def stencil_3d(dtype: npt.DTypeLike = np.float32, *, columns: int | tuple[int, int] | None = None,
               planes: int | None = None, rows: int | None = None, threads: tuple[int, int] | None = None,
               min_blocks: int | None = None) -> lk.LoopKernel:
    """A kernel for the seven-point Laplacian of the inner points of the grid ``a[i, j, k]``.

    ``out[i, j, k]`` is the sum of the six neighbours of ``a[i, j, k]``, minus ``6*a[i, j, k]``. Each thread computes
    rows of some planes as in :func:`stencil_2d`. The threads of a block cover a rectangle of a plane, so that the L1
    cache holds the rows above and below too.

    :arg columns: the number of elements of a row, or a pair: the number of rows of a plane, and of elements of a row.
        See :func:`stencil_2d`. If vectors do not divide the rows, their alignment depends on both numbers.
    :arg planes: the number of planes that a thread computes, *rows* rows of each; default: fewer if elements are moved
        one by one.
    :arg threads: the number of threads of a block along a row and across the rows.
    :arg min_blocks: the least number of blocks on a multiprocessor, which limits the registers of a thread; default:
        for vectors of 4 elements, as many as leave a thread enough registers; else 0 (no limit).

    >>> knl = lk.library.stencil_3d()
    >>> inames = ("i_outer", "i_inner", "j_outer_outer", "j_outer_inner", "j_inner", "k_vec_outer", "k_vec_inner")
    >>> print(*(f"{x}:{knl.tags[x]}" for x in inames))
    i_outer:g.2 i_inner:unr j_outer_outer:g.1 j_outer_inner:l.1 j_inner:unr k_vec_outer:g.0 k_vec_inner:l.0
    """
    known = known_dtype(dtype)
    a_plane, a_row = columns if isinstance(columns, tuple) else (None, columns)
    items, rest = _items(a_row, known, a_plane is not None)
    planes, rows, (along, across) = measured(f"stencil_3d{'_single' if items == 1 else ''}",
                                             planes=planes, rows=rows, threads=threads)
    promised = _promised("l", rest, items)
    knl = lk.make_kernel(
        "{[i, j, k]: 1<=i<n-1 and 1<=j<m-1 and 1<=k<l-1}",
        "out[i, j, k] = a[i-1, j, k] + a[i+1, j, k] + a[i, j-1, k] + a[i, j+1, k]"
        " + a[i, j, k-1] + a[i, j, k+1] - 6*a[i, j, k]", name="stencil_3d",
        assumptions=promised and f"{promised} and m % {items} = {(a_plane or 0) % items}")
    knl = lk.split_iname(lk.split_iname(lk.add_dtypes(knl, {"a,out": known}), "j", rows), "i", planes)
    if rest:
        knl = lk.skew(knl, "k", _skew_offset({"i": (rest*(a_plane or 0) % items, planes), "j": (rest, rows)}, items))
    knl = in_vectors(knl, "k", items, along, outer_tag="g.0")
    knl = lk.split_iname(knl, "j_outer", across, outer_tag="g.1", inner_tag="l.1")
    knl = lk.tag_inames(knl, {"i_outer": "g.2", "i_inner": "unr", "j_inner": "unr"})
    if min_blocks is None:
        resident, = measured("stencil_3d", resident_threads=None)
        min_blocks = resident//(along*across) if items == 4 else 0
    return lk.set_options(knl, min_blocks=min_blocks) if min_blocks else knl


@checked
def jacobi(dtype: npt.DTypeLike = np.float32, *, sweeps: int = 4, rows: int | None = None,
           threads: tuple[int, int] | None = None) -> lk.LoopKernel:
    """A kernel for *sweeps* sweeps of Jacobi's method, from the grid *a* to the grid *out*.

    A sweep replaces every inner point by the mean of its four neighbours. Points on the rim keep their values.

    A block computes a tile of the last sweep from a larger tile of the sweep before, and so on down to the first sweep,
    which reads the grid. Each tile has two rows and two columns fewer than the tile of the sweep before. The values
    equal those of single sweeps to the last bit.

    :arg rows: the number of rows of each sweep that a thread computes; default: fewer for larger elements.
    :arg threads: the number of threads of a block along a row and across the rows. The tile of the first sweep has a
        point for each row of each thread.
    :raises PreconditionError: *sweeps* is not a positive integer, or is so large that a tile has no points.

    >>> knl = lk.library.jacobi(sweeps=3, rows=4, threads=(32, 4))
    >>> print(lk.lower(knl, stop="storage"))
    shared float32 u1_tile[16][32]
    shared float32 u2_tile[14][30]
    >>> grid = np.zeros((6, 6), np.float32)
    >>> grid[0] = 64
    >>> knl(a=grid).out[:, 2]
    array([64., 28.,  8.,  1.,  0.,  0.], dtype=float32)
    """
    known = known_dtype(dtype)
    (along, across), column = measured("jacobi", threads=threads, bytes_of_column=None)
    rows = max(column//known.itemsize, 1) if rows is None else rows
    tile = (rows*across - 2*(sweeps - 1), along - 2*(sweeps - 1))
    if sweeps < 1:
        raise lk.PreconditionError(f"jacobi: sweeps must be a positive integer, not {sweeps}.", subject="sweeps",
                                   hint="sweeps=1")
    if min(tile) < 1:
        raise lk.PreconditionError(
            f"jacobi: {sweeps} sweeps leave no points of a tile of {rows*across} by {along} points.", subject="sweeps",
            hint="use more rows, more threads or fewer sweeps")
    knl = lk.add_dtypes(_sweeps(sweeps), {"a,out": known})
    knl = lk.split_iname(knl, "i", tile[0], outer_tag="g.1")
    knl = lk.split_iname(knl, "j", tile[1], outer_tag="g.0")
    # the last sweep but one on all points that the tile reads, then the points that these read, and so on; each is a
    # box, which contains its unneeded corners
    inner = ["i_inner", "j_inner"]
    for k in reversed(range(1, sweeps)):
        knl = lk.precompute(knl, f"u{k}", inner, precompute_inames=[f"i{k}", f"j{k}"], default_tag=None,
                            fetch_bounding_box=True, temporary_name=f"u{k}_tile", compute_insn_id=f"sweep{k}",
                            within="insn" if k == sweeps - 1 else f"sweep{k + 1}")
        inner = [f"i{k}", f"j{k}"]
    # neighbouring rows of a thread are unrolled: each value is loaded once for the points below, at and above it
    for k in (*range(1, sweeps), "_inner"):
        knl = lk.tag_inames(lk.split_iname(knl, f"i{k}", rows, outer_tag="l.1", inner_tag="unr"), {f"j{k}": "l.0"})
    return knl


def _sweeps(sweeps: int) -> lk.LoopKernel:
    """``out`` as the composition of *sweeps* rules on ``a``."""
    rules = []
    for k in range(1, sweeps + 1):
        above, below, left, right = (f"u{k - 1}({at})" if k > 1 else f"a[{at}]"
                                     for at in ("p-1, q", "p+1, q", "p, q-1", "p, q+1"))
        rules.append(f"u{k}(p, q) := if(1 <= p and p < n-1 and 1 <= q and q < m-1, "
                     f"0.25*({above} + {below} + {left} + {right}), a[p, q])")
    return lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "\n".join([*rules, f"out[i, j] = u{sweeps}(i, j)"]),
                          name="jacobi")


def _items(columns: int | None, dtype: np.dtype, anywhere: bool = True) -> tuple[int, int]:
    """The elements of a row that a thread has at once, and the remainder of *columns* modulo a vector of 16 bytes: none
    if rows are short or must not start *anywhere*, as the elements then divide the rows."""
    items = items_a_thread(dtype)
    if columns is None or columns % items == 0:
        return items, 0
    return (items, columns % items) if anywhere and columns >= LEAST_COLUMNS else (vector_of_rows(columns, dtype), 0)


def _promised(columns: str, rest: int, items: int) -> str | None:
    return f"{columns} % {items} = {rest} and {columns} >= {LEAST_COLUMNS}" if rest else None


def _skew_offset(steps: Mapping[str, tuple[int, int]], items: int) -> str:
    """The offset by which columns are skewed, so that vectors begin at a multiple of *items*.

    *steps* has for each iname the number of elements by which each iteration starts later, and the number of iterations
    of a piece. Within a piece, the offset grows by the difference to the nearest multiple of a vector.
    """
    pieces = [f"{rest*count}*{x}_outer" for x, (rest, count) in steps.items() if rest]
    inside = [f"{rest if 2*rest <= items else rest - items}*{x}_inner" for x, (rest, _) in steps.items() if rest]
    return " + ".join([f"({' + '.join(pieces)}) % {items}", *inside])
