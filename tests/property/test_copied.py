"""Random copies of what strided nests and unions read, through random pipelines: in boxes, in registers, by vectors."""
from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tests.property.checks import COUNTS, Trial
from tests.property.copied import BEHIND, PLAN, Copier, copied_programs
from tests.property.kernels import Program
from tests.property.test_programs import EXAMPLES, PARTS, examples


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("part", PARTS)
def test_copies_of_strided_reads(part: int) -> None:
    """Each step is refused with a reason, or the kernel computes, without races, what the program computes."""
    @examples(part, EXAMPLES // 4)
    @given(copied_programs(), st.data(), st.integers(0, 2), st.integers(0, 11))
    def run(program: Program, data: st.DataObject, more: int, lot: int) -> None:
        trial = Trial.of(program)
        trial.follow(data.draw, PLAN, BEHIND, more, Copier)
        trial.require_right(compiled=lot == 11)
    run()
    assert 4*COUNTS["add_prefetch: accepted"] >= COUNTS["program: used"], "few copies are made: this shows little"
