"""The history of a kernel: a value that reads as a script."""
from __future__ import annotations

import re
from dataclasses import FrozenInstanceError
from typing import Any

import islpy as isl
import numpy as np
import pytest

import loopkit as lk
from loopkit.analysis.constructors import annotated
from loopkit.kernel.history import TRANSFORMATIONS, HistoryStep
from tests.cases import CASES, Case
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


def test_a_step_is_proven_by_whatever_proof_it_takes() -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<8}", "for i, j\n<> t = 2*x[i, j] {id=S}\ny[i, j] = t {id=T}\nend")
    knl = lk.pad_domain(lk.add_dtypes(knl, {"x": np.float32}), {"j": 3})
    assert knl.history[-1].verdict == "proven"
    knl = lk.contract(lk.expand(knl, "t", "j"), "t", "j")
    assert [step.verdict for step in knl.history[-2:]] == ["structural", "proven"]
    knl = lk.precompute(knl, "x_padded", "j")
    assert knl.history[-1].verdict == "proven"


def test_a_step_that_changes_nothing_takes_no_proof_from_the_one_before() -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<8}", "for i, j\n<> t = 2*x[i, j] {id=S}\ny[i, j] = t {id=T}\nend")
    knl = lk.pad_domain(lk.interchange(knl, "i", "j"), {"j": 4})
    assert [step.verdict for step in knl.history] == ["proven", "structural"]


def test_a_step_of_many_is_one() -> None:
    assert len(lk.tile(scaled_matrix(), {"i": 4, "j": 4}).history) == 2


def test_only_kernels_are_transformed() -> None:
    with pytest.raises(lk.PreconditionError, match="split_iname: kernel= must be a LoopKernel, not 'i'") as caught:
        lk.split_iname("i", "i", 4)                    # type: ignore[arg-type]
    assert caught.value.subject == "kernel"


def test_a_history_is_a_sequence() -> None:
    history = mapped().history
    assert len(history) == 3
    assert history[-1].name == "tag_inames"
    assert [s.name for s in history[:1]] == ["add_dtypes"]
    assert list(history) == [history[0], history[1], history[2]]
    assert history[1] in history
    assert history.index(history[1]) == 1
    assert history[:2] == lk.split_iname(twice(), "i", 4, inner_iname="lane").history
    assert hash(history) == hash(mapped().history)
    with pytest.raises(FrozenInstanceError):
        history.steps = ()                             # type: ignore[misc]


def test_it_prints_with_verdicts_and_times() -> None:
    lines = str(mapped().history).splitlines()
    assert lines[0] == str(mapped().history.made)
    assert re.fullmatch(r"knl = lk\.tag_inames\(knl, \{'i_outer': 'g\.0'\}\)  # 3: proven, \d+\.\d ms", lines[-1])
    assert repr(mapped().history) == "<History of 3 steps: add_dtypes, split_iname, tag_inames>"
    assert repr(lk.History()) == "<History of no steps>"


def test_what_is_changed_later_is_kept_as_it_was() -> None:
    tags = {"i_outer": "g.0"}
    knl = lk.tag_inames(lk.split_iname(twice(), "i", 4), tags)
    tags["i_inner"] = "l.0"
    assert knl.history[-1].args == ({"i_outer": "g.0"},)


def test_what_can_be_read_once_is_kept() -> None:
    knl = lk.prioritize_loops(scaled_matrix(), (x for x in "ji"))
    assert knl.history[-1].args == (("j", "i"),)
    made = lk.make_kernel(iter(["{[i]: 0<=i<n}"]), iter(["y[i] = 2*x[i]"]), iter(["..."]))
    assert run(made.history.script()) == made


# Scripts

def run(script: str) -> lk.LoopKernel:
    scope: dict[str, Any] = {}
    exec(script, scope)
    knl = scope["knl"]
    assert isinstance(knl, lk.LoopKernel)
    return knl


@pytest.mark.deep
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_script_of_a_case_makes_its_kernel(case: Case) -> None:
    knl = case.make()
    made = run(knl.history.script())
    assert made == knl
    assert not knl.history.diff(made.history)


@pytest.mark.deep(every=38)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_replaying_a_case_makes_its_kernel(case: Case) -> None:
    knl = case.make()
    assert knl.history.made is not None
    original = lk.make_kernel(*knl.history.made.args, **dict(knl.history.made.kwargs))       # type: ignore[arg-type]
    assert lk.replay(original, knl.history) == knl
    assert lk.replay(original, knl).history == knl.history


def test_the_script_of_declared_data() -> None:
    knl = lk.make_kernel(
        ["{[i]: 0<=i<n}"], ["t[i] = 2*x[i]", "y[i] = t[i]*f"],
        [lk.GlobalArg("x", np.float32, shape=("n",)), lk.ValueArg("f", np.float64), "...",         # type: ignore[arg-type]
         lk.TemporaryVariable("t", np.dtype("float32"), (256,), lk.AddressSpace.LOCAL)],
        name="declared", assumptions="n <= 256", options=lk.Options(annotate=False))
    knl = lk.set_temporary_address_space(knl, "t", lk.AddressSpace.GLOBAL)
    assert "lk.AddressSpace.GLOBAL" in knl.history.script()
    assert run(knl.history.script()) == knl


def test_the_script_of_a_reduction_of_one_s_own() -> None:
    knl = lk.make_kernel("{[k]: 0<=k<n}", "y[0] = horner(k, x[k])",
                         reductions=[lk.ReductionOperation("horner", "2*a + b")])
    assert run(knl.history.script()) == knl


