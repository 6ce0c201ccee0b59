"""loopy's precedence of operators."""
from __future__ import annotations

import numpy as np
import pymbolic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import loopkit.compat.loopy as lp
from loopkit.compat.loopy.precedence import with_parentheses
from loopkit.compat.loopy.symbolic import parse

OPERATORS = ["or", "and", "|", "^", "&", "<", "==", "<<", "+", "-", "*", "/", "//", "%", "**"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(OPERATORS), st.sampled_from(["", "", "", "-", "~", "not "]),
                          st.sampled_from("abcd")), min_size=1, max_size=5), st.booleans())
def test_an_expression_means_the_same_as_in_loopy(rest: list[tuple[str, str, str]], choice: bool) -> None:
    text = "a" + "".join(f" {operator} {sign}{name}" for operator, sign, name in rest)
    text = f"{text} if {text} else b*c % d" if choice else text
    # a value as the operand of a comparison, of bits or of a sum says which tree was read
    tree = evaluated(pymbolic.parse(text))
    assert evaluated(parse(text)) == tree, with_parentheses(text)


def evaluated(expr: object) -> list[object]:
    """Values of *expr* for some values of its names."""
    found: list[object] = []
    for a, b, c, d in ((1, 2, 3, 5), (3, 1, 2, 2), (2, 5, 1, 3), (4, 3, 3, 1)):
        try:
            found.append(pymbolic.evaluate(expr, {"a": a, "b": b, "c": c, "d": d}))
        except (ArithmeticError, ValueError, TypeError) as err:
            found.append(type(err))
    return found


@pytest.mark.parametrize(("text", "expected"), [
    ("y[i] = sum(j, 3*x[j] % 2) {id=s, if=not x[i] < y[i], dep=*a}",
     "y[i] = sum(j, 3*(x[j] % 2)) {id=s, if=(not x[i]) < y[i], dep=*a}"),
    ("y[2*i // 3] = sum({[j]: 0<=j<8}, x[j])", "y[2*(i // 3)] = sum({[j]: 0<=j<8}, x[j])"),
    ("<float32> t = 2*3*x[i]*4", "<float32> t = 2*3*x[i]*4"),
    ("if 0 < i < 4\n  [i]: y[i] = f([j]: x[j], 2*n / 3)\nend",
     "if (0 < i) < 4\n  [i]: y[i] = f([j]: x[j], 2*(n / 3))\nend"),
    ("f(a) := 2*a % 3\n... nop {id=n, dep=a*}", "f(a) := 2*(a % 3)\n... nop {id=n, dep=a*}"),
])
def test_only_what_differs_gets_parentheses(text: str, expected: str) -> None:
    assert with_parentheses(text) == expected == with_parentheses(expected)


def test_texts_and_objects_are_read_alike() -> None:
    rows = ["y[0] = 7*n // 2*3", lp.Assignment("y[1]", "7*n // 2*3", id="text"),
            lp.Assignment("y[2]", pymbolic.parse("(7*n) // 2*3"), id="object")]
    unit = lp.make_kernel("{:}", rows, [lp.GlobalArg("y", np.int32, shape=3), "n"], target=lp.ExecutableCTarget())
    _, (y,) = unit(n=np.int32(3))
    assert list(y) == [21, 21, 30]
