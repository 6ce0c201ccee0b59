"""Comparing a kernel with another one and with numpy."""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from loopkit.errors import CallError, EquivalenceError, TypeInferenceError
from loopkit.kernel.kernel import LoopKernel
from loopkit.runtime import sample_data
from loopkit.runtime.equivalence import check_equivalent
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


def test_an_element_that_a_kernel_leaves_out() -> None:
    texts = ("{[i]: 0<=i<n}", "y[i] = 2*x[i]"), ("{[i]: 0<=i<n-1}", "y[i] = 2*x[i]"), ("{[i]: 0<=i<n}", "y[i] = 3*x[i]")
    whole, short, wrong = (lk.add_dtypes(lk.make_kernel(*text), {"x": np.float32}) for text in texts)
    note = "the wrong elements have the values from before the call: the kernel may not write them"
    for knl, is_told in ((short, True), (wrong, False)):
        with pytest.raises(EquivalenceError) as caught:
            check_equivalent(whole, knl, {"n": 20}, target="c")
        assert (note in str(caught.value)) == is_told


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


def twice() -> LoopKernel:
    return lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name="twice"), {"x": np.float64})


@pytest.mark.parametrize("ref", [
    lambda x: 2*x, lambda x, /: 2*x, lambda n, x: 2*x[:n], lambda *, x: 2*x, lambda **given: 2*given["x"],
    lambda x, **given: 2*x[:given["n"]], lambda x, scale=2: scale*x, lambda n: 2*np.ones(n),
    lambda *a, x: 2*x])
def test_references_that_fit(ref: Callable[..., Any]) -> None:
    """A function gets what it names, and need not name all."""
    check_equivalent(ref, twice(), {"n": 5, "x": np.ones(5)})


@pytest.mark.parametrize("size", [5, np.int16(5), np.array(5)])
def test_sizes_of_all_kinds_of_integers(size: Any) -> None:
    """A call takes them all."""
    (run,) = check_equivalent(lambda x: 2*x, twice(), {"n": size}).runs
    assert run.sizes == {"n": 5}
    with pytest.raises(CallError, match=r"'n' must be an integer, not 5\.0"):
        check_equivalent(lambda x: 2*x, twice(), {"n": 5.0})


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


# Sizes

def tiled(name: str = "tiled") -> LoopKernel:
    return lk.split_iname(lk.rename_iname(twice(), "i", "k"), "k", 16)


def test_sizes_are_chosen() -> None:
    report = check_equivalent(lambda x: 2*x, tiled(), target="c")
    assert [run.sizes["n"] for run in report.runs] == [0, 1, 5, 15, 16, 17, 37]
    assert report.headline == f"{report.outputs[0]} (worst of 7 runs)"
    assert report == check_equivalent(lambda x: 2*x, tiled(), {}, "c")
    [run] = check_equivalent(lambda x: 2*x, tiled(), {"n": 3}, "c").runs
    assert run.sizes == {"n": 3}


@pytest.mark.parametrize(("ref", "n", "index"), [
    (lambda x: np.where(np.arange(len(x)) < 16, 2*x, 0), 17, (16,)),        # the partial tile
    (lambda x: np.where(np.arange(len(x)) != 15, 2*x, 0), 16, (15,)),
    (lambda x: 2*x if len(x) % 16 else 0*x + 1, 16, None),
    (lambda x: 2*x if len(x) != 1 else x, 1, (0,))])
def test_faults_at_special_sizes(ref: Callable[..., Any], n: int, index: tuple[int, ...] | None) -> None:
    with pytest.raises(EquivalenceError) as err:
        check_equivalent(ref, tiled(), target="c")
    assert err.value.details()[0] == f"with n = {n}, data: random, seed 0"
    assert index in (None, err.value.index)
    check_equivalent(ref, tiled(), {"n": 3}, "c")


def test_arrays_give_sizes() -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "y[i, j] = 2*x[i+1, j]")
    knl = lk.add_dtypes(knl, {"x": np.float64})
    report = check_equivalent(lambda x: 2*x[1:], knl, {"x": np.ones((6, 4))}, "c")
    assert [run.sizes for run in report.runs] == [{"n": 5, "m": 4}]


def test_index_arrays_give_sizes() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[at[i]]", [lk.GlobalArg("x", np.float64, "m"), "..."])
    knl = lk.add_dtypes(knl, {"at": np.int32})
    report = check_equivalent(lambda at, x: x[at], knl, {"at": np.zeros(3, np.int32), "x": np.ones(2)}, "c")
    assert [dict(run.sizes) for run in report.runs] == [{"n": 3, "m": 2}]
    with pytest.raises(CallError, match="'at' cannot be random"):
        check_equivalent(lambda at, x: x[at], knl, target="c")


