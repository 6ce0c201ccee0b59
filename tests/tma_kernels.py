"""Kernels whose tiles TMA copies, for tests on the host and on the device."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import loopkit as lk
from tests.deep import shared


@shared
def rowsum(stages: int, dtype: str = "float32") -> lk.LoopKernel:
    """The sums of the rows of a matrix, with a row for each thread; *stages*: the tiles held at once."""
    knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<l}", """
        rows(row, column) := a[row, column]
        s[i] = sum(k, rows(i, k))
        """, name="rowsum")
    knl = lk.pad_domain(lk.add_dtypes(knl, {"a": dtype}), {"i": 64, "k": 32})
    knl = lk.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
    knl = lk.split_iname(knl, "k", 32)
    knl = lk.precompute(knl, "rows", ["i_inner", "k_inner"], temporary_name="tile", precompute_inames=["a_i", "a_k"],
                        default_tag=None, dtype=dtype)
    knl = lk.tensorize(knl, "tile_rule", "tma.load")
    return lk.pipeline(knl, "k_outer", stages) if stages > 1 else knl


@shared
def rowdot(a_stages: int, b_stages: int) -> lk.LoopKernel:
    """The products of the rows of two matrices; the tiles of each that are held at once."""
    knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<l}", """
        a_rows(row, column) := a[row, column]
        b_rows(row, column) := b[row, column]
        s[i] = sum(k, a_rows(i, k)*b_rows(i, k))
        """, name="rowdot")
    knl = lk.pad_domain(lk.add_dtypes(knl, {"a, b": "float32"}), {"i": 64, "k": 32})
    knl = lk.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
    knl = lk.split_iname(knl, "k", 32)
    for x in "ab":
        knl = lk.precompute(knl, f"{x}_rows", ["i_inner", "k_inner"], temporary_name=f"{x}_tile", default_tag=None,
                            precompute_inames=[f"{x}_i", f"{x}_k"], dtype="float32")
        knl = lk.tensorize(knl, f"{x}_tile_rule", "tma.load")
    if a_stages == b_stages:
        return lk.pipeline(knl, "k_outer", a_stages)
    knl = lk.pipeline(knl, "k_outer", a_stages, temporaries=["a_tile"])
    return lk.pipeline(knl, "k_outer", b_stages, temporaries=["b_tile"])


@shared
def window(stride: int, before: int) -> lk.LoopKernel:
    """A copy of every *stride*-th row of a matrix through a box of 8 rows, from *before* the first row on."""
    row = f"{stride}*i - {before}"
    knl = lk.make_kernel("{[i, k, j, m]: 0<=i,j<8 and 0<=k,m<32}", f"""
        <> t[i, k] = x[{row}, k] if 0 <= {row} and {row} < n else 0  {{id=copy}}
        y[j, m] = 2*t[j, m]  {{id=use, dep=copy}}
        """, [lk.GlobalArg("x", np.float32, "n, 32"), "..."], name="window")
    return lk.tensorize(lk.tag_inames(knl, "m:l.0"), "copy", "tma.load", "i, k")


def rows_of_window(x: np.ndarray, stride: int, before: int) -> np.ndarray:
    """Twice these rows, and zeros outside of the matrix."""
    rows = stride*np.arange(8) - before
    inside = (rows >= 0) & (rows < len(x))
    return 2*np.where(inside[:, None], x[np.clip(rows, 0, len(x) - 1)], 0)


def box(extents: Sequence[int]) -> lk.LoopKernel:
    """A copy of the first elements of an array through a box in shared memory."""
    names = [f"i{k}" for k in range(len(extents))]
    index, own = ", ".join(names), ", ".join(f"j{k}" for k in range(len(extents)))
    knl = lk.make_kernel(f"""{{[{index}, {own}]: {' and '.join(
        f'0<={x}<{n}' for both in (names, own.split(', ')) for x, n in zip(both, extents, strict=True))}}}""", f"""
        <> t[{index}] = x[{index}]  {{id=copy}}
        y[{own}] = 2*t[{own}]  {{id=use, dep=copy}}
        """, [lk.GlobalArg("x", np.float32, tuple(n + 4 for n in extents)), "..."], name="boxes")
    knl = lk.tag_inames(knl, f"j{len(extents) - 1}:l.0")
    return lk.tensorize(knl, "copy", "tma.load", names)


def stored_box(extents: Sequence[int]) -> lk.LoopKernel:
    """Twice an array, through boxes of these extents that TMA stores; the last ones lie partly outside."""
    axes = range(len(extents))
    knl = lk.make_kernel(f"{{[{', '.join(f'i{k}' for k in axes)}]: {' and '.join(f'0<=i{k}<n{k}' for k in axes)}}}",
                         "y[{0}] = 2*x[{0}]".format(", ".join(f"i{k}" for k in axes)), name="boxes")
    knl = lk.add_dtypes(knl, {"x": np.float32})
    for k, extent in enumerate(extents):
        knl = lk.split_iname(knl, f"i{k}", extent, outer_tag="g.0", inner_iname=f"b{k}",
                             inner_tag="l.0" if k == len(extents) - 1 else None)
    knl = lk.prioritize_loops(knl, [f"i{k}_outer" for k in axes] + [f"b{k}" for k in axes])
    return lk.store_via(knl, "y", [f"b{k}" for k in axes], temporary_name="tile")


@shared
def product(stages: int, *, b_transposed: bool, swizzled: bool = True) -> lk.LoopKernel:
    """The product of two matrices of bfloat16, by 64x64 elements a block, from tiles that TMA copies."""
    across = "j, k" if b_transposed else "k, j"
    knl = lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<l}", f"""
        a_rows(row, column) := a[row, column]
        b_rows(row, column) := b[row, column]
        c[i, j] = sum(k, a_rows(i, k)*b_rows({across}))  {{id=insn}}
        """, name="matmul")
    knl = lk.pad_domain(lk.add_dtypes(knl, {"a,b,c": "bfloat16"}), dict.fromkeys("ijk", 64))
    for x, size, axis in (("i", 16, 1), ("j", 8, 0)):
        levels = {f"{x}_block": None, f"{x}_warp": 2, f"{x}_reg": 32 // size, f"{x}_box": size}
        knl = lk.split_levels(knl, x, levels, tags={f"{x}_block": f"g.{axis}", f"{x}_warp": "l.0", f"{x}_reg": "unr"})
    knl = lk.split_levels(knl, "k", {"k_outer": None, "k_step": 4, "k_box": 16}, tags={"k_step": "unr"})
    knl = lk.prioritize_loops(
        knl, "i_block, j_block, i_warp, j_warp, k_outer, k_step, i_reg, j_reg, i_box, j_box")
    tiles = {"a": (["i_warp", "i_reg", "i_box"], ["a_i", "a_k"]),
             "b": (["j_warp", "j_reg", "j_box"], ["b_j", "b_k"] if b_transposed else ["b_k", "b_j"])}
    for x, (sweep, inames) in tiles.items():
        knl = lk.precompute(knl, f"{x}_rows", [*sweep, "k_step", "k_box"], temporary_name=f"{x}_tile",
                            precompute_inames=inames, default_tag=None, dtype="bfloat16")
        knl = lk.tensorize(knl, f"{x}_tile_rule", "tma.load")
    knl = lk.set_accumulator_dtype(knl, "float32")
    for x, (sweep, _) in tiles.items():
        knl = lk.add_prefetch(knl, f"{x}_tile", [*sweep[1:], "k_box"], temporary_name=f"{x}_fragment",
                              default_tag=None, temporary_address_space="warp")
    knl = lk.tensorize(knl, "insn", "mma.m16n8k16.f32.bf16")
    knl = lk.tensorize(knl, "a_fragment_rule", "ldmatrix.x4")
    knl = lk.tensorize(knl, "b_fragment_rule", "ldmatrix.x4" if b_transposed else "ldmatrix.x4.trans")
    if swizzled:
        knl = lk.swizzle(knl, "a_tile, b_tile", chunk=8)
    return lk.pipeline(knl, "k_outer", stages) if stages > 1 else knl


@shared
def doubled(cells: int) -> lk.LoopKernel:
    """Twice a matrix, 8 rows at a time in one block, which TMA stores from a tile; *cells*: tiles held at once."""
    cell = f"t % {cells}" if cells > 1 else "0"
    knl = lk.make_kernel(
        ["{[t, i, j]: 0<=i<8 and 0<=8*t + i<n and 0<=j<32 and j<m}",
         "{[p, q]: 0<=p<8 and 0<=8*t + p<n and 0<=q<32 and q<m}"], f"""
        for t
            tile[{cell}, i, j] = 2*x[8*t + i, j]  {{id=fill}}
            y[8*t + p, q] = tile[{cell}, p, q]  {{id=store, dep=fill}}
        end
        """, [lk.TemporaryVariable("tile", np.float32, (cells, 8, 32), address_space="shared"), "..."],
        name="doubled", assumptions="m <= 32 and n >= 1 and m >= 1")
    knl = lk.tag_inames(lk.add_dtypes(knl, {"x": np.float32}), "j:l.0")
    return lk.tensorize(knl, "store", "tma.store", "p, q")


@shared
def split_sums(dtype: str = "float32", *, atomic: bool = True, operation: str = "+") -> lk.LoopKernel:
    """The sums of the rows of slices, each by a block of its own, which TMA adds to a matrix."""
    knl = lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<l}", f"""
        for k, i, j
            c[i, j] = c[i, j] {operation} a[k, i, j]  {{id=add{', atomic' if atomic else ''}}}
        end
        """, [lk.GlobalArg("c", dtype, "n, m"), lk.GlobalArg("a", dtype, "l, n, m"), "..."], name="split_sums")
    knl = lk.split_iname(knl, "k", 2, outer_tag="g.2" if atomic else None, inner_iname="k_box")
    knl = lk.split_iname(knl, "i", 8, outer_tag="g.1", inner_iname="i_box")
    knl = lk.split_iname(knl, "j", 32, outer_tag="g.0", inner_iname="j_box", inner_tag="l.0")
    knl = lk.prioritize_loops(knl, "k_outer, i_outer, j_outer, k_box, i_box, j_box")
    return lk.buffer_array(knl, "c", "k_box, i_box, j_box", temporary_name="tile", default_tag=None)


@shared
def summed(dtype: str = "float32") -> lk.LoopKernel:
    """The same by TMA."""
    knl = lk.tensorize(split_sums(dtype), "store_c", "tma.add")
    return lk.tag_inames(knl, "c_init_0:l.auto, c_init_1:l.auto")
