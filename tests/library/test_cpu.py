"""The pipelines for the host's processor against numpy, at ragged sizes."""
from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from tests.golden_files import GoldenFiles

pytestmark = pytest.mark.optimised

PIPELINES = (lk.library.cpu_matmul, lk.library.cpu_stencil_2d, lk.library.cpu_softmax, lk.library.cpu_csr_matvec)
each = pytest.mark.parametrize("make", PIPELINES, ids=lambda f: f.__name__)


@each
def test_golden_c(make: Callable[..., lk.LoopKernel], golden: GoldenFiles) -> None:
    golden.check(f"library/{make.__name__}.c", lk.generate_code(make(np.float32), target="c"))


@pytest.mark.deep(every=4)
@each
def test_is_proven_as_a_whole(make: Callable[..., lk.LoopKernel]) -> None:
    knl = make()
    assert lk.verify(knl, full=make is not lk.library.cpu_csr_matvec).verdict is not lk.Verdict.REFUTED
    assert not knl.obligations


@pytest.mark.deep(every=2)
@pytest.mark.parametrize(("dtype", "tile"), [(np.float64, (3, 4)), (np.float32, None)])
def test_products(dtype: Any, tile: tuple[int, int] | None) -> None:
    rng = np.random.default_rng(0)
    product = lk.compile(lk.library.cpu_matmul(dtype, tile=tile, tiles=2))
    for n, m, k in ((1, 1, 1), (12, 8, 5), (17, 37, 10), (2, 3, 0)):
        a, b = rng.random((n, k)).astype(dtype), rng.random((k, m)).astype(dtype)
        np.testing.assert_allclose(product(a=a, b=b, n=n, m=m).c, a @ b, rtol=1e-5)


def test_softmax_of_rows() -> None:
    x = np.random.default_rng(0).normal(size=(5, 37)).astype(np.float32)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(lk.library.cpu_softmax()(x=x).y, e/e.sum(axis=1, keepdims=True), rtol=1e-5)


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("row_length", [None, 100])
def test_rows_of_a_sparse_matrix(row_length: float | None) -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 40, 50)
    rowptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    col, x = rng.integers(0, 50, rowptr[-1]).astype(np.int32), rng.random(50)
    val = rng.random(rowptr[-1])
    y = lk.library.cpu_csr_matvec(row_length=row_length)(rowptr=rowptr, col=col, val=val, x=x).y
    wanted = [val[a:b] @ x[col[a:b]] for a, b in pairwise(rowptr)]
    np.testing.assert_allclose(y, wanted, rtol=1e-12)


@pytest.mark.parametrize("options", [{"tile": (0, 8)}, {"tile": (4, -1)}, {"tiles": 0}])
def test_a_tile_has_positive_lengths(options: dict[str, Any]) -> None:
    with pytest.raises(lk.PreconditionError):
        lk.library.cpu_matmul(**options)
