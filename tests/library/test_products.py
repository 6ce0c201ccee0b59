"""Products of matrices: tiles by the shape, sums over k in parts, and strips that are copied asynchronously."""
from __future__ import annotations

import re

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import loopkit as lk
from loopkit.library.defaults import best_plan
from tests.nvrtc import compile_cuda

pytestmark = pytest.mark.optimised

F32 = np.float32
lengths = st.integers(1, 9000)


def _product(knl: lk.LoopKernel, n: int, m: int, k: int) -> float:
    """The error of *knl* on the host."""
    rng = np.random.default_rng([n, m, k])
    a, b = rng.uniform(-1, 1, (n, k)).astype(F32), rng.uniform(-1, 1, (k, m)).astype(F32)
    return float(abs(lk.compile(knl, target="c")(a=a, b=b).c - a.astype(float) @ b.astype(float)).max())


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("shape", [(130, 136, 100), (67, 130, 38), (129, 61, 255), (1, 1, 700)], ids=str)
def test_a_product_of_a_known_shape(shape: tuple[int, int, int]) -> None:
    """Rows of a and b are loaded in vectors as far as they divide them, with parts of the sums where tiles are few."""
    knl = lk.library.matmul(shape=shape)
    assert not best_plan(shape).whole                                           # too small for a launch more
    assert _product(knl, *shape) < 1e-4
    assert lk.verify(knl).verdict is lk.Verdict.PROVEN
    assert ("partial" in knl.temporaries) == (best_plan(shape).depth is not None)
    source = lk.generate_code(knl).source
    for array, length in (("a", shape[2]), ("b", shape[1])):
        vector = {0: "float4", 2: "float2"}.get(length % 4)
        assert (f"reinterpret_cast<const {vector} *>(&{array}[" in source) if vector else f"*>(&{array}[" not in source
    assert max(kernel.spill_stores for kernel in compile_cuda(source).kernels.values()) == 0


@pytest.mark.deep(every=3)
@pytest.mark.parametrize("options", [{}, {"tile": (32, 64, 8), "warp": (32, 32)}, {"shape": (70, 68, 96)}], ids=str)
def test_parts_of_sums_are_added_up(options: dict[str, object]) -> None:
    knl = lk.library.matmul(depth=32, **options)
    assert lk.verify(knl).verdict is lk.Verdict.PROVEN
    assert len(lk.generate_code(knl).kernels) == 2
    assert "atomicAdd" not in lk.generate_code(knl).source                      # one order, the same bits
    for steps in (96,) if "shape" in options else (1, 32, 33, 96, 100):
        assert _product(knl, 70, 68, steps) < 1e-4


@pytest.mark.parametrize("depth", [None, 32])
def test_copies_that_are_filled_up_have_vectors_and_no_conditions(depth: int | None) -> None:
    knl = lk.library.matmul(whole=True, depth=depth, tile=(32, 64, 16), warp=(32, 32))
    assert lk.verify(knl).verdict is lk.Verdict.PROVEN
    for size in ((1, 1, 1), (33, 65, 47), (64, 64, 64)):
        assert _product(knl, *size) < 1e-4
    source = lk.generate_code(knl).source
    [load] = re.findall(r"// a_tile_load\n.*?// b_tile_load", source, re.DOTALL)
    assert "?" not in load
    assert "reinterpret_cast<const float4 *>(&a_whole[" in source
    assert "reinterpret_cast<const float4 *>(&b_whole[" in source


@given(st.tuples(lengths, lengths, lengths), st.integers(1, 200))
@settings(deadline=None)
def test_plans_of_products(shape: tuple[int, int, int], multiprocessors: int) -> None:
    plan = best_plan(shape, multiprocessors)
    assert plan.cycles <= best_plan(shape, max(multiprocessors//2, 1)).cycles            # more of them cost no time
    if plan.depth is not None:
        assert 0 < plan.depth < shape[2]
        assert plan.depth % plan.tile.tile[2] == 0


def test_few_tiles_are_shared_by_all_multiprocessors() -> None:
    def blocks(n: int, m: int, k: int) -> int:
        plan = best_plan((n, m, k))
        return -(-n//plan.tile.tile[0])*-(-m//plan.tile.tile[1])*(-(-k//plan.depth) if plan.depth else 1)
    assert blocks(256, 256, 20_000) > 100                                       # of two to eight tiles
    assert best_plan((8000, 8000, 500)).depth is None
    assert best_plan((256, 256, 20_000), multiprocessors=1).depth is None


@pytest.mark.parametrize("shape", [(0, 5, 5), (5, -1, 5), (5, 5, 2.5)])
def test_what_is_no_shape(shape: tuple[int, int, int]) -> None:
    with pytest.raises(lk.PreconditionError, match=r"must be a positive integer|must be a tuple"):
        lk.library.matmul(shape=shape)
    for options in ({"depth": 0}, {"shape": (5, 5, 5), "multiprocessors": 0}):
        with pytest.raises(lk.PreconditionError, match="must be a positive integer"):
            lk.library.matmul(**options)


@pytest.mark.deep
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("size", [3, 10, 33])
def test_many_products_of_any_size(size: int, asynchronous: bool) -> None:
    rng = np.random.default_rng(size)
    a, b = rng.uniform(-1, 1, (2, 3, size, size))
    knl = lk.library.batched_matmul(np.float64, size=size, steps=4, warp=(16, 16), asynchronous=asynchronous)
    np.testing.assert_allclose(knl(a=a, b=b).c, a @ b, atol=1e-13)


def test_strips_of_small_products_are_copied_by_themselves_where_gpus_can() -> None:
    knl = lk.library.batched_matmul()
    assert "wait_for_copies<1>();" in lk.generate_code(knl, target=lk.CudaTarget(arch="sm_80")).source
    with pytest.raises(lk.PreconditionError, match="needs an asynchronous copy, which sm_75 does not have"):
        lk.generate_code(knl, target=lk.CudaTarget(arch="sm_75"))
    older = lk.library.batched_matmul(asynchronous=False)
    assert "copy_async" not in lk.generate_code(older, target=lk.CudaTarget(arch="sm_75")).source


@pytest.mark.parametrize(("size", "rows"), [(8, 8), (40, 8), (80, 8), (96, 16)])
def test_many_products_by_warps(size: int, rows: int) -> None:
    rng = np.random.default_rng(size)
    a, b = rng.uniform(-1, 1, (2, 3, size, size))
    knl = lk.library.batched_matmul(np.float64, size=size)
    np.testing.assert_allclose(knl(a=a, b=b).c, a @ b, atol=1e-13)
    source = lk.generate_code(knl, target="cuda").source
    assert f"mma_m{rows}n8k4_f64(acc" in source
    assert "copy_async<16>" in source
    assert lk.verify(knl, full=True).verdict is lk.Verdict.PROVEN


def test_products_that_are_no_boxes_do_without_matrix_instructions() -> None:
    make, f64 = lk.library.batched_matmul, np.float64
    for knl in (make(f64, size=12), make(f64, size=136), make(f64, size=64, mma=False), make(f64, steps=10),
                make(f64, warp=(64, 48)), make(size=64), lk.library.matmul(), lk.library.matmul(f64, mma=False)):
        assert "by=mma" not in knl.statements_text
    assert "by=mma.m16n8k4.f64" in lk.library.matmul(f64).statements_text
    with pytest.raises(lk.PreconditionError, match="Matrix instructions need float64, not float32"):
        make(mma=True)
    with pytest.raises(lk.PreconditionError, match="64 steps are not a multiple of 24"):
        make(f64, steps=24, mma=True)
