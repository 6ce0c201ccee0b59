"""Small products by the instructions of a warpgroup, with tiles of both factors in shared memory."""
from __future__ import annotations

import numpy as np

import loopkit as lk
from loopkit.expr.kinds import named_dtype
from loopkit.instructions.wgmma import WGMMA
from tests.deep import shared

#: Warpgroups of a block, each with the rows of a box.
WARPGROUPS = 2

#: Blocks along the rows and along the columns, and tiles of steps.
BLOCKS = (1, 2, 4)


def sizes(name: str) -> tuple[int, int, int]:
    """The rows, the columns and the steps of the product for the instruction *name*."""
    wgmma = WGMMA[name]
    rows, columns, _ = wgmma.shape
    return BLOCKS[0]*WARPGROUPS*rows, BLOCKS[1]*columns, BLOCKS[2]*128 // wgmma.factor.size


def plain(name: str, left: str = "ik", right: str = "jk") -> lk.LoopKernel:
    """The product; *left*, *right*: the axes of the factors in memory."""
    n, m, length = sizes(name)
    wgmma = WGMMA[name]
    call = {"tf32": "tf32"}.get(wgmma.factor.ptx, "")
    factors = [f"{call}({x}_rows({', '.join(axes)}))" for x, axes in (("a", left), ("b", right))]
    knl = lk.make_kernel(f"{{[i, j, k]: 0<=i<{n} and 0<=j<{m} and 0<=k<{length}}}", f"""
        a_rows(row, column) := a[row, column]
        b_rows(row, column) := b[row, column]
        c[i, j] = sum(k, {factors[0]}*{factors[1]})  {{id=insn}}
        """, name="product")
    return lk.add_dtypes(knl, {"a,b": named_dtype(wgmma.factor.dtype), "c": np.dtype(wgmma.sum.dtype)})


