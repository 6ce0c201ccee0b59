"""Pipelines for the host's processor: threads, SIMD loops, and sums in its registers."""
from __future__ import annotations

import numpy as np
import numpy.typing as npt

import loopkit as lk
from loopkit.kernel.annotations import checked
from loopkit.library.defaults import known_dtype
from loopkit.transform.step import require_positive

#: Bytes of a cache line, and of the longest vectors of x86 processors.
CPU_LINE = 64

#: Elements of a row of a sparse matrix from which on vectors are faster.
LONG_ROW = 64


@checked
def cpu_matmul(dtype: npt.DTypeLike = np.float64, *, tile: tuple[int, int] | None = None, tiles: int = 8
               ) -> lk.LoopKernel:
    """A kernel for the matrix product ``c[i, j] = sum(k, a[i, k]*b[k, j])`` on the host.

    A tile of *c* is in vector registers while the sums over *k* are added up. The first launch packs the rows of *a*
    and the columns of *b* into panels, which are as wide as a tile, with zeros beyond the edge. A tile then reads two
    panels in the order of memory. Only its stores have conditions.

    The target ``lk.CTarget(contract=True)`` fuses products and sums, and so needs half of the instructions.

    :arg tile: the rows and the columns of a tile; default: 8 rows and two vectors of 64 bytes. Processors with 16
        vector registers of 32 bytes need smaller tiles: 4 rows and 96 bytes.
    :arg tiles: the number of tiles below each other that read a panel of *b* from the L2 cache.
    :raises PreconditionError: a number is not positive.

    >>> knl = lk.library.cpu_matmul()
    >>> print(*(f"{x}:{knl.tags[x]}" for x in ("i_block", "i_reg", "j_vec")))
    i_block:cpu.threads i_reg:unr j_vec:cpu.simd
    >>> knl(a=np.ones((2, 3)), b=np.ones((3, 2))).c
    array([[3., 3.],
           [3., 3.]])
    """
    known = known_dtype(dtype)
    rows, columns = (8, max(2*CPU_LINE//known.itemsize, 1)) if tile is None else tile
    for number, name in ((rows, "tile"), (columns, "tile"), (tiles, "tiles")):
        require_positive(number, name)
    knl = lk.make_kernel(
        [f"{{[i, i_reg]: 0<=i and {rows}*i<n and 0<=i_reg<{rows}}}",
         f"{{[j, j_vec]: 0<=j and {columns}*j<m and 0<=j_vec<{columns}}}", "{[k]: 0<=k<l}",
         f"{{[a_panel, a_k, a_reg]: 0<=a_panel and {rows}*a_panel<n and 0<=a_k<l and 0<=a_reg<{rows}}}",
         f"{{[b_panel, b_k, b_vec]: 0<=b_panel and {columns}*b_panel<m and 0<=b_k<l and 0<=b_vec<{columns}}}"],
        f"""
        row(t, r) := {rows}*t + r
        column(t, x) := {columns}*t + x
        for a_panel, a_k, a_reg
            <> a_panels[a_panel, a_k, a_reg] = if(row(a_panel, a_reg) < n, a[row(a_panel, a_reg), a_k], 0)
        end
        for b_panel, b_k, b_vec
            <> b_panels[b_panel, b_k, b_vec] = if(column(b_panel, b_vec) < m, b[b_k, column(b_panel, b_vec)], 0)
        end
        for i, i_reg, j, j_vec
            <> total = sum(k, a_panels[i, k, i_reg]*b_panels[j, k, j_vec])
            c[row(i, i_reg), column(j, j_vec)] = total  {{if=row(i, i_reg) < n and column(j, j_vec) < m}}
        end
        """, name="cpu_matmul")
    knl = lk.split_iname(lk.add_dtypes(knl, {"a,b,c": known}), "i", tiles, outer_iname="i_block", inner_iname="i_tile")
    # a thread has blocks of rows; a panel of b stays in its L2 cache for all tiles of a block
    knl = lk.tag_inames(knl, "a_panel:cpu.threads, a_reg:unr, b_panel:cpu.threads, b_vec:cpu.simd")
    knl = lk.tag_inames(knl, "i_block:cpu.threads, i_reg:unr, j_vec:cpu.simd")
    return lk.prioritize_loops(knl, "i_block, j, i_tile, k, i_reg")


@checked
def cpu_stencil_2d(dtype: npt.DTypeLike = np.float32) -> lk.LoopKernel:
    """A kernel for the five-point Laplacian of the inner points of the grid *a* on the host.

    ``out[i, j] = a[i-1, j] + a[i+1, j] + a[i, j-1] + a[i, j+1] - 4*a[i, j]``.

    A thread computes tiles of 4 rows and 8 cache lines. The processor then fetches the next lines of several rows at
    the same time, which large grids need most. The tiles of a block of rows follow each other along the rows.

    >>> lk.library.cpu_stencil_2d()(a=np.eye(4, dtype=np.float32)).out
    array([[ 0.,  0.,  0.,  0.],
           [ 0., -4.,  2.,  0.],
           [ 0.,  2., -4.,  0.],
           [ 0.,  0.,  0.,  0.]], dtype=float32)
    """
    known = known_dtype(dtype)
    # inames from 0: the tiles then begin at the first inner point, and only the last ones are partial
    knl = lk.make_kernel("{[i, j]: 0<=i<n-2 and 0<=j<m-2}",
                         "out[i+1, j+1] = a[i, j+1] + a[i+2, j+1] + a[i+1, j] + a[i+1, j+2] - 4*a[i+1, j+1]",
                         name="cpu_stencil_2d")
    knl = lk.split_iname(lk.add_dtypes(knl, {"a,out": known}), "i", 4, outer_tag="cpu.threads")
    knl = lk.split_iname(knl, "j", max(8*CPU_LINE//known.itemsize, 1), inner_tag="cpu.simd")
    return lk.prioritize_loops(knl, "i_outer, j_outer, i_inner, j_inner")


@checked
def cpu_softmax(dtype: npt.DTypeLike = np.float32) -> lk.LoopKernel:
    """A kernel for the softmax of each row on the host, ``y[i, j] = exp(x[i, j] - max(x[i])) / sum(...)``.

    A thread has whole rows. The exponentials are computed once and stay in the row of the result, which is in the
    cache, until their sum is known.

    >>> x = np.log(np.array([[1, 2, 1], [1, 1, 2]], np.float32))
    >>> lk.library.cpu_softmax()(x=x).y
    array([[0.25, 0.5 , 0.25],
           [0.25, 0.25, 0.5 ]], dtype=float32)
    """
    knl = lk.make_kernel(
        "{[i, j]: 0<=i<n and 0<=j<m}",
        """
        for i
            <> top = max(j, x[i, j])
            for j
                y[i, j] = exp(x[i, j] - top)
            end
            <> scale = 1/sum(j, y[i, j])
            for j
                y[i, j] = y[i, j]*scale
            end
        end
        """, name="cpu_softmax")
    return lk.tag_inames(lk.add_dtypes(knl, {"x,y": known_dtype(dtype)}), "i:cpu.threads, j:cpu.simd")


@checked
def cpu_csr_matvec(dtype: npt.DTypeLike = np.float64, *, row_length: float | None = None) -> lk.LoopKernel:
    """A kernel for ``y[i] = sum(k, val[k]*x[col[k]])`` over ``rowptr[i] <= k < rowptr[i+1]`` on the host.

    This is the product of a sparse matrix in the CSR format with the vector *x*. A thread has whole rows. Long rows
    take several sums at once, in vectors with gathered elements of *x*. For short rows this costs more than it saves.

    :arg row_length: the mean number of elements per row; default: few, so that a row is one sum in order.

    >>> rowptr, col = np.array([0, 2, 3], np.int32), np.array([0, 1, 1], np.int32)
    >>> lk.library.cpu_csr_matvec()(rowptr=rowptr, col=col, val=np.array([1., 2, 3]), x=np.array([10., 20])).y
    array([50., 60.])
    """
    knl = lk.make_kernel(
        ["{[i]: 0<=i<n}", "{[k]: first<=k<last}"],
        """
        for i
            <> first = rowptr[i]
            <> last = rowptr[i+1]
            y[i] = sum(k, val[k]*x[col[k]])
        end
        """, name="cpu_csr_matvec")
    knl = lk.add_dtypes(knl, {"val,x,y": known_dtype(dtype), "rowptr,col": np.int32})
    long = row_length is not None and row_length >= LONG_ROW
    return lk.tag_inames(knl, {"i": "cpu.threads", **({"k": "cpu.simd"} if long else {})})
