"""A kernel in sentences, and remarks on its cost."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from tests.cases import CASES

BY_NAME = {case.name: case for case in CASES}


def remarks(knl: lk.LoopKernel) -> list[str]:
    return [remark.text for remark in lk.explain(knl).remarks]


def mapped(subscript: str, **tags: str) -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", f"y[i, j] = x[{subscript}]", name="k")
    knl = lk.add_dtypes(knl, {"x": np.float32})
    knl = lk.split_iname(knl, "j", 128, outer_tag="g.0", inner_tag="l.0")
    return lk.tag_inames(knl, {"i": "g.1"})


@pytest.mark.parametrize(("subscript", "apart"), [
    ("i, j", None), ("j", None), ("0", None), ("i, m - 1 - j", None), ("j, i", "m"), ("2*j, i", "2*m"), ("i, 8*j", "8"),
    ("j, j", None), ("i, j // 2", None), ("p[j]", None)])
def test_distances_of_neighbouring_threads(subscript: str, apart: str | None) -> None:
    """Distances of at most 16 bytes, or that depend on data, are no remark."""
    knl = mapped(subscript) if "p[" not in subscript else lk.add_dtypes(mapped(subscript), {"p": np.int32})
    found = [text for text in remarks(knl) if "reads x" in text]
    if subscript == "j, j":
        assert len(found) == 1
    elif apart is None:
        assert found == []
    else:
        (text,) = found
        # of a transposed array the last axis has n elements
        assert f"neighbouring threads are {apart.replace('m', 'n')} elements apart" in text


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
    assert "The loop over k_outer from 0 to (l + 15) // 16 repeats a_fetch_rule, b_fetch_rule, insn.k.update." in text
    assert "A barrier: a_fetch: a_fetch_rule writes, insn.k.update reads" in text
    assert "Full tiles have a version without guards." in text
    assert "Full tiles" not in str(lk.explain(lk.set_options(BY_NAME["matmul_tiled"].make(), full_tiles=False)))


def test_a_kernel_that_cannot_be_lowered_is_refused() -> None:
    with pytest.raises(lk.TypeInferenceError, match="The dtype of the argument 'x'"):
        lk.explain(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]"))


@pytest.mark.deep(every=6)
@pytest.mark.parametrize("name", BY_NAME)
def test_every_case_is_explained(name: str) -> None:
    found = lk.explain(BY_NAME[name].make())
    assert list(found.sentences) == [launch.name for launch in lk.lower(BY_NAME[name].make()).launches]
    assert all(remark.way_out for remark in found.remarks)
