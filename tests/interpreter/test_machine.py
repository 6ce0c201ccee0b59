"""Instances that run one by one leave what the compiled kernel leaves."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from loopkit.analysis.data_constraints import index_names
from loopkit.analysis.shapes import array_shapes
from loopkit.expr.functions import FUNCTIONS
from loopkit.expr.kinds import epsilon
from loopkit.interpreter.instances import Instance, execution_order, reference_order
from loopkit.interpreter.interpreter import InitialData, Interpreter
from loopkit.lowering.types import infer_types
from tests.cases import CASES, Case

Order = Callable[[lk.LoopKernel, list[Instance]], list[Instance]]

#: Without those that take thousands of instances at any size: they fill large tiles.
SMALL = [case for case in CASES if case.name not in ("matmul_large_tiles", "matmul_register_blocked")]


def ran(knl: lk.LoopKernel, arguments: Mapping[str, Any], order: Order) -> Interpreter:
    """*knl* on *arguments*, whose sizes are those of the arrays."""
    typed = infer_types(knl)
    arrays = {k: v for k, v in arguments.items() if isinstance(v, np.ndarray)}
    scalars = {k: v for k, v in arguments.items() if not isinstance(v, np.ndarray)}
    for name, shape in array_shapes(typed).items():
        for extent, length in zip(shape, arrays[name].shape if name in arrays else (), strict=False):
            if extent is not None and str(extent) in typed.value_params:
                scalars.setdefault(str(extent), length)
    if knl.name == "csr_matvec":
        scalars["n"] = len(arrays["rowptr"]) - 1
    machine = Interpreter(typed, scalars, InitialData(0, arrays, index_names(typed)))
    return machine.run(order(typed, machine.instances()))


@pytest.mark.deep(every=14)
@pytest.mark.parametrize("order", [reference_order, execution_order])
@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_cases(case: Case, order: Order) -> None:
    knl = case.make()
    arguments = case.data(np.random.default_rng(1), *(5, 4, 3)[:len(case.sizes[0])])
    machine = ran(knl, arguments, order)
    passed = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
    for name, want in lk.compile(knl, "c")(**passed).asdict().items():
        written = [index for array, index in machine.written if array == name]
        assert written
        got = np.array([machine.cell(name, index) for index in written]).astype(np.float64)
        expected = np.array([want[index] for index in written]).astype(np.float64)
        np.testing.assert_allclose(got, expected, rtol=300*epsilon(case.dtype), atol=30*epsilon(case.dtype))
        assert machine.cell(name, written[0]).dtype == want.dtype


def expression(text: str, **dtypes: object) -> lk.LoopKernel:
    return lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", f"y[i] = {text}"), dtypes)        # type: ignore[arg-type]


@pytest.mark.deep(every=3)
@pytest.mark.parametrize(("text", "dtype"), [
    ("i*x[i] + 2", np.float32), ("x[i] / 3", np.int32), ("x[i] // 3 - 7 % (x[i] + 40)", np.int32),
    ("x[i] // -3", np.int64), ("min(x[i], i) + max(x[i], 2, 3)", np.float32), ("x[i]**2 + 2**i", np.float64),
    ("x[i]*x[i]", np.int8), ("(x[i] > 1) + (x[i] > 2)", np.float32), ("if(x[i] > 2 and i != 1, x[i], -1)", np.float32),
    ("if(not (x[i] > 2) or i == 1, 1.5, x[i])", np.float64), ("cast(int32, 2.7*x[i])", np.float32),
    ("sqrt(x[i]) + rsqrt(x[i]) + exp(-x[i]) + log(x[i])", np.float64),
    ("sin(x[i])*cos(2) + atan2(x[i], 2)", np.float32),
    ("erf(x[i]) + erfc(0.1*x[i]) + tgamma(x[i]) + lgamma(x[i])", np.float64),
    ("round(x[i]) + rint(2.5*x[i]) + floor(x[i]/3) + ceil(x[i]/3) + trunc(x[i]/3)", np.float64),
    ("exp2(x[i]) + exp10(0.1*x[i]) + expm1(x[i]) + log1p(x[i]) + cbrt(x[i]) + sinpi(x[i]/8) + cospi(x[i]/8)",
     np.float64),
    ("fmod(x[i], 3) + hypot(x[i], 2) + copysign(x[i], -1) + fdim(x[i], 2) + fma(x[i], 2, 1) + fabs(-x[i])", np.float64),
    ("abs(x[i]*(1 - 2j)) + real(conj(x[i]*2j))", np.complex64), ("x[i]**2 + imag(exp(x[i]))", np.complex128),
    ("x[i] + 0.1*x[i]", np.float16), ("isnan(x[i]) + isfinite(x[i])", np.float32), ("1.5f*x[i]", np.float64),
    ("x[i] > 4000000000", np.uint32), ("x[i]**-1", np.int32), ("true and x[i] > 1", np.float32)])
def test_values_are_those_of_the_text(text: str, dtype: type[np.generic]) -> None:
    knl = expression(text, x=dtype)
    x = np.array([1, 2, 3, 4, 5]).astype(dtype)
    machine = ran(knl, {"x": x, "n": 5}, reference_order)
    want = lk.compile(knl, "c")(x=x).asdict()["y"]
    got = np.array([machine.cell("y", (i,)) for i in range(5)])
    assert got.dtype == want.dtype
    if want.dtype.kind in "fc":
        np.testing.assert_allclose(got, want, rtol=8*float(np.finfo(want.dtype).eps))
    else:
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("n", [0, 1, 5, 6])
def test_the_divisions_of_chunks(n: int) -> None:
    """What a transformation writes has a value too, not only what the language can say."""
    knl = lk.chunk_iname(expression("2*x[i]", x=np.float64), "i", 3)
    x = np.arange(1.0, n + 1)
    machine = ran(knl, {"x": x, "n": n}, reference_order)
    assert [machine.cell("y", (i,)) for i in range(n)] == list(2*x)


def test_what_the_language_calls_has_a_value() -> None:
    """Every function, at one argument of its kind."""
    for name, function in FUNCTIONS.items():
        dtypes = next(iter(function.dtypes)) if isinstance(function.dtypes, Mapping) else [np.float64]*function.arity
        arguments = ", ".join(f"x{k}[i]" for k in range(function.arity))
        given = {f"x{k}": np.ones(2, dtype) for k, dtype in enumerate(dtypes)}
        ran(expression(f"{name}({arguments})", **{k: x.dtype for k, x in given.items()}), {**given, "n": 2},
            reference_order)


def test_a_substitution_rule_and_conditions() -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<n}", """
        f(x) := 2*a[x] + s
        y[i] = 0 {id=zero}
        y[i] = f(i) {if=b[i] > 1, dep=zero}
        z[j] = f(j) {if=j > 1}
        """)
    knl = lk.add_dtypes(knl, {"a,b,s": np.float64})
    a, b = np.arange(4.0), np.array([0.0, 2, 0, 3])
    machine = ran(knl, {"a": a, "b": b, "s": 0.5, "n": 4}, reference_order)
    want = lk.compile(knl, "c")(a=a, b=b, s=0.5, n=4).asdict()
    assert [machine.cell("y", (i,)) for i in range(4)] == list(want["y"])
    assert {e for name, e in machine.written if name == "z"} == {(2,), (3,)}


def test_a_reduction_of_the_user_s_own() -> None:
    knl = lk.make_kernel("{[i, k]: 0<=k<=i<n}", "y[i] = horner(k, x[k])",
                         reductions=[lk.ReductionOperation("horner", "2*a + b")])
    knl = lk.add_dtypes(knl, {"x": np.float64})
    machine = ran(knl, {"x": np.arange(1.0, 5.0), "n": 4}, reference_order)
    assert [machine.cell("y", (i,)) for i in range(4)] == [1, 4, 11, 26]


def test_random_elements_depend_on_nothing_but_their_place() -> None:
    data = InitialData(3, {}, frozenset({"row"}))
    f64 = np.dtype(np.float64)
    assert data.value("a", (1, -2), f64) == data.value("a", (1, -2), f64)
    different = {data.value(name, e, f64) for name in "ab" for e in ((0,), (1,), (-1,), (0, 1), (1, 0), ())}
    assert len(different) > 9
    assert data.value("a", (1,), f64) != InitialData(4, {}, frozenset()).value("a", (1,), f64)
    rows = [data.value("row", (i,), np.dtype(np.int32)) for i in range(6)]
    assert rows == sorted(rows)
