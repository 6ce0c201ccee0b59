"""Derivatives of expressions, against differences of their values."""
from __future__ import annotations

import math

import numpy as np
import pymbolic.primitives as p
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymbolic.typing import Expression

import loopkit as lk
from loopkit.expr.derivatives import DERIVATIVES, Differentiator
from loopkit.expr.functions import FUNCTIONS
from loopkit.expr.mappers import substitute
from loopkit.expr.parsing import parse_expression
from loopkit.interpreter.interpreter import Evaluator

FLOAT = np.dtype(np.float64)
#: Points where every function has a value, and none of them jumps.
INSIDE = {"acosh": 1.7, "log": 1.3, "isnan": 0.3}
BY_X = Differentiator(lambda e, f: f if isinstance(e, p.Variable) and e.name == "x" else None, frozenset("x"), {})


def value(e: Expression, **names: float) -> float:
    read = Evaluator(dict.fromkeys("xyz", FLOAT), lambda *_: pytest.fail("no memory"))
    return float(read.of(e, {name: np.float64(v) for name, v in names.items()}))


def assert_derivative(e: Expression, x: float, **others: float) -> None:
    """The derivative of *e* by ``x`` is the limit of differences."""
    found, h = value(BY_X.of(e), x=x, **others), 1e-4
    at = [value(e, x=x + k*h, **others) for k in (-2, -1, 1, 2)]
    want = (at[0] - 8*at[1] + 8*at[2] - at[3])/(12*h)
    if math.isfinite(want) and abs(want) < 1e4:
        assert found == pytest.approx(want, rel=1e-5, abs=1e-6), str(e)


@pytest.mark.parametrize("name", DERIVATIVES)
def test_functions(name: str) -> None:
    arity = FUNCTIONS[name].arity
    assert len(DERIVATIVES[name]) == arity
    x, others = INSIDE.get(name, 0.4), {"y": 1.7, "z": -0.6}
    for k in range(arity):
        arguments = [p.Variable(a) for a in ("y", "z")]
        arguments.insert(k, p.Variable("x"))
        assert_derivative(p.Call(p.Variable(name), tuple(arguments[:arity])), x, **others)


PARTS = ("({0} + {1})", "({0} - 2*{1})", "{0}*{1}", "({0})/({1} + 3.5)", "({0})**2", "({0})**3", "({0})**-1",
         "2.0**({0})", "sin({0})", "exp({0})", "min({0}, {1}, y)", "max({0}, {1})", "if({0} < 0.3, {1}, {0}*y)",
         "({0}) % 1.5", "cast(float64, {0})", "({0} // 2)*x", "(1.5 + x*x)**({0})", "sqrt(1 + ({0})**2)")


@settings(max_examples=60, deadline=None)
@given(st.recursive(st.sampled_from(["x", "y", "1.25", "0.5*x"]), lambda inner: st.builds(
    lambda form, a, b: form.format(a, b), st.sampled_from(PARTS), inner, inner), max_leaves=5),
    st.floats(-2, 2).map(lambda v: round(v, 3) + 0.000311))
def test_expressions(text: str, x: float) -> None:
    e = parse_expression(text)
    # a jump or a kink between the points of the differences has no derivative
    steps = [value(BY_X.of(e), x=x + k*1e-4, y=0.7319) for k in range(-2, 3)]
    if max(steps) - min(steps) < 1e-2*(1 + abs(steps[0])) and _is_smooth(e, x):
        assert_derivative(e, x, y=0.7319)


def _is_smooth(e: Expression, x: float) -> bool:
    values = [value(e, x=x + k*1e-4, y=0.7319) for k in range(-2, 3)]
    slopes = np.diff(values)
    return bool(np.all(np.isfinite(slopes)) and slopes.max() - slopes.min() < 1e-5*(1 + abs(values[0])))


def test_zero_factors_do_not_multiply_what_is_infinite() -> None:
    """The derivative of the element that is meant is chosen, and not multiplied by 1 or 0."""
    i, d = p.Variable("i"), p.Variable("d")
    by = Differentiator(lambda _, f: p.If(p.Comparison(i, "==", d), f, 0), frozenset("x"), {})
    found = by.of(parse_expression("1/x"))
    assert isinstance(found, p.If)
    assert found.else_ == 0


def test_functions_of_the_user() -> None:
    known = Differentiator(BY_X.leaf, BY_X.active, {"f": [parse_expression("3*x**2")]})
    found = known.of(p.Call(p.Variable("f"), (parse_expression("2*x"),)))
    assert value(substitute(found, {}), x=1.5) == 3*3.0**2*2


@pytest.mark.parametrize("text", ["lgamma(x)", "fmod(x, y)", "y % x", "x & 3", "~x", "product(k, x*k)"])
def test_refused(text: str) -> None:
    k = p.Variable("k")
    e = lk.Reduction("product", ("k",), p.Variable("x")*k) if "product" in text else parse_expression(text)
    with pytest.raises(lk.PreconditionError, match="is not known"):
        BY_X.of(e)
