"""The library's attention on a GPU: products are contracted with sums, and copies land when they do."""
from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loopkit as lk
from loopkit.runtime.cuda.devices import find_gpu
from tests.library.test_attention import FORMS, result_of

#: Sizes of the batch, the heads, the queries and the keys; a mask needs as many queries as keys.
SIZES = [(1, 2, 200, 200), (2, 4, 1000, 1000), (1, 2, 77, 513), (1, 2, 1, 1)]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("form", [*(form for form, _ in FORMS), {}, {"mask": "causal"}, {"mask": "causal", "keys": 64},
                                  {"mask": "window", "window": 200, "keys": 64}, {"head": 128, "mask": "causal"},
                                  {"head": 256, "heads_shared": 2}, {"head": 128, "mask": "causal", "keys": 64},
                                  {"length": 1024}, {"head": 128}, {"head": 128, "mask": "causal", "length": 16384},
                                  {"head": 128, "mask": "window", "window": 300}, {"mask": "causal", "bias": True},
                                  {"mask": "causal", "rows": 192, "keys": 96, "multiprocessors": 2}])
def test_results(form: dict[str, Any], sizes: tuple[int, int, int, int]) -> None:
    if find_gpu().capability != (9, 0):
        pytest.skip("the GPU has no wgmma")
    batch, heads, n, m = sizes
    if "mask" in form and n != m:
        pytest.skip("a mask is for as many queries as keys")
    share, head = form.get("heads_shared", 1), form.get("head", 64)
    rng, dtype = np.random.default_rng(0), np.float16 if "dtype" in form else ml_dtypes.bfloat16
    owners = 1 if share == "all" else heads // share
    given = {x: rng.standard_normal(shape).astype(dtype) for x, shape in (
        ("q", (batch, heads, n, head)), ("k", (batch, owners, m, head)), ("v", (batch, owners, m, head)))}
    if form.get("bias"):
        given["bias"] = rng.standard_normal((1, heads, n, m)).astype(dtype)
        given["bias"][..., 1 + m // 4:] = -np.inf                  # no key of the first tiles counts
    how = {x: y for x, y in form.items() if x in ("mask", "heads_shared", "window", "softcap")}
    expected = result_of(**{"bias": None, **given, **how})
    knl = lk.compile(lk.library.attention(**{"head": head, **form}), target=lk.CudaTarget("sm_90a"), verify=False)
    for _ in range(3):
        found = knl(**given, o=np.full(given["q"].shape, 77, dtype)).o
        np.testing.assert_allclose(found.astype(float), expected, atol=0.025)
