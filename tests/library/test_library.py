"""The ready pipelines against numpy, on the host, at ragged sizes; and what makes their texts fast."""
from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from tests.nvrtc import compile_cuda

Arrays = dict[str, Any]
F32 = np.float32


@dataclass(frozen=True)
class Ready:
    """A pipeline, the shapes of its inputs for some sizes, and numpy's answer.

    :ivar make: from a dtype (and the sizes, for what fixes one) to the kernel.
    """

    name: str
    make: Callable[..., lk.LoopKernel]
    shapes: Callable[..., Mapping[str, tuple[int, ...]]]
    expected: Callable[[Arrays], np.ndarray]
    sizes: tuple[tuple[int, ...], ...]
    scalars: Mapping[str, float] = field(default_factory=dict)
    fixes: bool = False

    def kernel(self, dtype: Any, size: tuple[int, ...]) -> lk.LoopKernel:
        return self.make(dtype, columns=size[1]) if self.fixes else self.make(dtype)

    def data(self, dtype: Any, size: tuple[int, ...]) -> Arrays:
        rng = np.random.default_rng(sum(size))
        return {**{x: rng.uniform(-1, 1, shape).astype(dtype) for x, shape in self.shapes(*size).items()},
                **self.scalars}


def _softmax(a: Arrays) -> np.ndarray:
    e = np.exp(a["x"] - a["x"].max(axis=1, keepdims=True))
    return e/e.sum(axis=1, keepdims=True)


def _layer_norm(a: Arrays) -> np.ndarray:
    x = a["x"]
    return (x - x.mean(1, keepdims=True))/np.sqrt(x.var(1, keepdims=True) + 1e-5)*a["weight"] + a["bias"]


def _stencil(a: Arrays) -> np.ndarray:
    x = a["a"]
    inner = (slice(1, -1),)*x.ndim
    out = np.zeros_like(x)
    out[inner] = -2*x.ndim*x[inner]
    for axis in range(x.ndim):
        for shifted in (slice(None, -2), slice(2, None)):
            out[inner] += x[tuple(shifted if k == axis else s for k, s in enumerate(inner))]
    return out


def _nbody(a: Arrays) -> np.ndarray:
    distance = sum((a[c][None, :] - a[c][:, None])**2 for c in "xyz")
    return (a["q"]/np.sqrt(distance + 0.01)).sum(axis=1)


L = lk.library
LINES = ((1,), (255,), (1024,), (2500,))
ROWS = ((1, 1), (5, 33), (3, 256), (2, 1000), (4, 1025))
READY = (
    Ready("copy", L.copy, lambda n: {"x": (n,)}, lambda a: a["x"], LINES),
    Ready("axpy", L.axpy, lambda n: {"x": (n,), "y": (n,)}, lambda a: a["alpha"]*a["x"] + a["y"], LINES,
          {"alpha": 2.5}),
    Ready("add", L.add, lambda n: {"x": (n,), "y": (n,)}, lambda a: a["x"] + a["y"], LINES),
    Ready("transpose", L.transpose, lambda n, m: {"a": (n, m)}, lambda a: a["a"].T,
          ((1, 1), (64, 64), (65, 63), (130, 200))),
    Ready("stencil_2d", L.stencil_2d, lambda n, m: {"a": (n, m)}, _stencil, ((3, 3), (18, 259), (40, 600))),
    Ready("stencil_3d", L.stencil_3d, lambda n, m, k: {"a": (n, m, k)}, _stencil,
          ((3, 3, 3), (18, 11, 35), (9, 33, 70))),
    Ready("full_sum", L.full_sum, lambda n: {"x": (n,)}, lambda a: a["x"].sum(keepdims=True), (*LINES, (2_200_000,))),
    Ready("row_sum", L.row_sum, lambda n, m: {"x": (n, m)}, lambda a: a["x"].sum(axis=1), ROWS),
    Ready("row_sum of fixed rows", L.row_sum, lambda n, m: {"x": (n, m)}, lambda a: a["x"].sum(axis=1), ROWS,
          fixes=True),
    Ready("column_sum", L.column_sum, lambda n, m: {"x": (n, m)}, lambda a: a["x"].sum(axis=0),
          ((1, 1), (257, 33), (600, 5))),
    Ready("scan", L.scan, lambda n: {"x": (n,)}, lambda a: a["x"].cumsum(), ((1,), (1024,), (40_000,))),
    Ready("row_scan", L.row_scan, lambda n, m: {"x": (n, m)}, lambda a: a["x"].cumsum(axis=1), ROWS),
    Ready("row_scan of fixed rows", L.row_scan, lambda n, m: {"x": (n, m)}, lambda a: a["x"].cumsum(axis=1), ROWS,
          fixes=True),
    Ready("softmax", L.softmax, lambda n, m: {"x": (n, m)}, _softmax, ROWS),
    Ready("softmax of fixed rows", L.softmax, lambda n, m: {"x": (n, m)}, _softmax, ROWS, fixes=True),
    Ready("layer_norm", L.layer_norm, lambda n, m: {"x": (n, m), "weight": (m,), "bias": (m,)}, _layer_norm, ROWS),
    Ready("layer_norm of fixed rows", L.layer_norm, lambda n, m: {"x": (n, m), "weight": (m,), "bias": (m,)},
          _layer_norm, ROWS, fixes=True),
    Ready("matmul", L.matmul, lambda n, m, k: {"a": (n, k), "b": (k, m)}, lambda a: a["a"] @ a["b"],
          ((1, 1, 1), (128, 128, 8), (131, 70, 29), (40, 260, 16))),
    Ready("batched_matmul", L.batched_matmul, lambda n: {"a": (n, 64, 64), "b": (n, 64, 64)},
          lambda a: a["a"] @ a["b"], ((1,), (5,))),
    Ready("nbody", L.nbody, lambda n: dict.fromkeys("xyzq", (n,)), _nbody, ((1,), (256,), (600,))),
)
each = pytest.mark.parametrize("ready", READY, ids=lambda r: r.name)


