"""Comparing a kernel with another one and with numpy."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from loopkit.errors import CallError, EquivalenceError, TypeInferenceError
from loopkit.kernel.kernel import LoopKernel
from loopkit.runtime import sample_data
from loopkit.runtime.equivalence import check_equivalent
from loopkit.runtime.sample_data import random_array
from tests.runtime.conftest import Workshop, array, c_code, n, value

Make = Callable[..., LoopKernel]


@pytest.fixture
def make(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Kernels ``y[i] = f(a[i])`` by their C; each has its own body."""
    bodies: dict[str, str] = {}

    def generate(knl: LoopKernel, target: str, layout: Any) -> Any:
        return c_code(knl, layout, {"a": (n,), "y": (n,)}, bodies[knl.name])

    def kernel(body: str, dtype: Any = np.float32) -> LoopKernel:
        name = f"k{len(bodies)}"
        bodies[name] = body
        compiled = workshop.compiled((array("a", dtype), array("y", dtype), value("n")), ("y",), reads=("a",),
                                     shapes={"a": (n,), "y": (n,)}, name=name)
        workshop.replace("generate_code", generate)
        return compiled.kernel
    monkeypatch.setattr(sample_data, "index_names", lambda knl: frozenset())
    return kernel


DOUBLE = "  for (int i = 0; i < n; ++i) y[i] = 2 * a[i];"


def test_with_numpy(make: Make) -> None:
    report = check_equivalent(lambda a: 2 * a, make(DOUBLE), {"n": 9})
    assert report.error == 0
    assert str(report).startswith("y: largest error 0, allowed ")
    assert [o.name for o in report.outputs] == ["y"]


@pytest.mark.parametrize("ref", [lambda a, n: np.full(n, 2, a.dtype) * a, lambda **k: {"y": 2 * k["a"]},
                                 lambda a: (2 * a,)])
def test_forms_of_the_reference(make: Make, ref: Callable[..., Any]) -> None:
    check_equivalent(ref, make(DOUBLE), {"n": 9})


def test_with_a_kernel(make: Make) -> None:
    check_equivalent(make(DOUBLE), make("  for (int i = n - 1; i >= 0; --i) y[i] = a[i] + a[i];"), {"n": 9})


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("body", [
    "  for (int i = 0; i < n - 1; ++i) y[i] = 2 * a[i];",                   # misses the last element
    "  for (int i = 0; i < n; ++i) y[i] = i == 4 ? 3 : 2 * a[i];",
    "  for (int i = 0; i < n; ++i) y[i] = i == 4 ? 0.0f / 0.0f : 2 * a[i];",
    "  for (int i = 0; i < n; ++i) y[i] = i == 4 ? 1 / 0.0f : 2 * a[i];"])
def test_differs_from_a_kernel(make: Make, body: str) -> None:
    ref = make(DOUBLE)
    with pytest.raises(EquivalenceError, match=r"y\[[48]\] is .* \(1 of 9 elements are\)") as err:
        check_equivalent(ref, make(body), {"n": 9})
    assert err.value.output == "y"
    assert err.value.index in ((4,), (8,))
    assert err.value.error > err.value.bound > 0


def test_bound(make: Make) -> None:
    off = make("  for (int i = 0; i < n; ++i) y[i] = a[i] * 2.00001f;")
    with pytest.raises(EquivalenceError):
        check_equivalent(lambda a: 2 * a, off, {"n": 9})
    report = check_equivalent(lambda a: 2 * a, off, {"n": 9}, rtol=1e-4)
    assert 0 < report.error <= report.outputs[0].bound


