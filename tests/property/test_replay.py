"""Random pipelines, written down and run one instance at a time.

What the history says makes the kernel again; the instances of an accepted kernel, in the order in which they execute,
compute what the program computes; and every refusal can be replayed.
"""
from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import loopkit as lk
from loopkit.analysis.data_constraints import index_names
from loopkit.interpreter.instances import execution_order
from loopkit.interpreter.interpreter import InitialData, Interpreter
from loopkit.lowering.types import infer_types
from tests.property.checks import COUNTS, Trial
from tests.property.kernels import Draw, Program
from tests.property.pipelines import Step
from tests.property.test_programs import EXAMPLES, PARTS, examples
from tests.property.writer import programs


@dataclass
class Replayed(Trial):
    """A trial that replays what is refused, in place of looking at its witness."""

    def _refused(self, step: Step, error: lk.LoopkitError) -> None:
        if not isinstance(error, lk.IllegalTransformError):
            return
        try:
            replay = error.replay()
        except lk.PreconditionError as refusal:
            if not re.search(r"nothing to replay|one instance at a time", str(refusal)):
                raise AssertionError(self.script(step)) from refusal
            COUNTS["replay: refused"] += 1
            return
        assert str(error.witness.array) in str(replay), self.script(step)
        assert replay == error.replay(), self.script(step)
        COUNTS["replay: hidden" if replay.hidden else "replay: shown"] += 1

    def require_replayed(self, draw: Draw, count: int) -> None:
        """Up to *count* random steps, and all that shall hold of them."""
        self.transform(draw, count)
        self.require_history()
        self.require_instances()

    def require_history(self) -> None:
        """The history's script, and its steps on the first kernel, make the kernel."""
        scope: dict[str, Any] = {}
        exec(self.knl.history.script(), scope)
        assert scope["knl"] == self.knl, self.script()
        assert not self.knl.history.diff(scope["knl"].history), self.script()
        assert lk.replay(self.program.kernel(), self.knl.history) == self.knl, self.script()

    def require_instances(self) -> None:
        """The instances, one by one, leave what the program leaves."""
        typed = infer_types(self.knl)
        inputs = {self.names[k]: v for k, v in self.program.inputs().items()}
        for sizes, expected in zip(self.sizes, self.expected, strict=True):
            scalars = {self.names[k]: v for k, v in sizes.items()
                       if k in self.names and self.names[k] in typed.argument_by_name}
            machine = _ran(typed, scalars, inputs)
            COUNTS["instances: run"] += 1
            for name, wanted in expected.items():
                array = self.names[name]
                for element, value in np.ndenumerate(wanted):
                    assert machine.cell(array, element) == value, f"{array}{element} with {sizes}\n{self.script()}"


def _ran(knl: lk.LoopKernel, scalars: Mapping[str, Any], arrays: Mapping[str, Any]) -> Interpreter:
    machine = Interpreter(knl, scalars, InitialData(0, arrays, index_names(knl)))
    return machine.run(execution_order(knl, machine.instances()))


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("part", PARTS)
def test_histories_and_refusals(part: int) -> None:
    @examples(part, EXAMPLES // 4)
    @given(programs(), st.data(), st.integers(1, 5))
    def run(program: Program, data: st.DataObject, steps: int) -> None:
        trial = Replayed.of(program)
        assert isinstance(trial, Replayed)
        trial.require_replayed(data.draw, steps)
    run()
