"""The product of narrow numbers in Triton, tuned by its autotuner, also without the instructions of Hopper.

Triton reads its kernels from the file that they are in; importing it needs Triton and torch.
"""
from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import triton
import triton.language as tl

Run = Callable[[], None]

#: Rows, columns and steps of k of a tile, warps, stages.
_TILES = ((128, 256, 64, 8, 3), (256, 128, 64, 8, 3), (128, 128, 64, 8, 4), (128, 128, 64, 4, 4), (128, 128, 32, 8, 4),
          (128, 256, 32, 8, 4), (64, 256, 32, 4, 4), (128, 64, 64, 4, 4), (64, 128, 64, 4, 4))


def _matrix_product(a, b, c, n, m, k, down_a, along_a, down_b, along_b, ROWS: tl.constexpr,  # noqa: N803
                    COLUMNS: tl.constexpr, STEPS: tl.constexpr, GROUP: tl.constexpr):  # noqa: N803
    down, along = tl.cdiv(n, ROWS), tl.cdiv(m, COLUMNS)
    here = tl.program_id(0)
    group = here//(GROUP*along)
    height = min(down - group*GROUP, GROUP)
    i = (group*GROUP + here % (GROUP*along) % height)*ROWS + tl.arange(0, ROWS)
    j = (here % (GROUP*along)//height)*COLUMNS + tl.arange(0, COLUMNS)
    step = tl.arange(0, STEPS)
    at_a = a + (i % n)[:, None]*down_a + step[None, :]*along_a
    at_b = b + step[:, None]*down_b + (j % m)[None, :]*along_b
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, k, STEPS):
        tile_a = tl.load(at_a, mask=step[None, :] < k - start, other=0)
        tile_b = tl.load(at_b, mask=step[:, None] < k - start, other=0)
        total = tl.dot(tile_a, tile_b, total)
        at_a += STEPS*along_a
        at_b += STEPS*down_b
    tl.store(c + i[:, None].to(tl.int64)*m + j[None, :], total.to(c.dtype.element_ty),
             mask=(i[:, None] < n) & (j[None, :] < m))


def _tuned() -> Any:
    """A new kernel for each caller: Triton compiles it for each kind of arguments once."""
    configs = [triton.Config({"ROWS": rows, "COLUMNS": columns, "STEPS": steps, "GROUP": 8}, num_warps=warps,
                             num_stages=stages) for rows, columns, steps, warps, stages in _TILES]
    return triton.autotune(configs=configs, key=["n", "m", "k"])(triton.jit(_matrix_product))


_by_best, _by_mma_sync = _tuned(), _tuned()


def _launch(kernel: Any, a: Any, b: Any, c: Any) -> Callable[[], Any]:
    n, m, k = *c.shape, a.shape[1]
    return lambda: kernel[lambda meta: (triton.cdiv(n, meta["ROWS"])*triton.cdiv(m, meta["COLUMNS"]),)](
        a, b, c, n, m, k, *a.stride(), *b.stride())


def product(a: Any, b: Any, c: Any) -> Run:
    launch = _launch(_by_best, a, b, c)

    def run() -> None:
        launch()                                      # Triton returns the compiled kernel
    return run


@contextmanager
def _without_wgmma() -> Iterator[None]:
    """Triton's compiler reads this variable, and its disk cache has a key for it. A target of sm_80 would not do: the
    machine code for sm_80 does not run on later GPUs."""
    before = os.environ.get("DISABLE_MMA_V3")
    os.environ["DISABLE_MMA_V3"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["DISABLE_MMA_V3"]
        else:
            os.environ["DISABLE_MMA_V3"] = before


def product_by_mma_sync(a: Any, b: Any, c: Any) -> Run:
    """Only with instructions that a GPU of sm_80 has too.

    :raises RuntimeError: Triton has used others, or none of the matrix units.
    """
    launch = _launch(_by_mma_sync, a, b, c)
    with _without_wgmma():
        text = launch().asm["ptx"]                    # tunes and compiles
    if "mma.sync" not in text or any(later in text for later in ("wgmma", "cp.async.bulk")):
        raise RuntimeError("Triton does not obey DISABLE_MMA_V3")

    def run() -> None:
        launch()
    return run
