"""Softmax and layer norm of rows, a block a row, or several short ones."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pymbolic.primitives as p

from loopkit.kernel.annotations import checked
from loopkit.kernel.data import GlobalArg, TemporaryVariable
from loopkit.kernel.devices import WARP
from loopkit.kernel.kernel import LoopKernel
from loopkit.language.make import make_kernel
from loopkit.library.defaults import (
    LINE,
    MOST_THREADS,
    THREADS,
    before_row,
    items_a_thread,
    known_dtype,
    longest_row,
)
from loopkit.transform.data import add_dtypes, set_cache_policy, set_options
from loopkit.transform.expansion import contract
from loopkit.transform.fixing import fix_parameters
from loopkit.transform.iname import split_iname
from loopkit.transform.step import require_positive
from loopkit.transform.tags import tag_inames


@checked
def softmax(dtype: npt.DTypeLike = np.float32, *, columns: int | None = None, threads: int | None = None,
            rows: int | None = None) -> LoopKernel:
    """``y[i, j] = exp(x[i, j] - max(x[i])) / sum(exp(x[i] - max(x[i])))``.

    A block has a row, and each of its threads every so many elements of it. With *columns* the length of rows is
    fixed: the elements are read once and stay in registers until the results are written, and they are moved in
    vectors of 16 bytes, which begin where memory is aligned. A block has several rows then if one takes a warp or
    less. Without *columns* the row is read three times, of which the caches serve two.

    :arg columns: how long rows are; default: what the arrays of a call say.
    :arg threads: of a row; default: so many that each holds a few elements of it.
    :arg rows: of a block; default: as many as have 128 threads, where a row has a warp or less, else one.

    >>> x = np.log(np.array([[1, 2, 1], [1, 1, 2]], np.float32))
    >>> lk.library.softmax()(x=x).y
    array([[0.25, 0.5 , 0.25],
           [0.25, 0.25, 0.5 ]], dtype=float32)
    """
    return _by_rows(Row("softmax", "<> top = max({over}, {x})", "exp({x} - top)",
                        "<> scale = 1/sum({over}, {e})", "{e}*scale"), known_dtype(dtype), columns, threads, rows)


@checked
def layer_norm(dtype: npt.DTypeLike = np.float32, *, eps: float = 1e-5, columns: int | None = None,
               threads: int | None = None, rows: int | None = None) -> LoopKernel:
    """``y[i, j] = (x[i, j] - mean(x[i]))/sqrt(var(x[i]) + eps)*weight[j] + bias[j]``, mapped as :func:`softmax` is.

    The variance is the mean of squares of what remains without the mean, so that nothing cancels.

    >>> x, ones = np.array([[1, 3, 1, 3]], np.float32), np.ones(4, np.float32)
    >>> lk.library.layer_norm(eps=0)(x=x, weight=ones, bias=ones).y
    array([[0., 2., 0., 2.]], dtype=float32)
    """
    return _by_rows(Row("layer_norm", "<> mean = sum({over}, {x})/m", "({x} - mean)",
                        f"<> scale = rsqrt(sum({{over}}, {{e}}**2)/m + {float(eps)!r})",
                        "{e}*scale*weight[{j}] + bias[{j}]", ("weight", "bias")), known_dtype(dtype), columns, threads,
                    rows)


#: Bytes of a row in a thread that 32 registers are enough for, with what is computed from them.
FEW = 40
#: Threads of a block of short rows: so many that the blocks which a multiprocessor takes fill it.
SHORT = 128


@dataclass(frozen=True)
class Row:
    """What is computed of a row: a first number, from it a term of each element, a number of all terms, the results.

    ``{x}`` stands for an element, ``{e}`` for its term, ``{j}`` for its column and ``{over}`` for all columns.
    """

    name: str
    first: str
    term: str
    second: str
    result: str
    weights: tuple[str, ...] = ()

    @property
    def arrays(self) -> list[GlobalArg]:
        """Rows, and weights of their columns."""
        n, m = p.Variable("n"), p.Variable("m")
        return [*(GlobalArg(a, shape=(n, m)) for a in "xy"), *(GlobalArg(a, shape=(m,)) for a in self.weights)]

    def dtypes(self, dtype: np.dtype) -> dict[str, np.dtype]:
        return {",".join(["x", "y", *self.weights]): dtype}


def _by_rows(row: Row, dtype: np.dtype, columns: int | None, threads: int | None, rows: int | None) -> LoopKernel:
    if columns is None:
        return _read_again(row, dtype, threads or THREADS, rows or 1)
    columns = require_positive(columns, "columns")
    threads = threads or threads_for(columns, dtype, _loads(row, columns, dtype))
    return _kept(row, dtype, columns, threads, rows or (-(-SHORT//threads) if threads <= WARP else 1))


def _loads(row: Row, columns: int, dtype: np.dtype) -> int:
    """How many loads a thread has, about.

    Where vectors do not divide rows, the first and the last one of a thread have conditions, and those between have
    none. Weights begin elsewhere then and come one by one: that takes more of them under way.
    """
    if columns % items_a_thread(dtype) == 0:
        return 2
    return 9 if row.weights else 5


def threads_for(columns: int, dtype: np.dtype, loads: int) -> int:
    """So many threads that each has about *loads* loads of 16 bytes: the nearest power of two, or a warp where a row
    has as many vectors; of two loads, no fewer: a multiprocessor full of threads has 64 kB under way then.

    The fewer threads there are, the less they wait for each other, and the more rows a multiprocessor has, of which
    others are loaded while one waits. So of more than 512 threads each has up to 128 bytes first. Each has a vector of
    some row at least, so that the block has all of them, and whole warps.
    """
    wanted = -(-columns // (loads*items_a_thread(dtype)))
    above = 1 << (wanted - 1).bit_length()
    few = wanted < above if loads == 2 else 4*wanted < 3*above
    nearest = above//2 if few else above
    vectors = -(-columns // items_a_thread(dtype))
    most = MOST_THREADS//2 if columns*dtype.itemsize <= MOST_THREADS//2*128 else MOST_THREADS
    threads = min(max(nearest, min(1 << (vectors - 1).bit_length(), WARP)), most)
    while _back(columns, dtype, threads).vectors(1) < threads:
        threads //= 2
    return threads


def _read_again(row: Row, dtype: np.dtype, threads: int, rows: int) -> LoopKernel:
    x = {"x": "x[i, j]", "j": "j", "over": "j"}
    x["e"] = row.term.format(**x)
    knl = make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", f"""
        for i
            {row.first.format(**x)}
            {row.second.format(**x)}
            for j
                y[i, j] = {row.result.format(**x)}
            end
        end
        """, name=row.name, assumptions="m>=1")
    knl = _over_blocks(add_dtypes(knl, row.dtypes(dtype)), rows)
    return split_iname(knl, "j", threads, inner_tag="l.0")


def _kept(row: Row, dtype: np.dtype, columns: int, threads: int, rows: int) -> LoopKernel:
    """Thread t keeps the vectors ``threads*u + t`` of the row, whose elements v count."""
    back = _back(columns, dtype, threads)
    column = back.column(threads)
    x = {"x": "kept[u, t, v]", "e": "term[u, t, v]", "j": column, "over": "[u, t, v]"}
    items = back.items
    own = (back.vectors(threads), threads, items)
    knl = make_kernel(f"{{[i, u, t, v]: 0<=i<n and 0<=t<{threads} and 0<=v<{items} and 0<=u and 0<={column}<m}}", f"""
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
        """, [*row.arrays, TemporaryVariable("kept", shape=own), TemporaryVariable("term", shape=own), "..."],
                      name=row.name, assumptions="m>=1")
    knl = fix_parameters(add_dtypes(knl, row.dtypes(dtype)), m=columns)
    knl = tag_inames(_over_blocks(knl, rows), {"u": "unr", "t": "l.0", "v": "vec" if items > 1 else "unr"})
    # no thread needs the elements of another: its own are all that it keeps
    knl = contract(contract(knl, "kept", "t"), "term", "t")
    if items > 1:
        # a cache that evicts results before rows writes them soon; loads one by one would wait for each other
        knl = set_cache_policy(knl, "x", "evict_last")
    if dtype.itemsize > 4 or own[0]*items*dtype.itemsize > FEW:
        return knl
    # few elements and what is computed from them need few registers: a thread with two more would cost its
    # multiprocessor a whole block
    return set_options(knl, min_blocks="max")


@dataclass(frozen=True)
class Back:
    """Where the threads of a row begin: at a multiple of *multiple* elements of memory, before the row or with it."""

    columns: int
    items: int
    multiple: int

    def vectors(self, threads: int) -> int:
        """How many a thread has."""
        return -(-longest_row(self.columns, self.multiple) // (self.items*threads))

    def column(self, threads: int) -> str:
        """Of element v of vector u of thread t; whole vectors are left out where rows are whole numbers of them."""
        if self.columns % self.items:
            back = before_row("i", self.columns, self.multiple)
            return f"{self.items}*({threads}*u + t) {back} + v"
        back = before_row("i", self.columns//self.items, self.multiple//self.items)
        return f"{self.items}*({threads}*u + t {back}) + v"


def _back(columns: int, dtype: np.dtype, threads: int) -> Back:
    """Where the line of the cache begins that has the row's first element.

    Each load of a warp is one piece of so many whole lines then, and of parts of one more otherwise. Where that takes
    a thread a vector more, it is where a vector is aligned.
    """
    items = items_a_thread(dtype)
    line, vector = (Back(columns, items, multiple) for multiple in (max(LINE // dtype.itemsize, items), items))
    return vector if line.vectors(threads) > vector.vectors(threads) else line


def _over_blocks(knl: LoopKernel, rows: int) -> LoopKernel:
    """*rows* rows a block: its threads are those of a row, times these."""
    if rows == 1:
        return tag_inames(knl, {"i": "g.0"})
    return split_iname(knl, "i", rows, outer_tag="g.0", inner_tag="l.1")
