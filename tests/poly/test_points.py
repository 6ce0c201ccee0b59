"""Points of parameter sets, and ranges of instance sets at given sizes."""
from __future__ import annotations

from functools import reduce

import pytest

from loopkit.poly.domains import MANY_PARAMS, independent_parts
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


def test_constraints_on_many_sizes_are_separated() -> None:
    names = [f"n{k}" for k in range(MANY_PARAMS)]
    text = "n0 <= n1 and n2 = 4*n1 and n5 <= n6 and n7 >= 3"
    whole = parse_assumptions(text, names)
    parts = independent_parts(whole)
    assert parts is not None
    assert {x: sorted(InstanceSet((), part).params) for x, part in parts.items()} == {
        x: own.split() for own in ("n0 n1 n2", "n5 n6", "n7") for x in own.split()}
    assert reduce(type(whole).intersect, parts.values()).is_equal(whole)


@pytest.mark.parametrize("text", ["n0 >= 1 or n1 >= 1", "n0 mod 4 = 0", "n0 >= 1 and n0 <= 0"])
def test_sizes_that_cannot_be_separated(text: str) -> None:
    names = [f"n{k}" for k in range(MANY_PARAMS)]
    assert independent_parts(parse_assumptions(text, names)) is None
    assert independent_parts(parse_assumptions("n0 >= 1", names[:3])) is None
