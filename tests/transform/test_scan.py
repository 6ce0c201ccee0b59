"""realize_scan: what is a scan computes the same bit for bit; what is none is refused at the smallest sizes."""
from __future__ import annotations

import random
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

import loopkit as lk
from loopkit.verification.validation import validate
from tests.deep import amount
from tests.lowering.kernels import make
from tests.property.machine import execute
from tests.property.scans import scans
from tests.targets import WarpsOf
from tests.transform.same import assert_same, step

F32 = np.float32
a_few = settings(max_examples=amount(25), deadline=None, database=None, derandomize=True, phases=[Phase.generate],
                 suppress_health_check=list(HealthCheck))
SCAN = "[i] -> {[j]: 0<=j<=i}"


def prefix(domain: str, text: str = "y[i] = sum(j, x[j])", rows: str = "{[i]: 0<=i<n}", **kwargs: Any) -> lk.LoopKernel:
    return lk.add_dtypes(lk.make_kernel([rows, domain], text, **kwargs), {"x": F32})


# What is a scan

@a_few
@given(scans())
def test_in_order(knl: lk.LoopKernel) -> None:
    """Every bound that moves, by one or more, with whatever is around it; also operations that have an order."""
    found = lk.realize_scan(knl, "j", "i")
    assert not found.reductions
    for n, m in ((0, 0), (1, 1), (5, 2), (9, 9)):
        assert_same(knl, found, n=n, m=m)
    assert lk.verify(found).verdict is lk.Verdict.PROVEN


@a_few
@given(scans(ends=("i",)), st.integers(1, 5))
def test_in_two_levels(knl: lk.LoopKernel, length: int) -> None:
    """Blocks that the sweep fills or not, that begin below 0, and that hold no operand."""
    if not knl.operation(next(iter(knl.reductions.values())).operation).reorderable:
        with pytest.raises(lk.PreconditionError, match="'f' must combine its operands in order"):
            lk.make_two_level_scan(knl, "S", "j", "i", length)
        return
    found = lk.make_two_level_scan(knl, "S", "j", "i", length)
    for n, m in ((0, 0), (1, 1), (5, 2), (9, 9)):
        assert_same(knl, found, n=n, m=m)
    assert lk.verify(found).verdict is lk.Verdict.PROVEN


@pytest.mark.deep
def test_blocks_over_a_grid() -> None:
    """The results of blocks, a scan over these, and a scan in each block: three launches."""
    knl = prefix(SCAN, "y[i] = sum(j, x[j]) {id=S}")
    found = step(knl, lk.make_two_level_scan, "S", "j", "i", 8, outer_tag="g.0", inner_tag="l.0")
    found = lk.tag_inames(found, "j_part: l.0")
    for x in ("j", "j_before"):
        found = lk.realize_scan(found, x)
    assert len(lk.generate_code(found, target="cuda").kernels) == 3
    assert lk.verify(found).verdict is lk.Verdict.PROVEN
    for n in (1, 8, 77):
        assert_same(knl, found, n=n)


def test_blocks_of_operands_that_come_too_late() -> None:
    knl = prefix(SCAN, "for i\n<> t[i] = 2*x[i]\ny[i] = sum(j, t[j]) {id=S}\nend")
    with pytest.raises(lk.IllegalTransformError, match="a value's reader before its writer"):
        lk.make_two_level_scan(knl, "S", "j", "i", 8)
    apart = lk.distribute_loop(knl, "i", "S")
    assert_same(knl, lk.make_two_level_scan(apart, "S", "j", "i", 8), n=19)


def test_what_it_makes() -> None:
    knl = prefix(SCAN)
    assert step(knl, lk.realize_scan, "j").statements_text == """\
<> acc_j = 0  {id=insn.j.init}
for i
  acc_j = acc_j + x[i]  {id=insn.j.update}
  y[i] = acc_j  {id=insn}
end"""


def test_an_operand_for_the_next_iteration_is_combined_behind() -> None:
    """So that what is computed in an iteration needs no array of all."""
    knl = prefix("[i] -> {[j]: 0<=j<i}", "for i\n<> t[i] = 2*x[i]\ny[i] = sum(j, t[j])\nend")
    found = lk.contract(lk.realize_scan(knl, "j"), "t", "i")
    assert list(found.statement_by_id) == ["insn_0.j.init", "insn", "insn_0", "insn_0.j.update"]
    assert_same(knl, found, n=7)


