"""The results of the rows for the matrix units in float64, with numpy's functions or torch's."""
from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

#: From a problem and the indices of queries and keys: which pairs count; ``None``: all.
Mask = Callable[[Any, Any, Any], Any] | None

#: From the scores of a head: those that count.
Score = Callable[[Any, Any, Any, int], Any] | None


def wide(xp: Any, array: Any) -> Any:
    """In float64, integers too: their sums here are exact in it, and torch has no product of integers on a GPU."""
    return array.astype(np.float64) if xp is np else array.double()


def product(xp: Any, p: Any, layout: str) -> Any:
    a, b = wide(xp, p.a), wide(xp, p.b)
    return (a.T if layout[0] == "t" else a) @ (b.T if layout[1] == "t" else b)


def gelu(xp: Any, x: Any) -> Any:
    erf = np.vectorize(math.erf) if xp is np else xp.erf
    return x*(1 + erf(x/math.sqrt(2)))/2


def grouped(xp: Any, p: Any) -> Any:
    stops = p.ends.tolist()
    return xp.concatenate([wide(xp, p.a[start:stop]) @ wide(xp, b).T
                           for start, stop, b in zip([0, *stops], stops, p.b, strict=False)])


def _heads(xp: Any, p: Any) -> Iterator[tuple[int, int, int, Any]]:
    """Each image and head, its head of *k* and *v*, and its scores."""
    batch, heads, _, d = p.q.shape
    for i in range(batch):
        for h in range(heads):
            shared = h*p.k.shape[1]//heads
            yield i, h, shared, wide(xp, p.q[i, h]) @ wide(xp, p.k[i, shared]).T/math.sqrt(d)


def _indices(xp: Any, p: Any) -> tuple[Any, Any]:
    length = p.q.shape[2]
    found = np.arange(length) if xp is np else xp.arange(length, device=p.q.device)
    return found[:, None], found[None, :]


def _probabilities(xp: Any, p: Any, scores: Any, mask: Mask) -> tuple[Any, Any]:
    """And the logarithm of the sum of each row."""
    if mask is not None:
        scores = xp.where(mask(p, *_indices(xp, p)), scores, -math.inf)
    largest = xp.amax(scores, 1)
    e = xp.exp(scores - largest[:, None])
    total = e.sum(1)
    return e/total[:, None], largest + xp.log(total)


def attention(xp: Any, p: Any, mask: Mask, score: Score) -> tuple[Any, Any]:
    """The result, and the logarithm of the sum of the exponentials of each row."""
    o, log_sum = xp.zeros_like(wide(xp, p.q)), xp.zeros_like(wide(xp, p.q[..., 0]))
    for i, h, shared, scores in _heads(xp, p):
        weights, log_sum[i, h] = _probabilities(xp, p, scores if score is None else score(xp, scores, p, h), mask)
        o[i, h] = weights @ wide(xp, p.v[i, shared])
    return o, log_sum


def attention_gradients(xp: Any, p: Any, mask: Mask) -> tuple[Any, Any, Any]:
    """By *q*, *k* and *v*, of the sum of ``o*go``."""
    dq, dk, dv = (xp.zeros_like(wide(xp, x)) for x in (p.q, p.k, p.v))
    root = math.sqrt(p.q.shape[3])
    for i, h, shared, scores in _heads(xp, p):
        weights, _ = _probabilities(xp, p, scores, mask)
        go = wide(xp, p.go[i, h])
        by_weights = go @ wide(xp, p.v[i, shared]).T
        by_scores = weights*(by_weights - (weights*by_weights).sum(1)[:, None])/root
        dq[i, h] = by_scores @ wide(xp, p.k[i, shared])
        dk[i, shared] += by_scores.T @ wide(xp, p.q[i, h])
        dv[i, shared] += weights.T @ go
    return dq, dk, dv


def convolution(xp: Any, p: Any) -> Any:
    """As a sum of nine products, of shifted images."""
    n, rows, columns, channels, _, stride, dilation = p.size
    x, w = wide(xp, p.x), wide(xp, p.w)
    shape = (n, rows + 2*dilation, columns + 2*dilation, channels)
    padded = np.zeros(shape) if xp is np else x.new_zeros(shape)
    padded[:, dilation:-dilation, dilation:-dilation] = x
    result: Any = 0
    for r in range(3):
        for s in range(3):
            result = result + (padded[:, r*dilation:r*dilation + rows:stride, s*dilation:s*dilation + columns:stride]
                               @ w[:, r, s].T)
    return result
