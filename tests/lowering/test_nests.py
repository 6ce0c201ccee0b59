"""Operands of matrix instructions: they are right after further steps, or lowering refuses."""
from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from loopkit.analysis.shapes import array_shapes
from loopkit.lowering.pipeline import lowered_once
from loopkit.verification.validation import validate
from tests.matrix_kernels import product
from tests.property.machine import execute

NAME = "mma.m16n8k16.f32.f16"

Step = Callable[[lk.LoopKernel], lk.LoopKernel]


def tensorized(text: str, *steps: Step, fragments: Sequence[lk.TemporaryVariable] = (), more: str = ""
               ) -> lk.LoopKernel:
    """A product of one box, its sums added to nothing else, by :data:`NAME`."""
    inames = ", ".join(["i", "j", "k", *more.split()])
    ranges = " and ".join([*(f"0 <= {x} < 16" for x in ("i", "k", *more.split())), "0 <= j < 8"])
    knl = lk.make_kernel(f"{{[{inames}]: {ranges}}}", text, [*fragments, "..."])
    knl = lk.add_dtypes(knl, {x: np.float32 if x == "c" else np.float16 for x in knl.array_args})
    knl = lk.tensorize(lk.set_accumulator_dtype(knl, np.float32), "insn", NAME)
    for step in steps:
        knl = step(knl)
    return knl


def retagged(iname: str, step: Step, tag: str) -> Step:
    """*step*, which needs *iname* without its *tag*."""
    return lambda knl: lk.tag_inames(step(lk.untag_inames(knl, iname)), {iname: tag})


def run(knl: lk.LoopKernel, result: str = "c") -> np.ndarray:
    """What the tests' machine makes of whole numbers; translation validation finds nothing."""
    low = lowered_once(knl)
    assert validate(low) == ()
    rng = np.random.default_rng(0)
    shapes: dict[str, Any] = {x: shape for x, shape in array_shapes(low.kernel).items() if x in low.kernel.array_args}
    arrays = {x: rng.integers(-4, 5, shapes[x]).astype(float) for x in sorted(shapes)}
    return execute(low, arrays, {}, random.Random(0))[result]


PLAIN = "c[i, j] = sum(k, a[i, k]*b[k, j])  {id=insn}"


@pytest.mark.parametrize("step", [
    retagged("j_lane", lambda knl: lk.reverse(knl, "j_lane"), "l.0"),
    retagged("j_item", lambda knl: lk.reverse(knl, "j_item"), "vec"),
    retagged("k_lane", lambda knl: lk.shift(knl, "k_lane", 3), "instr"),
    lambda knl: lk.interchange(knl, "k_part", "k_lane")])
def test_digits_of_a_number_need_not_cancel(step: Step) -> None:
    np.testing.assert_array_equal(run(tensorized(PLAIN, step)), run(tensorized(PLAIN)))


def test_columns_in_another_order() -> None:
    """Simplified subscripts do not depend on the number of the column alone."""
    text = PLAIN.replace("b[k, j]", "b[k, j // 2 + 4*(j % 2)]")
    np.testing.assert_array_equal(run(tensorized(text, lk.simplify_indices)), run(tensorized(text)))


def test_factors_in_the_other_order() -> None:
    text = PLAIN.replace("a[i, k]*b[k, j]", "b[k, j]*a[i, k]")
    np.testing.assert_array_equal(run(tensorized(text)), run(tensorized(PLAIN)))


def test_lanes_count_from_0() -> None:
    knl = tensorized(PLAIN, retagged("j_lane", lambda knl: lk.shift(knl, "j_lane", 1), "l.0"))
    with pytest.raises(lk.PreconditionError, match="there are i_lane of 8, j_lane of other values"):
        lk.lower(knl)


FRAGMENT = [lk.TemporaryVariable("f", np.dtype("float16"), (16, 16), address_space=lk.AddressSpace.WARP)]
COPIED = "f[i0, k0] = a[i0, k0]  {id=copy}\n" + PLAIN.replace("a[i, k]", "f[i, k]")


