"""Every real case on the GPU, at every size, against numpy."""
from __future__ import annotations

import numpy as np
import pytest

from tests.cases import CASES, Case
from tests.gpu.launching import run_on_gpu

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
try:
    _DEVICES = cupy.cuda.runtime.getDeviceCount()
except cupy.cuda.runtime.CUDARuntimeError as err:
    pytest.skip(f"no CUDA device: {err}", allow_module_level=True)


# CuPy has no bfloat16
@pytest.mark.parametrize("case", [c for c in CASES if c.dtype.kind == "f"], ids=lambda c: c.name)
def test_case_on_the_gpu(case: Case) -> None:
    knl = case.make()
    for sizes in case.sizes:
        arguments = case.data(np.random.default_rng(7), *sizes)
        expected = case.expected({k: v.copy() if isinstance(v, np.ndarray) else v for k, v in arguments.items()})
        found = run_on_gpu(cupy, knl, arguments)
        for name, value in expected.items():
            scale = max(1.0, float(np.abs(value).max(initial=0)))
            length = max((max(v.shape, default=1) for v in arguments.values() if isinstance(v, np.ndarray)), default=1)
            bound = np.finfo(case.dtype).eps*(8 + 2*length)*scale
            np.testing.assert_allclose(found[name], value, rtol=0, atol=bound, err_msg=f"{name} at {sizes}")
