"""Warnings about what a text allows and its author hardly meant."""
from __future__ import annotations

import warnings

import numpy as np
import pytest

import loopkit as lk
from tests.cases import CASES, Case


def warned(domains: str, text: str, data: list[object] | None = None) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        lk.make_kernel(domains, text, data)
    return found


def test_an_iname_that_no_statement_uses() -> None:
    (found,) = warned("{[i,j]: 0<=i<n and 0<=j<m}", "y[i] = 2*x[i]")
    assert found.category is lk.UnusedInameWarning
    assert "The iname 'j' of the domains is used by no statement of kernel 'kernel'" in str(found.message)
    assert found.filename == __file__
    assert warned("{[i,j]: 0<=i<n and 0<=j<m}", "y[i] = 2*x[i] {inames=i:j}") == []


def test_a_reduction_uses_its_inames() -> None:
    assert warned("{[i,j]: 0<=i<n and 0<=j<m}", "y[i] = sum(j, x[i,j])") == []
    assert warned("{[i,j]: 0<=i<n and 0<=j<m}", "f(a) := sum(j, x[a,j])\ny[i] = f(i)") == []


def test_a_scalar_that_looks_like_another_name() -> None:
    (found,) = warned("{[i]: 0<=i<n}", "<> total = 2*x[i]\ny[i] = totla")
    assert found.category is lk.MisspelledNameWarning
    assert "'totla' in statement 'insn_0' of kernel 'kernel' is taken for a scalar argument" in str(found.message)
    assert "resembles 'total'" in str(found.message)


@pytest.mark.parametrize(("text", "data"), [
    ("y[i] = alpha*x[i] + beta", None),                                     # unlike
    ("y[i] = weight_1*x[i] + weight_2", None),                              # a number apart
    ("<> s = x[i]\ny[i] = s*t", None),                                      # short
    ("<> total = 2*x[i]\ny[i] = totla", [lk.ValueArg("totla", np.dtype(np.float32)), "..."]),
    ("y[i] = sizes*x[i]", ["sizes", "..."])])
def test_names_that_are_meant(text: str, data: list[object] | None) -> None:
    assert warned("{[i]: 0<=i<n}", text, data) == []


def test_each_kind_can_be_silenced() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", lk.UnusedInameWarning)
        knl = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", "y[i] = 2*x[i]")
        warnings.simplefilter("ignore", lk.LoopkitWarning)
        lk.make_kernel("{[i]: 0<=i<n}", "<> total = 2*x[i]\ny[i] = totla")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        knl.history.show()                              # its author has seen them


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_cases_are_without_suspicion(case: Case) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        case.fresh()
