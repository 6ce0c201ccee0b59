"""Illegal steps and their legal twins: values that get other cells."""
from __future__ import annotations

from collections.abc import Mapping

import loopkit as lk
from tests.legality.pairs import F64, FRESH, LEFT_BEHIND, NM, N, Nest, Twins, nest, step

#: ``y`` is read by another statement in the loop over the buffered iname, or after it.
READ_BESIDE = nest("{[i,k]: 0<=i<8 and 0<=k<4}", """
    for k
        for i
            y[i] = y[i] + x[i,k] {id=A}
            z[i,k] = y[7-i] {id=B}
        end
    end
    """, {})
READ_BEHIND = nest("{[i,k]: 0<=i<8 and 0<=k<4}", """
    for k
        for i
            y[i] = y[i] + x[i,k] {id=A}
        end
        for i
            z[i,k] = y[7-i] {id=B}
        end
    end
    """, {})
CELLS = nest("{[i]: 0<=i<8}", """
    for i
        t[i] = 2*x[i] {id=W}
        y[i] = t[i] {id=R}
    end
    """, {}, data=(lk.TemporaryVariable("t", F64, (8,)),))
SCRATCH = nest("{[i]: 0<=i<8}", """
    for i
        t[i] = 2*x[i] {id=W}
    end
    for i
        t[i] = t[i] + 1 {id=A}
    end
    for i
        t[i] = t[7-i]*3 {id=B}
    end
    for i
        t[i] = t[i] + 1 {id=C}
    end
    for i
        y[i] = t[i] {id=R}
    end
    """, {}, data=(lk.TemporaryVariable("t", F64, (8,)),))
APART = step("distribute_loop", "i", before="R")
BUFFER = step("buffer_array", "y", "i", within="A", default_tag=None)

STORED: Mapping[str, Twins] = {
    "expanding what is left for the next": Twins(
        LEFT_BEHIND, step("expand", "t", "i"), (step("expand", "t", "i"),), legal_nest=FRESH),
    "a buffer while another reads": Twins(
        READ_BESIDE, BUFFER, (step("buffer_array", "y", "i", default_tag=None),)),
    "a buffer over the reader's loop": Twins(
        READ_BEHIND, BUFFER, (step("buffer_array", "y", "i", default_tag=None),)),
    "a buffer that another writes beside": Twins(
        SCRATCH, step("buffer_array", "t", "i", within="A,C", default_tag=None),
        (step("buffer_array", "t", "i", within="A", default_tag=None),)),
    "one cell for values that are alive at once": Twins(
        CELLS, step("contract", "t", "i"), (step("contract", "t", "i"),), before=(APART,)),
}


def shaped(domain: str, text: str, *sizes: Mapping[str, int], **shapes: tuple[str, ...]) -> Nest:
    data = tuple(lk.GlobalArg(name, F64, shape) for name, shape in shapes.items())
    return nest(domain, text, *sizes, data=data)


#: Accesses outside of declared shapes, each beside one that stays inside.
BOUNDS: Mapping[str, tuple[Nest, Nest]] = {
    "a write to a halo that is not there": (
        shaped("{[i]: 0<=i<n}", "a[i+1] = b[i]", *N, a=("n",)),
        shaped("{[i]: 0<=i<n}", "a[i+1] = b[i]", *N, a=("n+1",))),
    "a read before the first element": (
        shaped("{[i]: 0<=i<n}", "a[i] = b[i-1]", *N, b=("n",)),
        shaped("{[i]: 1<=i<n}", "a[i] = b[i-1]", *N, b=("n",))),
    "a stencil to the edge": (
        shaped("{[i,j]: 0<=i<n and 1<=j<m-1}", "a[i,j] = b[i+1,j-1] + b[i,j+1]", *NM, b=("n", "m")),
        shaped("{[i,j]: 0<=i<n-1 and 1<=j<m-1}", "a[i,j] = b[i+1,j-1] + b[i,j+1]", *NM, b=("n", "m"))),
    "doubled subscripts": (
        shaped("{[i]: 0<=i<n}", "a[2*i] = b[i]", *N, a=("n",)),
        shaped("{[i]: 0<=2*i<n}", "a[2*i] = b[i]", *N, a=("n",))),
}
