"""Waits for asynchronous copies: only the threads that need it wait for each other there."""
from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

import loopkit as lk
from loopkit.ast.nodes import Scope
from loopkit.instructions.groups import commits, group_instructions, pending
from loopkit.kernel.tree import Barrier
from loopkit.lowering.lowered import Lowered
from loopkit.lowering.pipeline import lowered_once
from loopkit.verification.validation import validate
from tests.lowering.waiting import WAITING, Waiting
from tests.nvrtc import compile_cuda
from tests.property.machine import MachineError, execute
from tests.transform.same import assert_same
from tests.verification.changed import built, report, with_one_changed

#: What threads do with each other after a wait.
TEXT = {"thread": None, "warp": "__syncwarp();", "block": "__syncthreads();"}


def syncs(source: str) -> Counter[str]:
    return Counter(line.strip() for line in source.splitlines() if line.lstrip().startswith("__sync"))


def run(way: Waiting, lowered: Lowered, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The results of a machine in which copies are as late as may be, and those of a plain program."""
    rng = np.random.default_rng(n)
    given = {x: rng.integers(-9, 9, (n, 64 if x == "b" else 64*way.width)) for x in lowered.kernel.array_args}
    plain = lk.lower(way.plain)
    got, want = (execute(x, {k: v.copy() for k, v in given.items()}, {"n": n}, random.Random(n))["c"]
                 for x in (lowered, plain))
    return got, want


# Right waits

@pytest.mark.deep
@pytest.mark.parametrize("name", WAITING)
def test_no_more_threads_wait_for_each_other_than_must(name: str) -> None:
    way = WAITING[name]
    source = lk.generate_code(way.make(), target=lk.CudaTarget("sm_80")).source
    assert source.count("wait_for_copies<") == 2
    text = TEXT[way.threads]
    assert syncs(source) == ({} if text is None else {text: 2})
    compile_cuda(source, "sm_80")
    found = lk.verify(way.make(), full=True)
    assert found.verdict is lk.Verdict.PROVEN
    assert found["barriers"].summary == ("none" if text is None else "2, each needed")
    assert not any("not needed" in note for note in found["barriers"].notes)


@pytest.mark.deep
@pytest.mark.parametrize("name", WAITING)
def test_the_results_are_right(name: str) -> None:
    way = WAITING[name]
    lowered = lowered_once(way.make())
    for n in (0, 1, 2, 5):
        got, want = run(way, lowered, n)
        assert (got == want).all()
        assert_same(way.plain, way.make(), n=n)


def read_by(use: str, domains: Sequence[str] = (), tags: str = "") -> lk.LoopKernel:
    """Each of 64 threads copies an element an iteration, and then runs *use* as thread ``j``."""
    knl = lk.make_kernel(["{[k, i, j]: 0<=k<n and 0<=i,j<64}", *domains], f"""
        for k
            <> t[i] = a[k, i]  {{id=copy, async}}
            {use}
        end""", assumptions="n>=0")
    knl = lk.tag_inames(lk.add_dtypes(knl, {"a": np.float32}), f"i:l.0, j:l.0{tags}")
    return lk.set_temporary_address_space(knl, "t", "local")


def test_a_block_of_one_thread() -> None:
    knl = lk.untag_inames(read_by("c[k, j] = t[63 - j]"), ["i", "j"])
    source = lk.generate_code(knl, target=lk.CudaTarget("sm_80")).source
    assert "wait_for_copies<0>();" in source
    assert not syncs(source)


def test_a_thread_waits_before_it_overwrites_what_it_copies() -> None:
    knl = read_by("a[k, j] = t[j]*2  {id=spoil}")
    source = lk.generate_code(knl, target=lk.CudaTarget("sm_80")).source
    assert source.index("copy_async<4>(&t") < source.index("wait_for_copies<0>();\n") < source.index("// spoil")
    assert not syncs(source)
    assert lk.verify(knl, full=True).proven


def test_nosync_holds_where_a_thread_waits_by_itself() -> None:
    def claims(read: str) -> lk.LoopKernel:
        return read_by(f"c[k, j] = t[{read}]  {{id=use, nosync=copy}}")
    assert not syncs(lk.generate_code(claims("j"), target="cuda").source)
    with pytest.raises(lk.IllegalTransformError, match="need no barrier, but threads access 't' in conflict"):
        lk.lower(claims("63 - j"))


def test_a_thread_that_must_come_behind_a_copy_waits_for_it() -> None:
    """Threads wait by themselves where ``dep=`` joins statements of the same inames, else with all of the block."""
    def asked(inames: str, at: str) -> lk.LoopKernel:
        knl = lk.make_kernel("{[k, i, j]: 0<=k<n and 0<=i,j<64}", f"""
            for k
                <> t[i] = a[k, i]  {{id=copy, async}}
                d[k, {at}] = 1  {{id=after, dep=copy}}
                c[k, i] = t[i]  {{id=use}}
            end""", assumptions="n>=0")
        knl = lk.tag_inames(lk.add_dtypes(knl, {"a": np.float32}), inames)
        return lk.set_temporary_address_space(knl, "t", "local")
    assert not syncs(lk.generate_code(asked("i:l.0", "i"), target="cuda").source)
    found = lk.verify(asked("i:l.0, j:l.0", "j"), full=True)
    assert found.verdict is lk.Verdict.PROVEN
    assert found["barriers"].notes == (
        "kernel: commit group, wait for all groups, barrier in the loop over 'k'",
        "  dep=: copy is done, after starts")


def test_where_groups_cannot_be_counted() -> None:
    """One statement runs in the first block only, so that groups are not numbered alike in all blocks."""
    def beside(read: str) -> lk.LoopKernel:
        knl = lk.make_kernel(["{[b, k, i, j]: 0<=b<m and 0<=k<n and 0<=i,j<64}", "{[q]: 0<=q<64}"], f"""
            for b, k
                <> t[i] = a[b, k, i]  {{id=copy, async}}
                c[b, k, j] = t[{read}]  {{id=use}}
            end
            d[q] = 1""", assumptions="n>=0 and m>=0")
        knl = lk.tag_inames(lk.add_dtypes(knl, {"a": np.float32}), "b:g.0, i:l.0, j:l.0, q:l.0")
        return lk.set_temporary_address_space(knl, "t", "local")
    for read, text in (("j", None), ("j + 1 - 2*(j % 2)", "__syncwarp();"), ("63 - j", "__syncthreads();")):
        knl = beside(read)
        lowered = lowered_once(knl)
        assert len(lowered.launches) == 1
        assert (syncs(lk.generate_code(knl, target="cuda").source).keys()) == (set() if text is None else {text})
        assert lk.verify(knl, full=True).proven
        for wrong in with_one_changed(lowered, weaker):
            assert report(knl, wrong)["races"].verdict is lk.Verdict.REFUTED


# Wrong ones

def weaker(wait: Barrier) -> Iterator[Barrier]:
    """A wait after which fewer threads wait for each other, or that is no wait."""
    ends, left = commits(wait.instructions), pending(wait.instructions)
    if left is not None:
        yield replace(wait, instructions=group_instructions(commit=ends, leaving=None))
        yield replace(wait, instructions=group_instructions(commit=ends, leaving=left + 1))
        yield from (replace(wait, scope=scope) for scope in (Scope.THREAD, Scope.WARP) if scope < wait.scope)


@pytest.mark.deep(every=11)
@pytest.mark.parametrize("name", WAITING)
def test_a_weaker_wait_is_found(name: str) -> None:
    """By the check of the tree, by that of the program, and by a machine."""
    way = WAITING[name]
    for lowered in with_one_changed(lowered_once(way.make()), weaker):
        found = report(way.make(), lowered)
        assert found["races"].verdict is lk.Verdict.REFUTED, lowered
        assert found["order"].verdict is lk.Verdict.PROVEN
        program = built(lowered)
        assert {f.kind for f in validate(program)} <= {"group", "barrier"} != set()
        assert any(breaks(way, program, n) for n in range(8))


def breaks(way: Waiting, lowered: Lowered, n: int) -> bool:
    try:
        run(way, lowered, n)
    except MachineError:
        return True
    return False
