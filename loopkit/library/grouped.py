"""Grouped products by the warpgroups of Hopper: the rows of each group have a matrix of their own."""
from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pymbolic.primitives as p

import loopkit as lk
from loopkit.kernel.annotations import checked
from loopkit.library.defaults import items_a_thread, known_dtype, measured
from loopkit.library.matrix_units import ROW, UNITS
from loopkit.library.tiles import rows_of_tiles, table_of_tiles
from loopkit.library.warpgroups import ROWS, STEP, parts_of_result, require_tile, stages_of_strips, strip


@checked
def grouped_matmul(dtype: npt.DTypeLike = "bfloat16", *, b_transposed: bool = False,
                   tile: tuple[int, int] | None = None, stages: int | None = None) -> lk.LoopKernel:
    """A kernel for ``c[r, j] = sum(k, a[r, k]*b[e, k, j])`` in the rows ``ends[e - 1] <= r < ends[e]`` of a group.

    These are the products of a mixture of experts: rows of *a* are sorted by expert, and each expert ``e`` has its own
    matrix ``b[e]``. The array ``ends[experts]`` of int32 does not decrease from 0 to at most *n*, and groups may be
    empty. Rows of *c* behind the last group stay as they are.

    A first launch computes a table of tiles: the group of each tile, its first row, and the end of its group. It has as
    many tiles as any groups of so many rows need. A block of the second launch takes a tile from the table. Its loop
    over *k* has no iterations if there is no such tile. A warp of its own lets TMA copy strips of the factors.
    Neighbouring threads store vectors of the rows, up to the end of the tile's group. The kernel is for GPUs of
    ``CudaTarget("sm_90a")``, and rows of all arrays begin at multiples of 16 bytes.

    :arg dtype: bfloat16 or float16, of all arrays; sums are in float32.
    :arg b_transposed: *b* is stored as ``b[e, j, k]``.
    :arg tile: the rows and columns of a tile, multiples of 64, at most 256.
    :arg stages: the strips of each factor in shared memory, two or more.
    :raises PreconditionError: an argument cannot have such a value.

    >>> knl = lk.library.grouped_matmul()
    >>> print(*knl.argument_by_name["b"].shape)
    experts l m
    """
    known = known_dtype(dtype)
    if known.name not in ("bfloat16", "float16"):
        raise lk.PreconditionError(f"The arrays of a grouped product are bfloat16 or float16, and not {known}.",
                                   subject="dtype", hint="dtype='bfloat16'")
    (rows, columns), = measured("warpgroups", tile=tile)
    require_tile(rows, columns)
    stages = stages_of_strips(rows, columns, known.itemsize, stages)
    knl = _kernel(known, rows, columns, b_transposed=b_transposed)
    knl = lk.split_levels(knl, "k", {"k_outer": None, "k_step": ROW // STEP, "k_box": STEP // known.itemsize},
                          tags={"k_step": "unr"})
    knl = lk.prioritize_loops(knl, "t, w, i_warpgroup, k_outer, k_step, i_box, j_box")
    # a block has a tile, and a warpgroup 64 of its rows; neighbouring threads store vectors of a row
    knl = lk.tag_inames(knl, {"t": "g.1", "w": "g.0", "i_warpgroup": "l.0", "part": "unr", "y_inner": "l.auto",
                              "v": "l.auto", "v_item": "vec"},
                        assume="tiles have rows of their own if ends does not decrease")
    # one thread lets TMA copy the strips, whose rows of 128 bytes are swizzled as the matrix units read them
    knl = strip(knl, "a", ["i_warpgroup", "i_box", "k_step", "k_box"], ["a_i", "a_k"])
    knl = strip(knl, "b", ["j_box", "k_step", "k_box"], ["b_j", "b_k"] if b_transposed else ["b_k", "b_j"])
    knl = lk.set_accumulator_dtype(knl, np.float32, within="id:insn")
    knl = lk.tensorize(knl, "insn", UNITS[known.name].of_warpgroup(columns))
    knl = parts_of_result(knl, "c", "j_box", known, "shared")
    # a warp of its own copies strips as soon as there is room
    knl = lk.pipeline(knl, "k_outer", stages, temporaries=["a_tile", "b_tile"], ahead=0)
    knl = lk.specialize_warps(knl, ["a_tile_rule", "b_tile_rule"])
    return lk.split_iname(knl, "z", 128, outer_tag="g.0", inner_tag="l.0")


def _kernel(dtype: np.dtype, rows: int, columns: int, *, b_transposed: bool) -> lk.LoopKernel:
    """The table of tiles of so many *rows*, and the products of each tile with each strip of *columns*."""
    length = ROW // dtype.itemsize
    b, inside = ("j, k", "j < m and k < l") if b_transposed else ("k, j", "k < l and j < m")
    items, own, row = items_a_thread(dtype), f"{ROWS}*i_warpgroup + i_box", "32*y + y_inner"
    stored = f"{columns}*w + {length}*part + {items}*v + v_item"
    n, m, steps, experts = map(p.Variable, ("n", "m", "l", "experts"))
    domain, table = table_of_tiles(rows, "experts", "if(x > 0, ends[x - 1], 0)", "ends[x]", "x")
    return lk.make_kernel([
        domain, f"{{[t, w, i_warpgroup, i_box, j_box]: {rows_of_tiles('t', rows, 'experts')} and 0<=w and "
        f"{columns}*w<m and 0<=i_warpgroup<{rows // ROWS} and 0<=i_box<{ROWS} and 0<=j_box<{columns}}}",
        f"[steps] -> {{[k]: 0<=k<{length}*steps}}",
        f"{{[part, y, y_inner, v, v_item]: 0<=part<{columns // length} and 0<=y<{rows // 32} and 0<=y_inner<32 and "
        f"0<=v<{length // items} and 0<=v_item<{items}}}"], f"""
a_rows(row, k) := a[top + row, k] if top + row < n and k < l else 0
b_rows({b}) := b[e, {b}] if {inside} else 0
{table}
for t, w
    <> e = tile_own[t]
    <> top = tile_first[t]
    <> bottom = tile_stop[t]
    <> steps = if(top < bottom, (l + {length - 1}) // {length}, 0)
    for i_warpgroup, i_box, j_box
        <> total = sum(k, a_rows({own}, k)*b_rows({b.replace("j", f"{columns}*w + j_box")}))  {{id=insn}}
        <{dtype.name}> c_tile[j_box // {length}, {own}, j_box % {length}] = cast({dtype.name}, total)  {{id=result}}
    end
    for part, y, y_inner, v, v_item
        c[top + {row}, {stored}] = c_tile[part, {row}, {items}*v + v_item] \
            {{id=store, if=top + {row} < bottom and {stored} < m}}
    end
end
""", [lk.GlobalArg("a", dtype, shape=(n, steps)), lk.GlobalArg("b", dtype, shape=(experts, m, steps) if b_transposed
                                                         else (experts, steps, m)),
      lk.GlobalArg("ends", np.dtype(np.int32), shape=(experts,)), lk.GlobalArg("c", dtype, shape=(n, m)), "..."],
        name="grouped_matmul", assumptions="n, m, l, experts >= 1")
