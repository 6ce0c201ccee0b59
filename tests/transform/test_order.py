"""prioritize_loops, interchange, tile."""
from __future__ import annotations

import pytest

import loopkit as lk
from tests.language.outline import outline, text
from tests.transform.kernels import F32, matmul, matvec, scaled_matrix, triangle, two_loops
from tests.transform.same import assert_domain, assert_same, step

# Prioritize_loops


def test_prioritize_nests_in_the_order_given() -> None:
    knl = step(scaled_matrix(), lk.prioritize_loops, "j, i")
    assert outline(knl) == text("""
        for j
          for i
            insn: y[i, j] = 2*x[i, j] + i + (-1)*j
        """)
    assert knl.domains_text == scaled_matrix().domains_text     # the instances are the same, their order is not
    assert "for j, i" in str(knl)
    assert_same(scaled_matrix(), knl, n=3, m=5)


def test_prioritize_takes_a_sequence() -> None:
    assert outline(lk.prioritize_loops(scaled_matrix(), ["j", "i"])) == outline(
        lk.prioritize_loops(scaled_matrix(), "j,i"))


def test_the_order_that_stands_is_kept() -> None:
    assert outline(step(matmul(), lk.prioritize_loops, "i, j, k")) == outline(matmul())


def test_what_is_not_named_keeps_its_place() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i,j,k]: 0<=i<n and 0<=j<m and 0<=k<l}", "y[i,j,k] = 2*x[k,j,i]"),
                          {"x": F32})
    knl = lk.prioritize_loops(plain, "k, i")
    assert outline(knl) == text("""
        for j
          for k
            for i
              insn: y[i, j, k] = 2*x[k, j, i]
        """)
    assert_same(plain, knl, n=2, m=3, l=4)


def test_a_loop_that_goes_inside_a_reduction_is_distributed() -> None:
    knl = step(matvec(), lk.prioritize_loops, "k, i")
    assert outline(knl) == text("""
        for i
          insn.k.init: acc_k = neutral(sum)
        for k
          for i
            insn.k.update: acc_k sum= a[i, k]*x[k]
        for i
          insn: y[i] = acc_k
        """)
    assert_same(matvec(), knl, n=5, m=7)


