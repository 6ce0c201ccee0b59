"""z = alpha*x + y for Triton, which reads its kernels from the file that they are in."""
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def saxpy(x, y, z, alpha, n, block: tl.constexpr):
    i = tl.program_id(0)*block + tl.arange(0, block)
    inside = i < n
    tl.store(z + i, alpha*tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)
