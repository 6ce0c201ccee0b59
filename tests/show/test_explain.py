"""A kernel in sentences, and remarks on its cost."""
from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from tests.cases import CASES
from tests.matrix_kernels import product
from tests.matrix_stores import product as product_by_stmatrix
from tests.matrix_stores import stored

BY_NAME = {case.name: case for case in CASES}


def remarks(knl: lk.LoopKernel) -> list[str]:
    return [remark.text for remark in lk.explain(knl).remarks]


def mapped(subscript: str, dtype: type = np.float32) -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", f"y[i, j] = x[{subscript}]", name="k")
    knl = lk.add_dtypes(knl, {"x": dtype})
    knl = lk.split_iname(knl, "j", 128, outer_tag="g.0", inner_tag="l.0")
    return lk.tag_inames(knl, {"i": "g.1"})


@pytest.mark.parametrize(("subscript", "dtype", "used"), [
    ("i, j", np.float32, 0), ("j", np.float32, 0), ("0", np.float32, 0), ("i, m - 1 - j", np.float32, 0),
    ("j, i", np.float32, 4), ("j, i", np.float64, 8), ("j, i", np.float16, 2), ("2*j, i", np.float32, 4),
    ("i, 8*j", np.float32, 4), ("i, 7*j", np.float32, 0), ("i, 8*j", np.float16, 0), ("j, j", np.float32, 4),
    ("i, j", np.complex128, 0), ("i, j // 2", np.float32, 0), ("p[j]", np.float32, 0)])
def test_sectors_of_one_thread(subscript: str, dtype: type, used: int) -> None:
    """Sectors that threads share, and addresses that depend on data, are no remark."""
    knl = lk.add_dtypes(mapped(subscript, dtype), {"p": np.int32} if "p[" in subscript else {})
    assert [text for text in remarks(knl) if "reads x" in text] == ([] if not used else [
        f"insn reads x: each thread of a warp reads a sector of memory of its own, {used} of its 32 bytes."])


def test_sectors_of_vectors() -> None:
    """Each thread moves half of a sector at once, or loops over elements with a thread's own sectors."""
    for tag, expected in (("vec", 0), ("unr", 1)):
        knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", assumptions="n mod 1024 = 0")
        knl = lk.split_iname(lk.add_dtypes(knl, {"x": np.float64}), "i", 4 if tag == "unr" else 2, inner_tag=tag)
        knl = lk.split_iname(knl, "i_outer", 64, outer_tag="g.0", inner_tag="l.0")
        assert sum("a sector of memory of its own" in text for text in remarks(knl)) == 2*expected


def test_what_looks_expensive() -> None:
    assert remarks(BY_NAME["matmul_tiled"].make()) == []
    assert "The temporary t is in global memory, with 4*n bytes a call." in remarks(BY_NAME["two_launches"].make())
    assert "One thread runs all of launch jacobi." in remarks(BY_NAME["jacobi"].make())
    assert "The host runs the loop over t, with 2 launches in each iteration." in \
        remarks(BY_NAME["jacobi_over_blocks"].make())
    assert "A block of launch softmax_block has 48 threads: its last warp is not full." in \
        remarks(BY_NAME["softmax_by_block"].make())


def test_sentences_name_loops_and_barriers() -> None:
    text = " ".join(str(lk.explain(BY_NAME["matmul_tiled"].make())).split())
    assert "It computes c." in text
    assert "The loop over 0 <= k_outer < (l + 15) // 16 repeats a_fetch_rule, b_fetch_rule, insn.k.update." in text
    assert ("Each thread of a block waits for all others at a barrier: a_fetch_rule writes a_fetch before "
            "insn.k.update reads it;") in text
    assert ("Tiles with 16*j_outer + 16 <= m and 16*i_outer + 16 <= n are full and run a version without guards; "
            "partial tiles run the general version.") in text
    assert "without guards" not in str(lk.explain(lk.set_options(BY_NAME["matmul_tiled"].make(), full_tiles=False)))


def test_instructions_at_barriers_are_named() -> None:
    text = " ".join(str(lk.explain(BY_NAME["matmul_asynchronous"].make())).split())
    assert "Each thread executes 'commit group'." in text
    assert ("Each thread of a warp executes 'commit group' and 'wait for all groups but 1' and waits for all others "
            "at a barrier: ") in text


