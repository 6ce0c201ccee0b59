"""loopy's linear form of a kernel."""
from __future__ import annotations

from typing import Any

from loopkit.compat.loopy.schedule.linear import Barrier as Barrier
from loopkit.compat.loopy.schedule.linear import BeginBlockItem as BeginBlockItem
from loopkit.compat.loopy.schedule.linear import CallKernel as CallKernel
from loopkit.compat.loopy.schedule.linear import EndBlockItem as EndBlockItem
from loopkit.compat.loopy.schedule.linear import EnterLoop as EnterLoop
from loopkit.compat.loopy.schedule.linear import LeaveLoop as LeaveLoop
from loopkit.compat.loopy.schedule.linear import ReturnFromKernel as ReturnFromKernel
from loopkit.compat.loopy.schedule.linear import RunInstruction as RunInstruction
from loopkit.compat.loopy.schedule.linear import ScheduleItem as ScheduleItem
from loopkit.lazy import LazyTable

#: Steps of kernels, whose modules import this package.
_STEPS = LazyTable[Any]({name: f"loopkit.compat.loopy.transform.instruction:{name}" for name in (
    "get_one_linearized_kernel", "get_one_scheduled_kernel", "linearize")})


def __getattr__(name: str) -> Any:
    if name in _STEPS.addresses:
        return _STEPS[name]
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'", name=name)
