"""The real cases: each a kernel as a user would write it, its mapping, data of ragged sizes, and numpy's answer."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np

import loopkit as lk
from tests.deep import shared
from tests.vector_kernels import anywhere, axpy_vec, matmul_vec, neighbours_anywhere, stencil_2d_vec

Arrays = dict[str, Any]
F32 = np.float32
F32_, F16, BF16 = np.dtype(F32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
_F64 = np.dtype(np.float64)


@dataclass(frozen=True)
class Case:
    """A kernel, the sizes to run it at, its inputs and the expected outputs.

    :ivar fresh: makes the kernel; :attr:`make` is the same for tests that may share one kernel.
    :ivar data: from sizes and a random generator to the arguments of a call.
    :ivar expected: from the arguments (before the call) to the outputs by name.
    :ivar sizes: several ragged ones.
    :ivar dtype: of the outputs.
    """

    name: str
    fresh: Callable[[], lk.LoopKernel]
    data: Callable[..., Arrays]
    expected: Callable[[Arrays], Mapping[str, np.ndarray]]
    sizes: Sequence[tuple[int, ...]]
    dtype: np.dtype[Any] = F32_

    @cached_property
    def make(self) -> Callable[[], lk.LoopKernel]:
        return shared(self.fresh)


def _rand(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.uniform(-1, 1, shape).astype(F32)


# Vectors

def vector_add() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "z[i] = x[i] + y[i]", name="vector_add")
    return lk.add_dtypes(knl, {"x,y": F32})


def vector_add_mapped() -> lk.LoopKernel:
    return lk.split_iname(vector_add(), "i", 128, outer_tag="g.0", inner_tag="l.0")


def scale_mapped() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "out[i] = 2*a[i]", name="scale")
    knl = lk.add_dtypes(knl, {"a": F32})
    return lk.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")


def conditionals() -> lk.LoopKernel:
    knl = lk.make_kernel(
        "{[i]: 0<=i<n}",
        """
        for i
            <> t = x[i]
            if t > 0.5
                y[i] = sqrt(t)
            else
                if i < 10
                    y[i] = -1
                else
                    y[i] = if(i % 3 == 0, t*t, i // 2)
                end
            end
        end
        """, name="conditionals")
    knl = lk.add_dtypes(knl, {"x": F32})
    return lk.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def recurrence() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i]: 1<=i<n}", "a[i] = a[i-1] + b[i]", name="prefix_sum")
    return lk.add_dtypes(knl, {"a,b": F32})


def scan_by_block() -> lk.LoopKernel:
    """Prefix sums of rows: of the threads together, and of a thread's elements one after another."""
    knl = lk.make_kernel(
        ["{[i]: 0<=i<n}", "{[r]: 0<=r and 128*r<m}", "[r] -> {[q]: 0<=q<r}",
         "[r] -> {[t]: 0<=t<64 and 128*r + 2*t<m}", "[t] -> {[s]: 0<=s<t}",
         "[r, t] -> {[v]: 0<=v<2 and 128*r + 2*t + v<m}", "[v] -> {[w]: 0<=w<=v}"],
        """
        for i, r
            for t
                <> own[t] = sum(v, x[i, 128*r + 2*t + v])
            end
            <> before = sum(q, tile[q])
            for t
                <> start = before + sum(s, own[s])
                for v
                    y[i, 128*r + 2*t + v] = start + sum(w, x[i, 128*r + 2*t + w])
                end
            end
            <> tile[r] = sum(t, own[t])
        end
        """, name="scan_by_block")
    knl = lk.tag_inames(lk.add_dtypes(knl, {"x,y": F32}), "i: g.0, t: l.0, v: unr")
    for x in "wsq":
        knl = lk.realize_scan(knl, x)
    return lk.contract(knl, "tile", "r")


def chained_scan() -> lk.LoopKernel:
    """Prefix sums in one launch, as a chained scan: each block waits for the prefix of the block before it."""
    knl = lk.make_kernel(
        ["{[b]: 0<=b and 64*b<n}", "[b] -> {[a]: 0<=a and a = b - 1}", "[b] -> {[k]: 0<=k<64 and 64*b + k<n}",
         "[b] -> {[i]: 0<=i<64 and 64*b + i<n}", "[i] -> {[j]: 0<=j<=i}"],
        """
        for b
            <> before = sum(a, whole[a])
            <> whole[b] = before + sum(k, x[64*b + k])
            for i
                y[64*b + i] = before + sum(j, x[64*b + j])
            end
        end
        """, name="chained_scan")
    knl = lk.add_block_flags(lk.add_dtypes(knl, {"x,y,whole": F32}), "whole")
    return lk.realize_scan(lk.tag_inames(knl, "b: g.0, k: l.0, i: l.0"), "j")


def two_launches() -> lk.LoopKernel:
    knl = lk.make_kernel(
        "{[i, j]: 0<=i<n and 1<=j<n-1}",
        """
        t[i] = 2*x[i]
        y[j] = t[j-1] + t[j+1]
        """, name="two_launches", kernel_data=[lk.GlobalArg("x", F32), lk.GlobalArg("y", F32),
                                               lk.TemporaryVariable("t", F32), "..."])
    knl = lk.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
    return lk.split_iname(knl, "j", 64, outer_tag="g.0", inner_tag="l.0")


# Matrices

def transpose() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "b[j, i] = a[i, j]", name="transpose")
    knl = lk.add_dtypes(knl, {"a": F32})
    knl = lk.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.0")
    knl = lk.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.1")
    return lk.add_prefetch(knl, "a", ["i_inner", "j_inner"])


