"""CUDA's complex numbers, compiled as C++ for the host: they are C99's, also where something is large or tiny."""
from __future__ import annotations

import ctypes
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loopkit.target.cuda.dialect import CUDA
from tests.compilers import cpp_compiler

UNARY = ("sqrt", "exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh",
         "atanh", "conj")
BINARY = {"multiply": "a[i]*b[i]", "divide": "a[i] / b[i]", "add": "a[i] + b[i]", "subtract": "a[i] - b[i]",
          "power": "cpow(a[i], b[i])"}
TYPES = {"complex64": np.float32, "complex128": np.float64}


@cache
def library(place: Path) -> ctypes.CDLL:
    text = ["#include <math.h>", "#define __device__", "#define __forceinline__ inline",
            "#define __align__(x) alignas(x)"]
    functions = {**{name: f"{CUDA.function(name, np.dtype(np.complex64))}(a[i])" for name in UNARY}, **BINARY}
    calls = [f'extern "C" void {name}_{z}(int n, const {z} *a, const {z} *b, {z} *out)\n{{\n'
             f"    for (int i = 0; i < n; ++i)\n        out[i] = {call};\n}}\n"
             for z in TYPES for name, call in functions.items()]
    (place / "z.cc").write_text("\n".join([*text, CUDA.preamble("\n".join(calls)), *calls]))
    subprocess.run([cpp_compiler(), "-O1", "-ffp-contract=off", "-shared", "-fPIC", "-o", str(place / "z.so"),
                    str(place / "z.cc")], check=True)
    return ctypes.CDLL(str(place / "z.so"))


@pytest.fixture(scope="module")
def complexes(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return library(tmp_path_factory.mktemp("complex"))


def computed(complexes: ctypes.CDLL, name: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    out = np.zeros_like(a)
    getattr(complexes, f"{name}_{a.dtype.name}")(len(a), *(x.ctypes.data_as(ctypes.c_void_p) for x in (a, b, out)))
    return out


def numbers(dtype: str, *, seed: int = 0, extreme: bool = False) -> np.ndarray:
    rng = np.random.default_rng(seed)
    real = TYPES[dtype]
    info = np.finfo(real)
    signs = rng.choice([-1, 1], (2, 2000))
    parts = signs*10**rng.uniform(-3, 1.5, (2, 2000))
    if extreme:
        parts[:, ::3] = signs[:, ::3]*float(info.max)/rng.uniform(1, 4, parts[:, ::3].shape)
        parts[:, 1::3] = signs[:, 1::3]*float(info.smallest_subnormal)*rng.integers(50, 900, parts[:, 1::3].shape)
        parts[0] = rng.permutation(parts[0])
    z = np.empty(2000, dtype)
    z.real, z.imag = parts
    return z


@pytest.mark.deep(every=30)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_numbers(complexes: ctypes.CDLL, name: str, dtype: str) -> None:
    a, b = numbers(dtype), numbers(dtype, seed=1)
    if name == "power":
        b = b / 30
    with np.errstate(all="ignore"):
        expected = getattr(np, name.replace("a", "arc", 1) if name in UNARY and name[0] == "a" else name)(
            a, *([b] if name in BINARY else []))
    error = np.abs(computed(complexes, name, a, b) - expected) / np.maximum(np.abs(expected), 1e-3)
    assert np.max(error[np.isfinite(expected)]) < 100*np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", ["sqrt", "log"])
def test_extremes(complexes: ctypes.CDLL, name: str, dtype: str) -> None:
    a = numbers(dtype, extreme=True)
    expected = getattr(np, name)(a)
    error = np.abs(computed(complexes, name, a, a) - expected) / np.abs(expected)
    assert np.max(error) < (100*np.finfo(dtype).eps if name == "sqrt" else 2e-4)


Inf, NaN = np.inf, np.nan


@pytest.mark.parametrize(("name", "given", "expected"), [
    ("sqrt", 0j, 0j), ("sqrt", complex(-0.0, -0.0), complex(0, -0.0)), ("sqrt", complex(1, Inf), complex(Inf, Inf)),
    ("sqrt", complex(-Inf, 1), complex(0, Inf)), ("sqrt", complex(Inf, -1), complex(Inf, -0.0)),
    ("sqrt", complex(-4, -0.0), complex(0, -2)), ("exp", complex(-Inf, 1), 0j),
    ("exp", complex(Inf, 0), complex(Inf, 0)),
    ("sinh", complex(Inf, 0), complex(Inf, 0)), ("sinh", complex(-Inf, 0), complex(-Inf, 0)),
    ("cosh", complex(Inf, 0), complex(Inf, 0)), ("tanh", complex(Inf, 1), complex(1, 0)),
    ("sin", complex(0, 1000), complex(0, Inf)), ("cos", complex(0, 1000), complex(Inf, -0.0)),
    ("asin", complex(2, 0.0), complex(np.pi/2, np.arccosh(2))), ("acos", complex(2, -0.0), complex(0, np.arccosh(2))),
    ("asin", complex(0.5, -0.0), complex(np.pi/6, -0.0)), ("acosh", complex(0.5, 0.0), complex(0, np.pi/3)),
    ("atanh", complex(2, 0.0), complex(np.log(3)/2, np.pi/2)), ("atanh", complex(Inf, -1), complex(0, -np.pi/2)),
    ("atanh", complex(1, 0.0), complex(Inf, 0)), ("asinh", complex(-0.0, 2), complex(-np.arccosh(2), np.pi/2)),
    ("atan", complex(0, -0.5), complex(0, -np.log(3)/2)), ("acosh", complex(-2, 0.0), complex(np.arccosh(2), np.pi)),
    ("log", 0j, complex(-Inf, 0)), ("log", complex(-Inf, Inf), complex(Inf, 3*np.pi/4)),
    ("log", complex(1, NaN), complex(NaN, NaN)), ("divide", (1 + 1j, 0j), complex(Inf, Inf)),
    ("divide", (0j, 0j), complex(NaN, NaN)), ("power", (0j, 2 + 0j), 0j), ("power", (0j, 0j), 1 + 0j),
    ("power", (3j, 0j), 1 + 0j)])
@pytest.mark.parametrize("dtype", TYPES)
def test_special_values(complexes: ctypes.CDLL, dtype: str, name: str, given: Any, expected: complex) -> None:
    a, b = (np.array([x], dtype) for x in (given if isinstance(given, tuple) else (given, 0j)))
    [found] = computed(complexes, name, a, b)
    for got, want in ((found.real, expected.real), (found.imag, expected.imag)):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)
        if want == 0 and name != "tanh":
            assert np.signbit(got) == np.signbit(want)
