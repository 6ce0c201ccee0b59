"""z = alpha*x + y for numba, in a file of its own: numba keeps compiled functions by the file that they stand in."""
from __future__ import annotations

from numba import cuda


@cuda.jit(cache=True)
def saxpy(x, y, z, alpha, n):
    i = cuda.grid(1)
    if i < n:
        z[i] = alpha*x[i] + y[i]
