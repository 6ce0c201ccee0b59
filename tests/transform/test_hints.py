"""Hints of refused steps were tried: following them, the step is accepted."""
from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import loopkit as lk
from loopkit.poly import limits
from loopkit.transform import hints
from tests.transform.same import assert_same

Step = Callable[[lk.LoopKernel], lk.LoopKernel]


@dataclass(frozen=True)
class Refused:
    """A kernel, a step that is refused, and the way out that its error tells."""

    domains: str | tuple[str, ...]
    instructions: str
    step: Step
    hint: str
    data: tuple[object, ...] | None = None

    def kernel(self) -> lk.LoopKernel:
        return lk.make_kernel(self.domains, self.instructions, self.data)


JACOBI = "{[t,i]: 0<=t<T and 1<=i<n-1}", "u[t+1,i] = u[t,i-1] + u[t,i+1]"
SEIDEL = "{[i,j]: 1<=i,j<n}", "a[i,j] = a[i-1,j] + a[i,j-1]"

REFUSED = {
    "tiling a time loop": Refused(*JACOBI, lambda knl: lk.tile(knl, {"t": 4, "i": 8}), "skew(knl, 'i', by={'t': 1})"),
    "tiling a time loop of two dimensions": Refused(
        "{[t,i,j]: 0<=t<T and 1<=i,j<n-1}", "u[t+1,i,j] = u[t,i-1,j] + u[t,i+1,j] + u[t,i,j-1] + u[t,i,j+1]",
        lambda knl: lk.tile(knl, {"t": 4, "i": 8, "j": 8}),
        "skew(knl, 'i', by={'t': 1}) and skew(knl, 'j', by={'t': 1})"),
    "tiling over two cells": Refused(
        "{[t,i]: 0<=t<T and 2<=i<n-2}", "u[t+1,i] = u[t,i-2] + u[t,i+2]", lambda knl: lk.tile(knl, {"t": 4, "i": 8}),
        "skew(knl, 'i', by={'t': 2})"),
    "interchange": Refused("{[i,j]: 1<=i<n and 0<=j<m-1}", "a[i,j] = a[i-1,j+1]",
                           lambda knl: lk.interchange(knl, "i", "j"), "skew(knl, 'j', by={'i': 1})"),
    "a wavefront": Refused(
        *SEIDEL, lambda knl: lk.split_iname(knl, "j", 16, inner_tag="l.0"),
        "interchange(knl, 'i', 'j'), skew(knl, 'i', by={'j': 1}) and interchange(knl, 'j', 'i')"),
    "the other wavefront": Refused(
        *SEIDEL, lambda knl: lk.split_iname(knl, "i", 16, inner_tag="l.0"),
        "skew(knl, 'j', by={'i': 1})"),           # threads meet after each j, whichever loop is outside
    "fusing over a forward read": Refused(
        ("{[i1]: 0<=i1<n}", "{[i2]: 0<=i2<n-1}"), "a[i1] = 2*x[i1]\nb[i2] = a[i2+1]",
        lambda knl: lk.fuse_loops(knl, ["i1", "i2"]), "shift(knl, 'i2', 1)"),
}


@pytest.mark.deep(every=7)
@pytest.mark.parametrize("name", REFUSED)
def test_followed_a_hint_makes_the_step_legal(name: str) -> None:
    case = REFUSED[name]
    plain = knl = lk.add_dtypes(case.kernel(), dict.fromkeys(case.kernel().array_args, np.int64))
    with pytest.raises(lk.IllegalTransformError) as caught:
        case.step(knl)
    assert str(caught.value).endswith(f"it would be legal after {case.hint}")
    for call in re.findall(r"\w+\(knl[^()]*\)", case.hint):
        knl = eval(f"lk.{call}", {"lk": lk, "knl": knl})  # the calls are in the hint as a user would write them
    result = case.step(knl)
    assert result.history[-1].verdict == "proven"
    assert_same(plain, result, **dict.fromkeys(plain.value_params, 19))


def test_an_accumulation() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<64}", "s[0] = s[0] + b[i]")
    with pytest.raises(lk.IllegalTransformError, match=r"as a reduction, sum\(\.\.\.\)"):
        lk.tag_inames(knl, "i:l.0")


@pytest.mark.parametrize("instructions", [
    "s[0] = 2*s[0] + b[i]", "s[0] = s[0]*s[0] + b[i]", "s[i] = s[i-1] + b[i]", "s[0] = s[0] - b[i]"])
def test_what_is_no_reduction_is_not_called_one(instructions: str) -> None:
    knl = lk.make_kernel("{[i]: 1<=i<64}", instructions)
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.tag_inames(knl, "i:l.0")
    legal = "- b[i]" in instructions                     # the terms of a difference may come in any order
    assert ("write the accumulation" in str(caught.value)) == legal


