"""Random kernels on the threads and in the vector units of the host: right, or refused for a true reason."""
from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tests.property.checks import Trial
from tests.property.kernels import Program
from tests.property.pipelines import Drawer, Step
from tests.property.test_programs import EXAMPLES, PARTS, examples
from tests.property.writer import programs


class CpuDrawer(Drawer):
    """Draws steps that map a kernel to the host."""

    def threads(self) -> Step:
        return Step("tag_inames", ({self.one(self.untagged): "cpu.threads"},))

    def simd(self) -> Step:
        return Step("tag_inames", ({self.one(self.untagged): "cpu.simd"},))

    def part(self) -> Step:
        tags = [("inner_tag", self.one(("cpu.simd", "unr", None))), ("outer_tag", self.one(("cpu.threads", None)))]
        return Step("split_iname", (self.one(self.untagged), self.one((2, 3, 4))), tuple(tags))


STEPS = (CpuDrawer.threads, CpuDrawer.simd, CpuDrawer.simd, CpuDrawer.part, CpuDrawer.prioritize)


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("part", PARTS)
def test_threads_and_simd_loops_keep_results(part: int) -> None:
    """The machine runs the iterations of a SIMD loop backwards."""
    @examples(part, EXAMPLES // 16)
    @given(programs(), st.data(), st.integers(1, 4), st.integers(0, 15))
    def run(program: Program, data: st.DataObject, steps: int, lot: int) -> None:
        trial = Trial.of(program)
        trial.draw_steps(data.draw, (data.draw(st.sampled_from(STEPS)) for _ in range(steps)), CpuDrawer)
        trial.require_right(compiled=lot == 15)
    run()
