"""The number of points of a set is the one that enumeration finds."""
from __future__ import annotations

import random
from itertools import product

import pytest

from loopkit.errors import CallError, UndecidedError
from loopkit.poly.counting import number_of_points
from loopkit.poly.limits import bounded
from loopkit.poly.points import all_points
from loopkit.poly.sets import InstanceSet, Set, parse_assumptions, universe_params


def count_text(text: str) -> str:
    return str(number_of_points(Set(text), universe_params()))


@pytest.mark.parametrize(("points", "expected"), [
    ("[n] -> { [i, j] : 0 <= i <= j < n }", "((n**2 + n)/2 if n > 0 else 0)"),
    ("[n] -> { [io, ii] : 0 <= ii <= 15 and 0 <= 16io + ii < n }", "(n if n > 0 else 0)"),
    ("[n] -> { [a, b, c] : 0 <= b <= 3 and 0 <= c <= 7 and 0 <= 32a + 8b + c < n }", "(n if n > 0 else 0)"),
    ("[n] -> { [io] : 0 <= 16io < n }", "((n + 15) // 16 if n > 0 else 0)"),
    ("[n] -> { [x] : x mod 3 = 0 and 0 <= x < 3n }", "(n if n > 0 else 0)"),
    ("[n] -> { [i] : 0 <= i < n or 5 <= i < n + 3 }", "(n - 2 if n >= 3 else 0) + (5 if n >= 5 else 0) + "
                                                      "(n if 0 < n <= 4 else 0)"),
    ("{ [i] : 0 <= i <= 127 }", "128"), ("[n] -> { [] : n >= 3 }", "(1 if n >= 3 else 0)"),
    ("{ [i] : 1 <= i <= 0 }", "0")])
def test_texts(points: str, expected: str) -> None:
    assert count_text(points) == expected


def random_set(draw: random.Random) -> str:
    """Up to three dimensions, some bounded by each other, some with remainders, some sets with two parts."""
    dims = ["i", "j", "k"][:draw.randint(1, 3)]
    parts = []
    for _ in range(draw.choice((1, 1, 2))):
        conditions = [f"{draw.choice(('0', '0', '-1', 'n - 4'))} <= {x} < {draw.choice(('n', 'm', '5', 'n + m'))}"
                      for x in dims]
        for _ in range(draw.randint(0, 2)):
            a, b = draw.choice(dims), draw.choice([*dims, "n", "m"])
            conditions.append(draw.choice((
                f"{a} <= {b}", f"{a} + {b} <= m", f"2{a} <= {b}", f"({a} + {b}) mod 3 = 0", f"{a} mod 4 <= 1",
                f"{b} - 3 <= {a}")))
        parts.append(" and ".join(conditions))
    return f"[n, m] -> {{ [{', '.join(dims)}] : {' or '.join(f'({part})' for part in parts)} }}"


@pytest.mark.parametrize("seed", range(4))
def test_random_sets(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(8):
        text = random_set(draw)
        with bounded("counting"):
            count = number_of_points(Set(text), universe_params())
        for n, m in product((-1, 1, 6), (0, 7)):
            points = all_points(InstanceSet.parse(text), {"n": n, "m": m}, 10**5)
            assert points is not None
            assert count.eval_with_dict({"n": n, "m": m}) == len(points), (text, n, m)


def test_sums_and_products() -> None:
    context = parse_assumptions("n >= 1", ["n"])
    square, half = (number_of_points(Set(text), context) for text in (
        "[n] -> { [i, j] : 0 <= i, j < n }", "[n] -> { [i] : 0 <= 2i < n }"))
    total = (2*square + half*square + 1) * 3
    assert total.eval_with_dict({"n": 5}) == 3*(50 + 3*25 + 1)
    assert str(square + square) == "2*n**2"


def test_sizes_that_are_missing_or_excluded() -> None:
    count = number_of_points(Set("[n] -> { [i] : 0 <= i < n }"), parse_assumptions("n >= 1", ["n"]))
    with pytest.raises(CallError, match="needs the size 'n'"):
        count.eval_with_dict({"m": 3})
    with pytest.raises(CallError, match="assumptions exclude n = 0"):
        count.eval_with_dict({"n": 0})


def test_sets_that_are_not_countable() -> None:
    with pytest.raises(UndecidedError) as caught:
        count_text("[n] -> { [i] : i >= n }")
    assert "not bounded" in caught.value.reason
    with pytest.raises(UndecidedError) as caught:
        count_text("[n] -> { [i] : 0 <= i < n and (i + n) mod 5003 = 0 }")
    assert "5003 remainders" in caught.value.reason