def test_an_accumulation_that_is_read_on_the_way() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<64}", "for i\n s[0] = s[0] + b[i]\n p[i] = s[0]\nend")
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.tag_inames(knl, "i:l.0")
    assert "write the accumulation" not in str(caught.value)
    assert "write the running sum as a reduction whose bound moves" in str(caught.value)


@pytest.mark.parametrize(("instructions", "operation"), [
    ("y[i,j] = x[i,j] + if(j > 1, y[i,j-1], 0)", "sum"), ("y[i,j] = max(y[i,j-1], x[i,j])", "max"),
    ("y[i,j] = 2*y[i,j-1] + x[i,j]", None), ("y[i,j] = y[i,j-1] + y[i,j-2]", None),
    ("y[i+j,j] = y[i+j-1,j-1] + x[i,j]", None),
    ("for i, j\n t[i] = t[i] + x[i,j]\n y[i,j] = t[i]\nend", "sum"), ("t[i] = t[i] + x[i,j]", None)])
def test_a_running_total_may_be_a_scan(instructions: str, operation: str | None) -> None:
    knl = lk.make_kernel("{[i,j]: 2<=i<n and 2<=j<64}", instructions)
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.tag_inames(knl, "j:l.0")
    hint = f"write the running {operation} as a reduction whose bound moves, {operation}(k, ...), tag its sweep"
    assert (hint in str(caught.value)) if operation else ("realize_scan" not in str(caught.value))


@pytest.mark.parametrize(("tag", "instruction", "hint"), [
    ("cpu.simd", "y[i] = y[i+1] + 1", "tag 'i' vec: a vector reads all of its elements before it writes them; or "
                                      "write the results to another array than 'y'"),
    ("cpu.threads", "y[i] = y[i+1] + 1", "write the results to another array than 'y', as the loop reads old values"),
    ("l.0", "y[i] = y[i+1] + y[i+2]", "write the results to another array than 'y', as the loop reads old values"),
    ("l.0", "y[0] = y[0] + x[i]", "write the accumulation into 'y' as a reduction"),
    ("l.0", "y[i] = y[i] + y[0]", "keep these loops in order")])
def test_old_values_are_no_running_total(tag: str, instruction: str, hint: str) -> None:
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.tag_inames(lk.make_kernel("{[i]: 0<=i<64}", instruction), f"i: {tag}")
    assert caught.value.hint.startswith(hint)
    if tag == "cpu.simd":
        lk.tag_inames(lk.make_kernel("{[i]: 0<=i<64}", instruction), "i: vec")


def test_calls_whose_slices_overlap_are_no_scan() -> None:
    add = lk.make_function("{[j]: 0<=j<4}", "b[j] = a[j] + 1", name="add")
    knl = lk.make_kernel("{[i]: 0<=i<n}", "x[2*i+1:2*i+5] = add(x[2*i:2*i+4])", functions=[add])
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.tag_inames(knl, "i: g.0")
    assert caught.value.hint.startswith("the slices of 'x' that the calls of 'add' pass share elements")
    assert "scan" not in caught.value.hint


def test_a_scan_is_tagged_first() -> None:
    knl = lk.realize_scan(lk.make_kernel("{[i,j]: 0<=i<64 and 0<=j<=i}", "y[i] = sum(j, x[j])"), "j")
    with pytest.raises(lk.IllegalTransformError, match="tag its sweep before realize_scan"):
        lk.tag_inames(knl, "i:l.0")


def test_nothing_is_tried_until_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    knl = lk.make_kernel(*JACOBI)
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.tile(knl, {"t": 4, "i": 8})
    tried: list[object] = []
    first = hints._first
    monkeypatch.setattr(hints, "_first", lambda ways, *rest: tried.append(ways) or first(ways, *rest))
    assert caught.value.witness is not None
    assert not tried
    assert caught.value.hints
    told = list(tried)
    assert told
    assert str(caught.value)
    assert tried == told                                 # once


def test_a_way_out_is_always_told() -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "a[i+1] = a[i] + b[i]"), {"a,b": np.float32})
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.tag_inames(knl, "i:g.0")
    assert caught.value.hint


def test_hints_have_a_budget_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the budget ends the search, the hint does not claim that nothing helps; the refusal is the same."""
    case = REFUSED["tiling a time loop"]
    monkeypatch.setattr(hints, "BUDGET", 10)
    with pytest.raises(lk.IllegalTransformError) as caught:
        case.step(case.kernel())
    assert caught.value.hint is None
    assert "would run" in str(caught.value)
    assert limits.BUDGET > 10
