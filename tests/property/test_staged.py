"""Random copies that run ahead, through random pipelines: full tiles, vectors, caches and scans beside them."""
from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tests.property.checks import COUNTS, Trial
from tests.property.kernels import Program
from tests.property.staged import BEHIND, PLAN, Stager, staged_programs
from tests.property.test_programs import EXAMPLES, PARTS, examples


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("part", PARTS)
def test_copies_run_ahead(part: int) -> None:
    """Each step is refused with a reason, or the kernel computes, without races, what the program computes."""
    @examples(part, EXAMPLES // 4)
    @given(staged_programs(), st.data(), st.integers(0, 3), st.integers(0, 11))
    def run(program: Program, data: st.DataObject, more: int, lot: int) -> None:
        trial = Trial.of(program)
        trial.follow(data.draw, PLAN, BEHIND, more, Stager)
        trial.require_right(compiled=lot == 11)
    run()
    assert 8*COUNTS["pipeline: accepted"] >= COUNTS["program: used"], "few copies run ahead: this shows little"
