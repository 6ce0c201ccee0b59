"""Products by warpgroups on a GPU: for each dtype and layout the numbers of numpy, which are exact."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from loopkit.runtime.cuda.devices import find_gpu
from tests.warpgroup_kernels import BY_TMA, PRODUCTS, data, product


@pytest.mark.parametrize(("name", "left", "right", "stages", "swizzled"), PRODUCTS)
def test_each_layout(name: str, left: str, right: str, stages: int, swizzled: bool) -> None:
    require_equal(product(name, left, right, stages, swizzled=swizzled), name, left, right)


@pytest.mark.parametrize(("name", "left", "right", "stages"), BY_TMA)
def test_tiles_by_tma(name: str, left: str, right: str, stages: int) -> None:
    require_equal(product(name, left, right, stages, by_tma=True), name, left, right)


def require_equal(product_of_tiles: lk.LoopKernel, name: str, left: str, right: str) -> None:
    """The result array is full of other numbers before."""
    if find_gpu().capability != (9, 0):
        pytest.skip("the GPU has no wgmma")
    knl = lk.compile(product_of_tiles, target=lk.CudaTarget("sm_90a"))
    for seed in range(3):
        given, expected = data(name, left, right, seed)
        found = knl(**given, c=np.full_like(expected, 77)).c
        np.testing.assert_array_equal(np.asarray(found), expected)