@pytest.mark.parametrize(("name", "sentence"), [
    ("matmul_tiled", "acc_k holds the partial results of insn.k, for insn."),
    ("matmul_tiled", "a_fetch holds copies of elements of a, from a_fetch_rule for insn.k.update."),
    ("two_launches", "t passes values from insn to insn_0."),
    ("histogram", "h_buf collects elements of h, from init_h and add for store_h."),
    ("softmax_by_block", "acc_k_warp holds values that the lanes of a warp combine, for insn.k."),
    ("softmax_by_block", "acc_k_shared passes values between the threads that compute insn.k."),
    ("softmax_by_block", "acc_k_all holds the results of insn.k, for insn.")])
def test_each_temporary_has_a_purpose(name: str, sentence: str) -> None:
    assert sentence in lk.explain(BY_NAME[name].make()).temporaries.values()


def test_launches_name_what_they_compute() -> None:
    found = lk.explain(BY_NAME["two_launches"].make()).sentences
    assert "It computes the temporary t." in found["two_launches_0"]
    assert "It computes y." in found["two_launches_1"]


# Remarks whose calls were tried

def transpose(length: int, dtype: type = np.float32) -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "y[j, i] = x[i, j]", name="transpose")
    knl = lk.add_dtypes(knl, {"x": dtype})
    knl = lk.split_iname(knl, "i", length, outer_tag="g.1", inner_tag="l.0")
    knl = lk.split_iname(knl, "j", length, outer_tag="g.0", inner_tag="l.1")
    return lk.add_prefetch(knl, "x", ["i_inner", "j_inner"])


def remarks_with(knl: lk.LoopKernel, words: str) -> list[Any]:
    return [remark for remark in lk.explain(knl).remarks if words in remark.text]


def after_each(remark: Any, knl: lk.LoopKernel) -> list[lk.LoopKernel]:
    """*knl* after each of the calls in the remark's way out."""
    calls = re.findall(r"lk\.\w+\(.*?\)(?=;|$| if| makes)", remark.way_out)
    assert len(calls) == remark.way_out.count("lk.")
    return [eval(call, {"lk": lk, "knl": knl}) for call in calls]


@pytest.mark.parametrize(("knl", "ways"), [
    (transpose(32), 32), (transpose(16), 8), (transpose(32, np.float64), 16), (transpose(32, np.float16), 16)])
def test_bank_conflicts_have_calls_that_lower_them(knl: lk.LoopKernel, ways: int) -> None:
    (remark,) = remarks_with(knl, "bank conflicts")
    assert remark.text == (f"Accesses of x_fetch have bank conflicts (insn reads): up to {ways} threads of a warp "
                           "access different words of one bank of shared memory, one after another.")
    changed = after_each(remark, knl)
    assert changed
    for other in changed:
        left = [int(number) for x in remarks_with(other, "bank conflicts")
                for number in re.findall(r"up to (\d+)", x.text)]
        assert max(left, default=1) < ways


def test_rows_that_ldmatrix_loads_at_once_have_conflicts() -> None:
    """32 bytes from row to row: 8 rows of 16 bytes lie in 64 of the 128 bytes of all banks."""
    knl = product("mma.m16n8k16.f32.bf16", "ldmatrix")
    (remark,) = remarks_with(knl, "Accesses of a_tile")
    assert "(a_fragment_rule reads): up to 2 threads of a warp" in remark.text
    (changed,) = after_each(remark, knl)
    assert remark.way_out == "lk.add_padding(knl, 'a_tile', 0, by=8)"
    assert not remarks_with(changed, "Accesses of a_tile")


def test_rows_that_stmatrix_stores_at_once_have_conflicts() -> None:
    """Each lane stores a row of 16 bytes, and not the words that it has."""
    (remark,) = remarks_with(stored("stmatrix.x4"), "Accesses of t")
    assert "(copy writes): up to 2 threads of a warp" in remark.text
    assert not remarks_with(product_by_stmatrix(swizzle=64), "Accesses of c_tile")


def test_fragments_and_the_loops_of_an_instruction() -> None:
    knl = product("mma.m16n8k16.f32.bf16", "ldmatrix")
    text = " ".join(str(lk.explain(knl)).split())
    assert "a_fragment holds fragments in the registers of warps, from a_fragment_rule for insn.k.update." in text
    assert "The lanes of a warp execute the iterations of insn.k.update over i_box_part, k_box_part, " in text
    assert "k_box_item and j_box_item together, by a product of matrices." in text
    assert "The loop over 0 <= k_box_lane" not in text
    (row,) = re.findall(r"^ *bfloat16 a_fragment.*$", str(knl), re.MULTILINE)
    assert "fragments of matrix instructions" in row
    assert row.split()[-1] == "16", "bytes of a lane"


