"""cluster: blocks that share copies, proven and emulated at once; and a finding for each fault."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pymbolic.primitives as p
import pytest

import loopkit as lk
from loopkit.analysis import constructors
from loopkit.ast.nodes import Block, Function, If, Instruction, Node, Region, Scope, Sync
from loopkit.ast.walk import as_block, rewritten
from loopkit.expr.kinds import named_dtype
from loopkit.instructions.block_flag import BlockFlag
from loopkit.instructions.boxes import TmaBox
from loopkit.instructions.phases import ArrivePhase, StartPhases
from loopkit.instructions.tma import TmaLoadIssue
from loopkit.instructions.tma_multicast import TmaMulticastIssue
from loopkit.lowering.lowered import Lowered
from loopkit.lowering.pipeline import lowered_in_one_version
from loopkit.poly.affine import add, multiply, remainder
from loopkit.verification.validation import validate
from tests.cluster_kernels import product, rows, squares
from tests.golden_files import GoldenFiles
from tests.nvrtc import compile_cuda

BF16, RNG = named_dtype("bfloat16"), np.random.default_rng(0)
A, B = (RNG.integers(-4, 5, (n, 132)).astype(np.float32) for n in (300, 64))
SUMS = (A*np.tile(B, (5, 1))[:300]).sum(axis=1)
RANK = remainder(p.Variable("g.0"), 2)


def test_the_text(golden: GoldenFiles) -> None:
    knl = lk.cluster(rows(), "of_cluster", 2)
    source = lk.generate_code(knl, target=lk.CudaTarget("sm_90a")).source
    golden.check("rows_of_clusters.cu", source)
    compile_cuda(source, "sm_90a")


@pytest.mark.deep(every=3)
@pytest.mark.parametrize(("blocks", "by_tma"), [(2, False), (4, False), (2, True)])
def test_clusters_are_proven_and_right(blocks: int, *, by_tma: bool) -> None:
    """Also if consumers wait for each other before TMA stores the result."""
    knl = lk.cluster(rows(blocks, by_tma=by_tma), "of_cluster", blocks)
    assert lk.verify(knl, full=True).proven
    for completion, order in (("first", "backward"), ("last", "forward")):
        np.testing.assert_array_equal(lk.emulate(knl, a=A, b=B, completion=completion, order=order).s, SUMS)


@pytest.mark.deep(every=2)
@pytest.mark.parametrize(("blocks", "persistent"), [(2, 4), (4, 4)])
def test_blocks_of_several_places(blocks: int, persistent: int) -> None:
    """Each second round is backwards: a block then starts another share than before."""
    knl = lk.cluster(rows(blocks, persistent=persistent), "of_cluster", blocks)
    assert lk.verify(knl, full=True).proven
    for completion, order in (("first", "backward"), ("last", "forward")):
        np.testing.assert_array_equal(lk.emulate(knl, a=A, b=B, completion=completion, order=order).s, SUMS)


@pytest.mark.deep
def test_warpgroups_take_turns() -> None:
    knl = lk.take_turns(product(rows=128, persistent=4), "insn", "store_c")
    assert lk.verify(knl, full=True).proven
    a, b = (RNG.integers(-4, 5, shape).astype(np.float32) for shape in ((512, 72), (72, 136)))
    for completion, order in (("first", "backward"), ("last", "forward")):
        found = lk.emulate(knl, a=a.astype(BF16), b=b.astype(BF16), completion=completion, order=order,
                           target=lk.CudaTarget("sm_90a")).c
        np.testing.assert_array_equal(found.astype(np.float32), (a @ b).astype(BF16).astype(np.float32))


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("store", ["registers", "tma"])
def test_products_of_matrix_units(store: str) -> None:
    """Their descriptors have no room for the number of a block, which addresses have in a cluster."""
    source = lk.generate_code(product(2, store), target=lk.CudaTarget("sm_90a")).source
    assert "& 0x3ffff" in source
    assert "matrix_at<" not in source
    compile_cuda(source, "sm_90a")


def _body(change: Callable[[Node], Node]) -> Callable[[Function], Function]:
    return lambda function: replace(function, body=as_block(rewritten(function.body, change)))


def _sync(change: Callable[[Instruction], Instruction]) -> Callable[[Function], Function]:
    return _body(lambda node: replace(node, instructions=tuple(map(change, node.instructions)))
                 if isinstance(node, Sync) else node)


def _arrival(i: Instruction) -> Instruction:
    return replace(i, blocks=1) if isinstance(i, ArrivePhase) else i


def _start(i: Instruction) -> Instruction:
    return replace(i, arrivals=i.arrivals // 2) if isinstance(i, StartPhases) and i.empty else i


def _alone(node: Node) -> Node:
    return replace(node, scope=Scope.BLOCK) if isinstance(node, Sync) and any(
        isinstance(i, StartPhases) for i in node.instructions) else node


def _shared(change: Callable[[Region, TmaMulticastIssue], Node]) -> Callable[[Function], Function]:
    return _body(lambda node: change(node, i) if isinstance(node, Region) and isinstance(
        i := node.instruction, TmaMulticastIssue) else node)


def _box(change: Callable[[TmaBox], TmaBox]) -> Callable[[Function], Function]:
    return _shared(lambda node, i: replace(node, instruction=replace(i, box=change(i.box))))


def _in_first(node: Node) -> Node:
    return If(p.Comparison(RANK, "==", 0), Block((node,)))


FAULTS: dict[str, Callable[[Function], Function]] = {
    "arrivals in one block, and expected so": lambda function: _sync(lambda i: _arrival(_start(i)))(function),
    "arrivals in one block": _sync(_arrival), "half of the arrivals": _sync(_start),
    "mbarriers that start in one block": _body(_alone),
    "a copy of one block": _shared(lambda node, i: replace(node, instruction=TmaLoadIssue(
        i.instruction, i.box, i.of))),
    "a smaller share": _shared(lambda node, i: replace(node, instruction=replace(
        i, instruction=replace(i.instruction, blocks=4)))),
    "a row by the block": _box(lambda box: replace(box, start=(add(box.start[0], RANK), *box.start[1:]))),
    "a place by the block": _box(lambda box: replace(box, tile=p.Subscript(
        box.tile.aggregate, (RANK, *box.tile.index_tuple[1:])))),
    "the first block copies": _shared(lambda node, _: _in_first(node)),
    "the first block arrives": _body(lambda node: _in_first(node) if isinstance(node, Sync) and any(
        isinstance(i, ArrivePhase) for i in node.instructions) else node),
    "no cluster": lambda function: replace(function, cluster=1)}


@pytest.fixture(name="low", scope="module", params=[0, 4], ids=["one_place", "persistent"])
def _low(request: pytest.FixtureRequest) -> Lowered:
    low = lowered_in_one_version(lk.cluster(rows(persistent=request.param), "of_cluster", 2))
    assert validate(low) == ()
    return low


@pytest.mark.deep(every=20)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(low: Lowered, fault: str) -> None:
    """By the check of the program, and by a wrong sum or an error in the emulation."""
    (function,) = low.program.functions
    wrong = replace(low.program, functions=(FAULTS[fault](function),))
    assert wrong != low.program
    expected = {"half of the arrivals": "phase", "a copy of one block": "instruction"}.get(fault, "cluster")
    assert expected in {x.kind for x in validate(replace(low, program=wrong))}
    for completion in ("last", "first"):
        try:
            found = lk.emulate(low.kernel, a=A, b=B, completion=completion, program=wrong).s
        except lk.VerificationError:
            return
        if not np.array_equal(found, SUMS):
            return
    pytest.fail("no trace")


def test_a_block_that_ends_early_is_found(low: Lowered) -> None:
    (function,) = low.program.functions
    wrong = replace(low.program, functions=(replace(function, body=Block(function.body.children[:-1])),))
    assert [x.text for x in validate(replace(low, program=wrong))] == [
        "a block may end before other blocks copy to it, or arrive"]


def test_persistent_blocks_that_are_no_whole_clusters_are_found(low: Lowered) -> None:
    (launch,) = low.launches
    wrong = replace(launch, kernel=lk.set_options(launch.kernel, persistent=5))
    assert "blocks run places of the grid that are not whole clusters of 2" in {
        x.text for x in validate(replace(low, launches=(wrong,)))}


@pytest.mark.parametrize(("change", "text"), [
    (lambda box: replace(box, start=(add(box.start[0], p.Variable("acc_k")), *box.start[1:])), "a place by 'acc_k'"),
    (lambda box: replace(box, end=multiply(RANK, 64)), "may end elsewhere in another block")])
def test_a_share_that_depends_on_data_is_found(low: Lowered, change: Callable[[TmaBox], TmaBox], text: str) -> None:
    """Names of data stand for other values in each block, although they are equal names."""
    (function,) = low.program.functions
    wrong = replace(low.program, functions=(_box(change)(function),))
    assert any(text in x.text for x in validate(replace(low, program=wrong)))


def _with_flags(knl: lk.LoopKernel) -> lk.LoopKernel:
    """*knl*, whose temporary *v* has inter-block flags."""
    return constructors.annotated(knl, temporaries={
        **knl.temporaries, "v": replace(knl.temporaries["v"], instruction=BlockFlag())})


@pytest.mark.parametrize(("make", "reason", "hint"), [
    (lambda: lk.cluster(rows(), "of_cluster", 3), "A cluster has 2, 4 or 8 blocks, and not 3", "blocks=2"),
    (lambda: lk.cluster(rows(), "cluster", 2), "'cluster' is not the fastest iname on g.0", "tag the inner iname last"),
    (lambda: lk.cluster(rows(producer=False), "of_cluster", 2), "A producer is missing, for 'of_cluster'",
     "specialize_warps"),
    (lambda: lk.cluster(rows(whole=False), "of_cluster", 2),
     "runs in one block of a cluster and not in another one, for cluster = 0, of_cluster = 1", "pad_domain"),
    (lambda: lk.cluster(rows(persistent=5), "of_cluster", 2), "5 persistent blocks are not whole clusters of 2",
     "persistent(knl, ...) with a multiple of 2"),
    (lambda: lk.lower(lk.set_options(lk.cluster(rows(persistent=4), "of_cluster", 2), persistent_group=3)),
     "3 places of a group are not whole clusters of 2", "persistent(knl, ...) with a multiple of 2"),
    (lambda: lk.lower(lk.cluster(squares(others=3), "b", 2)), "The grid has max(3*n, 2*n) blocks along g.0",
     "give all statements a multiple of 2 values"),
    (lambda: lk.lower(lk.untag_inames(lk.cluster(rows(), "of_cluster", 2), "of_cluster")),
     "'cluster' is not the fastest iname on g.0", "tag the inner iname last"),
    (lambda: lk.lower(lk.cluster(rows(8, height=32, width=4), "of_cluster", 8)),
     "8 blocks cannot share the box of 'b_tile' with 32 x 4 elements", "use smaller clusters"),
    (lambda: lk.cluster(squares("top"), "b", 2), "copies no tile that is the same for all values of 'b'",
     "of which one does not depend on the iname"),
    (lambda: lk.cluster(squares(bound="top"), "b", 2),
     "'copy' is bounded by 'top', which may differ between the blocks of a cluster", "bound it by a size parameter"),
    (lambda: lk.lower(lk.cluster(squares(condition=" if 32*t + r < last else 0"), "b", 2)),
     "2 blocks cannot share a box of 'x' with an end of its own", "leave out cluster"),
    (lambda: lk.cluster(_with_flags(squares()), "b", 2), "Blocks that read 'v' of earlier blocks have no clusters",
     "leave out add_block_flags")])
def test_refused(make: Callable[[], object], reason: str, hint: str) -> None:
    with pytest.raises(lk.LoopkitError) as caught:
        make()
    assert reason in caught.value.message
    assert hint in (caught.value.hint or "")
