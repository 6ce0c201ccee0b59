"""skew, shift, reverse, affine_map_inames."""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import islpy as isl
import numpy as np
import pytest

import loopkit as lk
from tests.language.outline import outline, text
from tests.transform.kernels import F32, matmul, matvec, scaled_matrix, triangle, twice, two_loops
from tests.transform.same import assert_domain, assert_same, step


def jacobi() -> lk.LoopKernel:
    knl = lk.make_kernel("{[t,i]: 0<=t<m and 1<=i<=n}", "a[t+1,i] = a[t,i-1] + 2*a[t,i] + a[t,i+1]")
    return lk.add_dtypes(knl, {"a": F32})


def in_place() -> lk.LoopKernel:
    knl = lk.make_kernel("{[t,i,j]: 0<=t<m and 1<=i<=n and 1<=j<=n}", """
        for t
            for i
                b[i] = a[i-1] + a[i+1] {id=new}
            end
            for j
                a[j] = b[j] {id=back}
            end
        end
        """)
    return lk.add_dtypes(knl, {"a": F32})


def pair(first: str, second: str) -> lk.LoopKernel:
    """Two statements in one loop."""
    knl = lk.make_kernel("{[i]: 0<=i<n}", f"for i\n {first} {{id=A}}\n {second} {{id=B}}\nend")
    return lk.add_dtypes(knl, {"x": F32, "a": F32})


def prefix(by: str = "{[i,j]: 0<=i<n and 1<=j<m}") -> lk.LoopKernel:
    return lk.add_dtypes(lk.make_kernel(by, "a[i,j] = a[i,j-1] + x[i,j]"), {"x": F32, "a": F32})


SIZES = ((0, 3), (1, 1), (3, 0), (4, 7), (9, 5))

# Skew


@pytest.mark.deep
def test_skew_keeps_the_order_and_moves_the_domain() -> None:
    knl = step(jacobi(), lk.skew, "i", by={"t": 1})
    assert_domain(knl, "[m,n] -> {[t,i]: 0<=t<m and t+1<=i<=t+n}")
    assert outline(knl) == text("""
        for t
          for i
            insn: a[t + 1, i + (-1)*t] = a[t, i + (-1)*t + -1] + 2*a[t, i + (-1)*t] + a[t, i + (-1)*t + 1]
        """)
    assert knl.history[-1].verdict == "proven"
    for m, n in SIZES:
        assert_same(jacobi(), knl, m=m, n=n)


@pytest.mark.deep
def test_a_jacobi_time_loop_can_be_tiled_once_it_is_skewed() -> None:
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.tile(jacobi(), {"t": 2, "i": 4})
    assert caught.value.witness.kind == "flow"
    with pytest.raises(lk.IllegalTransformError):
        lk.tile(lk.skew(jacobi(), "i", by={"t": -1}), {"t": 2, "i": 4})
    knl = lk.tile(lk.skew(jacobi(), "i", by={"t": 1}), {"t": 2, "i": 4})
    for m, n in SIZES:
        assert_same(jacobi(), knl, m=m, n=n)


@pytest.mark.deep
def test_a_skewed_loop_can_be_mapped_along_its_wave() -> None:
    sweep = lk.add_dtypes(lk.make_kernel("{[t,i]: 1<=t<=m and 1<=i<=n}", "a[t,i] = a[t-1,i] + a[t,i-1]"), {"a": F32})
    with pytest.raises(lk.IllegalTransformError):
        lk.split_iname(sweep, "t", 4, inner_tag="l.0")
    knl = lk.interchange(lk.skew(sweep, "i", by={"t": 1}), "t", "i")
    knl = lk.fix_parameters(knl, m=13)
    knl = lk.tag_inames(knl, "t:l.0")
    for n in (0, 1, 5, 18):
        assert_same(lk.fix_parameters(sweep, m=13), knl, n=n)
    assert "__syncwarp" in str(lk.generate_code(knl, "cuda"))


