"""The kernel language: text in, :class:`~loopkit.kernel.kernel.LoopKernel` out."""
