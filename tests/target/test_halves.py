"""CUDA text with float16 and bfloat16: it reads well, and NVRTC takes it."""
from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import loopkit as lk
from loopkit.kernel.printing import kernel_text
from tests.nvrtc import compile_cuda
from tests.target.text import cuda_text

HALVES = {"float16": "__half", "bfloat16": "__nv_bfloat16"}
each_half = pytest.mark.parametrize("half", HALVES)


def elementwise(text: str, half: str, *others: lk.GlobalArg | lk.ValueArg) -> lk.LoopKernel:
    arrays = [lk.GlobalArg(name, ml_dtypes.bfloat16 if half == "bfloat16" else np.float16) for name in "abc"
              if f"{name}[" in text]
    knl = lk.make_kernel("{[i]: 0<=i<n}", text, [*arrays, *others, "..."])
    return lk.set_options(lk.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0"), full_tiles=False)


@pytest.mark.deep(every=36)
@pytest.mark.parametrize(("text", "expected"), [
    ("a[i]*b[i] + c[i]", "a[I]*b[I] + c[I]"), ("2.5*a[i] - 1", "HALF(2.5f)*a[I] - HALF(1.0f)"),
    ("-a[i] / b[i]", "-a[I] / b[I]"), ("0.1*a[i]", "HALF(0.1f)*a[I]"), ("-0.1*a[i]", "HALF(-0.1f)*a[I]"),
    ("exp(a[i])", "(HALF)expf((float)a[I])"), ("min(a[i], b[i])", "__hmin(a[I], b[I])"), ("max(a[i], 0)",
    "__hmax(a[I], HALF(0.0f))"), ("abs(a[i])", "__habs(a[I])"), ("floor(a[i])", "hfloor(a[I])"),
    ("a[i]**2", "a[I]*a[I]"), ("a[i]**3", "(HALF)power3_f32((float)a[I])"),
    ("if(a[i] < b[i], a[i], 1)", "a[I] < b[I] ? a[I] : HALF(1.0f)"),
    ("cast(float32, a[i])*b[i]", "(float)a[I]*(float)b[I]"),
    ("a[i] // b[i]", "(HALF)floor_div_f32((float)a[I], (float)b[I])"), ("cast(int32, a[i])", "(int)a[I]"),
    ("a[i] + 1j", "complex64((float)a[I]) + complex64(0.0f, 1.0f)"), ("1e30*a[i]", None)])
@each_half
def test_expression(half: str, text: str, expected: str | None) -> None:
    knl = elementwise(f"y[i] = {text}", half)
    [line] = [x for x in re.sub(r"\n {12,}", " ", cuda_text(knl)).split("\n") if "y[64*i_outer" in x]
    found = line.split(" = ", 1)[1].rstrip(";").replace("64*i_outer + i_inner", "I").replace(HALVES[half], "HALF")
    if expected is not None:
        assert found == expected
    compile_cuda(cuda_text(knl))


@each_half
def test_headers_stand_where_they_are_needed(half: str) -> None:
    header = {"float16": "#include <cuda_fp16.h>", "bfloat16": "#include <cuda_bf16.h>"}
    code = cuda_text(elementwise("y[i] = a[i]", half))
    assert code.startswith(header.pop(half))
    assert not any(other in code for other in header.values())
    assert "#include" not in cuda_text(lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i]"), {"x": np.float32}))


@pytest.mark.deep(every=4)
@each_half
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_all_conversions_compile(half: str, arch: str) -> None:
    others = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16",
              "float32", "float64", "complex64", "complex128", "bool")
    lines = [f"t_{d}[i] = cast({d}, a[i])" for d in others]
    text = "\n".join([*lines, *(f"u_{d}[i] = cast({half}, s_{d}[i])" for d in others if "complex" not in d),
                      "v[i] = cast(complex64, a[i])*s_complex64[i] + real(s_complex128[i])"])
    arrays = [lk.GlobalArg(f"s_{d}", ml_dtypes.bfloat16 if d == "bfloat16" else np.dtype(d)) for d in others]
    compile_cuda(cuda_text(elementwise(text, half, *arrays)), arch)


@pytest.mark.deep
@each_half
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_reductions_over_warps(half: str, arch: str) -> None:
    for operation in ("sum", "product", "min", "max"):
        knl = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<96}", f"y[i] = {operation}(j, a[i,j])",
                             [lk.GlobalArg("a", ml_dtypes.bfloat16 if half == "bfloat16" else np.float16), "..."])
        knl = lk.tag_inames(knl, "i:g.0, j:l.0")
        assert f"__shared__ {HALVES[half]} acc_j_shared[3];" in cuda_text(knl)
        assert compile_cuda(cuda_text(knl), arch).shared == 2*3


@each_half
def test_values_and_unused_arguments(half: str) -> None:
    dtype = np.dtype(ml_dtypes.bfloat16 if half == "bfloat16" else np.float16)
    knl = elementwise("y[i] = alpha*b[i]", half, lk.ValueArg("alpha", dtype))
    code = lk.generate_code(knl)
    assert f"const {HALVES[half]} alpha" in code.source
    assert f"launch_kernel({HALVES[half]}" in code.host.replace("const ", "")
    compile_cuda(code.source)
    text = lk.generate_code(knl, target="c").source
    assert f"const {half} alpha" in text
    assert "_Float16" not in text
    assert "__bf16" not in text


@each_half
def test_half_kernels_print(half: str) -> None:
    knl = elementwise(f"<{half}> t = a[i] {{id=first}}\ny[i] = t + cast({half}, 2)", half)
    assert f"a: {half}" in kernel_text(knl)
    assert f"<{half}> t" in knl.statements_text
    assert f"cast({half}, 2)" in knl.statements_text


@each_half
def test_nextafter_is_refused(half: str) -> None:
    with pytest.raises(lk.TypeInferenceError, match=f"'nextafter' takes no {half}") as caught:
        cuda_text(elementwise("y[i] = nextafter(a[i], 1)", half))
    assert caught.value.hint is not None
