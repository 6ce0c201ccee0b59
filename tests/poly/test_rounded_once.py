"""Quotients that isl rounds up, written shorter."""
from __future__ import annotations

import pymbolic.primitives as p
import pytest

from loopkit.expr.evaluate import evaluate
from loopkit.poly.affine import add, floor_div, multiply, rounded_once, subtract

K, N = p.Variable("k"), p.Variable("n")


@pytest.mark.parametrize("m", [2, 3, 16, 128])
@pytest.mark.parametrize("constant", [-3, 0, 1, 14, 40])
def test_it_is_the_same_number(m: int, constant: int) -> None:
    form = subtract(K, floor_div(add(multiply(m - 1, K), constant), m))
    shorter = rounded_once(form)
    for k in range(-2*m, 3*m):
        assert evaluate(shorter, {"k": k}) == evaluate(form, {"k": k})


def test_what_becomes_shorter() -> None:
    form = subtract(K, floor_div(add(multiply(15, K), 14), 16))
    assert rounded_once(form) == floor_div(add(K, 1), 16)


@pytest.mark.parametrize("form", [
    K, 3, add(K, 1), floor_div(add(K, 15), 16), subtract(N, floor_div(K, 16)), add(K, floor_div(K, 4)),
    subtract(multiply(2, K), floor_div(add(K, 1), 2))])
def test_what_stays(form: object) -> None:
    assert rounded_once(form) is form
