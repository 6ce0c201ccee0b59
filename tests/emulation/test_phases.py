"""Rings of phases by emulation: numpy's numbers whenever the copies land, and no fault without a trace."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product as every

import numpy as np
import pytest

import loopkit as lk
from loopkit.ast.walk import as_block, rewritten
from loopkit.expr.kinds import named_dtype
from loopkit.lowering.pipeline import lowered_once
from tests.tma_kernels import box, product, rowdot, rows_of_window, rowsum, stored_box, window
from tests.verification.test_phases import FAULTS, FAULTS_OF_ONE, Change

ROWS = np.random.default_rng(0).integers(-9, 9, (65, 260)).astype(np.float32)

CHOICES = [*every(("last", "first"), ("backward", "forward"))]


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_rows(stages: int) -> None:
    for completion, order in CHOICES:
        found = lk.emulate(rowsum(stages), a=ROWS, completion=completion, order=order).s
        np.testing.assert_array_equal(found, ROWS.sum(axis=1))


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("extents", [(8,), (3, 8), (2, 3, 8), (2, 1, 3, 8), (2, 1, 3, 2, 8)])
def test_boxes(extents: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).integers(-9, 9, [n + 4 for n in extents]).astype(np.float32)
    np.testing.assert_array_equal(lk.emulate(box(extents), x=x).y, 2*x[tuple(slice(n) for n in extents)])


@pytest.mark.deep(every=3)
@pytest.mark.parametrize("extents", [(2, 2, 1, 3, 4), (8,), (3, 8), (2, 3, 8), (2, 1, 3, 8)])
def test_stored_boxes(extents: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).integers(-9, 9, [n + 1 for n in extents[:-1]] + [extents[-1] + 4]).astype(np.float32)
    np.testing.assert_array_equal(lk.emulate(stored_box(extents), x=x).y, 2*x)


@pytest.mark.parametrize(("stride", "before"), [(1, 3), (2, 0), (2, 3), (3, 5), (8, 30), (5, 90)])
def test_windows(stride: int, before: int) -> None:
    """Rows at a distance, from before the first one on; those of the last box are all outside."""
    x = np.random.default_rng(0).integers(1, 9, (11, 32)).astype(np.float32)
    knl = window(stride, before)
    assert lk.verify(knl, full=True).proven
    np.testing.assert_array_equal(lk.emulate(knl, x=x).y, rows_of_window(x, stride, before))


def test_a_product_with_swizzled_tiles() -> None:
    """Tiles beyond the edges, and a last strip of one element in 64."""
    bfloat16 = named_dtype("bfloat16")
    a, b = (np.random.default_rng(k).integers(-4, 5, (n, m)).astype(bfloat16) for k, (n, m) in enumerate(
        ((3, 200), (200, 72))))
    found = lk.emulate(product(3, b_transposed=False), a=a, b=b).c
    expected = (a.astype(np.float32) @ b.astype(np.float32)).astype(bfloat16)
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))


def _traces(knl: lk.LoopKernel, fault: Change, expected: np.ndarray, **arrays: np.ndarray) -> Iterator[str]:
    """The wrong results and the errors of the ways to run the program with a *fault*."""
    program = lowered_once(knl).program
    (function,) = program.functions
    wrong = replace(program, functions=(replace(function, body=as_block(rewritten(function.body, fault))),))
    for completion, order in CHOICES:
        try:
            found = lk.emulate(knl, completion=completion, order=order, program=wrong, **arrays).s
        except lk.VerificationError as error:
            yield error.message
        else:
            if not np.array_equal(found, expected):
                yield "a wrong result"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_leaves_a_trace(fault: str) -> None:
    assert next(_traces(rowsum(3), FAULTS[fault], ROWS.sum(axis=1), a=ROWS), None)


@pytest.mark.parametrize("fault", FAULTS_OF_ONE)
def test_a_fault_in_a_shared_ring_leaves_a_trace(fault: str) -> None:
    assert next(_traces(rowdot(3, 3), FAULTS_OF_ONE[fault], (ROWS*ROWS).sum(axis=1), a=ROWS, b=ROWS), None)
