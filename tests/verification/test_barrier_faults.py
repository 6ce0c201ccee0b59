"""Barriers that are missing or in the wrong place are found, and no right kernel is accused."""
from __future__ import annotations

import random
from functools import cache

import numpy as np
import pytest

import loopkit as lk
from loopkit.lowering.lowered import Lowered
from tests.cases import CASES
from tests.lowering.kernels import F32, chain, exchange, make, own_element
from tests.property.machine import MachineError, execute
from tests.verification.changed import (
    as_warp_barriers,
    built,
    report,
    with_a_barrier,
    with_one_barrier_moved,
    with_tree,
    without_barriers,
    without_one_barrier,
)

BY_NAME = {case.name: case for case in CASES}

#: Cases with subscripts and bounds that are read from memory: what is in bounds there is for the caller to say.
DATA_DEPENDENT = {"csr_matvec": {"bounds"}, "histogram": {"bounds"}}


@cache
def kernel(name: str) -> lk.LoopKernel:
    return BY_NAME[name].make()


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("full_tiles", [True, False], ids=["full_tiles", "generic"])
@pytest.mark.parametrize("name", BY_NAME)
def test_real_kernels_are_proven(name: str, full_tiles: bool) -> None:
    found = lk.verify(lk.set_options(kernel(name), full_tiles=full_tiles))
    assert {c.name for c in found.checks if c.verdict is not lk.Verdict.PROVEN} == DATA_DEPENDENT.get(name, set())
    assert found.ok
    assert "not needed" not in str(found)


WITH_BARRIERS = (
    "scan_by_block", "chained_scan", "transpose", "transpose_swizzled", "matmul_tiled", "matmul_register_blocked",
    "matmul_large_tiles", "matmul_half", "stencil_2d", "stencil_3d", "softmax_by_block", "softmax_bfloat16",
    "layer_norm_by_block", "batched_matmul", "nbody", "matmul_vec", "matmul_pipelined", "matmul_asynchronous",
    "matmul_by_warps", "histogram")


def test_these_kernels_have_barriers() -> None:
    assert [x for x in BY_NAME if "barrier" in str(lk.lower(kernel(x), stop="barriers"))] == list(WITH_BARRIERS)


def missed(name: str) -> lk.Verdict:
    """The verdict on a kernel without one of its barriers: data may decide whether two threads conflict."""
    return lk.Verdict.UNDECIDED if name in DATA_DEPENDENT else lk.Verdict.REFUTED


@pytest.mark.parametrize("name", WITH_BARRIERS)
def test_each_barrier_is_missed(name: str) -> None:
    for lowered in without_one_barrier(kernel(name)):
        found = report(kernel(name), lowered)
        assert found["races"].verdict is found["barriers"].verdict is missed(name)
        assert found["order"].verdict is lk.Verdict.PROVEN          # only threads are out of step
        if missed(name) is lk.Verdict.UNDECIDED:
            continue
        with pytest.raises(lk.VerificationError, match=r"no barrier between|an asynchronous copy, is performed"):
            found.raise_if_refuted()


@pytest.mark.parametrize("name", WITH_BARRIERS)
def test_a_barrier_of_warps_does_not_do_for_the_block(name: str) -> None:
    for lowered in as_warp_barriers(kernel(name)):
        assert report(kernel(name), lowered)["races"].verdict is missed(name)


# The same, by running

def double_buffered() -> lk.LoopKernel:
    """Two rows of a buffer take turns, so that one barrier an iteration is enough."""
    return make("{[t,i,j]: 0<=t<T and 0<=i,j<4}", """
        for t
            for i
                buffer[t % 2, i] = x[t, i] {id=fill}
            end
            for j
                y[t, j] = buffer[t % 2, 3-j] {id=use}
            end
        end
        """, [lk.TemporaryVariable("buffer", F32, (2, 4), lk.AddressSpace.LOCAL), "..."], x=F32)


def small(knl: lk.LoopKernel) -> lk.LoopKernel:
    return lk.tag_inames(knl, {x: "l.0" for x in ("i", "j", "k") if x in knl.inames})


SMALL = {f.__name__: f for f in (exchange, own_element, chain, double_buffered)}


def breaks(lowered: Lowered) -> bool:
    """Does a machine that watches all accesses find a fault?"""
    arrays = {a: np.ones((4, 64), np.int64) for a in lowered.kernel.array_args}
    try:
        execute(built(lowered), arrays, {"n": 2, "T": 4}, random.Random(0))
    except MachineError:
        return True
    return False


@pytest.mark.parametrize("name", SMALL)
def test_what_is_said_of_a_moved_barrier_is_true(name: str) -> None:
    """Each barrier anywhere else: refuted exactly where a run goes wrong."""
    knl = small(SMALL[name]())
    assert not breaks(lk.lower(knl))               # type: ignore[arg-type]
    verdicts = []
    for lowered in (*without_one_barrier(knl), *with_one_barrier_moved(knl)):
        verdicts.append(report(knl, lowered)["races"].verdict is lk.Verdict.REFUTED)
        assert verdicts[-1] == breaks(lowered), lowered
    assert (True in verdicts) == (name != "own_element")


def test_one_barrier_serves_two_buffers_that_take_turns() -> None:
    """The next fill of a row comes two iterations later, after the barrier of the iteration between."""
    knl = small(double_buffered())
    bare = without_barriers(knl)
    reports = [report(knl, with_tree(bare, 0, tree)) for tree in with_a_barrier(bare.launches[0].tree)]
    right = [found for found in reports if found.ok]
    assert len(right) == 1
    assert right[0]["barriers"].summary == "1, each needed"


def test_a_barrier_that_nothing_needs_is_listed() -> None:
    knl = small(own_element())
    trees = list(with_a_barrier(without_barriers(knl).launches[0].tree))
    found = report(knl, with_tree(without_barriers(knl), 0, trees[-1]))
    assert found.proven
    assert found["barriers"].summary == "1, 1 not needed"
    assert found["barriers"].notes == ("kernel: barrier in the loop over 'b', not needed",)
