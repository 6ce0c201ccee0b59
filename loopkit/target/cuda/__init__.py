"""CUDA C++: one ``__global__`` function per launch."""
from __future__ import annotations

from loopkit.target.cuda.target import CudaTarget as CudaTarget