def test_nan_and_infinity_in_the_same_places(make: Make) -> None:
    knl = make("  for (int i = 0; i < n; ++i) y[i] = i ? -1 / 0.0f : 0.0f / 0.0f;")

    def ref(a: Any) -> Any:
        y = np.full_like(a, -np.inf)
        y[0] = np.nan
        return y
    check_equivalent(ref, knl, {"n": 4})
    with pytest.raises(EquivalenceError):
        check_equivalent(lambda a: -ref(a), knl, {"n": 4})


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_])
def test_integers_are_equal_or_not(make: Make, dtype: Any) -> None:
    copy = make("  for (int i = 0; i < n; ++i) y[i] = a[i];", dtype)
    check_equivalent(lambda a: a, copy, {"n": 9})
    with pytest.raises(EquivalenceError) as err:
        check_equivalent(lambda a: a ^ True, copy, {"n": 9})
    assert (err.value.error, err.value.bound) == (1, 0)


def test_shape(make: Make) -> None:
    with pytest.raises(EquivalenceError, match=r"'y' has the shape \(9,\), and the reference's is \(8,\)"):
        check_equivalent(lambda a: a[1:], make(DOUBLE), {"n": 9})


def test_empty(make: Make) -> None:
    assert check_equivalent(lambda a: a, make(DOUBLE), {"n": 0}).error == 0


def test_data_as_given(make: Make) -> None:
    given = np.arange(9, dtype=np.float32)
    check_equivalent(lambda a: 2 * given, make(DOUBLE), {"n": 9, "a": given})


def test_refusals(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    knl = make(DOUBLE)
    with pytest.raises(CallError, match="gives no 'y'"):
        check_equivalent(lambda a: (a, a), knl, {"n": 3})
    with pytest.raises(TypeInferenceError, match="'a', 'y' are open"):
        check_equivalent(lambda a: a, make(DOUBLE, None), {"n": 3})
    monkeypatch.setattr(sample_data, "index_names", lambda knl: frozenset({"a"}))
    with pytest.raises(CallError, match="'a' cannot be random: subscripts or bounds are read from it"):
        check_equivalent(lambda a: a, knl, {"n": 3})


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "i8", "u2", "?", "c8", "c16"])
def test_data(dtype: str) -> None:
    data = random_array((1000,), np.dtype(dtype), np.random.default_rng(0))
    assert data.dtype == dtype
    if dtype != "?":
        assert np.all(data != 0)
    if dtype[0] == "f":
        assert data.min() >= 0.5
        assert data.max() <= 1.5


def twice() -> LoopKernel:
    return lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name="twice"), {"x": np.float64})


@pytest.mark.parametrize("ref", [
    lambda x: 2*x, lambda x, /: 2*x, lambda n, x: 2*x[:n], lambda *, x: 2*x, lambda **given: 2*given["x"],
    lambda x, **given: 2*x[:given["n"]], lambda x, scale=2: scale*x, lambda n: 2*np.ones(n),
    lambda *a, x: 2*x])
def test_references_that_fit(ref: Callable[..., Any]) -> None:
    """A function gets what it names, and need not name all."""
    check_equivalent(ref, twice(), {"n": 5, "x": np.ones(5)})


def test_kernels_of_other_names() -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]"), {"x": np.float64})
    for old, new in (("x", "w"), ("y", "z")):
        with pytest.raises(CallError, match=f"the reference kernel has no array '{old}'") as refusal:
            check_equivalent(lk.rename_argument(knl, old, new), knl, {"n": 5})
        assert refusal.value.hint == f"rename_argument(ref, '{new}', '{old}')"
    other = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "x[i] = 2*y[i]"), {"y": np.float64})
    with pytest.raises(CallError, match="the reference kernel has no output 'y'"):
        check_equivalent(other, knl, {"n": 5})
    check_equivalent(knl, lk.fix_parameters(knl, n=5), {"n": 5})
    check_equivalent(lk.fix_parameters(knl, n=5), knl, {"n": 5})
    check_equivalent(lambda x, n: 2*x, lk.fix_parameters(knl, n=5), {"n": 5})
    for ref in (knl, lambda x: 2*x):
        with pytest.raises(CallError, match="'m' is an argument neither of kernel 'kernel' nor of the reference"):
            check_equivalent(ref, knl, {"n": 5, "m": 3})
