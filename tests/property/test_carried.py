"""Temporaries that carry values from loop to loop: the rule of the semantics page, and pipelines over such kernels."""
from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, reject

import loopkit as lk
from tests.property.carried import Crossing, crossings
from tests.property.checks import COUNTS, Trial
from tests.property.kernels import UnwrittenError
from tests.property.rule import RefusedError
from tests.property.test_programs import EXAMPLES, PARTS, examples
from tests.property.test_replay import Replayed


def _has_meaning(program: Crossing) -> bool:
    """Has it one, so that the kernel is made? Else it is refused; where data decides, it may be."""
    try:
        program.meaning()
    except UnwrittenError:
        COUNTS["program: without an exact meaning"] += 1
        reject()
    except RefusedError as why:
        COUNTS["program: two readings"] += 1
        try:
            program.kernel()
        except (lk.ParseError, lk.PreconditionError):
            return False
        if program.depends_on_data:                 # other data might leave one reading
            return False
        raise AssertionError(f"not refused, though {why}:\n{program.script()}") from None
    try:
        program.kernel()
    except lk.PreconditionError as error:
        if program.depends_on_data:
            COUNTS["program: refused for its data"] += 1
            return False
        raise AssertionError(f"{error}\n{program.script()}") from error
    return True


@pytest.mark.deep(every=8)
@pytest.mark.parametrize("part", PARTS)
def test_values_of_iterations(part: int) -> None:
    """A kernel means what the rule says, and is refused where the rule leaves two readings."""
    @examples(part, EXAMPLES)
    @given(crossings(), st.integers(0, 11))
    def run(program: Crossing, lot: int) -> None:
        if _has_meaning(program):
            Trial.of(program).require_right(compiled=lot == 11)
    run()


@pytest.mark.deep(every=8)
@pytest.mark.parametrize("part", PARTS)
def test_pipelines_over_values_of_iterations(part: int) -> None:
    @examples(part, EXAMPLES // 2)
    @given(crossings(), st.data(), st.integers(1, 5), st.integers(0, 11))
    def run(program: Crossing, data: st.DataObject, steps: int, lot: int) -> None:
        if _has_meaning(program):
            trial = Trial.of(program)
            trial.transform(data.draw, steps)
            trial.require_right(compiled=lot == 11)
    run()


@pytest.mark.deep(every=2)
@pytest.mark.parametrize("part", PARTS)
def test_histories_over_values_of_iterations(part: int) -> None:
    @examples(part, EXAMPLES // 8)
    @given(crossings(), st.data(), st.integers(1, 4))
    def run(program: Crossing, data: st.DataObject, steps: int) -> None:
        if _has_meaning(program):
            trial = Replayed.of(program)
            assert isinstance(trial, Replayed)
            trial.require_replayed(data.draw, steps)
    run()
