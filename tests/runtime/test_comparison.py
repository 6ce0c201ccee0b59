"""The comparison of outputs: every fault is found, at its place, with its distance and its bound."""
from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import loopkit as lk
from loopkit.errors import EquivalenceError
from loopkit.runtime.comparison import EquivalenceReport, EquivalenceRun, OutputComparison, compared
from loopkit.runtime.precision import precision_of, ulp
from loopkit.runtime.rounding import Accumulation, ErrorBound
from tests.deep import amount

FLOATS = [np.float16, np.float32, np.float64]


def bound_of(dtype: Any, length: int = 1) -> ErrorBound:
    precision = precision_of(np.dtype(dtype))
    return ErrorBound("the dtype of 'x'", precision, (Accumulation("the sum over k", length, precision),))


EXACT = ErrorBound("", None, ())
SHAPES = st.lists(st.integers(1, 20), min_size=0, max_size=3).map(tuple)


# One fault

@given(SHAPES, st.sampled_from([*FLOATS, np.int8, np.uint64, np.int64, np.bool_, np.complex64, np.complex128]),
       st.data())
@settings(max_examples=amount(100))
def test_a_fault_of_one_element_is_found(shape: tuple[int, ...], dtype: Any, data: st.DataObject) -> None:
    random = np.random.default_rng(data.draw(st.integers(0, 9)))
    right = np.asarray(random.integers(0, 2, shape) if np.dtype(dtype).kind in "biu" else
                       random.uniform(0.5, 1.5, shape)).astype(dtype)
    index = tuple(data.draw(st.integers(0, n - 1)) for n in shape)
    wrong = right.copy()
    fault = data.draw(st.sampled_from(["value", "nan", "inf"] if wrong.dtype.kind in "fc" else ["value"]))
    wrong[index] = {"nan": np.nan, "inf": -np.inf}.get(fault, not right[index] if dtype is np.bool_ else
                                                       right[index] + right.dtype.type(1))
    bound = bound_of(dtype) if right.dtype.kind in "fc" else EXACT
    assert compared("y", right, right, bound, ()).error == 0
    for got, expected in ((wrong, right), (right, wrong)):
        with pytest.raises(EquivalenceError, match=r"\(1 of \d+ elements are\)") as found:
            compared("y", got, expected, bound, ())
        err = found.value
        assert (err.index, err.wrong, err.box) == (index, (index,), tuple((i, i) for i in index))
        assert err.error > err.bound
        assert np.array_equal(err.got, got[index], equal_nan=fault == "nan")          # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_large_integers_do_not_wrap_around(dtype: Any) -> None:
    limits = np.iinfo(dtype)
    with pytest.raises(EquivalenceError) as found:
        compared("y", np.array([limits.min], dtype), np.array([limits.max], dtype), EXACT, ())
    assert found.value.error == float(2**64 - 1)


@pytest.mark.parametrize(("got", "expected", "is_same"), [
    (np.nan, np.nan, True), (np.inf, np.inf, True), (-np.inf, np.inf, False), (np.nan, np.inf, False),
    (0.0, -0.0, True), (np.finfo(np.float32).max, np.inf, False), (np.nan, 1.0, False)])
def test_special_values(got: float, expected: float, is_same: bool) -> None:
    pair = (np.array([1, got], np.float32), np.array([1, expected], np.float32))
    if is_same:
        assert compared("y", *pair, bound_of(np.float32), ()).error == 0
    else:
        with pytest.raises(EquivalenceError) as found:
            compared("y", *pair, bound_of(np.float32), ())
        assert (found.value.index, found.value.error, found.value.ulps) == ((1,), np.inf, np.inf)
        assert not any("ulps" in line for line in found.value.details())


@pytest.mark.parametrize("got", [complex(np.inf, 0), complex(np.nan, 1), complex(1, -np.inf), complex(np.nan, np.nan)])
def test_complex_numbers_that_are_not_finite(got: complex) -> None:
    """C, CUDA and numpy differ in the parts of ``2*(inf + 0j)``."""
    values = np.array([1, got], np.complex64)
    assert compared("y", values, np.array([1, complex(np.inf, np.nan)]), bound_of(np.complex64), ()).error == 0
    with pytest.raises(EquivalenceError, match=r"y\[1\] is"):
        compared("y", values, np.array([1, 1 + 0j]), bound_of(np.complex64), ())


