"""``a[[place]]``: elements that are named by their places in memory."""
from __future__ import annotations

from math import prod
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pymbolic.primitives as p
import pytest
from hypothesis import given

import loopkit as lk
from loopkit.expr.evaluate import evaluate
from loopkit.expr.places import subscripts_at

i, j, n, m = map(p.Variable, "ijnm")


@given(st.lists(st.sampled_from([n, m, 4, 3, p.Product((2, n))]), min_size=1, max_size=3), st.data())
def test_the_subscripts_have_the_place(shape: list[Any], data: st.DataObject) -> None:
    factor = st.sampled_from([i, j, n, m, 2, 4, 12, p.Product((i, n)), p.Sum((p.Product((j, m)), 3))])
    place = p.Sum(tuple(p.Product((data.draw(factor), data.draw(factor), *shape[data.draw(st.integers(0, 2)):]))
                        for _ in range(data.draw(st.integers(1, 3)))))
    values = {x: data.draw(st.integers(1, 9)) for x in "ijnm"}
    sizes = [evaluate(e, values) for e in shape]
    found = [evaluate(e, values) for e in subscripts_at(place, shape)]
    assert len(found) == len(shape)
    assert sum(x*prod(sizes[axis + 1:]) for axis, x in enumerate(found)) == evaluate(place, values)


@pytest.mark.parametrize("order", ["C", "F", None])
def test_places_in_a_kernel(order: Any) -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<4}", "y[[i*4 + j]] = 10*i + j\nz[i, j] = x[[4*i + j]]", [
        lk.GlobalArg("y", np.int32, shape=("n", 4)), lk.GlobalArg("x", np.int32, (4, "n") if order == "F" else ("n", 4),
                                                                  order=order), "..."])
    x = np.arange(8, dtype=np.int32).reshape(2, 4)
    out = knl(x=x.T if order == "F" else x)
    assert out.y.tolist() == [[0, 1, 2, 3], [10, 11, 12, 13]]
    assert out.z.tolist() == x.tolist()


def test_a_place_outside_is_refused() -> None:
    def made(place: str, **layout: Any) -> lk.LoopKernel:
        return lk.make_kernel("{[i, j]: 0<=i,j<n}", f"y[[{place}]] = j", [lk.GlobalArg("y", np.int32, **layout), "..."])
    with pytest.raises(lk.BoundsError, match="y"):
        lk.generate_code(made("i*n + 2*j", shape=("n", "n")), target="c")
    with pytest.raises(lk.ParseError, match="'y' is used with one subscript and declared with 2 axes"):
        made("i*n + j", shape=("n", "n"), strides=("n", 1))
