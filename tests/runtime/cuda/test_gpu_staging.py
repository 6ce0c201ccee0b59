"""Copies of numpy's arrays to fake GPUs and back: in pieces, packed, and without memory that can be locked."""
from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loopkit as lk
from loopkit.runtime.cuda import memory
from loopkit.runtime.cuda.devices import find_gpu
from tests.runtime.cuda.conftest import Lab
from tests.runtime.cuda.work import F, increment, make, read, rows, saxpy

LARGE, PIECE = 4096, 1024
#: In bytes.
SIZES = sorted({8, *(n for k in (1, 3, 4, 5, 7) for n in (k*PIECE - 8, k*PIECE, k*PIECE + 8))})


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LARGE", LARGE)
    monkeypatch.setattr(memory, "_PIECE", PIECE)


@pytest.fixture(params=["pinned", "not pinned"])
def pinned(request: pytest.FixtureRequest, lab: Lab) -> bool:
    lab.machine.faults.pinned = request.param == "not pinned"
    return bool(request.param == "pinned")


@pytest.mark.deep(every=2)
@pytest.mark.usefixtures("small_pieces")
def test_sizes_around_the_pieces(lab: Lab, pinned: bool) -> None:
    compiled = lk.compile(saxpy(np.float64), target="cuda")
    for size in [*SIZES, *SIZES[::-1]]:
        n = size // 8
        x, y, z = np.arange(n)*1.0, np.arange(n)[::-1]*0.5, np.full(n, np.nan)
        np.testing.assert_array_equal(compiled(x=x, y=y, alpha=3).z, 3*x + y)
        assert compiled(x=x, y=y, z=z, alpha=2).z is z
        np.testing.assert_array_equal(z, 2*x + y)
    assert bool(lab.machine.pinned) is pinned
    assert len(lab.machine.pinned) in (0, 3)


@pytest.mark.deep(every=12)
@pytest.mark.usefixtures("small_pieces", "pinned")
@pytest.mark.parametrize("kind", ["numpy", "torch_cpu"])
@pytest.mark.parametrize("how", [lambda a: a[::2], lambda a: a[5:], lambda a: a[3:][::3]])
def test_strided_arrays_in_pieces(lab: Lab, kind: str, how: Any) -> None:
    compiled = lk.compile(increment(np.float64), target="cuda")
    for n in (700, 1500, 3000):
        base = np.arange(n)*1.0
        expected = base.copy()
        how(expected)[...] += 1
        view = how(base)
        compiled(y=view if kind == "numpy" else lab.torch.from_numpy(view))
        np.testing.assert_array_equal(base, expected)     # what lies between is as it was


@pytest.mark.usefixtures("small_pieces", "pinned")
def test_two_axes(lab: Lab) -> None:
    compiled = lk.compile(rows(np.float64), target="cuda")
    base = np.arange(60*60).reshape(60, 60)*1.0
    for x in (base.T, base[::-1, ::-1], base[:, ::2], np.broadcast_to(base[0], (50, 60)), np.asfortranarray(base)):
        np.testing.assert_array_equal(compiled(x=x).y, 2*x)
        out = np.full(x.shape[::-1], np.nan).T
        assert compiled(x=x, y=out).y is out
        np.testing.assert_array_equal(out, 2*x)


@pytest.mark.usefixtures("small_pieces", "pinned")
@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_subclasses_whose_views_are_not_flat(lab: Lab) -> None:
    compiled = lk.compile(rows(np.float64), target="cuda")
    x = np.asmatrix(np.arange(1200).reshape(30, 40)*1.0)
    y = np.asmatrix(np.zeros((30, 40)))
    assert compiled(x=x, y=y).y is y
    np.testing.assert_array_equal(y, 2*x)


@pytest.mark.deep(every=7)
@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint64, np.float16, ml_dtypes.bfloat16, np.complex64,
                                   np.complex128])
def test_elements_of_every_width(lab: Lab, dtype: Any) -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[n-1-i]"), {"x": dtype})
    compiled = lk.compile(knl, target="cuda")
    x = (np.arange(33) % 5).astype(dtype)
    for kind in ("numpy", "torch_cpu", "torch"):
        np.testing.assert_array_equal(read(lab, compiled(x=make(lab, kind, x)).y).view(np.uint8).reshape(-1),
                                      x[::-1].copy().view(np.uint8))


def test_memory_on_the_gpu_is_kept_for_the_next_call(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = lk.compile(saxpy(), target="cuda")
    x = np.arange(1000, dtype=F)
    compiled(x=x, y=x, alpha=1)
    pool = find_gpu(0).staging._pool
    kept = pool.managed_bytes
    assert kept == 3*x.nbytes
    assert pool.active_bytes == 0
    compiled(x=x, y=x, alpha=1)
    assert pool.managed_bytes == kept
    monkeypatch.setattr(memory, "_KEPT", kept - 1)
    compiled(x=x, y=x, alpha=1)
    assert pool.managed_bytes == 0
    assert not pool.held


def test_what_was_taken_is_given_back_when_a_call_fails(lab: Lab) -> None:
    compiled = lk.compile(saxpy(), target="cuda")
    x = np.arange(10, dtype=F)
    compiled(x=x, y=x, alpha=1)
    lab.machine.faults.launch = [1]
    with pytest.raises(lk.LaunchError):
        compiled(x=x, y=x, alpha=1)
    assert find_gpu(0).staging._pool.active_bytes == 0
    np.testing.assert_array_equal(compiled(x=x, y=x, alpha=1).z, 2*x)


def test_a_refused_call_writes_nothing(lab: Lab) -> None:
    compiled = lk.compile(saxpy(), target="cuda")
    x, z = np.arange(10, dtype=F), np.full(10, 7, F)
    compiled(x=x, y=x, z=np.zeros(10, F), alpha=1)
    with pytest.raises(lk.CallError, match="overflows"):
        compiled(x=x, y=x, z=z, alpha=1e300)
    with pytest.raises(lk.CallError, match="overlaps"):
        compiled(x=z, y=x, z=z, alpha=1)
    assert (z == 7).all()
