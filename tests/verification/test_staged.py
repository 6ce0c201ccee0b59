"""Buffers, peeled sums and grids that follow the host's loops: all of it is verified, and what is wrong is found."""
from __future__ import annotations

from collections.abc import Callable

import pytest

import loopkit as lk
from loopkit.analysis.constructors import with_dependences
from loopkit.kernel.tags import GroupTag
from tests.lowering.host_loops import HOSTED
from tests.lowering.kernels import F32
from tests.transform.test_buffering import tiled_triangle
from tests.transform.test_buffering_values import line, rows
from tests.transform.test_peel_reductions import matvec, nested


def boxed() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<2}", "y[4*i + 5*j] = y[4*i + 5*j] + 1",
                         [lk.GlobalArg("y", F32), "..."])
    return lk.buffer_array(knl, "y", "j", default_tag=None, fetch_bounding_box=True)


KERNELS: dict[str, Callable[[], lk.LoopKernel]] = {
    "a whole box": lambda: lk.tag_inames(
        lk.buffer_array(tiled_triangle(), "y", "i_inner, j_inner", fetch_bounding_box=True),
        "i_outer:g.0, j_outer:g.1, i_inner:l.0, j_inner:l.1"),
    "a row of values": lambda: lk.tag_inames(lk.buffer_array(rows(), "t", "j, k", within="work"), "i:g.0, j:l.0"),
    "tiles of values": lambda: lk.buffer_array(
        lk.tag_inames(line(), "i_outer:g.0, i_inner:l.0"), "t", "i_inner", within="work"),
    "a peeled sum": lambda: lk.split_iname(
        lk.peel(matvec(), "k", 2, 1), "i", 4, outer_tag="g.0", inner_tag="l.0"),
    "peeled sums of sums": lambda: lk.split_iname(
        lk.peel(lk.peel(nested(), "j", 1), "k", 1), "i", 4, outer_tag="g.0", inner_tag="l.0"),
    "a grid that shrinks": lambda: HOSTED["elimination"].mapped(),
    "two corners of one axis": lambda: HOSTED["two corners"].mapped(),
}


@pytest.mark.deep(every=7)
@pytest.mark.parametrize("name", KERNELS)
def test_all_is_proven(name: str) -> None:
    assert lk.verify(KERNELS[name](), full=True).proven


def test_a_box_that_another_block_writes_into() -> None:
    knl = boxed()
    wrong = with_dependences(knl, lambda found, _: (d for d in found if d.array != "y"), tags={"i": GroupTag(0)})
    found = lk.check_races(wrong)
    assert not found.ok
    witness = next(f.witness for f in found["races"].findings if f.verdict is lk.Verdict.REFUTED)
    assert witness == "with n = 2: init_y[i=0, y_init_0=4] reads y[4], which store_y[i=1, y_store_0=0] writes"