def test_data_dependent_and_equal_addresses_are_no_conflict() -> None:
    for name in ("histogram", "nbody", "matmul_tiled"):
        assert not remarks_with(BY_NAME[name].make(), "bank conflicts")


def summed(domain: str, **options: bool) -> lk.LoopKernel:
    knl = lk.add_dtypes(lk.make_kernel(domain, "y[i] = sum(j, x[j])", name="summed"), {"x": np.float32})
    knl = lk.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
    return lk.set_options(lk.split_iname(knl, "j", 4, inner_tag="unr"), **options)


def test_guards_in_innermost_loops_have_calls_that_remove_them() -> None:
    knl = summed("{[i, j]: 0<=i<n and 0<=j<m}", full_tiles=False)
    (remark,) = remarks_with(knl, "innermost loop")
    assert remark.text == "The innermost loop over j_outer tests '4*j_outer + j_inner < m' in each iteration."
    assert len(changed := after_each(remark, knl)) == 2
    assert not any(remarks_with(other, "innermost loop") for other in changed)


def test_guards_of_first_iterations_are_removed_by_peel() -> None:
    knl = lk.make_kernel("{[i, r]: 0<=i<n and 0<=r<m}", """
        for i, r
            y[r, i] = x[r, i]
            z[r, i] = x[r-1, i] {if=r>0}
        end
        """, name="differences")
    knl = lk.split_iname(lk.add_dtypes(knl, {"x": np.float32}), "i", 128, outer_tag="g.0", inner_tag="l.0")
    (remark,) = remarks_with(knl, "innermost loop")
    assert remark.text == "The innermost loop over r tests '1 <= r' in each iteration."
    assert remark.way_out == "lk.peel(knl, 'r', first=1)"
    (changed,) = after_each(remark, knl)
    assert not remarks_with(changed, "innermost loop")


def test_guards_that_no_call_removes_are_no_remark() -> None:
    assert not remarks_with(summed("{[i, j]: 0<=i<n and 0<=j<=i}"), "innermost loop")
    assert not remarks_with(summed("{[i, j]: 0<=i<n and 0<=j<m}"), "innermost loop")      # it has full tiles


def test_tiles_that_overlap_are_copied_again() -> None:
    knl = lk.make_kernel("{[i, p]: 0<=i<n and 0<=p<5}", "y[i] = sum(p, w[p]*x[i + p])", name="k")
    knl = lk.split_iname(lk.add_dtypes(knl, {"w,x": np.float32}), "i", 32, outer_tag="g.0", inner_tag="l.0")
    tiles = lk.add_prefetch(knl, "x", ["i_inner"])
    (remark,) = remarks_with(tiles, "copies")
    assert remark.text == ("x_fetch_rule copies a tile of x in each iteration of p, and the tiles overlap, so that it "
                           "copies most elements several times.")
    assert remark.way_out == ("lk.add_prefetch(knl, 'x', ...) may sweep over p too, and copies the tiles of all "
                              "iterations once")
    assert remarks_with(lk.add_prefetch(knl, "x", ["i_inner", "p"]), "copies") == []
    # neighbouring tiles of a product do not overlap
    assert remarks_with(lk.fix_parameters(BY_NAME["matmul_tiled"].make(), l=64), "copies") == []


def test_a_kernel_that_cannot_be_lowered_is_refused() -> None:
    with pytest.raises(lk.TypeInferenceError, match="The dtype of the argument 'x'"):
        lk.explain(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]"))


@pytest.mark.deep(every=6)
@pytest.mark.parametrize("name", BY_NAME)
def test_every_case_is_explained(name: str) -> None:
    found = lk.explain(BY_NAME[name].make())
    assert list(found.sentences) == [launch.name for launch in lk.lower(BY_NAME[name].make()).launches]
    assert found.temporaries.keys() == lk.lower(BY_NAME[name].make()).storages.keys()
    assert all(remark.way_out for remark in found.remarks)


def test_accesses_are_judged_where_a_wavefront_is_full() -> None:
    """The first diagonals have few threads."""
    knl = lk.make_kernel("{[i, j]: 1<=i<n-1 and 1<=j<m-1}", "u[i, j] = u[i-1, j] + u[i, j-1]", name="sweep")
    knl = lk.skew(lk.add_dtypes(knl, {"u": np.float32}), "j", by={"i": 1})
    knl = lk.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
    assert "insn writes u: each thread of a warp writes a sector of memory of its own, 4 of its 32 bytes." in \
        remarks(knl)
