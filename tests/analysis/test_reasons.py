"""The reasons of undecided questions: they distinguish values read from memory and values computed by the kernel."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import loopkit as lk

WHERE = {"p[i]": "read from memory", "2*p[i] + 1": "read from memory", "sum(k, p[k])": "read from memory",
         "i*i": "computed in the kernel", "sum(k, i*k)": "computed in the kernel"}


def rows(count: str) -> lk.LoopKernel:
    """Rows whose length a temporary of a temporary holds."""
    return lk.make_kernel(["{[i]: 0<=i<n}", "{[k]: 0<=k<4}", "[c] -> {[j]: 0<=j<c}"], f"""
        for i
            <int32> d = {count}
            <int32> c = d
            for j
                z[i, j] = w[j] {{id=T}}
                v[i] = z[i, j] {{id=U}}
            end
        end
        """, [lk.GlobalArg("p", np.int32), "..."])


@pytest.mark.deep(every=9)
@pytest.mark.parametrize("count", WHERE)
@pytest.mark.parametrize(("step", "text"), [
    (lambda k: lk.peel(k, "j", last=1), "its bound is {}"),
    (lambda k: lk.buffer_array(k, "z", "j"), "a bound of 'T' is {}"),
    (lambda k: lk.add_barrier(k, "T", "U"), "the bounds of 'j' are {} (c)"),
    (lambda k: lk.tag_inames(k, "j:g.0"), "a bound of 'U' is {}"),
])
def test_bounds(step: Callable[[lk.LoopKernel], lk.LoopKernel], text: str, count: str) -> None:
    with pytest.raises(lk.LoopkitError) as caught:
        step(rows(count))
    assert text.format(WHERE[count]) in str(caught.value)


@pytest.mark.parametrize("count", WHERE)
@pytest.mark.parametrize("statement", ["y[c] = 1 {id=S}", "y[0] = 1 {id=S, if=c > 2}"])
def test_subscripts_and_conditions(statement: str, count: str) -> None:
    knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<4}", f"for i\n<int32> c = {count}\n{statement}\nend", [
        lk.GlobalArg("p", np.int32), "..."])
    with pytest.raises(lk.UndecidedError) as caught:
        lk.tag_inames(knl, "i:g.0")
    assert f"of 'S' is {WHERE[count]}" in caught.value.reason
