"""Reductions over threads: a tree of any length, on one axis or two, a row of threads each or a block."""
from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

import loopkit as lk
from tests.lowering.kernels import F32, make, rows
from tests.lowering.shown import placed, storages
from tests.transform.same import assert_same


@pytest.mark.deep
@pytest.mark.parametrize("lanes", [1, 2, 3, 7, 32, 33, 48])
def test_any_number_of_lanes(lanes: int) -> None:
    knl = lk.split_iname(lk.tag_inames(rows(), "i:g.0"), "k", lanes, inner_tag="l.0")
    for m in (1, lanes, 100):
        assert_same(rows(), knl, n=3, m=m)


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("lanes", [1, 2, 7, 33])
def test_in_a_sequential_loop(lanes: int) -> None:
    assert_same(rows(), lk.split_iname(rows(), "k", lanes, inner_tag="l.0"), n=5, m=40)


@pytest.mark.deep
@pytest.mark.parametrize("lanes", [1, 2, 3, 7, 32, 33, 48])
def test_lanes_of_a_fixed_length(lanes: int) -> None:
    plain = lk.fix_parameters(rows(), m=lanes)
    assert_same(plain, lk.tag_inames(plain, "i:g.0, k:l.0"), n=4)


@pytest.mark.deep
@pytest.mark.parametrize(("operation", "dtype"), [
    ("sum", np.float32), ("sum", np.int64), ("product", np.float64), ("min", np.float32), ("max", np.int32),
    ("max", np.float64), ("min", np.uint8), ("any", np.bool_), ("all", np.bool_), ("sum", np.complex64)])
def test_every_operation(operation: str, dtype: type) -> None:
    plain = make("{[i,k]: 0<=i<n and 0<=k<m}", f"y[i] = {operation}(k, a[i,k])", a=dtype)
    knl = lk.split_iname(lk.tag_inames(plain, "i:g.0"), "k", 7, inner_tag="l.0")
    for m in (0, 1, 6, 23):
        assert_same(plain, knl, n=3, m=m)


@pytest.mark.deep
@pytest.mark.parametrize("tags", [("l.0", "l.1"), ("l.1", "l.0"), ("l.0", "l.0"), ("unr", "l.0"), ("l.0", "unr")])
def test_two_inames(tags: tuple[str, str]) -> None:
    plain = make("{[i,j,k]: 0<=i<n and 0<=j<m and 0<=k<l}", "y[i] = sum([j,k], a[i,j,k])", a=F32)
    knl = lk.split_iname(plain, "j", 5, inner_tag=tags[0])
    knl = lk.split_iname(knl, "k", 3, inner_tag=tags[1])
    for sizes in ({"m": 1, "l": 1}, {"m": 5, "l": 3}, {"m": 11, "l": 10}):
        assert_same(plain, lk.tag_inames(knl, "i:g.0"), n=2, **sizes)


@pytest.mark.deep
def test_a_row_of_threads_for_each_element() -> None:
    knl = lk.split_iname(rows(), "i", 4, outer_tag="g.0", inner_tag="l.1")
    knl = lk.split_iname(knl, "k", 8, inner_tag="l.0")
    assert storages(knl)["acc_k_warp"] == "warp float32 acc_k_warp[4][8]"
    for n, m in ((1, 1), (4, 8), (7, 21)):
        assert_same(rows(), knl, n=n, m=m)


@pytest.mark.deep
def test_the_result_can_be_used_by_all_threads() -> None:
    plain = make("{[i,j,k]: 0<=i<n and 0<=j,k<m}", """
        for i
            <> top = max(k, x[i,k])
            for j
                y[i,j] = x[i,j] - top
            end
        end
        """, x=F32)
    knl = lk.split_iname(lk.tag_inames(plain, "i:g.0"), "k", 12, inner_tag="l.0")
    knl = lk.split_iname(knl, "j", 12, inner_tag="l.0")
    assert storages(knl)["top"] == "private float32 top"
    for m in (1, 12, 31):
        assert_same(plain, knl, n=3, m=m)


@pytest.mark.deep
def test_two_reductions_of_one_statement() -> None:
    plain = make("{[i,j,k]: 0<=i<n and 0<=j,k<m}", "y[i] = sum(k, a[i,k]) - 2*max(j, a[i,j])", a=F32)
    knl = lk.split_iname(lk.tag_inames(plain, "i:g.0"), "k", 8, inner_tag="l.0")
    knl = lk.split_iname(knl, "j", 8, inner_tag="l.0")
    assert_same(plain, knl, n=3, m=19)


