"""The gradients of the library's attention on a GPU: the same bits in each run."""
from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loopkit as lk
from loopkit.runtime.cuda.devices import find_gpu
from tests.library.test_attention_backward import FORMS, example, gradients

#: Sizes of the batch, the heads, the queries and the keys; a mask needs as many queries as keys.
SIZES = [(1, 2, 200, 200), (4, 12, 777, 777), (1, 2, 77, 513), (1, 1, 1, 1)]


@pytest.mark.parametrize("form", [*(form for form, _ in FORMS), {}, {"mask": "causal"}, {"head": 128},
                                  {"head": 128, "mask": "causal"}, {"dtype": "float16"},
                                  {"mask": "causal", "multiprocessors": 0}, {"head": 128, "multiprocessors": 0}])
def test_results(form: dict[str, Any]) -> None:
    if find_gpu().capability != (9, 0):
        pytest.skip("the GPU has no wgmma")
    form = {"head": 64, **form}
    dtype, scale = np.float16 if "dtype" in form else ml_dtypes.bfloat16, form.get("scale", form["head"]**-0.5)
    knl = lk.compile(lk.library.attention_backward(**form), target=lk.CudaTarget("sm_90a"), verify=False)
    for sizes in SIZES:
        if "mask" in form and sizes[2] != sizes[3]:
            continue
        given = example(form["head"], sizes, dtype)
        o, log_sum, *expected = gradients(**given, mask=form.get("mask", "full"), scale=scale)
        given |= {"o": o.astype(dtype), "log_sum": log_sum.astype(np.float32)}
        first, *others = (knl(**given, **{f"d{x}": np.full(given[x].shape, 77, dtype) for x in "qkv"})
                          for _ in range(3))
        for name, wanted in zip(("dq", "dk", "dv"), expected, strict=True):
            found = getattr(first, name)
            assert np.abs(found.astype(float) - wanted).max() < 0.012*max(np.abs(wanted).max(), 0.1), name
            assert all((getattr(other, name) == found).all() for other in others)


def test_attention_gives_the_logarithm() -> None:
    if find_gpu().capability != (9, 0):
        pytest.skip("the GPU has no wgmma")
    given = example(128, (1, 2, 300, 300), ml_dtypes.bfloat16)
    _, log_sum, *_ = gradients(**given, mask="causal", scale=128**-0.5)
    knl = lk.library.attention(head=128, mask="causal", log_sum=True)
    found = lk.compile(knl, target=lk.CudaTarget("sm_90a"), verify=False)(**{x: given[x] for x in "qkv"})
    np.testing.assert_allclose(found.log_sum, log_sum, atol=1e-4)
