"""Copies of boxes by TMA on the device: the numbers of numpy, in partial tiles too, in rings of 1 to 4 slots."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from loopkit.expr.kinds import named_dtype
from loopkit.runtime.cuda.devices import find_gpu
from tests.tma_kernels import box, product, rows_of_window, rowsum, stored_box, window

BF16 = named_dtype("bfloat16")


@pytest.fixture(autouse=True)
def _gpu() -> None:
    found = find_gpu()
    if found.capability < (9, 0):
        pytest.skip(f"{found} has no TMA")


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_rows(stages: int) -> None:
    knl = lk.compile(rowsum(stages), target="cuda")
    rng = np.random.default_rng(stages)
    for n, length in ((1, 4), (64, 32), (65, 36), (200, 316), (300, 4000)):
        a = rng.integers(-100, 100, (n, length)).astype(np.float32)
        np.testing.assert_array_equal(np.asarray(knl(a=a).s), a.sum(axis=1))


@pytest.mark.parametrize("extents", [(64,), (8, 32), (4, 6, 16), (2, 3, 4, 8), (2, 3, 2, 3, 8)])
def test_boxes(extents: tuple[int, ...]) -> None:
    knl = lk.compile(box(extents), target="cuda")
    x = np.random.default_rng(0).integers(-100, 100, [n + 4 for n in extents]).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(knl(x=x).y), 2*x[tuple(slice(n) for n in extents)])


@pytest.mark.parametrize("extents", [(64,), (8, 32), (4, 6, 16), (2, 3, 4, 8), (2, 3, 2, 3, 8)])
def test_stored_boxes(extents: tuple[int, ...]) -> None:
    knl = lk.compile(stored_box(extents), target="cuda")
    x = np.random.default_rng(0).integers(-9, 9, [n + 1 for n in extents[:-1]] + [extents[-1] + 4]).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(knl(x=x).y), 2*x)


@pytest.mark.parametrize(("stride", "before"), [(1, 3), (2, 0), (2, 3), (3, 5), (8, 30), (5, 90)])
def test_windows(stride: int, before: int) -> None:
    x = np.random.default_rng(0).integers(1, 9, (11, 32)).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(lk.compile(window(stride, before), target="cuda")(x=x).y),
                                  rows_of_window(x, stride, before))


@pytest.mark.parametrize("swizzled", [False, True])
@pytest.mark.parametrize("b_transposed", [False, True])
@pytest.mark.parametrize("stages", [1, 3])
def test_products(stages: int, b_transposed: bool, swizzled: bool) -> None:
    knl = lk.compile(product(stages, b_transposed=b_transposed, swizzled=swizzled), target="cuda")
    rng = np.random.default_rng(stages)
    for n, m, length in ((1, 8, 8), (64, 64, 64), (72, 136, 200), (200, 264, 1000)):
        a, b = (rng.integers(-4, 5, shape).astype(BF16) for shape in ((n, length), (length, m)))
        found = knl(a=a, b=np.ascontiguousarray(b.T) if b_transposed else b).c
        expected = (a.astype(np.float32) @ b.astype(np.float32)).astype(BF16)
        np.testing.assert_array_equal(np.asarray(found).astype(np.float32), expected.astype(np.float32))