@pytest.mark.parametrize("step", [
    lambda knl: lk.prioritize_loops(knl, "k0_lane, i0_lane"),
    retagged("i0_lane", lambda knl: lk.reverse(knl, "i0_lane"), "l.0"),
    retagged("k_lane", lambda knl: lk.reverse(knl, "k_lane"), "instr")])
def test_fragments_are_in_the_registers_of_their_lanes(step: Step) -> None:
    knl = tensorized(COPIED, step, fragments=FRAGMENT, more="i0 k0")
    with pytest.raises(lk.PreconditionError, match="'f', in warp registers, that other lanes may hold"):
        lk.lower(knl)


def test_other_statements_read_elements_of_their_own_lanes() -> None:
    text = COPIED + "\nd[i1, k1] = 2*f[i1, k1]"

    def by_lanes(order: str) -> lk.LoopKernel:
        return tensorized(
            text, lambda knl: lk.split_iname(knl, "i1", 8, inner_tag="l.0"),
            lambda knl: lk.split_levels(knl, "k1", {"k1_part": None, "k1_lane": 4, "k1_item": 2},
                                         tags={"k1_lane": "l.0"}),
            lambda knl: lk.prioritize_loops(knl, order), lk.simplify_indices, fragments=FRAGMENT, more="i0 k0 i1 k1")
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (16, 16))
    np.testing.assert_array_equal(run(by_lanes("i1_inner, k1_lane"), "d"), 2*a)
    with pytest.raises(lk.PreconditionError, match="'insn_0' accesses elements of 'f'"):
        lk.lower(by_lanes("k1_lane, i1_inner"))
    # the vector of the result reads its own elements, too
    run(tensorized(COPIED.replace("sum", "f[i, j] + sum"), fragments=FRAGMENT, more="i0 k0"))


@pytest.mark.parametrize(("text", "message"), [
    (COPIED.replace("b[k, j]", "f[j, k]"), "The lanes of a warp share the fragment 'f' already, for another factor"),
    (COPIED.replace("f[i0, k0]", "f[i0, 15 - k0]"), "'copy' must write axis 1 of the fragment 'f' at an iname with the "
                                                    "values 0 to 15, and not at")])
def test_fragments_that_lanes_cannot_share(text: str, message: str) -> None:
    with pytest.raises(lk.PreconditionError, match=message):
        tensorized(text, fragments=FRAGMENT, more="i0 k0")


@pytest.mark.parametrize("step", [
    lambda knl: lk.tag_array_axes(knl, "a_tile", "F"),
    retagged("a_tile_dim_1_lane", lambda knl: lk.reverse(knl, "a_tile_dim_1_lane"), "l.0")])
def test_rows_that_ldmatrix_loads_are_adjacent(step: Step) -> None:
    with pytest.raises(lk.PreconditionError, match="are not next to each other in memory"):
        lk.lower(step(product(NAME, "ldmatrix")))


def test_partial_tiles_on_the_host() -> None:
    """Their conditions depend on the lanes, and are where the host runs these."""
    knl = lk.make_kernel("{[i, j, k]: 0 <= i < n and 0 <= j < m and 0 <= k < l}", PLAIN)
    knl = lk.set_accumulator_dtype(lk.add_dtypes(knl, {"a, b": np.float16, "c": np.float32}), np.float32)
    for iname, extent in (("i", 16), ("j", 8), ("k", 16)):
        knl = lk.split_iname(knl, iname, extent)
    knl = lk.prioritize_loops(knl, "i_outer, j_outer, k_outer, i_inner, j_inner")
    knl = lk.tensorize(lk.tag_inames(knl, "i_outer: g.0, j_outer: g.1"), "insn", NAME)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((19, 21), (21, 9)))
    np.testing.assert_array_equal(lk.compile(knl, "c")(a=a, b=b)["c"], a.astype(np.float32) @ b.astype(np.float32))
