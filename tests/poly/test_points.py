"""Points of parameter sets and extents of instance sets."""
from __future__ import annotations

import pytest

from loopkit.poly.sets import InstanceSet, checker, extents, holds, parse_assumptions, universe_params


@pytest.mark.parametrize(("text", "good", "bad", "said"), [
    ("n >= 1 and m >= n + 3", {"n": 1, "m": 4}, {"n": 1, "m": 3}, "n <= -3 + m"),
    ("n = 3", {"n": 3, "m": 0}, {"n": 4, "m": 0}, "n = 3"),
    ("n mod 16 = 0", {"n": 32, "m": 0}, {"n": 33, "m": 0}, "(n) mod 16 = 0"),
    ("n >= 5 or m = 4", {"n": 0, "m": 4}, {"n": 0, "m": 3}, "n >= 5 or m = 4"),
])
def test_checker(text: str, good: dict[str, int], bad: dict[str, int], said: str) -> None:
    params = parse_assumptions(text, ["n", "m"])
    assert checker(params)(good) is None
    assert holds(params, good)
    assert checker(params)(bad) == said
    assert not holds(params, bad)


def test_nothing_assumed() -> None:
    assert checker(universe_params())({}) is None


def test_extents() -> None:
    points = InstanceSet.parse("[n] -> { [i, j]: 2 <= i < n and 0 <= j <= i }").set
    assert extents(points, [0, 1], {"n": 10}) == (8, 10)
    assert extents(points, [1], {"n": 2}) == (0,)
    assert extents(InstanceSet.parse("{ [i]: i >= 0 }").set, [0], {}) == (None,)