@shared
def product(name: str, left: str = "ik", right: str = "jk", stages: int = 3, *, swizzled: bool = True,
            by_tma: int = 0) -> lk.LoopKernel:
    """The same by the instruction, in a pipeline of tiles, each of 128 bytes along the steps.

    :arg by_tma: TMA copies the tiles with a swizzle of these bytes; 0: the threads do, by ``cp.async`` if there are
        several stages.
    """
    wgmma = WGMMA[name]
    rows, columns, steps = wgmma.shape
    size = wgmma.factor.size
    knl = lk.split_levels(plain(name, left, right), "i", {"i_block": None, "i_group": WARPGROUPS, "i_box": rows},
                          tags={"i_block": "g.1", "i_group": "l.0"})
    knl = lk.split_levels(knl, "j", {"j_block": None, "j_box": columns}, tags={"j_block": "g.0"})
    knl = lk.split_levels(knl, "k", {"k_outer": None, "k_step": 128 // size // steps, "k_box": steps},
                          tags={"k_step": "unr"})
    knl = lk.prioritize_loops(knl, "i_block, j_block, i_group, k_outer, k_step, i_box, j_box")
    for x, axes, sweep in (("a", left, ["i_group", "i_box"]), ("b", right, ["j_box"])):
        extent, inames = columns if x == "b" else WARPGROUPS*rows, [f"{x}_{axis}" for axis in axes]
        knl = lk.precompute(knl, f"{x}_rows", [*sweep, "k_step", "k_box"], temporary_name=f"{x}_tile",
                            precompute_inames=inames, default_tag=None, dtype=knl.array_args[x].dtype)
        length = 128 // size if axes.endswith("k") else extent
        knl = lk.tensorize(knl, f"{x}_tile_rule", f"tma.load.swizzle{by_tma}") if by_tma else \
            _pieces(knl, x, inames, length, size, swizzled)
    if wgmma.factor.size < 4:
        knl = lk.set_accumulator_dtype(knl, np.dtype(wgmma.sum.dtype))
    knl = lk.tensorize(knl, "insn", name)
    if stages > 1:
        knl = lk.pipeline(knl, "k_outer", stages, temporaries=["a_tile", "b_tile"], asynchronous=not by_tma)
    return knl


@shared
def product_from_registers(name: str, right: str = "jk", stages: int = 3, *, whole: bool = False) -> lk.LoopKernel:
    """The same, with the left factor in the registers of the threads.

    :arg whole: all tiles of the right factor are there before the first product, so that no product waits for one.
    """
    wgmma = WGMMA[name]
    rows, columns, steps = wgmma.shape
    size = wgmma.factor.size
    knl = lk.split_levels(plain(name, "ik", right), "i", {"i_block": None, "i_group": WARPGROUPS, "i_box": rows},
                          tags={"i_block": "g.1", "i_group": "l.0"})
    knl = lk.split_levels(knl, "j", {"j_block": None, "j_box": columns}, tags={"j_block": "g.0"})
    knl = lk.split_levels(knl, "k", {"k_outer": None, "k_step": 128 // size // steps, "k_box": steps},
                          tags={"k_step": "unr"})
    knl = lk.prioritize_loops(knl, "i_block, j_block, i_group, k_outer, k_step, i_box, j_box")
    knl = lk.precompute(knl, "a_rows", ["i_box", "k_step", "k_box"], temporary_name="a_held", default_tag=None,
                        precompute_inames=["a_i", "a_k"], dtype=knl.array_args["a"].dtype,
                        temporary_address_space="warp")
    inames = [f"b_{axis}" for axis in right]
    knl = lk.precompute(knl, "b_rows", ["j_box", *(["k_outer"] if whole else []), "k_step", "k_box"],
                        temporary_name="b_tile", precompute_inames=inames, default_tag=None,
                        dtype=knl.array_args["b"].dtype)
    length = columns if right == "kj" else (BLOCKS[2] if whole else 1)*128 // size
    knl = _pieces(knl, "b", inames, length, size, swizzled=True)
    if size < 4:
        knl = lk.set_accumulator_dtype(knl, np.dtype(wgmma.sum.dtype))
    knl = lk.tensorize(knl, "insn", name)
    return knl if whole else lk.pipeline(knl, "k_outer", stages, temporaries=["b_tile"], asynchronous=True)


def _pieces(knl: lk.LoopKernel, x: str, inames: list[str], length: int, size: int, swizzled: bool) -> lk.LoopKernel:
    """The tile of a factor, copied in pieces of 16 bytes to boxes whose rows have 128 or 16 bytes."""
    tile, last, items = f"{x}_tile", inames[1], 16 // size
    width = min(128 // size, length) if swizzled else items
    levels = {f"{last}_group": None, f"{last}_piece": width // items, f"{last}_item": items}
    knl = lk.split_levels(knl, last, levels, tags={**dict.fromkeys(levels, "l.auto"), f"{last}_item": "vec"})
    knl = lk.tag_inames(knl, {inames[0]: "l.auto"})
    if length > width:
        knl = lk.tag_array_axes(lk.split_array_axis(knl, tile, 1, width), tile, "N1,N2,N0")
    return lk.swizzle(knl, tile, chunk=items) if swizzled else knl


def data(name: str, left: str = "ik", right: str = "jk", seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The factors and the product. Whole numbers, whose sums are exact; those for tf32 with bits that it ignores."""
    wgmma, rng = WGMMA[name], np.random.default_rng(seed)
    n, m, length = sizes(name)
    low = 0 if wgmma.factor.ptx == "u8" else -4
    a, b = rng.integers(low, 5, (n, length)), rng.integers(low, 5, (length, m))
    dtype, ignored = named_dtype(wgmma.factor.dtype), 1 + 2.0**-12 if wgmma.factor.through else 1
    given = {"a": a if left == "ik" else a.T, "b": b if right == "kj" else b.T}
    return {x: np.ascontiguousarray(y*ignored).astype(dtype) for x, y in given.items()}, \
        (a @ b).astype(wgmma.sum.dtype)


#: Rows, keys and features of a product of products, and the keys of a tile.
OF_PRODUCTS = (128, 256, 64, 64)

#: The dtype of its factors.
BF16 = named_dtype("bfloat16")


@shared
def product_of_products(stages: int = 3) -> lk.LoopKernel:
    """A product whose left factor is a function of another product, in the registers of the threads that compute it."""
    rows, keys, features, tile = OF_PRODUCTS
    knl = lk.make_kernel(f"{{[i, j, d, e]: 0<=i<{rows} and 0<=j<{keys} and 0<=d,e<{features}}}", """
        q_rows(row, column) := q[row, column]
        k_rows(row, column) := k[row, column]
        v_rows(row, column) := v[row, column]
        p(row, key) := cast(bfloat16, exp2(-min(fabs(sum(d, q_rows(row, d)*k_rows(key, d))), 16)))
        c[i, e] = sum(j, p(i, j)*v_rows(j, e))  {id=insn}
        """, name="product_of_products")
    knl = lk.add_dtypes(knl, {"q,k,v": BF16, "c": np.float32})
    knl = lk.split_levels(knl, "i", {"i_block": None, "i_group": WARPGROUPS, "i_box": 64},
                          tags={"i_block": "g.0", "i_group": "l.0"})
    knl = lk.split_levels(knl, "j", {"j_tile": None, "j_step": tile // 16, "j_box": 16}, tags={"j_step": "unr"})
    knl = lk.prioritize_loops(knl, "i_block, i_group, j_tile, j_step, i_box, e")
    knl = lk.precompute(knl, "p", ["i_box", "j_step", "j_box"], temporary_name="p_held", default_tag=None,
                        precompute_inames=["p_i", "p_j"], dtype=BF16, temporary_address_space="warp")
    knl = lk.split_levels(knl, "d", {"d_step": None, "d_box": 16}, tags={"d_step": "unr"})
    knl = lk.prioritize_loops(knl, "i_block, i_group, j_tile, d_step, p_i, p_j")
    for x, sweep, inames in (("q", ["i_group", "p_i", "d_step", "d_box"], ["q_i", "q_d"]),
                             ("k", ["p_j", "d_step", "d_box"], ["k_j", "k_d"]),
                             ("v", ["j_step", "j_box", "e"], ["v_j", "v_e"])):
        knl = lk.precompute(knl, f"{x}_rows", sweep, temporary_name=f"{x}_tile", precompute_inames=inames,
                            default_tag=None, dtype=BF16)
        knl = lk.tensorize(knl, f"{x}_tile_rule", "tma.load.swizzle128")
    knl = lk.set_accumulator_dtype(knl, np.float32)
    knl = lk.tensorize(knl, "p_held_rule", f"wgmma.m64n{tile}k16.f32.bf16")
    knl = lk.tensorize(knl, "insn", f"wgmma.m64n{features}k16.f32.bf16")
    return lk.pipeline(knl, "j_tile", stages, temporaries=["k_tile", "v_tile"], ahead=max(stages - 2, 1))


def data_of_products(seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The factors and the product. Powers of two, whose sums are exact."""
    rows, keys, features, _ = OF_PRODUCTS
    rng = np.random.default_rng(seed)
    given = {x: rng.integers(-1, 2, (n, features)).astype(BF16) for x, n in (("q", rows), ("k", keys), ("v", keys))}
    return given, result_of_products(given)


def result_of_products(given: dict[str, np.ndarray]) -> np.ndarray:
    """The product of these factors."""
    q, k, v = (given[x].astype(float) for x in "qkv")
    return (2.0**-np.minimum(np.abs(q @ k.T), 16) @ v).astype(np.float32)


#: The instruction, the axes of the factors, the stages of the pipeline and the layout of each product.
PRODUCTS = [
    *((f"wgmma.m64n{n}k16.f32.bf16", left, right, stages, True) for n, left, right, stages in (
        (128, "ik", "kj", 3), (256, "ik", "kj", 4), (128, "ik", "jk", 1), (8, "ik", "jk", 3), (64, "ki", "kj", 2),
        (192, "ki", "jk", 3))),
    *((f"wgmma.m64n{n}k16.f32.f16", left, right, 3, True) for n, left, right in (
        (128, "ik", "kj"), (256, "ki", "jk"))),
    *(("wgmma.m64n64k16.f32.bf16", left, right, 2, False) for left in ("ik", "ki") for right in ("jk", "kj")),
    *((f"wgmma.m64n{n}k{k}.{of}", "ik", "jk", 3, swizzled) for n, k, of in (
        (128, 8, "f32.tf32"), (128, 32, "f32.e4m3"), (24, 32, "f32.e5m2"), (128, 32, "s32.s8"), (80, 32, "s32.u8"))
      for swizzled in (True, False))]

#: Those whose tiles TMA copies: the instruction, the axes of the factors, the stages and the bytes of the swizzle.
BY_TMA = [("wgmma.m64n128k16.f32.bf16", "ik", "kj", 3, 128), ("wgmma.m64n64k16.f32.f16", "ki", "jk", 2, 128),
          ("wgmma.m64n256k32.f32.e4m3", "ik", "jk", 3, 128), ("wgmma.m64n128k8.f32.tf32", "ik", "jk", 4, 128),
          *(("wgmma.m64n64k16.f32.bf16", *axes, 2, swizzle) for swizzle in (32, 64)
            for axes in (("ik", "kj"), ("ki", "jk"))),
          ("wgmma.m64n64k8.f32.tf32", "ik", "jk", 2, 64), ("wgmma.m64n64k32.s32.s8", "ik", "jk", 2, 32)]

#: Those with the left factor in registers: the instruction, the axes of the right factor and the stages.
FROM_REGISTERS = [("wgmma.m64n64k16.f32.bf16", "kj", 3), ("wgmma.m64n8k16.f32.bf16", "jk", 2),
                  ("wgmma.m64n128k16.f32.f16", "jk", 3), ("wgmma.m64n256k16.f32.f16", "kj", 2),
                  *((f"wgmma.m64n{n}k{k}.{of}", "jk", 2) for n, k, of in (
                      (64, 8, "f32.tf32"), (64, 32, "f32.e4m3"), (24, 32, "f32.e5m2"), (16, 32, "s32.s8"),
                      (80, 32, "s32.u8")))]