def transpose_swizzled() -> lk.LoopKernel:
    """A tile that is stored by columns, four rows of it in each vector; no cell is lost to padding."""
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "b[j, i] = a[i, j]", name="transpose_swizzled")
    knl = lk.add_dtypes(knl, {"a": F32})
    knl = lk.split_iname(knl, "i", 32, outer_tag="g.1")
    knl = lk.split_iname(knl, "j", 32, outer_tag="g.0", inner_tag="l.1")
    knl = lk.add_prefetch(knl, "a", ["i_inner", "j_inner"], default_tag=None)
    knl = lk.split_iname(knl, "a_dim_0", 4, outer_tag="l.1", inner_tag="unr")
    knl = lk.tag_inames(knl, {"a_dim_1": "l.0"})
    knl = lk.split_iname(knl, "i_inner", 4, outer_tag="l.0", inner_tag="vec")
    return lk.swizzle(lk.tag_array_axes(knl, "a_fetch", "F"), "a_fetch", chunk=4)


def matmul() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<l}", "c[i, j] = sum(k, a[i, k]*b[k, j])",
                         name="matmul", assumptions="n>=1 and m>=1 and l>=1")
    return lk.add_dtypes(knl, {"a,b": F32})


def matmul_tiled() -> lk.LoopKernel:
    knl = lk.split_iname(matmul(), "i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = lk.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    knl = lk.split_iname(knl, "k", 16)
    knl = lk.add_prefetch(knl, "a", ["i_inner", "k_inner"])
    return lk.add_prefetch(knl, "b", ["k_inner", "j_inner"])


def matmul_register_blocked(inner_tag: str = "unr") -> lk.LoopKernel:
    knl = lk.split_iname(matmul(), "i", 64, outer_tag="g.1")
    knl = lk.split_iname(knl, "j", 64, outer_tag="g.0")
    knl = lk.split_iname(knl, "i_inner", 4, outer_iname="i_thread", inner_iname="i_reg")
    knl = lk.split_iname(knl, "j_inner", 4, outer_iname="j_thread", inner_iname="j_reg")
    knl = lk.split_iname(knl, "k", 8)
    knl = lk.tag_inames(knl, {"i_thread": "l.1", "j_thread": "l.0"})
    knl = lk.prioritize_loops(knl, "k_outer, k_inner, i_reg, j_reg")
    knl = lk.add_prefetch(knl, "a", ["i_thread", "i_reg", "k_inner"])
    knl = lk.add_prefetch(knl, "b", ["k_inner", "j_thread", "j_reg"])
    knl = lk.tag_inames(knl, {"i_reg": inner_tag, "j_reg": inner_tag})
    knl = lk.add_prefetch(knl, "a_fetch", ["i_reg"], temporary_name="a_reg", default_tag="unr")
    return lk.add_prefetch(knl, "b_fetch", ["j_reg"], temporary_name="b_reg", default_tag="unr")


def matmul_pipelined() -> lk.LoopKernel:
    """The next strips are loaded in vectors while a block computes on these, with one barrier a step."""
    return lk.pipeline(matmul_vec(), "k_outer")


def matmul_asynchronous() -> lk.LoopKernel:
    """Two strips of each matrix are on their way to shared memory, in vectors, while a block computes on a third."""
    return lk.pipeline(matmul_vec(), "k_outer", 3, asynchronous=True)


def matmul_by_warps(box: tuple[int, int] = (8, 4), steps: int = 16, stages: int = 1) -> lk.LoopKernel:
    """The lanes of two warps compute boxes of 8 rows, 8 columns and 4 steps together; at edges they meet zeros.

    :arg box: rows and steps.
    """
    rows, depth = box
    knl = lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<l}", "c[i, j] = sum(k, a[i, k]*b[k, j])",
                         name="matmul_by_warps", assumptions="n>=1 and m>=1 and l>=1")
    knl = lk.pad_domain(lk.add_dtypes(knl, {"a,b,c": np.float64}), {"i": 2*rows, "j": 16, "k": steps})
    knl = lk.split_levels(knl, "i", {"i_block": None, "i_warp": 2, "i_box": rows},
                          tags={"i_block": "g.1", "i_warp": "l.0"})
    knl = lk.split_levels(knl, "j", {"j_block": None, "j_reg": 2, "j_box": 8}, tags={"j_block": "g.0", "j_reg": "unr"})
    knl = lk.split_levels(knl, "k", {"k_outer": None, "k_step": steps // depth, "k_box": depth}, tags={"k_step": "unr"})
    knl = lk.prioritize_loops(knl, "i_warp, k_outer, k_step, j_reg, i_box, j_box")
    knl = lk.tensorize(knl, "insn", f"mma.m{rows}n8k{depth}.f64", "i_box, j_box, k_box")
    of_rows, of_columns, of_steps = ([x for x in knl.inames if x.startswith(f"{own}_box")] for own in "ijk")
    knl = lk.precompute(knl, "a_padded", ["i_warp", *of_rows, "k_step", *of_steps])
    knl = lk.precompute(knl, "b_padded", ["k_step", *of_steps, "j_reg", *of_columns])
    return lk.pipeline(knl, "k_outer", stages) if stages else knl


def matmul_ilp() -> lk.LoopKernel:
    knl = lk.split_iname(matmul(), "i", 16, outer_tag="g.1")
    knl = lk.split_iname(knl, "j", 64, outer_tag="g.0")
    knl = lk.split_iname(knl, "i_inner", 4, outer_tag="l.1", inner_tag="ilp")
    knl = lk.split_iname(knl, "j_inner", 16, outer_tag="ilp", inner_tag="l.0")
    return knl


def matmul_large_tiles() -> lk.LoopKernel:
    """Its tiles need more shared memory than a function can declare."""
    knl = lk.split_iname(matmul(), "i", 64, outer_tag="g.1")
    knl = lk.split_iname(knl, "j", 64, outer_tag="g.0")
    knl = lk.split_iname(knl, "i_inner", 4, outer_tag="l.1", inner_tag="unr")
    knl = lk.split_iname(knl, "j_inner", 4, outer_tag="l.0", inner_tag="unr")
    knl = lk.split_iname(knl, "k", 128)
    knl = lk.prioritize_loops(knl, "k_outer, k_inner, i_inner_inner, j_inner_inner")
    knl = lk.add_prefetch(knl, "a", ["i_inner_outer", "i_inner_inner", "k_inner"])
    return lk.add_prefetch(knl, "b", ["k_inner", "j_inner_outer", "j_inner_inner"])


def matmul_half() -> lk.LoopKernel:
    """Halves in memory, products and sums in float32."""
    knl = lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<l}",
                         "c[i, j] = sum(k, cast(float32, a[i, k])*b[k, j])",
                         name="matmul_half", assumptions="n>=1 and m>=1 and l>=1")
    knl = lk.add_dtypes(knl, {"a,b,c": F16})
    knl = lk.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = lk.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    knl = lk.split_iname(knl, "k", 16)
    knl = lk.add_prefetch(knl, "a", ["i_inner", "k_inner"])
    return lk.add_prefetch(knl, "b", ["k_inner", "j_inner"])


