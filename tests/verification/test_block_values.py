"""Bounds and subscripts that each block reads from memory once: parameters within the block, for both of its roles."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import loopkit as lk
from loopkit.ast.nodes import Program
from loopkit.instructions.phases import ArrivePhase
from loopkit.kernel.tree import Barrier, rewrite
from loopkit.lowering.lowered import Lowered
from loopkit.lowering.pipeline import lowered_in_one_version, lowered_once
from loopkit.verification.validation import validate
from tests.deep import DEEP, shared
from tests.role_kernels import rows_of_data
from tests.verification.changed import built, report, with_tree, without
from tests.verification.ring_faults import ring_faults

#: Slots, and blocks for all places of the grid.
KERNELS = [(2, 2), (2, 0), (3, 2)]

WAYS = [*product(("last", "first"), ("backward", "forward"))]

#: First rows and numbers of strips: more than there are, none, fewer than slots, and rows beyond the end.
TOPS, LENGTHS = (0, 150, 64, 7, 199), (5, 0, 1, 3, 4)


@shared
def _kernel(slots: int, blocks: int) -> lk.LoopKernel:
    return rows_of_data(slots, blocks)


def _traces(knl: lk.LoopKernel, program: Program | None = None) -> Iterator[str]:
    """The wrong results, or errors, of the ways of emulation."""
    a = np.random.default_rng(0).integers(-3, 4, (200, 100)).astype(np.float32)
    tops, lengths = np.array(TOPS, np.int32), np.array(LENGTHS, np.int32)
    padded = np.pad(a, ((0, 64), (0, 64)))
    expected = np.array([padded[top:top + 64, :32*n].sum(axis=1) for top, n in zip(TOPS, LENGTHS, strict=True)])
    for completion, order in WAYS if DEEP or program is not None else WAYS[::3]:
        try:
            found = lk.emulate(knl, {"a": a, "tops": tops, "lengths": lengths}, completion=completion, order=order,
                               program=program).s
        except lk.VerificationError as error:
            yield error.message
        else:
            if not np.array_equal(found, expected):
                yield f"a wrong result: {completion}, {order}"


@pytest.mark.parametrize(("slots", "blocks"), [pytest.param(*x, marks=pytest.mark.deep) if k else x
                                               for k, x in enumerate(KERNELS)])
def test_blocks_with_loops_of_any_lengths_are_proven_and_right(slots: int, blocks: int) -> None:
    found = lk.verify(_kernel(slots, blocks), full=True)
    assert {x.name for x in found.checks if x.verdict is not lk.Verdict.PROVEN} == {"bounds"}, found
    assert not (wrong := [*_traces(_kernel(slots, blocks))]), wrong


@shared
def _lowered() -> Lowered:
    return lowered_in_one_version(_kernel(2, 2))


def test_faults_of_a_program_are_found() -> None:
    low = _lowered()
    assert validate(low) == ()
    every = [*ring_faults(low.program)]
    assert len(every) > 50
    for fault in every[::1 if DEEP else 11]:
        if not validate(replace(low, program=fault.program)):
            wrong = next(_traces(_kernel(2, 2), fault.program), None)
            assert wrong is None, f"missed: {fault.kind} in {fault.text}: {wrong}"


def test_a_witness_has_the_length_of_the_loop() -> None:
    low = lowered_once(_kernel(2, 2))
    tree = rewrite(low.launches[0].tree, lambda node: without(ArrivePhase)(node) if isinstance(node, Barrier) else node)
    wrong = with_tree(low, 0, tree)
    found = str(report(_kernel(2, 2), built(wrong)))
    assert "steps = 1" in found


def test_the_producer_needs_values_that_it_can_compute() -> None:
    """A value of each consumer, or one from memory that other threads write."""
    text = """
        for g
            {first}
            for k
                <> tile[k] = a[top, k]  {{id=copy}}
            end
            for i
                s[g, i] = tile[31 - i]
            end
        end
        """
    for first in ("<> own[0] = tops[g]\n<> top = own[0]  {id=top, dep=*}", "<> top = tops[g]"):
        knl = lk.make_kernel("{[g, i, k]: 0<=g<groups and 0<=i,k<32}", text.format(first=first), [
            lk.GlobalArg("a", np.float32, "n, 32"), lk.GlobalArg("tops", np.int32, "groups"), "..."])
        knl = lk.tensorize(lk.tag_inames(knl, "g:g.0, i:l.0"), "copy", "tma.load")
        if "own" in first:
            knl = lk.set_temporary_address_space(knl, "own", "shared")
            with pytest.raises(lk.PreconditionError, match="The producer thread needs 'top' for 'copy', and 'top'"):
                lk.generate_code(lk.specialize_warps(knl, "copy"), target="cuda")
        else:
            assert "top = tops[g];" in str(lk.generate_code(lk.specialize_warps(knl, "copy"), target="cuda"))
