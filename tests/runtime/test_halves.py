"""float16 and bfloat16 on the host: bit for bit what numpy and ml_dtypes compute."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loopkit as lk

Array = np.ndarray[Any, np.dtype[Any]]

HALVES = [pytest.param(np.dtype(np.float16), id="float16"), pytest.param(np.dtype(ml_dtypes.bfloat16), id="bfloat16")]
each_half = pytest.mark.parametrize("half", HALVES)


@pytest.fixture(autouse=True)
def no_warnings_of_nan() -> Iterator[None]:
    """ml_dtypes warns of NaNs wherever there are some."""
    with np.errstate(all="ignore"):
        yield


def every(half: np.dtype[Any]) -> Array:
    return np.arange(65536, dtype=np.uint16).view(half)


def pairs(half: np.dtype[Any], seed: int = 0) -> tuple[Array, Array]:
    """Numbers of all sizes, infinities and NaNs among them; half of them are of about one size."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 65536, (2, 1 << 16)).astype(np.uint16)
    b[::2] = a[::2] ^ rng.integers(0, 1024, 1 << 15).astype(np.uint16)
    return a.view(half), b.view(half)


def run(text: str, data: dict[str, Any], dtypes: dict[str, Any] | None = None) -> Array:
    """``y`` of *text* for each element."""
    given = {k: v.dtype for k, v in data.items()} | (dtypes or {})
    knl = lk.make_kernel("{[i]: 0<=i<n}", f"y[i] = {text}" if "y[i]" not in text else text,
                         [*(lk.GlobalArg(k, d) for k, d in given.items() if k != "y"),
                          *([lk.GlobalArg("y", given["y"])] if "y" in given else []), "..."])
    found: Array = lk.compile(knl, "c")(**data).y
    return found


def same_bits(got: Array, expected: Array) -> None:
    """Equal but for the payloads of NaNs."""
    assert got.dtype == expected.dtype
    bits = np.dtype(f"u{got.dtype.itemsize}")
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(got), ~number)
    np.testing.assert_array_equal(got.view(bits)[number], expected.view(bits)[number])


# Conversions

@pytest.mark.deep(every=4)
@each_half
@pytest.mark.parametrize("wide", ["float32", "float64"])
def test_to_wide(half: np.dtype[Any], wide: str) -> None:
    a = every(half)
    same_bits(run(f"cast({wide}, a[i])", {"a": a}), a.astype(wide))


@each_half
def test_there_and_back(half: np.dtype[Any]) -> None:
    a = every(half)
    same_bits(run(f"cast({half.name}, cast(float32, a[i]))", {"a": a}), a)


def around(half: np.dtype[Any], wide: np.dtype[Any]) -> Array:
    """Every half, what lies in the middle of two, and the next numbers of *wide* to these."""
    a = every(half)
    a = np.sort(a[np.isfinite(a)].astype(wide))
    middles = a[:-1] + (a[1:] - a[:-1]) / 2
    beyond = np.array([a[-1] + (a[-1] - a[-2]) / 2, np.inf, np.nan], wide)
    near = np.concatenate([a, middles, beyond, -beyond])
    return np.concatenate([near, np.nextafter(near, wide.type(np.inf)), np.nextafter(near, wide.type(-np.inf))])


@each_half
@pytest.mark.parametrize("wide", ["float32", "float64"])
def test_from_wide(half: np.dtype[Any], wide: str) -> None:
    a = around(half, np.dtype(wide))
    same_bits(run(f"cast({half.name}, a[i])", {"a": a}), a.astype(half))
    same_bits(run("a[i]", {"a": a}, {"y": half}), a.astype(half))


