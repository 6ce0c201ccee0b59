"""Stencils: one sweep at the memory's pace, and several sweeps for one read and one write of the grid."""
from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from loopkit.errors import PreconditionError
from loopkit.kernel.annotations import checked
from loopkit.kernel.devices import WARP
from loopkit.kernel.kernel import LoopKernel
from loopkit.language.make import make_kernel
from loopkit.library.defaults import items_a_thread, known_dtype, vector_of_rows
from loopkit.transform.affine import skew
from loopkit.transform.data import add_dtypes, set_options
from loopkit.transform.iname import split_iname
from loopkit.transform.prefetch import precompute
from loopkit.transform.tags import tag_inames

#: Of what a thread computes of a column in shared memory: several blocks of such threads share a multiprocessor.
BYTES_A_COLUMN = 64
#: Of a multiprocessor that works on vectors in three dimensions: each has 48 registers then.
THREADS_AT_ONCE = 1280
#: Columns that may be needed of the rows beside one, of all rows that a thread has: shorter rows have no such vectors.
LEAST_COLUMNS = 64


@checked
def stencil_2d(dtype: npt.DTypeLike = np.float32, *, columns: int | None = None, rows: int | None = None,
               threads: tuple[int, int] | None = None) -> LoopKernel:
    """The five-point Laplacian ``a[i-1, j] + a[i+1, j] + a[i, j-1] + a[i, j+1] - 4*a[i, j]`` of the inner points.

    A thread has 16 bytes of a row at once, which it loads by one instruction. Of what a row needs of the rows above
    and below, the thread that goes down its columns has loaded most already: unrolled, *rows* of it are one piece of
    code, in which each element is loaded once. Of the neighbours along a row all but two are in its own registers;
    those come from the L1 cache, where other threads of the warp have them.

    Few rows a thread, although the rows between two blocks are read by both: these come from memory once only if what
    all blocks at once read and write in between fits the L2 cache. 2 rows of 16 bytes, in and out, of 270000 threads
    are 17 MB.

    Long rows that vectors do not divide begin anywhere in one. There columns are counted from where a row has its first
    aligned element, for all rows of a thread from that of the first; from row to row its columns move on by the one or
    two elements by which rows differ from whole vectors, so that rows of vectors lie exactly above each other.

    :arg columns: how long rows of the arrays are, if that is known; default: a multiple of a vector of 16 bytes. Calls
        with other rows run a text without vectors, but a length of 64 or more that is no such multiple is a promise:
        rows of calls have its remainder, and as many elements too.
    :arg rows: that a thread computes; default: 2, and 8 where elements are moved one by one.
    :arg threads: of a block, along a row and across the rows.

    >>> knl = lk.library.stencil_2d()
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
    >>> lk.library.stencil_2d(columns=16377).history[2].name
    'skew'
    """
    known = known_dtype(dtype)
    items, rest = _items(columns, known)
    along, across = threads or (2*WARP if rest else 4*WARP, 4 if items > 1 else 2)
    rows = rows or (2 if items > 1 else 8)
    knl = make_kernel("{[i, j]: 1<=i<n-1 and 1<=j<m-1}",
                      "out[i, j] = a[i-1, j] + a[i+1, j] + a[i, j-1] + a[i, j+1] - 4*a[i, j]", name="stencil_2d",
                      assumptions=_promised("m", rest, items))
    knl = split_iname(add_dtypes(knl, {"a,out": known}), "i", rows)
    if rest:
        knl = skew(knl, "j", _start({"i": (rest, rows)}, items))
    knl = tag_inames(_along_rows(knl, "j", items, along), {"i_inner": "unr"})
    return split_iname(knl, "i_outer", across, outer_tag="g.1", inner_tag="l.1")


