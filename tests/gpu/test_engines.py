"""Engines and layouts of tiles on the device: loads and stores of each engine and swizzle, and stores of matrices."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from loopkit.expr.kinds import named_dtype
from loopkit.instructions.stmatrix import STMATRIX
from tests.matrix_stores import data, product, stored
from tests.tma_kernels import summed
from tests.transform.test_engines import doubled, strips


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("engine", ["register", "cp.async", "tma"])
def test_loads(engine: str, swizzle: int) -> None:
    a = np.random.default_rng(0).integers(-9, 9, (96, 512)).astype(np.float32)
    knl = lk.compile(lk.pipeline(strips(engine=engine, swizzle=swizzle), "k_outer", 3 if engine != "register" else 2),
                     target="cuda")
    np.testing.assert_array_equal(np.asarray(knl(a=a).s), a.sum(axis=1))


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("engine", ["register", "tma"])
def test_stores(engine: str, swizzle: int) -> None:
    x = np.random.default_rng(0).integers(-9, 9, (75, 332)).astype(np.float32)
    knl = lk.compile(doubled(engine=engine, swizzle=swizzle), target="cuda")
    np.testing.assert_array_equal(np.asarray(knl(x=x).y), 2*x)


@pytest.mark.parametrize(("name", "dtype", "swizzled"), [
    *((name, "bfloat16", False) for name in STMATRIX), ("stmatrix.x4", "float16", True), ("stmatrix.x4", "int8", False),
    ("stmatrix.x2", "float32", False)])
def test_stores_of_matrices(name: str, dtype: str, swizzled: bool) -> None:
    x = data(dtype)
    found = np.asarray(lk.compile(stored(name, dtype, swizzled=swizzled), target="cuda")(x=x).y)
    np.testing.assert_array_equal(found.astype(float), 2*x.astype(float))


@pytest.mark.parametrize("swizzle", [32, 64, 128])
@pytest.mark.parametrize("edges", [False, True])
def test_products(swizzle: int, edges: bool) -> None:
    rng, shape = np.random.default_rng(0), (147, 328) if edges else (160, 384)
    a, b = (rng.integers(-4, 5, s).astype(named_dtype("bfloat16")) for s in ((shape[0], 16), (16, shape[1])))
    found = np.asarray(lk.compile(product(swizzle=swizzle, edges=edges), target="cuda")(a=a, b=b).c)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(named_dtype("bfloat16")).astype(np.float32))


@pytest.mark.parametrize("dtype", ["int32", "uint32", "uint64", "float16", "bfloat16", "float32", "float64"])
def test_additions(dtype: str) -> None:
    a = np.random.default_rng(0).integers(0, 4, (40, 75, 336)).astype(named_dtype(dtype))
    c = np.ones(a.shape[1:], named_dtype(dtype))
    lk.compile(summed(dtype), target="cuda")(a=a, c=c)
    np.testing.assert_array_equal(c.astype(float), 1 + a.astype(float).sum(axis=0))
