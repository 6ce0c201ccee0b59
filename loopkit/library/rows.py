"""Softmax and layer norm of rows: one block per row, or several short rows per block."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pymbolic.primitives as p

import loopkit as lk
from loopkit.kernel.annotations import checked
from loopkit.kernel.target import WARP
from loopkit.library.defaults import (
    LINE,
    MOST_THREADS,
    before_row,
    items_a_thread,
    known_dtype,
    longest_row,
    measured,
    vector,
)
from loopkit.transform.step import require_positive


@checked
def softmax(dtype: npt.DTypeLike = np.float32, *, columns: int | None = None, threads: int | None = None,
            rows: int | None = None) -> lk.LoopKernel:
    """A kernel for the softmax of each row, ``y[i, j] = exp(x[i, j] - max(x[i])) / sum(exp(x[i] - max(x[i])))``.

    A block computes a row, and each of its threads a strided part of the row. With *columns*, each element is read
    once, in aligned vectors of 16 bytes, and stays in a register. Without *columns*, each element is read three times,
    twice from the caches.

    :arg columns: the number of elements of a row; default: any, taken from the arrays of a call.
    :arg threads: the number of threads for a row; default: such that each thread has a few elements.
    :arg rows: the number of rows of a block; default: as many as fill a multiprocessor if a row needs a warp or less,
        else one.

    >>> x = np.log(np.array([[1, 2, 1], [1, 1, 2]], np.float32))
    >>> lk.library.softmax()(x=x).y
    array([[0.25, 0.5 , 0.25],
           [0.25, 0.25, 0.5 ]], dtype=float32)
    """
    return _by_rows(Row("softmax", "<> top = max({over}, {x})", "exp({x} - top)",
                        "<> scale = 1/sum({over}, {e})", "{e}*scale"), known_dtype(dtype), columns, threads, rows)


@checked
def layer_norm(dtype: npt.DTypeLike = np.float32, *, eps: float = 1e-5, columns: int | None = None,
               threads: int | None = None, rows: int | None = None) -> lk.LoopKernel:
    """A kernel for the layer norm of each row, mapped like :func:`softmax`.

    ``y[i, j] = (x[i, j] - mean(x[i]))/sqrt(var(x[i]) + eps)*weight[j] + bias[j]``.

    The variance is the mean of the squared differences from the mean, which avoids cancellation.

    >>> x, ones = np.array([[1, 3, 1, 3]], np.float32), np.ones(4, np.float32)
    >>> lk.library.layer_norm(eps=0)(x=x, weight=ones, bias=ones).y
    array([[0., 2., 0., 2.]], dtype=float32)
    """
    return _by_rows(Row("layer_norm", "<> mean = sum({over}, {x})/m", "({x} - mean)",
                        f"<> scale = rsqrt(sum({{over}}, {{e}}**2)/m + {float(eps)!r})",
                        "{e}*scale*weight[{j}] + bias[{j}]", ("weight", "bias")), known_dtype(dtype), columns, threads,
                    rows)


@dataclass(frozen=True)
class Row:
    """The steps of a row's computation: a first reduction, a term for each element, a reduction of the terms, results.

    ``{x}`` stands for an element, ``{e}`` for its term, ``{j}`` for its column and ``{over}`` for all columns.
    """

    name: str
    first: str
    term: str
    second: str
    result: str
    weights: tuple[str, ...] = ()


def _by_rows(row: Row, dtype: np.dtype, columns: int | None, threads: int | None, rows: int | None) -> lk.LoopKernel:
    if columns is None:
        knl, rows = _read_again(row, *measured("by_rows", threads=threads)), rows or 1
    else:
        columns = require_positive(columns, "columns")
        short, = measured("by_rows", threads_of_short=None)
        threads = threads or threads_for(row, columns, dtype)
        knl, rows = _kept(row, dtype, columns, threads), rows or (-(-short//threads) if threads <= WARP else 1)
    knl = lk.add_dtypes(knl, dict.fromkeys(("x", "y", *row.weights), dtype))
    return lk.tag_inames(knl, {"i": "g.0"}) if rows == 1 else lk.split_iname(
        knl, "i", rows, outer_tag="g.0", inner_tag="l.1")


def threads_for(row: Row, columns: int, dtype: np.dtype) -> int:
    """The number of threads for a row: the power of two for which each thread has about the measured number of loads.

    If vectors do not divide the rows, the first and the last load of a thread have conditions. The weights are then
    loaded one by one, which needs more concurrent loads. With two loads, the number of threads is rounded up, so that a
    full multiprocessor has 64 kB of concurrent loads. Fewer threads wait less for each other, so very many threads are
    avoided: each thread first gets more bytes. A row of at least 32 vectors gets at least a warp. Each thread has at
    least one vector of some row, so that a block has whole warps.
    """
    items = items_a_thread(dtype)
    divided = columns % items == 0
    case = "loads" if divided else "loads_of_weighted" if row.weights else "loads_of_single"
    loads, most, most_bytes = measured("by_rows", **{case: None}, most_threads=None, most_bytes=None)
    wanted = -(-columns // (loads*items))
    above = 1 << (wanted - 1).bit_length()
    few = wanted < above if divided else 4*wanted < 3*above
    nearest = above//2 if few else above
    vectors = -(-columns // items)
    most = most if columns*dtype.itemsize <= most*most_bytes else MOST_THREADS
    threads: int = min(max(nearest, min(1 << (vectors - 1).bit_length(), WARP)), most)
    while _vectors(columns, items, _alignment(columns, items, dtype, threads), 1) < threads:
        threads //= 2
    return threads


def _read_again(row: Row, threads: int) -> lk.LoopKernel:
    x = {"x": "x[i, j]", "j": "j", "over": "j"}
    x["e"] = row.term.format(**x)
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", f"""
        for i
            {row.first.format(**x)}
            {row.second.format(**x)}
            for j
                y[i, j] = {row.result.format(**x)}
            end
        end
        """, name=row.name, assumptions="m>=1")
    return lk.split_iname(knl, "j", threads, inner_tag="l.0")


def _kept(row: Row, dtype: np.dtype, columns: int, threads: int) -> lk.LoopKernel:
    """Thread t keeps the vectors ``threads*u + t`` of the row; ``v`` counts the elements of a vector."""
    items = items_a_thread(dtype)
    multiple = _alignment(columns, items, dtype, threads)
    column = _column(columns, items, multiple, threads)
    x = {"x": "kept[u, t, v]", "e": "term[u, t, v]", "j": column, "over": "[u, t, v]"}
    own = (_vectors(columns, items, multiple, threads), threads, items)
    n, m = p.Variable("n"), p.Variable("m")
    domain = f"{{[i, u, t, v]: 0<=i<n and 0<=t<{threads} and 0<=v<{items} and 0<=u and 0<={column}<m}}"
    knl = lk.make_kernel(domain, f"""
        for i
            for u, t, v
                <> kept[u, t, v] = x[i, {column}]
            end
            {row.first.format(**x)}
            for u, t, v
                <> term[u, t, v] = {row.term.format(**x)}
            end
            {row.second.format(**x)}
            for u, t, v
                y[i, {column}] = {row.result.format(**x)}
            end
        end
        """, [lk.GlobalArg("x,y", shape=(n, m)), *(lk.GlobalArg(w, shape=(m,)) for w in row.weights),
              lk.TemporaryVariable("kept,term", shape=own), "..."], name=row.name, assumptions="m>=1")
    knl = lk.tag_inames(lk.fix_parameters(knl, m=columns), {"u": "unr", "t": "l.0", "v": vector(items)})
    # no thread reads the elements of another
    knl = lk.contract(lk.contract(knl, "kept", "t"), "term", "t")
    if items > 1:
        # evicting results before rows writes them early; loads of single elements would wait for each other
        knl = lk.set_cache_policy(knl, "x", "evict_last")
    few, = measured("by_rows", bytes_in_registers=None)
    if dtype.itemsize > 4 or own[0]*items*dtype.itemsize > few:
        return knl
    # few elements need few registers: with two registers more per thread, one block fewer fits on a multiprocessor
    return lk.set_options(knl, min_blocks="max")


def _vectors(columns: int, items: int, multiple: int, threads: int) -> int:
    """The vectors per thread of a row, counted from the last multiple of *multiple* elements before its start."""
    return -(-longest_row(columns, multiple) // (items*threads))


def _alignment(columns: int, items: int, dtype: np.dtype, threads: int) -> int:
    """The elements of a cache line, or of a vector if a thread then has one fewer: rows are counted from multiples."""
    line = max(LINE // dtype.itemsize, items)
    return items if _vectors(columns, items, line, threads) > _vectors(columns, items, items, threads) else line


def _column(columns: int, items: int, multiple: int, threads: int) -> str:
    """The column of element v of vector u of thread t; if vectors divide the rows, the shift counts vectors."""
    if columns % items:
        return f"{items}*({threads}*u + t) {before_row('i', columns, multiple)} + v"
    return f"{items}*({threads}*u + t {before_row('i', columns//items, multiple//items)}) + v"
