"""collect_common_factors_on_increment."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import loopkit as lk
from tests.transform.same import assert_same, step

INPUTS = ("w", "v", "a", "b", "x")


def kernel(*lines: str, dtype: str = "float32", shape: str = "", read: str = "y[i] = 2*t") -> lk.LoopKernel:
    """Increments of ``t`` in a loop over *j* in a loop over *i*, and a reader."""
    inner = "\n".join(line for line in lines)
    knl = lk.make_kernel("{[i,j]: 0<=i,j<n}", f"""
        for i
            <{dtype}> t{shape} = 0 {{id=init}}
            for j
                {inner}
            end
            {read} {{id=read}}
        end
        """.replace("<>", ""))
    return lk.add_dtypes(knl, {name: np.float32 for name in INPUTS if name in knl.array_args})


FACTORS = {
    "of two increments": (kernel("t = t + w[i]*a[i,j]*v[j]", "t = t + a[j,i]*w[i]"),
                          ["t + a[i, j]*v[j]", "t + a[j, i]"], "2*(w[i]*t)"),
    "of each term": (kernel("t = t + w[i]*a[i,j] - w[i]*v[j]"), ["t + a[i, j] + (-1)*v[j]"], "2*(w[i]*t)"),
    "two factors": (kernel("t = t + w[i]*v[i]*a[i,j]"), ["t + a[i, j]"], "2*(w[i]*v[i]*t)"),
    "one that does not vary with j": (kernel("t = t + w[j]*v[i]*a[i,j]"), ["t + w[j]*a[i, j]"], "2*(v[i]*t)"),
    "all of an increment": (kernel("t = t + w[i]"), ["t + 1"], "2*(w[i]*t)"),
    "with a wider dtype": (lk.add_dtypes(kernel("t = t + q[i]*a[i,j]"), {"q": np.float64}), ["t + a[i, j]"],
                           "2*cast(float32, q[i]*t)"),
}


@pytest.mark.parametrize("name", FACTORS)
def test_a_common_factor(name: str) -> None:
    knl, increments, read = FACTORS[name]
    after = step(knl, lk.collect_common_factors_on_increment, "t")
    own = [str(s.expression) for s in after.statements if s.written == "t" and s.id != "init"]
    assert own == increments
    assert f"y[i] = {read} " in after.statements_text
    assert_same(knl, after, n=5)


def test_factors_of_rows() -> None:
    text = """
        for i
            <float32> t[k] = 0 {id=init}
            for j
                t[0] = t[0] + w[i]*a[i,j]
                t[1] = t[1] + v[i]*a[j,i]
            end
            y[i] = t[0]
            z[i] = t[1]
        end
        """.replace("<float32> t[k] = 0 {id=init}", "<float32> t[0] = 0\nt[1] = 0")
    knl = lk.make_kernel("{[i,j]: 0<=i,j<n}", text)
    knl = lk.add_dtypes(knl, {name: np.float32 for name in INPUTS if name in knl.array_args})
    with pytest.raises(lk.PreconditionError, match="no common factor"):
        lk.collect_common_factors_on_increment(knl, "t")
    after = lk.collect_common_factors_on_increment(knl, "t", [0])
    assert "y[i] = w[i]*t[0]" in after.statements_text
    assert "z[i] = v[i]*t[1]" in after.statements_text
    assert_same(knl, after, n=4)


def call(*lines: str, **kwargs: str) -> Callable[[], object]:
    return lambda: lk.collect_common_factors_on_increment(kernel(*lines, **kwargs), "t")


REFUSED: dict[str, tuple[Callable[[], object], type[lk.LoopkitError], str]] = {
    "no factor": (call("t = t + w[i]*a[i,j]", "t = t + a[j,i]"), lk.PreconditionError, "no common factor"),
    "one that varies": (call("t = t + w[j]*a[i,j]"), lk.PreconditionError, "no common factor"),
    "one that the kernel writes": (call("t = t + w[i]*a[i,j]", read="w[i] = 2*t"), lk.PreconditionError,
                                   "no common factor"),
    "another use": (call("t = 2*t + w[i]*a[i,j]"), lk.PreconditionError, "is not an increment of 't'"),
    "a product of itself": (call("t = t + w[i]*t"), lk.PreconditionError, "is not an increment of 't'"),
    "an argument": (lambda: lk.collect_common_factors_on_increment(kernel("t = t + w[i]"), "y"), lk.UnknownNameError,
                    "'y' is not a temporary"),
    "no such axis": (lambda: lk.collect_common_factors_on_increment(kernel("t = t + w[i]"), "t", [0]),
                     lk.PreconditionError, "'t' has no axis 0"),
    "integers that wrap": (lambda: lk.collect_common_factors_on_increment(lk.add_dtypes(
        kernel("t = t + p[i]*q[i,j]", dtype="int32"), {"p,q": np.int8}), "t"), lk.PreconditionError,
        "product of dtype int8 to a sum of dtype int32"),
    "no dtype": (lambda: lk.collect_common_factors_on_increment(lk.make_kernel(
        "{[i]: 0<=i<n}", "<> t = w[0]*x[i]\ny[i] = t"), "t"), lk.PreconditionError, "dtype of 't' is unknown"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    run, error, pattern = REFUSED[name]
    with pytest.raises(error, match=pattern):
        run()
