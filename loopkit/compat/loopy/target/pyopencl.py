"""loopy's target for pyopencl."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from loopkit.compat.loopy.target.execution import OpenCLExecutor
from loopkit.compat.loopy.target.opencl import OpenCLTarget


@dataclass(frozen=True)
class PyOpenCLTarget(OpenCLTarget):
    """OpenCL, run by pyopencl."""

    device: Any = field(default=None, compare=False)
    make_executor = OpenCLExecutor
