"""Lower bounds of real expressions: none is above what is computed, and those that serve are found."""
from __future__ import annotations

import random

import numpy as np
import pytest

from loopkit.expr.dtypes import Type, type_of, weak
from loopkit.expr.intervals import Bounds
from loopkit.expr.parsing import parse_expression
from loopkit.target.c.target import C
from loopkit.target.cuda.dialect import CUDA
from tests.expr.typed import source, to_c
from tests.nvrtc import compile_cuda

F4 = np.dtype(np.float32)
TYPES: dict[str, Type] = {"x": F4, "y": F4, "h": np.dtype(np.float16), "w": np.dtype(np.float64),
                          "z": np.dtype(np.complex64), "k": np.dtype(np.int32), "n": weak(np.dtype(np.int32))}
SPECIAL = np.array([0.0, -0.0, 1e-45, -1e-45, 1.2e-38, 1e-20, 0.01, -0.01, 1, -3, 2e19, -3e38, np.inf, -np.inf, np.nan],
                   F4)
X, Y = (v.ravel() for v in np.meshgrid(SPECIAL, SPECIAL))


def bounds() -> Bounds:
    return Bounds(F4, lambda e: type_of(e, TYPES.get), lambda e: e == parse_expression("n"))


def _made(rng: random.Random, depth: int) -> tuple[str, np.ndarray]:
    """A random expression of float32, and what numpy makes of it."""
    if depth == 0:
        literal = rng.choice([0.0, 1e-30, 0.01, 2.0, -1.0])
        return rng.choice([("x", X), ("y", Y), (f"{literal}", np.full_like(X, literal))])
    (a, u), (b, v) = _made(rng, depth - 1), _made(rng, depth - 1)
    return rng.choice([
        (f"({a} + {b})", u + v), (f"({a} - {b})", u - v), (f"({a})*({b})", u*v), (f"({a})/({b})", u/v),
        (f"({a})**2", u*u), (f"({a})**4", (u*u)*(u*u)), (f"({a})**3", u*u*u), (f"min({a}, {b})", np.fmin(u, v)),
        (f"max({a}, {b})", np.fmax(u, v)), (f"if({a} < {b}, {a}, {b})", np.where(u < v, u, v)),
        (f"abs({a})", np.abs(u)), (f"sqrt({a})", np.sqrt(u)),
        (f"(0.01 + ({a})**2 + ({b})**2)", F4.type(0.01) + u*u + v*v)])


def test_no_bound_is_above_a_value() -> None:
    rng, found = random.Random(3), 0
    with np.errstate(all="ignore"):
        for _ in range(1500):
            text, values = _made(rng, rng.randint(1, 3))
            low = bounds().least(parse_expression(text))
            if low > -np.inf:
                found += 1
                assert values.dtype == F4
                assert not (values < low).any(), (text, low, values[values < low][0])
    assert found > 500


@pytest.mark.parametrize("text", [
    "0.01 + x**2 + (y - x)**2", "(x - y)**2 + 1e-5", "1 + abs(z)", "max(x, 1e-30)", "if(x < y, 2, 3.5)",
    "1e-5 + x**2/n", "0.5 + x**2/(1 + y**2)", "1e-30 + sqrt(x)*exp(y)"])
def test_found_to_be_normal(text: str) -> None:
    assert bounds().is_normal(parse_expression(text))


@pytest.mark.parametrize("text", [
    "x", "x**2", "x**2 + y**2", "0.01 + x", "0.01 - x**2", "0.01 + x**3", "1e-39 + x**2", "0.01*x**2", "min(x**2, 1)",
    "1 + x**2/y**2", "1 + x**2/k", "1 + k**2", "max(1e-8, h, x)", "(1e-8 + h**2) + x**2", "max(x, y)",
    "if(x < y, 1, x)"])
def test_not_believed_to_be_normal(text: str) -> None:
    """Among them: 0 divided by -0, an overflow of integers, and a number that is 0 in float16."""
    assert not bounds().is_normal(parse_expression(text))


def test_a_root_tests_for_subnormal_numbers_only_where_there_may_be_some() -> None:
    def text(argument: str, dialect: object = CUDA) -> str:
        return to_c(parse_expression(f"rsqrt({argument})"), dialect, TYPES.get)     # type: ignore[arg-type]
    assert text("0.01 + x**2") == "rsqrt_normal_f32(0.01f + x*x)"
    assert text("x**2") == "rsqrtf(x*x)"
    assert text("0.01 + w**2").startswith("rsqrt(")
    assert text("0.01 + x**2", C).startswith("rsqrt_f32(")


def test_nvrtc_takes_it() -> None:
    functions, _ = source([parse_expression("rsqrt(1 + a_f4[k]**2)")], CUDA, "__device__ void")
    assert "rsqrt.approx.ftz.f32" in functions
    compile_cuda(functions + 'extern "C" __global__ void nothing(int *x) { x[0] = 1; }\n', "sm_80")