@pytest.mark.deep(every=14)
@each_half
@pytest.mark.parametrize("integer", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"])
def test_from_integers(half: np.dtype[Any], integer: str) -> None:
    info = np.iinfo(integer)
    rng = np.random.default_rng(1)
    a = np.unique(rng.integers(info.min, info.max, 60_000, dtype=integer) >> rng.integers(0, info.bits, 60_000,
                                                                                           dtype=np.dtype(integer)))
    same_bits(run(f"cast({half.name}, a[i])", {"a": a}), a.astype(half))


@each_half
def test_to_integers(half: np.dtype[Any]) -> None:
    a = every(half)
    a = a[np.isfinite(a) & (np.abs(a.astype(np.float32)) < 2**31)]
    np.testing.assert_array_equal(run("cast(int32, a[i])", {"a": a}), a.astype(np.int32))


def test_one_half_to_the_other() -> None:
    a, b = (every(np.dtype(t)) for t in (np.float16, ml_dtypes.bfloat16))
    same_bits(run("cast(bfloat16, a[i])", {"a": a}), a.astype(np.float32).astype(ml_dtypes.bfloat16))
    same_bits(run("cast(float16, a[i])", {"a": b}), b.astype(np.float32).astype(np.float16))


@pytest.mark.deep(every=2)
@each_half
def test_complex(half: np.dtype[Any]) -> None:
    rng = np.random.default_rng(5)
    a = rng.normal(size=100).astype(half)
    z = (rng.normal(size=100) + 1j*rng.normal(size=100)).astype(np.complex64)
    np.testing.assert_array_equal(run("a[i] + z[i]", {"a": a, "z": z}), a.astype(np.complex64) + z)
    np.testing.assert_array_equal(run("a[i] - 2j", {"a": a}), a.astype(np.complex64) - np.complex64(2j))
    same_bits(run("real(z[i])", {"z": z}, {"y": half}), z.real.astype(half))


# Arithmetic

OPERATIONS: dict[str, Any] = {
    "a[i] + b[i]": lambda a, b: a + b, "a[i] - b[i]": lambda a, b: a - b, "a[i]*b[i]": lambda a, b: a*b,
    "a[i] / b[i]": lambda a, b: a / b, "-a[i]": lambda a, b: -a, "abs(a[i])": lambda a, b: np.abs(a),
    "sqrt(a[i])": lambda a, b: np.sqrt(a), "a[i]**0.5": lambda a, b: np.sqrt(a), "a[i]**2": lambda a, b: a*a,
    "floor(a[i])": lambda a, b: np.floor(a), "ceil(a[i])": lambda a, b: np.ceil(a),
    "round(a[i])": lambda a, b: np.rint(a), "trunc(a[i])": lambda a, b: np.trunc(a),
    "copysign(a[i], b[i])": lambda a, b: np.copysign(a, b),
    "a[i]*b[i] + a[i]": lambda a, b: a*b + a, "a[i]*b[i]*b[i] - a[i] / b[i]": lambda a, b: a*b*b - a / b,
    "-(a[i]*b[i]) + 3": lambda a, b: -(a*b) + 3, "2.5*a[i]": lambda a, b: a.dtype.type(2.5)*a,
    "0.1 + a[i]": lambda a, b: a.dtype.type(0.1) + a, "a[i] - 1e-7": lambda a, b: a - a.dtype.type(1e-7),
    "if(a[i] < b[i], a[i]*b[i], 1)": lambda a, b: np.where(a < b, a*b, a.dtype.type(1)),
    "if(b[i], a[i], -b[i])": lambda a, b: np.where(b != 0, a, -b),
    "a[i] < b[i]": lambda a, b: a < b, "a[i] <= b[i]": lambda a, b: a <= b, "a[i] == b[i]": lambda a, b: a == b,
    "a[i] != b[i]": lambda a, b: a != b, "a[i] > 0.1": lambda a, b: a > a.dtype.type(0.1),
    "a[i]*b[i] >= a[i]": lambda a, b: a*b >= a, "isnan(a[i]*b[i])": lambda a, b: np.isnan(a*b),
    "isfinite(a[i])": lambda a, b: np.isfinite(a), "not a[i]": lambda a, b: a == 0}


@pytest.mark.deep(every=3)
@each_half
@pytest.mark.parametrize("text", OPERATIONS)
def test_operation(half: np.dtype[Any], text: str) -> None:
    a, b = pairs(half)
    expected = OPERATIONS[text](a, b)
    data = {"a": a, "b": b} if "b[i]" in text else {"a": a}
    if expected.dtype == bool:
        np.testing.assert_array_equal(run(text, data), expected)
    else:
        same_bits(run(text, data), expected)


@pytest.mark.deep(every=10)
@each_half
@pytest.mark.parametrize(("text", "function"), [
    ("min(a[i], b[i])", np.fmin), ("max(a[i], b[i])", np.fmax), ("a[i] // b[i]", np.floor_divide),
    ("a[i] % b[i]", np.remainder), ("fmod(a[i], b[i])", np.fmod)])
def test_operation_on_numbers(half: np.dtype[Any], text: str, function: Any) -> None:
    a, b = pairs(half)
    for x in (a, b):
        x[np.isnan(x)] = np.nan                             # a signalling NaN wins against a number in C
    if function not in (np.fmin, np.fmax):
        finite = np.isfinite(a) & (b != 0)
        a, b = a[finite], b[finite]
    np.testing.assert_array_equal(run(text, {"a": a, "b": b}).astype(float), function(a, b).astype(float))


@pytest.mark.deep(every=16)
@each_half
@pytest.mark.parametrize("name", ["exp", "log", "sin", "cos", "tanh", "atan", "exp2", "log1p"])
def test_function_is_rounded_from_float32(half: np.dtype[Any], name: str) -> None:
    a = every(half)
    a = a[np.isfinite(a)]
    expected = getattr(np, name)(a.astype(np.float64)).astype(np.float32).astype(half)
    got = run(f"{name}(a[i])", {"a": a})
    assert got.dtype == half
    # a function of float32 is not rounded right each time, which tells where two halves are equally near
    differ = got.view(np.uint16).astype(int) - expected.view(np.uint16).astype(int)
    differ = differ[~np.isnan(expected)]
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    assert np.max(np.abs(differ)) <= 1
    assert np.count_nonzero(differ) < 20


# Sums, values, temporaries

@each_half
def test_sum_of_halves_is_a_half(half: np.dtype[Any]) -> None:
    a = np.random.default_rng(2).uniform(0, 1, (8, 50)).astype(half)
    knl = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", "y[i] = sum(j, a[i,j])", [lk.GlobalArg("a", half), "..."])
    expected = np.zeros(8, half)
    for j in range(50):
        expected = expected + a[:, j]
    same_bits(lk.compile(knl, "c")(a=a).y, expected)


@each_half
def test_sum_in_float32(half: np.dtype[Any]) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.uniform(-1, 1, (2, 30, 30)).astype(half)
    knl = lk.make_kernel("{[i,j,k]: 0<=i,j,k<n}", "c[i,j] = sum(k, cast(float32, a[i,k])*b[k,j])",
                         [lk.GlobalArg("c", half), "..."])
    knl = lk.add_dtypes(knl, {"a,b": half})
    expected = np.zeros((30, 30), np.float32)
    for k in range(30):
        expected = expected + a.astype(np.float32)[:, k, None]*b.astype(np.float32)[None, k, :]
    same_bits(lk.compile(knl, "c")(a=a, b=b).c, expected.astype(half))


@pytest.mark.deep
@each_half
@pytest.mark.parametrize(("operation", "function"), [("min", np.min), ("max", np.max)])
@pytest.mark.parametrize("tag", [None, "l.0"])
def test_extrema(half: np.dtype[Any], operation: str, function: Any, tag: str | None) -> None:
    a = np.random.default_rng(2).normal(size=(8, 24)).astype(half)
    knl = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<24}", f"y[i] = {operation}(j, a[i,j])",
                         [lk.GlobalArg("a", half), "..."])
    if tag is not None:
        knl = lk.tag_inames(knl, {"i": "g.0", "j": tag})
    same_bits(lk.compile(knl, "c")(a=a).y, function(a.astype(np.float32), axis=1).astype(half))


