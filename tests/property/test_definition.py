"""A transformed kernel that gets its own instructions back computes what it computed, or is refused with the reason."""
from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import HealthCheck, Phase, given, settings

import loopkit as lk
from tests.property.checks import Trial
from tests.property.kernels import Program
from tests.property.writer import programs


@settings(max_examples=8, database=None, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck),
          phases=[Phase.generate])
@given(programs(), st.data(), st.integers(0, 4))
def test_a_transformed_kernel_is_defined_again(program: Program, data: st.DataObject, steps: int) -> None:
    trial = Trial.of(program)
    trial.transform(data.draw, steps)
    try:
        trial.knl = lk.with_statements(trial.knl, trial.knl.instructions)
    except lk.PreconditionError as refusal:
        if not ("would read another value" in str(refusal) or "not an expression of an instruction" in str(refusal)):
            raise
        return
    trial.require_right(compiled=False)
