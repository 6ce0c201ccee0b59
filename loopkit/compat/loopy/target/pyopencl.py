"""loopy's target for pyopencl."""
from __future__ import annotations

from loopkit.compat.loopy.target.execution import OPENCL_RUNS_ON, OpenCLExecutor
from loopkit.compat.loopy.target.opencl import OpenCLTarget


class PyOpenCLTarget(OpenCLTarget):
    """OpenCL, run by pyopencl."""

    core = OPENCL_RUNS_ON
    make_executor = OpenCLExecutor
