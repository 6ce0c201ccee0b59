"""Sums over all elements, over rows and over columns, and histograms; two launches if blocks share a sum."""
from __future__ import annotations

import numpy as np
import numpy.typing as npt

import loopkit as lk
from loopkit.kernel.annotations import checked
from loopkit.kernel.target import WARP
from loopkit.library.defaults import in_vectors, items_a_thread, known_dtype, measured, vector, vector_of_rows


@checked
def full_sum(dtype: npt.DTypeLike = np.float32, *, blocks: int | None = None, threads: int | None = None,
             items: int | None = None) -> lk.LoopKernel:
    """A kernel for ``s[0] = sum(i, x[i])``: *blocks* partial sums, and their sum in a second launch.

    The number of blocks is fixed, so the second launch has little work for any length of *x*. In each step, all blocks
    together read one contiguous piece of memory, *items* vectors of 16 bytes per thread.

    :arg blocks: the number of blocks of the first launch, and of terms of the second; default: about as many as run at
        once.
    :arg threads: the number of threads of a block.
    :arg items: the number of concurrent loads per thread.

    >>> lk.library.full_sum()(x=np.arange(5, dtype=np.float32)).s
    array([10.], dtype=float32)
    """
    known = known_dtype(dtype)
    blocks, threads, items = measured("full_sum", blocks=blocks, threads=threads, items=items)
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
def row_sum(dtype: npt.DTypeLike = np.float32, *, columns: int | None = None, threads: int | None = None
            ) -> lk.LoopKernel:
    """A kernel for ``s[i] = sum(j, x[i, j])``, the sums of rows; a block adds up a row.

    :arg columns: the number of elements of a row. All loads of a thread then run concurrently, in the longest vectors
        of up to 16 bytes that divide the row. Default: any, taken from the arrays of a call.
    :arg threads: the number of threads of a block. Each adds up a part of the row, and shuffles add up the parts.

    >>> lk.library.row_sum()(x=np.ones((2, 3), np.float32)).s
    array([3., 3.], dtype=float32)
    """
    known = known_dtype(dtype)
    threads, = measured("row_sum", threads=threads)
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "s[i] = sum(j, x[i, j])", name="row_sum")
    knl = lk.tag_inames(lk.add_dtypes(knl, {"x,s": known}), {"i": "g.0"})
    if columns is None:
        return lk.split_iname(knl, "j", threads, inner_tag="l.0")
    knl = lk.fix_parameters(knl, m=columns)
    return in_vectors(knl, "j", vector_of_rows(columns, known), threads, outer_tag="unr")


@checked
def column_sum(dtype: npt.DTypeLike = np.float32, *, rows: int | None = None, threads: tuple[int, int] | None = None,
               items: int | None = None) -> lk.LoopKernel:
    """A kernel for ``s[j] = sum(i, x[i, j])``, the sums of columns.

    The first launch adds up *rows* rows each, and the second launch these sums.

    A warp reads a piece of a row. Several blocks share a column, and so do threads of a block, because a matrix often
    has too few columns to occupy all threads of a GPU.

    :arg rows: the number of rows that a block adds up.
    :arg threads: the number of threads of a block along a row and across the rows.
    :arg items: the number of concurrent loads per thread.

    >>> lk.library.column_sum()(x=np.ones((2, 3), np.float32)).s
    array([2., 2., 2.], dtype=float32)
    """
    rows, (along, across), items = measured("column_sum", rows=rows, threads=threads, items=items)
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


_COPIES = (1, 2, 4, 8, 16, 32)


