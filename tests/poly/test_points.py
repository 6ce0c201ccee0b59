"""Points of parameter sets, and ranges of instance sets at given sizes."""
from __future__ import annotations

import pytest

from loopkit.poly.sets import InstanceSet, checker, fix_params, holds, parse_assumptions, universe_params


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


def test_ranges_at_given_sizes() -> None:
    points = InstanceSet.parse("[n] -> { [i, j]: 2 <= i < n and 0 <= j <= i }")
    assert list(map(points.named(fix_params(points.set, {"n": 10})).constant_range, "ij")) == [(2, 9), (0, 9)]
    assert points.named(fix_params(points.set, {"n": 2})).constant_range("j") == (None, None)
    assert InstanceSet.parse("{ [i]: i >= 0 }").constant_range("i") == (0, None)
