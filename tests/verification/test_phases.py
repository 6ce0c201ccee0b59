"""Phases of copies by TMA: proofs for rings of each length, and a finding for each fault in a wait or a copy."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pymbolic.primitives as p
import pytest

import loopkit as lk
from loopkit.ast.nodes import Block, If, Node, Region, Scope, Sync
from loopkit.ast.walk import as_block, nodes_in, rewritten
from loopkit.instructions.nests import statement_of
from loopkit.instructions.phases import StartPhases, WaitPhase
from loopkit.instructions.tma import TmaLoadIssue
from loopkit.lowering.lowered import Lowered
from loopkit.lowering.pipeline import lowered_in_one_version
from loopkit.poly.affine import add, remainder
from loopkit.verification.validation import validate
from tests.tma_kernels import box, product, rowdot, rowsum
from tests.verification.changed import without

Change = Callable[[Node], Node]


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_a_ring_is_proven(stages: int) -> None:
    report = lk.verify(rowsum(stages), full=True)
    assert report.proven, report


def test_a_product_is_proven() -> None:
    report = lk.verify(product(3, b_transposed=False))
    assert report.proven, report


def test_a_box_without_loops_around_it_is_proven() -> None:
    report = lk.verify(box((4, 6, 16)), full=True)
    assert report.proven, report


def test_a_block_of_one_thread_is_proven() -> None:
    report = lk.verify(lk.untag_inames(box((4, 6, 16)), "j2"), full=True)
    assert report.proven, report


@pytest.mark.parametrize(("stages", "rings"), [
    ((3, 3), {"tiles_full": 2}), ((3, 2), {"a_tile_full": 1, "b_tile_full": 1})])
def test_rings_of_several_temporaries(stages: tuple[int, int], rings: dict[str, int]) -> None:
    """Temporaries share a ring if they are copied and waited for at the same times."""
    knl = rowdot(*stages)
    report = lk.verify(knl, full=True)
    assert report.proven, report
    (function,) = lk.lower(knl).program.functions
    syncs = [i for x in nodes_in(function.body) if isinstance(x, Sync) for i in x.instructions]
    assert {i.ring: i.arrivals for i in syncs if isinstance(i, StartPhases)} == rings
    assert [i.of.ring for i in syncs if isinstance(i, WaitPhase)] == [*rings]


def _changed_sync(change: Callable[[Sync], Node | None]) -> Change:
    return lambda node: (change(node) or node) if isinstance(node, Sync) else node


def _wait(of: Callable[[WaitPhase], WaitPhase]) -> Change:
    return _changed_sync(lambda node: replace(node, instructions=tuple(
        of(i) if isinstance(i, WaitPhase) else i for i in node.instructions)))


def _start(of: Callable[[StartPhases], StartPhases]) -> Change:
    return _changed_sync(lambda node: replace(node, instructions=tuple(
        of(i) if isinstance(i, StartPhases) else i for i in node.instructions)))


def _copy(of: Callable[[TmaLoadIssue], TmaLoadIssue], last: str = "") -> Change:
    """A changed copy: all, or the one whose statement ends with *last*."""
    return _copied(lambda node, issue: replace(node, instruction=of(issue)), last)


def _copied(change: Callable[[Region, TmaLoadIssue], Node], last: str) -> Change:
    return lambda node: change(node, node.instruction) if isinstance(node, Region) and isinstance(
        node.instruction, TmaLoadIssue) and statement_of(node).endswith(last) else node


def _shifted(i: TmaLoadIssue | WaitPhase, by: int) -> TmaLoadIssue | WaitPhase:
    return replace(i, of=replace(i.of, number=add(i.of.number, by)))


def _behind_the_reader(node: Node) -> Node:
    """Each wait, after the region that follows it."""
    if not isinstance(node, Block):
        return node
    children = list(node.children)
    for k, x in enumerate(children[:-1]):
        if isinstance(x, Sync) and any(isinstance(i, WaitPhase) for i in x.instructions):
            children[k], children[k + 1] = children[k + 1], x
            break
    return Block(tuple(children))


def _moved(issue: TmaLoadIssue) -> TmaLoadIssue:
    slot, *others = issue.box.tile.index_tuple
    return replace(issue, box=replace(issue.box, tile=p.Subscript(issue.box.tile.aggregate, (add(slot, 1), *others))))


FAULTS: dict[str, Change] = {
    "the wait deleted": without(WaitPhase),
    "the wait moved": _behind_the_reader,
    "the wait for the next phase": _wait(lambda w: _shifted(w, 1)),
    "the wait for the phase before": _wait(lambda w: _shifted(w, -1)),
    "the other parity": _wait(lambda w: _shifted(w, 3)),
    # a thread that is two phases behind takes one for the other
    "the wait in every other iteration": _changed_sync(lambda node: If(p.Comparison(
        remainder(p.Variable("k_outer"), 2), "==", 0), Block((node,))) if any(
        isinstance(i, WaitPhase) for i in node.instructions) else None),
    "the wait with fewer slots": _wait(lambda w: replace(w, of=replace(w.of, slots=2))),
    "the wait for another ring": _wait(lambda w: replace(w, of=replace(w.of, ring="other"))),
    "the start deleted": without(StartPhases),
    "the start without a barrier": _changed_sync(lambda node: replace(node, scope=Scope.THREAD) if any(
        isinstance(i, StartPhases) for i in node.instructions) else None),
    "one slot fewer": _start(lambda s: replace(s, slots=s.slots - 1)),
    "one copy more": _start(lambda s: replace(s, arrivals=s.arrivals + 1)),
    "a copy of the next phase": _copy(lambda i: _shifted(i, 1), "tile_rule"),
    "first copies of the next phase": _copy(lambda i: _shifted(i, 1), "first"),
    "copies by all threads": lambda node: node.then if isinstance(node, If) and node.condition == p.Comparison(
        p.Variable("l.0"), "==", 0) else node,
    "a copy from another row": _copy(lambda i: replace(
        i, box=replace(i.box, start=(add(i.box.start[0], 1), *i.box.start[1:])))),
    "a copy to another cell": _copy(_moved, "tile_rule"),
    "a smaller box": _copy(lambda i: replace(
        i, box=replace(i.box, tensor_map=replace(i.box.tensor_map, box=(32, 32))))),
    "the barrier deleted": lambda node: Block(tuple(x for x in node.children if not (isinstance(
        x, Sync) and x.scope is Scope.BLOCK and not x.instructions))) if isinstance(node, Block) else node}


#: Faults in one of two temporaries that share a ring.
FAULTS_OF_ONE: dict[str, Change] = {
    "copies of the next phase": _copy(lambda i: _shifted(i, 1), "b_tile_rule"),
    "first copies of the next phase": _copy(lambda i: _shifted(i, 1), "b_tile_rule_first"),
    "first copies deleted": _copied(lambda *_: Block(()), "b_tile_rule_first"),
    "copies for another ring": _copy(lambda i: replace(i, of=replace(i.of, ring="other")), "b_tile_rule"),
    "one copy fewer": _start(lambda s: replace(s, arrivals=s.arrivals - 1))}


def _proven(knl: lk.LoopKernel) -> Lowered:
    low = lowered_in_one_version(knl)
    assert validate(low) == ()
    return low


@pytest.fixture(name="ring", scope="module")
def _ring() -> Lowered:
    return _proven(rowsum(3))


@pytest.fixture(name="shared_ring", scope="module")
def _shared_ring() -> Lowered:
    return _proven(rowdot(3, 3))


def _find(low: Lowered, fault: Change) -> None:
    (function,) = low.program.functions
    wrong = replace(function, body=as_block(rewritten(function.body, fault)))
    assert wrong.body != function.body
    found = validate(replace(low, program=replace(low.program, functions=(wrong,))))
    assert found
    assert not any(m.kind == "undecided" for m in found)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(ring: Lowered, fault: str) -> None:
    _find(ring, FAULTS[fault])


@pytest.mark.parametrize("fault", FAULTS_OF_ONE)
def test_a_fault_in_a_shared_ring_is_found(shared_ring: Lowered, fault: str) -> None:
    _find(shared_ring, FAULTS_OF_ONE[fault])
