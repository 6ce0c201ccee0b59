"""Expressions as text: what the parser reads back, without redundant parentheses."""
from __future__ import annotations

import numpy as np
import pymbolic.primitives as p
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopkit.expr.nodes import Neutral, Reduction, TypeCast, to_text
from loopkit.expr.parsing import KnownNames, parse_expression

x, y, i, j = map(p.Variable, "xyij")


def read(text: str) -> object:
    return parse_expression(text, known=KnownNames(("k", "l"), {"f": 1, "g": 0}))


@pytest.mark.parametrize("text", [
    "c[i, j]", "a[16*i_outer + i_inner, k]*b[k, j]", "if(c, a, b)", "min(a, b, 0)", "x - 1", "-x", "-2*x", "x - 2*y",
    "x - (y - 1)", "x + (y + 1)", "x - (y + z)*2", "-(x + y)", "-(x / y)", "x - x / y", "x / (y / z)", "x / y / z",
    "(x / y)*z", "x*(y / z)", "x*(y*z)", "-x*y", "(x + 1) // 16", "i % 16", "x // 2*y" , "x**2", "(-x)**2", "-x**2",
    "x**-2", "x**y**z", "(x**y)**z", "(x + 1)**(y - 1)", "(-2)**x", "x < y", "(x < y) == z", "x < 1 and y < 2 or z > 3",
    "x < 1 and (y < 2 or z > 3)", "not x < y", "not (x and y)", "not x and y", "(not x) < y", "sum(k, a[k]*x)",
    "max([k, l], a[k, l])", "sqrt(x + 1)", "f(x) + g()", "cast(float32, x)", "1.5f", "cast(int8, 3)", "2j*x", "1e-05*x",
    "true", "if(x > 0, -1, 2) + 1", "x*(-y)", "x*(-2)"])
def test_text_is_as_written(text: str) -> None:
    expected = {"x // 2*y": "(x // 2)*y"}.get(text, text)
    assert to_text(read(text)) == expected          # type: ignore[arg-type]


@pytest.mark.parametrize(("expr", "expected"), [
    (p.Sum((x, -1)), "x - 1"), (p.Product((-1, x)), "-x"), (p.Sum((p.Product((-1, x)), y)), "-x + y"),
    (p.Sum((x, p.Product((-16, i, j)))), "x - 16*i*j"), (np.float32(1.5), "1.5"), (np.int8(-3), "-3"), (True, "true"),
    (1 + 2j, "1.0 + 2.0j"), (p.Product((1 + 2j, x)), "(1.0 + 2.0j)*x"), (-2j, "-2j"), (Neutral("sum"), "neutral(sum)"),
    (p.Sum((x, -2.5)), "x - 2.5"), (TypeCast("float32", -1.5), "cast(float32, -1.5)"),
    (Reduction("sum", ("i", "j"), x), "sum([i, j], x)"), (p.Power(-2, x), "(-2)**x"), (p.Call(x, ()), "x()")])
def test_text_of_nodes(expr: object, expected: str) -> None:
    assert to_text(expr) == expected                # type: ignore[arg-type]


def _texts() -> st.SearchStrategy[str]:
    atoms = st.sampled_from(["x", "y", "a[i]", "a[i - 1]", "0", "1", "7", "2.5", "1e-3", "2j", "true"])

    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        operators = st.sampled_from(["+", "-", "*", "/", "//", "%", "**", "<", "<=", "==", "!=", "and", "or"])
        return st.one_of(
            st.tuples(inner, operators, inner).map(lambda t: f"({t[0]}) {t[1]} ({t[2]})"),
            inner.map(lambda t: f"-({t})"), inner.map(lambda t: f"not ({t})"), inner.map(lambda t: f"f({t}) + g"),
            st.tuples(inner, inner).map(lambda t: f"if({t[0]}, {t[1]}, x)"), inner.map(lambda t: f"cast(float32, {t})"),
            st.tuples(inner, inner, inner).map(lambda t: f"({t[0]}) - ({t[1]}) + ({t[2]})"))
    return st.recursive(atoms, larger, max_leaves=12)


@settings(max_examples=300, deadline=None)
@given(_texts())
def test_what_is_printed_reads_back(text: str) -> None:
    expr = read(text)
    assert read(to_text(expr)) == expr              # type: ignore[arg-type]
