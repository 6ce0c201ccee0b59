"""Loads of matrices into fragments: their text, the alignment of rows, and their refusals."""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from loopkit.ast.nodes import Region
from loopkit.ast.walk import nodes_in
from loopkit.expr.kinds import named_dtype
from loopkit.instructions.ldmatrix import LDMATRIX, LdMatrixIssue
from loopkit.instructions.mma import MMA
from loopkit.lowering.pipeline import lowered_once
from loopkit.verification.validation import validate
from tests.matrix_kernels import LOADS, product
from tests.property.matrix_units import loaded

BF16 = "mma.m16n8k16.f32.bf16"
PLAIN, SWAPPED = "c[i, j] = sum(k, a[i, k]*b[k, j])", "c[i, j] = sum(k, a[i, k]*b[j, k])"


def fragments(text: str = PLAIN, name: str = BF16, *, staged: bool = True,
              change: Callable[[lk.LoopKernel], lk.LoopKernel] = lambda knl: knl) -> lk.LoopKernel:
    """A product of one box with its factors in fragments; *change*: of the kernel before these."""
    mma = MMA[name]
    knl = lk.make_kernel("{{[i, j, k]: 0<=i<{} and 0<=j<{} and 0<=k<{}}}".format(*mma.shape), text)
    knl = lk.add_dtypes(knl, {"a,b": named_dtype(mma.factor.dtype), "c": np.dtype(mma.sum.dtype)})
    knl = knl if mma.factor == mma.sum else lk.set_accumulator_dtype(knl, np.dtype(mma.sum.dtype))
    knl = lk.prioritize_loops(knl, "i, j")
    boxes = {"a": ["i", "k"], "b": ["j", "k"]}
    for x, box in boxes.items() if staged else ():
        knl = lk.add_prefetch(knl, x, box, temporary_name=f"{x}_tile", default_tag="l.auto")
    knl = change(knl)
    for x, box in boxes.items():
        knl = lk.add_prefetch(knl, f"{x}_tile" if staged else x, box, temporary_name=f"{x}_fragment", default_tag=None,
                              temporary_address_space="warp")
    return lk.tensorize(knl, "insn", name)


def issues(knl: lk.LoopKernel) -> list[LdMatrixIssue]:
    low = lowered_once(knl)
    assert validate(low) == ()
    return [node.instruction for node in nodes_in(low.program.functions[0].body)
            if isinstance(node, Region) and isinstance(node.instruction, LdMatrixIssue)]


def test_each_load_serves_a_product() -> None:
    used = {load for loads in LOADS.values() for load in loads}
    assert used == LDMATRIX.keys() - {"ldmatrix.x2.trans", "ldmatrix.x4.trans"} | {"ldmatrix.x4.trans"}
    found = issues(lk.tensorize(fragments(), "b_fragment_rule", "ldmatrix.x2.trans"))
    assert [i.instruction.name for i in found] == ["ldmatrix.x2.trans"]


@pytest.mark.parametrize(("load", "copies"), [("x4", 1), ("x2", 2), ("x1", 4)])
def test_a_fragment_of_several_loads(load: str, copies: int) -> None:
    """Each has its own registers and, in the unrolled loops around it, its own rows."""
    low = lowered_once(lk.set_options(lk.tensorize(fragments(), "a_fragment_rule", f"ldmatrix.{load}"),
                                     textual_unroll=True))
    assert validate(low) == ()
    text = str(lk.generate_code(low.kernel, target="cuda")) if copies == 1 else ""
    assert text.count("ldmatrix_x4(word_at") == (copies == 1)
    own = [node.instruction for node in nodes_in(low.program.functions[0].body)
           if isinstance(node, Region) and isinstance(node.instruction, LdMatrixIssue)]
    assert len(own) == copies
    assert len({e for i in own for e in i.registers}) == 8
    assert len({i.row for i in own}) == copies


def test_a_transposed_left_factor() -> None:
    knl = fragments("c[i, j] = sum(k, a[k, i]*b[k, j])")
    found = issues(lk.tensorize(knl, "a_fragment_rule", "ldmatrix.x4.trans"))
    assert [str(i.row) for i in found] == ["a_tile[8*((l.0 // 16) % 2) + l.0 % 8, 8*((l.0 // 8) % 2)]"]


def test_the_array_of_the_rows_is_aligned() -> None:
    """Also where no vector access needs it."""
    source = lk.generate_code(product(BF16, "ldmatrix"), target="cuda").source
    assert re.findall(r"__shared__ (__align__\(16\) )?__nv_bfloat16 (\w)_tile", source) == [
        ("__align__(16) ", "a"), ("__align__(16) ", "b")]
    source = lk.generate_code(product(BF16, "fragments"), target="cuda").source
    assert "__align__" not in source


def test_the_test_machine_loads_as_ptx_says() -> None:
    """Without .trans a lane gets 4 bytes of row ``t // 4``; with it the elements of column ``t // 4``."""
    rows = {t: [(t, e) for e in range(8)] for t in range(32)}
    assert loaded("ldmatrix.x1", 6, rows) == [(1, 4), (1, 5)]
    assert loaded("ldmatrix.x2.trans", 6, rows) == [(4, 1), (5, 1), (12, 1), (13, 1)]
    assert loaded("ldmatrix.x4", 31, rows)[-2:] == [(31, 6), (31, 7)]
    bytes_of_rows = {t: [(t, e) for e in range(16)] for t in range(32)}
    assert loaded("ldmatrix.x1", 6, bytes_of_rows) == [(1, 8), (1, 9), (1, 10), (1, 11)]


# What is refused

