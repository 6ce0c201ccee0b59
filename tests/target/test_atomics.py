"""Atomic updates in CUDA and in host C."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from tests.nvrtc import compile_cuda

INTEGERS = ("int32", "uint32", "int64", "uint64")
FUNCTIONS = {"sum": "atomicAdd", "min": "atomicMin", "max": "atomicMax"}


@pytest.mark.parametrize("space", ["global", "shared"])
def test_cuda_has_them(space: str) -> None:
    """Each operation of each dtype is a function of CUDA, on arguments and in shared memory."""
    names = [("sum", "float32"), ("sum", "float64"), *((op, t) for op in FUNCTIONS for t in INTEGERS)]
    form = {"sum": "{0} + w_{1}[i]", "min": "min({0}, w_{1}[i])", "max": "max({0}, w_{1}[i])"}
    lines = []
    for op, t in names:
        element = f"{op}_{t}[i % 7]"
        lines.append(f"{element} = {form[op].format(element, t)} {{id={op}_{t}_, atomic}}")
    knl = lk.make_kernel("{[i]: 0<=i<n}", "\n".join(lines))
    knl = lk.add_dtypes(knl, {f"{op}_{t},w_{t}": np.dtype(t) for op, t in names})
    knl = lk.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag=None if space == "shared" else "l.0")
    if space == "shared":
        for op, t in names:
            knl = lk.buffer_array(knl, f"{op}_{t}", "i_inner", within=f"{op}_{t}_", default_tag="l.0")
        knl = lk.tag_inames(knl, "i_inner:l.0")
    source = lk.generate_code(knl).source
    for op, t in names:
        cell = f"{op}_{t}_buf[" if space == "shared" else f"{op}_{t}["
        cast = "(unsigned long long *)" if (op, t) == ("sum", "int64") else ""
        assert f"{FUNCTIONS[op]}({cast}&{cell}" in source
    compile_cuda(source)


def test_the_host_orders_what_openmp_has_not() -> None:
    def text(update: str) -> str:
        knl = lk.make_kernel("{[i]: 0<=i<n}", f"h[i//2] = {update} {{atomic}}")
        knl = lk.split_iname(lk.add_dtypes(knl, {"h,w": np.int32}), "i", 4, outer_tag="g.0")
        return str(lk.generate_code(knl, target="c"))
    added = text("h[i//2] + w[i]")
    assert added.count("#pragma omp parallel for") == added.count("#pragma omp atomic\n") == 1
    assert "#pragma" not in text("max(h[i//2], w[i])")
