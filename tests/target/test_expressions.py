"""C and CUDA text: it computes what numpy computes, and it reads well."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest

from loopkit.errors import TypeInferenceError
from loopkit.expr.dtypes import Type, weak
from loopkit.expr.mappers import subexpressions
from loopkit.expr.parsing import parse_expression
from loopkit.target.c.target import C
from loopkit.target.cuda.dialect import CUDA
from tests.expr.typed import (
    BFLOATS,
    EIGHTS,
    REALS,
    Maker,
    WeakArrayError,
    arrays,
    dtype_of,
    lookup,
    numpy_value,
    run_c,
    source,
    to_c,
)
from tests.nvrtc import compile_cuda

NAMES: dict[str, Type] = {
    **{name: np.dtype(dtype) for name, dtype in {
        "a": "float32", "b": "float64", "x": "int32", "L": "int64", "u": "uint8", "s": "int8", "U": "uint32",
        "z": "complex64", "w": "complex128", "t": "bool"}.items()},
    **{name: weak(np.dtype("int32")) for name in "ijn"}, "alpha": weak(np.dtype("float64"))}


def text(source: str, dialect: object = C, want: object = None) -> str:
    def subscripts(name: str, index: tuple[object, ...]) -> str:
        return f"{name}[{', '.join(map(str, index))}]" if index else name
    return to_c(parse_expression(source), dialect, NAMES.get,      # type: ignore[arg-type]
                want=None if want is None else np.dtype(want),      # type: ignore[call-overload]
                subscripts=subscripts)


# The same numbers as numpy

def _random(count: int, seed: int = 20, dtypes: Sequence[str] = REALS) -> list[tuple[object, np.ndarray]]:
    found: list[tuple[object, np.ndarray]] = []
    maker = Maker(seed, dtypes)
    with np.errstate(all="ignore"):
        while len(found) < count:
            expr = maker.make(3)
            try:
                value = numpy_value(expr)
            except (WeakArrayError, OverflowError, ZeroDivisionError):
                continue
            if isinstance(value, np.ndarray):
                found.append((expr, np.broadcast_to(value, 40)))
    return found


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("dtypes", [REALS, ("f2", "f2", "f4", "i1", "i4"), BFLOATS, EIGHTS],
                         ids=["all", "float16", "bfloat16", "eight bits"])
def test_c_computes_what_numpy_computes(dtypes: Sequence[str], tmp_path: Path) -> None:
    expected = _random(200, dtypes=dtypes)
    results = run_c([e for e, _ in expected], C, tmp_path)          # type: ignore[misc]
    for (expr, value), result in zip(expected, results, strict=True):
        assert dtype_of(expr, lookup) == value.dtype, expr          # type: ignore[arg-type]
        np.testing.assert_array_equal(result, value, err_msg=str(expr))


FUNCTIONS: list[tuple[str, Callable[[dict[str, Any]], Any]]] = [
    ("sqrt(a_f4[k]*a_f4[k])", lambda v: np.sqrt(v["a_f4"]**2)), ("exp(a_i4[k])", lambda v: np.exp(v["a_i4"])),
    ("rsqrt(1 + a_f8[k]**4)", lambda v: 1/np.sqrt(1 + v["a_f8"]**4)), ("abs(a_i1[k])", lambda v: np.abs(v["a_i1"])),
    ("abs(a_c8[k])", lambda v: np.abs(v["a_c8"])), ("exp(a_c16[k])", lambda v: np.exp(v["a_c16"])),
    ("a_c8[k]/(a_c8[k] + 2)", lambda v: v["a_c8"]/(v["a_c8"] + 2)), ("conj(a_c8[k])", lambda v: v["a_c8"].conj()),
    ("a_c8[k]*a_f8[k]", lambda v: v["a_c8"]*v["a_f8"]), ("real(a_c16[k])", lambda v: v["a_c16"].real),
    ("imag(a_f4[k])", lambda v: np.zeros(40, np.float32)), ("a_c8[k] + 1j", lambda v: v["a_c8"] + 1j),
    ("a_c8[k]**3", lambda v: v["a_c8"]**3), ("2.5*a_c8[k]", lambda v: 2.5*v["a_c8"]),
    ("a_f4[k] + 2j", lambda v: v["a_f4"] + 2j), ("round(a_f8[k])", lambda v: np.round(v["a_f8"])),
    ("floor(a_f4[k])", lambda v: np.floor(v["a_f4"])), ("ceil(a_i4[k])", lambda v: v["a_i4"]),
    ("pow(2, a_f4[k])", lambda v: np.float32(2)**v["a_f4"]), ("a_f8[k]**3", lambda v: v["a_f8"]**3),
    ("d_f8[k]**-2", lambda v: v["d_f8"]**-2.0), ("(a_f4[k] + 1)**5", lambda v: (v["a_f4"] + 1)**5),
    ("a_i4[k]**i", lambda v: v["a_i4"]**5), ("a_i8[k]**3", lambda v: v["a_i8"]**3),
    ("atan2(a_f4[k], 2)", lambda v: np.arctan2(v["a_f4"], np.float32(2))),
    ("fma(a_f8[k], 2, 1)", lambda v: 2*v["a_f8"] + 1), ("sinpi(a_f8[k])", lambda v: np.sin(np.pi*v["a_f8"])),
    ("exp2_ftz(40*cast(float32, a_f4[k]))",
     lambda v: np.where((y := np.exp2(40*v["a_f4"])) < 2.0**-126, np.float32(0), y)),
    ("exp10(a_f4[k])", lambda v: np.float32(10)**v["a_f4"]), ("isnan(a_f4[k])", lambda v: np.isnan(v["a_f4"])),
    ("if(isfinite(a_f4[k]), 1f, 2)", lambda v: np.ones(40, np.float32)),
    ("t[k]*a_f4[k]", lambda v: v["t"]*v["a_f4"]), ("t[k] + t[k]", lambda v: 2*v["t"].astype(np.int32)),
    ("min(t[k], a_f4[k] > 0)", lambda v: v["t"] & (v["a_f4"] > 0)), ("not t[k]", lambda v: ~v["t"]),
    ("cast(uint8, a_i4[k])", lambda v: v["a_i4"].astype(np.uint8)), ("cast(bool, a_i4[k])", lambda v: v["a_i4"] != 0),
    ("a_u1[k] - 200", lambda v: v["a_u1"] - np.uint8(200)), ("-a_u4[k]", lambda v: -v["a_u4"]),
    ("(a_u1[k] - 20) // 3", lambda v: (v["a_u1"] - np.uint8(20)) // 3), ("a_u4[k] > -1", lambda v: v["a_u4"] >= 0),
    ("a_i4[k] + 2147483647 - 2147483647", lambda v: v["a_i4"]), ("a_i8[k] - 2**40", lambda v: v["a_i8"] - 2**40),
    ("min(a_i4[k], 3, i)", lambda v: np.minimum(v["a_i4"], 3)), ("max(a_u8[k], 4)", lambda v: np.maximum(v["a_u8"], 4))]


def test_functions_powers_and_corner_cases(tmp_path: Path) -> None:
    results = run_c([parse_expression(f) for f, _ in FUNCTIONS], C, tmp_path)
    for (f, numpy), result in zip(FUNCTIONS, results, strict=True):
        with np.errstate(all="ignore"):
            value = numpy(arrays())
        assert result.dtype == value.dtype, f
        np.testing.assert_allclose(result, value, rtol=2e-6 if value.dtype in (np.float32, np.complex64) else 1e-14,
                                   atol=1e-14, err_msg=f)


def _compares_with_zero(expr: object) -> bool:
    """NVRTC warns of ``u < 0`` for an unsigned ``u``."""
    return any(isinstance(e, p.Comparison) and 0 in (e.left, e.right) for e in subexpressions(expr))    # type: ignore[arg-type]


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_nvrtc_takes_the_cuda_form(arch: str) -> None:
    halves = (("f2", "f2", "f4", "i1", "i4"), BFLOATS)
    random = [*_random(80), *(found for dtypes in halves for found in _random(80, dtypes=dtypes))]
    exprs = [*(e for e, _ in random if not _compares_with_zero(e)), *(parse_expression(f) for f, _ in FUNCTIONS),
             *(parse_expression(f.replace("f4", half).replace("f8", half)) for f, _ in FUNCTIONS
               for half in ("f2", "bfloat16")),
             *(parse_expression(f"{f}(a_c8[k])") for f in (
                 "sqrt", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh",
                 "atanh")),
             *(parse_expression(f) for f in ("a_c16[k]**a_c16[k]", "a_c8[k] == 1", "cast(complex64, a_c16[k])",
                                             "rsqrt(a_f4[k])", "if(a_f4[k] > 1e30, 0, a_f4[k])"))]
    functions, _ = source(exprs, CUDA, "__device__ void")           # type: ignore[arg-type]
    compile_cuda(functions + 'extern "C" __global__ void nothing(int *x) { x[0] = 1; }\n', arch)


# Text

@pytest.mark.parametrize(("given", "expected"), [
    ("2*a[i] + 1", "2.0f*a[i] + 1.0f"), ("i*a[j]", "i*a[j]"), ("i/2*a[j]", "(i / 2.0f)*a[j]"),
    ("a[i] - (b[j] - 2)", "a[i] - (b[j] - 2.0)"), ("-a[i]", "-a[i]"), ("a[i] + -3", "a[i] - 3.0f"),
    ("a[i] - 2*b[j]", "a[i] - 2.0*b[j]"), ("x[i]*a[j]", "(double)x[i]*a[j]"), ("x[i]/2", "x[i] / 2.0"),
    ("(u[i] + u[j])//2", "(unsigned char)(u[i] + u[j]) / 2"), ("u[i] + u[j]", "u[i] + u[j]"),
    ("U[i] < x[j]", "(long long)U[i] < x[j]"), ("L[i] + 1", "L[i] + 1"), ("L[i] + i*j", "L[i] + (long long)i*j"),
    ("x[i] // n", "floor_div_i32(x[i], n)"), ("min(a[i], 0)", "fminf(a[i], 0.0f)"), ("alpha*a[i]", "(float)alpha*a[i]"),
    ("if(a[i] < 0 and t[i], a[i], 0)", "a[i] < 0.0f && t[i] ? a[i] : 0.0f"), ("sqrt(2)*a[i]", "sqrtf(2.0f)*a[i]"),
    ("not (i < 3)", "!(i < 3)"), ("a[i]**2", "a[i]*a[i]"), ("1e-20*a[i]", "1e-20f*a[i]"), ("2.5f*b[i]", "2.5f*b[i]"),
    ("t[i] and i < 3 or j == 0", "(t[i] && i < 3) || j == 0"),
    ("L[i] + 4294967296", "L[i] + 4294967296LL"), ("x[i] - 2147483648", "x[i] + (-2147483647 - 1)")])
def test_text(given: str, expected: str) -> None:
    assert text(given) == expected


def test_a_float32_kernel_has_no_double() -> None:
    for given in ("0.1*a[i] + i/3", "sqrt(a[i])*alpha", "max(a[i], 0.5, i)", "if(i == 0, 0.25, a[i])", "a[i]**1.5"):
        assert dtype_of(parse_expression(given), NAMES.get) == np.float32
        assert "double" not in text(given)
        assert all(c.endswith("f") for c in text(given).replace("(", " ").replace(")", " ").replace(",", " ")
                   .replace("*", " ").split() if "." in c)


def test_a_literal_has_the_dtype_of_its_context() -> None:
    assert to_c(p.Sum((p.Product((2, p.Variable("a"))), p.Variable("i"))), C, NAMES.get) == "2.0f*a + i"


def test_division_of_known_signs_is_c() -> None:
    expr = parse_expression("(i + 3) % 16 + (i + 3) // 16")
    assert to_c(expr, C, NAMES.get, nonnegative=lambda e: True) == "(i + 3) % 16 + (i + 3) / 16"
    written = to_c(expr, C, NAMES.get)
    assert written == "floor_mod_i32(i + 3, 16) + floor_div_i32(i + 3, 16)"
    assert "floor_mod_i32(int a, int b)" in C.preamble(written)
    assert "__device__" in CUDA.preamble(written)


def test_hardware_axes_are_unsigned() -> None:
    expr = parse_expression("16*g0 + l0")
    axes = {"g0": "blockIdx.x", "l0": "threadIdx.x"}
    assert to_c(expr, CUDA, NAMES.get, want=np.dtype("int32"), axes=axes) == "16*blockIdx.x + threadIdx.x"
    compared = to_c(parse_expression("16*g0 - 1 < n"), CUDA, NAMES.get, axes=axes)
    assert compared == "(int)(16*blockIdx.x - 1) < n"
    wide = to_c(expr, CUDA, NAMES.get, want=np.dtype("int64"), axes=axes)
    assert wide == "(long long)16*blockIdx.x + threadIdx.x" or wide.startswith("16*(long long)")


@pytest.mark.parametrize(("given", "want", "expected"), [
    ("0", "float32", "0.0f"), ("0", "float64", "0.0"), ("0", "int64", "0"), ("1.5", "float32", "1.5f"),
    ("i", "float32", "(float)i"), ("b[i]", "float32", "(float)b[i]"), ("0", "complex64", "(float _Complex)0.0f"),
    ("1j", "complex64", "make_complex64(0.0f, 1.0f)"),
    ("u[i] + 1", "uint8", "u[i] + 1"), ("i < 3", "bool", "i < 3")])
def test_want(given: str, want: str, expected: str) -> None:
    assert text(given, want=want) == expected


@pytest.mark.parametrize(("given", "expected"), [
    ("cast(float32, z[i])", "crealf(z[i])"), ("-(a[i] < 1)", "-(a[i] < 1.0f)"), ("a[i]**2.0", "a[i]*a[i]"),
    ("a[i]**0", "1.0f"), ("cast(int8, 3)*s[i]", "(signed char)3*s[i]"), ("cast(int8, 300)", "(signed char)44")])
def test_rare_forms(given: str, expected: str) -> None:
    assert text(given) == expected


def test_infinities_and_nans() -> None:
    assert to_c(float("-inf"), CUDA, NAMES.get, want=np.dtype("float32")) == "-INFINITY"
    assert "__int_as_float" in CUDA.preamble("-INFINITY")
    assert to_c(p.Max((p.Variable("b"), float("nan"))), C, NAMES.get) == "fmax(b, NAN)"
    assert to_c(1e40, C, NAMES.get, want=np.dtype("float32")) == "INFINITY"


def test_nothing_unused_in_the_preamble() -> None:
    assert CUDA.preamble("") == ""
    assert C.preamble("y = 1;  // floor_div_f32") == "#include <math.h>\n"
    assert text("a[i] // 2") == "floor_div_f32(a[i], 2.0f)"
    assert C.preamble(text("a[i] // 2")).count("static inline") == 1


@pytest.mark.parametrize("given", ["z[i] < 1", "min(z[i], 1)", "z[i] // 2", "floor(z[i])", "u[i] + 300", "q + 1",
                                   "if(z[i], 1, 2)"])
def test_refused(given: str) -> None:
    with pytest.raises(TypeInferenceError):
        text(given)