def batched_matmul() -> lk.LoopKernel:
    knl = lk.make_kernel("{[e, i, j]: 0<=e<ne and 0<=i,j<10}", "r[e, i] = sum(j, d[i, j]*u[e, j])",
                         name="elementwise_operator")
    knl = lk.add_dtypes(knl, {"d,u": F32})
    knl = lk.split_iname(knl, "e", 16, outer_tag="g.0", inner_tag="l.1")
    knl = lk.tag_inames(knl, {"i": "l.0"})
    knl = lk.add_prefetch(knl, "d", ["i", "j"])
    return lk.add_prefetch(knl, "u", ["e_inner", "j"])


def csr_matvec() -> lk.LoopKernel:
    knl = lk.make_kernel(
        ["{[i]: 0<=i<n}", "{[jj]: first<=jj<last}"],
        """
        for i
            <> first = rowptr[i]
            <> last = rowptr[i+1]
            y[i] = sum(jj, val[jj]*x[col[jj]])
        end
        """, name="csr_matvec")
    knl = lk.add_dtypes(knl, {"val,x": F32, "rowptr,col": np.int32})
    return lk.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")


# Stencils

def stencil_2d() -> lk.LoopKernel:
    knl = lk.make_kernel(
        "{[i, j]: 1<=i<n-1 and 1<=j<m-1}",
        "out[i, j] = a[i, j-1] + a[i, j+1] + a[i-1, j] + a[i+1, j] - 4*a[i, j]", name="stencil_2d")
    knl = lk.add_dtypes(knl, {"a": F32})
    knl = lk.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = lk.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    return lk.add_prefetch(knl, "a", ["i_inner", "j_inner"])


