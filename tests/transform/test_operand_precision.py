"""set_operand_precision, and the function tf32."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import loopkit as lk
from loopkit.interpreter.interpreter import function_value
from tests.nvrtc import compile_cuda
from tests.transform.same import step


def cleared(x: np.ndarray) -> np.ndarray:
    return (x.view(np.uint32) & np.uint32(0xffffe000)).view(np.float32)


def product(text: str = "a[i,k]*b[k,j]", **dtypes: object) -> lk.LoopKernel:
    knl = lk.make_kernel("{[i,j,k]: 0<=i<n and 0<=j<n and 0<=k<n}", f"c[i,j] = sum(k, {text})")
    return lk.add_dtypes(knl, {x: dtypes.get(x, np.float32) for x in "abde" if f"{x}[" in text})  # type: ignore[misc]


def operand(knl: lk.LoopKernel) -> str:
    return knl.statements_text.split("sum(k, ")[1].split(")  {id")[0]


@pytest.mark.parametrize("target", ["c", "opencl"])
def test_tf32_has_ten_bits_of_fraction(target: str) -> None:
    bits = np.random.default_rng(0).integers(0, 1 << 32, 3000, dtype=np.uint32)
    x = np.concatenate([bits.view(np.float32), np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38], np.float32)])
    x[np.isnan(x)] = np.nan
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = tf32(x[i])"), {"x": np.float32})
    if target == "opencl":
        pytest.importorskip("pyopencl")
        assert "return as_float(as_uint(x) & 0xffffe000u);" in lk.generate_code(knl, target=target).source
        return
    np.testing.assert_array_equal(lk.compile(knl, target)(x=x).y.view(np.uint32), cleared(x).view(np.uint32))
    assert [function_value("tf32", v).view(np.uint32) for v in x[::90]] == [*cleared(x)[::90].view(np.uint32)]


def test_tf32_takes_float32_only() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = tf32(x[i])")
    for dtype in (np.float64, np.float16, np.int32):
        with pytest.raises(lk.TypeInferenceError, match="'tf32' takes no arguments"):
            lk.generate_code(lk.add_dtypes(knl, {"x": dtype}))
    assert lk.make_kernel("{[i]: 0<=i<n}", "y[i] = tf32(1.0003)").statements_text


def test_products_of_matrices() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.uniform(-1, 1, (2, 20, 20)).astype(np.float32)
    knl = step(product(), lk.set_operand_precision, "tf32")
    c = lk.compile(knl, "c")(a=a, b=b).c
    exact = cleared(a).astype(np.float64) @ cleared(b).astype(np.float64)
    np.testing.assert_allclose(c, exact, rtol=0, atol=1e-5)
    assert np.abs(c - a.astype(np.float64) @ b.astype(np.float64)).max() > 1e-4
    source = lk.generate_code(lk.tag_inames(knl, "i:g.0"), target="cuda").source
    assert "acc_k += tf32(a[i*n + k])*tf32(b[k*n + j]);" in source
    compile_cuda(source)
    tiled = lk.add_prefetch(lk.split_iname(product(), "k", 8), "a", ["k_inner"])
    assert "tf32(a_fetch[k_inner])*tf32(b[8*k_outer + k_inner, j])" in lk.set_operand_precision(
        tiled, "tf32").statements_text


@pytest.mark.parametrize(("text", "expected"), [
    ("2*a[i,k]*b[k,j]", "2*tf32(a[i, k])*tf32(b[k, j])"), ("1.5f*a[i,k]", "1.5f*tf32(a[i, k])"),
    ("a[i,k]*cast(float32, d[k])", "tf32(a[i, k])*cast(float32, d[k])"),
    ("a[i,k]*e[k] + a[k,i]*b[k,j]", "a[i, k]*e[k] + tf32(a[k, i])*tf32(b[k, j])"),
    ("a[i,k]*b[k,j] + a[k,j]", "tf32(a[i, k])*tf32(b[k, j]) + a[k, j]"), ("k*a[i,k]", "k*tf32(a[i, k])"),
    ("(a[i,k] + b[k,j])*tf32(b[k,j])", "tf32(a[i, k] + b[k, j])*tf32(b[k, j])")])
def test_factors(text: str, expected: str) -> None:
    knl = product(text, d=ml_dtypes.bfloat16, e=np.float64)
    assert operand(lk.set_operand_precision(knl, "tf32")) == expected


def test_what_has_no_such_factors() -> None:
    for knl, match in (
            (product("a[i,k]"), "No selected sum has products of float32 factors"),
            (product("a[i,k]*b[k,j]", a=np.float64, b=np.float64), "No selected sum"),
            (lk.make_kernel("{[k]: 0<=k<n}", "y = sum(k, a[k]*a[k])"), "the dtype of 'a' is unknown|'a' is unknown"),
            (lk.set_operand_precision(product(), "tf32"), "No selected sum"),
            (lk.add_dtypes(lk.make_kernel("{[k]: 0<=k<n}", "f(j) := a[j]*a[j]\ny = sum(k, f(k))"), {"a": np.float32}),
             "calls the rule 'f'")):
        with pytest.raises(lk.PreconditionError, match=match):
            lk.set_operand_precision(knl, "tf32")
    with pytest.raises(lk.PreconditionError, match="There is no precision 'bf16x3'") as caught:
        lk.set_operand_precision(product(), "bf16x3")
    assert caught.value.hint
    with pytest.raises(lk.UnknownNameError):
        lk.set_operand_precision(product(), "tf32", within="nothing")
