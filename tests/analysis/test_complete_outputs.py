"""Outputs that a kernel writes completely: a call need not zero them before, nor copy them to the device."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from loopkit.analysis.shapes import fully_written_outputs

F = np.float32


def filled(domains: str, text: str, data: list[object] | None = None, **options: str) -> set[str]:
    return set(fully_written_outputs(lk.make_kernel(domains, text, data, **options)))


@pytest.mark.parametrize(("domains", "text"), [
    ("{[i]: 0<=i<n}", "y[i] = 2*x[i]"),
    ("{[i,j]: 0<=i<n and 0<=j<m}", "y[j,i] = x[i,j]"),
    ("{[i,k]: 0<=i<n and 0<=k<m}", "y[i] = sum(k, a[i,k])"),
    ("{[i]: 0<=i<n}", "y[2*i] = x[i]\ny[2*i+1] = -x[i]"),
    ("{[i]: 0<=i<n}", "if i % 2 == 0\n    y[i] = 1.0\nelse\n    y[i] = x[i]\nend"),
    ("{[i]: 0<=i<n}", "y[n-1-i] = x[i]"),
    ("{[i,t]: 0<=i<n and 0<=t<s}", "y[i] = 0 {inames=i}\ny[i] = y[i] + x[t,i]")])
def test_written_as_a_whole(domains: str, text: str) -> None:
    assert filled(domains, text) == {"y"}


@pytest.mark.parametrize(("domains", "text"), [
    ("{[i]: 0<=i<n}", "y[2*i] = x[i]"),
    ("{[i]: 1<=i<n-1}", "y[i] = x[i-1] + x[i+1]"),
    ("{[i]: 1<=i<n}", "y[i] = x[i]"),
    ("{[i,j]: 0<=i<n and 0<=j<=i}", "y[i,j] = x[i]"),
    ("{[i]: 0<=i<n}", "if x[i] > 0\n    y[i] = x[i]\nend"),
    ("{[i]: 0<=i<n}", "y[at[i]] = x[i]"),
    ("{[i]: 0<=i<n}", "if i < m\n    y[i] = x[i]\nend"),
    ("{[i]: 0<=i<n}", "y[i+3] = x[i]")])
def test_not_written_as_a_whole(domains: str, text: str) -> None:
    assert filled(domains, text) == set()


def test_a_declared_shape_counts() -> None:
    data = [lk.GlobalArg("y", F, shape=("n + 1",)), "..."]
    assert filled("{[i]: 0<=i<n}", "y[i] = 1.0", data) == set()
    assert filled("{[i]: 0<=i<=n}", "y[i] = 1.0", data) == {"y"}


def test_assumptions_count() -> None:
    domain, data = "{[i]: 0<=i<n and i<m}", [lk.GlobalArg("y", F, shape=("n",)), "..."]
    assert filled(domain, "y[i] = 1.0", data) == set()
    assert filled(domain, "y[i] = 1.0", data, assumptions="m>=n") == {"y"}


def test_tiles_write_no_less() -> None:
    knl = lk.split_iname(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]"), "i", 48, outer_tag="g.0", inner_tag="l.0")
    assert fully_written_outputs(knl) == {"y"}