def stencil_3d() -> lk.LoopKernel:
    knl = lk.make_kernel(
        "{[i, j, k]: 1<=i<n-1 and 1<=j<m-1 and 1<=k<l-1}",
        "out[i, j, k] = a[i-1, j, k] + a[i+1, j, k] + a[i, j-1, k] + a[i, j+1, k]"
        " + a[i, j, k-1] + a[i, j, k+1] - 6*a[i, j, k]", name="stencil_3d")
    knl = lk.add_dtypes(knl, {"a": F32})
    knl = lk.split_iname(knl, "i", 4, outer_tag="g.2", inner_tag="l.2")
    knl = lk.split_iname(knl, "j", 4, outer_tag="g.1", inner_tag="l.1")
    knl = lk.split_iname(knl, "k", 16, outer_tag="g.0", inner_tag="l.0")
    return lk.add_prefetch(knl, "a", ["i_inner", "j_inner", "k_inner"])


def jacobi() -> lk.LoopKernel:
    knl = lk.make_kernel(
        "{[t, i, j]: 0<=t<steps and 1<=i<n-1 and 1<=j<n-1}",
        """
        for t
            for i
                v[i] = (u[i-1] + u[i] + u[i+1]) / 3
            end
            for j
                u[j] = v[j]
            end
        end
        """, name="jacobi")
    return lk.add_dtypes(knl, {"u,v": F32})


def jacobi_over_blocks() -> lk.LoopKernel:
    knl = lk.split_iname(jacobi(), "i", 128, outer_tag="g.0", inner_tag="l.0")
    return lk.split_iname(knl, "j", 128, outer_tag="g.0", inner_tag="l.0")


# Factorisations

