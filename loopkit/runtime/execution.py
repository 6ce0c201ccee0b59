"""The execution of kernels, by the name of their target."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from loopkit.errors import PreconditionError
from loopkit.kernel.kernel import LoopKernel
from loopkit.lazy import LazyTable
from loopkit.runtime.calls import Runner
from loopkit.runtime.timing import Timing, TimingRequest
from loopkit.target.text_target import TextTarget


@dataclass(frozen=True)
class Execution:
    """The execution of the kernels of a target.

    :ivar runner: makes the runner of a kernel from the target, the user's device, and whether to wait for each launch.
    :ivar time: measures a call of a runner.
    """

    runner: Callable[[LoopKernel, Any, object, bool], Runner]
    time: Callable[[Any, Mapping[str, Any], TimingRequest], Timing]


#: By the name of a target; a module is imported at the first use of its target.
EXECUTIONS = LazyTable[Execution]({
    "c": "loopkit.runtime.host:ON_THE_HOST",
    "cuda": "loopkit.runtime.cuda.timing:ON_GPUS",
})


def execution_for(target: TextTarget) -> Execution:
    """:raises PreconditionError: *target* has no execution, only a text."""
    if target.name not in EXECUTIONS:
        raise PreconditionError(f"Nothing runs kernels for the target '{target.name}'.", subject=target.name,
                                hint=f"generate_code(knl, target={target.name!r}) gives their text")
    return EXECUTIONS[target.name]
