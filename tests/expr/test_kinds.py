"""Kinds of numbers by dtype, with ml_dtypes and without it."""
from __future__ import annotations

import sys

import ml_dtypes
import numpy as np
import pytest

import loopkit as lk
from loopkit.expr.dtypes import weak
from loopkit.expr.kinds import epsilon, is_narrow, kind_of, largest_real, named_dtype, promote, smallest_normal, spelled
from loopkit.expr.parsing import parse_expression
from tests.expr.typed import dtype_of

HALF, BFLOAT = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
E4M3, E5M2 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)
ALL = [np.dtype(d) for d in ("bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")]


def test_kinds() -> None:
    assert [kind_of(d) for d in (BFLOAT, HALF, np.dtype("V2"), np.dtype("u2"))] == ["f", "f", "V", "u"]
    assert is_narrow(HALF)
    assert is_narrow(BFLOAT)
    assert not is_narrow(np.dtype("i2"))
    for dtype in (BFLOAT, E4M3, E5M2):
        info = ml_dtypes.finfo(dtype)
        assert is_narrow(dtype)
        assert (kind_of(dtype), spelled(dtype)) == ("f", repr(dtype.name))
        assert (epsilon(dtype), smallest_normal(dtype), largest_real(dtype)) == (
            float(info.eps), float(info.smallest_normal), float(info.max))


@pytest.mark.parametrize("other", ALL, ids=str)
def test_promotion_is_numpy_s_where_numpy_has_one(other: np.dtype) -> None:
    assert promote(HALF, other) == np.promote_types(HALF, other)
    assert promote(BFLOAT, other) == promote(other, BFLOAT)
    try:
        expected = np.promote_types(BFLOAT, other)
    except TypeError:
        expected = np.dtype(np.float32) if other == HALF else np.promote_types(HALF, other)
    for dtype in (BFLOAT, E4M3, E5M2):
        assert promote(dtype, other) == promote(other, dtype) == (dtype if expected == BFLOAT else expected)


NAMES = {"h": HALF, "b": BFLOAT, "f": np.dtype("f4"), "d": np.dtype("f8"), "x": np.dtype("i4"), "s": np.dtype("i2"),
         "c": np.dtype("i1"), "z": np.dtype("c8"), "t": np.dtype("?"), "i": weak(np.dtype("i4")),
         "alpha": weak(np.dtype("f8")), "beta": weak(BFLOAT),
         "p": E4M3, "q": E5M2}


@pytest.mark.parametrize(("text", "expected"), [
    ("h[i]*h[i]", HALF), ("2.5*h[i]", HALF), ("2.5*b[i]", BFLOAT), ("i*b[i]", BFLOAT), ("alpha*h[i]", HALF),
    ("beta*f[i]", "f4"), ("beta*h[i]", HALF), ("beta*2", BFLOAT), ("h[i] + b[i]", "f4"), ("h[i] + f[i]", "f4"),
    ("b[i] + d[i]", "f8"), ("c[i]*b[i]", BFLOAT), ("s[i]*b[i]", "f4"), ("s[i]*h[i]", "f4"), ("x[i]*b[i]", "f8"),
    ("x[i]*h[i]", "f8"), ("t[i]*h[i]", HALF), ("h[i] + 2j", "c8"), ("b[i]*z[i]", "c8"), ("h[i] / 2", HALF),
    ("h[i] // 2", HALF), ("b[i]**2", BFLOAT), ("b[i]**h[i]", "f4"), ("exp(b[i])", BFLOAT), ("floor(h[i])", HALF),
    ("min(h[i], b[i])", "f4"), ("if(t[i], b[i], 0.1)", BFLOAT), ("h[i] < b[i]", "?"),
    ("cast(bfloat16, f[i])", BFLOAT), ("bfloat16(f[i])", BFLOAT), ("cast(np.float16, x[i])", HALF),
    ("half(1)", HALF), ("1.5f16", HALF), ("1.5bf16*f[i]", "f4"), ("p[i]*p[i]", E4M3), ("2.5*q[i]", E5M2),
    ("i*p[i]", E4M3), ("p[i] + q[i]", "f4"), ("p[i]*b[i]", "f4"), ("h[i]*q[i]", "f4"), ("p[i]*f[i]", "f4"),
    ("c[i]*p[i]", E4M3), ("s[i]*q[i]", "f4"), ("x[i]*p[i]", "f8"), ("p[i] + 1j", "c8"), ("1.5f8e4m3", E4M3),
    ("2f8e5m2*f[i]", "f4"), ("float8_e5m2(f[i])", E5M2), ("cast(float8_e4m3fn, x[i])", E4M3), ("exp(q[i])", E5M2),
    ("real(h[i])", HALF), ("abs(b[i])", BFLOAT)])
def test_dtype(text: str, expected: object) -> None:
    assert dtype_of(parse_expression(text), NAMES.get) == np.dtype(expected)       # type: ignore[call-overload, arg-type]


@pytest.fixture
def without_ml_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    named_dtype.cache_clear()
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)


@pytest.mark.usefixtures("without_ml_dtypes")
@pytest.mark.parametrize("use", [
    lambda: lk.GlobalArg("a", "bfloat16") and lk.make_kernel("{[i]: 0<=i<n}", "y[i] = a[i]",       # type: ignore[arg-type]
                                                            [lk.GlobalArg("a", "bfloat16"), "..."]),   # type: ignore[arg-type]
    lambda: lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = a[i]"), {"a": "bfloat16"}),
    lambda: lk.make_kernel("{[i]: 0<=i<n}", "y[i] = cast(bfloat16, a[i])"),
    lambda: lk.make_kernel("{[i]: 0<=i<n}", "y[i] = bfloat16(a[i])"),
    lambda: lk.make_kernel("{[i]: 0<=i<n}", "<bfloat16> t = a[i]")])
def test_without_ml_dtypes(use: object) -> None:
    with pytest.raises(lk.PreconditionError, match="needs the package ml_dtypes, which is not installed") as caught:
        use()                                                                       # type: ignore[operator]
    assert caught.value.hint == "pip install ml_dtypes"


@pytest.mark.usefixtures("without_ml_dtypes")
def test_float16_needs_no_package() -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*a[i]"), {"a": "float16"})
    assert "__half(2.0f)*a[i]" in str(lk.generate_code(knl))
