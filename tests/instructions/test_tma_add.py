"""Additions by TMA: right whatever lands first, found faults, and refusals."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pymbolic.primitives as p
import pytest

import loopkit as lk
from loopkit.ast.nodes import If, Node, Region
from loopkit.ast.walk import as_block, rewritten
from loopkit.instructions.fences import ProxyFence
from loopkit.instructions.groups import WaitGroup
from loopkit.instructions.tma_store import TMA_STORES, TmaStoreIssue
from loopkit.lowering.lowered import Lowered
from loopkit.lowering.pipeline import lowered_in_one_version
from loopkit.poly.affine import add
from loopkit.verification.validation import validate
from tests.golden_files import GoldenFiles
from tests.nvrtc import compile_cuda
from tests.tma_kernels import split_sums, summed
from tests.verification.changed import without

SM_90 = lk.CudaTarget("sm_90")

A = np.random.default_rng(0).integers(-9, 10, (5, 11, 44)).astype(np.float32)

ADDED = 1 + A.sum(axis=0)


def test_split_sums(golden: GoldenFiles) -> None:
    knl = summed()
    report = lk.verify(knl, full=True)
    assert report.proven, report
    for completion in ("first", "last"):
        found = lk.emulate(knl, a=A, c=np.ones_like(ADDED), completion=completion).c
        np.testing.assert_array_equal(found, ADDED)
    assert knl == lk.tag_inames(lk.store_via(split_sums(), "tile"), "c_init_0:l.auto, c_init_1:l.auto")
    code = lk.generate_code(knl, target=SM_90)
    golden.check("sums_by_tma.cu", code)
    assert compile_cuda(str(code), "sm_90").spills == 0


Change = Callable[[Node], Node]


def _issue(of: Callable[[TmaStoreIssue], TmaStoreIssue]) -> Change:
    return lambda node: replace(node, instruction=of(node.instruction)) if isinstance(node, Region) and isinstance(
        node.instruction, TmaStoreIssue) else node


FAULTS: dict[str, Change] = {
    "no fence": without(ProxyFence), "no wait at the end": without(WaitGroup),
    "a store": _issue(lambda i: replace(i, instruction=TMA_STORES["tma.store"])),
    "another row": _issue(lambda i: replace(i, box=replace(i.box, start=(add(i.box.start[0], 1), i.box.start[1])))),
    "a smaller box": _issue(lambda i: replace(i, box=replace(
        i.box, tensor_map=replace(i.box.tensor_map, box=(4, 32))))),
    "additions by all threads": lambda node: node.then if isinstance(node, If) and node.condition == p.Comparison(
        p.Variable("l.0"), "==", 0) else node}


@pytest.fixture(name="low", scope="module")
def _low() -> Lowered:
    low = lowered_in_one_version(summed())
    assert validate(low) == ()
    return low


@pytest.mark.deep(every=6)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(low: Lowered, fault: str) -> None:
    """By the check of the program, and by a wrong sum or an error in the emulation."""
    (function,) = low.program.functions
    body = as_block(rewritten(function.body, FAULTS[fault]))
    assert body != function.body
    wrong = replace(low.program, functions=(replace(function, body=body),))
    assert validate(replace(low, program=wrong))
    for completion in ("last", "first"):
        try:
            found = lk.emulate(summed(), a=A, c=np.ones_like(ADDED), completion=completion, program=wrong).c
        except lk.VerificationError:
            return
        if not np.array_equal(found, ADDED):
            return
    pytest.fail("no trace")


@pytest.mark.parametrize(("make", "reason", "hint"), [
    (lambda: lk.tensorize(split_sums(atomic=False), "store_c", "tma.add"),
     "'store_c' is not an atomic update, and TMA adds to an element in any order", "make_atomic(knl, 'store_c')"),
    (lambda: lk.tensorize(split_sums(), "store_c", "tma.store"), "'store_c' does not copy an element of a temporary",
     "buffer_array"),
    (lambda: lk.tensorize(split_sums(operation="*"), "store_c", "tma.add"),
     "'store_c' does not add an element of a temporary", "buffer_array"),
    (lambda: lk.lower(summed("int64")), "'c' is int64, and TMA adds int32, uint32", "as atomic updates")])
def test_refused(make: Callable[[], object], reason: str, hint: str) -> None:
    with pytest.raises(lk.PreconditionError) as caught:
        make()
    assert reason in caught.value.message
    assert hint in (caught.value.hint or "")
