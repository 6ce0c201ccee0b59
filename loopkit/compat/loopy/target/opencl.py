"""loopy's target for the text of OpenCL."""
from __future__ import annotations

from loopkit.compat.loopy.target.c.target import CFamilyTarget
from loopkit.compat.loopy.target.execution import OPENCL_RUNS_ON


class OpenCLTarget(CFamilyTarget):
    """OpenCL C."""

    core = OPENCL_RUNS_ON
