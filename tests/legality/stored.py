"""Illegal steps and their legal twins: values that get other cells."""
from __future__ import annotations

from collections.abc import Mapping

import loopkit as lk
from tests.legality.pairs import F64, FRESH, LEFT_BEHIND, Twins, nest, step

#: ``y`` is read by another statement in the loop over the buffered iname, or behind it.
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
APART = step("distribute_loop", "i", before="R")
BUFFER = step("buffer_array", "y", "i", within="A", default_tag=None)

STORED: Mapping[str, Twins] = {
    "expanding what is left for the next": Twins(
        LEFT_BEHIND, step("expand", "t", "i"), (step("expand", "t", "i"),), legal_nest=FRESH),
    "a buffer while another reads": Twins(
        READ_BESIDE, BUFFER, (step("buffer_array", "y", "i", default_tag=None),)),
    "a buffer over the reader's loop": Twins(
        READ_BEHIND, BUFFER, (step("buffer_array", "y", "i", default_tag=None),)),
    "one cell for values that are alive at once": Twins(
        CELLS, step("contract", "t", "i"), (step("contract", "t", "i"),), before=(APART,)),
}
