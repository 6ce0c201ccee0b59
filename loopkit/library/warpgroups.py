"""Matrix products by the warpgroups of Hopper: wgmma multiplies tiles in shared memory, which TMA copies."""
from __future__ import annotations

import numpy as np
import numpy.typing as npt

import loopkit as lk
from loopkit.library.defaults import known_dtype, measured
from loopkit.library.matrix_units import ROW, UNITS
from loopkit.transform.step import require_positive

#: Rows of a product by a warpgroup; bytes of a step's elements; most columns.
ROWS, STEP, COLUMNS = 64, 32, 256


def product_by_warpgroups(dtype: np.dtype, result: npt.DTypeLike | None, tile: tuple[int, int] | None,
                          stages: int | None, group: int | None, *, b_transposed: bool) -> lk.LoopKernel:
    """``c[i, j] = sum(k, a[i, k]*b[k, j])``, or with *b_transposed* ``b[j, k]``, as :func:`~loopkit.library.matmul`."""
    unit, size = UNITS[dtype.name], dtype.itemsize
    if not b_transposed and size != 2:
        raise lk.PreconditionError(f"wgmma multiplies factors of {dtype} that are stored along the sums only.",
                                   subject="b_transposed", hint="store b as b[j, k], with b_transposed=True")
    tile, stages, group = measured("warpgroups", tile=tile, stages=stages, group=group)
    rows, columns = tile
    _require_tile(rows, columns)
    steps, numbers = ROW // size, unit.instruction.split(".", 2)[2]
    across = "j, k" if b_transposed else "k, j"
    knl = lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<l}", f"""
        a_rows(row, column) := a[row, column]
        b_rows(row, column) := b[row, column]
        c[i, j] = sum(k, a_rows(i, k)*b_rows({across}))  {{id=insn}}
        """, name="matmul")
    knl = lk.add_dtypes(knl, {"a,b": dtype, "c": unit.result if result is None else known_dtype(result)})
    # tiles are whole: TMA fills them with zeros beyond the edges
    knl = lk.pad_domain(knl, {"i": rows, "j": columns, "k": steps})
    # a block has a tile, and a warpgroup 64 of its rows; blocks run column by column in groups of rows
    knl = lk.split_levels(knl, "i", {"i_group": None, "i_block": group, "i_warpgroup": rows // ROWS, "i_box": ROWS},
                          tags={"i_group": "g.1", "i_block": "g.0", "i_warpgroup": "l.0"})
    knl = lk.split_levels(knl, "j", {"j_block": None, "j_box": columns}, tags={"j_block": "g.0"})
    knl = lk.split_levels(knl, "k", {"k_outer": None, "k_step": ROW // STEP, "k_box": STEP // size},
                          tags={"k_step": "unr"})
    knl = lk.prioritize_loops(knl, "i_group, j_block, i_block, i_warpgroup, k_outer, k_step, i_box, j_box")
    # one thread lets TMA copy the strips, whose rows of 128 bytes are swizzled as the matrix units read them
    knl = _strip(knl, "a", ["i_warpgroup", "i_box"], ["a_i", "a_k"], dtype)
    knl = _strip(knl, "b", ["j_box"], ["b_j", "b_k"] if b_transposed else ["b_k", "b_j"], dtype)
    # products are exact in the dtype of the sums, and a warpgroup computes them at once
    knl = lk.set_operand_precision(knl, "tf32") if dtype == np.float32 else lk.set_accumulator_dtype(knl, unit.sums)
    knl = lk.tensorize(knl, "insn", f"wgmma.m64n{columns}k{STEP // size}.{numbers}")
    # strips arrive while the warpgroups multiply; the products of one strip run on while the next ones start
    return lk.pipeline(knl, "k_outer", stages, temporaries=["a_tile", "b_tile"], ahead=max(stages - 2, 1))


def _strip(knl: lk.LoopKernel, x: str, sweep: list[str], inames: list[str], dtype: np.dtype) -> lk.LoopKernel:
    """A strip of a factor in shared memory, in boxes of rows of 128 bytes."""
    tile, width, across = f"{x}_tile", ROW // dtype.itemsize, inames[1].endswith("j")
    knl = lk.precompute(knl, f"{x}_rows", [*sweep, "k_step", "k_box"], temporary_name=tile, precompute_inames=inames,
                        default_tag=None, dtype=dtype)
    if across:
        # wide rows are several boxes, one after another
        knl = lk.split_iname(knl, inames[1], width, outer_iname=f"{x}_part", inner_iname=f"{x}_item")
        knl = lk.prioritize_loops(knl, [f"{x}_part", inames[0], f"{x}_item"])
        knl = lk.tag_array_axes(lk.split_array_axis(knl, tile, 1, width), tile, "N1,N2,N0")
        inames = [inames[0], f"{x}_item"]
    knl = lk.tensorize(knl, f"{tile}_rule", "tma.load", inames)
    return lk.swizzle(knl, tile, chunk=16 // dtype.itemsize)


def _require_tile(rows: int, columns: int) -> None:
    """:raises PreconditionError: warpgroups cannot compute a tile of these extents."""
    for what, length, part, most in (("rows", rows, ROWS, 256), ("columns", columns, 64, COLUMNS)):
        if require_positive(length, what) % part or length > most:
            raise lk.PreconditionError(f"A tile of warpgroups has a multiple of {part} {what}, at most {most}, and not "
                                       f"{length}.", subject=what, hint=f"use {part} or {most}")
