"""The library's attention: text, proofs, emulated results, and what it refuses."""
from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loopkit as lk
from loopkit.library.attention import Attention
from tests.deep import DEEP
from tests.golden_files import GoldenFiles
from tests.nvrtc import compile_cuda

BF16 = np.dtype(ml_dtypes.bfloat16)
HOPPER = lk.CudaTarget("sm_90a")


def test_golden_cuda(golden: GoldenFiles) -> None:
    """Products with v run on while threads compute the weights of the next tile; warpgroups exchange registers."""
    code = lk.generate_code(lk.library.attention(head=128, mask="causal", multiprocessors=132), target=HOPPER)
    golden.check("library/attention.cu", code)
    compiled = compile_cuda(code.source, "sm_90a")
    assert not compiled.spills
    assert "C75" not in compiled.binary.log
    loop = code.source[code.source.index("wait_for_next_phase(q_tile_full"):]
    loop = loop[loop.index("for (int t = 1;"):]
    order = ["begin_turn<2>", "wgmma_m64n128k16_f32_bf16<", "wgmma_m64n128k16_f32_bf16_registers", "end_turn<2>",
             "wait_for_products<1>", "exp2_ftz", "wait_for_products<0>", "// factors"]
    assert [*map(loop.index, order)] == sorted(map(loop.index, order))
    # scores are replaced in the tile on the diagonal only, which is the first one
    assert "-1e+30f" not in loop[:loop.index("sums_last")]
    # one quotient a row
    assert loop.count(" / total") == 1


def test_heads_whose_keys_the_cache_holds_run_at_once() -> None:
    def heads(head: int, shared: int | str, length: int) -> int:
        return Attention(BF16, head, "causal", None, None, shared, False, None).heads_at_once(length)
    assert [heads(128, 1, n) for n in (1024, 4096, 16384, 10**6)] == [11, 11, 3, 1]
    assert [heads(64, 1, 1024), heads(128, 4, 2048), heads(128, "all", 10**6)] == [66, 66, 66]
    with pytest.raises(lk.PreconditionError, match="keys must be a positive integer, not 0"):
        lk.library.attention(head=64, length=0)


def result_of(q: Any, k: Any, v: Any, mask: str = "full", heads_shared: int | str = 1, window: int | None = None,
              bias: Any = None, softcap: float | None = None) -> np.ndarray:
    share = q.shape[1] if heads_shared == "all" else int(heads_shared)
    q, k, v = (x.astype(float) for x in (q, np.repeat(k, share, axis=1), np.repeat(v, share, axis=1)))
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3])
    if softcap is not None:
        scores = softcap*np.tanh(scores/softcap)
    if bias is not None:
        scores += bias.astype(float)
    i, j = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])
    counts = np.ones_like(j > i) if mask == "full" else (j <= i) & (j > i - (window or q.shape[2]))
    weights = np.exp(np.where(counts, scores - scores.max(axis=3, keepdims=True), -np.inf))
    return weights @ v / weights.sum(axis=3, keepdims=True)


FORMS: list[tuple[dict[str, Any], tuple[int, int, int, int]]] = [
    ({"mask": "causal", "heads_shared": 2, "rows": 128, "keys": 64, "multiprocessors": 3}, (1, 2, 140, 140)),
    ({"rows": 64, "keys": 32, "multiprocessors": 2}, (1, 2, 70, 130)),
    ({"mask": "window", "window": 40, "heads_shared": "all", "rows": 64, "keys": 32}, (1, 2, 80, 80)),
    ({"bias": True, "rows": 64, "keys": 32, "scale": np.float64(0.125)}, (2, 1, 65, 40)),
    ({"mask": "causal", "softcap": 2.0, "rows": 64, "keys": 64, "stages": 3}, (1, 1, 130, 130)),
    ({"dtype": "float16", "rows": 192, "keys": 64}, (1, 1, 193, 1))]


