"""The ready pipelines against numpy, on the host, at ragged sizes; and what makes their texts fast."""
from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import loopkit as lk
from tests.golden_files import GoldenFiles
from tests.nvrtc import compile_cuda

pytestmark = pytest.mark.optimised

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

    @property
    def golden(self) -> str:
        """The golden file of its CUDA text."""
        return f"library/{self.name.replace(' ', '_')}.cu"

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


def _jacobi(sweeps: int) -> Callable[[Arrays], np.ndarray]:
    def swept(a: Arrays) -> np.ndarray:
        x = a["a"]
        for _ in range(sweeps):
            new = x.copy()
            new[1:-1, 1:-1] = x.dtype.type(0.25)*(x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
            x = new
        return x
    return swept


def _prefix(x: np.ndarray) -> np.ndarray:
    """Prefix sums of many terms, more exact than those in float64."""
    return x.cumsum(dtype=np.longdouble).astype(np.float64)


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
    Ready("transpose of odd rows", partial(L.transpose, rows=133), lambda n, m: {"a": (n, m)}, lambda a: a["a"].T,
          ((133, 1), (133, 200))),
    Ready("stencil_2d", L.stencil_2d, lambda n, m: {"a": (n, m)}, _stencil, ((3, 3), (18, 259), (40, 600))),
    Ready("stencil_2d of odd rows", partial(L.stencil_2d, columns=259), lambda n, m: {"a": (n, m)}, _stencil,
          ((3, 67), (18, 259))),
    Ready("stencil_3d", L.stencil_3d, lambda n, m, k: {"a": (n, m, k)}, _stencil,
          ((3, 3, 3), (18, 11, 35), (9, 33, 70))),
    Ready("stencil_3d of odd rows", partial(L.stencil_3d, columns=(11, 70)), lambda n, m, k: {"a": (n, m, k)}, _stencil,
          ((3, 3, 66), (18, 11, 70))),
    Ready("jacobi", L.jacobi, lambda n, m: {"a": (n, m)}, _jacobi(4), ((1, 1), (3, 5), (70, 130))),
    Ready("full_sum", L.full_sum, lambda n: {"x": (n,)}, lambda a: a["x"].sum(keepdims=True), (*LINES, (2_200_000,))),
    Ready("row_sum", L.row_sum, lambda n, m: {"x": (n, m)}, lambda a: a["x"].sum(axis=1), ROWS),
    Ready("row_sum of fixed rows", L.row_sum, lambda n, m: {"x": (n, m)}, lambda a: a["x"].sum(axis=1), ROWS,
          fixes=True),
    Ready("column_sum", L.column_sum, lambda n, m: {"x": (n, m)}, lambda a: a["x"].sum(axis=0),
          ((1, 1), (257, 33), (600, 5))),
    Ready("scan", L.scan, lambda n: {"x": (n,)}, lambda a: _prefix(a["x"]), ((1,), (8192,), (300_007,))),
    Ready("scan_in_launches", L.scan_in_launches, lambda n: {"x": (n,)}, lambda a: _prefix(a["x"]),
          ((1,), (1024,), (40_000,))),
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
    Ready("nbody", L.nbody, lambda n: dict.fromkeys("xyzq", (n,)), _nbody, ((1,), (64,), (257,))),
    Ready("nbody_direct", L.nbody_direct, lambda n: dict.fromkeys("xyzq", (n,)), _nbody, ((1,), (256,), (600,))),
)
each = pytest.mark.parametrize("ready", READY, ids=lambda r: r.name)


@pytest.mark.deep
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


@pytest.mark.deep(every=26)
@each
def test_is_proven_as_a_whole(ready: Ready) -> None:
    knl = ready.kernel(F32, ready.sizes[-1])
    assert lk.verify(knl).verdict is lk.Verdict.PROVEN
    assert not knl.obligations
    assert len(knl.history) <= 15


#: Those whose texts take longest.
SLOW = ("scan_in_launches", "scan", "row_scan", "row_scan of fixed rows", "nbody")


