"""loopy's target for the text of OpenCL."""
from __future__ import annotations

from loopkit.compat.loopy.target.c.target import CFamilyTarget


class OpenCLTarget(CFamilyTarget):
    """OpenCL C."""

    core = "opencl"
