"""Statements of loopy as objects: declared temporaries, and tags."""
from __future__ import annotations

import numpy as np
import pytest
from pytools.tag import Tag, UniqueTag

import loopkit as lk
import loopkit.compat.loopy as lp
from loopkit.compat.loopy.symbolic import parse


class Hot(UniqueTag):  # type: ignore[misc]  # pytools has no types
    """A tag of a user."""


def test_a_declared_temporary_has_a_present_form_and_older_ones() -> None:
    present = lp.Assignment("t", "x[i]", temp_var_type=lp.Optional(np.float32))
    assert str(present) == "<float32> t = x[i]"
    for older, new in ((np.float32, lp.Optional(np.float32)), (lp.auto, lp.Optional(None)), (None, lp.Optional())):
        with pytest.warns(DeprecationWarning, match="lp.Optional"):
            assert lp.Assignment("t", "x[i]", temp_var_type=older).temp_var_type == new
        with pytest.warns(DeprecationWarning, match="lp.Optional"):
            assert lp.CallInstruction("(t,)", parse("f(1)"), temp_var_types=(older,)).temp_var_types == (new,)
    with pytest.raises(lk.PreconditionError, match="2 assignees and 1 temp_var_types"):
        lp.CallInstruction("(a[i, j], b)", "f(1)", temp_var_types=(lp.Optional(),))


def test_a_call_declares_some_of_its_assignees() -> None:
    call = lp.CallInstruction("(best, where)", "argmin(i, x[i], i)", id="find", temp_var_types=(
        lp.Optional(np.float64), lp.Optional(None)))
    unit = lp.make_kernel("{[i]: 0<=i<5}", [call, "y[0] = best + where {dep=find}"])
    found = unit["loopy_kernel"].temporary_variables
    assert (found["best"].dtype, found["where"].dtype) == (lp.to_loopy_type(np.float64), None)


def test_a_label_is_a_tag_and_equal_to_its_text() -> None:
    label = lp.LegacyStringInstructionTag("main")
    one = lp.Assignment("a[i]", "2*x[i]", id="one", within_inames="i", tags=frozenset([label]))
    unit = lp.make_kernel("{[i]: 0<=i<n}", [one, "b[i] = a[i] {id=two, dep=one, tags=last}"])
    found = unit["loopy_kernel"].id_to_insn
    assert found["one"].tags == {"main"} == {label} == found["one"].tags_of_type(Tag)
    assert [tag.value for tag in found["two"].tags_of_type(lp.LegacyStringInstructionTag)] == ["last"]
    unit = lp.map_instructions(unit, "tag:last", lambda s: s.copy(tags=s.tags | {label}))
    assert {s.id for s in lp.find_instructions(unit, "tag:main")} == {"one", "two"}
    both = lp.make_kernel("{[i]: 0<=i<n}", [one.copy(tags=frozenset([Hot(), label]))])
    assert both["loopy_kernel"].id_to_insn["one"].tags == {Hot(), "main"}
    assert lp.tag_instructions(unit, Hot(), "tag:main")["loopy_kernel"].id_to_insn["one"].tags_of_type(Hot) == {Hot()}
