"""Launches whose blocks wait for each other, on fake GPUs: what they count and mark with is zero when each begins."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from tests.cases import chained_scan
from tests.lowering.kernels import make as make_kernel
from tests.runtime.cuda.conftest import Lab
from tests.runtime.cuda.work import GPU_KINDS, KINDS, F, make, read


@pytest.mark.deep
@pytest.mark.parametrize("kind", KINDS)
def test_calls(lab: Lab, kind: str) -> None:
    """The memory that a call gets may be any; the fake of a launch looks at it."""
    compiled = lk.compile(chained_scan(), target="cuda")
    for n in (1, 64, 200, 200):
        x = np.arange(n, dtype=F) % 7
        np.testing.assert_array_equal(read(lab, compiled(x=make(lab, kind, x)).y), np.cumsum(x))


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("kind", GPU_KINDS)
def test_bound_calls(lab: Lab, kind: str) -> None:
    """What the run before left behind is gone."""
    x = np.arange(200, dtype=F) % 7
    y = make(lab, kind, np.zeros(200, F))
    bound = lk.compile(chained_scan(), target="cuda").bind(x=make(lab, kind, x), y=y)
    for _ in range(3):
        bound()
    np.testing.assert_array_equal(read(lab, y), np.cumsum(x))


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("bound", [False, True])
def test_beside_loops_of_the_host(lab: Lab, bound: bool) -> None:
    knl = make_kernel(["{[b]: 0<=b<n}", "[b] -> {[a]: 0<=a and a = b - 1}", "{[t, i]: 0<=t<3 and 0<=i<n}"], """
        for b
            <> whole[b] = sum(a, whole[a]) + x[b]
            y[b] = whole[b]
        end
        for t, i
            u[t + 1, i] = u[t, n - 1 - i] + 1
        end
        """, x=F, whole=F, u=F)
    knl = lk.tag_inames(lk.add_block_flags(knl, "whole"), "b:g.0, i:g.0")
    compiled = lk.compile(knl, target="cuda")
    x, u = np.arange(10, dtype=F), np.zeros((4, 10), F)
    given = {"x": make(lab, "torch", x), "y": make(lab, "torch", np.zeros(10, F)), "u": make(lab, "torch", u)}
    run = compiled.bind(**given) if bound else lambda: compiled(**given)
    for _ in range(2):
        run()
    np.testing.assert_array_equal(read(lab, given["y"]), np.cumsum(x))
    np.testing.assert_array_equal(read(lab, given["u"])[:, 0], range(4))
