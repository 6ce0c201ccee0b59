"""Kernels with vector loads and stores."""
from __future__ import annotations

from typing import Any

import numpy as np

import loopkit as lk

F32 = np.float32


def axpy_vec(dtype: Any = F32, length: int = 4) -> lk.LoopKernel:
    """Vectors of whole arrays."""
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = a*x[i] + y[i]", name="axpy", kernel_data=[
        lk.GlobalArg("x", dtype), lk.GlobalArg("y", dtype), lk.ValueArg("a", dtype), "..."])
    knl = lk.split_iname(knl, "i", length, inner_tag="vec")
    return lk.split_iname(knl, "i_outer", 32, outer_tag="g.0", inner_tag="l.0")


def stencil_2d_vec() -> lk.LoopKernel:
    """Rows must begin at multiples of a vector; the neighbours along the row are loaded one by one."""
    knl = lk.make_kernel(
        "{[i, j]: 1<=i<n-1 and 1<=j<m-1}",
        "out[i, j] = a[i, j-1] + a[i, j+1] + a[i-1, j] + a[i+1, j] - 4*a[i, j]", name="stencil_2d_vec")
    knl = lk.add_dtypes(knl, {"a": F32})
    knl = lk.split_iname(knl, "i", 4, outer_tag="g.1", inner_tag="l.1")
    knl = lk.split_iname(knl, "j", 4, inner_tag="vec")
    return lk.split_iname(knl, "j_outer", 8, outer_tag="g.0", inner_tag="l.0")


def matmul_vec() -> lk.LoopKernel:
    """A tile that comes in vectors to shared memory, is read from there in vectors, and gives a result in vectors."""
    knl = lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<l}", "c[i, j] = sum(k, a[i, k]*b[k, j])",
                         name="matmul_vec", assumptions="n>=1 and m>=1 and l>=1")
    knl = lk.add_dtypes(knl, {"a,b": F32})
    knl = lk.split_iname(knl, "i", 16, outer_tag="g.1")
    knl = lk.split_iname(knl, "j", 32, outer_tag="g.0")
    knl = lk.split_iname(knl, "i_inner", 4, outer_tag="l.1", inner_tag="unr")
    knl = lk.split_iname(knl, "j_inner", 4, outer_tag="l.0")
    knl = lk.split_iname(knl, "k", 8)
    knl = lk.prioritize_loops(knl, "k_outer, k_inner, i_inner_inner, j_inner_inner")
    knl = lk.add_prefetch(knl, "a", ["i_inner_outer", "i_inner_inner", "k_inner"])
    knl = lk.add_prefetch(knl, "b", ["k_inner", "j_inner_outer", "j_inner_inner"], default_tag=None)
    knl = lk.split_iname(knl, "b_dim_1", 4, outer_tag="l.auto", inner_tag="vec")
    knl = lk.tag_inames(knl, {"b_dim_0": "l.auto"})
    return lk.tag_inames(knl, {"j_inner_inner": "vec"})


def anywhere(m: int | None, length: int, shift: int, *, dtype: Any = F32, text: str = "out[{}] = 2*a[{}]",
             assumptions: str | None = None, threads: int = 0) -> lk.LoopKernel:
    """Row *i* begins *shift* elements further from the beginning of a vector than the one before it.

    :arg threads: that have all of a row, several vectors each; 0: it is dealt to blocks of three threads.
    """
    column = f"{length}*q - ({shift}*i) % {length} + v"
    at = f"i, {column}"
    knl = lk.make_kernel(f"{{[i, q, v]: 0<=i<n and 0<=v<{length} and 0<=q and 0<={column}<m}}", text.format(at, at),
                         [lk.GlobalArg("a", dtype, ("n", "m")), lk.GlobalArg("out", dtype, ("n", "m")), "..."],
                         name="anywhere", assumptions=assumptions)
    knl = knl if m is None else lk.fix_parameters(knl, m=m)
    knl = lk.split_iname(knl, "q", threads or 3, outer_tag="unr" if threads else "g.0", inner_tag="l.0")
    return lk.tag_inames(knl, {"i": "g.0" if threads else "g.1", "v": "vec"})


def neighbours_anywhere(m: int, rows: int, dtype: Any = F32, length: int = 4) -> lk.LoopKernel:
    """What is above, below and beside, in rows of *m*; a thread's columns move on with the vectors of its rows."""
    rest = m % length
    near = rest if 2*rest <= length else rest - length
    knl = lk.make_kernel("{[i, j]: 1<=i<n-1 and 1<=j<m-1}",
                         "out[i, j] = a[i-1, j] + a[i+1, j] + a[i, j-1] + a[i, j+1] - 4*a[i, j]", [
        lk.GlobalArg("a", dtype, ("n", "m")), lk.GlobalArg("out", dtype, ("n", "m")), "..."], name="neighbours")
    knl = lk.split_iname(lk.fix_parameters(knl, m=m), "i", rows)
    if rest:
        knl = lk.skew(knl, "j", f"{rest*rows}*i_outer % {length} + {near}*i_inner")
    knl = lk.split_iname(knl, "j", length, inner_tag="vec")
    knl = lk.split_iname(knl, "j_outer", 2, outer_tag="g.0", inner_tag="l.0")
    return lk.tag_inames(knl, {"i_outer": "g.1", "i_inner": "unr"})
