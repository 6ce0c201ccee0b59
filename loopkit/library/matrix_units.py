"""Matrix products by the matrix units of a GPU, with the instructions of sm_80: mma.sync, ldmatrix and cp.async."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import loopkit as lk
from loopkit.library.defaults import items_a_thread, known_dtype, measured
from loopkit.transform.step import require_positive

#: Bytes of a strip's row: its 16-byte pieces, swizzled over 8 rows, then lie in different banks.
ROW = 128


@dataclass(frozen=True)
class MatrixUnit:
    """The instruction for factors of one dtype.

    :ivar shape: the rows, the columns and the steps of its product; *sums*: the dtype of its sums.
    :ivar result: the dtype of a product's elements, if the user names no other.
    """

    instruction: str
    shape: tuple[int, int, int]
    sums: str
    result: str

    def of_warpgroup(self, columns: int) -> str:
        """The instruction of a warpgroup for so many columns."""
        return f"wgmma.m64n{columns}k{self.shape[2]}.{self.instruction.split('.', 2)[2]}"


#: The instructions by the dtype of the factors; float32 factors are rounded to tf32.
UNITS = {dtype: MatrixUnit(f"mma.m16n8k{k}.{ptx}", (16, 8, k), sums, result) for dtype, k, ptx, sums, result in (
    ("float16", 16, "f32.f16", "float32", "float16"), ("bfloat16", 16, "f32.bf16", "float32", "bfloat16"),
    ("float32", 8, "f32.tf32", "float32", "float32"), ("float8_e4m3fn", 32, "f32.e4m3", "float32", "float32"),
    ("float8_e5m2", 32, "f32.e5m2", "float32", "float32"), ("int8", 32, "s32.s8", "int32", "int32"),
    ("uint8", 32, "s32.u8", "int32", "int32"))}


def product_by_matrix_units(dtype: np.dtype, result: npt.DTypeLike | None, tile: tuple[int, int, int] | None,
                            warp: tuple[int, int] | None, stages: int | None, group: int | None, *, b_transposed: bool
                            ) -> lk.LoopKernel:
    """``c[i, j] = sum(k, a[i, k]*b[k, j])``, or with *b_transposed* ``b[j, k]``, as :func:`~loopkit.library.matmul`."""
    unit = UNITS[dtype.name]
    default, warp, stages, group = measured("matrix_units", tile=None, warp=warp, stages=stages, group=group)
    tile = tile or (*default[:2], default[2] // dtype.itemsize)
    _require_shares(tile, warp, unit, dtype)
    across = "j, k" if b_transposed else "k, j"
    knl = lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<l}", f"""
        a_rows(row, column) := a[row, column]
        b_rows(row, column) := b[row, column]
        c[i, j] = sum(k, a_rows(i, k)*b_rows({across}))  {{id=insn}}
        """, name="matmul")
    knl = lk.add_dtypes(knl, {"a,b": dtype, "c": unit.result if result is None else known_dtype(result)})
    # partial tiles compute with zeros beyond the edge, so that all lanes take part
    knl = lk.pad_domain(knl, dict(zip("ijk", tile, strict=True)))
    knl = _in_boxes(knl, tile, warp, group, unit)
    # a strip of each factor in shared memory, copied asynchronously, 16 bytes at a time
    strips = {"a": (["i_warp", "i_reg", "i_box"], ["a_i", "a_k"]),
              "b": (["j_warp", "j_reg", "j_box"], ["b_j", "b_k"] if b_transposed else ["b_k", "b_j"])}
    for x, (sweep, inames) in strips.items():
        knl = lk.precompute(knl, f"{x}_rows", [*sweep, "k_step", "k_box"], temporary_name=f"{x}_tile",
                            precompute_inames=inames, engine="cp.async", dtype=dtype)
    # products are exact in the dtype of the sums
    knl = lk.set_operand_precision(knl, "tf32") if dtype == np.float32 else lk.set_accumulator_dtype(knl, unit.sums)
    # the layout of the instruction distributes sums and fragments over the lanes of a warp
    for x, (sweep, _) in strips.items():
        knl = lk.add_prefetch(knl, f"{x}_tile", [*sweep[1:], "k_box"], temporary_name=f"{x}_fragment", default_tag=None,
                              temporary_address_space="warp")
    knl = lk.tensorize(knl, "insn", unit.instruction)
    knl = lk.tensorize(knl, "a_fragment_rule", "ldmatrix.x4")
    if b_transposed or dtype.itemsize == 2:
        knl = lk.tensorize(knl, "b_fragment_rule", "ldmatrix.x4" if b_transposed else "ldmatrix.x4.trans")
    # neighbouring rows of a column lie in different banks
    knl = lk.swizzle(knl, "a_tile, b_tile", chunk=items_a_thread(dtype))
    # copies of later strips run while the warps multiply; the last iterations start none, or one of a partial strip
    knl = lk.pipeline(knl, "k_outer", stages, temporaries=["a_tile", "b_tile"])
    return lk.peel(knl, "k_outer", last=stages)


def _in_boxes(knl: lk.LoopKernel, tile: tuple[int, int, int], warp: tuple[int, int], group: int, unit: MatrixUnit
              ) -> lk.LoopKernel:
    """Tiles for blocks, parts of them for warps, and boxes of the instruction; blocks run column by column in groups of
    rows."""
    (rows, columns, steps), (m, n, k) = tile, unit.shape
    levels = {"i_group": None, "i_block": group, "i_warp": rows // warp[0], "i_reg": warp[0] // m, "i_box": m}
    knl = lk.split_levels(knl, "i", levels,
                          tags={"i_group": "g.1", "i_block": "g.0", "i_warp": "l.0", "i_reg": "unr"})
    levels = {"j_block": None, "j_warp": columns // warp[1], "j_reg": warp[1] // n, "j_box": n}
    knl = lk.split_levels(knl, "j", levels, tags={"j_block": "g.0", "j_warp": "l.0", "j_reg": "unr"})
    knl = lk.split_levels(knl, "k", {"k_outer": None, "k_step": steps // k, "k_box": k}, tags={"k_step": "unr"})
    return lk.prioritize_loops(
        knl, "i_group, j_block, i_block, i_warp, j_warp, k_outer, k_step, i_reg, j_reg, i_box, j_box")


def _require_shares(tile: tuple[int, int, int], warp: tuple[int, int], unit: MatrixUnit, dtype: np.dtype) -> None:
    """:raises PreconditionError: the parts of a product do not divide it."""
    shares = [("rows", tile[0], warp[0]), ("columns", tile[1], warp[1]), ("rows of a warp", warp[0], unit.shape[0]),
              ("columns of a warp", warp[1], 2*unit.shape[1]), ("bytes of a strip", tile[2]*dtype.itemsize, ROW)]
    for what, length, part in shares:
        if require_positive(length, what) % require_positive(part, what):
            raise lk.PreconditionError(f"{length} {what} are not a multiple of {part}.", subject=what,
                                       hint=f"use a multiple of {part}")
