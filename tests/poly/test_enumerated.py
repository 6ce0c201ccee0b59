"""Subscripts that are affine for each value of an iname, compared with their values point by point."""
from __future__ import annotations

import pytest

from loopkit.expr.evaluate import evaluate
from loopkit.expr.parsing import parse_expression
from loopkit.poly.affine import NotAffineError
from loopkit.poly.enumerated import affine_on, subscripts_on
from loopkit.poly.relations import element_at
from loopkit.poly.sets import InstanceSet

FEW = InstanceSet.parse("[n] -> {[k,i]: -1<=k<4 and 0<=i<n}")


@pytest.mark.parametrize("text", [
    "k*(n//4) + i", "k*(n//4) + min(2, n % 4, i)", "(k + 1)*(i + n)", "i*k*3 - n", "max(2, k*i) // 3",
    "max(n, k*i) % 5", "i - 2*k",
])
def test_values(text: str) -> None:
    subscript = parse_expression(text)
    relation = subscripts_on(FEW, (subscript, parse_expression("i")))
    for n in (1, 6, 11):
        for k in (-1, 0, 3):
            for i in (0, n - 1):
                want = evaluate(subscript, {"n": n, "k": k, "i": i})
                assert element_at(relation, {"n": n}, (k, i)) == (want, i)


@pytest.mark.parametrize("text", ["i*n", "i*i", "k*k*i*n", "x[k]", "k*1.5"])
def test_others(text: str) -> None:
    assert not affine_on(FEW, (parse_expression(text),))


def test_many_values_are_not_enumerated() -> None:
    many = InstanceSet.parse("[n] -> {[k,i]: 0<=k<100 and 0<=i<n}")
    with pytest.raises(NotAffineError):
        subscripts_on(many, (parse_expression("k*n"),))
