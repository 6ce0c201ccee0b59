"""Staging steps keep given orders, storage and launches; the others say what else they change."""
from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pymbolic.primitives as p
import pytest
from pymbolic.typing import Expression

import loopkit as lk
from loopkit.analysis.order import moves
from loopkit.kernel.cost import Cells, Cost
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.tree import ordered_pairs
from loopkit.lowering.pipeline import cost_of
from loopkit.poly.limits import affordable, bounded
from loopkit.shown import ENTRY_POINTS
from tests.cases import jacobi_over_blocks, matmul, matmul_tiled, two_launches
from tests.following import followed
from tests.transform.same import assert_same


def attention() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, j, e, d, k, l]: 0<=i<n and 0<=j,k,l<n and 0<=e<32 and 0<=d<32}", """
        <> S[i, j] = sum(e, Q[i, e]*K[j, e])  {id=S}
        <> top[i] = max(k, S[i, k])
        <> total[i] = sum(l, exp(S[i, l] - top[i]))
        O[i, d] = sum(j, exp(S[i, j] - top[i])*V[j, d])/total[i]
        """, name="attention", assumptions="n>=1")
    knl = lk.add_dtypes(knl, {"Q,K,V": np.float32})
    knl = lk.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.1")
    return lk.split_iname(lk.split_iname(knl, "j", 16), "d", 16)


def contraction() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, j, k, l, p]: 0<=i,j,k,l,p<n}", "r[i, j, k, l] = sum(p, A[p, i]*T[p, j, k, l])")
    return lk.split_iname(lk.add_dtypes(knl, {"A,T": np.float64}), "p", 4)


def transposition(text: str = "b[j, i] = a[i, j]") -> lk.LoopKernel:
    return lk.add_dtypes(lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", text), {"a": np.float64})


def halves(knl: lk.LoopKernel) -> lk.LoopKernel:
    return lk.split_iname(lk.split_iname(knl, "i", 4), "j", 4)


def spaces(knl: lk.LoopKernel) -> dict[str, str]:
    return {x: str(cells) for x, cells in cost_of(knl).cells.items()}


# Storage

@pytest.mark.deep
def test_an_accumulator_is_not_enlarged() -> None:
    knl = lk.add_prefetch(attention(), "K", ["j_inner", "e"])
    with pytest.raises(lk.StorageError, match="4 bytes a thread -> 64 bytes a thread, with d_inner moved") as err:
        lk.add_prefetch(knl, "V", ["j_inner", "d_inner"])
    assert err.value.subject == "acc_j"
    assert "allow_global_storage=True" in (err.value.hint or "")
    known = spaces(knl)
    for way in (lk.tag_inames(knl, {"d_inner": "l.0"}), lk.prioritize_loops(knl, "j_outer, d_inner")):
        known = spaces(way)
        after = lk.add_prefetch(lk.add_prefetch(way, "V", ["j_inner", "d_inner"]), "Q", ["i_inner", "e"])
        assert {x: c for x, c in spaces(after).items() if x in known} == known
    allowed = lk.add_prefetch(knl, "V", ["j_inner", "d_inner"], allow_global_storage=True)
    assert spaces(allowed)["acc_j"] == "64 bytes a thread"
    assert allowed.history[-1].effects == ("d_inner moved inside j_outer, d_inner distributed",
                                           "acc_j: 4 bytes a thread -> 64 bytes a thread")


@pytest.mark.deep
def test_loops_that_do_not_sweep_stay_around_the_copy_where_sinking_them_needs_storage() -> None:
    """The copy is further in; no accumulator becomes an array in global memory."""
    for start in (contraction(), lk.prioritize_loops(contraction(), "l, k, j, i")):
        knl = lk.add_prefetch(lk.add_prefetch(start, "A", "p_inner"), "T", "p_inner")
        assert spaces(knl)["acc_p"] == "8 bytes a thread"
        assert not moves(start, knl)
        assert_same(start, knl, n=5)


def test_elements_are_counted_where_dtypes_are_not_known() -> None:
    knl = lk.make_kernel("{[i, k]: 0<=i<8 and 0<=k<n}", "y[i] = sum(k, a[i, k])")
    with pytest.raises(lk.StorageError, match="1 element a thread -> 8 elements a thread"):
        lk.add_prefetch(lk.split_iname(knl, "k", 4), "a", ["i", "k_inner"])


def test_values_do_not_move_to_a_larger_address_space() -> None:
    """Threads that load the copy of others' values would need them in shared memory."""
    knl = lk.make_kernel("{[i, j]: 0<=i<8 and 0<=j<4}", """
        for i
            for j
                <> t[j] = x[i, j]  {id=t}
            end
            y[i] = sum(j, t[j])
        end
        """)
    knl = lk.tag_inames(lk.add_dtypes(knl, {"x": np.float32}), "i:l.0")
    with pytest.raises(lk.StorageError, match=r"would move 't' to shared memory: .* a thread -> .* a block"):
        lk.add_prefetch(knl, "t", "j")
    lk.add_prefetch(knl, "t", "j", default_tag=None)


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("call", [
    lambda knl, **more: lk.add_prefetch(knl, "a", ["i", "k_inner"], **more),
    lambda knl, **more: lk.precompute(lk.extract_subst(knl, "f", "a[p, q]", "p, q"), "f", ["i", "k_inner"], **more),
], ids=["add_prefetch", "precompute"])
def test_both_ways_to_stage(call: Callable[..., lk.LoopKernel]) -> None:
    knl = lk.make_kernel("{[i, k]: 0<=i<8 and 0<=k<n}", "y[i] = sum(k, a[i, k])")
    knl = lk.split_iname(lk.add_dtypes(knl, {"a": np.float32}), "k", 4)
    with pytest.raises(lk.StorageError, match="'acc_k': 4 bytes a thread -> 32 bytes a thread"):
        call(knl)
    assert_same(knl, call(knl, allow_global_storage=True), n=11)