def lu() -> lk.LoopKernel:
    knl = lk.make_kernel(
        "{[k, r, i, j]: 0<=k<n and k<r,i,j<n}",
        """
        for k
            for r
                a[r,k] = a[r,k] / a[k,k] {id=scale}
            end
            for i, j
                a[i,j] = a[i,j] - a[i,k]*a[k,j] {id=update}
            end
        end
        """, name="lu", assumptions="n>=1")
    knl = lk.add_dtypes(knl, {"a": F32})
    knl = lk.split_iname(knl, "r", 128, outer_tag="g.0", inner_tag="l.0")
    knl = lk.split_iname(knl, "i", 8, outer_tag="g.1", inner_tag="l.1")
    return lk.split_iname(knl, "j", 32, outer_tag="g.0", inner_tag="l.0")


# Rows

def softmax_by_thread() -> lk.LoopKernel:
    knl = lk.make_kernel(
        "{[i, k, j]: 0<=i<n and 0<=k,j<m}",
        """
        for i
            <> top = max(k, x[i, k])
            <> total = sum(k, exp(x[i, k] - top))
            for j
                y[i, j] = exp(x[i, j] - top) / total
            end
        end
        """, name="softmax")
    knl = lk.add_dtypes(knl, {"x": F32})
    return lk.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def _row_kernel_by_block(text: str, name: str, length: int, dtype: np.dtype[Any] = F32_) -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, k, j]: 0<=i<n and 0<=k,j<m}", text, name=name)
    knl = lk.add_dtypes(knl, {"x,y": dtype} if dtype.itemsize == 2 else {"x": dtype})
    knl = lk.tag_inames(knl, {"i": "g.0"})
    knl = lk.split_iname(knl, "k", length, inner_tag="l.0")
    return lk.split_iname(knl, "j", length, inner_tag="l.0")


def softmax_by_block() -> lk.LoopKernel:
    return _row_kernel_by_block(
        """
        for i
            <> top = max(k, x[i, k])
            <> total = sum(k, exp(x[i, k] - top))
            for j
                y[i, j] = exp(x[i, j] - top) / total
            end
        end
        """, "softmax_block", 48)


def softmax_bfloat16() -> lk.LoopKernel:
    """Rows of bfloat16, summed in float32; the maximum is one of the elements and stays a bfloat16."""
    return _row_kernel_by_block(
        """
        for i
            <> top = max(k, x[i, k])
            <> total = sum(k, exp(cast(float32, x[i, k] - top)))
            for j
                y[i, j] = 0.5*x[i, j] + exp(cast(float32, x[i, j] - top)) / total
            end
        end
        """, "softmax_bfloat16", 48, BF16)


_LAYER_NORM = """
    for i
        <> mean = sum(k, x[i, k]) / m
        <> var = sum(k, (x[i, k] - mean)**2) / m
        <> scale = rsqrt(var + 1e-5)
        for j
            y[i, j] = (x[i, j] - mean)*scale
        end
    end
    """


def layer_norm_by_thread() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, k, j]: 0<=i<n and 0<=k,j<m}", _LAYER_NORM, name="layer_norm")
    knl = lk.add_dtypes(knl, {"x": F32})
    return lk.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def layer_norm_by_block() -> lk.LoopKernel:
    return _row_kernel_by_block(_LAYER_NORM, "layer_norm_block", 64)


def nbody() -> lk.LoopKernel:
    knl = lk.make_kernel(
        "{[i, j]: 0<=i,j<n}",
        """
        for i
            <> xi = x[i]
            <> yi = y[i]
            <> zi = z[i]
            phi[i] = sum(j, q[j]*rsqrt((x[j]-xi)**2 + (y[j]-yi)**2 + (z[j]-zi)**2 + 0.01))
        end
        """, name="nbody")
    knl = lk.add_dtypes(knl, {"x,y,z,q": F32})
    knl = lk.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
    knl = lk.split_iname(knl, "j", 64)
    for name in "xyzq":
        knl = lk.add_prefetch(knl, name, ["j_inner"], within="insn_2.j.update", temporary_name=f"{name}_tile")
    return knl


