"""Grouped products and attention within sequences on a GPU: lengths of groups are read from memory."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import loopkit as lk
from loopkit.runtime.cuda.devices import find_gpu
from tests.library import test_grouped as grouped
from tests.library import test_packed as packed


def _require_wgmma() -> None:
    if find_gpu().capability != (9, 0):
        pytest.skip("the GPU has no wgmma")


@pytest.mark.parametrize("ends", grouped.ENDS, ids=str)
@pytest.mark.parametrize("b_transposed", [False, True])
def test_grouped_products(ends: Sequence[int], b_transposed: bool) -> None:
    _require_wgmma()
    for how in ({"tile": (64, 64), "stages": 2}, {}):
        arrays = grouped.arrays_of(ends, b_transposed=b_transposed)
        expected = grouped.expected_of(arrays, b_transposed=b_transposed)
        knl = lk.library.grouped_matmul(b_transposed=b_transposed, **how)       # type: ignore[arg-type]
        lk.compile(knl, grouped.HOPPER, verify=False)(**arrays)
        np.testing.assert_array_equal(arrays["c"], expected)


@pytest.mark.parametrize("starts", packed.STARTS, ids=str)
@pytest.mark.parametrize(("mask", "heads_shared"), [("causal", 1), ("full", 2)])
def test_packed_sequences(starts: Sequence[int], mask: str, heads_shared: int) -> None:
    _require_wgmma()
    arrays = packed.arrays_of(starts, heads_shared)
    expected = packed.expected_of(arrays, mask)
    for how in ({"rows": 64, "keys": 64}, {}):
        knl = lk.library.packed_attention(head=64, mask=mask, heads_shared=heads_shared, **how)
        lk.compile(knl, packed.HOPPER, verify=False)(**arrays)
        np.testing.assert_allclose(arrays["o"].astype(np.float32), expected, atol=0.02)
