"""Integer expressions at parameter values."""
from __future__ import annotations

import pymbolic.primitives as p
import pytest

from loopkit.expr.evaluate import NoValueError, evaluate, known_value, parameter_plus_constant

n, m = p.Variable("n"), p.Variable("m")


@pytest.mark.parametrize(("expr", "expected"), [
    (3, 3), (True, 1), (n, 7), (n + 2, 9), (2 + n, 9), (n * m, -14), (2*n - m, 16),
    (p.FloorDiv(m - 1, 2), -2), (p.Remainder(m, 3), 1), (p.FloorDiv(n + 15, 16), 1),
    (p.Min((n, m, 3)), -2), (p.Max((n, m, 3)), 7),
    (p.Comparison(n, "<", m), 0), (p.Comparison(n, ">=", 7), 1), (p.Comparison(n, "!=", 7), 0),
    (p.LogicalAnd((p.Comparison(n, "==", 7), p.Comparison(m, "<=", 0))), 1),
    (p.LogicalOr((p.Comparison(n, "==", 8), p.Comparison(m, ">", 0))), 0), (p.LogicalNot(p.Comparison(n, "==", 8)), 1),
    (p.Call(p.Variable("abs"), (m,)), 2), (p.Call(p.Variable("floor"), (m,)), -2),
    (p.Call(p.Variable("conj"), (n,)), 7), (p.Call(p.Variable("round"), (m,)), -2),
    (p.Call(p.Variable("imag"), (n,)), 0), (p.Power(m, 3), -8), (p.Power(m, 0), 1),
    (p.If(p.Comparison(n, ">", m), n + 1, m), 8), (p.If(p.Comparison(n, "<", m), p.FloorDiv(1, 0), m), -2),
])
def test_evaluate(expr: object, expected: int) -> None:
    assert evaluate(expr, {"n": 7, "m": -2}) == expected        # type: ignore[arg-type]


def test_no_value() -> None:
    with pytest.raises(KeyError):
        evaluate(n + m, {"n": 1})


@pytest.mark.parametrize("expr", [
    p.Quotient(n, 2), 1.5, p.Subscript(n, (1,)), p.Power(2, -1), p.Power(2, n), p.Call(p.Variable("sqrt"), (n,))])
def test_not_integer_arithmetic(expr: object) -> None:
    with pytest.raises(NoValueError, match="not integer arithmetic"):
        evaluate(expr, {"n": 1})                                # type: ignore[arg-type]


def test_parameter_plus_constant() -> None:
    assert parameter_plus_constant(n) == ("n", 0)
    assert parameter_plus_constant(p.Sum((1, n, -3))) == ("n", -2)
    for other in (3, n + m, 2*n, p.Max((n, 1)), n + n):
        assert parameter_plus_constant(other) is None


def test_known_values() -> None:
    assert known_value(p.If(p.Comparison(n, ">", 0), n, m), {"n": 3}) == 3          # the other branch is not looked at
    assert known_value(p.If(p.Comparison(n, "<", 1), p.Subscript(m, (n,)), 7), {"n": 3}) == 7
    assert known_value(p.If(p.Comparison(n, "<", 1), p.Subscript(m, (n,)), 7), {"n": 0}) is None
    assert known_value(n + m, {"n": 1}) is None
    assert known_value(p.Quotient(n, 2), {"n": 1}) is None
