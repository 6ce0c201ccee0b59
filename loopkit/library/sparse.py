"""Products of a sparse matrix and a vector."""
from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pymbolic.primitives as p

import loopkit as lk
from loopkit.kernel.annotations import checked
from loopkit.kernel.target import WARP
from loopkit.library.defaults import known_dtype, measured
from loopkit.transform.step import require_positive


@checked
def csr_matvec(dtype: npt.DTypeLike = np.float32, *, row_length: float | None = None, lanes: int | None = None,
               threads: int | None = None, pieces: bool = False) -> lk.LoopKernel:
    """A kernel for ``y[i] = sum(k, val[k]*x[col[k]])`` over ``rowptr[i] <= k < rowptr[i+1]``.

    This is the product of a sparse matrix in the CSR format with the vector *x*.

    Several threads share a row and read neighbouring elements; shuffles add up their parts. Each thread loads a few
    elements concurrently. If some rows are much longer than others, all threads wait for them. With *pieces*, a first
    launch adds up pieces of the long rows, one warp per piece, and the second launch uses these sums.

    :arg row_length: the mean number of elements per row; with *pieces*, the mean over the rows that are not cut.
    :arg lanes: the number of threads that share a row, at most a warp; default: a power of two of about *row_length* /
        2, so that each thread has two elements; 1 for short rows.
    :arg threads: the number of threads of a block.
    :arg pieces: cut long rows into pieces; a call then also has the arguments that :func:`csr_pieces` computes.

    >>> rowptr, col = np.array([0, 2, 3], np.int32), np.array([0, 1, 1], np.int32)
    >>> val, x = np.array([1, 2, 3], np.float32), np.array([10, 20], np.float32)
    >>> lk.library.csr_matvec()(rowptr=rowptr, col=col, val=val, x=x).y
    array([50., 60.], dtype=float32)
    >>> cut = lk.library.csr_pieces(rowptr, longest=1)
    >>> lk.library.csr_matvec(pieces=True)(rowptr=rowptr, col=col, val=val, x=x, **cut).y
    array([50., 60.], dtype=float32)
    """
    if row_length is not None and not 0 <= row_length < math.inf:
        raise lk.PreconditionError(f"row_length must be a number of elements, not {row_length!r}.",
                                   subject="row_length")
    if lanes is None and row_length is not None:
        lanes = lanes_for(row_length)
    threads, lanes, items = measured("csr_matvec", threads=threads, lanes=lanes, items=None)
    items = items if row_length is None else items_for(row_length/require_positive(lanes, "lanes"))
    knl = _in_pieces(known_dtype(dtype), threads) if pieces else _one_row_each(known_dtype(dtype))
    if lanes == 1:
        knl = lk.split_iname(knl, "i", threads, outer_tag="g.0", inner_tag="l.0")
        return lk.split_iname(knl, "k", items, inner_tag="unr")
    knl = lk.split_iname(knl, "i", max(threads//lanes, 1), outer_tag="g.0", inner_tag="l.1")
    if pieces:
        knl = lk.split_iname(knl, "p", lanes, inner_tag="l.0")
    return _shared_by(knl, "k", lanes, items)


@checked
def csr_pieces(rowptr: npt.ArrayLike, *, longest: int | None = None, piece: int | None = None
               ) -> dict[str, np.ndarray | int]:
    """Arguments of ``csr_matvec(pieces=True)`` for a matrix, computed once by the host: the pieces of its long rows.

    :arg rowptr: the start of each row, and the end of the last row; an array on the host.
    :arg longest: the number of elements of the longest row that is not cut.
    :arg piece: the number of elements of a piece: enough to outweigh the cost of storing its sum, and few enough to
        balance threads.
    :raises PreconditionError: *rowptr* is not an array of row starts; *longest* or *piece* is not a positive integer.
    :returns: ``start`` and ``stop`` of each piece; ``pieces``, the number of pieces before each row and after the last
        one; ``longest``.

    >>> cut = lk.library.csr_pieces([0, 3, 203, 206, 307], longest=32, piece=64)
    >>> for name, value in cut.items():
    ...     print(name, value)
    start [  3  67 131 195 206 270]
    stop [ 67 131 195 203 270 307]
    pieces [0 0 4 4 6]
    longest 32
    """
    longest, piece = measured("csr_pieces", longest=longest, piece=piece)
    require_positive(longest, "longest")
    require_positive(piece, "piece")
    begins = np.asarray(rowptr)
    if begins.ndim != 1 or not len(begins) or begins.dtype.kind not in "iu" or (begins[1:] < begins[:-1]).any():
        raise lk.PreconditionError("rowptr must have one axis of integers that do not decrease.",
                                   subject="rowptr")
    if begins[0] < 0 or begins[-1] > np.iinfo(np.int32).max:
        raise lk.PreconditionError(
            f"The rows begin at {begins[0]} and end at {begins[-1]}, beyond the range of int32.", subject="rowptr")
    lengths = np.diff(begins.astype(np.int64))
    count = np.where(lengths > longest, -(-lengths//piece), 0)
    before = np.concatenate([[0], np.cumsum(count)])
    row = np.repeat(np.arange(len(lengths)), count)
    start = begins[row] + piece*(np.arange(len(row)) - before[row])
    arrays = {"start": start, "stop": np.minimum(start + piece, begins[row + 1]), "pieces": before}
    return {**{name: a.astype(np.int32) for name, a in arrays.items()}, "longest": longest}


def lanes_for(row_length: float) -> int:
    """A power of two of about *row_length* / 2; a lane's share of a row must outweigh the cost of combining it."""
    shortest, = measured("csr_matvec", shortest=None)
    return 1 if row_length < shortest else min(1 << ((round(row_length) - 1).bit_length() - 1), WARP)


def items_for(share: float) -> int:
    """The power of two, at least 2, that holds a thread's *share* of a row, up to the most that is measured."""
    most, = measured("csr_matvec", most_items=None)
    return min(max(1 << (math.ceil(share) - 1).bit_length(), 2), int(most))


def _one_row_each(dtype: np.dtype) -> lk.LoopKernel:
    knl = lk.make_kernel(
        ["{[i]: 0<=i<n}", "{[k]: 0<=k<length}"],
        """
        for i
            <> first = rowptr[i]
            <> length = rowptr[i+1] - first
            y[i] = sum(k, val[first + k]*x[col[first + k]])
        end
        """, name="csr_matvec")
    return lk.add_dtypes(knl, {"val,x,y": dtype, "rowptr,col": np.int32})


def _in_pieces(dtype: np.dtype, threads: int) -> lk.LoopKernel:
    """The product with cut rows, with its first launch mapped."""
    known = (p.Variable("n_pieces"),)
    knl = lk.make_kernel(
        ["{[q]: 0<=q<n_pieces}", "{[e]: 0<=e<size}", "{[i]: 0<=i<n}", "{[k]: 0<=k<own}", "{[p]: begin<=p<finish}"],
        """
        for q
            <> low = start[q]
            <> size = stop[q] - low
            part[q] = sum(e, val[low + e]*x[col[low + e]])  {id=part}
        end
        for i
            <> first = rowptr[i]  {id=first}
            <> length = rowptr[i+1] - first
            <> own = if(length <= longest, length, 0)
            <> begin = if(length <= longest, 0, pieces[i])
            <> finish = if(length <= longest, 0, pieces[i+1])
            y[i] = sum(k, val[first + k]*x[col[first + k]]) + sum(p, part[p])
        end
        """, [lk.GlobalArg("start,stop", shape=known), lk.TemporaryVariable("part", shape=known), "..."],
                         name="csr_matvec")
    knl = lk.add_dtypes(knl, {"val,x,y,part": dtype, "rowptr,col,start,stop,pieces,longest": np.int32})
    knl = lk.split_iname(knl, "q", max(threads//WARP, 1), outer_tag="g.0", inner_tag="l.1")
    return lk.add_barrier(_shared_by(knl, "e", WARP, *measured("csr_matvec", items=None)), "part", "first")


def _shared_by(knl: lk.LoopKernel, iname: str, lanes: int, items: int) -> lk.LoopKernel:
    """Split *iname* over neighbouring threads, each with *items* concurrent loads."""
    return lk.split_levels(knl, iname, {f"{iname}_outer": None, f"{iname}_item": items, f"{iname}_lane": lanes},
                           tags={f"{iname}_item": "unr", f"{iname}_lane": "l.0"})
