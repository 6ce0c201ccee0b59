"""Texts with another meaning in loopy 2025.2: the list of ``docs/loopy.rst``, each with its numbers.

loopy's numbers are beside ours; they were computed with its C target.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopkit as lk

X = np.array([3., -1., 4.5, 1., -5., 9., 2., 6.])
N = X.astype(np.int32)
INT8 = np.array([100, 100, 27, 1], np.int8)
LINE, BOX = "{[i]: 0<=i<8}", "{[i,j]: 0<=i<8 and 0<=j<3}"


def run(domain: str, text: str, **arrays: Any) -> Any:
    return lk.make_kernel(domain, text)(**arrays)


# Order

def test_statements_run_in_the_order_of_the_text() -> None:
    """loopy lets the one writer of an array run first: ``y`` is ``2*x`` there."""
    out = run(LINE, "y[i] = a[i]\na[i] = 2*x[i]", a=np.ones(8), x=X)
    assert np.array_equal(out.y, np.ones(8))
    with pytest.raises(lk.VerificationError, match="before anything is written"):
        run(LINE, "y[i] = t\n<> t = 2*x[i]", x=X)


def test_each_block_is_a_loop_of_its_own() -> None:
    """loopy has one loop over each iname, in which half of ``b`` reads what is not written yet."""
    out = run(LINE, "for i\n a[i] = x[i]\nend\nfor i\n b[i] = a[7-i]\nend", x=X)
    assert np.array_equal(out.b, X[::-1])


def test_a_loop_ends_where_other_loops_come_between() -> None:
    """loopy puts both statements over ``i`` into one loop: ``b`` is what ``a`` held before."""
    out = run("{[i,j]: 0<=i<7 and 0<=j<3}", "a[i] = x[i]\nq[j] = 1\nb[i] = a[i+1]", x=X[:7], a=np.zeros(8))
    assert np.array_equal(out.b, [*X[1:7], 0])


def test_a_sum_has_ended_where_its_block_has() -> None:
    """loopy divides by the sums so far."""
    out = run(LINE, "<> s = 0\nfor i\n s = s + x[i]\nend\ny[i] = x[i]/s", x=X)
    assert np.array_equal(out.y, X/X.sum())


@pytest.mark.parametrize(("domain", "text", "order"), [
    (BOX, "for j\n for i\n  c[0] = 2*c[0] + i + j\n end\nend", "ji"),
    ("{[j,i]: 0<=i<8 and 0<=j<3}", "c[0] = 2*c[0] + i + j", "ji"),
    (BOX, "c[0] = 2*c[0] + i + j", "ij"),
])
def test_loops_nest_as_blocks_and_domains_say(domain: str, text: str, order: str) -> None:
    """loopy nests them as it likes, here always ``i`` outside."""
    expected, extents = 0, {"i": 8, "j": 3}
    for outer in range(extents[order[0]]):
        for inner in range(extents[order[1]]):
            expected = 2*expected + outer + inner
    assert run(domain, text, c=np.zeros(1)).c[0] == expected


def test_the_condition_of_a_block_is_evaluated_once() -> None:
    """loopy refuses it."""
    out = run(LINE, "for i\n if y[i] > 0\n  y[i] = 0\n  z[i] = 1\n end\nend", y=N.copy())
    assert np.array_equal(out.z, N > 0)


# Values and their loops

def test_no_iname_comes_through_an_argument() -> None:
    """In loopy ``c`` is updated in the loop over ``i`` too, and holds the sum of all values of ``s``."""
    assert run(LINE, "s[0] = x[i]\nc[0] = c[0] + s[0]", x=X, s=np.zeros(1), c=np.zeros(1)).c[0] == X[-1]
    assert run(LINE, "<> s = x[i]\nc[0] = c[0] + s", x=X, c=np.zeros(1)).c[0] == X.sum()      # as loopy


def test_updates_of_a_temporary_stand_in_the_loop_of_its_value() -> None:
    """loopy finds no schedule, or updates the last value only."""
    assert np.array_equal(run(LINE, "<> t = x[i]\nt = 2*t\ny[i] = t", x=X).y, 2*X)


def test_a_value_goes_from_loop_to_loop() -> None:
    """loopy finds no schedule where statements between do not fit into the loop."""
    out = run(BOX, "<> t[j] = x[i]*j\nw[j] = 1\ny[i] = sum(j, t[j])", x=X)
    assert np.array_equal(out.y, 3*X)


@pytest.mark.parametrize("text", ["for i\n <> t = x[i]*j\n y[i] = t\nend",
                                  "for i\n <> t = x[i]*j\n <> u = t*t\n y[i] = sum(j, u)\nend"])
def test_a_block_that_does_not_show_the_loop_is_refused(text: str) -> None:
    """loopy takes the last value of the first, and finds no schedule for the second."""
    with pytest.raises(lk.ParseError, match=r"'[tu]' means each of these values here, or the last one"):
        lk.make_kernel(BOX, text)


def test_a_name_for_two_values_is_refused() -> None:
    """In loopy ``u`` is in no loop, as another writer of ``t`` is not: it is twice the last value."""
    with pytest.raises(lk.PreconditionError, match=r"may mean the value of each '[ij]', or the last one"):
        lk.make_kernel(["{[i]: 0<=i<8}", "{[j]: 0<=j<3}"], "<> t = x[i]\n<> u = 2*t\ny[i] = u\nt = x[j]\nz[j] = t")


@pytest.mark.parametrize("text", [
    "<> t = 0.\nt = x[i] {if=x[i]>0}\ny[0] = sum(i, t)", "<> t = x[i]\nt = 0. {if=x[0]>5}\ny[i] = t"])
def test_a_default_beside_a_value_of_each_iteration_is_refused(text: str) -> None:
    """loopy adds up what each iteration finds in the first, and finds no schedule for the second."""
    with pytest.raises(lk.PreconditionError, match=r"may mean the value of each '[ij]', or the last one"):
        lk.make_kernel(LINE, text)


def test_what_a_statement_writes_first_is_an_argument_of_its_own() -> None:
    """loopy wants ``y`` passed, as it is read too."""
    out = run(LINE, "y = 3\nz[i] = y*x[i]", x=X)
    assert out.y == 3
    assert np.array_equal(out.z, 3*X)


# Numbers

@pytest.mark.deep(every=9)
@pytest.mark.parametrize(("text", "expected"), [
    pytest.param("y[i] = 1.5", np.full(4, 1.5), id="a literal: float32 in loopy"),
    pytest.param("y[i] = n[i] + 0.5", N[:4] + 0.5, id="integers and a real literal: float32 in loopy"),
    pytest.param("y[i] = i/3.0", np.arange(4)/3, id="an iname and a real literal: float32 in loopy"),
    pytest.param("y[i] = n[i] + f[i]", N[:4] + X[:4].astype(np.float32), id="int32 and float32: float32 in loopy"),
    pytest.param("y[i] = f[i] + 1.23456789012345", X[:4].astype(np.float32) + 1.23456789012345,
                 id="float32 and a long literal: float64 in loopy"),
    pytest.param("y[i] = b[i] + 100", INT8 + 100, id="int8 and a literal: int32 in loopy"),
    pytest.param("y[i] = u[i] - 5", INT8.astype(np.uint8) - np.uint8(5), id="uint8 and a literal: int32 in loopy"),
    pytest.param("y[i] = if(not f[i] > 1, 1, 0)", ~(X[:4] > 1), id="not: of f[i] alone in loopy"),
    pytest.param("y[i] = if(0 < f[i] < 4, 1, 0)", (X[:4] > 0) & (X[:4] < 4), id="a chain: of truth values in loopy"),
])
def test_numbers_are_those_of_numpy(text: str, expected: np.ndarray) -> None:
    given = {"n": N[:4].copy(), "f": X[:4].astype(np.float32), "b": INT8, "u": INT8.astype(np.uint8)}
    out = run("{[i]: 0<=i<4}", text, **{k: v for k, v in given.items() if f"{k}[" in text}).y
    assert np.array_equal(out, expected)
    assert expected.dtype in (out.dtype, bool)


def test_a_sum_of_truth_values_counts() -> None:
    """In loopy it is a truth value."""
    assert run(LINE, "y[0] = sum(i, x[i] > 1)", x=X).y[0] == np.sum(X > 1)


def test_a_temporary_has_the_dtype_of_its_first_write() -> None:
    """loopy joins the dtypes of all writes."""
    with pytest.raises(lk.TypeInferenceError, match="its fraction would be lost"):
        run(LINE, "for i\n <> t = n[i]\n t = t + 0.5*x[i]\n y[i] = t\nend", n=N, x=X)
