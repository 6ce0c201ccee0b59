"""The rows that are measured, and what belongs to them: sizes that are drawn, references, sparse matrices."""
from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import gpu_cub
import gpu_peers as peers
import numpy as np
from gpu_row import Goal, Relaxed, Row, Size, loopkit

# Sizes


def _lines(r: random.Random) -> Size:
    return (r.randrange(1 << 27, 1 << 29),)


def _squares(r: random.Random) -> Size:
    return (r.randrange(8000, 20000), r.randrange(8000, 20000))


def _cubes(r: random.Random) -> Size:
    return (r.randrange(400, 900), r.randrange(400, 900), r.randrange(400, 900))


def _rows(r: random.Random) -> Size:
    columns = r.randrange(256, 16385)
    return ((1 << 28)//columns, columns)


def _products(r: random.Random) -> Size:
    return (r.randrange(2000, 8000), r.randrange(2000, 8000), r.randrange(2000, 8000))


def of_width(size: Size, width: int = 4) -> float:
    return float(np.prod(size, dtype=np.float64))*width


def _batches(r: random.Random) -> Size:
    return (r.randrange(50_000, 150_000), 64)


def _sparse(r: random.Random) -> Size:
    return (r.randrange(1 << 19, 1 << 21), r.randrange(1 << 19, 1 << 21))


def _bodies(r: random.Random) -> Size:
    return (r.randrange(50_000, 150_000),)

# References


def laplacian(xp: Any, a: Any) -> Any:
    """The Laplacian at the inner points; the others are not written."""
    inner = (slice(1, -1),)*a.ndim
    result = -2.0*a.ndim*a[inner]
    for axis in range(a.ndim):
        for neighbour in (slice(None, -2), slice(2, None)):
            result = result + a[tuple(neighbour if k == axis else s for k, s in enumerate(inner))]
    return result


def inner_part(out: Any) -> Any:
    return out[(slice(1, -1),)*out.ndim]


def relaxed(xp: Any, p: Any) -> Any:
    x = p.a
    for _ in range(peers.SWEEPS):
        new = x + 0
        new[1:-1, 1:-1] = (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])/4
        x = new
    return x


def softmax(xp: Any, p: Any) -> Any:
    e = xp.exp(p.x - xp.amax(p.x, 1)[:, None])
    return e/e.sum(1)[:, None]


def layer_norm(xp: Any, p: Any) -> Any:
    d = p.x - p.x.mean(1)[:, None]
    return d/xp.sqrt((d*d).mean(1) + 1e-5)[:, None]*p.weight + p.bias


def potential(xp: Any, p: Any) -> Any:
    """At the first bodies, which are enough to compare."""
    distance = sum((c[None, :] - c[:CHECKED_BODIES, None])**2 for c in (p.x, p.y, p.z))
    return (p.q/xp.sqrt(distance + 0.01)).sum(1)


CHECKED_BODIES = 256


def sparse_product(xp: Any, p: Any) -> Any:
    lengths = p.rowptr[1:] - p.rowptr[:-1]
    terms = p.val*p.x[p.col]
    if xp is np:
        return np.bincount(np.repeat(np.arange(len(lengths)), lengths), terms, len(lengths))
    places = xp.repeat_interleave(xp.arange(len(lengths), device=terms.device), lengths.long())
    return xp.zeros(len(lengths), dtype=terms.dtype, device=terms.device).index_add_(0, places, terms)


def histogram(xp: Any, p: Any) -> Any:
    return xp.bincount(p.x, minlength=p.size[1])

# Sparse matrices: how many elements each row has, and in which columns

#: Rows of more elements are cut, where they are.
LONGEST = 64