def beside_what_cannot_be_lowered(text: str, *steps: Callable[[lk.LoopKernel], lk.LoopKernel]) -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, k, j]: 0<=i<n and 0<=k,j<m}", f"y[i] = sum(k, a[i, k])\n{text}")
    knl = lk.split_iname(lk.split_iname(lk.add_dtypes(knl, {"a,b": np.float32}), "i", 4), "k", 16)
    for step in steps:
        knl = step(knl)
    with pytest.raises(lk.LoopkitError):
        lk.lower(knl)
    return knl


#: Kernels that cannot be lowered as they are, because of a temporary that has nothing to do with the copies below.
BESIDE = {
    "as many cells as a size says": lambda: beside_what_cannot_be_lowered(
        "<> u[j] = b[j]\nz[j] = u[m - 1 - j]", lambda knl: lk.set_temporary_address_space(knl, "u", "local")),
    "read by other threads": lambda: beside_what_cannot_be_lowered(
        "<> u[j] = b[j]\nz[j] = u[m - 1 - j]", lambda knl: lk.split_iname(knl, "j", 8, inner_tag="l.0"),
        lambda knl: lk.set_temporary_address_space(knl, "u", "private")),
}


@pytest.mark.parametrize("name", BESIDE)
def test_the_cells_of_others_are_known_where_one_temporary_has_none(name: str) -> None:
    knl = BESIDE[name]()
    with pytest.raises(lk.StorageError, match="'acc_k': 4 bytes a thread -> 16 bytes a thread"):
        lk.add_prefetch(knl, "a", ["i_inner", "k_inner"])
    lk.add_prefetch(knl, "a", ["k_inner"])
    assert set(cost_of(knl).unknown) == {"u"}
    assert cost_of(knl).launches is None


def test_an_unknown_storage_grows_only_where_its_loops_move(monkeypatch: pytest.MonkeyPatch) -> None:
    knl = lk.split_iname(lk.split_iname(lk.add_dtypes(lk.make_kernel(
        "{[i, k]: 0<=i<n and 0<=k<m}", "y[i] = sum(k, a[i, k])"), {"a": np.float32}), "i", 4), "k", 16)
    monkeypatch.setattr("loopkit.lowering.pipeline.COST_BUDGET", 1)
    with pytest.raises(lk.StorageError, match=r"may enlarge 'acc_k', .*, and its storage is unknown") as err:
        lk.add_prefetch(knl, "a", ["i_inner", "k_inner"])
    assert "allow_global_storage=True" in (err.value.hint or "")
    assert lk.add_prefetch(knl, "a", ["k_inner"]).temporaries["a_fetch"].shape == (16,)
    forced = lk.add_prefetch(knl, "a", ["i_inner", "k_inner"], allow_global_storage=True)
    monkeypatch.undo()
    assert_same(knl, forced, n=5, m=18)