@pytest.mark.deep
def test_skew_then_tile_then_map() -> None:
    copy = lk.add_dtypes(lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", "y[i,j] = 2*x[j,i]"), {"x": F32})
    knl = lk.tile(lk.skew(copy, "j", by={"i": 2}), {"i": 4, "j": 8})
    knl = lk.tag_inames(knl, "i_outer:g.1, j_outer:g.0, i_inner:l.1, j_inner:l.0")
    for n, m in SIZES:
        assert_same(copy, knl, n=n, m=m)


def test_skew_by_several() -> None:
    cube = lk.add_dtypes(lk.make_kernel("{[i,j,k]: 0<=i<n and 0<=j<m and 0<=k<3}", "y[i,j,k] = 2*x[k,j,i]"), {"x": F32})
    knl = step(cube, lk.skew, "k", {"i": 1, "j": -2})
    assert_domain(knl, "[n,m] -> {[i,j,k]: 0<=i<n and 0<=j<m and i-2j<=k<i-2j+3}")
    assert_same(cube, knl, n=4, m=3)


@pytest.mark.deep
@pytest.mark.parametrize("by", ["3*i % 4", "i // 2 - 2*(i % 3)", "n - i"])
def test_skew_by_a_form_of_outer_inames(by: str) -> None:
    doubled = lk.make_kernel("{[i,j]: 0<=i<n and 1<=j<m}", "a[i,j] = 2*x[i,j]")
    for knl in (prefix(), lk.add_dtypes(doubled, {"x": F32})):
        skewed = step(knl, lk.skew, "j", by)
        assert "j - " in skewed.statements_text
        assert_same(knl, skewed, n=6, m=5)
        assert_same(knl, lk.split_iname(skewed, "j", 4), n=6, m=5)


@pytest.mark.parametrize(("by", "error"), [
    ("i*i", lk.PreconditionError), ("j % 4", lk.ScheduleError), ("k % 4", lk.UnknownNameError), ("i %", lk.ParseError),
    ("x[i]", lk.PreconditionError), ("i % n", lk.PreconditionError)])
def test_a_skew_by_something_else_is_refused(by: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"skew|'j'|'k'"):
        lk.skew(prefix(), "j", by)


def test_columns_that_move_with_the_remainder_of_their_row_keep_their_rows_in_order() -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i,j]: 1<=i<n and 0<=j<m}", "a[i,j] = a[i-1,j] + 1"), {"a": F32})
    assert_same(knl, lk.interchange(knl, "i", "j"), n=5, m=3)
    with pytest.raises(lk.IllegalTransformError, match="n = 3"):
        lk.interchange(lk.skew(knl, "j", "i % 2"), "i", "j")


@pytest.mark.deep
def test_skew_of_one_of_two_loops() -> None:
    knl = lk.skew(in_place(), "j", {"t": 1})
    assert_domain(knl, "[m,n] -> {[t,i]: 0<=t<m and 1<=i<=n}", "[m,n] -> {[t,j]: 0<=t<m and t+1<=j<=t+n}")
    both = lk.skew(knl, "i", {"t": 1}, within="new")
    for m, n in SIZES:
        assert_same(in_place(), knl, m=m, n=n)
        assert_same(in_place(), both, m=m, n=n)


@pytest.mark.deep
def test_skew_of_a_reduction_iname() -> None:
    knl = step(matvec(), lk.skew, "k", {"i": 1})
    assert knl.reductions["insn.k"].inames == ("k",)
    assert "sum(k, a[i, k - i]*x[k - i])" in knl.statements_text
    tiled = lk.split_iname(knl, "k", 4)
    for n, m in SIZES:
        assert_same(matvec(), knl, n=n, m=m)
        assert_same(matvec(), tiled, n=n, m=m)


@pytest.mark.deep
def test_skew_by_what_an_address_is_behind_a_line() -> None:
    rows = lk.add_dtypes(lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<29}", "y[i,j] = 2*x[j,i]"), {"x": F32})
    knl = step(rows, lk.skew, "j", "29*i % 8")
    assert_domain(knl, "[n] -> {[i,j]: 0<=i<n and 0 <= j - ((5i) mod 8) < 29}")
    whole = lk.split_iname(knl, "j", 8, outer_tag="g.0", inner_tag="l.0")
    # where the pieces of a row begin: the first of each starts at a multiple of 8 elements
    begins = {29*i + 8*k - 29*i % 8 for i in range(9) for k in range(4)}
    assert all(at % 8 == 0 for at in begins)
    assert "y[i, 8*j_outer + j_inner - 29*i % 8]" in whole.statements_text
    assert lk.verify(whole).proven
    for n in (0, 1, 9):
        assert_same(rows, knl, n=n)
        assert_same(rows, whole, n=n)


