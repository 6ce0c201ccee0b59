"""loopy's kernel, its data and its statements."""
from loopkit.compat.loopy.kernel.kernel import KernelState, LoopKernel
