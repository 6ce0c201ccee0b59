"""loopy's target for CUDA."""
from __future__ import annotations

from loopkit.compat.loopy.target.c.target import CFamilyTarget
from loopkit.compat.loopy.target.execution import HostExecutor


class CudaTarget(CFamilyTarget):
    """CUDA C++."""

    core = "cuda"
    make_executor = HostExecutor
