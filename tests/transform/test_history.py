"""The history of a kernel: a value that reads as a script."""
from __future__ import annotations

import pytest

import loopkit as lk
from loopkit.kernel.history import HistoryStep
from tests.transform.kernels import scaled_matrix, twice


def mapped() -> lk.LoopKernel:
    return lk.tag_inames(lk.split_iname(twice(), "i", 4, inner_iname="lane"), {"i_outer": "g.0"})


def test_steps_with_their_arguments() -> None:
    steps = mapped().history
    assert [s.name for s in steps] == ["add_dtypes", "split_iname", "tag_inames"]
    assert steps[1].args == ("i", 4)
    assert dict(steps[1].kwargs) == {"inner_iname": "lane"}


def test_a_step_reads_as_a_line_of_a_script() -> None:
    assert str(mapped().history[1]) == "knl = lk.split_iname(knl, 'i', 4, inner_iname='lane')"


def test_the_script_makes_the_kernel() -> None:
    scope: dict[str, object] = {"lk": lk, "knl": twice()}
    for line in mapped().history[1:]:
        exec(str(line), scope)
    assert scope["knl"] == mapped()


def test_time_is_outside_equality() -> None:
    assert mapped().history == mapped().history
    assert HistoryStep("f", (1,), (), seconds=1.0) == HistoryStep("f", (1,), (), seconds=2.0)
    assert all(s.seconds > 0 for s in mapped().history)


def test_history_is_outside_a_kernel_s_equality() -> None:
    assert lk.tag_inames(lk.tag_inames(scaled_matrix(), "i:g.0"), "j:g.1") == lk.tag_inames(
        scaled_matrix(), "i:g.0, j:g.1")


def test_verdicts() -> None:
    knl = lk.rename_argument(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]"), "x", "source")
    assert knl.history[-1].verdict == "structural"
    assert lk.interchange(scaled_matrix(), "i", "j").history[-1].verdict == "proven"


def test_a_step_of_many_is_one() -> None:
    assert len(lk.tile(scaled_matrix(), {"i": 4, "j": 4}).history) == 2


def test_only_kernels_are_transformed() -> None:
    with pytest.raises(lk.PreconditionError, match="split_iname takes a kernel, not a str") as caught:
        lk.split_iname("i", "i", 4)                    # type: ignore[arg-type]
    assert caught.value.subject == "split_iname"