def test_launches_that_are_not_known_may_be_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopkit.lowering.pipeline.COST_BUDGET", 1)
    with pytest.raises(lk.ScheduleError, match="may add launches, and their number is unknown") as err:
        lk.buffer_array(overlapping(), "y", "j", fetch_bounding_box=True, allow_global_storage=True)
    assert "allow_launches=True" in (err.value.hint or "")


def scores() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, j, e]: 0<=i<n and 0<=j<m and 0<=e<32}", """
        for i
            <> a = 0
            for j
                a = a + sum(e, Q[i, e]*K[j, e])
            end
            O[i] = a
        end
        """)
    return lk.split_iname(lk.add_dtypes(knl, {"Q,K": np.float32}), "j", 16)


@pytest.mark.deep(every=9)
@pytest.mark.parametrize("tags", [{"inner_tag": "l.0", "outer_tag": "g.0"}, {"inner_tag": "l.0"}, {}], ids=str)
@pytest.mark.parametrize("sweep", [["e"], ["i_inner", "e"], []], ids=str)
def test_no_copy_comes_to_lie_in_global_memory_unasked(tags: dict[str, str], sweep: list[str]) -> None:
    knl = lk.add_prefetch(lk.split_iname(scores(), "i", 32, **tags), "K", ["j_inner", "e"], allow_reordering=True,
                          allow_global_storage=True)
    with suppress(lk.StorageError):
        assert not spaces(lk.add_prefetch(knl, "Q", sweep, allow_reordering=True))["Q_fetch"].endswith("a call")
    lk.add_prefetch(knl, "Q", sweep, allow_reordering=True, allow_global_storage=True)


def test_a_copy_in_global_memory_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    known = cost_of

    def everything_in_global_memory(knl: lk.LoopKernel) -> Cost:
        found = known(knl)
        return replace(found, cells={x: replace(c, space=AddressSpace.GLOBAL) for x, c in found.cells.items()})
    monkeypatch.setitem(ENTRY_POINTS, "cost", everything_in_global_memory)
    knl = lk.split_iname(scores(), "i", 32, outer_tag="g.0", inner_tag="l.0")
    with pytest.raises(lk.StorageError, match="'Q_fetch' would be in global memory, 4096 bytes a call") as err:
        lk.add_prefetch(knl, "Q", ["e"])
    assert "temporary_address_space='global'" in (err.value.hint or "")
    for more in ({"temporary_address_space": "global"}, {"allow_global_storage": True}):
        assert "Q_fetch" in lk.add_prefetch(knl, "Q", ["e"], **more).temporaries


@pytest.mark.parametrize(("old", "new", "more"), [
    ((p.Variable("n"),), (p.Variable("m"), 2), True),
    ((p.Variable("n"), p.Variable("n")), (p.Variable("n"), p.Variable("m")), True),
    ((p.Variable("n"), 4), (p.Variable("n"), 2), False),
    ((p.Variable("n"), p.Variable("m")), (p.Variable("m"), p.Variable("n")), False),
    ((7, p.Variable("n")), (p.Variable("n"), 7), False),
    ((1000,), (p.Variable("n"),), False),
    ((p.Variable("n"), 2), (p.Sum((p.Variable("n"), p.Variable("m"))),), True),
], ids=str)
def test_numbers_of_cells_are_compared_at_sizes_that_differ(old: tuple[Expression, ...], new: tuple[Expression, ...],
                                                           more: bool) -> None:
    first, second = (Cells(AddressSpace.PRIVATE, shape, 4) for shape in (old, new))
    assert second.more_than(first) is more


# Orders

ORDERS = {
    "blocks": lambda: halves(transposition("for i\nfor j\nb[j, i] = a[i, j]\nend\nend")),
    "one block": lambda: halves(transposition("for i, j\nb[j, i] = a[i, j]\nend")),
    "prioritize_loops": lambda: lk.prioritize_loops(halves(transposition()), "i_inner, j_outer"),
    "before a split": lambda: halves(lk.prioritize_loops(transposition(), "i, j")),
    "interchange": lambda: halves(lk.interchange(lk.interchange(transposition(), "i", "j"), "j", "i")),
    "apply_schedule": lambda: halves(lk.apply_schedule(transposition(), {"insn": "[i, j]"})),
    "renamed": lambda: lk.rename_iname(lk.rename_iname(lk.prioritize_loops(
        lk.split_iname(lk.split_iname(lk.rename_iname(transposition(), "i", "x"), "x", 4), "j", 4),
        "x_inner, j_outer"), "x_inner", "i_inner"), "x_outer", "i_outer"),
    "affine_map_inames": lambda: halves(lk.affine_map_inames(
        lk.rename_iname(lk.rename_iname(transposition(), "i", "p"), "j", "q"), "p, q", "i, j", ["p = i", "q = j"])),
}


@pytest.mark.deep(every=8)
@pytest.mark.parametrize("name", ORDERS)
def test_an_order_that_was_given_is_kept(name: str) -> None:
    knl = ORDERS[name]()
    with pytest.raises(lk.ScheduleError, match="move the loop over 'i_inner' inside that over 'j_outer'") as err:
        lk.add_prefetch(knl, "a", ["i_inner", "j_inner"])
    assert "allow_reordering=True" in (err.value.hint or "")
    forced = lk.add_prefetch(knl, "a", ["i_inner", "j_inner"], allow_reordering=True)
    tagged = lk.add_prefetch(lk.tag_inames(knl, "i_inner:l.0"), "a", ["i_inner", "j_inner"])
    other = lk.add_prefetch(lk.prioritize_loops(knl, "j_outer, i_inner"), "a", ["i_inner", "j_inner"])
    for made in (forced, tagged, other):
        assert_same(knl, made, n=9, m=6)


def test_an_order_that_nobody_gave_is_changed_and_the_history_says_so() -> None:
    knl = halves(transposition())
    assert not knl.given_order
    made = lk.add_prefetch(knl, "a", ["i_inner", "j_inner"])
    assert made.history[-1].effects == ("i_inner moved inside j_outer",)


def test_tiles_are_kept() -> None:
    knl = lk.tile(transposition(), {"i": 4, "j": 4})
    made = lk.add_prefetch(knl, "a", ["i_inner", "j_inner"])
    assert not moves(knl, made)
    with pytest.raises(lk.ScheduleError, match="'i_outer' inside that over 'j_outer'"):
        lk.add_prefetch(lk.fix_parameters(knl, n=8), "a", ["i_outer", "i_inner", "j_inner"])


def test_the_order_follows_the_loops() -> None:
    knl = lk.make_kernel("{[i, j, k]: 0<=i,j<8 and 0<=k<n}", "c[i, j, k] = 2*a[k, j, i]")
    knl = lk.prioritize_loops(knl, "k, i")
    assert knl.given_order == (("k", "i"),)
    assert "GIVEN ORDER\n  k, i\n" in str(knl)
    split = lk.split_iname(knl, "i", 4)
    assert split.given_order == (("k", "i_outer", "i_inner"),)
    assert lk.interchange(split, "i_outer", "i_inner").given_order == (("k", "i_inner", "i_outer"),)
    assert lk.rename_iname(knl, "k", "q").given_order == (("q", "i"),)
    assert lk.prioritize_loops(knl, "i, k").given_order == (("i", "k"),)
    assert ("k", "j") in ordered_pairs(lk.prioritize_loops(knl, "k, j").given_order)
    assert lk.join_inames(lk.prioritize_loops(knl, "k, i, j"), ["i", "j"]).given_order == (("k", "i_j"),)
    assert lk.unroll_and_jam(transposition(), "i", 2).given_order == (("i_outer", "j", "i_inner"),)
    assert lk.tile(transposition(), {"j": 4, "i": 4}).given_order == (("j_outer", "i_outer", "j_inner", "i_inner"),)
    assert pickle.loads(pickle.dumps(knl)).given_order == knl.given_order


@pytest.mark.parametrize("tag", ["l.0", "ilp"])
def test_an_order_that_was_given_is_printed_as_given(tag: str) -> None:
    """Loops that are not sequential have no place; once they are again, what is left of the order is printed."""
    knl = lk.split_iname(scores(), "i", 32, inner_tag=tag)
    order = ("i_outer", "i_inner", "j_outer", "j_inner")
    assert knl.given_order == (order,)
    knl = lk.add_prefetch(knl, "K", ["j_inner", "e"], allow_global_storage=True)
    assert knl.given_order == (order,)
    assert f"GIVEN ORDER\n  {', '.join(order)}\n" in str(knl)
    plain = lk.untag_inames(knl, "i_inner")
    assert "i_inner is inside j_outer, and the order i_inner, j_outer was given" in plain.history[-1].effects
    assert plain.given_order == (("i_outer", "i_inner", "j_inner"), ("i_outer", "j_outer", "j_inner"))
    assert "GIVEN ORDER\n  i_outer, i_inner, j_inner\n  i_outer, j_outer, j_inner\n" in str(plain)
    assert lk.prioritize_loops(plain, "i_inner, j_outer").given_order == (order,)


def test_an_order_that_was_given_up_is_given_no_more() -> None:
    knl = lk.prioritize_loops(halves(transposition()), "i_outer, i_inner, j_outer")
    made = lk.add_prefetch(knl, "a", ["i_inner", "j_inner"], allow_reordering=True)
    assert made.given_order == (("i_outer", "j_outer"), ("i_outer", "i_inner"))
    assert made.history[-1].effects[0] == "i_inner moved inside j_outer"
    assert str(made).split("GIVEN ORDER\n")[1].startswith("  i_outer, j_outer\n  i_outer, i_inner\n")


def test_steps_keep_the_order_of_loops_that_are_not_sequential() -> None:
    knl = lk.split_iname(scores(), "i", 32, inner_tag="l.0")
    knl = lk.add_prefetch(knl, "K", ["j_inner", "e"], allow_global_storage=True)
    for other in (lk.split_iname(knl, "j_inner", 4, outer_iname="p", inner_iname="q"),
                  lk.rename_iname(knl, "j_inner", "q"), lk.prioritize_loops(knl, "j_outer, j_inner")):
        assert ("i_inner", "j_outer") in ordered_pairs(other.given_order)


def test_a_kernel_is_what_it_was_whoever_gave_its_order() -> None:
    knl = transposition()
    assert lk.prioritize_loops(knl, "i, j") == knl


def test_loops_whose_order_was_given_are_not_distributed() -> None:
    knl = lk.make_kernel("{[t, i]: 0<=t<4 and 0<=i<8}", """
        for t
            for i
                a[t, i] = x[i] + t  {id=W}
                y[t, i] = a[t, i]  {id=R}
            end
        end
        """)
    knl = lk.add_dtypes(knl, {"a,x": np.float32})
    with pytest.raises(lk.ScheduleError, match="distribute the loop over 'i'"):
        lk.add_prefetch(knl, "a", "i", within="R")
    assert_same(knl, lk.add_prefetch(knl, "a", "i", within="R", allow_reordering=True))


def over_blocks(text: str) -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, j, k]: 0<=i,j<24 and 0<=k<32}", text)
    return lk.split_iname(lk.add_dtypes(knl, {"a,b": np.float32}), "k", 16)


HINTS = {
    "a reduction parts the loop": (lambda: over_blocks("for i\nfor j\nc[i, j] = sum(k, a[i, k]*b[k, j])\nend\nend"),
                                   ["j", "k_inner"]),
    "two loops move": (lambda: over_blocks("for i\nfor j\nc[i, j] = sum(k, a[i, k]*b[k, j])\nend\nend"),
                       ["i", "j", "k_inner"]),
    "an order is broken": (lambda: lk.prioritize_loops(halves(transposition()), "i_inner, j_outer"),
                           ["i_inner", "j_inner"]),
    "two orders are broken": (lambda: lk.fix_parameters(lk.prioritize_loops(
        halves(transposition()), "i_outer, i_inner, j_outer"), n=8),
                              ["i_outer", "i_inner", "j_inner"]),
    "cells": (lambda: lk.split_iname(over_blocks("c[i, j] = sum(k, a[i, k]*b[k, j])"), "i", 4),
              ["i_inner", "k_inner"]),
    "a statement between": (lambda: parted(), ["i"]),
}


def parted() -> lk.LoopKernel:
    knl = lk.make_kernel("{[t, i]: 0<=t<4 and 0<=i<8}", """
        for t
            for i
                a[t, i] = x[i] + t  {id=W}
                y[t, i] = a[t, i]  {id=R}
            end
        end
        """)
    return lk.add_dtypes(knl, {"a,x": np.float32})


@pytest.mark.deep
@pytest.mark.parametrize("name", HINTS)
def test_hints_can_be_followed(name: str) -> None:
    make, sweep = HINTS[name]
    knl = make()
    within = "R" if "R" in knl.statement_by_id else None
    with pytest.raises((lk.ScheduleError, lk.StorageError)) as err:
        lk.add_prefetch(knl, "a", sweep, within=within)
    ways = followed(knl, err.value.hint or "")
    assert len(ways) == 2
    for way in ways:
        assert_same(knl, lk.add_prefetch(way, "a", sweep, within=within), **dict.fromkeys(sorted(knl.value_params), 9))
    more = re.findall(r"allow_\w+(?==True)", err.value.hint or "")
    lk.add_prefetch(knl, "a", sweep, within=within, **dict.fromkeys({*more, "allow_global_storage"}, True))


# Launches

def overlapping() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<2}", "y[4*i + 5*j] = y[4*i + 5*j] + x[i]")
    return lk.tag_inames(lk.add_dtypes(knl, {"x,y": np.float32}), "i:g.0")


def test_launches_are_not_added() -> None:
    with pytest.raises(lk.ScheduleError, match=r"would add launches \(launches: 1 -> 2\)") as err:
        lk.buffer_array(overlapping(), "y", "j", fetch_bounding_box=True)
    assert err.value.hint == "allow_launches=True"
    made = lk.buffer_array(overlapping(), "y", "j", fetch_bounding_box=True, allow_launches=True)
    assert "launches: 1 -> 2" in made.history[-1].effects
    assert_same(overlapping(), made, n=4)


def test_a_copy_across_blocks_adds_no_launch() -> None:
    """Blocks that share an axis would wait for a copy that only some of them make."""
    knl = lk.make_kernel("{[i, j, k]: 0<=i,j<5 and 0<=k<=i}", "c[i, j] = sum(k, x[i + k])")
    knl = lk.split_iname(lk.add_dtypes(knl, {"x": np.int64}), "k", 2)
    for x in "ij":
        knl = lk.split_iname(knl, x, 2, outer_tag="g.0", inner_tag="l.0")
    with pytest.raises((lk.ScheduleError, lk.StorageError)):
        lk.add_prefetch(lk.add_prefetch(knl, "x", ["i_inner", "k_inner"]), "x", ["i_outer"])


@pytest.mark.parametrize("name", ["allow_reordering", "allow_global_storage", "allow_launches"])
def test_the_arguments_are_truth_values(name: str) -> None:
    with pytest.raises(lk.PreconditionError, match=f"{name}= must be True or False"):
        lk.add_prefetch(matmul(), "a", **{name: "yes"})


def test_a_loop_that_becomes_the_hosts_is_said() -> None:
    assert "AS IT RUNS\n  2 launches\n  for t: on the host, 2 launches per iteration" in str(jacobi_over_blocks())
    knl = lk.add_dtypes(lk.make_kernel("{[t, i]: 0<=t<n and 0<=i<m}", "a[i] = a[i] + x[t, m - 1 - i]"),
                        {"a,x": np.float32})
    assert "on the host" not in str(lk.tag_inames(knl, "i:g.0"))
    knl = lk.make_kernel("{[t, i]: 1<=t<n and 0<=i<m}", "a[t, i] = a[t - 1, m - 1 - i]")
    knl = lk.tag_inames(lk.add_dtypes(knl, {"a": np.float32}), "i:g.0")
    assert "AS IT RUNS\n  for t: on the host, one launch per iteration" in str(knl)
    assert knl.history[-1].effects == ("loops on the host: none -> t",)


def test_temporaries_in_global_memory_are_said() -> None:
    assert re.search(r"float32 t\[n\] +global memory .* 4\*n\n", str(two_launches()))
    assert "global memory" not in str(matmul_tiled())


def test_a_kernel_that_cannot_be_lowered_prints() -> None:
    knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<n}", "<> t = s[i]\n y[i] = sum(k, t*a[i, k])")
    assert "not known yet" in str(lk.tag_inames(knl, "i:g.0"))
    knl = lk.split_iname(lk.tag_inames(knl, "i:g.0"), "k", 8, inner_tag="l.0")
    assert "STATEMENTS" in str(knl)
    assert "STATEMENTS" in str(lk.tag_inames(knl, {"k_inner": "l.auto"}, force=True))


# The arguments of the other steps

@pytest.mark.deep
@pytest.mark.parametrize("refused", ["allow_reordering", "allow_global_storage"])
def test_what_a_buffer_is_allowed(refused: str) -> None:
    if refused == "allow_reordering":
        knl = lk.prioritize_loops(halves(transposition()), "i_inner, j_outer")
        name, sweep, error = "b", ["i_inner", "j_inner"], lk.ScheduleError
    else:
        knl = lk.make_kernel("{[i, k]: 0<=i<8 and 0<=k<n}", """
            for i
                <> s = a[i, 0]
                for k
                    y[k] = y[k] + s*a[i, k]
                end
            end
            """)
        knl = lk.split_iname(lk.add_dtypes(knl, {"a,y": np.float32}), "k", 4)
        name, sweep, error = "y", ["i", "k_inner"], lk.StorageError
    others = {"allow_reordering": True} if refused == "allow_global_storage" else {}
    with pytest.raises(error) as err:
        lk.buffer_array(knl, name, sweep, **others)
    assert f"{refused}=True" in (err.value.hint or "")
    made = lk.buffer_array(knl, name, sweep, **others, **{refused: True})
    assert_same(knl, made, **dict.fromkeys(sorted(knl.value_params), 9))


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("name", ["allow_global_storage", "allow_launches"])
def test_what_a_pipeline_is_allowed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline changes nothing else by itself: its cost is told to be more."""
    known = cost_of

    def more(knl: lk.LoopKernel) -> Cost:
        found = known(knl)
        if "copy_first" not in knl.statement_by_id:
            return found
        if name == "allow_launches":
            return replace(found, launches=2)
        return replace(found, cells={**found.cells, "u": replace(found.cells["u"], shape=(7,))})
    monkeypatch.setitem(ENTRY_POINTS, "cost", more)
    knl = lk.make_kernel("{[k, i, j]: 0<=k<n and 0<=i,j<16}", """
        for k
            for i
                <> t[i] = a[k, i]  {id=copy}
            end
            for j
                <> u = t[15 - j]
                c[k, j] = u
            end
        end
        """)
    knl = lk.add_dtypes(knl, {"a": np.float32})
    error, words = {"allow_launches": (lk.ScheduleError, "would add launches"),
                    "allow_global_storage": (lk.StorageError, "would enlarge 'u': 4 bytes a thread -> 28")}[name]
    with pytest.raises(error, match=words) as err:
        lk.pipeline(knl, "k")
    assert f"{name}=True" in (err.value.hint or "")
    assert_same(knl, lk.pipeline(knl, "k", **{name: True}), n=5)


# The history

def test_effects_are_no_part_of_equality() -> None:
    knl = lk.tag_inames(jacobi_over_blocks(), "t:for")
    assert any(step.effects for step in knl.history)
    again = lk.replay(jacobi_over_blocks(), knl.history[-1:])
    assert again.history == knl.history
    assert pickle.loads(pickle.dumps(knl)).history[1].effects == knl.history[1].effects


def test_the_script_has_them_as_comments() -> None:
    knl = lk.prioritize_loops(lk.add_dtypes(lk.split_iname(matmul(), "j", 4), {"a": np.float32}), "k, j_inner")
    script = knl.history.script()
    assert re.search(r"prioritize_loops.*\n#   j_inner distributed\n#   acc_k: 4 bytes a thread -> 16 bytes", script)
    names: dict[str, object] = {}
    exec(script, names)
    assert names["knl"] == knl
    assert "j_inner distributed; acc_k:" in str(knl.history)


def test_a_question_that_costs_too_much_has_no_answer_and_the_step_goes_on() -> None:
    with bounded("a test"):
        assert affordable(lambda: lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]"), otherwise=None, budget=1) is None
        assert affordable(lambda: 3, otherwise=None, budget=1) == 3
        assert lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]").inames == ("i",)
