"""Loops with bounds that are read from memory, in which the threads of a block share values."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import loopkit as lk
from tests.lowering.kernels import F32, make

#: The first row of each block, and of each of its rows the first of their columns; some have none.
ROWPTR = np.array([0, 2, 2, 7, 10], np.int32)
COLPTR = np.array([0, 3, 3, 4, 9, 10, 11, 13, 14, 17, 20], np.int32)
LANES = (8, 32, 48, 64)


@dataclass(frozen=True)
class Rows:
    """A loop body for each row ``i`` of a block ``b``; threads of the block are ``t`` and ``u``.

    :ivar row: from the rows of x before and up to this one, and the row itself, to the row of y.
    :ivar before: statements before the loop.
    """

    body: str
    row: Callable[[np.ndarray, np.ndarray], np.ndarray]
    before: str = ""


def _first(value: np.ndarray, like: np.ndarray) -> np.ndarray:
    return np.where(np.arange(len(like)) == 0, value, 0)


BODIES = {
    "a sum": Rows("y[b,i,0] = sum(t, x[i,t])", lambda _, x: _first(x.sum(), x)),
    "two sums": Rows("y[b,i,0] = sum(t, x[i,t]) + sum(u, x[i,u]*x[i,u])", lambda _, x: _first((x + x*x).sum(), x)),
    "a sum for each thread": Rows("<> s = sum(t, x[i,t])\nfor u\n y[b,i,u] = s - x[i,u]\nend",
                                  lambda _, x: x.sum() - x),
    "a value of each row": Rows("<> s = 2*x[i,0]\nfor t\n y[b,i,t] = s*x[i,t]\nend", lambda _, x: 2*x[0]*x),
    "an exchange": Rows("for t\n <> s[t] = 2*x[i,t]\nend\nfor u\n y[b,i,u] = s[T-1-u] + x[i,u]\nend",
                        lambda _, x: 2*x[::-1] + x),
    "an exchange in two branches": Rows(
        "<> f = x[i,0] > 0\nfor t\n <> s[t] = 2*x[i,t] {if=f}\n s[t] = 3 {if=not f}\nend\n"
        "for u\n y[b,i,u] = s[T-1-u]\nend", lambda _, x: 2*x[::-1] if x[0] > 0 else np.full_like(x, 3)),
    "a running value": Rows("r = r + sum(t, x[i,t])\ny[b,i,0] = r", lambda before, x: _first(before.sum(), x),
                            "<> r = 0"),
    "rows in a loop of their own": Rows(
        "<> lo = colptr[i]\n<> hi = colptr[i+1]\n<> r = 0\nfor k\n r = r + sum(t, x[k % 10,t])\nend\ny[b,i,0] = r",
        lambda _, x: np.zeros_like(x)),         # see expected
    "a sum over rows and threads": Rows("<> lo = colptr[i]\n<> hi = colptr[i+1]\ny[b,i,0] = sum((k,t), x[k % 10,t])",
                                        lambda _, x: np.zeros_like(x)),
}


def kernel(rows: Rows, lanes: int) -> lk.LoopKernel:
    nested = "colptr" in rows.body
    inner = ["{[k]: lo<=k<hi}", "{[t]: 0<=t<T}"] if nested else ["{[t,u]: 0<=t,u<T}"]
    knl = make(["{[b]: 0<=b<nb}", "{[i]: first<=i<last}", *inner], f"""
        for b
        <> first = rowptr[b]
        <> last = rowptr[b+1]
        {rows.before}
        for i
        {rows.body}
        end
        end""", x=F32, rowptr=np.int32, **({"colptr": np.int32} if nested else {}))
    return lk.fix_parameters(knl, T=lanes)


def mapped(knl: lk.LoopKernel, tags: str) -> lk.LoopKernel:
    return lk.tag_inames(knl, ", ".join(tag for tag in tags.split(", ") if tag[0] in knl.inames))


def inputs(knl: lk.LoopKernel, lanes: int) -> dict[str, np.ndarray]:
    x = np.random.default_rng(lanes).integers(-9, 9, (10, lanes)).astype(F32)
    given = {"x": x, "rowptr": ROWPTR, "colptr": COLPTR, "y": np.zeros((4, 10, lanes), F32)}
    return {name: a for name, a in given.items() if name in knl.argument_by_name}


def expected(rows: Rows, x: np.ndarray) -> np.ndarray:
    y = np.zeros((4, *x.shape), F32)
    for b in range(4):
        for i in range(ROWPTR[b], ROWPTR[b + 1]):
            y[b, i] = _first(x[[k % 10 for k in range(COLPTR[i], COLPTR[i + 1])]].sum(), x[i]) \
                if "colptr" in rows.body else rows.row(x[ROWPTR[b]:i + 1], x[i])
    return y


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("tags", ["b:g.0, t:l.0, u:l.0", "t:l.0, u:l.0"], ids=["blocks", "one block"])
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.deep(every=12)
def test_threads_of_a_block_share_the_values_of_a_row(name: str, tags: str, lanes: int) -> None:
    rows = BODIES[name]
    plain = kernel(rows, lanes)
    knl = mapped(plain, tags)
    data = inputs(knl, lanes)
    want = expected(rows, data["x"])
    for way in (plain, knl):
        assert np.array_equal(way(**data | {"y": np.zeros_like(want)}, nb=4).y, want)
    checked = lk.verify(knl, full=True)
    assert {check.name for check in checked.checks if check.verdict is lk.Verdict.REFUTED} == set()
    assert checked["barriers"].verdict is checked["races"].verdict is lk.Verdict.PROVEN
    assert checked["program"].verdict is lk.Verdict.PROVEN
    str(lk.generate_code(knl, target="cuda"))


@pytest.mark.parametrize("name", [name for name in BODIES if name != "a value of each row"])
def test_each_thread_has_bounds_of_its_own(name: str) -> None:
    """Barriers and warp instructions are refused in such a loop."""
    plain = kernel(BODIES[name], 8)
    knl = mapped(lk.fix_parameters(plain, nb=2), "b:l.1, t:l.0, u:l.0")
    with pytest.raises(lk.ScheduleError, match="may differ between the threads of a block") as err:
        lk.lower(knl)
    assert "'insn' computes first for each b." in str(err.value)
    assert "compute such values per block" in str(err.value)


@pytest.mark.parametrize("lanes", [8, 48])
def test_bounds_from_a_sum_over_the_threads_are_the_same_for_all(lanes: int) -> None:
    """Their values come from warp registers or shared memory."""
    plain = make(["{[v,t,u]: 0<=v,t,u<T}", "{[i]: 0<=i<rows}"], """
        <> rows = sum(v, count[v])
        for i
            for t
                <> s[t] = 2*x[i,t]
            end
            for u
                y[i,u] = s[T-1-u]
            end
        end
        """, x=F32, count=np.int32)
    plain = lk.fix_parameters(plain, T=lanes)
    knl = lk.tag_inames(plain, "v:l.0, t:l.0, u:l.0")
    count = np.array([2, 0, 3, *[0]*(lanes - 4), 1], np.int32)
    x = np.arange(10*lanes, dtype=F32).reshape(10, lanes)
    for way in (plain, knl):
        y = way(count=count, x=x, y=np.zeros_like(x)).y
        assert np.array_equal(y[:6], 2*x[:6, ::-1])
        assert not y[6:].any()
    assert lk.verify(knl)["barriers"].verdict is lk.Verdict.PROVEN


def test_bounds_that_are_set_under_a_condition() -> None:
    """Whether a value stays in its iteration is not known; blocks need it in one launch."""
    plain = make(["{[b]: 0<=b<nb}", "{[i]: 0<=i<last}", "{[t]: 0<=t<8}"], """
        for b
            <> last = rowptr[b]
            <> more = rowptr[b+1] > 3
            last = rowptr[b+1] {if=more}
            for i
                y[b,i] = sum(t, x[i,t])
            end
        end
        """, x=F32, rowptr=np.int32)
    with pytest.raises(lk.UndecidedError, match="the host cannot run the loop around both: the bounds of 'i'") as err:
        lk.lower(lk.tag_inames(plain, "b:g.0, t:l.0"))
    assert "a bound of 'insn_2' is read from memory" in err.value.reason


def test_a_copy_of_each_row() -> None:
    """The copy has the bounds of its readers, and depends on the statements that set them."""
    plain = make(["{[b]: 0<=b<nb}", "{[i]: first<=i<last}", "{[t]: 0<=t<8}"], """
        for b
            <> first = rowptr[b]  {id=first}
            <> last = rowptr[b+1]  {id=last}
            for i, t
                y[b,i,t] = x[i,t] + x[i,7-t]  {id=use}
            end
        end
        """, x=F32, rowptr=np.int32)
    tagged = lk.tag_inames(plain, "b:g.0, t:l.0")
    knl = lk.add_prefetch(tagged, "x", ["t"], default_tag="l.auto")
    assert {(d.array, d.source) for d in lk.analysis.dependences.dependences(knl)
            if d.sink == "x_fetch_rule"} == {("first", "first"), ("last", "last")}
    x, y = np.arange(80, dtype=F32).reshape(10, 8), np.zeros((4, 10, 8), F32)
    assert np.array_equal(knl(x=x, rowptr=ROWPTR, y=y.copy(), nb=4).y, plain(x=x, rowptr=ROWPTR, y=y.copy(), nb=4).y)
    checked = lk.verify(knl, full=True)
    assert {check.name for check in checked.checks if check.verdict is not lk.Verdict.PROVEN} == {"bounds"}
