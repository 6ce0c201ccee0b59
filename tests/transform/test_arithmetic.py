"""fold_constants and simplify_indices."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from tests.transform.same import assert_same, step

F32 = np.float32


def value(expression: str) -> str:
    """The expression of a statement after the step, whose results are the same bit for bit."""
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<3}", f"y[i] = x[i] + ({expression})"), {"x": F32})
    after = step(knl, lk.fold_constants)
    assert after.history[-1].verdict == "structural"
    return str(after.statement("insn").expression).removeprefix("x[i] + ")


@pytest.mark.parametrize(("expression", "folded"), [
    ("2*3*x[i]", "6*x[i]"), ("x[i]*2*3", "x[i]*2*3"), ("(1 + 2)*x[i]", "3*x[i]"), ("2 - 5", "-3"), ("7 // 2", "3"),
    ("(-7) % 4", "1"), ("1/2", "0.5"), ("1/3", "1 / 3"), ("0.1*3", "0.1*3"), ("2.0*0.25*x[i]", "0.5*x[i]"),
    ("min(3, 4)*x[i]", "3*x[i]"), ("300*300", "90000"), ("40000*40000", "40000*40000"), ("0.0*(-1.0)", "0.0*(-1.0)"),
    ("3 // 0", "3 // 0"), ("x[1 + 1]", "x[2]"), ("sin(1 + 1)", "sin(2)")])
def test_fold_constants(expression: str, folded: str) -> None:
    assert value(expression) == folded


def test_fold_constants_in_all_expressions() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "f(v) := (1 + 1)*v\nif x[i] > 1 + 2\ny[i] = f(x[i]) + 2*3\nend")
    knl = lk.add_dtypes(knl, {"x": F32})
    after = lk.fold_constants(knl)
    assert "f(v) := 2*v" in str(after) or str(after.substitutions["f"].expr) == "2*v"
    assert "x[i] > 3" in after.statements_text
    assert_same(knl, after, n=5)


SIMPLE = {
    "a quotient and a remainder": ("{[i]: 0<=i<n}", "y[i] = x[8*(i//8) + i%8]", "y[i] = x[i]"),
    "a quotient that is 0": ("{[i]: 0<=i<8}", "y[i] = x[i//8 + i]", "y[i] = x[i]"),
    "an index from memory": ("{[i]: 0<=i<8}", "y[i] = x[8*(i//8 + w[i]) + i - 8*w[i]]", "y[i] = x[i]"),
    "an index in an index": ("{[i]: 0<=i<8}", "y[i] = x[w[i//8] - w[0]]", "y[i] = x[0]"),
    "a written element": ("{[i]: 0<=i<8}", "y[(8*i + 3)//8] = x[i]", "y[i] = x[i]"),
    "one that is needed": ("{[i]: 0<=i<9}", "y[i] = x[i//8]", "y[i] = x[i // 8]"),
    "one of two cases": ("{[i]: 0<=i<8}", "y[i] = x[max(3, i)]", "y[i] = x[max(3, i)]"),
    "a form as short": ("{[i]: 0<=i<n}", "y[i] = x[n - 1 - i]", "y[i] = x[n - 1 - i]"),
}


@pytest.mark.parametrize("name", SIMPLE)
def test_simplify_indices(name: str) -> None:
    domain, text, wanted = SIMPLE[name]
    knl = lk.make_kernel(domain, text)
    knl = lk.add_dtypes(knl, {a: np.int32 if a == "w" else F32 for a in ("x", "w") if a in knl.array_args})
    after = step(knl, lk.simplify_indices)
    assert wanted in after.statements_text
    sizes = {"n": 13} if "n" in domain else {}
    given = {"w": np.zeros(8, np.int32), "x": np.arange(8, dtype=F32)} if "w" in knl.array_args else {}
    assert_same(knl, after, **sizes, **given)  # type: ignore[arg-type]
