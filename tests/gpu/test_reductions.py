"""Reductions over threads on the GPU: what the host computes, bit for bit, since both combine in one order."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import loopkit as lk
from tests.lowering import test_bounds_from_memory as bounds_from_memory
from tests.lowering.test_bounds_from_memory import BODIES, LANES

EITHER = lk.ReductionOperation("either", "a + b + a*b", neutral=0, reorderable=True)


def kernel(operation: str, dtype: npt.DTypeLike) -> lk.LoopKernel:
    knl = lk.make_kernel("{[i,k]: 0<=i<n and 0<=k<m}", f"y[i] = {operation}(k, a[i,k])", reductions=[EITHER])
    return lk.add_dtypes(knl, {"a": dtype})


def require_same(knl: lk.LoopKernel, **arguments: np.ndarray) -> None:
    gpu, host = (lk.compile(knl, target=target)(**arguments).y for target in ("cuda", "c"))
    assert gpu.tobytes() == host.tobytes(), (gpu, host)


def drawn(seed: int, shape: tuple[int, int], dtype: npt.DTypeLike) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.uniform(-1, 1, shape)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    return (values + 1j*rng.uniform(-1, 1, shape) if np.dtype(dtype).kind == "c" else values).astype(dtype)


@pytest.mark.parametrize("lanes", [2, 3, 7, 8, 16, 24, 31, 32, 33, 48, 63, 64, 96, 100, 256, 500, 992, 1000, 1024])
def test_blocks_of_any_length(lanes: int) -> None:
    """Lanes that do not exist are read by nobody, and the last warp may be any part of one."""
    knl = lk.split_iname(lk.tag_inames(kernel("sum", np.float32), "i:g.0"), "k", lanes, inner_tag="l.0")
    for m in (1, lanes - 1, lanes, 5*lanes + 3):
        require_same(knl, a=drawn(lanes, (300, m), np.float32))


@pytest.mark.parametrize(("rows", "lanes"), [(4, 8), (128, 8), (16, 2), (512, 2), (3, 32), (32, 32), (2, 64), (5, 96),
                                             (2, 48), (85, 12)])
def test_several_rows_a_block(rows: int, lanes: int) -> None:
    knl = lk.split_iname(kernel("sum", np.float32), "i", rows, outer_tag="g.0", inner_tag="l.1")
    knl = lk.split_iname(knl, "k", lanes, inner_tag="l.0")
    for n in (1, rows, 7*rows + 1):
        require_same(knl, a=drawn(n, (n, 3*lanes + 1), np.float32))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.int8, np.uint16, np.int32,
                                   np.int64, np.uint64, np.complex64, np.complex128], ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("operation", ["sum", "min", "max"])
@pytest.mark.parametrize("lanes", [16, 96])
def test_every_dtype(dtype: npt.DTypeLike, operation: str, lanes: int) -> None:
    if operation != "sum" and np.dtype(dtype).kind == "c":
        operation = "sum"
    knl = lk.split_iname(lk.tag_inames(kernel(operation, dtype), "i:g.0"), "k", lanes, inner_tag="l.0")
    require_same(knl, a=drawn(lanes, (100, 4*lanes + 5), dtype))


def test_an_operation_of_ones_own() -> None:
    """Its product and sum may be one rounding on the GPU."""
    knl = lk.split_iname(lk.tag_inames(kernel("either", np.float64), "i:g.0"), "k", 160, inner_tag="l.0")
    a = drawn(3, (100, 1000), np.float64)/100
    np.testing.assert_allclose(lk.compile(knl, target="cuda")(a=a).y, lk.compile(knl, target="c")(a=a).y, rtol=1e-12)


def test_rows_that_are_done_take_part() -> None:
    """Loops whose bounds differ between the rows of one warp."""
    knl = lk.make_kernel("{[i,t,k]: 0<=i<n and 0<=t<=i and 0<=k<m}", "y[i,t] = sum(k, a[i,k])*t")
    knl = lk.split_iname(lk.add_dtypes(knl, {"a": np.float32}), "i", 4, outer_tag="g.0", inner_tag="l.1")
    knl = lk.split_iname(knl, "k", 8, inner_tag="l.0")
    a = drawn(4, (50, 33), np.float32)
    gpu, host = (lk.compile(knl, target=t)(a=a, y=np.zeros((50, 50), np.float32)).y for t in ("cuda", "c"))
    np.testing.assert_array_equal(gpu, host)


def test_one_reduction_behind_another_in_a_loop() -> None:
    """A block takes many rows, each with two reductions: no element of shared memory is overwritten too early."""
    knl = lk.make_kernel("{[i,j,k]: 0<=i<n and 0<=j,k<m}", """
        for i
            <> top = max(k, a[i,k])
            y[i] = sum(j, a[i,j] - top)
        end
        """)
    knl = lk.split_iname(lk.add_dtypes(knl, {"a": np.float32}), "i", 64, outer_tag="g.0")
    for x in "kj":
        knl = lk.split_iname(knl, x, 256, inner_tag="l.0")
    for _ in range(5):
        require_same(knl, a=drawn(5, (64*200, 300), np.float32))


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("name", BODIES)
def test_rows_between_bounds_from_memory(name: str, lanes: int) -> None:
    """Threads of a block share values in loops that have other bounds in each block."""
    plain = bounds_from_memory.kernel(BODIES[name], lanes)
    data = bounds_from_memory.inputs(plain, lanes)
    want = bounds_from_memory.expected(BODIES[name], data["x"])
    for tags in ("b:g.0, t:l.0, u:l.0", "t:l.0, u:l.0"):
        y = lk.compile(bounds_from_memory.mapped(plain, tags), target="cuda")(**data, nb=4).y
        assert np.array_equal(y, want)