@pytest.mark.deep
def test_a_reduction_inside_a_reduction() -> None:
    plain = make("{[i,j,k]: 0<=i<n and 0<=j,k<m}", "y[i] = sum(j, b[i,j]*sum(k, a[j,k]))", a=F32, b=F32)
    for knl in (lk.split_iname(plain, "k", 4, inner_tag="l.0"), lk.split_iname(plain, "i", 4, inner_tag="l.0")):
        assert_same(plain, knl, n=3, m=7)


@pytest.mark.deep
def test_a_reduction_under_a_condition() -> None:
    plain = make("{[i,k]: 0<=i<n and 0<=k<m}", "if i % 2 == 0\n y[i] = sum(k, a[i,k])\nend", a=F32)
    knl = lk.split_iname(lk.tag_inames(plain, "i:g.0"), "k", 4, inner_tag="l.0")
    assert_same(plain, knl, n=6, m=9)


@pytest.mark.deep
def test_triangular_rows() -> None:
    plain = make("{[i,k]: 0<=i<n and 0<=k<=i}", "y[i] = sum(k, a[i,k])", a=F32)
    knl = lk.split_iname(lk.tag_inames(plain, "i:g.0"), "k", 4, inner_tag="l.0")
    assert_same(plain, knl, n=11)


def test_the_order_of_the_parts() -> None:
    """In a row of three threads, thread 0 adds the third value and then the second."""
    knl = lk.tag_inames(lk.fix_parameters(rows(), m=3), "i:g.0, k:l.0")
    assert placed(knl)[0].replace("  ", "").split("\n") == [
        "insn.k.init", "insn.k.update", "insn.k.store", "insn.k.step0", "insn.k.step1", "insn.k.result", "insn"]


def test_the_order_of_the_parts_in_a_tree() -> None:
    """Thread 0 of each row of three reads values that were stored before the barrier."""
    knl = lk.split_iname(lk.tag_inames(lk.fix_parameters(rows(), m=3), "k:l.0"), "i", 2, outer_tag="g.0",
                         inner_tag="l.1")
    assert placed(knl)[0].replace("  ", "").split("\n") == [
        "insn.k.init", "insn.k.update", "insn.k.store", "warp barrier", "insn.k.step0", "insn.k.step1", "insn"]


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("tags", ["k:l.0", "i:l.1, k:l.0"])
def test_threads_have_no_part_in_an_accumulator_that_was_expanded(tags: str) -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i,k]: 0<=i<4 and 0<=k<32}", "y[i] = sum(k, a[i,k])"), {"a": np.float32})
    knl = lk.tag_inames(lk.expand(plain, "acc_k", "i"), tags)
    with pytest.raises(lk.PreconditionError, match="The accumulator 'acc_k' of the reduction of 'insn' was expanded") \
            as caught:
        lk.lower(knl)
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("contract(knl, 'acc_k', ['i'])")
    lk.check_equivalent(plain, lk.contract(knl, "acc_k", ["i"]), {}, target="c")


@pytest.mark.deep(every=6)
@pytest.mark.parametrize("part", ["S.r.init", "S.r.update"])
@pytest.mark.parametrize("change", [partial(lk.split_iname, split_iname="s", inner_length=4),
                                    partial(lk.chunk_iname, split_iname="s", num_chunks=4),
                                    partial(lk.rename_iname, old_iname="s", new_iname="t")])
def test_parts_in_loops_of_their_own_are_not_shared_by_threads(change: Callable[..., lk.LoopKernel], part: str) -> None:
    """The parts of the inner reduction have a loop over the outer one's iname each."""
    knl = lk.make_kernel("{[i, s, r]: 0<=i<n and 0<=s<n and 0<=r<n}",
                         "for i\n    y[i] = sum(s, max(r, x[i, s, r]))  {id=S}\nend",
                         [lk.GlobalArg("x, y", F32), "..."])
    knl = lk.interchange(lk.split_iname(knl, "r", 4, inner_tag="l.0"), "s", "r_inner")
    with pytest.raises(lk.PreconditionError, match=rf"around '{part}' are .*, and around 'S.s.update' i, s") as err:
        lk.lower(change(knl, within=part))
    assert err.value.hint is not None
    together = change(knl, within=err.value.hint.split("within=")[1].strip("'"))
    assert_same(knl, together, n=6)
