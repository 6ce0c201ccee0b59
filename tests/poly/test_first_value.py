"""Quotients that isl rounds up, written shorter."""
from __future__ import annotations

import pymbolic.primitives as p
import pytest
from pymbolic.typing import Expression

from loopkit.expr.evaluate import evaluate
from loopkit.poly.affine import add, floor_div, multiply, subtract
from loopkit.poly.extents import first_value
from loopkit.poly.sets import InstanceSet, universe_params

K, N = p.Variable("k"), p.Variable("n")


def first(condition: str) -> Expression:
    return first_value(InstanceSet.parse(f"[k, n] -> {{ [i] : {condition} }}"), universe_params())


@pytest.mark.parametrize("m", [2, 3, 16, 128])
@pytest.mark.parametrize("constant", [-3, 0, 1, 14, 40])
def test_it_is_the_same_number(m: int, constant: int) -> None:
    value = first(f"{m}*i >= k - {constant} and i <= k + 1000")
    for k in range(-2*m, 3*m):
        assert evaluate(value, {"k": k}) == -((constant - k) // m)


def test_what_becomes_shorter() -> None:
    assert first("16*i >= k - 14 and i <= k + 1000") == floor_div(add(K, 1), 16)


@pytest.mark.parametrize(("condition", "value"), [
    ("k <= i <= n", K), ("3 <= i <= n", 3), ("k < i <= n", add(K, 1)), ("k <= 16*i <= n", floor_div(add(K, 15), 16)),
    ("i >= n - floor(k/16) and i <= 10000", subtract(N, floor_div(K, 16))),
    ("i >= k + floor(k/4) and i <= 10000", subtract(multiply(2, K), floor_div(add(multiply(3, K), 3), 4)))])
def test_what_stays(condition: str, value: Expression) -> None:
    assert first(condition) == value