@checked
def stencil_3d(dtype: npt.DTypeLike = np.float32, *, columns: int | tuple[int, int] | None = None,
               planes: int | None = None, rows: int = 2, threads: tuple[int, int] | None = None,
               min_blocks: int | None = None) -> LoopKernel:
    """The seven-point Laplacian of the inner points; each thread has rows of some planes as in :func:`stencil_2d`.

    A block's threads cover a rectangle of a plane: the L1 cache then has the rows above and below too, and the L2 cache
    the planes between two blocks, as there the rows.

    :arg columns: how long rows of the arrays are, or how many a plane has and how long they are, see
        :func:`stencil_2d`; where vectors begin in a row that they do not divide depends on both.
    :arg planes: that a thread computes, *rows* of each; default: 4, and 2 where elements are moved one by one.
    :arg threads: of a block, along a row and across the rows.
    :arg min_blocks: that shall share a multiprocessor; default: as many as have 1280 threads, for whose registers
        vectors of 4 elements have enough, and else as the compiler likes (0).

    >>> knl = lk.library.stencil_3d()
    >>> for x in ("i_outer", "i_inner", "j_outer_outer", "j_outer_inner", "j_inner", "k_vec_outer", "k_vec_inner"):
    ...     print(x, knl.tags[x])
    i_outer g.2
    i_inner unr
    j_outer_outer g.1
    j_outer_inner l.1
    j_inner unr
    k_vec_outer g.0
    k_vec_inner l.0
    """
    known = known_dtype(dtype)
    a_plane, a_row = columns if isinstance(columns, tuple) else (None, columns)
    items, rest = _items(a_row, known, a_plane is not None)
    along, across = threads or ((WARP, 8) if items > 1 else (2*WARP, 4))
    planes = planes or (4 if items > 1 else 2)
    promised = _promised("l", rest, items)
    knl = make_kernel(
        "{[i, j, k]: 1<=i<n-1 and 1<=j<m-1 and 1<=k<l-1}",
        "out[i, j, k] = a[i-1, j, k] + a[i+1, j, k] + a[i, j-1, k] + a[i, j+1, k]"
        " + a[i, j, k-1] + a[i, j, k+1] - 6*a[i, j, k]", name="stencil_3d",
        assumptions=promised and f"{promised} and m % {items} = {(a_plane or 0) % items}")
    knl = split_iname(split_iname(add_dtypes(knl, {"a,out": known}), "j", rows), "i", planes)
    if rest:
        knl = skew(knl, "k", _start({"i": (rest*(a_plane or 0) % items, planes), "j": (rest, rows)}, items))
    knl = _along_rows(knl, "k", items, along)
    knl = split_iname(knl, "j_outer", across, outer_tag="g.1", inner_tag="l.1")
    knl = tag_inames(knl, {"i_outer": "g.2", "i_inner": "unr", "j_inner": "unr"})
    if min_blocks is None:
        min_blocks = THREADS_AT_ONCE//(along*across) if items == 4 else 0
    return set_options(knl, min_blocks=min_blocks) if min_blocks else knl