def test_not_behind_where_the_operand_comes_later() -> None:
    knl = prefix("[i] -> {[j]: 0<=j<i}", "for i\n<> t[i-1] = 2*x[i]\ny[i] = sum(j, t[j])\nend", "{[i]: 1<=i<n}")
    found = lk.realize_scan(knl, "j")
    assert list(found.statement_by_id)[-2:] == ["insn_0.j.update", "insn_0"]
    assert_same(knl, found, n=7)


def test_each_row_has_a_scan_of_its_own() -> None:
    """Whether the rows are outside the sweep, or inside it, or threads."""
    knl = make(["{[i, k]: 0<=i<n and 0<=k<8}", SCAN], "for i, k\ny[i, k] = sum(j, x[j, k])\nend", x=F32)
    found = lk.realize_scan(knl, "j")
    assert "acc_j[k] = acc_j[k] + x[i, k]" in found.statements_text
    assert_same(knl, found, n=5)
    threads = lk.realize_scan(lk.tag_inames(knl, "k:l.0"), "j")
    assert "acc_j = acc_j + x[i, k]" in threads.statements_text
    assert_same(knl, threads, n=5)


@pytest.mark.parametrize("tags", ["i:l.0, r:g.0", "i:l.0"])
def test_rows_inside_the_loop_over_threads(tags: str) -> None:
    """Parallel inames have no place in the order: each row has a scan, wherever its loop stands."""
    text = "for i\n<> w = 2*z[i]\nfor r\ny[r, i] = w + sum(j, x[r, j])\nend\nend"
    knl = make(["{[i, r]: 0<=r<3 and 0<=i<40}", SCAN], text, x=F32, z=F32)
    found = lk.realize_scan(lk.tag_inames(knl, tags), "j")
    assert not validate(lk.lower(found))
    assert_same(knl, found)


def test_within_names_those_that_are_meant() -> None:
    knl = prefix(SCAN, "y[i] = sum(j, x[j]) {id=A}\nz[i] = sum(j, 2*x[j]) {id=B}")
    found = lk.realize_scan(knl, "j", within="B")
    assert [r.final for r in found.reductions.values()] == ["A"]
    assert_same(knl, lk.realize_scan(found, "j"), n=6)


# Over threads

LARGEST = lk.ReductionOperation("largest", "if(a > b, a, b)", neutral=-100, reorderable=True)


@settings(a_few, max_examples=amount(14))
@given(st.data())
def test_over_threads(data: Any) -> None:
    """Lengths around those of warps, several rows a block, on each axis: as C and a machine of threads run it."""
    warp, length, shift = (data.draw(st.sampled_from(x)) for x in (
        (2, 4, 32), (1, 2, 3, 4, 5, 8, 12, 33), (0, -1, -1, -2)))
    rows, row, along = data.draw(st.sampled_from([(1, "l.1", "l.0"), (2, "l.1", "l.0"), (2, "l.0", "l.1"),
                                                  (3, "l.0", "l.0")]))
    operation = data.draw(st.sampled_from(("sum", "max", "product", "largest")))
    own = data.draw(st.sampled_from(("t[{}]", "x[b,r,{}]")))
    plain = lk.add_dtypes(lk.make_kernel(
        [f"{{[b, r, i]: 0<=b<2 and 0<=r<{rows} and 0<=i<{length} and i<n}}", f"[i] -> {{[j]: 0<=j<=i + {shift}}}"],
        f"""
        for b, r
            for i
                <> t[i] = 3 - x[b, r, i]
            end
            for i
                y[b, r, i] = {operation}(j, {own.format("j")})
            end
        end
        """, assumptions="n>=1", reductions=[LARGEST]), {"x": np.int64})
    mapped = lk.realize_scan(lk.tag_inames(plain, f"b:g.0, r:{row}, i:{along}"), "j", "i")
    lowered = lk.lower(mapped, WarpsOf(warp))
    assert not validate(lowered)
    assert lk.verify(mapped, WarpsOf(warp)).ok
    for n in {1, length}:
        x = np.random.default_rng(n).integers(-4, 5, (2, rows, n))
        want, = lk.compile(plain, "c")(x=x, n=n)
        got = execute(lowered, {"x": x, "y": np.zeros_like(x)}, {"n": n}, random.Random(n))
        np.testing.assert_array_equal(got["y"], want)
    assert_same(plain, mapped, n=length)


