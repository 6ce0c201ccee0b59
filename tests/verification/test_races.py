"""Races within a block and across blocks: the witness is the smallest one, and it is a real one."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import loopkit as lk
from loopkit.analysis.constructors import with_dependences
from loopkit.analysis.dependences import with_assumed
from loopkit.kernel.tags import GroupTag, LocalTag
from loopkit.lowering.pipeline import lowered_once
from tests.lowering.kernels import F32, across_blocks, exchange, make, outside_axes, rows
from tests.verification.changed import report, without_barriers


def unchecked(knl: lk.LoopKernel, **tags: str) -> lk.LoopKernel:
    """*knl* with tags that nobody has checked."""
    parsed = {x: (GroupTag if t[0] == "g" else LocalTag)(int(t[2])) for x, t in tags.items()}
    return with_dependences(knl, lambda *_: (), tags={**knl.tags, **parsed})


def witness_of(found: lk.Report, check: str = "races") -> str:
    finding = next(f for f in found[check].findings if f.verdict is lk.Verdict.REFUTED)
    return finding.witness


def test_a_missing_barrier_has_the_smallest_witness() -> None:
    knl = lk.tag_inames(exchange(), "b:g.0, i:l.0, j:l.0")
    found = report(knl, without_barriers(knl))
    assert witness_of(found) == "with n = 1: write[b=0, i=0] writes t[0], which read[b=0, j=63] reads"
    assert witness_of(found, "barriers") == witness_of(found)
    assert str(found["races"].findings[0].text) == "Two threads access one element of 't' with no barrier between."


def test_two_threads_write_one_element() -> None:
    knl = unchecked(make("{[i]: 0<=i<64}", "y[i // 2] = x[i]", x=F32), i="l.0")
    found = lk.check_races(knl)
    assert not found.ok
    assert witness_of(found) == "insn[i=0] writes y[0], which insn[i=1] writes too"
    with pytest.raises(lk.VerificationError, match="at once") as caught:
        found.raise_if_refuted()
    assert isinstance(caught.value.witness, lk.Witness)
    assert caught.value.check == "races"
    assert lk.check_races(unchecked(make("{[i]: 0<=i<64}", "y[i] = x[i // 2]", x=F32), i="l.0")).proven


def test_updates_at_once() -> None:
    """Atomic updates by one operation are no race, others are, and so is a read that no barrier keeps apart."""
    text = "h[i // 2] = h[i // 2] + x[i] {id=add, atomic}"
    atomic = make("{[i]: 0<=i<64}", text, h=F32, x=F32)
    for axis in ("l.0", "g.0"):
        assert lk.check_races(unchecked(atomic, i=axis)).proven
        for other in ("h[i // 2] = max(h[i // 2], x[i]) {id=most, atomic}", "y[i] = h[63 - i] {id=out}"):
            found = lk.check_races(unchecked(make("{[i]: 0<=i<64}", f"{text}\n{other}", h=F32, x=F32), i=axis))
            assert not found.ok
            assert "add[i=" in witness_of(found)


def test_a_recurrence_over_threads() -> None:
    knl = unchecked(make("{[i]: 0<=i<64}", "a[i+1] = a[i] + b[i]", a=F32, b=F32), i="l.0")
    assert witness_of(lk.check_races(knl)) == "insn[i=0] writes a[1], which insn[i=1] reads"


def test_blocks_meet_in_global_memory() -> None:
    knl = unchecked(make("{[i]: 0<=i<n}", "a[i+1] = a[i] + b[i]", a=F32, b=F32), i="g.0")
    found = lk.check_races(knl)
    assert "in different blocks" in found["races"].findings[0].text
    assert witness_of(found).startswith("with n = 2: insn[i=0]")


def test_a_shared_tile_is_each_blocks_own() -> None:
    knl = lk.tag_inames(exchange(), "b:g.0, i:l.0, j:l.0")
    assert lk.check_races(knl).proven


def test_values_that_cross_blocks_take_two_launches() -> None:
    knl = across_blocks()
    for x in ("i", "j"):
        knl = lk.split_iname(knl, x, 16, outer_tag="g.0", inner_tag="l.0")
    assert len(lowered_once(knl).launches) == 2
    assert lk.check_races(knl).proven


def test_replicated_statements_do_not_race() -> None:
    knl = lk.tag_inames(outside_axes(), "i:g.0")
    knl = lk.split_iname(knl, "j", 16, inner_tag="l.0")
    assert lk.verify(knl).proven


def test_reductions_over_threads() -> None:
    knl = lk.tag_inames(rows(), "i:g.0")
    assert lk.verify(lk.split_iname(knl, "k", 40, inner_tag="l.0")).proven


def test_a_subscript_that_is_read_from_memory_is_undecided() -> None:
    knl = unchecked(make("{[i]: 0<=i<64}", "y[place[i]] = x[i]", x=F32, place=np.int32), i="l.0")
    found = lk.check_races(knl)
    assert found.verdict is lk.Verdict.UNDECIDED
    assert found.ok
    assert not found.proven
    assert found["races"].findings[0].text == (
        "whether two threads access one element of 'y' at once (insn, insn): a subscript of 'insn' is read from "
        "memory.")


def test_a_condition_that_is_read_from_memory_is_undecided() -> None:
    knl = unchecked(make("{[i]: 0<=i<64}", "y[i // 2] = x[i] {if=x[i] > 0}", x=F32), i="l.0")
    assert lk.check_races(knl).verdict is lk.Verdict.UNDECIDED
    assert lk.check_races(knl)["races"].findings[0].text == (
        "whether two threads access one element of 'y' at once (insn, insn): a condition of 'insn' is read from "
        "memory.")
    own = unchecked(make("{[i]: 0<=i<64}", "y[i] = x[i] {if=x[i] > 0}", x=F32), i="l.0")
    assert lk.check_races(own).proven


@pytest.mark.parametrize(("condition", "reason"), [
    ("i > 0.5", "compares real numbers"), ("i*i > 7", "is not affine"),
    ("alpha > 0", "depends on 'alpha', which is not an integer")])
def test_a_condition_that_is_not_read_from_memory(condition: str, reason: str) -> None:
    types = {"x": F32, "alpha": F32} if "alpha" in condition else {"x": F32}
    knl = unchecked(make("{[i]: 0<=i<64}", f"y[i // 2] = x[i] {{if={condition}}}", **types), i="l.0")
    assert lk.check_races(knl)["races"].findings[0].text == (
        f"whether two threads access one element of 'y' at once (insn, insn): a condition of 'insn' {reason}.")


def test_chunks_of_a_condition_race_as_it_does() -> None:
    """What is exact stays exact."""
    knl = make("{[i]: 0<=i<64}", "y[i // 2] = if(i < 63, x[i+1], 0) {if=i > 1}", x=F32)
    knl = unchecked(lk.chunk_iname(knl, "i", 5), i_inner="l.0")
    assert lk.check_races(knl).verdict is lk.Verdict.REFUTED


def test_two_warps_of_a_block() -> None:
    """Threads 0 to 31 exchange among themselves: a barrier of each warp is enough, and between two warps it is not."""
    def swapped(length: int) -> lk.LoopKernel:
        return lk.tag_inames(make(f"{{[b,i,j]: 0<=b<n and 0<=i,j<{length}}}", """
            for b
                for i
                    <> t[i] = 2*x[b,i] {id=write}
                end
                for j
                    y[b,j] = t[j + 1 - 2*(j % 2)] {id=read}
                end
            end
            """, x=F32), "b:g.0, i:l.0, j:l.0")
    knl = swapped(128)
    assert "warp barrier" in str(lk.lower(knl, stop="barriers"))
    assert lk.verify(knl)["barriers"].summary == "1, each needed"
    assert not report(knl, without_barriers(knl)).ok


# What the caller answers for

def scattered() -> lk.LoopKernel:
    return make("{[i]: 0<=i<64}", "y[place[i]] = x[i]", x=F32, place=np.int32)


def test_what_was_assumed_is_not_asked_again() -> None:
    knl = lk.tag_inames(scattered(), "i:l.0", assume="place is a permutation")
    found = lk.verify(knl)
    assert found["races"].verdict is lk.Verdict.ASSUMED
    assert found.ok
    head = str(lk.generate_code(knl)).split("\n\n")[0]
    assert "no races" not in head
    assert "place is a permutation" in " ".join(head.replace("//", "").split())


def test_what_is_unsafe_is_not_refuted_again() -> None:
    knl = lk.tag_inames(make("{[i]: 0<=i<64}", "y[i // 2] = x[i]", x=F32), "i:l.0", unsafe=True)
    assert lk.check_races(knl).verdict is lk.Verdict.ASSUMED
    assert "// unsafe: " in str(lk.generate_code(knl))


def test_an_obligation_covers_no_other_race() -> None:
    plain = make("{[i,j]: 0<=i<64 and 0<=j<64}", "y[i // 2] = x[i] {id=a}\nz[j // 2] = x[j] {id=b}", x=F32)
    knl = lk.tag_inames(plain, "i:l.0", unsafe=True)
    lowered = lowered_once(unchecked(knl, j="l.0"))
    (launch,) = lowered.launches
    bound = with_dependences(launch.kernel, lambda *_: with_assumed(knl))     # of these, only those of a were doubted
    findings = report(knl, replace(lowered, launches=(replace(launch, kernel=bound),)))["races"].findings
    assert {f.verdict for f in findings} == {lk.Verdict.ASSUMED, lk.Verdict.REFUTED}
    assert "'z'" in next(f.text for f in findings if f.verdict is lk.Verdict.REFUTED)