@each_half
def test_value_argument(half: np.dtype[Any]) -> None:
    a = np.arange(5).astype(half)
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = alpha*a[i]",
                         [lk.ValueArg("alpha", half), lk.GlobalArg("a", half), "..."])
    compiled = lk.compile(knl, "c")
    for alpha in (0.1, np.float32(0.1), half.type(0.1), 3, np.float64(-1e-8), half.type(np.inf)):
        same_bits(compiled(a=a, alpha=alpha).y, half.type(alpha)*a)
    largest = float(ml_dtypes.finfo(half).max)
    with pytest.raises(lk.CallError, match=f"which overflows {half}"):
        compiled(a=a, alpha=1.01*largest)
    with pytest.raises(lk.CallError, match="a real number"):
        compiled(a=a, alpha="x")


@each_half
def test_temporaries(half: np.dtype[Any]) -> None:
    a = np.random.default_rng(4).uniform(0, 2, 40).astype(np.float32)
    knl = lk.make_kernel("{[i]: 0<=i<n}", f"""
        for i
            <{half.name}> t = a[i]
            y[i] = t*t
        end
        """, [lk.GlobalArg("a", np.float32), "..."])
    same_bits(lk.compile(knl, "c")(a=a).y, a.astype(half)*a.astype(half))


@each_half
def test_dtypes_of_the_arrays_decide(half: np.dtype[Any]) -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*a[i]")
    a = np.arange(7).astype(half)
    same_bits(lk.compile(knl, "c")(a=a).y, a + a)
    with pytest.raises(lk.CallError, match=rf"astype\({'.bfloat16.' if half.kind == 'V' else 'np.float16'}\)"):
        lk.compile(lk.add_dtypes(knl, {"a": half}), "c")(a=np.arange(7.0))


@pytest.mark.deep(every=2)
@each_half
def test_equivalence(half: np.dtype[Any]) -> None:
    knl = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<64}", "y[i] = sum(j, a[i,j])", [lk.GlobalArg("a", half), "..."])
    mapped = lk.tag_inames(knl, "i:g.0, j:l.0")             # adds in another order
    report = lk.check_equivalent(knl, mapped, {"n": 10})
    assert 0 < report.outputs[0].bound < 1000
    with pytest.raises(lk.EquivalenceError):
        lk.check_equivalent(lambda a: 0.1*a.astype(np.float32).sum(axis=1), mapped, {"n": 10})


@each_half
def test_equivalence_of_half_temporaries(half: np.dtype[Any]) -> None:
    """Their rounding is allowed for, though all arguments are float32."""
    knl = lk.make_kernel("{[i]: 0<=i<n}", f"<{half.name}> t = a[i]\ny[i] = 3*cast(float32, t)",
                         [lk.GlobalArg("a", np.float32), "..."])
    report = lk.check_equivalent(lambda a: 3*a, knl, {"n": 100})
    assert 0 < report.error < report.outputs[0].bound