# What is none

@pytest.mark.parametrize(("domain", "why"), [
    ("{[j]: 0<=j<n}", "no iname moves its bounds"),
    ("[i] -> {[j]: i<=j<n}", "with n = 2, insn[i=1] leaves out the operand at j = 0, which the one before it has"),
    ("[i] -> {[j]: i-2<=j<=i}", "with n = 2, insn[i=1] leaves out the operand at j = -2"),
    ("[i] -> {[j]: n-i<=j<n}", "the new operand of insn[i=2] at j = 1 is not behind those that the one before it has")])
def test_no_scan(domain: str, why: str) -> None:
    with pytest.raises(lk.PreconditionError) as refusal:
        lk.realize_scan(prefix(domain), "j")
    assert why in str(refusal.value)
    assert refusal.value.hint


def refused(text: str, why: str, domain: str = SCAN, kind: type[lk.LoopkitError] = lk.PreconditionError,
            rows: str = "{[i]: 0<=i<n}", **kwargs: Any) -> None:
    with pytest.raises(kind) as refusal:
        lk.realize_scan(prefix(domain, text, rows), "j", **kwargs)
    assert why in str(refusal.value)


def test_operands_that_change() -> None:
    refused("y[i] = sum(j, i*x[j])", "its operand depends on 'i' itself")
    refused("for i\ny[i] = sum(j, x[j])\nx[i] = 0 {id=W}\nend",
            "with n = 2, W[i=0] writes an element of 'x' that insn.j.update[i=1, j=0] reads, and other")
    refused("x[i] = sum(j, x[j])", "insn[i=0] writes an element of 'x' that insn.j.update[i=1, j=0] reads")
    refused("for i\n<> t[0] = x[i] {id=W}\ny[i] = sum(j, t[0*j])\nend",
            "W[i=0] writes an element of 't' that insn.j.update[i=0, j=0] reads, and other")
    refused("for i\ny[i] = sum(j, x[j])\nx[p[i]] = 0\nend", "cannot be decided", kind=lk.UndecidedError)


def test_a_sweep_with_a_stride() -> None:
    knl = make("{[i, j]: 1<=i<n and i mod 3 = 1 and 0<=j<=i}", "y[i] = sum(j, x[j])", x=F32)
    with pytest.raises(lk.PreconditionError, match=r"affine_map_inames\(knl, 'i', 'i_new', 'i = 3\*i_new \+ 1'\)"):
        lk.realize_scan(knl, "j")
    assert_same(knl, lk.realize_scan(lk.affine_map_inames(knl, "i", "i_new", "i = 3*i_new + 1"), "j"), n=8)


def test_sweeps_that_are_none() -> None:
    refused("y[i] = sum(j, x[j])", "there is a gap before insn[i=3], where 'i' starts again",
            rows="{[i]: 0<=i<n and i%3=0}", domain="[i] -> {[j]: 0<=j<=i}")
    with pytest.raises(lk.PreconditionError, match="move with several inames"):
        lk.realize_scan(make(["{[i, k]: 0<=i,k<n}", "[i, k] -> {[j]: 0<=j<=i + k}"], "y[i, k] = sum(j, x[j])", x=F32),
                        "j")
    with pytest.raises(lk.UnknownNameError):
        lk.realize_scan(prefix(SCAN), "k")
    recurrence = lk.make_kernel("{[k]: 1<=k<n}", "y[k] = y[k-1] + x[k]")
    with pytest.raises(lk.PreconditionError, match=r"No reduction runs over 'k'.*\n.* sum\(k_0, x\[k_0\]\) over"):
        lk.realize_scan(recurrence, "k")
    with pytest.raises(lk.UnknownNameError):
        lk.realize_scan(prefix(SCAN), "j", "k")


def test_cells_of_an_accumulator() -> None:
    knl = lk.privatize(prefix(SCAN, rows="{[i]: 0<=i<16}"), "i")
    with pytest.raises(lk.PreconditionError, match="'acc_j' of 'insn' has a cell for each iteration"):
        lk.realize_scan(knl, "j")


