"""Random programs with atomic updates, through random pipelines: threads that combine at once lose nothing."""
from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tests.property.checks import Trial
from tests.property.kernels import Program
from tests.property.pipelines import Drawer
from tests.property.test_programs import EXAMPLES, PARTS, examples
from tests.property.updated import updated_programs


@pytest.mark.deep(every=6)
@pytest.mark.parametrize("part", PARTS)
def test_updates_come_in_any_order(part: int) -> None:
    """Each step is refused with a reason, or the kernel computes, without races, what the program computes."""
    @examples(part, EXAMPLES // 5)
    @given(updated_programs, st.data(), st.integers(0, 2), st.integers(0, 3), st.integers(0, 11))
    def run(program: Program, data: st.DataObject, before: int, steps: int, lot: int) -> None:
        trial = Trial.of(program)
        trial.transform(data.draw, before)
        trial.draw_steps(data.draw, (Drawer.make_atomic, Drawer.collect, Drawer.mapping, Drawer.collect), Drawer)
        trial.transform(data.draw, steps)
        trial.require_right(compiled=lot == 11)
    run()
