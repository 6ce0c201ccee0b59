"""The rows' kernels in Triton, tuned by its autotuner over the tiles that serve such kernels.

Triton reads its kernels from the file that they are in; importing it needs Triton and torch.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from gpu_peers import SWEEPS

Run = Callable[[], Any]


def _configs(*settings: tuple[dict[str, int], int, int]) -> list[Any]:
    return [triton.Config(meta, num_warps=warps, num_stages=stages) for meta, warps, stages in settings]


_LINES = _configs(*(({"BLOCK": block}, warps, 2) for block, warps in
                    ((512, 4), (1024, 4), (1024, 8), (2048, 8), (4096, 8), (4096, 16))))


def _with_work(configs: list[Any], named: dict[str, Any], **meta: Any) -> list[Any]:
    """Those in which a thread has 2 to 64 elements of a row: others take long to compile and are never the best."""
    block = {**named, **meta}["BLOCK"]
    return [c for c in configs if 2 <= block//(32*c.num_warps) <= 64] or configs[:1]


_ROWS = {"configs": _configs(*(({}, warps, 2) for warps in (1, 2, 4, 8, 16, 32))), "key": ["m"],
         "prune_configs_by": {"early_config_prune": _with_work}}


# One result an element


@triton.autotune(configs=_LINES, key=["n"])
@triton.jit
def _copy(x, y, n, BLOCK: tl.constexpr):  # noqa: N803
    i = tl.program_id(0).to(tl.int64)*BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.autotune(configs=_LINES, key=["n"])
@triton.jit
def _axpy(x, y, z, alpha, n, BLOCK: tl.constexpr):  # noqa: N803
    i = tl.program_id(0).to(tl.int64)*BLOCK + tl.arange(0, BLOCK)
    tl.store(z + i, alpha*tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.autotune(configs=_LINES, key=["n"])
@triton.jit
def _add(x, y, z, n, BLOCK: tl.constexpr):  # noqa: N803
    i = tl.program_id(0).to(tl.int64)*BLOCK + tl.arange(0, BLOCK)
    tl.store(z + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


def _blocks(n: int) -> Callable[[dict[str, Any]], tuple[int]]:
    return lambda meta: (triton.cdiv(n, meta["BLOCK"]),)


def copy(p: Any) -> Run:
    n = p.size[0]
    return lambda: _copy[_blocks(n)](p.x, p.y, n)


def axpy(p: Any) -> Run:
    n = p.size[0]
    return lambda: _axpy[_blocks(n)](p.x, p.y, p.z, p.alpha, n)


def add(p: Any) -> Run:
    n = p.size[0]
    return lambda: _add[_blocks(n)](p.x, p.y, p.z, n)

# Transposition and stencils


@triton.autotune(configs=_configs(*(({"ROWS": rows, "COLUMNS": columns}, warps, 2) for rows, columns, warps in
                                    ((32, 32, 4), (64, 32, 4), (32, 64, 4), (64, 64, 4), (64, 64, 8), (128, 64, 8),
                                     (64, 128, 8), (128, 128, 16)))), key=["n", "m"])
@triton.jit
def _transpose(a, b, n, m, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # noqa: N803
    i = tl.program_id(1)*ROWS + tl.arange(0, ROWS)
    j = tl.program_id(0)*COLUMNS + tl.arange(0, COLUMNS)
    tile = tl.load(a + i[:, None]*m + j[None, :], mask=(i[:, None] < n) & (j[None, :] < m))
    tl.store(b + j[:, None]*n + i[None, :], tl.trans(tile), mask=(j[:, None] < m) & (i[None, :] < n))


def transpose(p: Any) -> Run:
    n, m = p.size
    return lambda: _transpose[lambda meta: (triton.cdiv(m, meta["COLUMNS"]), triton.cdiv(n, meta["ROWS"]))](
        p.a, p.b, n, m)


@triton.autotune(configs=_configs(*(({"ROWS": rows, "COLUMNS": columns}, warps, 2) for rows, columns, warps in
                                    ((1, 512, 4), (1, 1024, 4), (2, 512, 4), (4, 256, 4), (8, 128, 4), (8, 256, 8),
                                     (16, 128, 8), (16, 256, 8)))), key=["n", "m"])
@triton.jit
def _stencil_2d(a, out, n, m, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # noqa: N803
    i = tl.program_id(1)*ROWS + tl.arange(0, ROWS)[:, None]
    j = tl.program_id(0)*COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = (i > 0) & (i < n - 1) & (j > 0) & (j < m - 1)
    at = a + i*m + j
    around = tl.load(at - m, mask=inside) + tl.load(at + m, mask=inside)
    around += tl.load(at - 1, mask=inside) + tl.load(at + 1, mask=inside)
    tl.store(out + i*m + j, around - 4*tl.load(at, mask=inside), mask=inside)


def stencil_2d(p: Any) -> Run:
    n, m = p.size
    return lambda: _stencil_2d[lambda meta: (triton.cdiv(m, meta["COLUMNS"]), triton.cdiv(n, meta["ROWS"]))](
        p.a, p.out, n, m)


@triton.autotune(configs=_configs(*(({"ROWS": rows, "COLUMNS": columns}, warps, 2) for rows, columns, warps in
                                    ((1, 256, 4), (2, 128, 4), (4, 128, 4), (8, 64, 4), (8, 128, 8), (16, 64, 8)))),
                 key=["n", "m", "k"])
@triton.jit
def _stencil_3d(a, out, n, m, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # noqa: N803
    plane = tl.program_id(2) + 1
    i = tl.program_id(1)*ROWS + tl.arange(0, ROWS)[:, None]
    j = tl.program_id(0)*COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = (i > 0) & (i < m - 1) & (j > 0) & (j < k - 1)
    place = (plane*m + i)*k + j
    at = a + place
    around = tl.load(at - m*k, mask=inside) + tl.load(at + m*k, mask=inside)
    around += tl.load(at - k, mask=inside) + tl.load(at + k, mask=inside)
    around += tl.load(at - 1, mask=inside) + tl.load(at + 1, mask=inside)
    tl.store(out + place, around - 6*tl.load(at, mask=inside), mask=inside)


def stencil_3d(p: Any) -> Run:
    n, m, k = p.size
    return lambda: _stencil_3d[lambda meta: (triton.cdiv(k, meta["COLUMNS"]), triton.cdiv(m, meta["ROWS"]), n - 2)](
        p.a, p.out, n, m, k)


@triton.autotune(configs=_configs(*(({"ROWS": rows, "COLUMNS": columns}, warps, 2) for rows, columns, warps in
                                    ((1, 512, 4), (1, 1024, 4), (2, 512, 4), (4, 256, 4), (8, 128, 4), (8, 256, 8),
                                     (16, 128, 8), (16, 256, 8)))), key=["n", "m"])
@triton.jit
def _jacobi(a, out, n, m, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # noqa: N803
    i = tl.program_id(1)*ROWS + tl.arange(0, ROWS)[:, None]
    j = tl.program_id(0)*COLUMNS + tl.arange(0, COLUMNS)[None, :]
    there = (i < n) & (j < m)
    inside = (i > 0) & (i < n - 1) & (j > 0) & (j < m - 1)
    at = a + i*m + j
    around = tl.load(at - m, mask=inside) + tl.load(at + m, mask=inside)
    around += tl.load(at - 1, mask=inside) + tl.load(at + 1, mask=inside)
    tl.store(out + i*m + j, tl.where(inside, 0.25*around, tl.load(at, mask=there & ~inside)), mask=there)


def jacobi(p: Any) -> Run:
    """A launch a sweep, to the output and another array in turns."""
    n, m = p.size
    other = torch.empty_like(p.out)
    steps = [p.out if (SWEEPS - k) % 2 else other for k in range(SWEEPS)]

    def run() -> None:
        for source, target in zip([p.a, *steps], steps):  # noqa: B905  # the last is no source
            _jacobi[lambda meta: (triton.cdiv(m, meta["COLUMNS"]), triton.cdiv(n, meta["ROWS"]))](source, target, n, m)
    return run

# Sums


@triton.autotune(configs=_LINES, key=["n"])
@triton.jit
def _partial_sums(x, s, n, BLOCK: tl.constexpr):  # noqa: N803
    total = tl.zeros((BLOCK,), tl.float32)
    step = tl.num_programs(0).to(tl.int64)*BLOCK
    start = tl.program_id(0).to(tl.int64)*BLOCK
    while start < n:
        i = start + tl.arange(0, BLOCK)
        total += tl.load(x + i, mask=i < n, other=0)
        start += step
    tl.store(s + tl.program_id(0), tl.sum(total, 0))


@triton.jit
def _row_of_sums(x, s, n, BLOCK: tl.constexpr):  # noqa: N803
    i = tl.arange(0, BLOCK)
    tl.store(s, tl.sum(tl.load(x + i, mask=i < n, other=0), 0))


def full_sum(p: Any) -> Run:
    n = p.size[0]
    programs = 8*torch.cuda.get_device_properties(0).multi_processor_count
    partial = torch.empty(programs, dtype=p.x.dtype, device="cuda")
    block = triton.next_power_of_2(programs)

    def run() -> None:
        _partial_sums[(programs,)](p.x, partial, n)
        _row_of_sums[(1,)](partial, p.s, programs, BLOCK=block)
    return run


@triton.autotune(**_ROWS)
@triton.jit
def _row_sum(x, s, m, BLOCK: tl.constexpr):  # noqa: N803
    i = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, BLOCK)
    tl.store(s + i, tl.sum(tl.load(x + i*m + j, mask=j < m, other=0), 0))


def row_sum(p: Any) -> Run:
    n, m = p.size
    return lambda: _row_sum[(n,)](p.x, p.s, m, BLOCK=triton.next_power_of_2(m))


@triton.autotune(configs=_configs(*(({"ROWS": rows, "COLUMNS": columns}, warps, 2) for rows, columns, warps in
                                    ((8, 128, 4), (16, 64, 4), (32, 32, 4), (32, 128, 8), (16, 256, 8)))),
                 key=["n", "m", "rows"])
@triton.jit
def _column_sum(x, s, n, m, rows, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # noqa: N803
    j = tl.program_id(0)*COLUMNS + tl.arange(0, COLUMNS)
    first = tl.program_id(1)*rows
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, rows, ROWS):
        i = start + tl.arange(0, ROWS)
        inside = ((i < rows) & (first + i < n))[:, None] & (j < m)[None, :]
        total += tl.load(x + (first + i)[:, None].to(tl.int64)*m + j[None, :], mask=inside, other=0)
    tl.store(s + tl.program_id(1)*m + j, tl.sum(total, 0), mask=j < m)


def column_sum(p: Any) -> Run:
    n, m = p.size
    rows = 512
    parts = triton.cdiv(n, rows)
    partial = torch.empty((parts, m), dtype=p.x.dtype, device="cuda")

    def run() -> None:
        _column_sum[lambda meta: (triton.cdiv(m, meta["COLUMNS"]), parts)](p.x, partial, n, m, rows)
        _column_sum[lambda meta: (triton.cdiv(m, meta["COLUMNS"]), 1)](partial, p.s, parts, m, parts)
    return run

# Rows


@triton.autotune(**_ROWS)
@triton.jit
def _softmax(x, y, m, BLOCK: tl.constexpr):  # noqa: N803
    i = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, BLOCK)
    row = tl.load(x + i*m + j, mask=j < m, other=-float("inf"))
    e = tl.exp(row - tl.max(row, 0))
    tl.store(y + i*m + j, e/tl.sum(e, 0), mask=j < m)


def softmax(p: Any) -> Run:
    n, m = p.size
    return lambda: _softmax[(n,)](p.x, p.y, m, BLOCK=triton.next_power_of_2(m))


@triton.autotune(**_ROWS)
@triton.jit
def _layer_norm(x, y, weight, bias, m, eps, BLOCK: tl.constexpr):  # noqa: N803
    i = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, BLOCK)
    row = tl.load(x + i*m + j, mask=j < m, other=0)
    mean = tl.sum(row, 0)/m
    d = tl.where(j < m, row - mean, 0)
    scale = 1/tl.sqrt(tl.sum(d*d, 0)/m + eps)
    w, b = tl.load(weight + j, mask=j < m), tl.load(bias + j, mask=j < m)
    tl.store(y + i*m + j, d*scale*w + b, mask=j < m)


def layer_norm(p: Any) -> Run:
    n, m = p.size
    return lambda: _layer_norm[(n,)](p.x, p.y, p.weight, p.bias, m, 1e-5, BLOCK=triton.next_power_of_2(m))

# Products


@triton.autotune(configs=_configs(*(({"ROWS": rows, "COLUMNS": columns, "STEPS": steps, "GROUP": 8}, warps, stages)
                                    for rows, columns, steps, warps, stages in
                                    ((64, 64, 16, 4, 3), (128, 64, 16, 4, 3), (64, 128, 16, 4, 3), (128, 128, 16, 4, 3),
                                     (128, 128, 16, 8, 3), (128, 128, 32, 8, 2), (128, 256, 16, 8, 3)))),
                 key=["n", "m", "k"])
@triton.jit
def _matmul(a, b, c, n, m, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEPS: tl.constexpr,  # noqa: N803
            GROUP: tl.constexpr):  # noqa: N803
    down, along = tl.cdiv(n, ROWS), tl.cdiv(m, COLUMNS)
    here = tl.program_id(0)
    group = here//(GROUP*along)
    height = min(down - group*GROUP, GROUP)
    tile_i = group*GROUP + here % (GROUP*along) % height
    tile_j = here % (GROUP*along)//height
    i = tile_i*ROWS + tl.arange(0, ROWS)
    j = tile_j*COLUMNS + tl.arange(0, COLUMNS)
    at_a = a + (i % n)[:, None]*k + tl.arange(0, STEPS)[None, :]
    at_b = b + tl.arange(0, STEPS)[:, None]*m + (j % m)[None, :]
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, k, STEPS):
        left = k - start
        tile_a = tl.load(at_a, mask=tl.arange(0, STEPS)[None, :] < left, other=0)
        tile_b = tl.load(at_b, mask=tl.arange(0, STEPS)[:, None] < left, other=0)
        total = tl.dot(tile_a, tile_b, total, input_precision="ieee")
        at_a += STEPS
        at_b += STEPS*m
    tl.store(c + i[:, None]*m + j[None, :], total, mask=(i[:, None] < n) & (j[None, :] < m))


def matmul(p: Any) -> Run:
    n, m, k = p.size
    return lambda: _matmul[lambda meta: (triton.cdiv(n, meta["ROWS"])*triton.cdiv(m, meta["COLUMNS"]),)](
        p.a, p.b, p.c, n, m, k)

# Pairs


@triton.autotune(configs=_configs(*(({"MINE": mine, "OTHERS": others}, warps, 2) for mine, others, warps in
                                    ((64, 32, 2), (128, 32, 4), (64, 64, 4), (128, 64, 4), (256, 32, 8),
                                     (32, 128, 4)))),
                 key=["n"])
@triton.jit
def _nbody(x, y, z, q, phi, n, MINE: tl.constexpr, OTHERS: tl.constexpr):  # noqa: N803
    i = tl.program_id(0)*MINE + tl.arange(0, MINE)
    xi, yi, zi = tl.load(x + i, mask=i < n), tl.load(y + i, mask=i < n), tl.load(z + i, mask=i < n)
    total = tl.zeros((MINE, OTHERS), tl.float32)
    for start in range(0, n, OTHERS):
        j = start + tl.arange(0, OTHERS)
        dx = tl.load(x + j, mask=j < n, other=0)[None, :] - xi[:, None]
        dy = tl.load(y + j, mask=j < n, other=0)[None, :] - yi[:, None]
        dz = tl.load(z + j, mask=j < n, other=0)[None, :] - zi[:, None]
        total += tl.load(q + j, mask=j < n, other=0)[None, :]*tl.rsqrt(dx*dx + dy*dy + dz*dz + 0.01)
    tl.store(phi + i, tl.sum(total, 1), mask=i < n)


def nbody(p: Any) -> Run:
    n = p.size[0]
    return lambda: _nbody[lambda meta: (triton.cdiv(n, meta["MINE"]),)](p.x, p.y, p.z, p.q, p.phi, n)