def test_bounds_from_memory() -> None:
    refused("for i\n<int32> hi = p[i]\ny[i] = sum(j, x[j])\nend", "cannot be decided",
            domain="[i, hi] -> {[j]: 0<=j<=i and j<hi}", kind=lk.UndecidedError)


@pytest.mark.parametrize("bound", ["0<=j<=2*i", "0<=2*j<=i", "0<=j<=i+1"])
def test_several_new_operands(bound: str) -> None:
    """Each thread combines its own new operands before the threads share them; blocks have no such scan."""
    knl = lk.fix_parameters(prefix(f"[i] -> {{[j]: {bound}}}", "y[i] = sum(j, x[j]) {id=S}"), n=11)
    with pytest.raises(lk.PreconditionError, match="cannot have two levels"):
        lk.make_two_level_scan(knl, "S", "j", "i", 4)
    lowered = lk.lower(lk.realize_scan(lk.tag_inames(knl, "i:l.0"), "j"))
    x = np.arange(1, 40)
    got = execute(lowered, {"x": x, "y": np.zeros(11, np.int64)}, {}, random.Random(0))
    last = {"0<=j<=2*i": lambda i: 2*i, "0<=2*j<=i": lambda i: i//2, "0<=j<=i+1": lambda i: i + 1}[bound]
    assert got["y"].tolist() == [x[:last(i) + 1].sum() for i in range(11)]


@pytest.mark.parametrize("tag", ["for", "l.0"])
def test_a_sweep_of_one_iteration(tag: str) -> None:
    knl = lk.realize_scan(lk.tag_inames(lk.fix_parameters(prefix(SCAN), n=1), {"i": tag}), "j")
    assert lk.verify(knl).verdict is lk.Verdict.PROVEN


def test_blocks_cannot_wait() -> None:
    knl = lk.split_iname(prefix(SCAN), "i", 4, inner_tag="l.0")
    with pytest.raises(lk.PreconditionError, match="move with several inames") as caught:
        lk.realize_scan(knl, "j")
    assert "make_two_level_scan(knl, 'insn', 'j', ...) instead of the split" in str(caught.value)
    with pytest.raises(lk.PreconditionError, match=r"'i', which has the tag 'g\.0': the results of a block depend"):
        lk.realize_scan(lk.tag_inames(prefix(SCAN), "i:g.0"), "j")


def test_threads_ask_for_a_free_order() -> None:
    knl = lk.make_kernel(["{[i]: 0<=i<8}", SCAN], "y[i] = f(j, x[j])",
                         reductions=[lk.ReductionOperation("f", "2*a + b")])
    knl = lk.tag_inames(lk.add_dtypes(knl, {"x": F32}), "i:l.0")
    with pytest.raises(lk.PreconditionError, match="'f' must combine its operands in order"):
        lk.realize_scan(knl, "j")


def test_what_later_steps_make_of_it() -> None:
    """A scan survives a new name of its sweep and the loss of its threads, but not a split of its sweep."""
    plain = prefix(SCAN, rows="{[i]: 0<=i<16}")
    knl = lk.realize_scan(lk.tag_inames(plain, "i:l.0"), "j")
    assert "y[i] = sum(j, x[j])  {id=insn, scan=j}" in knl.statements_text
    renamed = lk.rename_iname(knl, "i", "k")
    assert "by shuffles" in str(lk.generate_code(renamed, target="cuda"))
    assert_same(plain, renamed)
    assert_same(plain, lk.untag_inames(knl, "i"))
    with pytest.raises(lk.PreconditionError, match="is no longer an iname of it"):
        lk.lower(lk.split_iname(lk.untag_inames(knl, "i"), "i", 4, inner_tag="l.0"))


def test_within_without_such_a_reduction() -> None:
    refused("y[i] = sum(j, x[j])\nz[i] = 2*x[i] {id=B}", "has a reduction over 'j'", within="B")


def test_a_loop_of_operands_with_other_statements() -> None:
    knl = prefix(SCAN, "for i\nfor j\nw[i, j] = x[j]\nend\ny[i] = sum(j, x[j]) {id=S}\nend")
    with pytest.raises(lk.ScheduleError, match=r"The loop of 'S\.j\.update' over 'j' also encloses other statements"):
        lk.realize_scan(lk.fuse_loops(knl, "j"), "j")