def test_the_script_of_an_assumption_that_is_a_set() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 1", assumptions=isl.Set("[n] -> { : exists (e : n = 4e) }"))
    assert run(knl.history.script()) == knl


def test_the_script_of_a_definition_by_the_kernel_s_own_instructions() -> None:
    """They have instances, loops and conditions, also a statement without inames."""
    knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<m and i + k < 9}", """
        t = 3 {if=n > 1}
        y[i] = sum(k, a[i, k]*x[k]) + t {id=row, if=x[i] > 0}
        z[i] = y[i] {dep=row, tags=last}
        """, assumptions="n>=1")
    knl = lk.split_iname(knl, "i", 4)
    new = lk.with_statements(knl, [insn.copy(tags={"again"}) for insn in knl.instructions])
    assert run(new.history.script()) == new


def test_no_script_of_a_kernel_that_was_made_by_hand() -> None:
    with pytest.raises(lk.PreconditionError, match="was not made by make_kernel"):
        lk.split_iname(annotated(twice(), history=lk.History()), "i", 4).history.script()


def test_no_script_with_a_function_in_it() -> None:
    knl = twice()
    knl = annotated(knl, history=knl.history.then(HistoryStep("map_statements", (str.upper,), ())))
    with pytest.raises(lk.PreconditionError, match=r"Step 2 \(map_statements\) .*'str.upper' cannot be written"):
        knl.history.script()
    assert str(knl.history).splitlines()[-1].startswith("knl = lk.map_statements(knl, <str.upper>)")


def test_every_transformation_is_public() -> None:
    """A script calls it as ``lk.name``."""
    own = {name for name, f in TRANSFORMATIONS.items() if f.__module__.startswith("loopkit.")}
    assert {"split_iname", "interchange", "add_prefetch"} <= own
    assert all(getattr(lk, name) is TRANSFORMATIONS[name] for name in own)


# Replaying

def test_steps_are_checked_on_the_other_kernel() -> None:
    recurrence = lk.make_kernel("{[i]: 0<=i<n}", "y[i+1] = y[i] + x[i]")
    with pytest.raises(lk.ReplayError) as caught:
        lk.replay(recurrence, mapped().history[1:])
    assert caught.value.number == 2
    assert caught.value.step == "knl = lk.tag_inames(knl, {'i_outer': 'g.0'})"
    assert isinstance(caught.value.cause, lk.IllegalTransformError)
    assert caught.value.__cause__ is caught.value.cause
    said = str(caught.value)
    assert said.startswith("Step 2 of the history cannot be applied to this kernel.\n"
                           "  knl = lk.tag_inames(knl, {'i_outer': 'g.0'})\n  IllegalTransformError: tag_inames(")
    assert str(caught.value.cause.witness) in said
    assert caught.value.hint == caught.value.cause.hint


def test_an_unknown_step() -> None:
    with pytest.raises(lk.ReplayError, match="Step 1 of the history is not a transformation of loopkit"):
        lk.replay(twice(), lk.History((HistoryStep("eval", ("1",), ()),)))


def test_only_histories_are_replayed() -> None:
    with pytest.raises(lk.PreconditionError, match=r"replay: history= must be a History or a LoopKernel, not \[\]"):
        lk.replay(twice(), [])                         # type: ignore[arg-type]
    with pytest.raises(lk.PreconditionError, match="replay: kernel= must be a LoopKernel, not 'twice'"):
        lk.replay("twice", lk.History())               # type: ignore[arg-type]


def test_nothing_to_replay() -> None:
    assert lk.replay(scaled_matrix(), lk.History()) == scaled_matrix()


# Comparing

def test_equal_histories() -> None:
    diff = mapped().history.diff(mapped().history)
    assert not diff
    assert str(diff) == "The histories are equal."
    assert diff.common == 3


def test_steps_that_come_and_go() -> None:
    first = mapped().history
    second = lk.unroll(lk.split_iname(twice(), "i", 8, inner_iname="lane"), "lane").history
    diff = first.diff(second)
    assert diff
    assert diff.common == 1
    assert [(c.kind, (c.new or c.old or (0,))[0]) for c in diff.changes] == [
        ("kept", 1), ("changed", 2), ("removed", 3), ("added", 3)]
    assert str(diff) == """\
  1  knl = lk.add_dtypes(knl, {'x': np.float32})
- 2  knl = lk.split_iname(knl, 'i', 4, inner_iname='lane')
+ 2  knl = lk.split_iname(knl, 'i', 8, inner_iname='lane')
     inner_length: 4 -> 8
- 3  knl = lk.tag_inames(knl, {'i_outer': 'g.0'})
+ 3  knl = lk.unroll(knl, 'lane')"""


def test_another_verdict_is_a_change() -> None:
    step = HistoryStep("interchange", ("i", "j"), (), "proven")
    diff = lk.History((step,)).diff(lk.History((HistoryStep("interchange", ("i", "j"), (), "unsafe"),)))
    assert "verdict: proven -> unsafe" in str(diff)


def test_other_kernels_to_start_from() -> None:
    first = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 1").history
    diff = first.diff(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2", name="two").history)
    assert diff.common == 0
    assert "instructions: 'y[i] = 1' -> 'y[i] = 2'; name: added 'two'" in str(diff)


def test_a_set_as_an_argument_is_copied() -> None:
    knl, chosen = lk.make_kernel("{[i]: 0<=i<n}", "for i\ny[i] = x[i] {id=A}\nz[i] = x[i] {id=B}\nend"), {"B"}
    knl = lk.duplicate_inames(knl, "i", within=chosen)
    chosen.clear()
    assert knl.history[-1].arguments()["within"] == {"B"}
