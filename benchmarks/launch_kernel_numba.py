"""z = alpha*x + y for numba, in a file of its own: numba keeps compiled functions by the file that they are in."""
from __future__ import annotations

import numpy as np
from numba import cuda

# numba-cuda 0.30 asks for a name that numpy 2.5 has no more
if not hasattr(np, "row_stack"):
    np.row_stack = np.vstack


@cuda.jit(cache=True)
def saxpy(x, y, z, alpha, n):
    i = cuda.grid(1)
    if i < n:
        z[i] = alpha*x[i] + y[i]