def test_a_skew_by_a_remainder_may_break_a_dependence() -> None:
    sweep = lk.make_kernel("{[t,i]: 1<=t<m and 0<=i<n}", "a[t,i] = 2*a[t-1,i]")
    skewed = lk.skew(sweep, "i", "3*t % 4")
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.interchange(skewed, "t", "i")
    assert caught.value.witness.array == "a"


def test_a_rule_whose_argument_is_called_like_the_outer_iname() -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", """
        near(i) := x[j] + i
        twice(s) := 2*near(s)
        y[i,j] = twice(3*i) + near(j)
        """), {"x": F32})
    skewed = lk.skew(knl, "j", {"i": 1})
    assert not skewed.substitutions
    assert_same(knl, skewed, n=4, m=3)


def test_a_rule_with_a_free_iname_follows() -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", "here := x[j]\ny[i,j] = 2*here"), {"x": F32})
    skewed = lk.skew(knl, "j", {"i": 1})
    assert set(skewed.substitutions) == {"here"}
    assert_same(knl, skewed, n=4, m=3)


def test_skew_along_threads_is_checked() -> None:
    """Threads wait for each other in an inner loop; counted from other starts, they would wait for other iterations."""
    plain = lk.add_dtypes(lk.make_kernel("{[i,t]: 1<=i<n and 0<=t<8}", "a[t,i] = a[7-t,i-1] + 1"), {"a": F32})
    inside = lk.interchange(lk.tag_inames(plain, "t:l.0"), "i", "t")
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.skew(inside, "i", {"t": 1})
    assert caught.value.witness.array == "a"
    kept = lk.skew(inside, "i", {"t": 1}, unsafe=True)
    assert kept.history[-1].verdict == "unsafe"
    assert kept.obligations


# Shift

@pytest.mark.deep(every=5)
@pytest.mark.parametrize("by", [1, -3, "n", "2*n - 1", "n // 2"])
def test_shift_of_a_loop(by: int | str) -> None:
    knl = step(twice(), lk.shift, "i", by)
    for n in (0, 1, 7):
        assert_same(twice(), knl, n=n)


def test_shift_domain() -> None:
    assert_domain(lk.shift(triangle(), "j", "n - 1"), "[n] -> {[i,j]: 0<=i<n and n-1<=j<=i+n-1}")
    assert "y[i + 1] = 2*x[i + 1]" in lk.shift(twice(), "i", -1).statements_text


def test_shift_aligns_two_statements() -> None:
    """A reader that needs the next value runs one iteration later; or, from one of the last, earlier."""
    knl = pair("a[i+1] = x[i]", "b[i] = 2*a[i+1] + a[i]")
    later = step(knl, lk.shift, "i", 1, within="B")
    assert_domain(later, "[n] -> {[i]: 0<=i<n}", "[n] -> {[i]: 1<=i<=n}")
    for n in (0, 1, 6):
        assert_same(knl, later, n=n)
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.shift(knl, "i", -1, within="B")
    w = caught.value.witness
    assert (w.kind, w.array, w.source[0], w.sink[0]) == ("flow", "a", "A", "B")
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.shift(knl, "i", "n", within="A")
    assert caught.value.witness.parameters["n"] >= 1


def test_shift_by_so_much_that_one_statement_runs_after_the_other() -> None:
    knl = pair("a[i] = x[i]", "b[i] = 2*a[i]")
    shifted = lk.shift(knl, "i", "n", within="B")
    for n in (0, 1, 6):
        assert_same(knl, shifted, n=n)


def test_shift_unsafe_is_recorded() -> None:
    knl = lk.shift(pair("a[i] = x[i]", "b[i] = 2*a[i]"), "i", -1, within="B", unsafe=True)
    assert [o.verdict for o in knl.obligations] == ["unsafe"]


def test_what_cannot_be_decided_may_be_assumed() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "for i\n a[p[i]] = x[i] {id=A}\n b[i] = a[p[i]] {id=B}\nend")
    knl = lk.add_dtypes(knl, {"x,a": F32, "p": np.int32})
    with pytest.raises(lk.UndecidedError):
        lk.shift(knl, "i", 1, within="B")
    assumed = lk.shift(knl, "i", 1, within="B", assume="p is a permutation")
    assert assumed.history[-1].verdict == "assumed"


def test_shift_takes_a_whole_reduction() -> None:
    plain = lk.make_kernel("{[i,k]: 0<=i<n and 0<=k<m}", """
        for i
            y[i] = sum(k, a[i,k]) {id=S}
            z[i] = y[i] + 1 {id=T}
        end
        """)
    plain = lk.add_dtypes(plain, {"a": F32})
    knl = lk.shift(plain, "i", 2, within="T")
    early = lk.shift(plain, "i", -1, within="S")
    for n, m in SIZES:
        assert_same(plain, knl, n=n, m=m)
        assert_same(plain, early, n=n, m=m)
    with pytest.raises(lk.ScheduleError, match="only some parts of the reduction"):
        lk.shift(plain, "i", 1, within="S.k.update")


def test_a_rule_serves_shifted_and_other_statements() -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", """
        here := x[i]
        more(s) := here + s
        for i
            a[i] = more(1) {id=A}
            b[i] = more(2) {id=B, if=here > 0}
        end
        """), {"x": F32})
    shifted = lk.shift(knl, "i", 1, within="B")
    for n in (0, 1, 6):
        assert_same(knl, shifted, n=n)


def test_a_temporary_that_waits_for_a_shifted_reader_needs_cells() -> None:
    """The order is legal; one cell does not hold the values of two iterations, and lowering says so."""
    plain = lk.make_kernel("{[i]: 0<=i<16}", "for i\n <> t = 2*x[i] {id=A}\n y[i] = t + 1 {id=B}\nend")
    plain = lk.add_dtypes(plain, {"x": F32})
    with pytest.raises(lk.StorageError):
        lk.lower(lk.shift(plain, "i", 1, within="B"))
    assert_same(plain, lk.shift(lk.privatize(plain, "i", ["t"]), "i", 1, within="B"))


# Reverse

def test_reverse() -> None:
    knl = step(twice(), lk.reverse, "i")
    assert_domain(knl, "[n] -> {[i]: 0<=i<n}")
    assert outline(lk.reverse(knl, "i")) == outline(twice())
    for n in (0, 1, 6):
        assert_same(twice(), knl, n=n)


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("domain", ["{[i]: 2<=i<n}", "{[i]: 0<=i<n and i<m}", "{[i]: 0<=i<n and i mod 3 = 1}",
                                    "{[i]: 0<=2*i<n}"])
def test_reverse_of_other_ranges(domain: str) -> None:
    plain = lk.add_dtypes(lk.make_kernel(domain, "y[i] = 2*x[i]"), {"x": F32})
    knl = lk.reverse(plain, "i")
    for n in (0, 1, 8):
        assert_same(plain, knl, n=n, **({"m": 5} if "m" in plain.value_params else {}))


@pytest.mark.deep
def test_reverse_of_a_triangle() -> None:
    for iname in ("i", "j"):
        knl = lk.reverse(triangle(), iname)
        for n in (0, 1, 6):
            assert_same(triangle(), knl, n=n)


def test_reverse_makes_a_backward_dependence_legal_to_interchange() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[t,i]: 1<=t<m and 0<=i<n}", "a[t,i] = a[t-1,i+1] + 1"), {"a": F32})
    with pytest.raises(lk.IllegalTransformError):
        lk.interchange(plain, "t", "i")
    knl = lk.interchange(lk.reverse(plain, "i"), "i", "t")
    for m, n in SIZES:
        assert_same(plain, knl, m=m, n=n)


@pytest.mark.deep
def test_reverse_of_a_recurrence_is_refused() -> None:
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.reverse(prefix(), "j")
    w = caught.value.witness
    assert (w.kind, w.array, w.element) == ("flow", "a", (0, 1))
    assert dict(w.parameters) == {"m": 3, "n": 1}
    for n, m in SIZES:
        assert_same(prefix(), lk.reverse(prefix(), "i"), n=n, m=m)


@pytest.mark.deep
def test_reverse_of_a_reduction_iname() -> None:
    for n, m in SIZES:
        assert_same(matvec(), lk.reverse(matvec(), "k"), n=n, m=m)
        assert_same(matvec(), lk.reverse(matvec(), "i"), n=n, m=m)


def test_reverse_of_one_of_two_loops() -> None:
    knl = lk.reverse(two_loops(), "i", within="second")
    for n in (0, 1, 6):
        assert_same(two_loops(), knl, n=n)
    some = lk.reverse(pair("a[i] = x[i]", "b[i] = 2*x[i]"), "i", within="A")
    assert len(some.tree.children) == 2


# Affine_map_inames

@pytest.mark.deep(every=10)
@pytest.mark.parametrize(("new", "equations"), [
    ("u, v", ["u = i + j", "v = j"]), ("u, v", ["i = u + 2*v", "j = v"]), ("u, v", ["u = 2*i + 1", "v = i - 3*j"]),
    ("u, v", ["u = j", "i = v + n"]), ("u, v", [("u", "i - j"), ("v", "-j")]), ("u, v, w", ["u = i // 3", "v = i % 3",
                                                                                            "w = j"]),
    ("u, v", "u = i + j, v = j"), ("u, v", "u == i + j and v == j"), ("u, v", "u = i; j = v"),
    ("u, v", ["u = i + j, v = j"]), ("u, v", (("u", "i"), "v = j"))])
def test_maps(new: str, equations: Any) -> None:
    plain = scaled_matrix()
    knl = step(plain, lk.affine_map_inames, "i, j", new, equations)
    assert list(knl.statement("insn").inames) == new.split(", ")
    for n, m in SIZES:
        assert_same(plain, knl, n=n, m=m)


def test_a_map_of_one_iname() -> None:
    knl = lk.affine_map_inames(twice(), ["i"], ["q"], "q = 3*i + n")
    assert_domain(knl, "[n] -> {[q]: n<=q<4n and (q - n) mod 3 = 0}")
    for n in (0, 1, 6):
        assert_same(twice(), knl, n=n)


def test_a_map_that_is_one_to_one_on_the_domain_alone() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<8}", "y[i,j] = 2*x[i,j]"), {"x": F32})
    knl = lk.affine_map_inames(plain, "i, j", "q", "q = 8*i + j")
    assert_domain(knl, "[n] -> {[q]: 0<=q<8n}")
    for n in (0, 1, 6):
        assert_same(plain, knl, n=n)


@pytest.mark.deep
def test_a_wavefront() -> None:
    sweep = lk.add_dtypes(lk.make_kernel("{[i,j]: 1<=i<=n and 1<=j<=m}", "a[i,j] = a[i-1,j] + a[i,j-1]"), {"a": F32})
    knl = lk.affine_map_inames(sweep, "i, j", "wave, k", ["wave = i + j", "k = j"])
    for n, m in SIZES:
        assert_same(sweep, knl, n=n, m=m)
    mapped = lk.tag_inames(lk.fix_parameters(knl, m=9), "k:l.0")
    assert_same(lk.fix_parameters(sweep, m=9), mapped, n=7)
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.affine_map_inames(sweep, "i, j", "wave, k", ["wave = i - j", "k = j"])
    assert caught.value.witness.array == "a"


@pytest.mark.deep
def test_a_map_under_and_over_other_loops() -> None:
    knl = lk.affine_map_inames(matmul(), "i, j", "u, v", ["u = i - j", "v = i"])
    tiled = lk.split_iname(knl, "v", 3)
    assert_same(matmul(), knl, n=4, m=5, l=3)
    assert_same(matmul(), tiled, n=4, m=5, l=3)
    plain = lk.add_dtypes(lk.make_kernel("{[i,j,k]: 0<=i<n and 0<=j<m and 0<=k<l}", "y[i,j,k] = 2*x[k,j,i]"),
                          {"x": F32})
    assert_same(plain, lk.affine_map_inames(plain, "k, j", "u, v", ["u = k + j", "v = k"]), n=2, m=5, l=3)


def test_a_map_by_another_iname() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<5}", "y[i,j] = x[i+j] + 2*j"), {"x": F32})
    knl = lk.affine_map_inames(plain, "i", "s", "s = i + 2*j + n")
    assert knl.statements[0].inames == ("s", "j")
    for n in (0, 4):
        assert_same(plain, knl, n=n)


def test_a_map_of_one_of_two_loops() -> None:
    knl = lk.affine_map_inames(two_loops(), "i", "q", "q = -i", within="first")
    assert knl.statement("first").inames == ("q",)
    assert knl.statement("second").inames == ("i",)
    for n in (0, 1, 6):
        assert_same(two_loops(), knl, n=n)


def test_a_map_with_a_rule() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", "here(s) := x[i] + s\ny[i,j] = here(j)"),
                          {"x": F32})
    assert_same(plain, lk.affine_map_inames(plain, "i, j", "u, v", ["u = i + j", "v = j"]), n=4, m=5)


# Map_domain

@pytest.mark.parametrize("transform_map", [
    "{ [i, j] -> [u, v, w] : i = 8u + v and 0 <= v < 8 and w = j }",
    isl.Map("{ [j, i] -> [r, q, c] : r = i mod 4 and 4q = i - r and c = -j }"),
    isl.BasicMap("[n] -> { [i] -> [u] : exists e : u = 2e and i = n + e }"),
    "{ [j] -> [u] : (j mod 2 = 0 and u = j) or (j mod 2 = 1 and u = j) }"])
def test_map_domain(transform_map: Any) -> None:
    """Quasi-affine maps, maps of some inames, and a union of maps."""
    plain = scaled_matrix()
    knl = lk.map_domain(plain, transform_map)
    for n, m in SIZES:
        assert_same(plain, knl, n=n, m=m)
    again = lk.replay(plain, knl.history)
    assert again == knl


def test_map_domain_is_split_iname_and_affine_map_inames() -> None:
    split, mapped = (f(twice()) for f in (
        lambda knl: lk.split_iname(knl, "i", 32),
        lambda knl: lk.map_domain(knl, "{ [i] -> [i_outer, i_inner] : i = 32i_outer + i_inner and 0<=i_inner<32 }")))
    assert split.statements == mapped.statements
    text = "{ [i, j] -> [wave, k] : wave = i + j and k = j }"
    assert lk.map_domain(scaled_matrix(), text) == lk.affine_map_inames(
        scaled_matrix(), "i, j", "wave, k", ["wave = i + j", "k = j"])


def test_diamond_tiles_by_an_isl_map() -> None:
    """The tiles of a stencil in time: legal in the order of the tiles, refused with the tile's loops turned."""
    knl = lk.make_kernel("{[t,x]: 0<=t<m and 1<=x<n-1}",
                         "u[t+2,x] = 2*u[t+1,x] + u[t+1,x+1] + u[t+1,x-1] - u[t,x]")
    knl = lk.add_dtypes(knl, {"u": F32})
    diamonds = lk.map_domain(knl, "{ [t, x] -> [tt, parity, tx, b, a] : 4*(tx - tt) + a - b = x - t and "
                                  "4*(tx + tt + parity) + b + a = x + t and 0 <= parity < 2 and 0 <= a - b < 4 and "
                                  "0 <= a + b < 4 }")
    assert diamonds.history[-1].verdict == "proven"
    for m, n in ((0, 3), (5, 9), (7, 4)):
        assert_same(knl, diamonds, m=m, n=n)
    with pytest.raises(lk.IllegalTransformError):
        lk.interchange(diamonds, "tt", "tx")


