"""loopy's kernel, its data and its statements."""
from __future__ import annotations

from loopkit.compat.loopy.kernel.kernel import KernelState as KernelState
from loopkit.compat.loopy.kernel.kernel import LoopKernel as LoopKernel
