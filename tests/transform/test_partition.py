"""duplicate_inames, chunk_iname and peel."""
from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import loopkit as lk
from loopkit.analysis.dependences import dependences
from loopkit.analysis.shapes import array_shapes, fully_written_outputs
from loopkit.poly.sets import InstanceSet
from tests.language.outline import outline, text
from tests.transform.kernels import F32, matmul, matvec, scaled_matrix, stencil, triangle, twice, two_loops
from tests.transform.same import assert_domain, assert_same, step

SIZES = ((0, 3), (1, 1), (3, 0), (4, 7), (9, 5))


def chain(first: str = "a[i] = x[i]", second: str = "b[i] = 2*a[i]", third: str = "c[i] = a[i] + b[i]"
          ) -> lk.LoopKernel:
    """Three statements in one loop."""
    knl = lk.make_kernel("{[i]: 0<=i<n}", f"for i\n {first} {{id=A}}\n {second} {{id=B}}\n {third} {{id=C}}\nend")
    return lk.add_dtypes(knl, {"x": F32})


def nest() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", """
        for i
            for j
                a[i,j] = x[i,j] + 1 {id=A}
                b[i,j] = 2*a[i,j] {id=B}
            end
            c[i] = x[i,0] {id=C}
        end
        """)
    return lk.add_dtypes(knl, {"x": F32})


# Duplicate_inames

def test_a_statement_gets_its_own_loop() -> None:
    knl = step(chain(), lk.duplicate_inames, "i", "B")
    assert outline(knl) == text("""
        for i
          A: a[i] = x[i]
        for i_0
          B: b[i_0] = 2*a[i_0]
        for i
          C: c[i] = a[i] + b[i]
        """)
    assert knl.history[-1].verdict == "proven"
    for n in (0, 1, 6):
        assert_same(chain(), knl, n=n)


def test_runs_of_statements_share_their_loops() -> None:
    assert outline(lk.duplicate_inames(chain(), "i", within="B or C")) == text("""
        for i
          A: a[i] = x[i]
        for i_0
          B: b[i_0] = 2*a[i_0]
          C: c[i_0] = a[i_0] + b[i_0]
        """)
    everything = lk.duplicate_inames(chain(), "i", within=None)
    assert everything.inames == ("i_0",)


@pytest.mark.deep
def test_the_inner_loop_alone_and_both() -> None:
    inner = lk.duplicate_inames(nest(), "j", within="B")
    assert outline(inner) == text("""
        for i
          for j
            A: a[i, j] = x[i, j] + 1
          for j_0
            B: b[i, j_0] = 2*a[i, j_0]
          C: c[i] = x[i, 0]
        """)
    both = lk.duplicate_inames(nest(), "j, i", within="B")
    assert outline(both) == text("""
        for i
          for j
            A: a[i, j] = x[i, j] + 1
        for i_0
          for j_0
            B: b[i_0, j_0] = 2*a[i_0, j_0]
        for i
          C: c[i] = x[i, 0]
        """)
    outer = lk.duplicate_inames(nest(), "i", within="B, C")
    for knl in (inner, both, outer):
        for n, m in ((1, 1), (4, 7), (5, 2)):
            assert_same(nest(), knl, n=n, m=m)


def test_names_and_tags() -> None:
    knl = lk.duplicate_inames(chain(), "i", "B", new_inames="q")
    assert knl.statement("B").inames == ("q",)
    assert lk.duplicate_inames(nest(), ["i", "j"], "B", ["q", None]).statement("B").inames == ("q", "j_0")
    assert lk.duplicate_inames(chain(), "i", "B", suffix="_b").statement("B").inames == ("i_b",)
    assert lk.duplicate_inames(knl, "i", "C").statement("C").inames == ("i_0",)
    tagged = lk.duplicate_inames(chain(), "i", "B", tags={"i": "g.0"})
    assert [str(t) for t in tagged.tags.values()] == ["g.0"]
    assert_same(chain(), tagged, n=5)


def test_the_tag_of_the_old_iname_stays_with_it() -> None:
    mapped = lk.tag_inames(chain(), "i:g.0")
    assert {x: str(t) for x, t in lk.duplicate_inames(mapped, "i", "B").tags.items()} == {"i": "g.0"}
    assert not lk.duplicate_inames(mapped, "i", "*").tags


@pytest.mark.deep
def test_the_copies_are_mapped_apart() -> None:
    knl = lk.split_iname(lk.duplicate_inames(chain(), "i", "B"), "i_0", 4, outer_tag="g.0", inner_tag="l.0")
    knl = lk.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="l.0")
    for n in (0, 1, 6, 33):
        assert_same(chain(), knl, n=n)


@pytest.mark.deep
def test_a_reduction_iname_and_a_whole_reduction() -> None:
    plain = lk.make_kernel("{[i,k]: 0<=i<n and 0<=k<m}", """
        for i
            y[i] = sum(k, a[i,k]) {id=S}
            z[i] = y[i]*sum(k, 2*a[i,k]) {id=T}
        end
        """)
    plain = lk.add_dtypes(plain, {"a": F32})
    inner = lk.duplicate_inames(plain, "k", within="T")
    assert sorted(r.inames for r in inner.reductions.values()) == [("k",), ("k_0",)]
    outer = lk.duplicate_inames(plain, "i", within="T")
    for n, m in SIZES:
        assert_same(plain, inner, n=n, m=m)
        assert_same(plain, outer, n=n, m=m)
    with pytest.raises(lk.ScheduleError, match="only some parts of the reduction"):
        lk.duplicate_inames(plain, "i", within="T.k.update")


def test_a_loop_whose_statements_feed_each_other_is_not_distributed() -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 1<=i<n}", """
        for i
            a[i] = b[i-1] + 1 {id=A}
            b[i] = 2*a[i] {id=B}
        end
        """), {"b": F32})
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.duplicate_inames(knl, "i", within="B")
    w = caught.value.witness
    assert (w.kind, w.array, w.source, w.sink, dict(w.parameters)) == (
        "flow", "b", ("B", {"i_0": 1}), ("A", {"i": 2}), {"n": 3})
    assert lk.duplicate_inames(knl, "i", within="B", unsafe=True).obligations


def test_a_forward_read_is_not_distributed() -> None:
    knl = chain(second="b[i] = 2*a[i]", third="a[i+1] = x[i]")
    with pytest.raises(lk.IllegalTransformError):
        lk.duplicate_inames(knl, "i", within="C")


def test_a_value_between_the_loops_needs_cells() -> None:
    plain = lk.make_kernel("{[i]: 0<=i<8}", "for i\n <> t = 2*x[i] {id=A}\n y[i] = t + 1 {id=B}\nend")
    plain = lk.add_dtypes(plain, {"x": F32})
    with pytest.raises(lk.StorageError):
        lk.lower(lk.duplicate_inames(plain, "i", "B"))
    assert_same(plain, lk.duplicate_inames(lk.privatize(plain, "i", "t"), "i", "B"))


def test_a_rule_serves_both_copies() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", """
        here := x[i]
        for i
            a[i] = 2*here {id=A}
            b[i] = 3*here {id=B}
        end
        """), {"x": F32})
    assert_same(plain, lk.duplicate_inames(plain, "i", "B"), n=5)


# Chunk_iname

@pytest.mark.deep(every=3)
@pytest.mark.parametrize("count", [1, 2, 5])
def test_chunks(count: int) -> None:
    knl = step(twice(), lk.chunk_iname, "i", count)
    for n in (0, 1, 2, 5, 7, 20, 23):
        assert_same(twice(), knl, n=n)


def test_the_first_chunks_are_longer_by_one() -> None:
    knl = lk.chunk_iname(twice(), "i", 4, outer_iname="c", inner_iname="q")
    for n, lengths in ((10, (3, 3, 2, 2)), (3, (1, 1, 1, 0)), (12, (3, 3, 3, 3))):
        own = lk.fix_parameters(knl, n=n).statement("insn").domain
        assert own.is_equal(InstanceSet.parse("{[c,q]: 0<=q and (" + " or ".join(
            f"(c={k} and q<{length})" for k, length in enumerate(lengths)) + ")}"))


@pytest.mark.deep
def test_chunks_keep_a_recurrence_in_order() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i]: 1<=i<n}", "a[i] = a[i-1] + a[i]"), {"a": F32})
    knl = lk.chunk_iname(plain, "i", 3)
    assert knl.history[-1].verdict == "proven"
    for n in (0, 1, 2, 3, 9, 14):
        assert_same(plain, knl, n=n)
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.chunk_iname(plain, "i", 3, outer_tag="g.0")
    w = caught.value.witness
    assert (w.kind, w.source[1]["i_outer"], w.sink[1]["i_outer"]) == ("flow", 0, 1)


@pytest.mark.deep
def test_a_chunk_for_each_block() -> None:
    knl = lk.chunk_iname(twice(), "i", 4, outer_tag="g.0")
    knl = lk.split_iname(knl, "i_inner", 8, inner_tag="l.0")
    for n in (0, 1, 5, 40, 43):
        assert_same(twice(), knl, n=n)
    assert "n % 4" in str(lk.generate_code(knl, "cuda"))


@pytest.mark.deep
def test_chunks_of_a_triangle_and_of_two_axes() -> None:
    triangular = lk.chunk_iname(triangle(), "j", 3)
    both = lk.chunk_iname(lk.chunk_iname(scaled_matrix(), "i", 2), "j", 3)
    for n, m in SIZES:
        assert_same(triangle(), triangular, n=n)
        assert_same(scaled_matrix(), both, n=n, m=m)


@pytest.mark.deep
def test_chunks_of_a_reduction_iname() -> None:
    knl = lk.chunk_iname(matvec(), "k", 3)
    assert knl.reductions["insn.k"].inames == ("k_outer", "k_inner")
    for n, m in SIZES:
        assert_same(matvec(), knl, n=n, m=m)


@pytest.mark.deep(every=3)
@pytest.mark.parametrize("count", [2, 4, 7])
def test_chunks_ask_nothing_else_of_a_caller(count: int) -> None:
    """A guarded read needs no more elements, the output may be left out, and the shapes determine ``n``."""
    plain = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = if(i < n-1, x[i+1], 0)"), {"x": F32})
    knl = lk.chunk_iname(plain, "i", count)
    assert array_shapes(knl) == array_shapes(plain)
    assert fully_written_outputs(knl) == {"y"}
    for n in (1, 2, 5, 20):
        x = np.arange(n, dtype=F32)
        np.testing.assert_array_equal(knl(x=x).y, [*x[1:], 0])


def test_subscripts_of_chunks_are_short() -> None:
    knl = lk.chunk_iname(lk.make_kernel("{[i]: 1<=i<n-1}", "y[i] = x[i-1] + x[i+1]"), "i", 4)
    start = "i_outer*((n - 2) // 4) + min(i_outer, (n - 2) % 4) + i_inner"
    assert f"y[{start} + 1] = x[{start}] + x[{start} + 2]" in knl.statements_text
    with pytest.raises(lk.PreconditionError, match="'i_inner' has no constant range"):
        lk.add_prefetch(knl, "x", "i_inner")
    constant = lk.chunk_iname(lk.make_kernel("{[i]: 0<=i<22}", "y[i] = x[i]"), "i", 4)
    assert "y[5*i_outer + min(i_outer, 2) + i_inner]" in constant.statements_text


@pytest.mark.deep
def test_a_temporary_of_each_block_in_chunks() -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[b,i,j]: 0<=b<n and 0<=i,j<64}", """
        for b
            for i
                <> t[i] = x[b,i]
            end
            for j
                y[b,j] = t[j] + t[63 - j]
            end
        end
        """), {"x": F32})
    mapped = lk.chunk_iname(lk.chunk_iname(knl, "i", 5, inner_tag="l.0"), "j", 4, inner_tag="l.0")
    mapped = lk.tag_inames(mapped, "b:g.0")
    assert lk.verify(mapped).proven
    assert_same(knl, mapped, n=3)


@pytest.mark.deep
def test_chunks_of_one_of_two_loops() -> None:
    knl = lk.chunk_iname(two_loops(), "i", 3, within="second")
    assert knl.statement("first").inames == ("i",)
    for n in (0, 1, 2, 7):
        assert_same(two_loops(), knl, n=n)


def test_chunks_of_a_tagged_iname() -> None:
    mapped = lk.tag_inames(twice(), "i:g.0")
    with pytest.raises(lk.PreconditionError, match="cannot be chunked"):
        lk.chunk_iname(mapped, "i", 2)
    assert not lk.chunk_iname(mapped, "i", 2, do_tagged_check=False).tags


def test_one_range_of_several_is_chosen_by_an_assumption() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n and i<m}", "y[i] = 2*x[i]"), {"x": F32})
    with pytest.raises(lk.PreconditionError, match="first and the last value"):
        lk.chunk_iname(plain, "i", 2)
    known = lk.assume(plain, "n <= m")
    assert_same(known, lk.chunk_iname(known, "i", 2), n=5, m=8)


# Peel

def test_peel() -> None:
    knl = step(twice(), lk.peel, "i", first=2, last=1)
    assert outline(knl) == text("""
        for i_first
          insn_first: y[i_first] = 2*x[i_first]
        for i
          insn: y[i] = 2*x[i]
        for i_last
          insn_last: y[i_last] = 2*x[i_last]
        """)
    assert_domain(knl, "[n] -> {[i_first]: 0<=i_first<2 and i_first<n}", "[n] -> {[i]: 2<=i<n-1}",
                  "[n] -> {[i_last]: i_last=n-1 and i_last>=2}")
    for n in (0, 1, 2, 3, 4, 9):
        assert_same(twice(), knl, n=n)


@pytest.mark.deep
def test_peel_one_end() -> None:
    assert len(lk.peel(twice(), "i", 1).statements) == 2
    assert len(lk.peel(twice(), "i", last=3).statements) == 2
    for n in (0, 1, 3, 8):
        assert_same(twice(), lk.peel(twice(), "i", 1), n=n)
        assert_same(twice(), lk.peel(twice(), "i", last=3), n=n)


@pytest.mark.deep
def test_the_ends_of_an_inner_loop_follow_the_outer_one() -> None:
    knl = lk.peel(triangle(), "j", first=1, last=1)
    assert_domain(knl, "[n] -> {[i,j_first]: 0<=i<n and j_first=0}", "[n] -> {[i,j]: 0<=i<n and 1<=j<i}",
                  "[n] -> {[i,j_last]: 1<=i<n and j_last=i}")
    for n in (0, 1, 2, 7):
        assert_same(triangle(), knl, n=n)
        assert_same(triangle(), lk.peel(triangle(), "i", 2, 1), n=n)


def test_peel_keeps_a_recurrence_in_order() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i]: 1<=i<n}", "a[i] = a[i-1] + a[i]"), {"a": F32})
    knl = lk.peel(plain, "i", first=1, last=2)
    assert knl.history[-1].verdict == "proven"
    for n in (0, 1, 2, 3, 4, 9):
        assert_same(plain, knl, n=n)
    pairs = {(d.source, d.sink) for d in dependences(knl) if d.kind == "flow"}
    assert pairs == {("insn_first", "insn"), ("insn", "insn"), ("insn", "insn_last"), ("insn_last", "insn_last"),
                     ("insn_first", "insn_last")}
    with pytest.raises(lk.IllegalTransformError):
        lk.split_iname(knl, "i", 4, inner_tag="l.0")


@pytest.mark.deep
def test_what_is_left_is_free_of_the_ends() -> None:
    """Only the first iteration reads what another one writes: without it, the loop may be mapped."""
    plain = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "a[i] = a[0] + x[i]"), {"a,x": F32})
    with pytest.raises(lk.IllegalTransformError):
        lk.split_iname(plain, "i", 4, outer_tag="g.0", inner_tag="l.0")
    knl = lk.split_iname(lk.peel(plain, "i", 1), "i", 4, outer_tag="g.0", inner_tag="l.0")
    for n in (0, 1, 2, 11):
        assert_same(plain, knl, n=n)


def test_peel_around_a_reduction() -> None:
    knl = lk.peel(matvec(), "i", first=1, last=1)
    assert sorted(knl.reductions) == ["insn.k", "insn_first.k", "insn_last.k"]
    assert len({r.accumulator for r in knl.reductions.values()}) == 3
    assert "y[i_first] = sum(k, a[i_first, k]*x[k])" in knl.statements_text
    for n, m in SIZES:
        assert_same(matvec(), knl, n=n, m=m)
        assert_same(matmul(), lk.peel(matmul(), "j", 2), n=n, m=m, l=3)
    tiled = lk.add_prefetch(lk.split_iname(knl, "k", 4, within="insn"), "x", ["k_inner"], within="insn.k.update")
    assert_same(matvec(), tiled, n=5, m=9)


@pytest.mark.deep
def test_a_reduction_that_starts_empty() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i,k]: 0<=i<n and 0<=k<i}", "for i\n y[i] = sum(k, x[k])\nend"), {"x": F32})
    for n in (0, 1, 2, 7):
        assert_same(plain, lk.peel(plain, "i", 1), n=n)


def test_a_statement_at_one_end_keeps_its_id() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", """
        for i
            a[i] = x[i] {id=A}
            b[i] = 2*a[i] {id=B, if=i < 1}
            c[i] = a[i] + 1 {id=C, if=i >= 1, dep=A}
        end
        """), {"x": F32})
    knl = lk.peel(plain, "i", 1)
    assert outline(knl) == text("""
        for i_first
          A_first: a[i_first] = x[i_first]
          B: b[i_first] = 2*a[i_first]
        for i
          A: a[i] = x[i]
          C: c[i] = a[i] + 1
        """)
    assert knl.statement("C").options.depends_on == {"A", "A_first"}
    for n in (0, 1, 2, 7):
        assert_same(plain, knl, n=n)


def test_peel_of_one_of_two_loops_and_of_both() -> None:
    both = lk.peel(two_loops(), "i", 1, 1)
    one = lk.peel(two_loops(), "i", 1, 1, within="second")
    assert "first_first" in both.statement_by_id
    assert "first_first" not in one.statement_by_id
    for n in (0, 1, 2, 7):
        assert_same(two_loops(), both, n=n)
        assert_same(two_loops(), one, n=n)


@pytest.mark.deep
def test_peel_with_temporaries_and_rules() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", """
        here := x[i]
        for i
            <> t = 2*here {id=A}
            y[i] = t + here {id=B}
        end
        """), {"x": F32})
    knl = lk.peel(plain, "i", 1, 1)
    mapped = lk.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    for n in (0, 1, 2, 7):
        assert_same(plain, knl, n=n)
        assert_same(plain, mapped, n=n)


def test_peel_of_a_loop_with_strides_and_holes() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n and i mod 3 = 1}", "y[i] = 2*x[i]"), {"x": F32})
    for n in (0, 1, 2, 5, 17):
        assert_same(plain, lk.peel(plain, "i", 2, 4), n=n)


@pytest.mark.deep
def test_peel_then_tile_and_map() -> None:
    knl = lk.peel(lk.peel(scaled_matrix(), "i", 1), "j", 0, 1, within="insn")
    knl = lk.tile(knl, {"i": 4, "j": 4})
    knl = lk.tag_inames(knl, "i_outer:g.1, i_inner:l.1, j_outer:g.0, j_inner:l.0")
    for n, m in SIZES:
        assert_same(scaled_matrix(), knl, n=n, m=m)


def test_peel_of_a_whole_loop() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<3}", "y[i] = 2*x[i]"), {"x": F32})
    knl = lk.peel(plain, "i", 2, 2)
    assert [s.id for s in knl.statements] == ["insn_first", "insn_last"]
    assert_same(plain, knl)


def test_peel_of_a_loop_that_data_ends() -> None:
    plain = lk.make_kernel(["{[i]: 0<=i<n}", "[c] -> {[k]: 0<=k<c}"], """
        for i
            <> c = count[i]
            for k
                y[i,k] = x[k] {id=S}
            end
        end
        """)
    plain = lk.add_dtypes(plain, {"x": F32, "count": "int32"})
    knl = lk.peel(plain, "k", 1)
    assert {s.id for s in knl.statements} == {"insn", "S", "S_first"}
    with pytest.raises(lk.PreconditionError, match="read from memory"):
        lk.peel(plain, "k", last=1)


def test_peel_along_threads_is_checked() -> None:
    """The first iterations of one thread come before the later ones of all others."""
    plain = lk.add_dtypes(lk.make_kernel("{[i,t]: 0<=i<9 and 0<=t<9 and t<=i}", "a[i,t] = a[i-1,8-t] + 1"), {"a": F32})
    inside = lk.interchange(lk.tag_inames(plain, "t:l.0"), "i", "t")
    with pytest.raises(lk.IllegalTransformError):
        lk.peel(inside, "i", 1)


@pytest.mark.deep
def test_the_stencil_without_its_ends() -> None:
    for n in (0, 1, 2, 3, 4, 9):
        assert_same(stencil(), lk.peel(stencil(), "i", 1, 1), n=n)


REFUSED: dict[str, tuple[Callable[[], object], type[lk.LoopkitError], str]] = {
    "duplicate of no iname": (lambda: lk.duplicate_inames(chain(), "q", "B"), lk.UnknownNameError, "'q' is not"),
    "duplicate in no statement": (lambda: lk.duplicate_inames(chain(), "i", "Q"), lk.UnknownNameError, "'Q' is not"),
    "duplicate of nothing": (lambda: lk.duplicate_inames(chain(), "", "B"), lk.PreconditionError, "one or more"),
    "duplicate of one twice": (lambda: lk.duplicate_inames(chain(), "i,i", "B"), lk.PreconditionError, "different"),
    "duplicate of another's iname": (lambda: lk.duplicate_inames(nest(), "j", "C"), lk.PreconditionError,
                                     "No statement that within= selects"),
    "duplicate to a taken name": (lambda: lk.duplicate_inames(nest(), "i", "B", "j"), lk.NameConflictError, "'j'"),
    "duplicate to too many": (lambda: lk.duplicate_inames(chain(), "i", "B", "p, q"), lk.PreconditionError,
                              "as many new inames"),
    "duplicate to one name": (lambda: lk.duplicate_inames(nest(), "i, j", "B", "p, p"), lk.PreconditionError,
                              "a new name for each"),
    "tags of another iname": (lambda: lk.duplicate_inames(nest(), "i", "B", tags={"j": "g.0"}), lk.UnknownNameError,
                              "'j' is not"),
    "chunks of no iname": (lambda: lk.chunk_iname(twice(), "q", 2), lk.UnknownNameError, "'q' is not"),
    "no chunks": (lambda: lk.chunk_iname(twice(), "i", 0), lk.PreconditionError, "positive integer"),
    "chunks by one name": (lambda: lk.chunk_iname(twice(), "i", 2, "p", "p"), lk.PreconditionError, "different names"),
    "chunks by a taken name": (lambda: lk.chunk_iname(scaled_matrix(), "i", 2, "j"), lk.NameConflictError, "'j'"),
    "peel of no iname": (lambda: lk.peel(twice(), "q", 1), lk.UnknownNameError, "'q' is not"),
    "peel of nothing": (lambda: lk.peel(twice(), "i"), lk.PreconditionError, "a number of first or last"),
    "peel of a fraction": (lambda: lk.peel(twice(), "i", 0.5), lk.PreconditionError, "0.5"),    # type: ignore[arg-type]
    "peel of less than nothing": (lambda: lk.peel(twice(), "i", last=-1), lk.PreconditionError, "-1"),
    "peel of a tagged iname": (lambda: lk.peel(lk.tag_inames(twice(), "i:g.0"), "i", 1), lk.PreconditionError,
                               "cannot be peeled"),
    "peel around a reduction in pieces": (lambda: lk.peel(lk.prioritize_loops(matvec(), "k, i"), "i", 1),
                                          lk.ScheduleError, "different loops"),
    "peel of a part of a loop": (lambda: lk.peel(chain(), "i", 1, within="B"), lk.ScheduleError, "only some"),
    "peel within another loop": (lambda: lk.peel(nest(), "j", 1, within="C"), lk.PreconditionError,
                                 "No statement that within= selects"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    call, error, pattern = REFUSED[name]
    with pytest.raises(lk.LoopkitError) as caught:
        call()
    assert type(caught.value) is error
    assert re.search(pattern, str(caught.value)), caught.value
