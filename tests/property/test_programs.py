"""Random kernels and random pipelines of transformations: accepted steps change no result, refusals are true.

With ``make test-deep`` ``LOOPKIT_PROPERTY_EXAMPLES=5000`` looks at more of them; ``LOOPKIT_PROPERTY_SEED=7`` looks at
others, and ``LOOPKIT_PROPERTY_COUNTS=file`` appends what happened, one JSON object for each part.
"""
from __future__ import annotations

import os
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.property.by_value import STEPS, by_value_programs
from tests.property.checks import Trial
from tests.property.kernels import Program
from tests.property.pipelines import Drawer
from tests.property.stepped import mappings, stepped_programs
from tests.property.writer import programs

#: How many pipelines in all; they come in parts, so that several processes share them.
EXAMPLES = int(os.environ.get("LOOPKIT_PROPERTY_EXAMPLES", "400"))
FIRST_SEED = int(os.environ.get("LOOPKIT_PROPERTY_SEED", "0"))
PARTS = range(8)


def examples(part: int, count: int) -> Any:
    """Settings of one part: always the same examples, unlike those of the other parts."""
    fixed = settings(max_examples=max(1, count // len(PARTS)), database=None, deadline=None, print_blob=False,
                     suppress_health_check=list(HealthCheck), phases=[Phase.generate, Phase.shrink])
    return lambda test: seed(FIRST_SEED * len(PARTS) + part)(fixed(test))


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("part", PARTS)
def test_pipelines_keep_results(part: int) -> None:
    """Each step is refused with a reason, or the kernel computes, without races, what the program computes."""
    @examples(part, EXAMPLES * 3 // 4)
    @given(programs(), st.data(), st.integers(1, 6), st.integers(0, 11))
    def run(program: Program, data: st.DataObject, steps: int, lot: int) -> None:
        trial = Trial.of(program)
        trial.transform(data.draw, steps)
        trial.require_right(compiled=lot == 11)
    run()


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("part", PARTS)
def test_kernels_mean_what_their_text_says(part: int) -> None:
    """A kernel without transformations is never refused, and computes what nested Python loops compute."""
    @examples(part, EXAMPLES // 4)
    @given(programs(), st.integers(0, 5))
    def run(program: Program, lot: int) -> None:
        Trial.of(program).require_right(compiled=lot == 5)
    run()


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("part", PARTS)
def test_steps_on_the_host(part: int) -> None:
    """Loops that carry what crosses blocks are the host's, whatever else happens to the kernel."""
    @examples(part, EXAMPLES // 5)
    @given(stepped_programs(), st.data(), st.integers(0, 2), st.integers(0, 11))
    def run(program: Program, data: st.DataObject, steps: int, lot: int) -> None:
        trial = Trial.of(program)
        for step in data.draw(mappings(program)):
            trial.take(step)
        trial.transform(data.draw, steps)
        trial.require_right(compiled=lot == 11)
    run()


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("part", PARTS)
def test_subscripts_that_are_affine_for_each_value_only(part: int) -> None:
    """``a[5*i*i + j]`` and ``a[idx[i]]``: steps on the elements of arrays are right or refused, too."""
    @examples(part, EXAMPLES // 5)
    @given(by_value_programs(), st.data(), st.integers(1, 4), st.integers(0, 11))
    def run(program: Program, data: st.DataObject, steps: int, lot: int) -> None:
        trial = Trial.of(program)
        trial.draw_steps(data.draw, (data.draw(st.sampled_from(STEPS)) for _ in range(steps)), Drawer)
        trial.require_right(compiled=lot == 11)
    run()