@checked
def histogram(dtype: npt.DTypeLike = np.uint8, *, bins: int = 256, blocks: int | None = None,
              threads: int | None = None, items: int | None = None, copies: int | None = None) -> lk.LoopKernel:
    """A kernel for the histogram ``counts[k]``, the number of ``x[i]`` that equal the integer *k*.

    Values outside ``0 <= k < bins`` do not count.

    Each block counts its elements in shared memory by atomic updates, and finally adds these counts to the result. A
    block has several copies of the bins, with the copies of a bin in adjacent cells: with one copy per lane, each lane
    uses a separate bank. In each step, all blocks together read one contiguous piece of memory, *items* vectors of 16
    bytes per thread.

    :arg dtype: the dtype of *x*, an integer dtype.
    :arg bins: the number of bins.
    :arg blocks: the number of blocks of the launch; default: as many as run at once.
    :arg threads: the number of threads of a block.
    :arg items: the number of concurrent loads per thread.
    :arg copies: the number of copies of the bins in a block, a power of two; default: one per lane, or as many as
        shared memory holds.
    :raises PreconditionError: *dtype* is not an integer dtype, or *threads* or *copies* do not form whole warps.

    >>> lk.library.histogram(bins=6)(x=np.array([1, 3, 3, 5, 9], np.uint8)).counts
    array([0, 1, 0, 2, 0, 1], dtype=int32)
    """
    known = known_dtype(dtype)
    if known.kind not in "iu":
        raise lk.PreconditionError(f"A histogram counts integers, not {known}.", subject=str(known),
                                   hint="divide the values by the width of a bin, and round them first")
    blocks, threads, items, most = measured(
        "histogram", blocks=blocks, threads=threads, items=items, bytes_of_copies=None)
    length, warps = items_a_thread(known), threads // WARP
    rows, row = _rows(known, bins)
    if copies is None:
        copies = max((c for c in _COPIES if 4*rows*c <= most), default=1)
    if copies not in _COPIES or threads % WARP:
        raise lk.PreconditionError(f"{copies} copies for {threads} threads do not form whole warps.", subject="copies",
                                   hint=f"use {', '.join(map(str, _COPIES))} copies, and threads that form whole warps")
    step = threads*items
    start = f"{length}*({step*blocks}*r + {step}*b + {threads}*u + {WARP}*w + {copies}*h + c)"
    place, rest = f"{start} + v", f"n - n % {length} + s"
    knl = lk.make_kernel(
        [f"{{[b, y, z, k, l, d, e]: 0<=b<{blocks} and 0<=y,k,l<{bins} and 0<=z<{rows} and 0<=d,e<{copies}}}",
         f"[b] -> {{[r, u, w, h, c, v]: 0<=r and 0<=u<{items} and 0<=w<{warps} and 0<=h<{WARP // copies} "
         f"and 0<=c<{copies} and 0<=v<{length} and {start} + {length} <= n}}",
         f"[b] -> {{[s]: 0<=s and b=0 and {rest} < n}}"],
        f"""
        counts[y] = 0  {{id=clear}}
        for b
            part[z, d] = 0  {{id=zero}}
            part[{row.format(place)}, c] = part[{row.format(place)}, c] + 1  {{id=count, atomic}}
            part[{row.format(rest)}, 0] = part[{row.format(rest)}, 0] + 1  {{id=rest, atomic}}
            <> total[k] = sum(e, part[k, e])
            counts[l] = counts[l] + total[l]  {{id=add, atomic}}
        end
        """, [lk.GlobalArg("x", known), lk.GlobalArg("counts", np.dtype(np.int32), shape=(bins,)),
              lk.TemporaryVariable("part", np.dtype(np.int32), (rows, copies), lk.AddressSpace.LOCAL), "..."],
        name="histogram", assumptions="n>=0")
    knl = lk.tag_inames(knl, {"b": "g.0", "w": "l.1", **dict.fromkeys("hcdes", "l.0"), "u": "unr", "v": vector(length)})
    knl = lk.split_iname(knl, "z", warps, inner_tag="l.1")
    # the lanes of a warp add up the copies of a bin; each lane then has one bin, and one request updates 32 neighbours
    knl = lk.split_iname(knl, "k", warps, inner_tag="l.1")
    knl = lk.split_levels(knl, "l", {"l_outer": None, "l_warp": warps, "l_lane": WARP},
                          tags={"l_warp": "l.1", "l_lane": "l.0"})
    knl = lk.split_iname(knl, "y", WARP, outer_tag="g.0", inner_tag="l.0")
    return lk.add_barrier(knl, "clear", "zero")


def _rows(dtype: np.dtype, bins: int) -> tuple[int, str]:
    """The number of rows of the copies, and the row that counts ``x[...]``: the last for other values."""
    info = np.iinfo(dtype)
    conditions = ["x[{0}] >= 0"]*(info.min < 0) + [f"x[{{0}}] < {bins}"]*(info.max >= bins)
    return (bins + 1, f"if({' and '.join(conditions)}, x[{{0}}], {bins})") if conditions else (bins, "x[{0}]")