@each
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda t: t.__name__)
def test_agrees_with_numpy(ready: Ready, dtype: Any) -> None:
    for size in ready.sizes:
        data = ready.data(dtype, size)
        wide = {x: v.astype(np.float64) if isinstance(v, np.ndarray) else v for x, v in data.items()}
        [result] = lk.compile(ready.kernel(dtype, size), target="c")(**data)
        assert result.dtype == dtype
        expected = ready.expected(wide)
        scale = max(abs(expected).max(), np.sqrt(max(np.prod(size), 1)) if "sum" in ready.name else 1)
        np.testing.assert_allclose(result, expected, rtol=0, atol=64*np.finfo(dtype).eps*scale)


@each
def test_is_proven_as_a_whole(ready: Ready) -> None:
    knl = ready.kernel(F32, ready.sizes[-1])
    assert lk.verify(knl).verdict is lk.Verdict.PROVEN
    assert not knl.obligations
    assert len(knl.history) <= 15


@each
def test_keeps_its_data_in_registers(ready: Ready) -> None:
    code = lk.generate_code(ready.kernel(F32, ready.sizes[-1]), target="cuda")
    threads = {name: int(count) for count, name in re.findall(r"__launch_bounds__\((\d+)[^)]*\)\s+(\w+)", code.source)}
    for name, kernel in compile_cuda(code.source).kernels.items():
        assert kernel.registers*threads[name] <= 65536//2              # two blocks at least fit
        assert (kernel.spill_stores, kernel.stack) == (0, 0)


@pytest.mark.parametrize("lanes", [1, 4, 8, 32])
def test_rows_of_a_sparse_matrix(lanes: int) -> None:
    rng = np.random.default_rng(lanes)
    lengths = rng.integers(0, 40, 301)
    lengths[[0, 7, 300]] = 0, 500, 0
    rowptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    col = rng.integers(0, 99, rowptr[-1]).astype(np.int32)
    val, x = rng.uniform(-1, 1, rowptr[-1]).astype(F32), rng.uniform(-1, 1, 99).astype(F32)
    dense = np.zeros((301, 99))
    np.add.at(dense, (np.repeat(np.arange(301), lengths), col), val)
    result = lk.library.csr_matvec(lanes=lanes)(rowptr=rowptr, col=col, val=val, x=x).y
    np.testing.assert_allclose(result, dense @ x, atol=2e-5)


@pytest.mark.parametrize(("row_length", "lanes"), [(None, 8), (0.5, 1), (5, 1), (8, 4), (31, 8), (32, 16), (1e6, 32)])
def test_lanes_follow_from_the_length_of_rows(row_length: float | None, lanes: int) -> None:
    source = lk.generate_code(lk.library.csr_matvec(row_length=row_length)).source
    assert ("__shfl" in source) == (lanes > 1)
    if lanes > 1:
        assert f"__shfl_down_sync(0xffffffff, acc_k_warp, {lanes//2})" in source


@pytest.mark.parametrize("size", [3, 10, 33])
def test_many_products_of_any_size(size: int) -> None:
    rng = np.random.default_rng(size)
    a, b = rng.uniform(-1, 1, (2, 3, size, size))
    result = lk.library.batched_matmul(np.float64, size=size, steps=4, threads=(8, 8))(a=a, b=b).c
    np.testing.assert_allclose(result, a @ b, atol=1e-13)


def test_a_length_of_rows_may_be_any() -> None:
    x = np.random.default_rng(0).uniform(-1, 1, (2, 7)).astype(F32)
    for threads in (32, 64):
        result = lk.library.softmax(columns=7, threads=threads)(x=x).y
        np.testing.assert_allclose(result, _softmax({"x": x}), rtol=1e-6)
    with pytest.raises(lk.PreconditionError, match="columns must be a positive integer"):
        lk.library.softmax(columns=0)


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(lk.CallError, match="x"):
        lk.library.softmax(columns=7)(x=np.zeros((2, 6), F32))


def test_a_dtype_that_kernels_do_not_have() -> None:
    with pytest.raises(lk.PreconditionError, match="no dtype"):
        lk.library.copy("float7")


@pytest.mark.parametrize("tile", [(32, 32, 4), (64, 128, 16), (64, 64, 3)], ids=str)
def test_tiles_of_a_product_are_parameters(tile: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.uniform(-1, 1, (70, 37)).astype(F32), rng.uniform(-1, 1, (37, 130)).astype(F32)
    result = lk.library.matmul(tile=tile, threads=(8, 8))(a=a, b=b).c
    np.testing.assert_allclose(result, a @ b, atol=1e-5)


def test_a_strip_of_one_step_is_no_strip() -> None:
    for make in (lk.library.matmul, lk.library.batched_matmul):
        with pytest.raises(lk.PreconditionError):
            make(tile=(64, 64, 1)) if make is lk.library.matmul else make(steps=1)
    for tile in ((1, 64, 8), (64, 1, 8), (64, 64, 0)):
        with pytest.raises(lk.PreconditionError, match="less than two rows or columns"):
            lk.library.matmul(tile=tile)


def test_the_tile_of_a_transposition_is_a_parameter() -> None:
    a = np.arange(70*45, dtype=np.float64).reshape(70, 45)
    knl = lk.library.transpose(np.float64, tile=32, threads=(32, 8))
    assert "double a_fetch[32][33];" in lk.generate_code(knl).source
    np.testing.assert_array_equal(knl(a=a).b, a.T)
