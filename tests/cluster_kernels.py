"""Kernels whose blocks share copies in clusters."""
from __future__ import annotations

import numpy as np

import loopkit as lk


def rows(blocks: int = 2, *, whole: bool = True, producer: bool = True, persistent: int = 0,
         height: int = 64, width: int = 32, by_tma: bool = False) -> lk.LoopKernel:
    """Products of the rows of a matrix with *height* others, a row for each thread; *of_cluster* is the fastest iname.

    :arg whole: the grid has whole clusters; *producer*: one thread copies the tiles; *width*: their columns.
    :arg by_tma: TMA stores the result.
    """
    knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<l}", f"""
        a_rows(row, column) := a[row, column]
        b_rows(row, column) := b[row, column]
        s[i] = sum(k, a_rows(i, k)*b_rows(i % {height}, k))
        """, [lk.GlobalArg("b", np.dtype(np.float32), f"{height}, l"), "..."], name="rows")
    knl = lk.pad_domain(lk.add_dtypes(knl, {"a": "float32"}), {"i": height*(blocks if whole else 1), "k": width})
    knl = lk.split_levels(knl, "i", {"cluster": None, "of_cluster": blocks, "i_inner": height},
                          tags={"cluster": "g.0", "of_cluster": "g.0", "i_inner": "l.0"})
    knl = lk.split_iname(knl, "k", width)
    for x in "ab":
        knl = lk.precompute(knl, f"{x}_rows", ["i_inner", "k_inner"], temporary_name=f"{x}_tile", dtype="float32",
                            precompute_inames=[f"{x}_i", f"{x}_k"], engine="tma")
    knl = lk.pipeline(lk.simplify_indices(knl), "k_outer", 2, temporaries=["a_tile", "b_tile"], ahead=0)
    if by_tma:
        knl = lk.buffer_array(knl, "s", ["i_inner"], temporary_name="s_tile", default_tag=None)
        knl = lk.tensorize(knl, "store_s", "tma.store")
    if producer:
        knl = lk.specialize_warps(knl, ["a_tile_rule", "b_tile_rule"])
    return lk.set_options(knl, persistent=persistent) if persistent else knl


def squares(start: str = "32*t", condition: str = "", bound: str = "m", others: int = 0) -> lk.LoopKernel:
    """The squares of the elements of tiles of *x*, for blocks *b* in pairs *c*.

    :arg start: the first row of a tile; *condition*: of its elements that are not 0; *bound*: the number of tiles.
    :arg others: the blocks, for each *c*, that another statement needs; 0: there is none.
    """
    knl = lk.make_kernel(
        ["{[c, b]: 0<=c<n and 0<=b<2}", f"{{[t]: 0<=t<{bound}}}", "{[r, k, i]: 0<=r,k,i<32}"], f"""
        for c, b
            <> top = tops[c, b]
            for t
                for r, k
                    <> tile[r, k] = x[{start} + r, k]{condition}  {{id=copy}}
                end
                for i
                    <> v = tile[0, i]  {{id=load}}
                    y[c, b, t, i] = v*v  {{id=square}}
                end
            end
        end
        """, [lk.GlobalArg("x", np.float32, "rows, 32"), lk.GlobalArg("tops", np.int32, "n, 2"),
              lk.GlobalArg("y", np.float32, "n, 2, most, 32"), lk.ValueArg("last", np.int32), "..."], name="squares",
        assumptions="n >= 1 and rows >= 32 and most >= 1")
    if others:
        more = lk.make_kernel(f"{{[d, e]: 0<=d<{others}*n and 0<=e<32}}", "z[d, e] = 0", [
            lk.GlobalArg("z", np.float32, f"{others}*n, 32"), "..."], name="more")
        knl = lk.tag_inames(lk.fuse_kernels([more, knl]), "d:g.0, e:l.0")
    knl = lk.tag_inames(knl, "c:g.0, b:g.0, i:l.0")
    return lk.specialize_warps(lk.tensorize(knl, "copy", "tma.load", "r, k"), "copy")


def product(blocks: int = 2, store: str = "tma", persistent: int = 0, rows: int = 64) -> lk.LoopKernel:
    """A product by warpgroups of bfloat16 matrices; blocks of a cluster share the strips of the second one."""
    knl = lk.library.matmul("bfloat16", wgmma=True, tile=(rows, 64, 64), group=blocks, store=store)
    knl = lk.set_options(knl, persistent=persistent)
    return lk.cluster(lk.assume(knl, f"n % {rows*blocks} = 0"), "i_block", blocks)