@pytest.mark.parametrize("ready", [
    pytest.param(r, marks=[pytest.mark.deep]*(r.name in SLOW)) for r in READY], ids=lambda r: r.name)
def test_golden_cuda(ready: Ready, golden: GoldenFiles) -> None:
    code = lk.generate_code(ready.kernel(F32, (1, 4096)), target=lk.CudaTarget())
    golden.check(ready.golden, code)


@each
@pytest.mark.deep(every=3)
def test_keeps_its_data_in_registers(ready: Ready, golden: GoldenFiles) -> None:
    source = (golden.directory / ready.golden).read_text()
    bounds = re.findall(r"__launch_bounds__\((\d+)(?:, (\d+))?\)\s+(\w+)", source)
    most = {name: 65536//int(blocks or 2)//int(threads) for threads, blocks, name in bounds}
    for name, kernel in compile_cuda(source).kernels.items():
        assert kernel.registers <= most[name]                           # two blocks at least fit, or what was asked for
        assert (kernel.spill_stores, kernel.stack) == (0, 0)


@pytest.mark.deep
@pytest.mark.parametrize("pieces", [False, True])
@pytest.mark.parametrize("lanes", [1, 4, 32])
def test_rows_of_a_sparse_matrix(lanes: int, pieces: bool) -> None:
    rng = np.random.default_rng(lanes)
    lengths = rng.integers(0, 40, 301)
    lengths[[0, 7, 299, 300]] = 0, 500, 129, 0
    rowptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    col = rng.integers(0, 99, rowptr[-1]).astype(np.int32)
    val, x = rng.uniform(-1, 1, rowptr[-1]).astype(F32), rng.uniform(-1, 1, 99).astype(F32)
    dense = np.zeros((301, 99))
    np.add.at(dense, (np.repeat(np.arange(301), lengths), col), val)
    knl = lk.library.csr_matvec(lanes=lanes, pieces=pieces)
    assert ("__shfl" in lk.generate_code(knl).source) == (lanes > 1 or pieces)
    for cut in ((1, 1), (33, 64), (500, 64)) if pieces else ((1, 1),):          # none is longer than 500
        others = lk.library.csr_pieces(rowptr, longest=cut[0], piece=cut[1]) if pieces else {}
        result = knl(rowptr=rowptr, col=col, val=val, x=x, **others).y
        np.testing.assert_allclose(result, dense @ x, atol=2e-5)


@given(lengths=st.lists(st.integers(0, 50), max_size=9), longest=st.integers(1, 60), piece=st.integers(1, 60),
       first=st.integers(0, 3))
@settings(deadline=None)
def test_pieces_are_the_long_rows(lengths: list[int], longest: int, piece: int, first: int) -> None:
    rowptr = first + np.concatenate([[0], np.cumsum(lengths, dtype=int)])
    cut = lk.library.csr_pieces(rowptr, longest=longest, piece=piece)
    start, stop, pieces = (np.asarray(cut[x]) for x in ("start", "stop", "pieces"))
    assert ((stop - start > 0) & (stop - start <= piece)).all()
    for i, length in enumerate(lengths):
        own = [k for p in range(pieces[i], pieces[i + 1]) for k in range(start[p], stop[p])]
        assert own == (list(range(rowptr[i], rowptr[i + 1])) if length > longest else [])
    assert (pieces[0], pieces[-1]) == (0, len(start))


@pytest.mark.parametrize(("rowptr", "message"), [
    ([], "one axis of integers"), ([[0, 1]], "one axis of integers"), ([0.0, 1.0], "one axis of integers"),
    ([0, 5, 3], "do not decrease"), ([-1, 3], "the range of int32"), ([0, 1 << 31], "the range of int32")])
def test_what_are_no_beginnings_of_rows(rowptr: Any, message: str) -> None:
    with pytest.raises(lk.PreconditionError, match=message):
        lk.library.csr_pieces(rowptr)
    for bad in ({"longest": 0}, {"piece": 0}):
        with pytest.raises(lk.PreconditionError, match="must be a positive integer"):
            lk.library.csr_pieces([0, 1], **bad)


@pytest.mark.deep(every=6)
@pytest.mark.parametrize(("row_length", "lanes", "items"), [
    (None, 8, 4), (0.5, 1, 2), (5, 1, 8), (8, 4, 2), (31, 16, 2), (32, 16, 2), (1e6, 32, 8)])
def test_lanes_follow_from_the_length_of_rows(row_length: float | None, lanes: int, items: int) -> None:
    source = lk.generate_code(lk.library.csr_matvec(row_length=row_length)).source
    assert ("__shfl" in source) == (lanes > 1)
    if lanes > 1:
        assert f"__shfl_xor_sync(0xffffffff, acc_k_warp, {lanes//2})" in source
    assert f"; {'k_item' if lanes > 1 else 'k_inner'} < {items};" in source


@pytest.mark.deep(every=3)
@pytest.mark.parametrize(("dtype", "bins", "options"), [
    (np.uint8, 256, {}), (np.uint8, 100, {"blocks": 3, "items": 1}), (np.int8, 50, {"blocks": 2, "threads": 32}),
    (np.uint16, 3000, {"blocks": 5}), (np.int32, 100, {"copies": 4}), (np.int64, 7, {"blocks": 2, "threads": 64})])
def test_counts_of_integers(dtype: Any, bins: int, options: dict[str, int]) -> None:
    """Values outside of the bins are left out, and vectors are loaded all the same."""
    knl = lk.library.histogram(dtype, bins=bins, **options)
    info = np.iinfo(dtype)
    for n in (1, 4099, 70_000):
        low, high = max(info.min, -20), min(info.max, bins + 20)
        x = np.random.default_rng(n).integers(low, high, n, endpoint=True).astype(dtype)
        counts = lk.compile(knl, target="c")(x=x).counts
        assert (counts == np.bincount(x[(x >= 0) & (x < bins)], minlength=bins)).all()
    assert {c.verdict for c in lk.verify(knl).checks if c.name != "bounds"} == {lk.Verdict.PROVEN}
    source = lk.generate_code(knl).source
    assert "atomicAdd(&part[" in source
    assert "alignas(16)" in source
    assert max(kernel.spill_stores for kernel in compile_cuda(source).kernels.values()) == 0


@pytest.mark.deep
def test_a_histogram_loads_vectors_to_the_end() -> None:
    """And neighbours update neighbouring bins."""
    source = lk.generate_code(lk.library.histogram()).source
    assert len(re.findall(r"atomicAdd\(&part\[\(int\)x\[", source)) == 1                 # those after the last vector
    assert "atomicAdd(&counts[32*l_warp + l_lane], total[32*l_warp + l_lane]);" in source


def test_histograms_that_cannot_be() -> None:
    with pytest.raises(lk.PreconditionError, match="counts integers, not float32"):
        lk.library.histogram(np.float32)
    for wrong in ({"copies": 3}, {"threads": 100}):
        with pytest.raises(lk.PreconditionError, match="do not form whole warps"):
            lk.library.histogram(**wrong)


@pytest.mark.deep
@pytest.mark.parametrize("make", [
    lambda: L.nbody(bodies=3, warps=2, unroll=1), lambda: L.nbody(bodies=4, warps=1, unroll=3),
    lambda: L.nbody_direct(threads=64, bodies=3, lanes=16, unroll=2, tile=64, parts=3)])
def test_bodies_of_any_number(make: Callable[[], lk.LoopKernel]) -> None:
    knl = make()
    assert lk.verify(knl).verdict is lk.Verdict.PROVEN
    for n in (1, 31, 97, 200):
        data = {c: np.random.default_rng(n).uniform(-1, 1, n) for c in "xyzq"}
        result = lk.compile(knl, target="c")(**{c: v.astype(F32) for c, v in data.items()}).phi
        np.testing.assert_allclose(result, _nbody(data), rtol=0, atol=2e-5*abs(_nbody(data)).max())


@pytest.mark.parametrize("make", [
    lambda: L.nbody(bodies=0), lambda: L.nbody(warps=0), lambda: L.nbody(unroll=-1), lambda: L.nbody_direct(parts=0)])
def test_bodies_that_cannot_be(make: Callable[[], lk.LoopKernel]) -> None:
    with pytest.raises(lk.PreconditionError, match="must be a positive integer"):
        make()


@pytest.mark.deep
def test_one_root_serves_two_bodies() -> None:
    """In the loop over those after the tile nothing is asked, and what the pairs add comes together in registers."""
    source = lk.generate_code(L.nbody()).source
    loop = source[source.index("for (int j_outer ="):].partition("\n        }\n")[0]
    assert "if (" not in loop
    assert loop.count("rsqrt") == loop.count("atomicAdd") == 1
    assert loop.count("+= ") == 2
    assert loop.count("float4") == 2
    assert "atomicAdd" not in lk.generate_code(L.nbody_direct()).source         # one order, the same bits


@pytest.mark.deep
@pytest.mark.parametrize("sweeps", [1, 2, 3])
def test_sweeps_at_once_are_single_sweeps_to_the_last_bit(sweeps: int) -> None:
    compiled = lk.compile(lk.library.jacobi(sweeps=sweeps, rows=4, threads=(16, 4)), target="c")
    for size in ((1, 1), (2, 7), (3, 3), (8, 8), (9, 23), (40, 33)):
        a = np.random.default_rng(sweeps).uniform(-1, 1, size).astype(F32)
        np.testing.assert_array_equal(compiled(a=a).out, _jacobi(sweeps)({"a": a}))


def test_sweeps_leave_something_of_a_tile() -> None:
    with pytest.raises(lk.PreconditionError, match="33 sweeps leave no points of a tile of 64 by 64"):
        lk.library.jacobi(sweeps=33)
    with pytest.raises(lk.PreconditionError, match="must be a positive integer, not 0"):
        lk.library.jacobi(sweeps=0)


def test_a_length_of_rows_may_be_any() -> None:
    x = np.random.default_rng(0).uniform(-1, 1, (6, 7)).astype(F32)
    for options in ({"threads": 64}, {"threads": 4, "rows": 4}, {"columns": None, "threads": 8, "rows": 4}):
        result = lk.library.softmax(**{"columns": 7, **options})(x=x).y
        np.testing.assert_allclose(result, _softmax({"x": x}), rtol=1e-6)
    with pytest.raises(lk.PreconditionError, match="columns must be a positive integer"):
        lk.library.softmax(columns=0)


@pytest.mark.deep(every=10)
@pytest.mark.parametrize(("columns", "block"), [
    (7, (2, 64, 1)), (16, (4, 32, 1)), (44, (8, 16, 1)), (64, (16, 8, 1)), (101, (16, 8, 1)), (256, (32, 4, 1)),
    (300, (32, 4, 1)), (512, (64, 1, 1)), (2048, (256, 1, 1)), (4097, (128, 1, 1))])
def test_short_rows_share_a_block(columns: int, block: tuple[int, int, int]) -> None:
    """A multiprocessor takes 32 blocks: blocks of one warp would leave half of it idle."""
    code = lk.generate_code(lk.library.layer_norm(columns=columns))
    assert code.kernels[0].block == block
    assert ("__syncthreads" in code.source) == (block[0] > 32)


def test_a_row_of_another_length_is_refused() -> None:
    for length in (6, 8):
        with pytest.raises(lk.CallError, match="x"):
            lk.library.softmax(columns=7)(x=np.zeros((2, length), F32))


@pytest.mark.deep(every=6)
@pytest.mark.parametrize(("dtype", "columns", "back"), [
    (F32, 4097, "- i % 32"), (F32, 2050, "- 2*i % 32"), (F32, 1001, "- i % 4"), (np.float64, 1001, "- 9*i % 16"),
    (np.float16, 4100, "- 4*i % 64"), (F32, 4100, "- 4*(i % 8)"), (F32, 1024, None)])
def test_threads_begin_where_a_line_of_the_cache_does(dtype: Any, columns: int, back: str | None) -> None:
    """Rows may begin elsewhere. If that takes a thread one more load, threads begin at an aligned vector."""
    knl = lk.library.softmax(dtype, columns=columns)
    source = lk.generate_code(knl).source
    assert (f"{back}]" in source) if back else not re.search(r"x\[.*%", source)
    x = np.random.default_rng(columns).uniform(-1, 1, (35, columns)).astype(dtype)
    rtol = 1e-2 if dtype is np.float16 else 1e-5
    np.testing.assert_allclose(lk.compile(knl, target="c")(x=x).y, _softmax({"x": x.astype(np.float64)}), rtol=rtol)


@pytest.mark.deep(every=19)
@pytest.mark.parametrize("dtype", [F32, np.float64, np.float16, np.int32])
@pytest.mark.parametrize("columns", [7, 101, 1000, 1030, 1163])
def test_rows_of_any_length_are_scanned_in_vectors(dtype: Any, columns: int) -> None:
    """A block has whole warps, and its text no element by element but at the ends of rows."""
    knl = lk.library.row_scan(dtype, columns=columns)
    code = lk.generate_code(knl)
    assert code.source.count("*reinterpret_cast<") >= 2
    assert code.kernels[0].block[0] % 32 == 0
    x = np.random.default_rng(columns).integers(-3, 4, (9, columns)).astype(dtype)
    np.testing.assert_array_equal(lk.compile(knl, target="c")(x=x).y, x.cumsum(axis=1))


@pytest.mark.deep
@pytest.mark.parametrize(("make", "dtype", "columns"), [
    (L.softmax, np.float64, 100), (L.layer_norm, F32, 777), (L.layer_norm, F32, 4097), (L.layer_norm, F32, 5000),
    (L.softmax, F32, 12211), (L.layer_norm, F32, 12211)])
def test_rows_of_any_length_stay_in_registers(make: Callable[..., lk.LoopKernel], dtype: Any, columns: int) -> None:
    [kernel] = compile_cuda(lk.generate_code(make(dtype, columns=columns)).source).kernels.values()
    assert (kernel.spill_stores, kernel.stack) == (0, 0)


def test_a_dtype_that_kernels_do_not_have() -> None:
    with pytest.raises(lk.PreconditionError, match=r"^An array cannot have the dtype 'float7'"):
        lk.library.copy("float7")


@pytest.mark.deep(every=5)
@pytest.mark.parametrize("tile", [(32, 32, 4), (64, 128, 16), (64, 64, 3)], ids=str)
@pytest.mark.parametrize("rows", [70, 300])
def test_tiles_of_a_product_are_parameters(tile: tuple[int, int, int], rows: int) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.uniform(-1, 1, (rows, 37)).astype(F32), rng.uniform(-1, 1, (37, 130)).astype(F32)
    result = lk.library.matmul(tile=tile, warp=(32, 16), group=3)(a=a, b=b).c        # groups are ragged too
    np.testing.assert_allclose(result, a @ b, atol=1e-5)


@pytest.mark.parametrize("stages", [0, 1, 2])
def test_neighbours_load_a_strip_along_its_rows(stages: int) -> None:
    source = lk.generate_code(lk.library.matmul(stages=stages), target="cuda").source
    assert re.search(r"int a_k_vec = .* % 4;", source)
    assert re.search(r"int b_j_vec = .* % 32;", source)


def test_a_tile_has_a_whole_number_of_parts() -> None:
    with pytest.raises(lk.PreconditionError, match="100 rows are not a multiple of 64"):
        lk.library.matmul(tile=(100, 128, 8))
    with pytest.raises(lk.PreconditionError, match="not a multiple of 16"):
        lk.library.batched_matmul(warp=(32, 24))


def test_a_strip_of_one_step_is_no_strip() -> None:
    for make in (lk.library.matmul, lk.library.batched_matmul):
        with pytest.raises(lk.PreconditionError):
            make(tile=(64, 64, 1)) if make is lk.library.matmul else make(steps=1)
    for tile in ((1, 64, 8), (64, 1, 8), (64, 64, 0)):
        with pytest.raises(lk.PreconditionError, match="fewer than two rows or columns"):
            lk.library.matmul(tile=tile)


def test_vectors_of_rows_are_the_last_that_caches_give_up() -> None:
    for columns in (1000, 2050, 4097):
        source = lk.generate_code(lk.library.softmax(columns=columns)).source
        assert "load_evict_last(reinterpret_cast<const float4" in source


def test_blocks_that_follow_each_other_write_the_same_rows() -> None:
    source = lk.generate_code(lk.library.transpose()).source
    assert "const int i_outer = blockIdx.x;" in source                                    # along rows of b


@pytest.mark.deep(every=2)
@pytest.mark.parametrize(("dtype", "sector"), [(np.int8, 0), (np.float16, 16), (np.float32, 8), (np.float64, 4)])
def test_pieces_of_rows_begin_with_sectors_of_memory(dtype: Any, sector: int) -> None:
    for rows in (75, 64):                                                                      # 75 is odd, 64 is whole
        knl = lk.library.transpose(dtype, rows=rows, tile=(32, 64), threads=(32, 4))
        a = np.arange(rows*70).reshape(rows, 70).astype(dtype)
        np.testing.assert_array_equal(knl(a=a).b, a.T)
        source = lk.generate_code(knl, target="cuda").source
        assert (f"j_inner_inner) % {sector}" in source) == (rows == 75 and sector > 0)
        for other in (rows - 1, rows + 1):
            with pytest.raises(lk.CallError, match=f"'a' is .* must have {rows}"):
                knl(a=a[np.arange(other) % rows])
        # full tiles are loaded without a condition
        loads = source.split("a full tile")[1].split("__syncthreads")[0]
        assert "if (" not in loads


@pytest.mark.deep
def test_the_tile_of_a_transposition_is_a_parameter() -> None:
    a = np.arange(70*45, dtype=np.float64).reshape(70, 45)
    for tile, shared in ((32, "double a_fetch[32][33];"), ((64, 16), "double a_fetch[64][17];")):
        knl = lk.library.transpose(np.float64, tile=tile, threads=(16, 8))
        assert shared in lk.generate_code(knl).source
        np.testing.assert_array_equal(knl(a=a).b, a.T)


@pytest.mark.deep
def test_products_of_a_matmul_stand_once_and_have_no_condition() -> None:
    text = str(lk.generate_code(L.matmul(), target="cuda"))
    sums = text.split("acc_k[i_reg][i_item][j_reg][j_item] +=")
    assert len(sums) == 2
    assert sums[0].splitlines()[-2].strip() == "// insn.k.update"
    assert "if (" not in sums[0].rsplit("for (int k_inner", maxsplit=1)[1]
    assert "?" not in sums[1].split(";", maxsplit=1)[0]


@pytest.mark.deep(every=2)
@pytest.mark.parametrize(("columns", "moved"), [
    (None, "float4"), (40, "float4"), (42, "float2"), (43, None), (69, "float4"), (71, "float4")])
def test_rows_of_stencils_are_moved_in_the_vectors_they_have(columns: int | None, moved: str | None) -> None:
    a_plane: Any = columns if columns is None or columns < 64 else (7, columns)
    for knl in (lk.library.stencil_2d(columns=columns), lk.library.stencil_3d(columns=a_plane)):
        found = set(re.findall(r"reinterpret_cast<(float\d)", lk.generate_code(knl).source))
        assert found == ({moved} if moved else set())
