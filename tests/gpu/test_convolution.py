"""The library's convolution on the device, in partial tiles and in blocks that run several tiles."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopkit as lk
from loopkit.runtime.cuda.devices import find_gpu
from tests.library.test_convolution import data, expected

pytestmark = pytest.mark.optimised


@pytest.fixture(autouse=True)
def _gpu() -> None:
    found = find_gpu()
    if found.capability != (9, 0):
        pytest.skip(f"{found} has no wgmma")


@pytest.mark.parametrize(("size", "given"), [
    ((3, 13, 17, 72, 40), {"padding": 1}), ((3, 13, 17, 72, 40), {"padding": 1, "stride": 2}),
    ((3, 13, 17, 72, 40), {"padding": 2, "stride": 3, "dilation": 2}), ((4, 40, 40, 32, 64), {"stride": 8}),
    ((2, 9, 9, 64, 264), {"padding": 4, "dilation": 3, "tile": (1, 8, 8, 64)}),
    ((9, 28, 28, 128, 520), {"padding": 1, "shape": (9, 28, 28, 128, 520)}),
    ((9, 57, 31, 128, 300), {"padding": 1, "stride": 2, "shape": (9, 57, 31, 128, 300)}),
    ((33, 56, 56, 64, 256), {"padding": 1, "shape": (33, 56, 56, 64, 256)})])
@pytest.mark.parametrize("layout", ["frsc", "rscf"])
def test_windows(size: tuple[int, int, int, int, int], given: dict[str, Any], layout: str) -> None:
    if layout == "rscf" and size[4] % 8:
        pytest.skip("rows of as many filters are no multiple of 16 bytes")
    x, w = data(size)
    window = {what: number for what, number in given.items() if what in ("stride", "padding", "dilation")}
    wanted = expected(x, w, **window)
    axes = ["frsc".index(axis) for axis in layout]
    found = lk.compile(lk.library.conv2d(filter_layout=layout, **given), target=lk.CudaTarget("sm_90a"))(
        x=x, w=np.ascontiguousarray(w.transpose(axes))).y
    np.testing.assert_array_equal(np.asarray(found).astype(float), wanted.astype(x.dtype).astype(float))
