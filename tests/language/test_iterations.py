"""Values of temporaries: inames come through them, and a read in another loop finds the value of its iteration.

``tests/property/test_carried.py`` compares random texts with the rule; here stand the examples that explain it.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopkit as lk
from tests.language.outline import outline

X = np.arange(1., 9.)
LINE = "{[i]: 0<=i<8}"
BOX = "{[i,j]: 0<=i<8 and 0<=j<3}"


def run(domain: str | list[str], text: str, **arrays: Any) -> Any:
    return lk.make_kernel(domain, text)(**arrays)


# What is meant

@pytest.mark.deep(every=24)
@pytest.mark.parametrize(("domain", "text", "expected"), [
    pytest.param(LINE, "<> t = x[i]\n<> u = 2*t\ny[i] = u", 2*X, id="the reader of t gets t's loop"),
    pytest.param(BOX, "<> t = x[i]\nz[j] = 1\ny[i] = t", X, id="another loop between"),
    pytest.param(LINE, "for i\n <> t = x[i]\nend\nfor i\n y[i] = t\nend", X, id="two blocks"),
    pytest.param(BOX, "for i\n for j\n  <> t = x[i]*j\n end\n y[i] = sum(j, t)\nend", 3*X, id="a reduction"),
    pytest.param(BOX, "for i\n for j\n  <> t = x[i]*j\n  <> u = t*t\n end\n y[i] = sum(j, u)\nend", 5*X*X,
                 id="a reduction of what is computed in two steps"),
    pytest.param(BOX, "<> t = x[i]*j\ny[i] = sum(j, t)", 3*X, id="a reduction without blocks"),
    pytest.param(BOX, "<> t[j] = x[i]*j\nz[j] = 1\ny[i] = sum(j, t[j])", 3*X, id="an array temporary"),
    pytest.param("{[i,j]: 2<=i<10 and 3<=j<6}",
                 "for i\n for j\n  <> t = x[i-2]*(j-3)\n end\n y[i-2] = sum(j, t)\nend", 3*X,
                 id="inames that do not begin at 0"),
    pytest.param("{[i,j]: 0<=i<8 and 0<=j<=i}", "for i\n for j\n  <> t = x[j]\n end\n y[i] = sum(j, t)\nend",
                 np.cumsum(X), id="bounds that depend on inames"),
    pytest.param(BOX, "f(a) := a*t\n<> t = x[i]\nz[j] = 1\ny[i] = f(2)", 2*X, id="through a substitution rule"),
    pytest.param(BOX, "g(a) := f(a)\nf(a) := a*t\n<> t = x[i]\nz[j] = 1\n<> u = g(2)\ny[i] = u", 2*X,
                 id="through a rule that calls a later one"),
    pytest.param(BOX, "f(a) := g(a)\ng(a) := a*t\n<> t = x[i]\nz[j] = 1\n<> u = f(2) + sum(j, 0)\ny[i] = u", 2*X,
                 id="through a rule that calls a later one, beside a reduction"),
    pytest.param(BOX, "<> t = x[i]\nz[j] = 1\ny[i] = 1 {if=t > 0}", np.ones(8), id="a condition"),
    pytest.param(BOX, "<> t = x[i]\nz[j] = 1\nif t > 0\n y[i] = t\nend", X, id="the condition of a block"),
    pytest.param(BOX, "<int32> t = 7 - i\nz[j] = 1\ny[i] = x[t]", X[::-1], id="a subscript that is read"),
    pytest.param(LINE, "<> t = x[i]\nt = 2*t\nt = t + 1\ny[i] = t", 2*X + 1, id="updates are in the value's loop"),
    pytest.param(LINE, "<> t = x[i]\n<> u = t\nt = 2*u\ny[i] = t", 2*X, id="an update in two steps"),
    pytest.param(LINE, "<> t = 0.\nt = t + x[i]\ny[0] = t", X.sum(), id="an accumulation is one value"),
    pytest.param(LINE, "<> t = 0.\nfor i\n t = t + x[i]\nend\ny[i] = x[i]/t", X/X.sum(),
                 id="a sum is the same value in all later iterations"),
    pytest.param(BOX, "for i\n for j\n  <> t = x[i]*j\n end\n y[i] = t\nend", 2*X,
                 id="after the end of a block the last"),
    pytest.param(LINE, "<> t = 0.\nfor i\n t = x[i] {if=x[i]<6}\nend\ny[0] = t", 5., id="the last that was found"),
    pytest.param(BOX, "for i\n <> t = x[i]*j\n y[i] = t {inames=}\nend", 2*X, id="inames= says that the last is meant"),
    pytest.param(LINE, "<> t = x[i]\ny[i] = t\nt = 2*x[i]\nz[i] = t", X, id="a name that is used again"),
    pytest.param(["{[i]: 0<=i<8}", "{[j]: 0<=j<3}"], "<> t = x[i]\ny[i] = t\nt = x[j]\nz[j] = t", X,
                 id="a name that is used again in another loop"),
])
def test_values(domain: str | list[str], text: str, expected: Any) -> None:
    out = run(domain, text, x=X).y
    assert np.array_equal(out[0] if np.ndim(expected) == 0 else out, expected)


def test_a_subscript_that_is_written() -> None:
    out = run(BOX, "<int32> t = 7 - i\nz[j] = 1\ny[t] = x[i]", x=X, y=np.zeros(8)).y
    assert np.array_equal(out, X[::-1])


def test_pairs() -> None:
    """The example of the semantics page, against numpy."""
    t, s = np.arange(4.), np.arange(3.) + 5
    out = run("{[itgt,isrc]: 0<=itgt<4 and 0<=isrc<3}", """
        for itgt
            for isrc
                <> r = t[itgt] - s[isrc]
                <> pair = r*r
            end
            out[itgt] = sum(isrc, pair)
        end
        """, t=t, s=s).out
    assert np.array_equal(out, ((t[:, None] - s)**2).sum(1))


@pytest.mark.deep
def test_the_axis_shows_in_the_kernel_and_goes_where_one_thread_needs_it_no_more() -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<3}", "<> t = x[i]\nz[j] = 1\ny[i] = t"),
                        {"x": np.float32})
    assert "<> t[i] = x[i]" in knl.statements_text
    assert str(lk.lower(knl, stop="storage")) == "global float32 t[n]"
    mapped = lk.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
    assert str(lk.lower(mapped, stop="storage")) == "private float32 t"
    assert lk.verify(mapped).proven
    lk.check_equivalent(knl, mapped, {"n": 19})


def test_only_the_inames_between_two_loops_become_axes() -> None:
    knl = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}",
                         "for i\n for j\n  <> t = x[i,j]\n  z[i,j] = t\n end\n y[i] = sum(j, t)\nend")
    assert "<> t[j] = x[i, j]" in knl.statements_text


def test_bounds_read_from_memory_bring_their_inames() -> None:
    knl = lk.make_kernel(["{[i]: 0<=i<n}", "{[k]: 0<=k<m}", "{[jj]: 0<=jj<last}"],
                         "<> last = ends[i]\ny[k] = sum(jj, v[jj])")
    assert outline(knl).splitlines()[:2] == ["for i", "  insn: last = ends[i]"]
    assert "k" in outline(knl).splitlines()[2]


# Two readings

def refusal(domain: str | list[str], text: str, data: list[Any] | None = None) -> str:
    with pytest.raises((lk.ParseError, lk.PreconditionError)) as info:
        lk.make_kernel(domain, text, data)
    return str(info.value)


@pytest.mark.parametrize(("text", "name", "lines"), [
    ("for i\n<> t = x[i]*j\ny[i] = t\nend", "t", "2 to 3"),
    ("for i\n<> t = x[i]*j\n<> u = t*t\ny[i] = sum(j, u)\nend", "t", "2 to 3"),
    ("for i\n<> t = x[i]*j\nt = 2*t\nz[i,j] = t\nend", "t", "2 to 3"),
    ("for i\n<> t = x[i]*j\nif t > 1\ny[i] = 1\nend\nend", "t", "2 to 3"),
    ("f(a) := a + t\nfor i\n<> t = x[i]*j\ny[i] = f(1)\nend", "t", "3 to 4"),
    ("<> t = x[j]\nfor i\ny[i] = t\nend", "t", "1 to 3"),
])
def test_a_block_without_the_loop(text: str, name: str, lines: str) -> None:
    """The reader's block shows no loop, and neither does the writer's: both readings are shown."""
    error = refusal(BOX, text)
    assert f"'{name}' has a value for each 'j'" in error
    assert f"for each value: 'for j ... end' around lines {lines}" in error
    assert "for the last one: 'for j ... end' around line" in error


def test_each_way_out_gives_its_reading() -> None:
    each = run(BOX, "for i\nfor j\n<> t = x[i]*j\ny[i,j] = t\nend\nend", x=X).y
    assert np.array_equal(each, X[:, None]*np.arange(3))
    for last in ("for i\nfor j\n<> t = x[i]*j\nend\ny[i] = t\nend", "for i\n<> t = x[i]*j\ny[i] = t {inames=}\nend"):
        assert np.array_equal(run(BOX, last, x=X).y, 2*X)


@pytest.mark.parametrize(("domain", "text", "sentence"), [
    pytest.param(LINE, "<> t = x[i]\ny[0] = sum(i, t) + t", "reads it outside of its reduction over 'i'",
                 id="outside of its reduction"),
    pytest.param(LINE, "for i\n<> t = x[i]\nend\nfor i\ny[i] = t\nend\nz[0] = t {inames=}",
                 "'insn_1' reads 't' outside of the loops over 'i'", id="the last value and each"),
    pytest.param(LINE, "for i\ny[i] = t\n<> t = x[i]\nend\nfor i\nz[i] = t\nend",
                 "'insn' reads the value that 'insn_0' left in an earlier iteration of 'i'", id="carried, and each"),
    pytest.param(["{[i]: 0<=i<4}", "{[j]: 0<=j<2}", "{[jj]: 0<=jj<last}"],
                 "<> last = ends[i]\nq[j] = 1\ny[i] = sum(jj, v[jj])", "'last' bounds a loop", id="a bound"),
    pytest.param(["{[i]: 0<=i<4}", "{[jj]: 0<=jj<last}"],
                 "for i\n<> last = ends[i]\nfor jj\n<> t = v[jj]\nend\ny[i] = sum(jj, t)\nend",
                 "which is read from memory", id="as many as the data say"),
    pytest.param(BOX, "f(i) := i*t\n<> t = x[i]\nz[j] = 1\ny[i] = f(2)", "calls an argument 'i'",
                 id="a rule whose argument is called like the iname"),
    pytest.param(["{[i]: 0<=i<4}", "{[j]: 0<=j<2}"], "<> t = x[i]\n<> u = 2*t\ny[i] = u\nt = x[j]\nz[j] = t",
                 "'insn_2' writes 't' without 'i'", id="two values of one name"),
    pytest.param(["{[i]: 0<=i<4}", "{[j]: 0<=j<2}"], "<> t = x[i]\nq[j] = 1\ny[i] = t\nt = x[j]\nz[j] = t",
                 "'insn_2' writes 't' without 'i'", id="two values of one name, in another loop"),
    pytest.param(LINE, "if x[0] > 5\n<> t = 1.\nelse\nt = x[i]\nend\ny[0] = sum(i, t)", "writes 't' without 'i'",
                 id="a branch without the iname"),
    pytest.param(LINE, "<> t = 0.\nt = x[i] {if=x[i]>0}\ny[0] = sum(i, t)", "'insn' writes 't' without 'i'",
                 id="a default"),
    pytest.param(BOX, "<> t = 0.\nt = x[i] {if=x[i]>0}\nz[j] = 1\ny[i] = t", "'insn' writes 't' without 'i'",
                 id="a default, read in another loop"),
    pytest.param(LINE, "<> t = x[i]\nt = 0. {if=x[0]>5}\ny[i] = t", "'insn_0' writes 't' without 'i'",
                 id="a value for all iterations after one of each"),
])
def test_what_has_no_value_for_each_iteration(domain: str | list[str], text: str, sentence: str) -> None:
    error = refusal(domain, text)
    assert sentence in error
    assert "hint: " in error


def test_a_declared_shape_is_kept() -> None:
    error = refusal(BOX, "<> t = x[i]\nz[j] = 1\ny[i] = t", [lk.TemporaryVariable("t", np.float64, shape=()), "..."])
    assert "'t' is declared with another shape" in error
    assert "for each value: put 'insn' and 'insn_1' into one loop over 'i'" in error
    assert "for the last value: " in error
    one_loop = lk.make_kernel(LINE, "<> t = x[i]\ny[i] = t", [lk.TemporaryVariable("t", np.float64, shape=()), "..."])
    assert np.array_equal(one_loop(x=X).y, X)
