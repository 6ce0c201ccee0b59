"""Random nests whose inames share an axis of the grid, in parts of symbolic lengths: right, and proven to be right."""
from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tests.property.checks import COUNTS, Trial
from tests.property.kernels import Program
from tests.property.pipelines import Drawer
from tests.property.sharing import on_blocks, sharing_programs
from tests.property.test_programs import EXAMPLES, PARTS, examples


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("part", PARTS)
def test_axes_are_shared(part: int) -> None:
    """Each step is refused with a reason, or the loop program is proven, and computes what the program computes."""
    @examples(part, EXAMPLES // 4)
    @given(sharing_programs(), st.data(), st.integers(2, 6), st.integers(0, 1), st.integers(0, 11))
    def run(program: Program, data: st.DataObject, blocks: int, more: int, lot: int) -> None:
        trial = Trial.of(program)
        trial.draw_steps(data.draw, [on_blocks]*blocks, Drawer)
        trial.transform(data.draw, more)
        trial.require_right(compiled=lot == 11)
    run()
    shared = COUNTS["validation: an axis shared in parts that sizes give"]
    assert 20*shared >= COUNTS["program: used"] - 20, "this shows little"