@checked
def jacobi(dtype: npt.DTypeLike = np.float32, *, sweeps: int = 4, rows: int | None = None,
           threads: tuple[int, int] = (2*WARP, 4)) -> LoopKernel:
    """*sweeps* of Jacobi's method: each takes the mean of the four neighbours of every inner point; the rim stays.

    A sweep by itself is as slow as the memory. Here a block computes a tile of the last sweep from a larger tile of
    the one before, and so on down to the first, which reads the grid: in shared memory each sweep has two rows and
    two columns less than the one before. What neighbouring blocks compute twice is the price. The values are those of
    *sweeps* single ones, to the last bit.

    :arg rows: that a thread computes of each sweep; default: as many as have 64 bytes in a column.
    :arg threads: of a block, along a row and across the rows; the first sweep's tile has a point for each of them
        and of their *rows*.
    :raises PreconditionError: a sweep is not a positive number, or there are so many that nothing is left of a tile.

    >>> knl = lk.library.jacobi(sweeps=3, rows=4, threads=(32, 4))
    >>> print(lk.lower(knl, stop="storage"))
    local float32 u1_tile[16][32]
    local float32 u2_tile[14][30]
    >>> grid = np.zeros((6, 6), np.float32)
    >>> grid[0] = 64
    >>> knl(a=grid).out[:, 2]
    array([64., 28.,  8.,  1.,  0.,  0.], dtype=float32)
    """
    known = known_dtype(dtype)
    along, across = threads
    rows = max(BYTES_A_COLUMN//known.itemsize, 1) if rows is None else rows
    tile = (rows*across - 2*(sweeps - 1), along - 2*(sweeps - 1))
    if sweeps < 1:
        raise PreconditionError(f"jacobi: {sweeps} is no number of sweeps.", subject="sweeps", hint="sweeps=1")
    if min(tile) < 1:
        raise PreconditionError(f"jacobi: {sweeps} sweeps leave nothing of a tile of {rows*across} by {along} points.",
                                subject="sweeps", hint="more rows, more threads or fewer sweeps")
    knl = add_dtypes(_sweeps(sweeps), {"a,out": known})
    knl = split_iname(knl, "i", tile[0], outer_tag="g.1")
    knl = split_iname(knl, "j", tile[1], outer_tag="g.0")
    # the last sweep but one on all that the tile needs of it, then what that needs, and so on; corners, which nobody
    # needs, make a box of each
    inner = ["i_inner", "j_inner"]
    for k in reversed(range(1, sweeps)):
        knl = precompute(knl, f"u{k}", inner, precompute_inames=[f"i{k}", f"j{k}"], default_tag=None,
                         fetch_bounding_box=True, temporary_name=f"u{k}_tile", compute_insn_id=f"sweep{k}",
                         within="insn" if k == sweeps - 1 else f"sweep{k + 1}")
        inner = [f"i{k}", f"j{k}"]
    # rows of a thread lie together: unrolled, each value is loaded once for those below, at and above it
    for k in range(1, sweeps):
        knl = split_iname(knl, f"i{k}", rows, outer_tag="l.1", inner_tag="unr")
        knl = tag_inames(knl, {f"j{k}": "l.0"})
    knl = split_iname(knl, "i_inner", rows, outer_tag="l.1", inner_tag="unr")
    return tag_inames(knl, {"j_inner": "l.0"})


def _sweeps(sweeps: int) -> LoopKernel:
    """``out`` as what *sweeps* rules make of ``a``, one on top of the other."""
    rules = []
    for k in range(1, sweeps + 1):
        above, below, left, right = (f"u{k - 1}({at})" if k > 1 else f"a[{at}]"
                                     for at in ("p-1, q", "p+1, q", "p, q-1", "p, q+1"))
        rules.append(f"u{k}(p, q) := if(1 <= p and p < n-1 and 1 <= q and q < m-1, "
                     f"0.25*({above} + {below} + {left} + {right}), a[p, q])")
    return make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "\n".join([*rules, f"out[i, j] = u{sweeps}(i, j)"]),
                       name="jacobi")


def _items(columns: int | None, dtype: np.dtype, anywhere: bool = True) -> tuple[int, int]:
    """The elements that a thread has of a row at once, and how many more than whole vectors rows of *columns* have.

    As many as have 16 bytes; where rows have more, and are short or may not begin *anywhere*, as many as divide them.
    """
    items = items_a_thread(dtype)
    if columns is None or columns % items == 0:
        return items, 0
    return (items, columns % items) if anywhere and columns >= LEAST_COLUMNS else (vector_of_rows(columns, dtype), 0)


def _promised(columns: str, rest: int, items: int) -> str | None:
    """What rows that are no whole vectors have to be, for vectors that begin where memory is aligned."""
    return f"{columns} % {items} = {rest} and {columns} >= {LEAST_COLUMNS}" if rest else None


def _start(steps: Mapping[str, tuple[int, int]], items: int) -> str:
    """By how much columns are counted from another start, so that vectors begin at a multiple of *items*.

    Each iname of *steps* is split, into pieces of so many iterations, and each iteration begins so many elements
    further behind such a multiple. That is looked at for the first iteration of a piece; from there columns move on by
    what an iteration has more, or less, than the nearest number of whole vectors.
    """
    pieces = [f"{rest*count}*{x}_outer" for x, (rest, count) in steps.items() if rest]
    inside = [f"{rest if 2*rest <= items else rest - items}*{x}_inner" for x, (rest, _) in steps.items() if rest]
    return " + ".join([f"({' + '.join(pieces)}) % {items}", *inside])


def _along_rows(knl: LoopKernel, iname: str, items: int, along: int) -> LoopKernel:
    """Rows, along *iname*, in vectors of *items*, one for each of *along* threads of a block.

    Inner points begin at 1, vectors at multiples of their length. So the first and the last of a row are loaded whole,
    and stored without the elements that are no inner points.
    """
    if items == 1:
        return split_iname(knl, iname, along, outer_tag="g.0", inner_tag="l.0")
    knl = split_iname(knl, iname, items, outer_iname=f"{iname}_vec", inner_iname=f"{iname}_item", inner_tag="vec")
    return split_iname(knl, f"{iname}_vec", along, outer_tag="g.0", inner_tag="l.0")