def padded(knl: lk.LoopKernel) -> lk.LoopKernel:
    return lk.add_padding(knl, "a_tile", 0, by=4)


def lower_load(load: str, fragment: str = "a", **options: Any) -> None:
    lk.lower(lk.tensorize(fragments(**options), f"{fragment}_fragment_rule", f"ldmatrix.{load}"))


def box_within_a_row() -> None:
    """The columns of the box begin at the fourth of the array."""
    knl = lk.make_kernel(["{[u, v]: 0<=u<16 and 0<=v<24}", "{[i, j, k]: 0<=i<16 and 0<=j<8 and 0<=k<16}"],
                         "<> a_tile[u, v] = a[u, v]\nc[i, j] = sum(k, a_tile[i, k + 4]*b[k, j]) {id=insn}")
    knl = lk.add_dtypes(knl, {"a,a_tile,b": named_dtype("bfloat16"), "c": np.float32})
    knl = lk.prioritize_loops(lk.set_accumulator_dtype(knl, np.float32), "i, j")
    knl = lk.split_iname(lk.set_temporary_address_space(knl, "a_tile", "local"), "v", 8)
    for x, box in {"a_tile": ["i", "k"], "b": ["j", "k"]}.items():
        knl = lk.add_prefetch(knl, x, box, temporary_name=f"{x[0]}_fragment", default_tag=None,
                              temporary_address_space="warp")
    lk.lower(lk.tensorize(lk.tensorize(knl, "insn", BF16), "a_fragment_rule", "ldmatrix.x4"))


def fragment_in_shared_memory() -> None:
    lk.lower(lk.set_temporary_address_space(product(BF16, "ldmatrix"), "a_fragment", "local"))


def unrolled_again() -> None:
    lk.lower(lk.tag_inames(product(BF16, "ldmatrix"), "a_tile_dim_1_part: unr", force=True))


def swizzled_too_finely() -> None:
    lk.lower(lk.swizzle(product(BF16, "ldmatrix"), "a_tile", chunk=4))


@pytest.mark.parametrize(("make", "reason", "hint"), [
    (lambda: lower_load("x2", "b"),
     "b_tile[8*(l.0 // 8 % 2), l.0 % 8] and b_tile[8*(l.0 // 8 % 2) + 1, l.0 % 8] are not next to each other in memory",
     "'ldmatrix.x2.trans' loads them"),
    (lambda: lower_load("x2", "b", name="mma.m16n8k32.s32.s8"),
     "b_tile[16*(l.0 // 8 % 2), l.0 % 8] and b_tile[16*(l.0 // 8 % 2) + 1, l.0 % 8] are not next to each other in "
     "memory",
     "store 'b_tile' with the elements of a register in a row, or leave the copy to plain loads and stores"),
    (box_within_a_row, "a_tile[l.0 % 16, 8*(l.0 // 16 % 2) + 4] may not begin at a multiple of 16 bytes",
     "begin the box of the fragment at a multiple of 8 elements, or leave the copy to plain loads and stores"),
    (lambda: lower_load("x4", change=padded),
     "a row of 'a_tile' has 20 elements, which are not a multiple of 16 bytes", "add_padding(knl, 'a_tile', 0, by=8)"),
    (lambda: lower_load("x4", staged=False),
     "'a' is in global memory, and not in shared memory", "add_prefetch(knl, 'a', ...) before that of the fragment"),
    (lambda: lower_load("x4.trans", text=SWAPPED, name="mma.m16n8k32.s32.s8"),
     "'a_tile' is int8, and .trans loads elements of 2 bytes",
     "let the matrix lie transposed in memory, and leave out .trans"),
    (fragment_in_shared_memory,
     "'a_fragment' is in shared memory, and not in a fragment", "add_prefetch(..., temporary_address_space='warp')"),
    (unrolled_again, "its loops are a_tile_dim_0_part of 2, a_tile_dim_1_item of 2, but they must be 4 matrices of 2 "
     "elements in each register", "leave the inames of a box as tensorize splits and tags them"),
    (swizzled_too_finely, "the swizzle separates the 16 bytes that begin at a_tile[16*i_warp + l.0 % 16, "
     "8*(l.0 // 16 % 2)]", "swizzle(knl, 'a_tile', chunk=8)")])
def test_what_a_load_cannot_execute(make: Callable[[], None], reason: str, hint: str) -> None:
    with pytest.raises(lk.PreconditionError) as err:
        make()
    message = str(err.value)
    found = re.fullmatch(r"'ldmatrix\.[\w.]+' cannot execute '[ab]_fragment_rule': (.*)\.\n  hint: (.*)", message)
    assert found is not None, message
    assert found.groups() == (reason, hint)


@pytest.mark.parametrize(("make", "message"), [
    (lambda: lower_load("x4", "b"),
     "'b_fragment_rule' copies 2 matrices for each lane, which is not a multiple of 4."),
    (lambda: lower_load("x4", name="mma.m16n8k16.f64"),
     "'a_fragment_rule' does not write a fragment with elements of at most 4 bytes."),
    (lambda: lk.tensorize(fragments(), "a_tile_rule", "ldmatrix.x4"),
     "'a_tile_rule' does not write a fragment with elements of at most 4 bytes."),
    (lambda: lk.tensorize(product(BF16, "ldmatrix"), "a_fragment_rule", "ldmatrix.x4"),
     "An instruction executes 'a_fragment_rule' already.")])
def test_statements_that_are_no_load(make: Callable[[], object], message: str) -> None:
    with pytest.raises(lk.PreconditionError) as err:
        make()
    assert str(err.value).split("\n")[0] == message
