"""Integers that only inames, sizes and literals make up are whole numbers wherever more than their last bits count."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopkit as lk

#: Products of two and three of these are too long for 32 bits, and sums are not.
N, M = 100_000, 46_341
BEYOND = 3_000_000_000

Value = Callable[[int, Any], Any]

#: What ``y[i - n]`` is, the dtype of ``x`` if it is read, and the value from ``i`` and ``x``.
VALUES: list[tuple[str, str | None, Value]] = [
    ("(i*m*1000) % 7", None, lambda i, x: i*M*1000 % 7), ("(i*i) // 1000", None, lambda i, x: i*i // 1000),
    ("-i*i // 4000", None, lambda i, x: -i*i // 4000), ("i**2 % 1000", None, lambda i, x: i**2 % 1000),
    ("min(i*i, 7) + max(-i*m, -3)", None, lambda i, x: 4), ("abs(i*i) // 100000", None, lambda i, x: i*i // 100000),
    ("if(i*i > m*i, 1, 2)", None, lambda i, x: 1), ("if(65536*i*i, 1, 2)", None, lambda i, x: 1),
    ("if(not (i*i % 2), 1, 2)", None, lambda i, x: 1 + i % 2), ("i*i/m", None, lambda i, x: i*i/M),
    ("sqrt(i*i)", None, lambda i, x: float(i)), ("2.5*(i*m)", None, lambda i, x: 2.5*(i*M)),
    ("i**-1*(i*i)", None, lambda i, x: i**-1*(i*i)), ("(i*i + m) % 11 + i", None, lambda i, x: (i*i + M) % 11 + i),
    ("cast(float64, i*i)", None, lambda i, x: float(i*i)), ("cast(int64, i*i*i)", None, lambda i, x: i**3),
    ("cast(uint64, i*i)", None, lambda i, x: i*i), ("i*i + 1j", None, lambda i, x: i*i + 1j),
    ("x[i - n]*(i*i)", "float64", lambda i, x: x*(i*i)), ("i*i*x[i - n]", "float64", lambda i, x: i*i*x),
    ("i*i + i + x[i - n]", "float64", lambda i, x: i*i + i + x), ("x[i - n] - i*i", "float32", lambda i, x: x - i*i),
    ("x[i - n]*(40000*i + 1)", "float64", lambda i, x: x*(40000*i + 1)),
    ("x[i - n]/(i*i)", "float64", lambda i, x: x/(i*i)),
    ("min(x[i - n], i*i)", "float64", lambda i, x: x), ("max(i*i, x[i - n])", "float64", lambda i, x: i*i),
    ("x[i - n] + i*i", "int64", lambda i, x: x + i*i), ("x[i - n] + i*i", "uint64", lambda i, x: x + i*i),
    ("i*i - 1 + x[i - n]", "uint64", lambda i, x: i*i - 1 + x), ("i*m*x[i - n]", "complex128", lambda i, x: i*M*x),
    ("if(x[i - n] < i*i, 1, 2)", "int32", lambda i, x: 1), ("if(x[i - n] < i*i, 1, 2)", "uint8", lambda i, x: 1),
    ("if(x[i - n], i*i, 0.5)", "bool", lambda i, x: i*i if x else 0.5)]


def _given(dtype: str) -> np.ndarray:
    return np.array([3, 0, 5]).astype(dtype)


@pytest.mark.deep(every=10)
@pytest.mark.parametrize(("text", "dtype", "value"), VALUES, ids=[f"{text}-{dtype}" for text, dtype, _ in VALUES])
def test_values_of_sizes_are_whole_numbers(text: str, dtype: str | None, value: Value) -> None:
    """As Python computes them, in whichever text: that of large arrays has integers of 64 bits anyway."""
    arrays = {} if dtype is None else {"x": _given(dtype)}
    knl = lk.make_kernel("{[i]: n<=i<n+3}", f"y[i - n] = {text}", [
        *(lk.GlobalArg(name, a.dtype, shape=3) for name, a in arrays.items()), lk.ValueArg("n,m", np.int32), "..."])
    out, = knl(**arrays, n=N, m=M)
    expected = np.array([value(N + k, a) for k, a in enumerate(arrays.get("x", np.zeros(3)).tolist())])
    np.testing.assert_allclose(out, expected, rtol=1e-6 if out.dtype == np.float32 else 1e-15)


@pytest.mark.deep(every=3)
@pytest.mark.parametrize("name", ["uint8", "int16", "uint32"])
def test_sizes_of_any_dtype_are_whole_numbers(name: str) -> None:
    knl = lk.make_kernel("{[i]: 0<=i<2}", """
        y[i] = x[i]*(q*q)
        z[i] = x[i] + q + q
        w[i] = (q*q) % 7
        v[i] = -q // 2
        """, [
        lk.GlobalArg("x", np.float64), lk.GlobalArg("w,v", np.int64), lk.ValueArg("q", np.dtype(name)), "..."])
    q = min(int(np.iinfo(name).max), 3_000_000_000)
    out = knl(x=np.ones(2), q=q)
    assert [int(a[0]) for a in (out.y, out.z, out.w, out.v)] == [q*q, 1 + 2*q, q*q % 7, -q // 2]


def test_last_bits_are_computed_in_the_dtype_they_are_for() -> None:
    """A sum in a subscript, of an int32 or of a linear form stays short: that is what reviewers read."""
    knl = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", """
        y[i,j] = x[i,j] + i*j
        z[i,j] = 2.5*(i + 3*j - 1)*a[i,j] + (i + n) % 4
        w[i,j] = i*j
        """, [lk.GlobalArg("x,w", np.int32), lk.GlobalArg("a", np.float32), "..."])
    for target in ("c", "cuda"):
        lines = str(lk.generate_code(knl, target=target)).splitlines()
        assert not [line for line in lines if "long long" in line]


@pytest.mark.parametrize("target", ["c", "cuda"])
def test_the_text_says_where_64_bits_are_needed(target: str) -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i]*(i*i)\nz[i] = (i*n) % 7",
                         [lk.GlobalArg("x", np.float32), lk.ValueArg("n", np.int32), "..."])
    text = str(lk.generate_code(knl, target=target))
    assert "x[i]*((long long)i*i)" in text
    assert "(int)((long long)i*n % 7)" in text


@pytest.mark.parametrize("target", ["c", "cuda"])
@pytest.mark.parametrize("domain", [f"{{[i]: {BEYOND}<=i<{BEYOND + 3}}}", f"{{[i]: n+{BEYOND}<=i<n+{BEYOND + 3}}}"])
def test_loops_beyond_32_bits_have_64_bits_in_every_text(domain: str, target: str) -> None:
    knl = lk.make_kernel(domain, f"y[i - {BEYOND}] = i % 7", assumptions="n>=0" if "n" in domain else None)
    text = str(lk.generate_code(knl, target=target))
    assert "for (long long i = " in text
    n = {"n": 0} if "n" in domain else {}
    assert list(knl(**n)[0]) == [(BEYOND + k) % 7 for k in range(3)]
