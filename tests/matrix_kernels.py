"""A small product for each matrix instruction: with factors in shared memory, in fragments, and loaded by ldmatrix."""
from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import loopkit as lk
from loopkit.expr.kinds import named_dtype
from loopkit.instructions.mma import MMA

#: The boxes of a product: of its rows, each for a warp of its own, its columns, and its steps.
BOXES = (2, 2, 2)

#: The loads of the left and of the right factor into the fragments of an instruction.
LOADS: Mapping[str, tuple[str, str]] = {
    **{f"mma.m16n8k8.f32.{of}": ("ldmatrix.x2", "ldmatrix.x1.trans") for of in ("f16", "bf16")},
    **{f"mma.m16n8k16.f32.{of}": ("ldmatrix.x4", "ldmatrix.x4.trans") for of in ("f16", "bf16")},
    **{f"mma.m16n8k32.{of}": ("ldmatrix.x4", "ldmatrix.x2") for of in ("f32.e4m3", "f32.e5m2", "s32.s8", "s32.u8")},
    **{f"mma.m16n8k16.s32.{of}": ("ldmatrix.x2", "ldmatrix.x1") for of in ("s8", "u8")},
    "mma.m16n8k4.f32.tf32": ("ldmatrix.x2", "ldmatrix.x1"), "mma.m16n8k8.f32.tf32": ("ldmatrix.x4", "ldmatrix.x2")}


def transposed(name: str) -> bool:
    """Are the rows of the right factor its columns in memory, as ldmatrix needs for elements of other than 2 bytes?"""
    return MMA[name].factor.size != 2


def plain(name: str) -> lk.LoopKernel:
    """The product that the instruction *name* computes."""
    mma, right = MMA[name], "b[j, k]" if transposed(name) else "b[k, j]"
    rows, columns, steps = (count*extent for count, extent in zip(BOXES, mma.shape, strict=True))
    knl = lk.make_kernel(f"{{[i, j, k]: 0<=i<{rows} and 0<=j<{columns} and 0<=k<{steps}}}",
                         f"c[i, j] = sum(k, a[i, k]*{right})", name="product")
    knl = lk.add_dtypes(knl, {"a,b": named_dtype(mma.factor.dtype), "c": np.dtype(mma.sum.dtype)})
    if mma.factor.through:
        return lk.set_operand_precision(knl, mma.factor.through)
    return knl if mma.factor == mma.sum else lk.set_accumulator_dtype(knl, np.dtype(mma.sum.dtype))


def product(name: str, way: str) -> lk.LoopKernel:
    """The same by the instruction; *way*: where its factors are, ``"shared"``, ``"fragments"`` or ``"ldmatrix"``."""
    mma = MMA[name]
    rows, columns, steps = mma.shape
    knl = lk.split_iname(plain(name), "i", rows, outer_iname="i_warp", inner_iname="i_box", outer_tag="l.0")
    knl = lk.split_iname(knl, "j", columns, outer_iname="j_reg", inner_iname="j_box", outer_tag="unr")
    knl = lk.split_iname(knl, "k", steps, outer_iname="k_outer", inner_iname="k_box")
    knl = lk.prioritize_loops(knl, "i_warp, k_outer, j_reg, i_box, j_box")
    of_right = ["j_reg", "j_box", "k_box"]
    knl = lk.add_prefetch(knl, "a", ["i_warp", "i_box", "k_box"], temporary_name="a_tile", default_tag="l.auto")
    knl = lk.add_prefetch(knl, "b", of_right, temporary_name="b_tile", default_tag="l.auto")
    if way != "shared":
        for x, box in (("a", ["i_box", "k_box"]), ("b", of_right)):
            knl = lk.add_prefetch(knl, f"{x}_tile", box, temporary_name=f"{x}_fragment", default_tag=None,
                                  temporary_address_space="warp")
    knl = lk.tensorize(knl, "insn", name)
    for x, load in zip("ab", LOADS[name] if way == "ldmatrix" else (), strict=False):
        knl = lk.tensorize(knl, f"{x}_fragment_rule", load)
    return knl


#: The instruction and the way of each product.
PRODUCTS = [(name, way) for name in MMA for way in ("shared", "fragments", "ldmatrix")
            if way != "ldmatrix" or name in LOADS]


def data(name: str, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The factors and the product. Whole numbers, whose sums are exact; those for tf32 with bits that it ignores."""
    mma, rng = MMA[name], np.random.default_rng(seed)
    rows, columns, steps = (count*extent for count, extent in zip(BOXES, mma.shape, strict=True))
    low = 0 if mma.factor.ptx == "u8" else -4
    a, b = rng.integers(low, 5, (rows, steps)), rng.integers(low, 5, (steps, columns))
    ignored = 1 + 2.0**-12 if mma.factor.through else 1
    dtype = named_dtype(mma.factor.dtype)
    given = {"a": (a*ignored).astype(dtype), "b": np.ascontiguousarray(b.T if transposed(name) else b).astype(dtype)}
    return given, (a @ b).astype(mma.sum.dtype)
