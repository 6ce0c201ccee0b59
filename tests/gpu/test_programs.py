"""Random kernels and pipelines on the GPU: what is accepted computes what the program means, bit for bit."""
from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

import loopkit as lk
from tests.property.checks import COUNTS, Trial
from tests.property.kernels import Program
from tests.property.writer import programs


@pytest.mark.parametrize("part", range(4))
def test_pipelines_keep_results_on_the_gpu(part: int) -> None:
    @seed(1000 + part)
    @settings(max_examples=75, database=None, deadline=None, suppress_health_check=list(HealthCheck),
              phases=[Phase.generate])
    @given(programs(), st.data(), st.integers(1, 6))
    def run(program: Program, data: st.DataObject, steps: int) -> None:
        trial = Trial.of(program)
        trial.transform(data.draw, steps)
        if trial.lowered() is None:
            return
        for sizes, expected in zip(trial.sizes, trial.expected, strict=True):
            known = trial.knl.argument_by_name
            arguments: dict[str, Any] = {trial.names[k]: v for k, v in sizes.items() if trial.names.get(k) in known}
            arguments |= {trial.names[k]: v.copy() for k, v in program.inputs().items() if trial.names[k] in known}
            wanted = {trial.names[k]: v for k, v in expected.items()}
            got: dict[str, np.ndarray] = dict(lk.compile(trial.knl, target="cuda")(**arguments).asdict())
            COUNTS["run on the GPU"] += 1
            trial.compare("the GPU", sizes, got, wanted)
    run()
    assert COUNTS["run on the GPU"]
