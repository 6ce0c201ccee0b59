"""Staging steps keep given orders, storage and launches; the others say what else they change."""
from __future__ import annotations

import pickle
import re
from collections.abc import Callable

import numpy as np
import pytest

import loopkit as lk
from loopkit.analysis.moves import moves
from loopkit.errors import ENTRY_POINTS
from loopkit.kernel.given_order import ordered_pairs
from loopkit.lowering.cost import cost_of
from loopkit.poly.limits import affordable, bounded
from tests.cases import jacobi_over_blocks, matmul, matmul_tiled, two_launches
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
    found = cost_of(knl)
    assert found is not None
    return {x: str(cells) for x, cells in found.cells.items()}


# {{{ storage

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


def test_loops_that_do_not_sweep_stay_around_the_copy_where_sinking_them_needs_storage() -> None:
    """The copy stands further in; no accumulator becomes an array in global memory."""
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
    with pytest.raises(lk.StorageError, match=r"a thread -> .* a block"):
        lk.add_prefetch(knl, "t", "j")
    lk.add_prefetch(knl, "t", "j", default_tag=None)


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


def test_what_is_not_known_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENTRY_POINTS, "cost", lambda knl: None)
    assert lk.add_prefetch(attention(), "V", ["j_inner", "d_inner"]).temporaries["V_fetch"].shape == (16, 16)

# }}}


# {{{ orders

ORDERS = {
    "blocks": lambda: halves(transposition("for i\nfor j\nb[j, i] = a[i, j]\nend\nend")),
    "one block": lambda: halves(transposition("for i, j\nb[j, i] = a[i, j]\nend")),
    "prioritize_loops": lambda: lk.prioritize_loops(halves(transposition()), "i_inner, j_outer"),
    "before a split": lambda: halves(lk.prioritize_loops(transposition(), "i, j")),
    "interchange": lambda: halves(lk.interchange(lk.interchange(transposition(), "i", "j"), "j", "i")),
    "reschedule": lambda: halves(lk.reschedule(transposition(), {"insn": "[i, j]"})),
    "renamed": lambda: lk.rename_iname(lk.rename_iname(lk.prioritize_loops(
        lk.split_iname(lk.split_iname(lk.rename_iname(transposition(), "i", "x"), "x", 4), "j", 4),
        "x_inner, j_outer"), "x_inner", "i_inner"), "x_outer", "i_outer"),
    "affine_map_inames": lambda: halves(lk.affine_map_inames(
        lk.rename_iname(lk.rename_iname(transposition(), "i", "p"), "j", "q"), "p, q", "i, j", ["p = i", "q = j"])),
}


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

# }}}


# {{{ launches

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
    with pytest.raises(lk.PreconditionError, match=f"{name}= is True or False"):
        lk.add_prefetch(matmul(), "a", **{name: "yes"})


def test_a_loop_that_becomes_the_hosts_is_said() -> None:
    assert "LAUNCHES\n  2 launches\n  for t: on the host, 2 launches per iteration" in str(jacobi_over_blocks())
    knl = lk.add_dtypes(lk.make_kernel("{[t, i]: 0<=t<n and 0<=i<m}", "a[i] = a[i] + x[t, m - 1 - i]"),
                        {"a,x": np.float32})
    assert "LAUNCHES" not in str(lk.tag_inames(knl, "i:g.0"))
    knl = lk.make_kernel("{[t, i]: 1<=t<n and 0<=i<m}", "a[t, i] = a[t - 1, m - 1 - i]")
    knl = lk.tag_inames(lk.add_dtypes(knl, {"a": np.float32}), "i:g.0")
    assert "LAUNCHES\n  for t: on the host, one launch per iteration" in str(knl)
    assert knl.history[-1].effects == ("loops on the host: none -> t",)


def test_temporaries_in_global_memory_are_said() -> None:
    assert "GLOBAL TEMPORARIES\n  t: 4*n bytes a call" in str(two_launches())
    assert "GLOBAL" not in str(matmul_tiled())


def test_a_kernel_that_cannot_be_lowered_prints() -> None:
    knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<n}", "<> t = s[i]\n y[i] = sum(k, t*a[i, k])")
    assert "LAUNCHES" not in str(lk.tag_inames(knl, "i:g.0"))
    knl = lk.split_iname(lk.tag_inames(knl, "i:g.0"), "k", 8, inner_tag="l.0")
    assert "STATEMENTS" in str(knl)
    assert "STATEMENTS" in str(lk.tag_inames(knl, {"k_inner": "l.auto"}, force=True))

# }}}


# {{{ the history

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

# }}}


def test_a_question_that_costs_too_much_has_no_answer_and_the_step_goes_on() -> None:
    with bounded("a test"):
        assert affordable(lambda: lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]"), otherwise=None, budget=1) is None
        assert affordable(lambda: 3, otherwise=None, budget=1) == 3
        assert lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]").inames == ("i",)