def test_integers_that_are_no_sizes() -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = a*x[i]", [lk.ValueArg("a", np.int32), "..."]),
                        {"x": np.float64})
    report = check_equivalent(lambda x, a: a*x, knl, {"n": 5}, "c")
    assert {run.sizes["a"] for run in report.runs} > {0, 1}


def test_references_with_other_sizes() -> None:
    fixed = lk.fix_parameters(twice(), n=5)
    assert check_equivalent(twice(), fixed, target="c").error == 0
    assert [run.sizes for run in check_equivalent(fixed, fixed, target="c").runs] == [{}]
    narrow = lk.assume(twice(), "n mod 4 = 0 and n >= 4")
    found = check_equivalent(narrow, tiled(), target="c")
    assert all(run.sizes["n"] % 4 == 0 and run.sizes["n"] >= 4 for run in found.runs)
    more = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i+m]", assumptions="n >= m + 1 and m >= 0")
    more = lk.add_dtypes(more, {"x": np.float64})
    assert check_equivalent(more, more, {"n": 2}, "c").error == 0
    with pytest.raises(CallError, match="assumptions exclude"):
        check_equivalent(more, more, {"n": 0}, "c")


def test_exceptions_at_chosen_sizes() -> None:
    total = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y = max(i, x[i])"), {"x": np.float64})
    with pytest.raises(ValueError, match="zero-size") as err:
        check_equivalent(lambda v: v.max(), total, target="c")
    assert "reference(v=x) with n = 0" in err.value.__notes__[0]
    assert check_equivalent(lambda v: v.max(), lk.assume(total, "n >= 1"), target="c").error == 0


# Data

def test_kinds_of_data_have_their_own_runs() -> None:
    report = check_equivalent(lambda x: 2*x, tiled(), {"n": 7}, "c", data=["nan", "zeros", "nan"])
    assert [run.data for run in report.runs] == ["nan", "zeros"]
    assert len(check_equivalent(lambda x: 2*x, tiled(), {"n": 7}, "c", data="adversarial").runs) == 8


@pytest.mark.parametrize(("data", "ref"), [
    ("zeros", lambda x: 2*x + (x == 0)), ("ones", lambda x: 2*x + (x == 1)), ("primes", lambda x: 2*x + (x == 31)),
    ("nan", lambda x: 2*np.nan_to_num(x)), ("infinities", lambda x: 2*np.abs(x)),
    ("denormals", lambda x: np.where(np.abs(x) < 1e-307, 1e-307, 2*x)), ("large", lambda x: np.minimum(2*x, 1e150))])
def test_faults_that_special_data_show(data: str, ref: Callable[..., Any]) -> None:
    assert check_equivalent(ref, twice(), {"n": 40}, "c").error == 0
    with pytest.raises(EquivalenceError, match="y") as err:
        check_equivalent(ref, twice(), {"n": 40}, "c", data=data)
    assert f"data: {data}" in err.value.details()[0]


def test_zeros_divide_floating_point_numbers() -> None:
    """Both results are NaN, without a warning."""
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i]/z[i]"), {"x": np.float64, "z": np.float64})
    assert check_equivalent(lambda x, z: x/z, knl, {"n": 4}, "c", data="zeros").error == 0


@pytest.mark.parametrize("data", ["zeros", "large"])
def test_integers_that_divide_keep_their_data(data: str) -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i] // z[i]"), {"x": np.int32, "z": np.int32})
    assert check_equivalent(lambda x, z: x // z, knl, {"n": 40}, "c", data=data).error == 0


def test_wrong_arguments() -> None:
    for data in ("nann", ["zeros", "?"], ""):
        with pytest.raises(lk.UnknownNameError, match="is not a kind of data of check_equivalent"):
            check_equivalent(twice(), twice(), {"n": 4}, data=data)
    with pytest.raises(lk.PreconditionError, match="data= names at least one kind"):
        check_equivalent(twice(), twice(), {"n": 4}, data=[])
    for wrong in ({"seed": -1}, {"rtol": -1.0}, {"rtol": float("inf")}):
        with pytest.raises(lk.PreconditionError, match="check_equivalent"):
            check_equivalent(twice(), twice(), {"n": 4}, **wrong)            # type: ignore[arg-type]


def test_a_run_without_numbers_is_named() -> None:
    knl = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<n}", "y[i] = sum(j, x[j]) - x[i]")
    knl = lk.add_dtypes(knl, {"x": np.float32})
    report = lk.check_equivalent(lambda x: x.sum() - x, knl, {"n": 40}, data=("nan", "random"))
    assert re.search(r"40 +no numbers +0", str(report))
    assert "no numbers: all elements of the reference are NaN or infinite" in str(report)
    assert report.outputs[0].bound > 0
    alone = lk.check_equivalent(lambda x: x.sum() - x, knl, {"n": 40}, data="nan")
    assert "y: 0: all elements of the reference are NaN or infinite" in str(alone)
    assert "no numbers" not in str(lk.check_equivalent(lambda x: x.sum() - x, knl, {"n": 40}))
