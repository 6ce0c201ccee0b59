"""Sizes that leave partial tiles, within the assumptions."""
from __future__ import annotations

from math import prod

import numpy as np
import pytest

import loopkit as lk
from loopkit.analysis.data_constraints import divisors
from loopkit.analysis.sizes import ragged_sizes, sizes_at_least, tile_lengths
from loopkit.poly.sets import holds, parse_assumptions


def tiled(assumptions: str = "") -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "y[i, j] = 2*x[i, j]", assumptions=assumptions)
    return lk.split_iname(lk.split_iname(knl, "i", 16), "j", 4)


def ragged(knl: lk.LoopKernel, **known: int) -> list[dict[str, int]]:
    return ragged_sizes(knl, knl.assumptions, known, sorted(knl.value_params))


def test_the_lengths_of_tiles() -> None:
    assert tile_lengths(tiled()) == {"x": ({16}, {4}), "y": ({16}, {4})}
    knl = lk.split_levels(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i] + x[0]"), "i", {"o": None, "w": 4, "t": 32})
    assert tile_lengths(knl) == {"x": ({32, 128},), "y": ({32, 128},)}


def test_all_around_a_tile() -> None:
    found = ragged(tiled())
    assert {(s["n"], s["m"]) for s in found} >= {(0, 0), (1, 1), (15, 3), (16, 4), (17, 5), (3, 0), (0, 5)}
    assert any(s["n"] > 32 and s["m"] > 8 for s in found)
    assert len(found) <= 10
    assert found[0] == {"n": 0, "m": 0}
    assert all(len(set(s.values())) == 2 for s in found[2:])


def test_known_sizes_stay() -> None:
    found = ragged(tiled(), m=6)
    assert {s["m"] for s in found} == {6}
    assert {s["n"] for s in found} >= {0, 1, 5, 15, 16, 17}
    assert ragged(tiled(), n=2, m=6) == [{"n": 2, "m": 6}]


@pytest.mark.parametrize("text", ["n >= 3", "n mod 8 = 0", "n <= 10", "n = 7", "n >= 2*m and m >= 1", "n = m",
                                  "n >= 20 and n <= 21"])
def test_assumptions_hold(text: str) -> None:
    knl = tiled(text)
    found = ragged(knl)
    assert found
    assert all(holds(knl.assumptions, s) for s in found)
    assert len(found) == len({tuple(s.items()) for s in found})


def test_sizes_that_are_not_allowed() -> None:
    with pytest.raises(lk.CallError, match=r"assumptions exclude n = 2: they are n >= 3 and m >= 0\.") as refusal:
        ragged(tiled("n >= 3"), n=2)
    assert refusal.value.argument == "n"


def test_the_least_allowed_sizes() -> None:
    allowed = parse_assumptions("n >= 3 and n mod 4 = 0 and m <= 5", ["n", "m"])
    assert sizes_at_least(allowed, {}, {"n": 9, "m": 2}) == {"n": 12, "m": 2}
    assert sizes_at_least(allowed, {"n": 8}, {"n": 1, "m": 9, "q": 3}) == {"n": 8, "m": 0, "q": 3}


def test_large_tiles_are_tried_one_at_a_time() -> None:
    knl = lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<l}", "c[i, j] = sum(k, a[i, k]*b[k, j])")
    for iname, length in (("i", 2048), ("j", 1024), ("k", 512)):
        knl = lk.split_iname(knl, iname, length)
    found = ragged(knl)
    assert max(prod(s.values()) for s in found) <= 2**24
    assert {2047, 2048, 2049} <= {s["n"] for s in found}


def test_arrays_stay_short() -> None:
    rows = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[100000*i]")
    assert max(s["n"] for s in ragged(rows)) == 5
    assert ragged(rows)[:3] == [{"n": 0}, {"n": 1}, {"n": 5}]
    assert max(s["n"] for s in ragged(tiled(), m=2**20)) == 1
    assert ragged(tiled("n >= 10"), m=2**20) == [{"m": 2**20, "n": 10}]


def test_divisors_are_not_zero() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "<> t = a[i] + 1\ny[i] = x[i] // t + z[i] % q",
                         [lk.ValueArg("q", np.int32), "..."])
    knl = lk.add_dtypes(knl, {"a": np.int32, "x": np.int32, "z": np.int32})
    assert divisors(knl) == {"a", "q"}
    assert min(s["q"] for s in ragged(knl)) == 1
    assert min(s["n"] for s in ragged(knl)) == 0
    assert divisors(lk.make_kernel("{[i]: 0<=i<n}", "f(v) := 3 // v\ny[i] = f(x[i])")) == {"x"}
    assert divisors(tiled()) == frozenset()
