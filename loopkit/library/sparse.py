"""Products with sparse matrices."""
from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pymbolic.primitives as p

from loopkit.errors import PreconditionError
from loopkit.kernel.annotations import checked
from loopkit.kernel.data import GlobalArg, TemporaryVariable
from loopkit.kernel.devices import WARP
from loopkit.kernel.kernel import LoopKernel
from loopkit.language.make import make_kernel
from loopkit.library.defaults import THREADS, known_dtype
from loopkit.transform.barrier import add_barrier
from loopkit.transform.data import add_dtypes
from loopkit.transform.iname import split_iname
from loopkit.transform.step import require_positive

#: Elements that a thread has under way at once where nothing is known of its share: they are gathered, each from its
#: own place, so that many loads have to wait together.
GATHERED = 4


@checked
def csr_matvec(dtype: npt.DTypeLike = np.float32, *, row_length: float | None = None, lanes: int | None = None,
               threads: int = THREADS, pieces: bool = False) -> LoopKernel:
    """``y[i]``, the sum of ``val[k]*x[col[k]]`` over ``rowptr[i] <= k < rowptr[i+1]``.

    Some threads share a row, so that they read a piece of it at once; shuffles add up their parts. Each has its share
    of a row under way at once, up to 8 elements, since it waits twice for one: for its column, and for the element of
    *x* there.

    Where some rows are much longer than others, all threads wait for those that have them. With *pieces* a first launch
    adds up pieces of the long rows, a warp a piece, and the second one takes their sums in place of these rows'
    elements; :func:`csr_pieces` says which pieces there are.

    :arg row_length: how many elements a row has in the mean; with *pieces*, a row that is not long.
    :arg lanes: threads that share a row, at most a warp; default: a power of two, about half as many as a row has
        elements, of which each thread has two then, and one for rows that are shorter than 8; 8 without *row_length*.
    :arg threads: of a block.
    :arg pieces: long rows are taken in pieces: a call has the arguments that :func:`csr_pieces` gives, too.

    >>> rowptr, col = np.array([0, 2, 3], np.int32), np.array([0, 1, 1], np.int32)
    >>> val, x = np.array([1, 2, 3], np.float32), np.array([10, 20], np.float32)
    >>> lk.library.csr_matvec()(rowptr=rowptr, col=col, val=val, x=x).y
    array([50., 60.], dtype=float32)
    >>> cut = lk.library.csr_pieces(rowptr, longest=1)
    >>> lk.library.csr_matvec(pieces=True)(rowptr=rowptr, col=col, val=val, x=x, **cut).y
    array([50., 60.], dtype=float32)
    """
    if row_length is not None and not 0 <= row_length < math.inf:
        raise PreconditionError(f"row_length is a number of elements, not {row_length!r}.", subject="row_length")
    if lanes is None:
        lanes = 8 if row_length is None else lanes_for(row_length)
    items = GATHERED if row_length is None else items_for(row_length/require_positive(lanes, "lanes"))
    knl = _in_pieces(known_dtype(dtype), threads) if pieces else _whole(known_dtype(dtype))
    if lanes == 1:
        knl = split_iname(knl, "i", threads, outer_tag="g.0", inner_tag="l.0")
        return split_iname(knl, "k", items, inner_tag="unr")
    knl = split_iname(knl, "i", max(threads//lanes, 1), outer_tag="g.0", inner_tag="l.1")
    if pieces:
        knl = split_iname(knl, "p", lanes, inner_tag="l.0")
    return _shared_by(knl, "k", lanes, items)


@checked
def csr_pieces(rowptr: npt.ArrayLike, *, longest: int = 2*WARP, piece: int = 16*WARP) -> dict[str, np.ndarray | int]:
    """Arguments of ``csr_matvec(pieces=True)`` for a matrix, to be made once: the pieces of its long rows.

    The host makes them, in about as long as it takes to read and write *rowptr* a few times.

    :arg rowptr: where the rows begin, and where the last one ends; an array of the host.
    :arg longest: rows of more elements are cut.
    :arg piece: elements of a piece: long enough that the sum of a piece costs more than its place in memory, and so
        short that no thread has much more to do than others.
    :raises PreconditionError: *rowptr* is none; *longest* or *piece* is no positive integer.
    :returns: ``start`` and ``stop`` of each piece; ``pieces``, for each row how many there are before it, and behind
        the last one; ``longest``.

    >>> cut = lk.library.csr_pieces([0, 3, 203, 206, 307], longest=32, piece=64)
    >>> for name, value in cut.items():
    ...     print(name, value)
    start [  3  67 131 195 206 270]
    stop [ 67 131 195 203 270 307]
    pieces [0 0 4 4 6]
    longest 32
    """
    require_positive(longest, "longest")
    require_positive(piece, "piece")
    begins = np.asarray(rowptr)
    if begins.ndim != 1 or not len(begins) or begins.dtype.kind not in "iu" or (begins[1:] < begins[:-1]).any():
        raise PreconditionError("The beginnings of rows are integers in one axis that do not fall.", subject="rowptr")
    if begins[0] < 0 or begins[-1] > np.iinfo(np.int32).max:
        raise PreconditionError(f"The rows begin at {begins[0]} and end at {begins[-1]}, and int32 has no such number.",
                                subject="rowptr")
    lengths = np.diff(begins.astype(np.int64))
    count = np.where(lengths > longest, -(-lengths//piece), 0)
    before = np.concatenate([[0], np.cumsum(count)])
    row = np.repeat(np.arange(len(lengths)), count)
    start = begins[row] + piece*(np.arange(len(row)) - before[row])
    arrays = {"start": start, "stop": np.minimum(start + piece, begins[row + 1]), "pieces": before}
    return {**{name: a.astype(np.int32) for name, a in arrays.items()}, "longest": longest}


def lanes_for(row_length: float) -> int:
    """A power of two, about half of *row_length*; a lane's share of a row must be worth what combining it costs."""
    if row_length < 8:
        return 1
    return min(1 << ((round(row_length) - 1).bit_length() - 1), WARP)


def items_for(share: float) -> int:
    """The power of two that holds a thread's *share* of a row, from 2 to 8: more would only be idle conditions."""
    return min(max(1 << (math.ceil(share) - 1).bit_length(), 2), 8)


def _whole(dtype: np.dtype) -> LoopKernel:
    knl = make_kernel(
        ["{[i]: 0<=i<n}", "{[k]: 0<=k<length}"],
        """
        for i
            <> first = rowptr[i]
            <> length = rowptr[i+1] - first
            y[i] = sum(k, val[first + k]*x[col[first + k]])
        end
        """, name="csr_matvec")
    return add_dtypes(knl, {"val,x,y": dtype, "rowptr,col": np.int32})


def _in_pieces(dtype: np.dtype, threads: int) -> LoopKernel:
    """The first launch is mapped: it does not depend on how long the other rows are."""
    known = (p.Variable("n_pieces"),)
    knl = make_kernel(
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
        """, [GlobalArg("start,stop", shape=known), TemporaryVariable("part", shape=known), "..."], name="csr_matvec")
    knl = add_dtypes(knl, {"val,x,y,part": dtype, "rowptr,col,start,stop,pieces,longest": np.int32})
    knl = split_iname(knl, "q", max(threads//WARP, 1), outer_tag="g.0", inner_tag="l.1")
    return add_barrier(_shared_by(knl, "e", WARP, GATHERED), "part", "first")


def _shared_by(knl: LoopKernel, iname: str, lanes: int, items: int) -> LoopKernel:
    """*iname* over neighbouring threads, each with *items* elements under way."""
    knl = split_iname(knl, iname, lanes*items)
    return split_iname(knl, f"{iname}_inner", lanes, outer_iname=f"{iname}_item", inner_iname=f"{iname}_lane",
                       outer_tag="unr", inner_tag="l.0")