def test_a_loop_is_distributed_over_statements() -> None:
    plain = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", """
        for i
            b[i] = 2*x[i] {id=first}
            for j
                y[i,j] = b[i] + j {id=second}
            end
        end
        """)
    plain = lk.add_dtypes(plain, {"x": F32})
    knl = step(plain, lk.prioritize_loops, "j, i")
    assert outline(knl) == text("""
        for i
          first: b[i] = 2*x[i]
        for j
          for i
            second: y[i, j] = b[i] + j
        """)
    assert_same(plain, knl, n=4, m=3)


def test_a_triangle_keeps_its_points() -> None:
    for n in (1, 2, 9):
        assert_same(triangle(), lk.prioritize_loops(triangle(), "j, i"), n=n)


def test_prioritize_then_split_then_prioritize() -> None:
    knl = lk.split_iname(lk.prioritize_loops(scaled_matrix(), "j, i"), "i", 4)
    knl = lk.prioritize_loops(knl, "i_outer, j, i_inner")
    assert knl.statement("insn").inames == ("i_outer", "i_inner", "j")      # an instance set has its own order
    assert_same(scaled_matrix(), knl, n=10, m=3)


# Interchange

def test_interchange() -> None:
    knl = step(scaled_matrix(), lk.interchange, "i", "j")
    assert outline(knl) == outline(lk.prioritize_loops(scaled_matrix(), "j, i"))
    assert_same(scaled_matrix(), knl, n=3, m=5)


def test_interchange_twice_is_nothing() -> None:
    knl = lk.interchange(lk.interchange(scaled_matrix(), "i", "j"), "i", "j")
    assert outline(knl) == outline(scaled_matrix())


def test_interchange_does_not_ask_which_is_outside() -> None:
    assert outline(lk.interchange(scaled_matrix(), "j", "i")) == outline(lk.interchange(scaled_matrix(), "i", "j"))


def test_loops_between_the_two_stay() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i,j,k]: 0<=i<n and 0<=j<m and 0<=k<l}", "y[i,j,k] = 2*x[k,j,i]"),
                          {"x": F32})
    knl = lk.interchange(plain, "i", "k")
    assert outline(knl) == text("""
        for k
          for j
            for i
              insn: y[i, j, k] = 2*x[k, j, i]
        """)
    assert_same(plain, knl, n=2, m=3, l=4)


# Tile

def test_tile() -> None:
    knl = step(scaled_matrix(), lk.tile, {"i": 4, "j": 8})
    assert outline(knl) == text("""
        for i_outer
          for j_outer
            for i_inner
              for j_inner
                insn: y[4*i_outer + i_inner, 8*j_outer + j_inner] = """
        "2*x[4*i_outer + i_inner, 8*j_outer + j_inner] + 4*i_outer + i_inner + (-1)*(8*j_outer + j_inner)\n")
    assert_domain(knl, "[n, m] -> { [i_outer, i_inner, j_outer, j_inner] : 0 <= i_inner < 4 and 0 <= j_inner < 8 "
                       "and 0 <= 4i_outer + i_inner < n and 0 <= 8j_outer + j_inner < m }")
    for sizes in ({"n": 1, "m": 1}, {"n": 4, "m": 8}, {"n": 9, "m": 17}):
        assert_same(scaled_matrix(), knl, **sizes)


def test_the_mapping_gives_the_order_of_the_tile_loops() -> None:
    knl = lk.tile(scaled_matrix(), {"j": 8, "i": 4})
    assert outline(knl).split("\n")[:4] == ["for j_outer", "  for i_outer", "    for j_inner", "      for i_inner"]
    assert_same(scaled_matrix(), knl, n=9, m=17)


@pytest.mark.deep
def test_tile_of_a_triangle() -> None:
    for n in (1, 4, 11):
        assert_same(triangle(), lk.tile(triangle(), {"i": 4, "j": 3}), n=n)


def test_tile_is_one_step_of_the_history() -> None:
    assert [s.name for s in lk.tile(scaled_matrix(), {"i": 4, "j": 8}).history] == ["add_dtypes", "tile"]


@pytest.mark.parametrize(("call", "error", "field", "value"), [
    (lambda: lk.prioritize_loops(scaled_matrix(), "i, q"), lk.UnknownNameError, "name", "q"),
    (lambda: lk.prioritize_loops(scaled_matrix(), "i, i"), lk.PreconditionError, "subject", "i, i"),
    (lambda: lk.prioritize_loops(lk.rename_iname(two_loops(), "i", "j", within="second"), "j, i"), lk.ScheduleError,
     "subject", "j, i"),
    (lambda: lk.interchange(scaled_matrix(), "i", "q"), lk.UnknownNameError, "name", "q"),
    (lambda: lk.interchange(lk.rename_iname(two_loops(), "i", "j", within="second"), "i", "j"), lk.ScheduleError,
     "subject", "i"),
    (lambda: lk.tile(scaled_matrix(), {}), lk.PreconditionError, "subject", "tile_sizes"),
    (lambda: lk.tile(scaled_matrix(), {"i": 0}), lk.PreconditionError, "subject", "inner_length"),
    (lambda: lk.tile(scaled_matrix(), {"q": 4}), lk.UnknownNameError, "name", "q"),
    (lambda: lk.tile(lk.tag_inames(scaled_matrix(), "i:g.0"), {"i": 4}), lk.PreconditionError, "subject", "i"),
])
def test_refused(call: object, error: type[lk.LoopkitError], field: str, value: object) -> None:
    with pytest.raises(lk.LoopkitError) as caught:
        call()                                                     # type: ignore[operator]
    assert type(caught.value) is error, caught.value
    assert getattr(caught.value, field) == value
