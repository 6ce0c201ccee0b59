"""Attention within sequences of any lengths, as for each sequence alone; what lies behind a sequence does no harm."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import loopkit as lk
from loopkit.library.defaults import known_dtype
from tests.deep import shared

HOPPER = lk.CudaTarget("sm_90a")

#: Starts of sequences of 130 queries: of one query, empty ones, of several tiles; the last one ends before the array.
STARTS = [[0, 1, 1, 128, 129], [0, 0, 130], [2, 66, 130]]


@shared
def _kernel(mask: str, heads_shared: int = 1) -> lk.LoopKernel:
    return lk.library.packed_attention(head=64, rows=64, keys=64, mask=mask, heads_shared=heads_shared)


def arrays_of(starts: Sequence[int], heads_shared: int) -> dict[str, np.ndarray]:
    rng, bfloat16 = np.random.default_rng(0), known_dtype("bfloat16")
    given = {x: rng.standard_normal((1, heads, 130, 64)).astype(bfloat16)
             for x, heads in (("q", 2), ("k", 2//heads_shared), ("v", 2//heads_shared))}
    return {**given, "starts": np.array(starts, np.int32), "o": np.full(given["q"].shape, 7, bfloat16)}


def expected_of(arrays: dict[str, np.ndarray], mask: str) -> np.ndarray:
    q, k, v, o = (arrays[x][0].astype(np.float32) for x in "qkvo")
    k, v = (np.repeat(x, len(q) // len(x), axis=0) for x in (k, v))
    for start, stop in zip(arrays["starts"], arrays["starts"][1:], strict=False):
        s = q[:, start:stop] @ k[:, start:stop].transpose(0, 2, 1)/8
        s = np.where(np.tri(stop - start, dtype=bool), s, -np.inf) if mask == "causal" else s
        w = np.exp(s - s.max(axis=-1, keepdims=True, initial=-1e30))
        o[:, start:stop] = w/w.sum(axis=-1, keepdims=True) @ v[:, start:stop]
    return o[None]


@pytest.mark.parametrize("full", [pytest.param(x, marks=pytest.mark.deep) for x in (False, True)])
@pytest.mark.parametrize("mask", ["causal", "full"])
def test_blocks_are_proven(mask: str, full: bool) -> None:
    found = lk.verify(_kernel(mask), HOPPER, full=full)
    verdicts = {x.name: x.verdict for x in found.checks}
    assert verdicts.pop("order") is verdicts.pop("races") is lk.Verdict.ASSUMED, found
    assert verdicts.pop("bounds") is lk.Verdict.UNDECIDED, found
    assert {*verdicts.values()} == {lk.Verdict.PROVEN}, found


@pytest.mark.parametrize(("starts", "mask", "heads_shared"), [
    pytest.param(x, mask, n, marks=pytest.mark.deep) for x in STARTS for mask, n in (("causal", 1), ("full", 2))],
    ids=str)
@pytest.mark.parametrize("emulated", [True, False])
def test_sequences_of_any_lengths(starts: Sequence[int], mask: str, heads_shared: int, emulated: bool) -> None:
    arrays, knl = arrays_of(starts, heads_shared), _kernel(mask, heads_shared)
    expected = expected_of(arrays, mask)
    if emulated:
        lk.emulate(knl, arrays, target=HOPPER)
    else:
        lk.compile(knl, "c")(**arrays)
    np.testing.assert_allclose(arrays["o"].astype(np.float32), expected, atol=0.02)


@pytest.mark.deep
@pytest.mark.parametrize("mask", ["full", "causal"])
def test_a_nan_behind_a_sequence_stays_there(mask: str) -> None:
    """A weight of 0 for a key of the next sequence would still make a NaN of its value."""
    arrays = arrays_of([0, 33, 97, 130], 1)
    for x in "kv":
        arrays[x][:, :, 33:97] = np.nan
    expected, alone = expected_of(arrays, mask), [*range(33), *range(97, 130)]
    lk.emulate(_kernel(mask), arrays, target=HOPPER)
    assert np.isnan(arrays["o"][:, :, 33:97]).all()
    np.testing.assert_allclose(arrays["o"][:, :, alone].astype(np.float32), expected[:, :, alone], atol=0.02)