def histogram() -> lk.LoopKernel:
    """Each block adds up the weights of its own part in shared memory, and then to all others'."""
    knl = lk.make_kernel(
        "{[i, j]: 0<=i<n and 0<=j<50}",
        """
        h[j] = 1 {id=clear}
        h[b[i]] = h[b[i]] + w[i] {id=add, atomic}
        """, [lk.GlobalArg("h", F32, shape=50), lk.GlobalArg("b", np.uint8), lk.GlobalArg("w", F32), "..."],
        name="histogram")
    knl = lk.split_iname(knl, "i", 256, outer_tag="g.0")
    knl = lk.split_iname(knl, "i_inner", 64, outer_iname="i_item", inner_iname="i_thread", inner_tag="l.0")
    knl = lk.buffer_array(lk.tag_inames(knl, "j:l.0"), "h", "i_item, i_thread", within="add")
    return lk.add_barrier(knl, "clear", "init_h")


# References

def _softmax(a: Arrays) -> Mapping[str, np.ndarray]:
    x = a["x"].astype(np.float64)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return {"y": e / e.sum(axis=1, keepdims=True)}


def _layer_norm(a: Arrays) -> Mapping[str, np.ndarray]:
    x = a["x"].astype(np.float64)
    return {"y": (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)}


def _stencil_2d(args: Arrays) -> Mapping[str, np.ndarray]:
    a = args["a"]
    out = np.zeros_like(a)
    out[1:-1, 1:-1] = a[1:-1, :-2] + a[1:-1, 2:] + a[:-2, 1:-1] + a[2:, 1:-1] - 4*a[1:-1, 1:-1]
    return {"out": out}


def _stencil_3d(args: Arrays) -> Mapping[str, np.ndarray]:
    a = args["a"]
    out = np.zeros_like(a)
    c = slice(1, -1)
    out[c, c, c] = (a[:-2, c, c] + a[2:, c, c] + a[c, :-2, c] + a[c, 2:, c] + a[c, c, :-2] + a[c, c, 2:]
                    - 6*a[c, c, c])
    return {"out": out}


def _jacobi(args: Arrays) -> Mapping[str, np.ndarray]:
    u, v = args["u"].copy(), args["v"].copy()
    for _ in range(args["steps"]):
        v[1:-1] = (u[:-2] + u[1:-1] + u[2:]) / 3
        u[1:-1] = v[1:-1]
    return {"u": u, "v": v}


def _lu(args: Arrays) -> Mapping[str, np.ndarray]:
    a = args["a"].astype(np.float64)
    for k in range(len(a)):
        a[k+1:, k] /= a[k, k]
        a[k+1:, k+1:] -= np.outer(a[k+1:, k], a[k, k+1:])
    return {"a": a}


