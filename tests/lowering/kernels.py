"""Kernels whose lowering is specified here."""
from __future__ import annotations

from typing import Any

import numpy as np

import loopkit as lk

F32 = np.float32


def make(domain: str | list[str], text: str, data: list[Any] | None = None, **dtypes: Any) -> lk.LoopKernel:
    return lk.add_dtypes(lk.make_kernel(domain, text, data), dtypes)


def exchange() -> lk.LoopKernel:
    """Threads read what other threads of their block wrote."""
    return make("{[b,i,j]: 0<=b<n and 0<=i,j<64}", """
        for b
            for i
                <> t[i] = 2*x[b,i] {id=write}
            end
            for j
                y[b,j] = t[63-j] {id=read}
            end
        end
        """, x=F32)


def own_element() -> lk.LoopKernel:
    """Threads read what they wrote themselves."""
    return make("{[b,i,j]: 0<=b<n and 0<=i,j<64}", """
        for b
            for i
                <> t[i] = 2*x[b,i] {id=write}
            end
            for j
                y[b,j] = t[j] {id=read}
            end
        end
        """, x=F32)


def chain() -> lk.LoopKernel:
    """Three stages, each of which reads the one before it across threads."""
    return make("{[b,i,j,k]: 0<=b<n and 0<=i,j,k<64}", """
        for b
            for i
                <> t[i] = 2*x[b,i] {id=first}
            end
            for j
                <> u[j] = t[63-j] {id=second}
            end
            for k
                y[b,k] = u[(k+1) % 64] + t[k] {id=third}
            end
        end
        """, x=F32)


def time_loop() -> lk.LoopKernel:
    return make("{[t,i,j]: 0<=t<T and 1<=i,j<n-1}", """
        for t
            for i
                v[i] = u[i-1] + u[i+1] {id=compute}
            end
            for j
                u[j] = v[j] {id=copy}
            end
        end
        """, u=F32, v=F32)


def across_blocks() -> lk.LoopKernel:
    return make("{[i,j]: 0<=i,j<n}", """
        for i
            t[i] = 2*x[i] {id=write}
        end
        for j
            y[j] = t[n-1-j] {id=read}
        end
        """, [lk.TemporaryVariable("t", F32), "..."], x=F32)


def outside_axes() -> lk.LoopKernel:
    """A value, and an array element, that every thread of a row uses."""
    return make("{[i,j]: 0<=i<n and 0<=j<m}", """
        for i
            <> s = 2*c[i] {id=value}
            z[i] = s {id=store}
            for j
                y[i,j] = s*x[i,j] {id=use}
            end
        end
        """, c=F32, x=F32)


def rows() -> lk.LoopKernel:
    return make("{[i,k]: 0<=i<n and 0<=k<m}", "y[i] = sum(k, a[i,k])", a=F32)