@lru_cache(maxsize=4)
def pattern(name: str, n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    """``rowptr`` and ``col`` of a matrix of *n* rows and *m* columns."""
    rng = np.random.default_rng([n, m])
    match name:
        case "band":                                      # five diagonals, as of a grid
            lengths = np.full(n, 5)
        case "random":
            lengths = rng.integers(16, 48, n)
        case _:                                           # few rows have most elements
            lengths = np.minimum(2 + rng.pareto(1.2, n)*6, 20_000).astype(np.int64)
    rowptr = np.concatenate([[0], np.cumsum(lengths)])
    if name == "band":
        width = max(int(n**0.5), 1)
        offsets = np.array([-width, -1, 0, 1, width])
        col = np.clip(np.arange(n)[:, None]*m//n + offsets, 0, m - 1).reshape(-1)
    else:
        col = rng.integers(0, m, rowptr[-1])
    return rowptr.astype(np.int32), col.astype(np.int32)

# Rows of one kind

COPY = Goal("peer", 0.98, 1.0, ("torch", "Triton"))


def _elementwise(name: str, inputs: str, output: str, make: str, reference: Callable[[Any, Any], Any],
                 flops: int, others: Mapping[str, peers.Peer], even: Size, scalars: Mapping[str, float]) -> Row:
    import loopkit as lk
    function = getattr(lk.library, make)
    return Row(
        name, [even], (even[0] - 4099,), _lines, [(5000,)],
        lambda s: dict.fromkeys(inputs, s), lambda s: {output: s}, reference,
        lambda s: of_width(s)*(len(inputs) + 1), lambda s: of_width(s, flops), others, [COPY],
        {"loopkit": loopkit(function), "items=1": loopkit(function, items=1), "items=8": loopkit(function, items=8),
         "threads=512": loopkit(function, threads=512)}, scalars)


def _stencil(name: str, even: Size, draw: Callable[[random.Random], Size], small: Size, flops: int,
             variants: Mapping[str, Callable[[Size], Any]]) -> Row:
    return Row(
        name, [even], tuple(e - 5 - 2*k for k, e in enumerate(even)), draw, [small],
        lambda s: {"a": s}, lambda s: {"out": s}, lambda xp, p: laplacian(xp, p.a),
        lambda s: of_width(s)*2, lambda s: of_width(s, flops),
        {"torch.compile": getattr(peers, f"inductor_{name}"), "Triton": peers.triton_peer(name)},
        [Goal("copy", 0.90, 0.94)], variants, compared=inner_part)


def _by_rows(name: str, inputs: Callable[[Size], Mapping[str, Size]], reference: Callable[[Any, Any], Any], flops: int,
             others: Mapping[str, peers.Peer]) -> Row:
    import loopkit as lk
    make = getattr(lk.library, name)

    def fixed(threads: int | None) -> Callable[[Size], Any]:
        return lambda s: make(np.float32, columns=s[1], threads=threads)
    return Row(
        name, [((1 << 28)//m, m) for m in (4096, 256, 512, 1024, 2048, 8192, 16384)], (65537, 4093), _rows, [(7, 300)],
        inputs, lambda s: {"y": s}, reference, lambda s: of_width(s)*2, lambda s: of_width(s, flops), others,
        [Goal("peer", 1.0, 1.02, ("Triton", "torch.compile")), Goal("copy", 0.96, 0.99)],
        {"loopkit": fixed(None), "any length": lambda s: make(np.float32), "threads=128": fixed(128),
         "threads=256": fixed(256), "threads=512": fixed(512), "threads=1024": fixed(1024)})


def _batched(dtype: str) -> Row:
    import loopkit as lk
    width = np.dtype(dtype).itemsize

    def of(**options: Any) -> Callable[[Size], Any]:
        return lambda s: lk.library.batched_matmul(dtype, size=s[1], **options)
    return Row(
        f"batched_{dtype}", [(100_000, 64)], (99_991, 64), _batches, [(7, 64)],
        lambda s: {"a": (*s, s[1]), "b": (*s, s[1])}, lambda s: {"c": (*s, s[1])}, lambda xp, p: p.a @ p.b,
        lambda s: 3.0*width*s[0]*s[1]**2, lambda s: 2.0*s[0]*s[1]**3, {"cuBLAS": peers.torch_bmm},
        [Goal("peer", 1.0, 1.3, ("cuBLAS",))],
        {"loopkit": of(), "registers": of(asynchronous=False), "stages=0": of(stages=0), "steps=8": of(steps=8),
         "warps of 32x64": of(warp=(32, 64)),
         "of 32x32": of(warp=(32, 32)), "of 32x16": of(warp=(32, 16))},
        dtype=dtype, tolerance=1e-12 if width == 8 else 2e-6)


def _csr(name: str, size: Size, draw: Callable[[random.Random], Size], pieces: bool = False) -> Row:
    """:arg pieces: long rows are cut; what says where is made once a matrix, and is not measured."""
    import loopkit as lk

    def of(lanes: int | None = None) -> Callable[[Size], Any]:
        return lambda s: lk.library.csr_matvec(lanes=lanes, row_length=None if pieces else elements(s)/s[0],
                                               pieces=pieces)

    def elements(s: Size) -> int:
        return int(pattern(name, *s)[0][-1])

    def inputs(s: Size) -> Mapping[str, Any]:
        rowptr, col = pattern(name, *s)
        cut = lk.library.csr_pieces(rowptr, longest=LONGEST) if pieces else {}
        arrays = {"rowptr": rowptr, "col": col, **{x: v for x, v in cut.items() if isinstance(v, np.ndarray)}}
        return {**{x: lambda machine, v=v: machine.integers(v) for x, v in arrays.items()},
                "val": (len(col),), "x": (s[1],)}
    return Row(
        f"csr_{name}", [size], (size[0] - 4099, size[1] - 77), draw, [(300, 200)], inputs, lambda s: {"y": s[:1]},
        sparse_product, lambda s: 8.0*elements(s) + 8.0*s[0] + 4.0*s[1], lambda s: 2.0*elements(s),
        {"cuSPARSE": peers.cupy_csr, "torch": peers.torch_csr}, [Goal("peer", 0.9, 1.1, ("cuSPARSE",))],
        {"loopkit": of(), **{f"lanes={k}": of(k) for k in (1, 2, 4, 8, 16, 32)}},
        {"longest": LONGEST} if pieces else {})


def _histogram(name: str, dtype: str, *, equal: bool = False) -> Row:
    import loopkit as lk

    def of(**options: Any) -> Callable[[Size], Any]:
        return lambda s: lk.library.histogram(dtype, bins=s[1], **options)

    def values(s: Size) -> np.ndarray:
        rng = np.random.default_rng(s)
        return np.full(s[0], rng.integers(s[1])) if equal else rng.integers(0, s[1], s[0], np.uint8)
    return Row(
        f"histogram_{name}", [(1 << 28, 256)], ((1 << 28) - 4099, 250), lambda r: (*_lines(r), r.randrange(16, 256)),
        [(5000, 32)], lambda s: {"x": lambda machine: machine.integers(values(s), dtype)}, lambda s: {"counts": s[1:]},
        histogram, lambda s: of_width(s[:1], np.dtype(dtype).itemsize), lambda s: of_width(s[:1], 1),
        {"CUB": gpu_cub.histogram, "CuPy's CUB": peers.cupy_histogram, "CuPy": peers.cupy_bincount,
         "torch": peers.torch_histogram},
        [Goal("peer", 0.75, 1.0, ("CUB", "CuPy's CUB"))],
        {"loopkit": of(), "copies=1": of(copies=1), "copies=8": of(copies=8), "items=1": of(items=1),
         "items=4": of(items=4), "threads=256": of(threads=256), "threads=1024": of(threads=1024, blocks=264)},
        dtype="int32", tolerance=0.0)


def of_sweeps(**options: Any) -> Callable[[Size], Any]:
    import loopkit as lk
    return loopkit(lk.library.jacobi, sweeps=peers.SWEEPS, **options)


def rows() -> tuple[Row, ...]:
    """All of them, in the order in which they are measured."""
    import loopkit as lk
    lib = lk.library
    line, square = (1 << 29,), (16384, 16384)
    return (
        _elementwise("copy", "x", "y", "copy", lambda xp, p: p.x, 0,
                     {"torch": peers.torch_copy, "Triton": peers.triton_peer("copy")}, (1 << 30,), {}),
        _elementwise("axpy", "xy", "z", "axpy", lambda xp, p: p.alpha*p.x + p.y, 2,
                     {"torch": peers.torch_axpy, "Triton": peers.triton_peer("axpy")}, line, {"alpha": 2.5}),
        _elementwise("add", "xy", "z", "add", lambda xp, p: p.x + p.y, 1,
                     {"torch": peers.torch_add, "Triton": peers.triton_peer("add")}, line, {}),
        Row("transpose", [square], (16381, 16411), _squares, [(70, 100)],
            lambda s: {"a": s}, lambda s: {"b": s[::-1]}, lambda xp, p: p.a.T, lambda s: of_width(s)*2, lambda s: 0.0,
            {"torch": peers.torch_transpose, "Triton": peers.triton_peer("transpose")}, [Goal("copy", 0.95, 0.98)],
            {"loopkit": lambda s: lib.transpose(rows=s[0]), "any length": loopkit(lib.transpose),
             "tile=32, 32x8": loopkit(lib.transpose, tile=32, threads=(32, 8)),
             "tile=64": loopkit(lib.transpose, tile=64), "64x8": loopkit(lib.transpose, threads=(64, 8))}),
        _stencil("stencil_2d", square, _squares, (30, 300), 6, {
            "loopkit": lambda s: lib.stencil_2d(columns=s[1]), "any length": loopkit(lib.stencil_2d),
            "rows=4": loopkit(lib.stencil_2d, rows=4), "rows=8": loopkit(lib.stencil_2d, rows=8),
            "64x4": loopkit(lib.stencil_2d, threads=(64, 4)), "256x1": loopkit(lib.stencil_2d, threads=(256, 1))}),
        _stencil("stencil_3d", (768, 768, 768), _cubes, (20, 20, 40), 8, {
            "loopkit": lambda s: lib.stencil_3d(columns=s[1:]), "any length": loopkit(lib.stencil_3d),
            "planes=2": loopkit(lib.stencil_3d, planes=2), "rows=1": loopkit(lib.stencil_3d, rows=1),
            "min_blocks=0": loopkit(lib.stencil_3d, min_blocks=0),
            "16x16": loopkit(lib.stencil_3d, threads=(16, 16)), "64x4": loopkit(lib.stencil_3d, threads=(64, 4))}),
        Row("jacobi", [square], (16381, 16411), _squares, [(70, 90)],
            lambda s: {"a": s}, lambda s: {"out": s}, relaxed, lambda s: of_width(s)*2*peers.SWEEPS,
            lambda s: of_width(s, 4)*peers.SWEEPS,
            {"torch.compile": peers.inductor_jacobi, "Triton": peers.triton_peer("jacobi")}, [Goal("copy", 1.2, 1.5)],
            {"loopkit": of_sweeps(), "rows=8": of_sweeps(rows=8), "rows=8, 64x8": of_sweeps(rows=8, threads=(64, 8)),
             "128x4": of_sweeps(threads=(128, 4))}),
        Row("full_sum", [line], (line[0] - 4099,), _lines, [(50000,)],
            lambda s: {"x": s}, lambda s: {"s": (1,)}, lambda xp, p: p.x.sum().reshape(1), of_width,
            lambda s: of_width(s, 1),
            {"torch": peers.torch_full_sum, "Triton": peers.triton_peer("full_sum"), "CuPy": peers.cupy_full_sum},
            [Goal("peer", 0.95, 1.0)],
            {"loopkit": loopkit(lib.full_sum), "items=2": loopkit(lib.full_sum, items=2),
             "items=8": loopkit(lib.full_sum, items=8), "2048 blocks": loopkit(lib.full_sum, blocks=2048)}, low=0.0),
        Row("row_sum", [(65536, 4096)], (65537, 4093), _rows, [(9, 300)],
            lambda s: {"x": s}, lambda s: {"s": s[:1]}, lambda xp, p: p.x.sum(1), of_width, lambda s: of_width(s, 1),
            {"torch": peers.torch_row_sum, "Triton": peers.triton_peer("row_sum"), "CuPy": peers.cupy_row_sum},
            [Goal("peer", 0.95, 1.0, ("torch",))],
            {"loopkit": lambda s: lib.row_sum(columns=s[1]), "any length": loopkit(lib.row_sum),
             "threads=128": lambda s: lib.row_sum(columns=s[1], threads=128),
             "threads=512": lambda s: lib.row_sum(columns=s[1], threads=512)}, low=0.0),
        Row("column_sum", [(65536, 4096)], (65537, 4093), _rows, [(600, 45)],
            lambda s: {"x": s}, lambda s: {"s": s[1:]}, lambda xp, p: p.x.sum(0), of_width, lambda s: of_width(s, 1),
            {"torch": peers.torch_column_sum, "Triton": peers.triton_peer("column_sum")},
            [Goal("peer", 0.95, 1.0, ("torch",))],
            {"loopkit": loopkit(lib.column_sum), "rows=512": loopkit(lib.column_sum, rows=512),
             "items=8": loopkit(lib.column_sum, items=8), "64x4": loopkit(lib.column_sum, threads=(64, 4))},
            low=0.0, tolerance=1e-5),
        _by_rows("softmax", lambda s: {"x": s}, softmax, 6,
                 {"torch": peers.torch_softmax, "torch.compile": peers.inductor_softmax,
                  "Triton": peers.triton_peer("softmax")}),
        _by_rows("layer_norm", lambda s: {"x": s, "weight": s[1:], "bias": s[1:]}, layer_norm, 8,
                 {"torch": peers.torch_layer_norm, "torch.compile": peers.inductor_layer_norm,
                  "Triton": peers.triton_peer("layer_norm")}),
        Row("matmul", [(4096, 4096, 4096), (8192, 8192, 8192), (16384, 1024, 4096), (1024, 16384, 4096),
                       (2048, 2048, 32768)], (4093, 4099, 4101), _products, [(130, 70, 40)],
            lambda s: {"a": (s[0], s[2]), "b": (s[2], s[1])}, lambda s: {"c": s[:2]}, lambda xp, p: p.a @ p.b,
            lambda s: 4.0*(s[0]*s[2] + s[2]*s[1] + s[0]*s[1]), lambda s: of_width(s, 2),
            {"cuBLAS": peers.torch_matmul, "Triton": peers.triton_peer("matmul")},
            [Goal("peer", 0.92, 1.0, ("cuBLAS",))],
            {"loopkit": lambda s: lib.matmul(shape=s), "any shape": loopkit(lib.matmul),
             "128x256x16": loopkit(lib.matmul, tile=(128, 256, 16), warp=(64, 64)),
             "64x128x16": loopkit(lib.matmul, tile=(64, 128, 16), min_blocks=4),
             "whole tiles": loopkit(lib.matmul, whole=True)}, tolerance=2e-5),
        _batched("float32"),
        _batched("float64"),
        Row("nbody", [(100_000,)], (99_991,), _bodies, [(300,)],
            lambda s: dict.fromkeys("xyzq", s), lambda s: {"phi": s}, potential, lambda s: 20.0*s[0],
            # of the sum as it is, over all pairs of bodies, however many of them are computed
            lambda s: 12.0*s[0]**2, {"torch.compile": peers.inductor_nbody, "Triton": peers.triton_peer("nbody")},
            [Goal("peak", 0.70, 0.80)],
            {"loopkit": loopkit(lib.nbody), "bodies=16": loopkit(lib.nbody, bodies=16),
             "unroll=4": loopkit(lib.nbody, unroll=4), "direct": loopkit(lib.nbody_direct),
             "direct, fast math": lambda s: Relaxed(lib.nbody_direct())},
            compared=lambda phi: phi[:CHECKED_BODIES], tolerance=5e-5),
        _csr("band", (1 << 23, 1 << 23), lambda r: (r.randrange(1 << 22, 1 << 23),)*2),
        _csr("random", (1 << 21, 1 << 21), _sparse),
        _csr("skewed", (1 << 21, 1 << 21), _sparse, pieces=True),
        Row("scan", [(1 << 28,)], ((1 << 28) - 4099,), _lines, [(5000,)],
            lambda s: {"x": s}, lambda s: {"y": s}, lambda xp, p: xp.cumsum(p.x, 0), lambda s: of_width(s)*2,
            lambda s: of_width(s, 1), {"CUB": gpu_cub.scan, "CuPy": peers.cupy_scan, "torch": peers.torch_scan},
            [Goal("peer", 0.75, 1.0, ("CUB", "CuPy"))],
            {"loopkit": loopkit(lib.scan), "rows=12": loopkit(lib.scan, rows=12),
             "threads=256": loopkit(lib.scan, threads=256, rows=12), "launches": loopkit(lib.scan_in_launches)},
            low=0.0, tolerance=1e-4),
        Row("row_scan", [(65536, 4096)], (65537, 4093), _rows, [(9, 300)],
            lambda s: {"x": s}, lambda s: {"y": s}, lambda xp, p: xp.cumsum(p.x, 1), lambda s: of_width(s)*2,
            lambda s: of_width(s, 1), {"CuPy": peers.cupy_row_scan, "torch": peers.torch_row_scan},
            [Goal("peer", 0.75, 1.0, ("CuPy",)), Goal("copy", 0.9, 0.98)],
            {"loopkit": lambda s: lib.row_scan(columns=s[1]), "any length": loopkit(lib.row_scan),
             "threads=128": lambda s: lib.row_scan(columns=s[1], threads=128),
             "threads=512": lambda s: lib.row_scan(columns=s[1], threads=512)}, low=0.0, tolerance=1e-5),
        _histogram("uint8", "uint8"),
        _histogram("int32", "int32"),
        _histogram("equal", "uint8", equal=True),
    )