def test_complex_kernels_agree_on_all_data() -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]*x[i]"), {"x": np.complex64})
    lk.check_equivalent(lambda x: 2*x*x, knl, {"n": 5}, "c", data=["nan", "infinities"])


# Distances

@given(st.sampled_from(FLOATS), st.data())
@settings(max_examples=amount(200))
def test_an_ulp_is_numpys_spacing(dtype: Any, data: st.DataObject) -> None:
    width = np.dtype(dtype).itemsize*8
    value = data.draw(st.floats(width=width, allow_nan=False, allow_infinity=False))         # type: ignore[arg-type]
    if abs(value) < np.finfo(dtype).max:                       # beyond it numpy has no spacing
        assert ulp(value, np.dtype(dtype)) == float(np.spacing(abs(dtype(value))))


@pytest.mark.parametrize(("name", "values"), [
    ("bfloat16", (1.5, 255.0, 2.0**-126, 2.0**-130, 3e38)), ("float8_e4m3fn", (1.75, 2.0**-6, 2.0**-9, 416.0)),
    ("float8_e5m2", (1.75, 2.0**-14, 2.0**-16, 49152.0))])
def test_an_ulp_of_the_reals_of_ml_dtypes(name: str, values: tuple[float, ...]) -> None:
    dtype = getattr(pytest.importorskip("ml_dtypes"), name)
    for value in (0.0, 1.0, *values):
        assert ulp(value, np.dtype(dtype)) == float(np.spacing(dtype(value)))


@given(st.sampled_from(FLOATS), st.floats(0.0009765625, 1000, width=16), st.integers(1, 9))
@settings(max_examples=amount(100))
def test_steps_of_nextafter_are_ulps(dtype: Any, value: float, steps: int) -> None:
    """Up from *value*, without a step over a power of two."""
    start, end = dtype(value), dtype(value)
    allowing = ErrorBound("x", precision_of(np.dtype(dtype)), (), 1.0)
    for _ in range(steps):
        end = np.nextafter(end, dtype(np.inf))
    if np.frexp(start)[1] == np.frexp(end)[1]:
        for pair in ((start, end), (end, start)):
            found = compared("y", *(np.array([x], dtype) for x in pair), allowing, ())
            assert found.ulps == steps
            assert found.error == float(end) - float(start)


def test_ulps_of_a_reference_of_higher_precision() -> None:
    found = compared("y", np.array([1.0], np.float32), np.array([1 + 2.0**-24]), bound_of(np.float32), ())
    assert found.ulps == 0.5


# Bounds

def test_the_bound_in_words() -> None:
    bound = bound_of(np.float32, 24)
    assert bound.length == 24
    assert bound.at(27.8) == pytest.approx(2.0**-23*56*27.8)
    assert bound.text(27.8) == ("eps of float32 (1.19e-07, the dtype of 'x'), times 8 + 2*24 roundings (24 in the sum "
                                "over k), times the largest |reference| 27.8")
    own = ErrorBound("x", precision_of(np.dtype(np.float32)), (), 0.25)
    assert own.text(2.0) == "rtol 0.25, times the largest |reference| 2"
    assert EXACT.text(3.0) == "0: integers and truth values are equal or not"
    assert EXACT.at(3.0) == 0


def test_denormals_have_a_bound() -> None:
    smallest = np.array([2.0**-149], np.float32)
    bound = bound_of(np.float32)
    assert compared("y", 3*smallest, smallest, bound, ()).bound == 10*2.0**-149
    assert "at least the smallest float32 1.4e-45 for each rounding" in bound.text(float(smallest[0]))
    with pytest.raises(EquivalenceError):
        compared("y", 12*smallest, smallest, bound, ())
    assert ErrorBound("x", precision_of(np.dtype(np.float32)), (), 0.5).at(0.0) == 0


def test_the_largest_value_counts_where_it_is_finite() -> None:
    expected = np.array([np.inf, 4.0, -8.0, np.nan], np.float32)
    assert compared("y", expected, expected, bound_of(np.float32), ()).bound == 2.0**-23*10*8


# Places

def failure(shape: tuple[int, ...], wrong: Any, tiles: tuple[set[int], ...]) -> EquivalenceError:
    expected = np.zeros(shape, np.float32)
    got = expected.copy()
    got[wrong] = 1
    with pytest.raises(EquivalenceError) as found:
        compared("y", got, expected, bound_of(np.float32), tiles, ("the run",))
    return found.value