# Refused

def mapped(knl: lk.LoopKernel) -> lk.LoopKernel:
    return lk.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")


REFUSED: dict[str, tuple[Callable[[], object], type[lk.LoopkitError], str]] = {
    "skew of no iname": (lambda: lk.skew(jacobi(), "q", {"t": 1}), lk.UnknownNameError, "'q' is not an iname"),
    "skew by no iname": (lambda: lk.skew(jacobi(), "i", {"q": 1}), lk.UnknownNameError, "'q' is not an iname"),
    "skew by an inner iname": (lambda: lk.skew(jacobi(), "t", {"i": 1}), lk.ScheduleError, "interchange"),
    "skew by itself": (lambda: lk.skew(jacobi(), "i", {"i": 1}), lk.ScheduleError, "is not inside"),
    "skew by a sibling": (lambda: lk.skew(in_place(), "i", {"j": 1}), lk.ScheduleError, "is not inside"),
    "skew by a fraction": (lambda: lk.skew(jacobi(), "i", {"t": 0.5}), lk.PreconditionError,    # type: ignore[dict-item]
                           "by= must be a mapping of texts to integers or a text, not"),
    "skew by nothing": (lambda: lk.skew(jacobi(), "i", {}), lk.PreconditionError, "the factor of at least one"),
    "skew of a tagged iname": (lambda: lk.skew(lk.tag_inames(scaled_matrix(), "j:g.0"), "j", {"i": 1}),
                               lk.PreconditionError, "cannot be skewed"),
    "within without the iname": (lambda: lk.skew(in_place(), "i", {"t": 1}, within="back"), lk.PreconditionError,
                                 "No statement that within= selects"),
    "shift of a tagged iname": (lambda: lk.shift(mapped(twice()), "i_inner", 1), lk.PreconditionError,
                                "cannot be shifted"),
    "skew by a product": (lambda: lk.skew(scaled_matrix(), "j", "n*i % 8"), lk.PreconditionError,
                          r"not 'n\*i % 8'.*\n.*fix_parameters"),
    "skew by a form of an unknown name": (lambda: lk.skew(scaled_matrix(), "j", "q % 8"),
                                          lk.UnknownNameError, "'q' is not an iname"),
    "skew by parameters": (lambda: lk.skew(scaled_matrix(), "j", "n"), lk.PreconditionError, r"shift\(knl, 'j', 'n'\)"),
    "skew by a form of an inner iname": (lambda: lk.skew(scaled_matrix(), "i", "j % 8"),
                                         lk.ScheduleError, "interchange"),
    "skew by a form of itself": (lambda: lk.skew(scaled_matrix(), "i", "i % 8"),
                                 lk.ScheduleError, "is not inside"),
    "skew by no expression": (lambda: lk.skew(scaled_matrix(), "j", "i %"), lk.ParseError, "line 1"),
    "shift by a fraction": (lambda: lk.shift(twice(), "i", 0.5), lk.PreconditionError, "0.5"),  # type: ignore[arg-type]
    "shift by an unknown name": (lambda: lk.shift(twice(), "i", "q"), lk.PreconditionError, "'q'"),
    "shift by an iname": (lambda: lk.shift(scaled_matrix(), "j", "i"), lk.PreconditionError, "'i'"),
    "shift by a product": (lambda: lk.shift(scaled_matrix(), "j", "n*m"), lk.PreconditionError, "'n.m'"),
    "shift by no expression": (lambda: lk.shift(twice(), "i", "n +"), lk.ParseError, "line 1"),
    "shift within nothing": (lambda: lk.shift(twice(), "i", 1, within="q"), lk.UnknownNameError, "'q'"),
    "reverse of no iname": (lambda: lk.reverse(twice(), "q"), lk.UnknownNameError, "'q' is not an iname"),
    "reverse of a tagged iname": (lambda: lk.reverse(mapped(twice()), "i_inner"), lk.PreconditionError,
                                  "cannot be reversed"),
    "map to a taken name": (lambda: lk.affine_map_inames(scaled_matrix(), "i", "j", "i = j"), lk.NameConflictError,
                            "'j' is taken"),
    "map of one twice": (lambda: lk.affine_map_inames(twice(), "i, i", "u", "i = u"), lk.PreconditionError,
                         "different inames"),
    "map to nothing": (lambda: lk.affine_map_inames(twice(), "i", "", "i = 0"), lk.PreconditionError, "new_inames"),
    "an equation of one side": (lambda: lk.affine_map_inames(twice(), "i", "u", "i + u"), lk.PreconditionError,
                                "two sides"),
    "equations without a sign": (lambda: lk.affine_map_inames(twice(), "i", "u", ("u", "i")), lk.PreconditionError,
                                 "'u' is not an equation with two sides"),
    "an equation of one side among several": (lambda: lk.affine_map_inames(twice(), "i", "u", "u = i and i"),
                                              lk.PreconditionError, "'i' is not an equation with two sides"),
    "no equations": (lambda: lk.affine_map_inames(twice(), "i", "u", []), lk.PreconditionError, "needs equations"),
    "a number for equations": (lambda: lk.affine_map_inames(twice(), "i", "u", 3), lk.PreconditionError,
                               "equations= must be a text or a list of texts or tuples .*, not 3"),
    "an equation with a minimum": (
        lambda: lk.affine_map_inames(scaled_matrix(), "i, j", "u, v", "u = min(i, j), v = j"),
        lk.PreconditionError, r"'u = min\(i, j\)' is not affine"),
    "an equation that is not affine": (lambda: lk.affine_map_inames(twice(), "i", "u", "i = u*u"),
                                       lk.PreconditionError, "not affine"),
    "an equation with a product": (lambda: lk.affine_map_inames(scaled_matrix(), "i", "u", "i = u*j"),
                                   lk.PreconditionError, r"The equation 'i = u\*j' is not affine in i, u"),
    "an equation with another statement's iname": (
        lambda: lk.affine_map_inames(lk.make_kernel("{[i,j]: 0<=i,j<n}", "y[i,j] = 1\nz[i] = 2"), "i", "s", "s = i+j"),
        lk.PreconditionError, "is not affine in i, s"),
    "an equation that is none": (lambda: lk.affine_map_inames(twice(), "i", "u", "i = +"), lk.ParseError, "line 1"),
    "a map that loses points": (lambda: lk.affine_map_inames(twice(), "i", "u", "i = 2*u"), lk.PreconditionError,
                                r"insn\[i=1\] \(with n = 2\) to no point of u"),
    "a map that leaves an iname open": (lambda: lk.affine_map_inames(twice(), "i", "u, v", "i = u + v"),
                                        lk.PreconditionError, r"insn\[i=0\] .*to several points of u, v"),
    "a map of two points to one": (lambda: lk.affine_map_inames(scaled_matrix(), "i, j", "u", "u = i + j"),
                                   lk.PreconditionError, r"insn\[i=0, j=1\] .* and insn\[i=1, j=0\] to one point"),
    "a map of a part": (lambda: lk.affine_map_inames(matvec(), "i, k", "u, v", ["u = i + k", "v = i"]),
                        lk.ScheduleError, "has only i"),
    "a map of loops that are apart": (lambda: lk.affine_map_inames(
        lk.prioritize_loops(lk.make_kernel("{[i,j,k]: 0<=i,j,k<n}", "y[i,j,k] = 1"), "i, j, k"), "i, k", "u, v",
        ["u = i + k", "v = i"]), lk.ScheduleError, "not perfectly nested"),
    "a map of an unknown iname": (lambda: lk.map_domain(twice(), "{ [q] -> [u] : u = q }"), lk.UnknownNameError,
                                  "'q'"),
    "a map with an unknown parameter": (lambda: lk.map_domain(twice(), "[q] -> { [i] -> [u] : u = i + q }"),
                                        lk.UnknownNameError, "'q' is not a parameter"),
    "a map without names": (lambda: lk.map_domain(twice(), "{ [i] -> [i] }"), lk.ParseError, "another name for each"),
    "a map that is none": (lambda: lk.map_domain(twice(), "{ [i] -> "), lk.ParseError, "cannot be read"),
    "a map to a taken name": (lambda: lk.map_domain(scaled_matrix(), "{ [i] -> [m] : m = i }"), lk.NameConflictError,
                              "'m' is taken"),
    "a map to remainders": (lambda: lk.map_domain(twice(), "{ [i] -> [u] : u = i mod 3 }"), lk.PreconditionError,
                            r"insn\[i=0\] \(with n = 4\) and insn\[i=3\] to one point of u"),
    "a map of pieces": (lambda: lk.map_domain(twice(), "{ [i] -> [u] : (u = -i and i < 4) or (i >= 4 and u = i) }"),
                        lk.PreconditionError, "does not give i as one affine form of u"),
    "a number for a map": (lambda: lk.map_domain(twice(), 3), lk.PreconditionError,  # type: ignore[arg-type]
                           "transform_map= must be a text or an isl map, not 3"),
    "a map of a tagged iname": (lambda: lk.affine_map_inames(mapped(twice()), "i_inner", "u", "u = -i_inner"),
                                lk.PreconditionError, "cannot be mapped"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    call, error, pattern = REFUSED[name]
    with pytest.raises(lk.LoopkitError) as caught:
        call()
    assert type(caught.value) is error

    assert re.search(pattern, str(caught.value)), caught.value


def test_no_statement_of_within_has_the_inames() -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i,j<n}", "y[i] = x[i] {id=A}\nz[j] = x[j] {id=B}")
    with pytest.raises(lk.PreconditionError, match="selects has the iname 'i'"):
        lk.affine_map_inames(knl, "i", "k", "k = i + 1", within="B")


def test_no_affine_form_of_the_new_inames() -> None:
    """One-to-one, though the two runs of values lie in one run of the new iname."""
    knl = lk.make_kernel("{[i]: 0<=i<4 or 13<=i<16}", "y[i] = x[i]")
    with pytest.raises(lk.PreconditionError, match="does not give i as one affine form of k"):
        lk.affine_map_inames(knl, "i", "k", "k = i % 8")
    with pytest.raises(lk.ScheduleError, match="The inames of 'insn' are not affine forms of the times"):
        lk.apply_schedule(knl, {"insn": "[i % 8]"})


def test_a_loop_without_instances() -> None:
    knl = lk.fix_parameters(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]"), n=0)
    assert "y[-i] = 2*x[-i]" in lk.reverse(knl, "i").statements_text
