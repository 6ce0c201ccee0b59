"""Stores by TMA: what is proven of their waits, fences and boxes, and the faults that checks and emulation find."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pymbolic.primitives as p
import pytest

import loopkit as lk
from loopkit.ast.nodes import Block, If, Instruction, Node, Region, Scope, Sync
from loopkit.ast.walk import as_block, rewritten
from loopkit.instructions.fences import ProxyFence
from loopkit.instructions.groups import CommitGroup, WaitGroup
from loopkit.instructions.tma_store import TmaStoreIssue
from loopkit.lowering.lowered import Lowered
from loopkit.lowering.pipeline import lowered_in_one_version
from loopkit.poly.affine import add
from loopkit.verification.validation import validate
from tests.tma_kernels import doubled
from tests.verification.changed import without

Change = Callable[[Node], Node]

X = np.random.default_rng(0).integers(-9, 10, (61, 20)).astype(np.float32)


def _syncs(of: Callable[[Instruction], Instruction]) -> Change:
    """Other instructions of synchronisations."""
    return lambda node: replace(node, instructions=tuple(map(of, node.instructions))) \
        if isinstance(node, Sync) else node


def _store(of: Callable[[TmaStoreIssue], TmaStoreIssue]) -> Change:
    return lambda node: replace(node, instruction=of(node.instruction)) if isinstance(node, Region) and isinstance(
        node.instruction, TmaStoreIssue) else node


def _without_barriers_after(kind: type[Instruction]) -> Change:
    return lambda node: replace(node, scope=Scope.THREAD) if isinstance(node, Sync) and any(
        isinstance(i, kind) for i in node.instructions) else node


#: Faults in the program of a kernel with three cells.
FAULTS: dict[str, Change] = {
    "no fence": without(ProxyFence),
    "no wait": without(WaitGroup),
    "no wait at the end": without(WaitGroup, scope=Scope.THREAD),
    "a wait at the end that leaves a group": _syncs(
        lambda i: replace(i, pending=1) if isinstance(i, WaitGroup) and not i.pending else i),
    "a wait that leaves a group more": _syncs(
        lambda i: replace(i, pending=i.pending + 1) if isinstance(i, WaitGroup) and i.pending else i),
    "no commit": without(CommitGroup),
    "no barrier before the store": _without_barriers_after(ProxyFence),
    "no barrier after the wait": _without_barriers_after(WaitGroup),
    "another row": _store(lambda i: replace(i, box=replace(i.box, start=(add(i.box.start[0], 1), *i.box.start[1:])))),
    "another cell": _store(lambda i: replace(i, box=replace(i.box, tile=p.Subscript(
        i.box.tile.aggregate, (0, *i.box.tile.index_tuple[1:]))))),
    "a smaller box": _store(lambda i: replace(i, box=replace(
        i.box, tensor_map=replace(i.box.tensor_map, box=(4, 32))))),
    "stores by all threads": lambda node: node.then if isinstance(node, If) and node.condition == p.Comparison(
        p.Variable("l.0"), "==", 0) else node}


@pytest.fixture(name="low", scope="module")
def _low() -> Lowered:
    low = lowered_in_one_version(doubled(3))
    assert validate(low) == ()
    return low


def _with_fault(low: Lowered, fault: str) -> Block:
    (function,) = low.program.functions
    body = as_block(rewritten(function.body, FAULTS[fault]))
    assert body != function.body
    return body


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(low: Lowered, fault: str) -> None:
    (function,) = low.program.functions
    wrong = replace(low.program, functions=(replace(function, body=_with_fault(low, fault)),))
    found = validate(replace(low, program=wrong))
    assert found
    assert not any(m.kind == "undecided" for m in found)


def _traces(low: Lowered, fault: str) -> Iterator[str]:
    (function,) = low.program.functions
    wrong = replace(low.program, functions=(replace(function, body=_with_fault(low, fault)),))
    for completion, order in product(("last", "first"), ("backward", "forward")):
        try:
            found = lk.emulate(doubled(3), x=X, completion=completion, order=order, lockstep=1, program=wrong).y
        except lk.VerificationError as error:
            yield error.message
        else:
            if not np.array_equal(found, 2*X):
                yield "a wrong result"


@pytest.mark.parametrize("fault", [x for x in FAULTS if x != "stores by all threads"])
def test_a_fault_leaves_a_trace(low: Lowered, fault: str) -> None:
    """Threads that store a box again write the same."""
    assert next(_traces(low, fault), None)


@pytest.mark.parametrize("cells", [1, 2, 3])
def test_waits_leave_as_many_groups_as_there_are_further_cells(cells: int) -> None:
    knl = doubled(cells)
    assert lk.verify(knl, full=True).proven
    text = lk.generate_code(knl, target=lk.CudaTarget("sm_90")).source
    assert f"wait_for_stores<{cells - 1}>();" in text
    for completion in ("last", "first"):
        np.testing.assert_array_equal(lk.emulate(knl, x=X, completion=completion).y, 2*X)


def test_the_block_waits_at_its_end_whatever_else_it_runs() -> None:
    """When the iterations of the last loop run is not known."""
    knl = lk.make_kernel(
        ["{[i, j]: 0<=i<8 and 0<=j<32}", "{[p, q]: 0<=p<8 and 0<=q<32}", "{[e]: 0<=e<count and e<100}"], """
        tile[i, j] = 2*x[i, j]  {id=fill}
        y[p, q] = tile[p, q]  {id=store, dep=fill}
        <> count = number[0]
        for e
            z[e] = 1
        end
        """, [lk.TemporaryVariable("tile", np.float32, (8, 32), address_space="shared"), *(
            lk.GlobalArg(x, np.float32, shape) for x, shape in (("x, y", (8, 32)), ("z", (100,)))),
            lk.GlobalArg("number", np.int32, (1,))], name="doubled")
    knl = lk.tensorize(lk.tag_inames(knl, "j:l.0"), "store", "tma.store", "p, q")
    report = lk.verify(knl, full=True)
    assert report.proven, report
    text = lk.generate_code(knl, target=lk.CudaTarget("sm_90")).source
    assert text.rstrip().endswith("end_store_group();\n    wait_for_stores<0>();\n}")
