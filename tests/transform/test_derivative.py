"""Derivatives of kernels, against differences of their results."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopkit as lk

SQUARE = "{[i, j]: 0<=i,j<n}"

#: Programs of the arguments x and a, whose result is y.
PROGRAMS = {
    "a temporary in a sum": "<> t = 1/(1 + sinh(x[i] + a[i, j])**2)\ny[i] = sum(j, exp(t*x[j]))",
    "several writers": "y[i] = x[i]**2 {id=A}\ny[i] = y[i]*sum(j, a[i, j]*x[j]) {id=B, if=i > 0}\nu[i] = y[i]",
    "a value that the loop carries":
        "for i\n<float64> t[i] = a[i, 0]*x[i] + if(i > 0, 2*t[i-1]*x[0], 0)\ny[i] = t[i]\nend",
    "rules and a constant write": "f(u) := u*u + sum(j, x[j])\n<> t = 3.0\nt = f(x[i]) {if=i > 1}\ny[i] = t*x[i]",
    "a condition on data, and a read position": "<int32> k = (3*i + 1) % n\ny[i] = if(x[k] > 1, x[k]**3, sin(x[k]))",
    "unused statements": "v[i] = lgamma(x[i])\ny[i] = max(x[i], a[i, 0])\nw[i] = y[i] + v[i]",
}


def program(text: str, **options: Any) -> lk.LoopKernel:
    knl = lk.make_kernel(SQUARE, text, **options)
    return lk.add_dtypes(knl, dict.fromkeys({"x", "a"} & knl.argument_by_name.keys(), np.float64))


@pytest.mark.parametrize("name", PROGRAMS)
def test_differences(name: str) -> None:
    knl = program(PROGRAMS[name], kernel_data=[lk.GlobalArg("x", np.float64, shape="n"), "..."])
    dknl, names = lk.diff_kernel(knl, "y", "x", copy_outputs="y")
    assert names == {"y": "y_dx"}
    rng, n, h = np.random.default_rng(3), 4, 1e-5
    x, a = rng.normal(size=n), rng.normal(size=(n, n))
    f, df = lk.compile(knl, "c"), lk.compile(dknl, "c")
    given = {"n": n, "a": a} if "a" in knl.argument_by_name else {"n": n}
    found = df(x=x, **given)
    want = np.stack([(f(x=x + h*e, **given).y - f(x=x - h*e, **given).y)/(2*h) for e in np.eye(n)], -1)
    np.testing.assert_allclose(found.y_dx, want, rtol=1e-7, atol=1e-8)
    np.testing.assert_array_equal(found.y, f(x=x, **given).y)
    assert found.y_dx.dtype == np.float64


def test_only_what_a_derivative_needs_is_computed() -> None:
    dknl, _ = lk.diff_kernel(program(PROGRAMS["unused statements"]), "y", "x")
    assert [insn.written for insn in dknl.instructions] == ["y_dx"]
    assert [a.name for a in dknl.arguments] == ["a", "n", "x", "y_dx"]
    assert [step.name for step in dknl.history] == ["add_dtypes", "with_statements", "remove_unused_arguments"]


def test_numbers_batches_and_functions_of_the_user() -> None:
    knl = lk.make_kernel(SQUARE, "y[i, j] = alpha**2*x[i, j]*x[i, 0]\nz[i, j] = cube(x[i, j])", functions=[
        lk.ScalarFunction("cube", 1, text={"c": "{0}*{0}*{0}"}, reference=lambda v: v**3)])
    knl = lk.add_dtypes(knl, {"alpha": np.float32, "x": np.float32})
    scalar, _ = lk.diff_kernel(knl, "y", "alpha")
    assert "y_dalpha[i, j] = x[i, j]*x[i, 0]*2*alpha" in scalar.statements_text
    batches, names = lk.diff_kernel(knl, ["y", "z"], "x", "d", batch_axes_in_by=[0], derivatives={"cube": "3*x**2"})
    assert names == {"y": "y_dx", "z": "z_dx"}
    x = np.arange(1, 10, dtype=np.float32).reshape(3, 3)
    out = lk.compile(batches, "c")(x=x, alpha=2)
    j, d = np.arange(3)[:, None], np.arange(3)
    want = 4*((j == d)*x[:, :1, None] + x[:, :, None]*(d == 0))
    np.testing.assert_array_equal(out.y_dx, want)
    np.testing.assert_array_equal(out.z_dx, (j == d)*3*x[:, :, None]**2)
    assert out.y_dx.dtype == np.float32


def test_an_initial_derivative_is_passed() -> None:
    knl = program("y[i] = y[i]*x[i]")
    dknl, _ = lk.diff_kernel(knl, "y", "x")
    x, y = np.array([2.0, 3.0]), np.array([5.0, 7.0])
    seed = np.array([[1.0, 0.5], [0.0, 2.0]])
    out = lk.compile(dknl, "c")(x=x, y=y.copy(), y_dx=seed.copy())
    np.testing.assert_array_equal(out.y_dx, seed*x[:, None] + np.diag(y))


def test_mapped_kernels() -> None:
    knl = lk.split_iname(program("<> t = sin(x[i])\ny[i] = t*x[i]"), "i", 4, outer_tag="g.0", inner_tag="l.0")
    dknl, _ = lk.diff_kernel(knl, "y", "x")
    assert dknl.tags == knl.tags
    x = np.arange(6.0)
    np.testing.assert_allclose(lk.compile(dknl, "c")(x=x).y_dx, np.diag(np.sin(x) + x*np.cos(x)))


@pytest.mark.parametrize(("act", "error", "message"), [
    (lambda: lk.diff_kernel(program("y[i] = a[i, 0]\nz[i] = x[i]"), "y", "x"), lk.PreconditionError,
     "'y' does not depend on 'x'"),
    (lambda: lk.diff_kernel(program("y[i] = x[i]"), "q", "x"), lk.UnknownNameError, "'q' is not an argument"),
    (lambda: lk.diff_kernel(program("y[i] = x[i]"), "y", "q"), lk.UnknownNameError, "'q' is not an argument"),
    (lambda: lk.diff_kernel(program("x[i] = 2*x[i]"), "x", "x"), lk.PreconditionError, "The kernel writes to 'x'"),
    (lambda: lk.diff_kernel(program("y[i] = n*x[i]"), "y", "n"), lk.PreconditionError, "'n' bounds loops"),
    (lambda: lk.diff_kernel(lk.add_dtypes(lk.make_kernel(SQUARE, "y[i] = p[i]*1.5"), {"p": np.int32}), "y", "p"),
     lk.PreconditionError, "'p' is int32, and derivatives are by real numbers"),
    (lambda: lk.diff_kernel(program("y[i] = x[i]*c", kernel_data=[lk.ValueArg("c", np.complex64), "..."]), "y", "x"),
     lk.PreconditionError, "'c' is complex64"),
    (lambda: lk.diff_kernel(program("y[i] = x[p[i]]"), "y", "x"), lk.PreconditionError, "The shape of 'x' is unknown"),
    (lambda: lk.diff_kernel(program("y[i] = lgamma(x[i])"), "y", "x"), lk.PreconditionError,
     r"The derivative of 'lgamma\(x\[i\]\)' is not known"),
    (lambda: lk.diff_kernel(program("y[i] = product(j, x[j])"), "y", "x"), lk.PreconditionError, "is not known"),
    (lambda: lk.diff_kernel(program("y[i] = x[i]"), "y", "x", batch_axes_in_by=[1]), lk.PreconditionError,
     "'x' has 1 axes, but no axis 1")])
def test_refused(act: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        act()
