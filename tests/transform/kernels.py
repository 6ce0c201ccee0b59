"""Small kernels that the tests of transformations share."""
from __future__ import annotations

import numpy as np

import loopkit as lk

F32 = np.float32


def twice() -> lk.LoopKernel:
    return lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]"), {"x": F32})


def scaled_matrix() -> lk.LoopKernel:
    return lk.add_dtypes(lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", "y[i,j] = 2*x[i,j] + i - j"), {"x": F32})


def matvec() -> lk.LoopKernel:
    return lk.add_dtypes(lk.make_kernel("{[i,k]: 0<=i<n and 0<=k<m}", "y[i] = sum(k, a[i,k]*x[k])"), {"a,x": F32})


def matmul() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i,j,k]: 0<=i<n and 0<=j<m and 0<=k<l}", "c[i,j] = sum(k, a[i,k]*b[k,j])")
    return lk.add_dtypes(knl, {"a,b": F32})


def triangle() -> lk.LoopKernel:
    return lk.add_dtypes(lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<=i}", "y[i,j] = x[i] - 2*x[j]"), {"x": F32})


def two_loops() -> lk.LoopKernel:
    """Two sibling loops of one name; the second reads ahead of where the first is."""
    knl = lk.make_kernel("{[i]: 0<=i<n}", """
        for i
            t[i] = 2*x[i] {id=first}
        end
        for i
            y[i] = t[n-1-i] + x[i] {id=second}
        end
        """, [lk.GlobalArg("x", F32), lk.GlobalArg("y", F32), lk.TemporaryVariable("t", F32), "..."])
    return knl


def stencil() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i]: 1<=i<n-1}", "y[i] = a[i-1] + 2*a[i] + a[i+1]")
    return lk.add_dtypes(knl, {"a": F32})
