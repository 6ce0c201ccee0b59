"""The tag ``vec``: what it takes, what it refuses, and that vectors change no result."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from tests.transform.kernels import F32, scaled_matrix
from tests.transform.same import assert_same, step
from tests.vector_kernels import axpy_vec, matmul_vec, stencil_2d_vec


def make(domain: str, text: str, **dtypes: object) -> lk.LoopKernel:
    knl = lk.make_kernel(domain, text, name="kernel", assumptions="n>=0" if "<n" in domain else None)
    return lk.add_dtypes(knl, dict.fromkeys(knl.array_args, F32) | dtypes)


# What it takes

@pytest.mark.parametrize(("extent", "values"), [(1, "1 value "), (3, "3 values "), (5, "5 values ")])
def test_an_odd_extent_makes_no_vectors(extent: int, values: str) -> None:
    knl = make("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    with pytest.raises(lk.PreconditionError, match=f"'i_inner' has {values}in 'insn'") as caught:
        lk.split_iname(knl, "i", extent, inner_tag="vec")
    assert caught.value.subject == "i_inner"
    assert "split an iname by 2, 4 or 8" in (caught.value.hint or "")


def test_a_parametric_extent_is_refused_by_lowering() -> None:
    knl = lk.tag_inames(make("{[i]: 0<=i<n}", "y[i] = 2*x[i]"), {"i": "vec"})
    with pytest.raises(lk.PreconditionError, match="'i' has no constant range, which the tag 'vec' needs") as caught:
        lk.lower(knl)
    assert "split_iname(knl, 'i', 4)" in (caught.value.hint or "")
    lk.lower(lk.fix_parameters(knl, n=8))
    with pytest.raises(lk.PreconditionError, match="'i' has 7 values in 'insn'"):
        lk.lower(lk.fix_parameters(knl, n=7))


@pytest.mark.parametrize("tags", ["i:vec, j:vec", "j:vec, i:vec"])
def test_a_statement_has_one_vector_iname(tags: str) -> None:
    knl = lk.fix_parameters(scaled_matrix(), n=6, m=4)
    with pytest.raises(lk.PreconditionError, match=r"'insn' already has the vec iname '[ij]'") as caught:
        lk.tag_inames(knl, tags)
    assert "unr or ilp" in (caught.value.hint or "")


def test_two_statements_may_have_two() -> None:
    knl = make("{[i, j]: 0<=i<8 and 0<=j<4}", "y[i] = 2*x[i]\nz[j] = 3*x[j]")
    assert_same(knl, step(knl, lk.tag_inames, "i:vec, j:vec"))


# What is legal

def test_a_recurrence_is_refused_with_its_witness() -> None:
    knl = make("{[i]: 1<=i<64}", "y[i] = y[i-1] + x[i]")
    knl = lk.split_iname(knl, "i", 4)
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.tag_inames(knl, {"i_inner": "vec"})
    witness = caught.value.witness
    assert witness.source == ("insn", {"i_outer": 0, "i_inner": 1})
    assert witness.sink == ("insn", {"i_outer": 0, "i_inner": 2})
    assert (witness.array, witness.element, witness.kind) == ("y", (1,), "flow")
    replayed = caught.value.replay()
    assert "both in one vector" in str(replayed)
    assert [d.element for d in replayed.differing]


@pytest.mark.deep(every=5)
@pytest.mark.parametrize(("text", "legal"), [
    ("y[i+4] = y[i] + x[i]", True),          # the next vector's
    ("y[i+3] = y[i] + x[i]", False),
    ("y[i] = y[i+1] + x[i]", True),          # each reads before the next writes
    ("y[i] = y[i] + x[i]", True),
    ("y[61-i] = y[i] + x[i]", False)])
def test_lanes_read_before_they_write(text: str, legal: bool) -> None:
    knl = lk.split_iname(make("{[i]: 0<=i<60}", text), "i", 4)
    if legal:
        assert_same(knl, step(knl, lk.tag_inames, {"i_inner": "vec"}))
    else:
        with pytest.raises(lk.IllegalTransformError):
            lk.tag_inames(knl, {"i_inner": "vec"})


@pytest.mark.parametrize("text", ["a[i, j+1] = a[7-i, j] + 1", "a[i, j] = a[7-i, j+1] + 1"])
def test_vectors_of_threads_are_made_at_once(text: str) -> None:
    """A barrier between the lanes, as along ``ilp``, would leave nothing of the vector."""
    knl = make("{[j, i]: 0<=i<8 and 0<=j<4}", text)
    knl = lk.tag_inames(knl, "i:l.0")
    assert_same(knl, lk.tag_inames(knl, "j:ilp"))
    with pytest.raises(lk.IllegalTransformError):
        lk.tag_inames(knl, "j:vec")


def test_statements_run_one_after_the_other() -> None:
    """As along ``ilp``: each runs for the whole vector before the next one does."""
    forwards = lk.split_iname(make("{[i]: 0<=i<64}", "for i\n <> t = x[i]\n y[i+1] = t\n z[i] = y[i]\n end"), "i", 4)
    assert_same(forwards, lk.tag_inames(forwards, {"i_inner": "vec"}))
    backwards = lk.split_iname(make("{[i]: 0<=i<64}", "for i\n z[i] = y[i]\n y[i+1] = x[i]\n end"), "i", 4)
    with pytest.raises(lk.IllegalTransformError):
        lk.tag_inames(backwards, {"i_inner": "vec"})


def test_what_is_read_from_memory_is_undecided() -> None:
    knl = lk.split_iname(make("{[i]: 0<=i<64}", "y[p[i]] = y[p[i]] + x[i]", p=np.int32), "i", 4)
    with pytest.raises(lk.UndecidedError):
        lk.tag_inames(knl, {"i_inner": "vec"})
    owed = lk.tag_inames(knl, {"i_inner": "vec"}, assume="p is a permutation")
    assert owed.history[-1].verdict == "assumed"
    place = np.random.default_rng(0).permutation(64).astype(np.int32)
    assert_same(knl, owed, p=place, y=np.arange(64, dtype=F32))


# Results

@pytest.mark.deep
@pytest.mark.parametrize("n", [1, 4, 127, 128, 130, 1000])
@pytest.mark.parametrize(("dtype", "length"), [
    (np.float64, 2), (np.float64, 4), (F32, 4), (F32, 8), (F32, 6), (np.float16, 8), (np.int8, 16), (np.complex64, 2),
    (np.complex128, 2), (np.int64, 2)])
def test_vectors_of_all_dtypes(dtype: type, length: int, n: int) -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i] + x[i]*z[i]"), dict.fromkeys("xyz", dtype))
    vectors = lk.split_iname(knl, "i", length, inner_tag="vec")
    assert_same(knl, lk.split_iname(vectors, "i_outer", 32, outer_tag="g.0", inner_tag="l.0"), n=n)


@pytest.mark.parametrize("wide", [lk.untag_inames(axpy_vec(), "i_inner"), lk.untag_inames(stencil_2d_vec(), "j_inner"),
                                  lk.untag_inames(matmul_vec(), ["b_dim_1_inner", "j_inner_inner"])],
                         ids=["axpy", "stencil", "matmul"])
def test_the_program_validates_and_says_what_it_moves(wide: lk.LoopKernel) -> None:
    """The untagged kernel has no vectors, the tagged one has, and both are proven right."""
    assert "at a time" not in str(lk.lower(wide))
    tagged = {"axpy": axpy_vec, "stencil_2d_vec": stencil_2d_vec, "matmul_vec": matmul_vec}[wide.name]()
    assert "at a time" in str(lk.lower(tagged))
    assert lk.verify(tagged, full=True).verdict is lk.Verdict.PROVEN


def test_a_reduction_takes_its_operands_in_vectors() -> None:
    knl = make("{[i, k]: 0<=i<n and 0<=k<m}", "y[i] = sum(k, x[i, k]*w[k])")
    vectors = lk.split_iname(knl, "k", 4, inner_tag="vec")
    for m in (3, 4, 12, 21):
        assert_same(knl, vectors, n=5, m=m)
    program = str(lk.lower(lk.split_iname(vectors, "i", 8, outer_tag="g.0", inner_tag="l.0")))
    assert "x_vec loaded 4 at a time" in program
    assert "w_vec loaded 4 at a time" in program


def test_textual_unrolling_leaves_vectors_alone() -> None:
    knl = lk.set_options(axpy_vec(), textual_unroll=True)
    assert "y_vec loaded and stored" in str(lk.lower(knl))
    assert_same(lk.untag_inames(axpy_vec(), "i_inner"), knl, n=130, a=3)
