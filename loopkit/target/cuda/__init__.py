"""CUDA C++: one ``__global__`` function a launch."""
from __future__ import annotations

from loopkit.target.cuda.target import CudaTarget as CudaTarget
