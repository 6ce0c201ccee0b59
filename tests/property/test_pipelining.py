"""Random pipelines of random copies: every thread reads the values of the untransformed kernel."""
from __future__ import annotations

import random
from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis import HealthCheck, Phase, given, settings

import loopkit as lk
from loopkit.verification.validation import validate
from tests.deep import amount
from tests.property.machine import execute
from tests.targets import WarpsOf

BOUNDS = ("0<=j<m", "i<=j<m", "0<=j<=i", "2*i - 3<=j<m")
SIZES = ({"n": 7, "m": 6}, {"n": 2, "m": 1}, {"n": 5, "m": 0}, {"n": 0, "m": 3}, {"n": 4, "m": 11})


def drawn(draw: Any) -> tuple[lk.LoopKernel, lk.LoopKernel]:
    """A sum over windows of *x* with weights *w*, both copied strip by strip; plain, and with its copies pipelined."""
    integer = np.dtype(np.int64)
    inputs = (lk.GlobalArg(name, integer, shape="2*n + m + 20") for name in "xw")
    plain = lk.make_kernel(
        f"{{[i, j]: 0<=i<n and {draw(st.sampled_from(BOUNDS))}}}", "y[i] = sum(j, x[i + j + 3]*w[j + 3])",
        [*inputs, lk.GlobalArg("y", integer, shape="n"), "..."], assumptions="n>=0 and m>=0")
    block, strip = draw(st.sampled_from((2, 3, 4))), draw(st.sampled_from((1, 2, 3, 4)))
    knl = lk.split_iname(plain, "i", block, outer_tag="g.0")
    if draw(st.booleans()):
        knl = lk.split_iname(knl, "i_inner", 2, outer_iname="i_slow", inner_iname="i_fast", outer_tag="l.1",
                             inner_tag="l.0")
        swept = ["i_slow", "i_fast"]
    else:
        knl = lk.tag_inames(knl, {"i_inner": draw(st.sampled_from(("l.0", "unr", "for")))})
        swept = ["i_inner"]
    knl = lk.split_iname(knl, "j", strip, inner_tag=draw(st.sampled_from(("unr", None))))
    tags = st.sampled_from(("l.auto", None, "unr", "l.auto"))
    knl = lk.add_prefetch(knl, "x", [*swept, "j_inner"], default_tag=draw(tags), allow_global_storage=True)
    if draw(st.booleans()):
        knl = lk.add_prefetch(knl, "w", ["j_inner"], default_tag=draw(tags), allow_global_storage=True)
    chosen = draw(st.sampled_from((None, None, ["x_fetch"])))
    stages = draw(st.sampled_from((1, 2, 2, 3, 5)))
    how = draw(st.sampled_from(("registers", "directly", "asynchronous"))) if stages > 1 else "registers"
    knl = lk.pipeline(knl, "j_outer", stages, temporaries=chosen, registers=how == "registers",
                      asynchronous=how == "asynchronous")
    if how == "asynchronous" and draw(st.booleans()):
        shared = lk.set_temporary_address_space(knl, [x for x in knl.temporaries if x.endswith("_fetch")], "local")
        try:
            lk.lower(shared, stop="storage")
        except lk.StorageError:
            return plain, knl                    # threads would share a cell
        return plain, shared
    return plain, knl


@settings(max_examples=amount(24), database=None, deadline=None, suppress_health_check=list(HealthCheck),
          phases=[Phase.generate])
@given(st.data(), st.integers(0, 10**6), st.sampled_from((2, 32)))
def test_pipelined_copies_serve_their_readers(data: st.DataObject, seed: int, warp: int) -> None:
    plain, knl = drawn(data.draw)
    lowered, report = lk.lower(knl, WarpsOf(warp)), lk.verify(knl, WarpsOf(warp))
    wanted = lk.lower(plain, WarpsOf(warp))
    assert report.verdict is lk.Verdict.PROVEN, report
    assert not validate(lowered)
    rng = np.random.default_rng(seed)
    for sizes in SIZES:
        length = 2*sizes["n"] + sizes["m"] + 20
        arrays = {"x": rng.integers(-9, 9, length), "w": rng.integers(-9, 9, length),
                  "y": rng.integers(-9, 9, sizes["n"])}
        ours, theirs = (execute(one, arrays, sizes, random.Random(seed))["y"] for one in (lowered, wanted))
        np.testing.assert_array_equal(ours, theirs)
