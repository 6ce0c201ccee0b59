"""Accesses outside of arrays and of temporaries, for some sizes that the assumptions allow."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import loopkit as lk
from loopkit.lowering.pipeline import lowered_once
from tests.cases import matmul_tiled
from tests.lowering.kernels import F32, make
from tests.verification.changed import report


def bounds(knl: lk.LoopKernel) -> lk.Check:
    return lk.check_bounds(knl)["bounds"]


def test_a_write_into_a_halo_that_is_not_there() -> None:
    knl = make("{[i]: 0<=i<n}", "out[i] = 2*a[i]\nout[i+1] = a[i]", [
        lk.GlobalArg("a", F32), lk.GlobalArg("out", F32, shape=("n",)), "..."])
    check = bounds(knl)
    assert check.verdict is lk.Verdict.REFUTED
    assert check.findings[0].text == "'insn_0' accesses 'out' outside its shape."
    assert check.findings[0].witness == "with n = 1: insn_0[i=0] accesses out[1]"
    with pytest.raises(lk.BoundsError, match="insn_0"):
        lk.generate_code(knl)
    wider = make("{[i]: 0<=i<n}", "out[i] = 2*a[i]\nout[i+1] = a[i]", [
        lk.GlobalArg("a", F32), lk.GlobalArg("out", F32, shape=("n+1",)), "..."])
    assert bounds(wider).verdict is lk.Verdict.PROVEN


def test_a_negative_subscript_of_an_array_without_a_shape() -> None:
    knl = make("{[i]: 0<=i<n}", "y[i] = x[i-1]", x=F32)
    assert bounds(knl).findings[0].witness == "with n = 1: insn[i=0] accesses x[-1]"
    assert bounds(make("{[i]: 1<=i<n}", "y[i] = x[i-1]", x=F32)).verdict is lk.Verdict.PROVEN


def test_assumptions_count() -> None:
    text, data = "y[i] = x[i]", [lk.GlobalArg("x", F32, shape=("m",)), "..."]
    assert bounds(make("{[i]: 0<=i<n}", text, data)).findings[0].witness == "with m = 0, n = 1: insn[i=0] accesses x[0]"
    knl = lk.make_kernel("{[i]: 0<=i<n}", text, data, assumptions="m >= n")
    assert bounds(knl).verdict is lk.Verdict.PROVEN


def test_a_tile_that_is_too_small() -> None:
    """As a fault in lowering would make it: the declared cells of a temporary are one column short."""
    knl = matmul_tiled()
    lowered = lowered_once(knl)
    tile = lowered.storages["a_fetch"]
    short = replace(tile, shape=(*tile.shape[:-1], tile.shape[-1] - 1))       # type: ignore[operator]
    found = report(knl, replace(lowered, storages={**lowered.storages, "a_fetch": short}))
    assert {f.text for f in found["bounds"].findings} == {
        "'a_fetch_rule' accesses 'a_fetch' outside its shape.", "'insn.k.update' accesses 'a_fetch' outside its shape."}


def test_an_expansion_that_is_too_small() -> None:
    knl = make("{[i,j]: 0<=i,j<8}", """
        for i
            <> t = x[i] {id=set}
        end
        for j
            y[j] = t {id=use}
        end
        """, x=F32)
    lowered = lowered_once(knl)
    assert report(knl, lowered)["bounds"].verdict is lk.Verdict.PROVEN


@pytest.mark.deep(every=11)
@pytest.mark.parametrize(("text", "reason"), [
    ("y[i] = x[place[i]]", "a subscript is read from memory"),
    ("y[i] = x[i*n] + place[i]", "a subscript is not affine"),
    ("y[i] = x[int32(2*alpha)] + place[i]", "a subscript depends on 'alpha', which is not an integer"),
    ("y[i] = x[i-1] {if=place[i] > 0}", "a condition is read from memory"),
    ("y[i] = if(i > 0 and place[i] > 0, 0, x[i-1])", "a condition is read from memory"),
    ("y[i] = if(i > 0.5, x[i-1], 0) + place[i]", "a condition compares real numbers"),
    ("y[i] = if(i/2 > 0, x[i-1], 0) + place[i]", "a condition compares real numbers"),
    ("y[i] = x[i-1] + place[i] {if=i > 0.5}", "a condition compares real numbers"),
    ("y[i] = if(i*i > 0, x[i-1], 0) + place[i]", "a condition is not affine"),
    ("y[i] = if(not alpha > 0, x[i-1], 0) + place[i]", "a condition depends on 'alpha', which is not an integer"),
    ("y[i] = x[i-1] + place[i] {if=i > 1 or beta > i}",
     "a condition depends on 'beta', which is not an integer")])
def test_what_is_not_known_is_undecided(text: str, reason: str) -> None:
    types = {"x": F32, "place": np.int32, "alpha": F32, "beta": F32}
    check = bounds(make("{[i]: 0<=i<n}", text, **{name: dtype for name, dtype in types.items() if name in text}))
    assert check.verdict is lk.Verdict.UNDECIDED
    assert [f.text for f in check.findings] == [f"whether 'insn' stays inside 'x': {reason}."]


@pytest.mark.parametrize(("dtype", "bins", "subscript", "proven"), [
    (np.uint8, 256, "b[i]", True), (np.uint8, 255, "b[i]", False), (np.uint16, 65536, "b[i]", True),
    (np.uint16, 65535, "b[i]", False), (np.int8, 256, "b[i]", False), (np.uint32, 2**31, "b[i]", False),
    (np.uint8, 100, "min(b[i], 99)", True), (np.uint8, 99, "min(b[i], 99)", False),
    (np.int8, 128, "max(b[i], 0)", True), (np.int8, 101, "if(b[i] >= 0 and b[i] < 100, b[i], 100)", True),
    (np.int8, 100, "if(b[i] >= 0 and b[i] < 100, b[i], 100)", False),
    (np.int16, 9, "if(b[i] < 0 or b[i+1] > 8, 0, b[i])", False), (np.int16, 9, "if(not 0 <= b[i] <= 8, 0, b[i])", True),
    (np.uint8, 257, "b[i] + 1", True), (np.uint8, 256, "b[i] + 1", False), (np.int8, 201, "max(b[i], 200)", True),
    (np.uint8, 1021, "b[i]*4", True), (np.uint16, 9, "(b[i] + 7*i) % 9", True), (np.uint16, 8, "(b[i] + i) % 9", False),
    (np.int8, 128, "abs(b[i])", False), (np.uint8, 256, "cast(uint8, b[i]*4)", False)])
def test_a_dtype_says_what_may_be_read(dtype: type, bins: int, subscript: str, proven: bool) -> None:
    knl = make("{[i]: 0<=i<n}", f"h[{subscript}] = 1", [lk.GlobalArg("h", F32, shape=(bins,)), "..."], b=dtype)
    found = {f.text for f in bounds(knl).findings}
    assert ("whether 'insn' stays inside 'h': a subscript is read from memory." in found) != proven
    assert bounds(knl).verdict is not lk.Verdict.REFUTED


def test_a_dtype_says_nothing_of_an_extent_that_is_not_known_or_of_what_the_kernel_writes() -> None:
    assert bounds(make("{[i]: 0<=i<n}", "y[i] = x[b[i]]", b=np.uint8, x=F32)).verdict is lk.Verdict.UNDECIDED
    chosen = "b[i] = b[i] + 1\nh[if(b[i] < 9, b[i], 0)] = 1"
    knl = make("{[i]: 0<=i<n}", chosen, [lk.GlobalArg("h", F32, shape=(9,)), "..."], b=np.uint8)
    assert bounds(knl).verdict is lk.Verdict.UNDECIDED


def test_a_dtype_counts_in_each_cell_of_an_expanded_temporary() -> None:
    knl = make("{[i,j]: 0<=i<4 and 0<=j<256}", """
        for i
            for j
                t[j] = x[i, j]
            end
            for j
                y[i, j] = t[b[j]]
            end
        end
        """, [lk.TemporaryVariable("t", shape=(256,)), "..."], x=F32, b=np.uint8)
    knl = lk.tag_inames(knl, "i:l.1, j:l.0")
    assert lowered_once(knl).storages["t"].lead == ("i",)
    assert bounds(knl).verdict is lk.Verdict.PROVEN


def test_a_bound_that_is_read_from_memory() -> None:
    knl = make(["{[i]: 0<=i<n}", "[hi] -> {[j]: 0<=j<hi}"], "<> hi = count[i]\ny[i] = sum(j, x[j])",
               [lk.GlobalArg("x", F32, shape=("n",)), "..."], count=np.int32)
    assert [f.text for f in bounds(knl).findings] == [
        "whether 'insn_0.j.update' stays inside 'x': a bound is read from memory."]


def test_a_condition_from_memory_does_not_hide_what_is_inside_anyway() -> None:
    knl = make("{[i]: 0<=i<n}", "y[i] = x[i] {if=place[i] > 0}", x=F32, place=np.int32)
    assert bounds(knl).verdict is lk.Verdict.PROVEN


def test_an_extent_that_is_no_affine_form() -> None:
    data = [lk.GlobalArg("x", F32, shape=("n*m",)), "..."]
    check = bounds(make("{[i]: 0<=i<n}", "y[i] = x[i]", data))
    assert check.verdict is lk.Verdict.UNDECIDED
    assert "is not an affine form of the sizes" in check.findings[0].text


def test_an_extent_with_a_minimum_is_exact() -> None:
    data = [lk.GlobalArg("x", F32, shape=("max(n, m)",)), "..."]
    assert bounds(make("{[i]: 0<=i<n}", "y[i] = x[i] + m", data)).verdict is lk.Verdict.PROVEN
    check = bounds(make("{[i]: 0<=i<n}", "y[i] = x[i+1] + m", data))
    assert check.verdict is lk.Verdict.REFUTED


def test_a_clamped_subscript_is_exact() -> None:
    data = [lk.GlobalArg("x", F32, shape=("n",)), "..."]
    assert bounds(make("{[i]: 0<=i<n}", "y[i] = x[min(i + 1, n - 1)]", data)).verdict is lk.Verdict.PROVEN
    assert bounds(make("{[i]: 0<=i<n}", "y[i] = x[min(i + 1, n)]", data)).verdict is lk.Verdict.REFUTED


@pytest.mark.parametrize("text", [
    "y[i] = if(i == 0 or x[i-1] > 3, x[i], 0)",
    "y[i] = if(i > 0 and x[i-1] > 3, x[i], 0)",
    "y[i] = if(not i > 0, 0, x[i-1])",
    "y[i] = if(i == 0 or i == n-1, 0, x[i-1] + x[i+1])",
    "y[i] = if(x[i] > 0 and 1 <= i, x[i-1], 0)",
    "y[i] = if(x[i] > 0 or i == 0, 0, x[i-1])",
    "y[i] = if(not (x[i] > 0 or i == 0) and x[i-1] > 0, x[i-1], 0)",
    "y[i] = x[i] {if=x[i] > 0 and i > 0 and x[i-1] > 0}",
    """if i == 0 or x[i-1] > 3
           y[i] = x[i]
       end"""])
def test_what_a_condition_leaves_out_is_not_touched(text: str) -> None:
    """Operands of ``and`` and ``or`` are evaluated where those before them leave the value open."""
    assert bounds(make("{[i]: 0<=i<n}", text, x=F32)).verdict is lk.Verdict.PROVEN


@pytest.mark.parametrize(("text", "verdict"), [
    ("y[i] = if(x[i-1] > 3 and i > 0, x[i], 0)", lk.Verdict.REFUTED),
    ("y[i] = if(i > 0 or x[i-1] > 3, x[i], 0)", lk.Verdict.REFUTED),
    ("y[i] = if(i == 0 and x[i-1] > 3, x[i], 0)", lk.Verdict.REFUTED),
    ("y[i] = if(x[i] > 3 and x[i-1] > 3, x[i], 0)", lk.Verdict.UNDECIDED),
    ("y[i] = if(x[i] > 3 and i > 0, 0, x[i-1])", lk.Verdict.UNDECIDED)])
def test_what_a_condition_does_not_leave_out(text: str, verdict: lk.Verdict) -> None:
    assert bounds(make("{[i]: 0<=i<n}", text, x=F32)).verdict is verdict


def test_the_guard_of_a_read_is_an_expression() -> None:
    x, y = (lk.GlobalArg(name, np.float32, shape="n") for name in "xy")
    for instructions, guard in (("y[i] = x[i+1]", "guard the read by if(..., x[...], 0),"),
                                ("y[i+1] = x[i]", "guard the statement with if=,")):
        with pytest.raises(lk.BoundsError) as caught:
            lk.generate_code(lk.make_kernel("{[i]: 0<=i<n}", instructions, [x, y, "..."]))
        assert guard in str(caught.value)
