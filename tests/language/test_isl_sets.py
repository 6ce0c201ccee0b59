"""Sets of isl's where texts stand; and conditions with ``exists``."""
from __future__ import annotations

from typing import Any

import islpy as isl
import numpy as np
import pytest

import loopkit as lk

TEXTS = ("[n] -> { [i] : 0 <= i < n }", "[n] -> { [i] : 0 <= i < n and i mod 3 = 1 }",
         "[n] -> { [i] : exists e: i = 2*e and 0 <= i < n }", "[n, m] -> { [i, j] : 0 <= i < n and i <= j < m }",
         "[n] -> { [i] : 0 <= i < n or 2n <= i < 3n }", "{ [i] : 0 <= i < 8 }",
         "[n] -> { [i] : i = max(n, 1) - 1 }")


def _again(knl: lk.LoopKernel) -> Any:
    """The kernel that its history's script makes: a script has texts, no objects."""
    names: dict[str, Any] = {}
    exec(knl.history.script(), names)
    return names["knl"]


@pytest.mark.deep(every=24)
@pytest.mark.parametrize("kind", [isl.Set, isl.BasicSet])
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("listed", [False, True])
def test_domains(kind: Any, text: str, listed: bool) -> None:
    try:
        points = kind.read_from_str(isl.Context(), text)
    except isl.Error:
        pytest.skip("a union is no basic set")
    same = lk.make_kernel(text, "y[i] = 2*x[i]")
    knl = lk.make_kernel([points] if listed else points, "y[i] = 2*x[i]")
    assert knl.statements[0].domain.is_equal(same.statements[0].domain)
    assert str(knl) == str(same)
    assert str(_again(knl)) == str(knl)


def test_two_domains_of_which_one_is_a_set() -> None:
    knl = lk.make_kernel([isl.Set("[n] -> {[i]: 0<=i<n}"), "[i] -> {[j]: 0<=j<=i}"], "y[i] = sum(j, x[j])")
    y, = knl(x=np.arange(4.))
    np.testing.assert_array_equal(y, [0, 1, 3, 6])


@pytest.mark.parametrize("domains", [5, [5], isl.Map("{[i] -> [j]}"), None, ["{[i]: 0<=i<n}", None]])
def test_others_are_refused(domains: Any) -> None:
    with pytest.raises(lk.PreconditionError, match="domains= must be a text, an isl set, a domain of a kernel or"):
        lk.make_kernel(domains, "y[i] = x[i]")


@pytest.mark.parametrize("made", ["S[i]", "[i, i]", "[in]"])
def test_sets_without_inames_are_refused(made: str) -> None:
    with pytest.raises(lk.LoopkitError):
        lk.make_kernel(isl.Set(f"[n] -> {{{made}: 0 <= n}}"), "y[i] = x[i]")


@pytest.mark.deep(every=6)
@pytest.mark.parametrize("text", ["exists e: n = 4*e", "exists (e: n = 4*e)", "n >= 1 and exists (e : 4*e = n)",
                                  "exists e = n // 4: n = 4*e", "exists e, f: n = 4*e and e = f", "n mod 4 = 0"])
def test_exists_in_assumptions(text: str) -> None:
    """The kernel assumes it, and a call is held to it."""
    for knl in (lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", assumptions=text),
                lk.assume(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]"), text)):
        assert "mod 4 = 0" in str(knl)
        y, = knl(x=np.arange(8.))
        np.testing.assert_array_equal(y, 2*np.arange(8.))
        with pytest.raises(lk.CallError, match="4"):
            knl(x=np.arange(6.))


@pytest.mark.parametrize("given", [isl.Set("[n] -> { : n mod 4 = 0 }"), isl.BasicSet("[n] -> { : n mod 4 = 0 }"),
                                   isl.Set("[n] -> { [] : n mod 4 = 0 }"), "[n] -> { : n mod 4 = 0 }"])
def test_sets_as_assumptions(given: Any) -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", assumptions=given)
    assert "mod 4 = 0" in str(knl)
    knl = lk.assume(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]"), given)
    assert "mod 4 = 0" in str(knl)
    assert str(_again(knl)) == str(knl)


@pytest.mark.parametrize("text", ["exists e n = 4*e", "exists e: q = 4*e", "exists e"])
def test_wrong_ones(text: str) -> None:
    with pytest.raises(lk.LoopkitError):
        lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", assumptions=text)
