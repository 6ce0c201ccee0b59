"""Kernels whose lanes store small matrices from their registers to a tile in shared memory."""
from __future__ import annotations

import numpy as np

import loopkit as lk
from loopkit.expr.kinds import named_dtype

ROWS = 16


def columns(dtype: str) -> int:
    """The columns of two matrices: 4 words of each row."""
    return 2*4*max(4 // named_dtype(dtype).itemsize, 1)


def stored(name: str, dtype: str = "bfloat16", *, swizzled: bool = False, reads_own: bool = False) -> lk.LoopKernel:
    """Twice a matrix of 16 rows, through a tile that the instruction *name* fills, transposed if it does so.

    :arg reads_own: each lane reads the elements of the tile that it has itself.
    """
    width, items = columns(dtype), max(4 // named_dtype(dtype).itemsize, 1)
    tile, turned = ("t[j, i]", True) if name.endswith(".trans") else ("t[i, j]", False)
    used = "" if reads_own else f"y[p, q] = {tile.replace('i', 'p').replace('j', 'q')}"
    own = f"y[i, j] = {tile}" if reads_own else ""
    knl = lk.make_kernel(f"{{[i, j, p, q]: 0<=i,p<{ROWS} and 0<=j,q<{width}}}", f"""
        <> v[i, j] = 2*x[i, j]  {{id=compute}}
        {tile} = v[i, j]  {{id=copy}}
        {own or used}  {{id=use}}
        """, [lk.TemporaryVariable("t", named_dtype(dtype), (width, ROWS) if turned else (ROWS, width),
                                   address_space="shared"),
              lk.GlobalArg("x,y", named_dtype(dtype), (ROWS, width))], name="stored")
    knl = lk.split_levels(knl, "i", {"i_part": None, "i_lane": 8}, tags={"i_lane": "l.0", "i_part": "unr"})
    levels = {"j_box": None, "j_lane": 4, "j_item": items} if items > 1 else {"j_box": None, "j_lane": 4}
    knl = lk.split_levels(knl, "j", levels, tags={**dict.fromkeys(levels, "unr"), "j_lane": "l.0"})
    knl = lk.prioritize_loops(knl, ["i_lane", "j_lane", "i_part", *(x for x in levels if x != "j_lane")])
    knl = knl if reads_own else lk.tag_inames(knl, "q:l.0")
    knl = lk.tensorize(knl, "copy", name)
    return lk.swizzle(knl, "t", chunk=16 // named_dtype(dtype).itemsize) if swizzled else knl


def data(dtype: str) -> np.ndarray:
    return np.random.default_rng(0).integers(-9, 10, (ROWS, columns(dtype))).astype(named_dtype(dtype))


def product(*, swizzle: int = 64, edges: bool = False) -> lk.LoopKernel:
    """A product by ``mma``: sums become bfloat16, lanes store them to a swizzled tile, and TMA stores the tile.

    :arg edges: any number of rows and columns.
    """
    rows, width = 16, swizzle // 2
    knl = lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<16}", """
        a_rows(row, column) := a[row, column]
        b_rows(row, column) := b[row, column]
        <> total = sum(k, a_rows(i, k)*b_rows(k, j))  {id=insn}
        <bfloat16> value = cast(bfloat16, total)  {id=value}
        c[i, j] = value  {id=result}
        """, name="product", assumptions="n >= 1 and m >= 1" + (
            "" if edges else f" and n % {rows} = 0 and m % {width} = 0"))
    knl = lk.add_dtypes(knl, {"a,b,c": "bfloat16"})
    knl = lk.pad_domain(knl, {"i": rows, "j": width}) if edges else knl
    knl = lk.split_levels(knl, "i", {"i_block": None, "i_box": rows}, tags={"i_block": "g.1"})
    knl = lk.split_levels(knl, "j", {"j_block": None, "j_reg": width // 8, "j_box": 8},
                          tags={"j_block": "g.0", "j_reg": "unr"})
    knl = lk.prioritize_loops(knl, "i_block, j_block, j_reg, i_box, j_box")
    for x, sweep in (("a", "i_box, k"), ("b", "k, j_reg, j_box")):
        knl = lk.precompute(knl, f"{x}_rows", sweep, temporary_name=f"{x}_tile", dtype="bfloat16")
    knl = lk.tensorize(lk.set_accumulator_dtype(knl, np.float32), "insn", "mma.m16n8k16.f32.bf16")
    knl = lk.privatize(knl, "j_reg", only_var_names="total")
    knl = lk.duplicate_inames(knl, "j_reg", within="id:value or id:result", new_inames="j_part", tags={"j_reg": "unr"})
    knl = lk.store_via(knl, "c", "i_box_part, i_box_lane, j_part, j_box_lane, j_box_item", temporary_name="c_tile",
                       swizzle=swizzle)
    if edges:           # TMA stores what is inside of the array
        knl = lk.pad_domain(knl, {"i_box_part": 2, "i_box_lane": 8, "j_part": width // 8, "j_box_lane": 4,
                                  "j_box_item": 2}, within="result")
    return lk.tensorize(knl, "result", "stmatrix.x4")
