"""The gradients of the library's attention: text, proofs, emulated results, and what it refuses."""
from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loopkit as lk
from loopkit.library.attention import Attention
from loopkit.library.attention_backward import Gradients
from tests.deep import DEEP
from tests.golden_files import GoldenFiles
from tests.nvrtc import compile_cuda

BF16 = np.dtype(ml_dtypes.bfloat16)
HOPPER = lk.CudaTarget("sm_90a")


@pytest.mark.deep
def test_golden_cuda(golden: GoldenFiles) -> None:
    """Threads compute weights while matrix units multiply, and their derivatives while they multiply by weights."""
    knl = lk.library.attention_backward(head=64)
    for nest in ("r", "k", "q"):
        assert sum(f"'{nest}" in str(step) for step in knl.history) <= 25
    code = lk.generate_code(knl, target=HOPPER)
    golden.check("library/attention_backward.cu", code)
    compiled = compile_cuda(code.source, "sm_90a")
    assert not compiled.spills
    assert "C75" not in compiled.binary.log
    _, of_keys, of_queries = code.source.split("__launch_bounds__")[-3:]
    for loop, order in (
            (of_keys[of_keys.rindex("for (int kt = "):],
             ["k_scores.kd.update", "k_by_weights.ke.update", "wait_for_products<1>", "exp2_ftz", "dv_sums.kc.update",
              "// k_by_scores", "dk_sums.kg.update", "wait_for_products<0>"]),
            (of_queries[of_queries.rindex("for (int qt = "):],
             ["q_scores.qd.update", "q_by_weights.qe.update", "wait_for_products<1>", "exp2_ftz",
              "wait_for_products<0>", "// q_by_scores", "dq_sums.qc.update"])):
        body = "\n".join(line for line in loop.splitlines() if "reads" not in line)
        assert [*map(body.index, order)] == sorted(map(body.index, order))
        # weights are replaced in the first tile only
        assert "_mask" not in loop


def gradients(q: Any, k: Any, v: Any, go: Any, mask: str, scale: float) -> tuple[np.ndarray, ...]:
    """The result, the logarithm of the sum of each row, and the gradients by *q*, *k* and *v*, in float64."""
    q, k, v, go = (x.astype(float) for x in (q, k, v, go))
    scores = scale*(q @ k.swapaxes(2, 3))
    if mask == "causal":
        scores[..., np.triu(np.ones(scores.shape[2:], bool), 1)] = -np.inf
    top = scores.max(axis=3, keepdims=True)
    weights = np.exp(scores - top)
    total = weights.sum(axis=3, keepdims=True)
    weights /= total
    by_weights = go @ v.swapaxes(2, 3)
    by_scores = scale*weights*(by_weights - (weights*by_weights).sum(axis=3, keepdims=True))
    return (weights @ v, (top + np.log(total))[..., 0], by_scores @ k, by_scores.swapaxes(2, 3) @ q,
            weights.swapaxes(2, 3) @ go)


def example(head: int, sizes: tuple[int, int, int, int], dtype: Any) -> dict[str, np.ndarray]:
    batch, heads, n, m = sizes
    rng = np.random.default_rng(0)
    return {x: rng.standard_normal((batch, heads, length, head)).astype(dtype)
            for x, length in (("q", n), ("k", m), ("v", m), ("go", n))}


FORMS: list[tuple[dict[str, Any], tuple[int, int, int, int]]] = [
    ({"mask": "causal", "key_tile": (64, 64), "query_tile": (64, 64), "multiprocessors": 1}, (1, 1, 70, 70)),
    ({"key_tile": (64, 32), "query_tile": (64, 32), "stages": 3, "multiprocessors": 0}, (1, 1, 70, 40)),
    ({"mask": "causal", "dtype": "float16", "key_tile": (128, 64), "query_tile": (128, 32)}, (1, 1, 130, 130)),
    ({"head": 128, "key_tile": (64, 16), "query_tile": (192, 64), "scale": 0.25}, (1, 1, 20, 65))]


@pytest.mark.deep
@pytest.mark.parametrize(("form", "sizes"), FORMS)
def test_results(form: dict[str, Any], sizes: tuple[int, int, int, int]) -> None:
    """Copies land as late as they may, or at once; sums of products are rounded once, or twice. Some rows and keys lie
    beyond the end.
    """
    form = {"head": 64, **form}
    dtype = np.float16 if "dtype" in form else BF16
    knl, given = lk.library.attention_backward(**form), example(form["head"], sizes, dtype)
    assert lk.verify(knl, full=DEEP).proven
    scale = form.get("scale", form["head"]**-0.5)
    o, log_sum, *expected = gradients(**given, mask=form.get("mask", "full"), scale=scale)
    for completion, contracted in (("first", False), ("last", True))[:2 if DEEP else 1]:
        found = lk.emulate(knl, {**given, "o": o.astype(dtype), "log_sum": log_sum.astype(np.float32)},
                           completion=completion, contracted=contracted, target=HOPPER)
        for name, wanted in zip(("dq", "dk", "dv"), expected, strict=True):
            # weights, their derivatives and results are rounded to 8 bits, or 11
            error = np.abs(getattr(found, name).astype(float) - wanted).max()
            assert error < 0.01*np.abs(wanted).max(), name


def test_formulas() -> None:
    """The definitions in float32 on the host: the gradients take what attention gives."""
    given = example(2, (1, 2, 5, 5), np.float32)
    o, log_sum, *expected = gradients(**given, mask="causal", scale=0.5)
    forward = Attention(np.dtype(np.float32), 2, "causal", window=None, heads_shared=1, bias=False, softcap=None,
                        scale=0.5, log_sum=True).kernel(4, 2)
    result = forward(**{x: given[x] for x in "qkv"})
    np.testing.assert_allclose(result.o, o, atol=1e-5)
    np.testing.assert_allclose(result.log_sum, log_sum, atol=1e-5)
    form = Gradients(np.dtype(np.float32), 2, "causal", 0.5)
    found = form.kernel((4, 2), (4, 2))(**given, o=result.o, log_sum=result.log_sum)
    for name, wanted in zip(("dq", "dk", "dv"), expected, strict=True):
        np.testing.assert_allclose(getattr(found, name), wanted, atol=1e-5)


@pytest.mark.parametrize(("given", "subject", "message"), [
    ({"head": 96}, "head", "The length of a head is 64 or 128, and not 96."),
    ({"head": 0}, "head", "The length of a head is 64 or 128, and not 0."),
    ({"dtype": "float32"}, "dtype", "The arrays of attention are bfloat16 or float16, and not float32."),
    ({"mask": "window"}, "mask", "There are no gradients with a mask 'window'."),
    ({"scale": 0}, "scale", "The argument 'scale' is a positive number, and not 0."),
    ({"key_tile": (96, 32)}, "key_tile", "The first number of 'key_tile' is a multiple of 64, "
     "at most 192, and not 96."),
    ({"query_tile": (64, 24)}, "query_tile", "The second number of 'query_tile' is a multiple of 16, "
     "at most 256, and not 24."),
    ({"mask": "causal", "key_tile": (64, 128)}, "key_tile",
     "With a mask, the second number of 'key_tile' divides the first number of 'key_tile', and 128 does not divide "
     "64."),
    ({"stages": 1}, "stages", "Warpgroups need two tiles or more, and not 1.")])
def test_what_it_refuses(given: dict[str, Any], subject: str, message: str) -> None:
    with pytest.raises(lk.PreconditionError) as caught:
        lk.library.attention_backward(**{"head": 64, **given})
    assert caught.value.message == message
    assert caught.value.subject == subject
    assert caught.value.hint
