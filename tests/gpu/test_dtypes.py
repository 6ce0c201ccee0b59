"""Halves, floats of 8 bits and complex numbers on the GPU, against numpy."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import loopkit as lk
from loopkit.expr.kinds import ML_DTYPES, epsilon

NARROW = {"float16": np.dtype(np.float16), **{name: np.dtype(getattr(ml_dtypes, name)) for name in ML_DTYPES}}
each_narrow = pytest.mark.parametrize("dtype", NARROW.values(), ids=NARROW)


def on_both(knl: lk.LoopKernel, **arguments: object) -> tuple[np.ndarray, np.ndarray]:
    """The only output, on the GPU and on the host."""
    mapped = lk.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
    return lk.compile(mapped, target="cuda")(**arguments)[0], lk.compile(knl, target="c")(**arguments)[0]


def typed(expression: str, dtype: npt.DTypeLike) -> tuple[lk.LoopKernel, set[str]]:
    """``y[i] = expression`` with arrays a and b and a scalar s of *dtype*, and which of them it has."""
    knl = lk.make_kernel("{[i]: 0<=i<n}", f"y[i] = {expression}")
    names = {"a", "b", "s"} & knl.argument_by_name.keys()
    return lk.add_dtypes(knl, dict.fromkeys(names, dtype)), names


def bits(a: np.ndarray) -> np.ndarray:
    return a.view(f"u{a.dtype.itemsize}")


@each_narrow
def test_every_value_survives(dtype: np.dtype) -> None:
    """Through float32 and back, for all patterns."""
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", f"y[i] = cast({dtype.name}, cast(float32, x[i]))"),
                        {"x": dtype, "y": dtype})
    x = np.arange(1 << 8*dtype.itemsize, dtype=f"u{dtype.itemsize}").view(dtype)
    gpu, host = on_both(knl, x=x)
    number = ~np.isnan(x.astype(np.float32))
    assert (bits(gpu)[number] == bits(x)[number]).all()
    assert (bits(host)[number] == bits(x)[number]).all()
    assert np.isnan(gpu[~number].astype(np.float32)).all()


@each_narrow
def test_conversions_from_float32(dtype: np.dtype) -> None:
    """Bit for bit those of ml_dtypes: near every number and the middle of two, beyond the largest, and anywhere."""
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i]"), {"x": np.float32, "y": dtype})
    every = np.arange(1 << 8*dtype.itemsize, dtype=f"u{dtype.itemsize}").view(dtype).astype(np.float32)
    every = np.unique(every[np.isfinite(every)])
    with np.errstate(over="ignore"):
        beyond = every[-1]*np.array([1.0002, 1.03, 1.07], np.float32)
    near = np.concatenate([every, every[:-1]/2 + every[1:]/2, beyond])
    anywhere = np.random.default_rng(4).integers(0, 1 << 32, 50_000, dtype=np.uint32).view(np.float32)
    x = np.concatenate([near, *(np.nextafter(near, np.float32(end)) for end in (-np.inf, np.inf)), anywhere])
    with np.errstate(all="ignore"):
        expected = x.astype(dtype)
    gpu, host = on_both(knl, x=x)
    number = ~np.isnan(expected.astype(np.float32))
    for got in (gpu, host):
        assert (bits(got)[number] == bits(expected)[number]).all()
        assert np.isnan(got[~number].astype(np.float32)).all()


@each_narrow
@pytest.mark.parametrize("expression", ["a[i] + b[i]", "a[i] - b[i]", "a[i]*b[i]", "a[i] / b[i]", "-a[i]", "abs(a[i])",
                                        "min(a[i], b[i])", "max(a[i], b[i])", "sqrt(abs(a[i]))", "2.5*a[i]",
                                        "if(a[i] < b[i], a[i], 2*b[i])"])
def test_operations_are_the_hosts(dtype: np.dtype, expression: str) -> None:
    """Each rounded once, so equal bit for bit."""
    knl, names = typed(expression, dtype)
    random = np.random.default_rng(5)
    a, b = (random.standard_normal(100_000).astype(dtype) * dtype.type(s) for s in (1, 30))
    gpu, host = on_both(knl, **{x: v for x, v in (("a", a), ("b", b)) if x in names})
    assert gpu.dtype == host.dtype == dtype
    wrong = (bits(gpu) != bits(host)) & ~(np.isnan(gpu.astype(np.float32)) & np.isnan(host.astype(np.float32)))
    assert not wrong.any(), (a[wrong][:3], b[wrong][:3], gpu[wrong][:3], host[wrong][:3])


@each_narrow
def test_functions(dtype: np.dtype) -> None:
    for function in ("exp", "log", "sin", "tanh", "rsqrt"):
        knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", f"y[i] = {function}(a[i])"), {"a": dtype})
        a = np.random.default_rng(6).uniform(0.1, 4, 10_000).astype(dtype)
        gpu, host = on_both(knl, a=a)
        np.testing.assert_allclose(gpu.astype(np.float64), host.astype(np.float64), rtol=1.01*epsilon(dtype))


@each_narrow
def test_scalars_by_value(dtype: np.dtype) -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = s*a[i]"), {"a": dtype, "s": dtype})
    a = np.ones(10, dtype)
    for s in (0.5, dtype.type(1.5), 3):
        gpu, host = on_both(knl, a=a, s=s)
        assert (gpu == dtype.type(s)).all()
        assert (host == dtype.type(s)).all()


@each_narrow
def test_sums_in_float32(dtype: np.dtype) -> None:
    knl = lk.make_kernel("{[i,k]: 0<=i<n and 0<=k<m}", "y[i] = sum(k, cast(float32, a[i,k])*a[i,k])")
    knl = lk.add_dtypes(knl, {"a": dtype, "y": dtype})
    a = np.random.default_rng(7).uniform(0, 0.4, (40, 5000)).astype(dtype)
    gpu, host = on_both(knl, a=a)
    exact = (a.astype(np.float64)**2).sum(1)
    np.testing.assert_allclose(gpu.astype(np.float64), exact, rtol=epsilon(dtype))
    np.testing.assert_allclose(host.astype(np.float64), exact, rtol=epsilon(dtype))
    plain = lk.add_dtypes(lk.make_kernel("{[i,k]: 0<=i<n and 0<=k<m}", "y[i] = sum(k, a[i,k]*a[i,k])"), {"a": dtype})
    wide, _ = on_both(lk.set_accumulator_dtype(plain, np.float32), a=a)
    np.testing.assert_allclose(wide.astype(np.float64), exact, rtol=epsilon(dtype))


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex(dtype: type) -> None:
    expressions = ["a[i]*b[i] + s", "a[i] / b[i]", "conj(a[i])*2", "sqrt(a[i])", "exp(a[i])", "log(a[i])", "sin(a[i])",
                   "tanh(a[i])", "a[i]**3", "s*real(a[i]) - imag(b[i])", "if(a[i] == b[i], a[i], -b[i])"]
    random = np.random.default_rng(8)
    a, b = ((random.standard_normal(20_000) + 1j*random.standard_normal(20_000)).astype(dtype) for _ in range(2))
    for expression in expressions:
        knl, names = typed(expression, dtype)
        taken = {x: v for x, v in (("a", a), ("b", b), ("s", 1 - 2j)) if x in names}
        gpu, host = on_both(knl, **taken)
        assert gpu.dtype == dtype
        error = np.abs(gpu - host) / np.maximum(np.abs(host), 1e-3)
        assert error.max() < 60*np.finfo(dtype).eps, expression


def test_complex_sums_over_threads() -> None:
    knl = lk.make_kernel("{[i,k]: 0<=i<n and 0<=k<m}", "y[i] = sum(k, a[i,k])")
    knl = lk.add_dtypes(knl, {"a": np.complex64})
    knl = lk.split_iname(knl, "k", 64, inner_tag="l.0")
    knl = lk.tag_inames(knl, {"i": "g.0"})
    a = (np.arange(3000).reshape(10, 300) % 7 + 1j).astype(np.complex64)
    np.testing.assert_array_equal(lk.compile(knl, target="cuda")(a=a).y, a.sum(1))
