"""Kernels of many sizes: each statement is analysed with the assumptions on its own sizes."""
from __future__ import annotations

import numpy as np

import loopkit as lk
from loopkit.poly.domains import MANY_PARAMS


def made(numbers: range, text: str) -> lk.LoopKernel:
    """Loop ``k`` reads an element that exists because of an assumption on two sizes."""
    return lk.make_kernel([f"{{[i{k}]: 0<=i{k}<n{k}}}" for k in numbers],
                          [f"y{k}[i{k}] = x{k}[i{k} + m{k} - n{k}] {{id=s{k}}}" for k in numbers],
                          [*(lk.GlobalArg(f"x{k}", np.float32, (f"m{k}",)) for k in numbers), "..."], assumptions=text)


def test_shapes_and_bounds_are_those_of_the_parts() -> None:
    assumed = {k: f"n{k} <= m{k}" for k in range(MANY_PARAMS)}
    together = made(range(MANY_PARAMS), " and ".join(assumed.values()))
    for k in (0, MANY_PARAMS - 1):
        alone = made(range(k, k + 1), assumed[k])
        for name in (f"x{k}", f"y{k}"):
            assert together.argument_by_name[name] == alone.argument_by_name[name]
    assert together.argument_by_name["y3"].inferred is not None
    assert lk.check_bounds(together).verdict is lk.Verdict.PROVEN


def test_a_missing_assumption_is_seen() -> None:
    knl = made(range(MANY_PARAMS), " and ".join(f"n{k} <= m{k}" for k in range(1, MANY_PARAMS)))
    report = lk.check_bounds(knl)
    assert report.verdict is lk.Verdict.REFUTED
    assert "x0" in str(report)
