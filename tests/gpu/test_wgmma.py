"""Products by warpgroups on a GPU: for each dtype and layout the numbers of numpy, which are exact."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopkit as lk
from loopkit.runtime.cuda.devices import find_gpu
from tests.library.test_warpgroups import parts_of_larger
from tests.warpgroup_kernels import (
    BY_TMA,
    FROM_REGISTERS,
    PRODUCTS,
    data,
    data_of_products,
    product,
    product_from_registers,
    product_of_products,
)


@pytest.mark.parametrize(("name", "left", "right", "stages", "swizzled"), PRODUCTS)
def test_each_layout(name: str, left: str, right: str, stages: int, swizzled: bool) -> None:
    require_equal(product(name, left, right, stages, swizzled=swizzled), name, left, right)


@pytest.mark.parametrize(("name", "left", "right", "stages", "swizzle"), BY_TMA)
def test_tiles_by_tma(name: str, left: str, right: str, stages: int, swizzle: int) -> None:
    require_equal(product(name, left, right, stages, by_tma=swizzle), name, left, right)


@pytest.mark.parametrize(("name", "right", "stages"), FROM_REGISTERS)
def test_a_left_factor_from_registers(name: str, right: str, stages: int) -> None:
    require_equal(product_from_registers(name, right, stages), name, "ik", right)


def test_registers_wait_for_products() -> None:
    """Nothing but the left factor in registers makes the threads wait in the loop."""
    name = "wgmma.m64n64k16.f32.bf16"
    require_equal(product_from_registers(name, whole=True), name, "ik", "jk")


def test_arrays_may_be_larger_than_the_sizes() -> None:
    given, expected = parts_of_larger(np.random.default_rng(0))
    knl = lk.compile(lk.library.matmul("bfloat16", wgmma=True, tile=(64, 64, 64)), target=lk.CudaTarget("sm_90a"))
    np.testing.assert_array_equal(np.asarray(knl(**given).c).astype(np.float64), expected)


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_a_product_of_a_product(stages: int) -> None:
    if find_gpu().capability != (9, 0):
        pytest.skip("the GPU has no wgmma")
    knl = lk.compile(product_of_products(stages), target=lk.CudaTarget("sm_90a"))
    for seed in range(3):
        given, expected = data_of_products(seed)
        np.testing.assert_array_equal(np.asarray(knl(**given, c=np.full_like(expected, 77)).c), expected)


def require_equal(product_of_tiles: lk.LoopKernel, name: str, left: str, right: str) -> None:
    """The result array is full of other numbers before."""
    if find_gpu().capability != (9, 0):
        pytest.skip("the GPU has no wgmma")
    knl = lk.compile(product_of_tiles, target=lk.CudaTarget("sm_90a"))
    for seed in range(3):
        given, expected = data(name, left, right, seed)
        found = knl(**given, c=np.full_like(expected, 77)).c
        np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.parametrize("shape", [(2048, 2048, 520), (1000, 3000, 64), (640, 640, 8), (8, 8, 4096)])
@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize("store", ["tma", "shared", "registers"])
def test_blocks_that_run_several_tiles(shape: tuple[int, int, int], stages: int, store: str) -> None:
    """More tiles than blocks, and blocks without a tile; the sums of small integers are exact."""
    if find_gpu().capability != (9, 0):
        pytest.skip("the GPU has no wgmma")
    knl = lk.library.matmul("float16", wgmma=True, shape=(4096, 4096, 64), tile=(64, 128, 64), stages=stages,
                            multiprocessors=7, result="float16", store=store)
    assert knl.options.persistent == 7
    (n, m, steps), rng = shape, np.random.default_rng(0)
    a, b = (rng.integers(-1, 2, lengths).astype(np.float16) for lengths in ((n, steps), (steps, m)))
    compiled = lk.compile(knl, target=lk.CudaTarget("sm_90a"))
    for _ in range(3):
        found = compiled(a=a, b=b, c=np.full((n, m), 77, np.float16)).c
        np.testing.assert_array_equal(np.asarray(found), a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("shape", [(4093, 257, 131), (131, 1027, 4101), (65, 63, 9)])
@pytest.mark.parametrize("form", [{}, {"a_transposed": True, "b_transposed": True, "store": "registers"}])
def test_odd_rows(shape: tuple[int, int, int], form: dict[str, Any]) -> None:
    """The library's product, from padded copies; the sums of small integers are exact."""
    if find_gpu().capability != (9, 0):
        pytest.skip("the GPU has no wgmma")
    knl = lk.library.matmul("float16", wgmma=True, shape=shape, result="float16", **form)
    (n, m, steps), rng = shape, np.random.default_rng(0)
    a, b = (rng.integers(-1, 2, lengths).astype(np.float16) for lengths in ((n, steps), (steps, m)))
    given = {"a": a.T.copy() if form else a, "b": b.T.copy() if form else b}
    found = lk.compile(knl, target=lk.CudaTarget("sm_90a"))(**given, c=np.full((n, m), 77, np.float16)).c
    np.testing.assert_array_equal(np.asarray(found), a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("shape", [(1, 1000, 520), (16, 8192, 1024), (48, 136, 72), (64, 4096, 256)])
@pytest.mark.parametrize("epilogue", [None, "total + bias[j]"])
def test_few_rows(shape: tuple[int, int, int], epilogue: str | None) -> None:
    """The library's product, whose rows are the columns of that by warpgroups; the sums are exact."""
    if find_gpu().capability != (9, 0):
        pytest.skip("the GPU has no wgmma")
    knl = lk.library.matmul("float16", wgmma=True, shape=shape, result="float32", epilogue=epilogue)
    (n, m, steps), rng = shape, np.random.default_rng(0)
    a, b = (rng.integers(-1, 2, lengths).astype(np.float16) for lengths in ((n, steps), (steps, m)))
    bias = rng.integers(-9, 9, m).astype(np.float32)
    given = {"a": a, "b": b, **({"bias": bias} if epilogue else {})}
    knl = lk.add_dtypes(knl, {"bias": np.float32}) if epilogue else knl
    found = lk.compile(knl, target=lk.CudaTarget("sm_90a"))(**given, c=np.full((n, m), 77, np.float32)).c
    expected = a.astype(np.float32) @ b.astype(np.float32) + (bias if epilogue else 0)
    np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.parametrize("shape", [(64, 512, 512, 64), (300, 72, 200, 40), (3, 16, 64, 128)])
def test_batches(shape: tuple[int, int, int, int]) -> None:
    """Blocks that run tiles of several products, or one each."""
    if find_gpu().capability != (9, 0):
        pytest.skip("the GPU has no wgmma")
    knl = lk.compile(lk.library.batched_matmul("float16", wgmma=True, shape=shape), target=lk.CudaTarget("sm_90a"))
    (e, n, m, steps), rng = shape, np.random.default_rng(0)
    a, b = (rng.integers(-1, 2, lengths).astype(np.float16) for lengths in ((e, n, steps), (e, steps, m)))
    found = np.asarray(knl(a=a, b=b, c=np.full((e, n, m), 77, np.float16)).c)
    np.testing.assert_array_equal(found, a.astype(np.float32) @ b.astype(np.float32))