@pytest.mark.parametrize(("shape", "wrong", "tiles", "line"), [
    ((18, 5), np.s_[16:, 2:4], ({16}, {4}),
     "all wrong elements lie in y[16..17, 2..3]; axis 0: the last, partial tile of 16 (16..17)"),
    ((18, 5), np.s_[16:], ({16}, {4}),
     "all wrong elements lie in y[16..17, 0..4]; axis 0: the last, partial tile of 16 (16..17)"),
    ((18,), np.s_[16], ({16},), "axis 0: the last, partial tile of 16 (16..17)"),
    ((40,), np.s_[3::4], ({4, 16},), "all wrong elements lie in y[3..39]; axis 0: the last element of tiles of 4"),
    ((40,), np.s_[::16], ({4, 16},), "all wrong elements lie in y[0..32]; axis 0: the first element of tiles of 16"),
    ((40,), np.s_[5:9], ({16},), "all wrong elements lie in y[5..8]"),
    ((32,), np.s_[30:], ({16},), "all wrong elements lie in y[30..31]"),
    ((9, 9), np.s_[2, 3:], (), "all wrong elements lie in y[2, 3..8]"),
    ((12,), np.s_[:2], ({16},), "all wrong elements lie in y[0..1]")])
def test_where_wrong_elements_lie(shape: tuple[int, ...], wrong: Any, tiles: tuple[set[int], ...], line: str) -> None:
    assert line in failure(shape, wrong, tiles).details()


def test_other_wrong_elements_are_listed() -> None:
    err = failure((9, 9), np.s_[2, 3:], ())
    assert err.wrong == tuple((2, k) for k in range(3, 9))
    assert err.box == ((2, 2), (3, 8))
    assert err.details()[0] == "the run"
    assert err.details()[-1] == "other wrong elements: y[2, 4], y[2, 5], y[2, 6], y[2, 7], y[2, 8]"
    assert failure((20,), np.s_[5:], ()).details()[-1].endswith("y[10], ...")
    assert not any("other" in line for line in failure((20,), np.s_[5], ()).details())
    everything = failure((4,), np.s_[:], ())
    assert not any("lie in" in line for line in everything.details())
    assert str(failure((), (), ())).startswith("y is 1.0 and should be 0.0")


def test_the_worst_are_listed_first() -> None:
    expected = np.zeros(9, np.int64)
    with pytest.raises(EquivalenceError) as found:
        compared("y", np.array([0, 1, 5, 0, 7, 0, 2, 0, 0]), expected, EXACT, ())
    assert found.value.wrong == ((4,), (2,), (6,), (1,))
    assert found.value.ulps is None


# Reports

def test_a_report_has_the_worst_run_of_each_output() -> None:
    def run(n: int, *outputs: tuple[str, float, float]) -> EquivalenceRun:
        return EquivalenceRun({"n": n}, "random", tuple(
            OutputComparison(name, error, bound, (n - 1,), 1.0, 1.0, 1.0, "of dtypes")
            for name, error, bound in outputs), n)
    report = EquivalenceReport("knl", "sum(x)", (run(1, ("y", 1, 2), ("z", 0, 0)), run(2, ("y", 3, 9), ("z", 0, 0))), 5)
    assert [(o.name, o.error, o.index) for o in report.outputs] == [("y", 1, (0,)), ("z", 0, (1,))]
    assert (report.error, report.length) == (3, 2)
    assert repr(report) == ("<EquivalenceReport y: largest error 1, allowed 2; z: largest error 0, allowed 0 (worst of "
                            "2 runs)>")
    assert repr(report.runs[0]) == ("<EquivalenceRun n = 1, data: random: y: largest error 1, allowed 2; z: largest "
                                    "error 0, allowed 0>")
    assert str(report).splitlines() == [
        report.headline, "OUTPUTS", "  output  worst element  value  reference  error  ulps  allowed",
        "  y       y[0]           1.0    1.0        1      1     2",
        "  z       all are equal                    0            0",
        "BOUNDS", "  y: of dtypes", "  z: of dtypes", "RUNS", "  n  random", "  1  0.5", "  2  0.33",
        "  kernel 'knl' against sum(x), with seed 5",
        "  under each kind of data: the largest error, as a part of the allowed one"]
    assert "<table" in report._repr_html_()


def test_a_report_of_empty_outputs() -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]"), {"x": np.float32})
    report = lk.check_equivalent(knl, knl, {"n": 0}, "c")
    assert "no elements" in str(report)
    assert report.error == 0
