"""Clusters on the device: the numbers of numpy from tiles that 2, 4 or 8 blocks copy together."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from loopkit.expr.kinds import named_dtype
from loopkit.runtime.cuda.devices import find_gpu
from tests.cluster_kernels import product, rows

BF16 = named_dtype("bfloat16")


@pytest.fixture(autouse=True)
def _gpu() -> None:
    found = find_gpu()
    if found.capability < (9, 0):
        pytest.skip(f"{found} has no clusters")


@pytest.mark.parametrize(("by_tma", "persistent"), [(False, 0), (True, 0), (False, 16), (True, 64)])
@pytest.mark.parametrize("blocks", [2, 4, 8])
def test_rows(blocks: int, persistent: int, *, by_tma: bool) -> None:
    knl = rows(blocks, by_tma=by_tma, persistent=persistent)
    knl = lk.compile(lk.cluster(knl, "of_cluster", blocks), target="cuda")
    rng = np.random.default_rng(blocks)
    for n, length in ((1, 4), (64, 32), (300, 132), (5000, 1000), (40000, 68)):
        a, b = (rng.integers(-4, 5, (count, length)).astype(np.float32) for count in (n, 64))
        of_rows = np.tile(b, (n // 64 + 1, 1))[:n]
        np.testing.assert_array_equal(np.asarray(knl(a=a, b=b).s), (a*of_rows).sum(axis=1))


@pytest.mark.parametrize(("store", "persistent"), [("registers", 0), ("tma", 0), ("registers", 132), ("tma", 12)])
@pytest.mark.parametrize("blocks", [2, 4])
def test_products(blocks: int, store: str, persistent: int) -> None:
    _check(product(blocks, store, persistent), 64*blocks)


@pytest.mark.parametrize("persistent", [0, 132])
def test_warpgroups_take_turns(persistent: int) -> None:
    _check(lk.take_turns(product(rows=128, persistent=persistent), "insn", "store_c"), 256)


def _check(product: lk.LoopKernel, rows: int) -> None:
    """The *product* is that of numpy for multiples of so many *rows*."""
    knl, rng = lk.compile(product, target="cuda"), np.random.default_rng(rows)
    for n, m, length in ((rows, 8, 8), (rows, 136, 200), (1024, 264, 1000), (4096, 1032, 520)):
        a, b = (rng.integers(-4, 5, shape).astype(BF16) for shape in ((n, length), (length, m)))
        expected = (a.astype(np.float32) @ b.astype(np.float32)).astype(BF16)
        np.testing.assert_array_equal(np.asarray(knl(a=a, b=b).c).astype(np.float32), expected.astype(np.float32))
