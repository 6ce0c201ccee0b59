"""loopy's target for pyopencl."""
from __future__ import annotations

from loopkit.compat.loopy.target.execution import OpenCLExecutor
from loopkit.compat.loopy.target.opencl import OpenCLTarget


class PyOpenCLTarget(OpenCLTarget):
    """OpenCL, run by pyopencl."""

    make_executor = OpenCLExecutor
