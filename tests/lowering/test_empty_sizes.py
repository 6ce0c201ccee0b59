"""Sizes at which a domain is empty or nearly so: exactly its points run, however they lie on the grid.

The extent of an axis is an expression that holds where its iname has values; there may be blocks elsewhere.
"""
from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import numpy as np
import pytest

import loopkit as lk
from loopkit.expr.mappers import variables
from tests.property.machine import execute

#: By isl's text: the values of i, from n and m.
DOMAINS: dict[str, Callable[[int, int, int], bool]] = {
    "0<=i<n": lambda i, n, m: 0 <= i < n,
    "0<=i<n and 2*i<=n": lambda i, n, m: 0 <= i < n and 2*i <= n,
    "1<=i<n-1": lambda i, n, m: 1 <= i < n - 1,
    "2<=i<=n": lambda i, n, m: 2 <= i <= n,
    "0<=i<n and i<m": lambda i, n, m: 0 <= i < min(n, m),
    "0<=i and 2*i<=n and 1<=m": lambda i, n, m: i >= 0 and 2*i <= n and m >= 1,
    "exists e: 0<=i<n and i=2*e+1": lambda i, n, m: 0 <= i < n and i % 2 == 1,
    "0<=i<n or 4<=i<m": lambda i, n, m: 0 <= i < n or 4 <= i < m,
    "-n<=i<=n-1": lambda i, n, m: -n <= i <= n - 1,
    "m<=i<n": lambda i, n, m: m <= i < n,
    "0<=i and 2*i<=n": lambda i, n, m: 0 <= 2*i <= n,
    "0<=3*i<=n+m": lambda i, n, m: 0 <= 3*i <= n + m,
    "m<=3*i<n": lambda i, n, m: m <= 3*i < n,
}

MAPPINGS: dict[str, Callable[[lk.LoopKernel], lk.LoopKernel]] = {
    "blocks": lambda k: lk.tag_inames(k, "i:g.0, j:g.1"),
    "blocks and threads": lambda k: lk.split_iname(k, "i", 4, outer_tag="g.1", inner_tag="l.0"),
    "one axis": lambda k: lk.tag_inames(k, "i:g.0, j:g.0"),
    "tiles on one axis": lambda k: lk.split_iname(
        lk.split_iname(k, "i", 2, outer_tag="g.0", inner_tag="l.0"), "j", 2, outer_tag="g.0", inner_tag="l.0"),
    "both": lambda k: lk.split_iname(
        lk.split_iname(k, "i", 2, outer_tag="g.1", inner_tag="l.1"), "j", 4, outer_tag="g.0", inner_tag="l.0"),
}

CENTRE = 12
SIZES = list(itertools.product((-3, -1, 0, 1, 2, 3, 5, 8), (-1, 0, 1, 3, 6)))


def cells(knl: lk.LoopKernel, n: int, m: int, **arrays: np.ndarray) -> dict[str, np.ndarray]:
    lowered = lk.lower(knl)
    return execute(lowered, arrays, {"n": n, "m": m}, random.Random(n))


@pytest.mark.deep
@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("domain", DOMAINS)
def test_exactly_the_points_run(domain: str, mapping: str) -> None:
    knl = lk.make_kernel([f"{{[i]: {domain}}}", "{[j]: 0<=j<n-m}"], f"y[i + {CENTRE}, j] = 1",
                         [lk.GlobalArg("y", np.int64, shape=(2*CENTRE, 2*CENTRE)), "..."])
    knl = MAPPINGS[mapping](knl)
    for n, m in SIZES:
        y = cells(knl, n, m, y=np.zeros((2*CENTRE, 2*CENTRE), np.int64))["y"]
        want = np.array([[DOMAINS[domain](i - CENTRE, n, m) and j < n - m for j in range(2*CENTRE)]
                         for i in range(2*CENTRE)])
        np.testing.assert_array_equal(y, want, err_msg=f"n={n}, m={m}\n{lk.lower(knl)}")


@pytest.mark.deep
@pytest.mark.parametrize("first", DOMAINS)
@pytest.mark.parametrize("second", ["0<=i<n", "1<=i<n-1", "0<=i<n and 2*i<=n"])
def test_two_statements_on_one_axis(first: str, second: str) -> None:
    """Each has its own sizes without values, and a third one runs whatever the size."""
    knl = lk.make_kernel([f"{{[i]: {first}}}", f"{{[j]: {second.replace('i', 'j')}}}"],
                         f"y[i + {CENTRE}] = 1\nz[j + {CENTRE}] = 1\nw[0] = 1",
                         [*(lk.GlobalArg(a, np.int64, shape=(2*CENTRE,)) for a in "yz"), lk.GlobalArg("w", np.int64),
                          "..."])
    knl = lk.split_iname(lk.split_iname(knl, "i", 2, outer_tag="g.0", inner_tag="l.0"), "j", 4, outer_tag="g.0",
                         inner_tag="l.0")
    for n, m in SIZES:
        got = cells(knl, n, m, y=np.zeros(2*CENTRE, np.int64), z=np.zeros(2*CENTRE, np.int64), w=np.zeros(1, np.int64))
        for name, domain in (("y", first), ("z", second)):
            want = [DOMAINS[domain](i - CENTRE, n, m) for i in range(2*CENTRE)]
            np.testing.assert_array_equal(got[name], want, err_msg=f"{name}, n={n}, m={m}\n{lk.lower(knl)}")
        assert got["w"] == [1]


def test_what_is_read_from_memory_is_no_condition_of_a_grid() -> None:
    """A launch knows sizes only: bounds in memory may not even be computed yet."""
    knl = lk.make_kernel(["{[i]: 0<=i<n and m>=1}", "[hi] -> {[j]: 0<=j<hi}"], """
        <> hi = e[0]
        for i
            a[i] = x[i]
        end
        for i
            for j
                y[i] = y[i] + a[n-1-i]
            end
        end
        """, [lk.GlobalArg("e", np.int32), *(lk.GlobalArg(a, np.float64) for a in "axy"), "..."])
    knl = lk.tag_inames(knl, "i:g.0")
    for launch in lk.generate_code(knl, target="cuda").kernels:
        assert not any("hi" in variables(extent) for extent in launch.grid)
    for bound in (0, 2):
        got = cells(knl, 4, 2, e=np.array([bound], np.int32), a=np.zeros(4), x=np.arange(4.), y=np.arange(4.))
        np.testing.assert_array_equal(got["y"], np.arange(4.) + bound*np.arange(4.)[::-1])


def test_a_grid_says_when_it_has_blocks() -> None:
    knl = lk.make_kernel("{[i]: 1<=i<n-1}", "y[i] = x[i-1] + x[i+1]", [
        lk.GlobalArg("x", np.float64), lk.GlobalArg("y", np.float64), "..."])
    knl = lk.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
    assert "if (3 <= n)\n" in lk.generate_code(knl, target="cuda").host
    assert "if (n < 3)\n        return;\n" in str(lk.generate_code(knl, target="c"))
    assumed = lk.assume(knl, "n>=3")
    assert "if" not in str(lk.generate_code(assumed, target="c")).partition("#pragma")[0]
