"""loopy's linear form of a kernel."""
from __future__ import annotations

from loopkit.compat.loopy.schedule.linear import Barrier as Barrier
from loopkit.compat.loopy.schedule.linear import BeginBlockItem as BeginBlockItem
from loopkit.compat.loopy.schedule.linear import CallKernel as CallKernel
from loopkit.compat.loopy.schedule.linear import EndBlockItem as EndBlockItem
from loopkit.compat.loopy.schedule.linear import EnterLoop as EnterLoop
from loopkit.compat.loopy.schedule.linear import LeaveLoop as LeaveLoop
from loopkit.compat.loopy.schedule.linear import ReturnFromKernel as ReturnFromKernel
from loopkit.compat.loopy.schedule.linear import RunInstruction as RunInstruction
from loopkit.compat.loopy.schedule.linear import ScheduleItem as ScheduleItem
from loopkit.compat.loopy.schedule.steps import __getattr__ as __getattr__
