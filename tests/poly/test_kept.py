"""Kept results do not depend on earlier questions."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import islpy as isl
import numpy as np
import pytest

import loopkit as lk
from loopkit.analysis.shapes import array_shapes, fully_written_outputs
from loopkit.kernel.target import GPU
from loopkit.lowering.pipeline import cost_of, lowered_once, placed_once
from loopkit.poly import limits
from loopkit.verification.checks import report_of, subject_of

#: isl needs about 11_000 operations to take them out of a box.
HOLES = " and ".join(f"not ({c} <= i <= {c + 2} and {c} <= j <= {c + 1})" for c in range(0, 30, 5))
LITTLE = 100


def holes() -> isl.Set:
    return isl.Set(f"[n] -> {{ [i, j] : 0 <= i, j < n and {HOLES} }}")


def answered() -> bool:
    return limits.affordable(holes, otherwise=None) is not None


@contextmanager
def used_up() -> Iterator[None]:
    """A step whose optional questions have used up what they have together."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "ALL_OPTIONAL", 20_000)
        with limits.bounded("asking"):
            while answered():
                pass
            yield


# Analyses of kernels

def tiled() -> lk.LoopKernel:
    """A product in tiles, with copies; its text has a version for full tiles."""
    knl = lk.make_kernel("{[i,j,k]: 0<=i<n and 0<=j<m and 0<=k<l}", "c[i,j] = sum(k, a[i,k]*b[k,j])",
                         assumptions="n>=1 and m>=1 and l>=1")
    knl = lk.add_dtypes(knl, {"a,b": np.float32})
    knl = lk.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = lk.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    knl = lk.add_prefetch(lk.split_iname(knl, "k", 16), "a", ["i_inner", "k_inner"], default_tag="l.auto")
    return replace(knl, derived=knl.derivation)


#: By name; each has an answer that isl need not find.
ANSWERS: dict[str, Callable[[lk.LoopKernel], object]] = {
    "cost": cost_of,
    "outputs that are filled": fully_written_outputs,
    "storage": lambda knl: placed_once(knl).storages,
    "loops": lambda knl: str(lowered_once(knl).program),
    "checks": lambda knl: str(report_of(subject_of(knl, GPU))),
    "text": lambda knl: str(lk.generate_code(knl, target="cuda")),
}


@pytest.mark.deep(every=6)
@pytest.mark.parametrize("name", ANSWERS)
def test_no_answer_that_others_had_used_up_the_budget_for_is_kept(name: str) -> None:
    expected, knl = ANSWERS[name](tiled()), tiled()
    with used_up():
        for ask in ANSWERS.values():
            ask(knl)
    assert ANSWERS[name](knl) == expected


@pytest.mark.deep
def test_answers_are_poorer_without_a_budget() -> None:
    """Else the test above would show nothing."""
    with used_up():
        poor = {name: ask(tiled()) for name, ask in ANSWERS.items()}
    assert {name for name, ask in ANSWERS.items() if poor[name] != ask(tiled())} >= {
        "outputs that are filled", "loops", "text"}
    assert poor["cost"] == cost_of(tiled())                 # it has a budget of its own


@pytest.mark.deep
def test_a_look_at_the_cost_changes_no_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    """It lowers with a small budget of its own."""
    expected, knl = str(lk.generate_code(tiled(), target="c")), tiled()
    for budget in (1_000, 10_000, 30_000, 100_000):
        monkeypatch.setattr("loopkit.lowering.pipeline.COST_BUDGET", budget)
        cost_of(knl)
        assert (placed_once(knl).storages, array_shapes(knl)) == (placed_once(tiled()).storages, array_shapes(tiled()))
        assert str(lk.generate_code(knl, target="c")) == expected


def test_the_cost_of_each_kernel_has_a_budget_of_its_own() -> None:
    """A page on a kernel asks for the costs after all of its steps, and they were unknown after many of them."""
    expected, knl = cost_of(tiled()), tiled()
    with limits.bounded("asking"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits._running, "optional", 0)
        before = isl.DEFAULT_CONTEXT.get_max_operations() - limits._used()
        assert cost_of(knl) == expected
        after = isl.DEFAULT_CONTEXT.get_max_operations() - limits._used()
        assert not answered()                               # the step got no operations, and lost none
        assert abs(after - before) < 5_000


# One memo

def test_an_answer_is_found_once() -> None:
    memo: dict[str, int] = {}
    assert [limits.kept(memo, "a", lambda i=i: i) for i in range(3)] == [0, 0, 0]
    assert memo == {"a": 0}


def test_a_kernel_keeps_one_result_for_each_argument() -> None:
    calls: list[str] = []

    @limits.kept_in_memo
    def doubled(knl: lk.LoopKernel, text: str, *, times: int = 2) -> str:
        calls.append(text)
        return text*times
    knl, other = tiled(), tiled()
    assert [doubled(k, x) for k in (knl, knl, other) for x in "ab"] == ["aa", "bb"]*3
    assert doubled(knl, "a", times=3) == "aaa"
    assert calls == ["a", "b", "a", "b", "a"]


def test_what_was_cut_short_serves_its_step_only() -> None:
    memo: dict[str, bool] = {}
    with used_up():
        assert not limits.kept(memo, "a", answered)
        assert not limits.kept(memo, "a", lambda: pytest.fail("it is asked once in a step"))
        assert not limits.kept(memo, "made of it", lambda: limits.kept(memo, "a", answered))
        assert limits.kept(memo, "another", lambda: True)
    assert memo == {"another": True}
    assert limits.kept(memo, "made of it", lambda: limits.kept(memo, "a", answered))
    assert memo == {"another": True, "a": True, "made of it": True}


def test_what_needs_more_than_its_own_budget_is_kept() -> None:
    """It would be given up at any other time, too."""
    memo: dict[str, bool] = {}

    def much() -> bool:
        return limits.affordable(holes, otherwise=None, budget=LITTLE) is not None
    with limits.bounded("asking"):
        assert not limits.kept(memo, "a", much)
        assert not limits.kept(memo, "b", lambda: limits.affordable(answered, otherwise=False, budget=LITTLE))
    assert memo == {"a": False, "b": False}


def test_what_the_question_around_it_cuts_short_is_not_kept() -> None:
    memo: dict[str, bool] = {}
    with limits.bounded("asking"):
        limits.affordable(lambda: limits.kept(memo, "a", answered), otherwise=None, budget=LITTLE)
        assert not memo
        assert limits.kept(memo, "a", answered)


def test_a_step_of_its_own_has_its_own_budget() -> None:
    """As the first of that step, a question is the same at any time; the end of a step's budget is what it needs."""
    memo: dict[str, bool] = {}

    def step() -> bool:
        with used_up():
            return answered()
    assert not limits.kept(memo, "a", step)
    assert memo == {"a": False}


def test_results_of_functions_are_kept_likewise() -> None:
    asked = []

    @limits.kept_results
    def function(number: int) -> bool:
        asked.append(number)
        return answered()
    with used_up():
        assert not function(1)
    assert [function(1), function(1), function(2)] == [True, True, True]
    assert asked == [1, 1, 2]
    function.cache_clear()  # type: ignore[attr-defined]
    assert function(2)
    assert asked == [1, 1, 2, 2]