@pytest.mark.deep(every=6)
@pytest.mark.parametrize(("form", "sizes"), FORMS)
def test_results(form: dict[str, Any], sizes: tuple[int, int, int, int]) -> None:
    """Copies land as late as they may, or at once; sums of products are rounded once, or twice. Some rows and keys lie
    beyond the end.
    """
    knl = lk.library.attention(head=64, **form)
    assert len(knl.history) <= 25
    assert lk.verify(knl, full=DEEP).proven
    batch, heads, n, m = sizes
    share = form.get("heads_shared", 1)
    rng, dtype = np.random.default_rng(0), np.float16 if "dtype" in form else BF16
    owners = 1 if share == "all" else heads // share
    given = {x: rng.standard_normal(shape).astype(dtype) for x, shape in (
        ("q", (batch, heads, n, 64)), ("k", (batch, owners, m, 64)), ("v", (batch, owners, m, 64)))}
    if form.get("bias"):
        given["bias"] = rng.standard_normal((1, heads, n, m)).astype(dtype)
        given["bias"][..., m // 4:] = -np.inf                      # no key of the first tile counts
    how = {x: y for x, y in form.items() if x in ("mask", "heads_shared", "window", "softcap")}
    expected = result_of(**{"bias": None, **given, **how})
    for completion, contracted in (("last", True), ("first", False))[:2 if DEEP else 1]:
        found = lk.emulate(knl, given, completion=completion, contracted=contracted, target=HOPPER).o
        # weights and results are rounded to 8 bits, or 11
        np.testing.assert_allclose(found.astype(float), expected, atol=0.015)


@pytest.mark.deep
@pytest.mark.parametrize("form", [
    {"head": 64, "mask": "causal", "rows": 192, "keys": 64}, {"head": 64, "mask": "causal", "rows": 192, "keys": 96},
    {"head": 64, "mask": "window", "window": 100, "rows": 192, "keys": 64}, {"head": 128, "mask": "causal", "keys": 64},
    {"head": 256, "mask": "causal"}, {"head": 256, "mask": "window", "window": 100}], ids=str)
def test_tiles_of_all_lengths_are_proven(form: dict[str, Any]) -> None:
    """The last tile of keys of a block is that of its last query, whose number is rounded."""
    report = lk.verify(lk.library.attention(**form), HOPPER, full=True)
    assert report.proven, report


@pytest.mark.parametrize(("given", "subject", "message"), [
    ({"head": 96}, "head", "The length of a head is a multiple of 64, at most 256, and not 96."),
    ({"dtype": "float32"}, "dtype", "The arrays of attention are bfloat16 or float16, and not float32."),
    ({"mask": "diagonal"}, "mask", "There is no mask 'diagonal'."),
    ({"window": 5}, "window", "A window is for the mask 'window', which needs one."),
    ({"mask": "window"}, "window", "A window is for the mask 'window', which needs one."),
    ({"heads_shared": "some"}, "heads_shared", "heads_shared is a number of heads or 'all', and not 'some'."),
    ({"rows": 100}, "rows", "The number of rows is a multiple of 64, at most 192, and not 100."),
    ({"keys": 24}, "keys", "The number of keys is a multiple of 16, at most 256, and not 24."),
    ({"mask": "causal", "rows": 192, "keys": 128}, "keys",
     "With a mask, the number of keys divides the number of rows, and 128 does not divide 192."),
    ({"scale": 0}, "scale", "The argument 'scale' is a positive number, and not 0."),
    ({"softcap": -1.0}, "softcap", "The argument 'softcap' is a positive number, and not -1.0."),
    ({"stages": 1}, "stages", "Warpgroups need two tiles or more, and not 1.")])
def test_what_it_refuses(given: dict[str, Any], subject: str, message: str) -> None:
    with pytest.raises(lk.PreconditionError) as caught:
        lk.library.attention(**{"head": 64, **given})
    assert caught.value.message == message
    assert caught.value.subject == subject
    assert caught.value.hint