def _conditionals(args: Arrays) -> Mapping[str, np.ndarray]:
    x = args["x"]
    i = np.arange(len(x))
    low = np.where(i < 10, -1, np.where(i % 3 == 0, x*x, i // 2))
    return {"y": np.where(x > 0.5, np.sqrt(np.abs(x)), low)}


def _csr_data(rng: np.random.Generator, n: int, m: int) -> Arrays:
    lengths = rng.integers(0, 9, n)
    rowptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return {"rowptr": rowptr, "col": rng.integers(0, m, rowptr[-1]).astype(np.int32),
            "val": _rand(rng, int(rowptr[-1])), "x": _rand(rng, m)}


def _csr(a: Arrays) -> Mapping[str, np.ndarray]:
    rowptr = a["rowptr"]
    return {"y": np.array([np.dot(a["val"][s:e].astype(np.float64), a["x"][a["col"][s:e]])
                           for s, e in pairwise(rowptr)])}


def _nbody(a: Arrays) -> Mapping[str, np.ndarray]:
    d2 = sum((a[c][None, :].astype(np.float64) - a[c][:, None])**2 for c in "xyz") + 0.01
    return {"phi": (a["q"][None, :] / np.sqrt(d2)).sum(axis=1)}


def _two_launches(a: Arrays) -> Mapping[str, np.ndarray]:
    y = np.zeros_like(a["x"])
    y[1:-1] = 2*a["x"][:-2] + 2*a["x"][2:]
    return {"y": y[:len(y) - 1]}


def _matmul_data(rng: np.random.Generator, n: int, m: int, length: int) -> Arrays:
    return {"a": _rand(rng, n, length), "b": _rand(rng, length, m)}


def _matmul(args: Arrays) -> Mapping[str, np.ndarray]:
    return {"c": args["a"].astype(np.float64) @ args["b"]}


def _softmax_bfloat16(args: Arrays) -> Mapping[str, np.ndarray]:
    x = args["x"]
    e = np.exp((x - x.max(axis=1, keepdims=True)).astype(np.float64))
    return {"y": 0.5*x.astype(np.float64) + e / e.sum(axis=1, keepdims=True)}


_VECTORS = [(1,), (127,), (128,), (1000,)]
_MATRICES = [(1, 1, 1), (16, 16, 16), (37, 29, 41), (64, 128, 8), (65, 70, 9)]
_ROWS = [(1, 1), (3, 47), (5, 48), (33, 200)]

CASES = [
    Case("vector_add", vector_add, lambda rng, n: {"x": _rand(rng, n), "y": _rand(rng, n)},
         lambda a: {"z": a["x"] + a["y"]}, _VECTORS),
    Case("vector_add_mapped", vector_add_mapped, lambda rng, n: {"x": _rand(rng, n), "y": _rand(rng, n)},
         lambda a: {"z": a["x"] + a["y"]}, _VECTORS),
    Case("scale_mapped", scale_mapped, lambda rng, n: {"a": _rand(rng, n)}, lambda a: {"out": 2*a["a"]}, _VECTORS),
    Case("conditionals", conditionals, lambda rng, n: {"x": _rand(rng, n)}, _conditionals, _VECTORS),
    Case("recurrence", recurrence, lambda rng, n: {"a": _rand(rng, n), "b": _rand(rng, n)},
         lambda a: {"a": np.concatenate([a["a"][:1], a["a"][0] + np.cumsum(a["b"][1:], dtype=np.float64)])},
         _VECTORS),
    Case("scan_by_block", scan_by_block, lambda rng, n, m: {"x": _rand(rng, n, m)},
         lambda a: {"y": np.cumsum(a["x"], axis=1, dtype=np.float64)}, _ROWS),
    Case("chained_scan", chained_scan, lambda rng, n: {"x": _rand(rng, n)},
         lambda a: {"y": np.cumsum(a["x"], dtype=np.float64)}, [(1,), (64,), (65,), (1000,)]),
    Case("two_launches", two_launches, lambda rng, n: {"x": _rand(rng, n)}, _two_launches, [(3,), (64,), (500,)]),
    Case("transpose", transpose, lambda rng, n, m: {"a": _rand(rng, n, m)}, lambda a: {"b": a["a"].T},
         [(1, 1), (16, 32), (37, 53)]),
    Case("transpose_swizzled", transpose_swizzled, lambda rng, n, m: {"a": _rand(rng, n, m)},
         lambda a: {"b": a["a"].T}, [(1, 1), (32, 64), (36, 53), (37, 20)]),
    Case("matmul", matmul, _matmul_data, _matmul, _MATRICES),
    Case("matmul_tiled", matmul_tiled, _matmul_data, _matmul, _MATRICES),
    Case("matmul_register_blocked", matmul_register_blocked, _matmul_data, _matmul, _MATRICES),
    Case("matmul_large_tiles", matmul_large_tiles, _matmul_data, _matmul, [*_MATRICES, (70, 65, 300)]),
    Case("matmul_half", matmul_half, lambda *args: {k: v.astype(F16) for k, v in _matmul_data(*args).items()}, _matmul,
         _MATRICES, F16),
    Case("matmul_ilp", matmul_ilp, _matmul_data, _matmul, _MATRICES),
    Case("stencil_2d", stencil_2d, lambda rng, n, m: {"a": _rand(rng, n, m)}, _stencil_2d,
         [(3, 3), (18, 34), (37, 53)]),
    Case("stencil_3d", stencil_3d, lambda rng, n, m, k: {"a": _rand(rng, n, m, k)}, _stencil_3d,
         [(3, 3, 3), (6, 10, 18), (11, 9, 21)]),
    Case("jacobi", jacobi, lambda rng, n, steps: {"u": _rand(rng, n), "v": _rand(rng, n), "steps": steps}, _jacobi,
         [(3, 1), (40, 7)]),
    Case("jacobi_over_blocks", jacobi_over_blocks,
         lambda rng, n, steps: {"u": _rand(rng, n), "v": _rand(rng, n), "steps": steps}, _jacobi,
         [(3, 1), (40, 7), (300, 4), (300, 0)]),
    Case("lu", lu, lambda rng, n: {"a": _rand(rng, n, n) + n*np.eye(n, dtype=F32)}, _lu, [(1,), (2,), (37,), (70,)]),
    Case("softmax_by_thread", softmax_by_thread, lambda rng, n, m: {"x": _rand(rng, n, m)}, _softmax, _ROWS),
    Case("softmax_by_block", softmax_by_block, lambda rng, n, m: {"x": _rand(rng, n, m)}, _softmax, _ROWS),
    Case("softmax_bfloat16", softmax_bfloat16, lambda rng, n, m: {"x": _rand(rng, n, m).astype(BF16)},
         _softmax_bfloat16, _ROWS, BF16),
    Case("layer_norm_by_thread", layer_norm_by_thread, lambda rng, n, m: {"x": _rand(rng, n, m)}, _layer_norm,
         _ROWS[1:]),
    Case("layer_norm_by_block", layer_norm_by_block, lambda rng, n, m: {"x": _rand(rng, n, m)}, _layer_norm,
         _ROWS[1:]),
    Case("batched_matmul", batched_matmul, lambda rng, n: {"d": _rand(rng, 10, 10), "u": _rand(rng, n, 10)},
         lambda a: {"r": a["u"].astype(np.float64) @ a["d"].T}, [(1,), (16,), (53,)]),
    Case("nbody", nbody, lambda rng, n: {c: _rand(rng, n) for c in "xyzq"}, _nbody, [(1,), (64,), (150,)]),
    Case("axpy_vec", axpy_vec, lambda rng, n: {"x": _rand(rng, n), "y": _rand(rng, n), "a": 2},
         lambda a: {"y": 2*a["x"] + a["y"]}, _VECTORS),
    Case("stencil_2d_vec", stencil_2d_vec, lambda rng, n, m: {"a": _rand(rng, n, m)}, _stencil_2d,
         [(3, 3), (18, 36), (37, 53), (20, 132)]),
    Case("rows_anywhere_vec", lambda: anywhere(25, 4, 1, threads=2), lambda rng, n: {"a": _rand(rng, n, 25)},
         lambda a: {"out": 2*a["a"]}, [(1,), (2,), (7,), (40,)]),
    Case("neighbours_anywhere_vec", lambda: neighbours_anywhere(13, 2), lambda rng, n: {"a": _rand(rng, n, 13)},
         _stencil_2d, [(3,), (4,), (23,)]),
    Case("matmul_vec", matmul_vec, _matmul_data, _matmul, _MATRICES),
    Case("matmul_pipelined", matmul_pipelined, _matmul_data, _matmul, _MATRICES),
    Case("matmul_asynchronous", matmul_asynchronous, _matmul_data, _matmul, _MATRICES),
    Case("matmul_by_warps", lambda: lk.set_options(matmul_by_warps(), full_tiles=False),
         lambda *args: {k: v.astype(np.float64) for k, v in _matmul_data(*args).items()}, _matmul, _MATRICES, _F64),
    Case("csr_matvec", csr_matvec, _csr_data, _csr, [(1, 5), (64, 10), (150, 99)]),
    Case("histogram", histogram, lambda rng, n: {"b": rng.integers(0, 50, n).astype(np.uint8), "w": _rand(rng, n)},
         lambda a: {"h": 1 + np.bincount(a["b"], a["w"].astype(np.float64), 50)}, [(1,), (256,), (3001,)]),
]
