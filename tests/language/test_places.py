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


def test_declared_strides_stand_in_the_text_and_on_the_card() -> None:
    add = lk.make_function("{[q]: 0<=q<s}", "b[q] = a[q] + 1", name="add")
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "y[i, j] = 2*x[i, j]\nfor i\nz[i, :] = add(x[i, :], m)\nend", [
        lk.GlobalArg("x", np.float32, strides="1, ldx"), lk.GlobalArg("y", np.float32, strides="2*sy, 1"),
        lk.GlobalArg("z", np.float32, shape="n, m", strides=(None, 1)), "..."], functions=[add])
    card = str(knl)
    assert all(x in card for x in ("(n, m)  (1, ldx)   read", "(n, m)  (2*sy, 1)  written", "(n, m)  (any, 1)"))
    code = lk.generate_code(knl, target="c")
    assert "y[i*2*sy + j] = 2.0f*x[i + j*ldx]" in code.source
    assert "add(&z[i*z_stride_0], &x[i], m, ldx)" in code.source
    assert [p.name for p in code.kernels[0].parameters] == ["x", "y", "z", "ldx", "m", "n", "sy", "z_stride_0"]
    x = np.asfortranarray(np.arange(180, dtype=np.float32).reshape(9, 20))[:7, :18]
    y, z = (np.zeros((7, 32), np.float32)[:, :18] for _ in range(2))
    run = lk.compile(knl, target="c")
    assert run(x=x, y=y, z=z, sy=16).y is y
    np.testing.assert_array_equal([y, z], [2*x, x + 1])
    # the stride of an axis of one element may differ
    assert run(x=np.ones((1, 1), np.float32), z=z[:1, :1], ldx=5, sy=40).y.tolist() == [[2]]
    with pytest.raises(lk.CallError, match=r"'y' must have the stride 34 \(2\*sy\) along axis 0"):
        run(x=x, y=y, z=z, sy=17)


@pytest.mark.parametrize(("place", "hint"), [
    ("i*m + j", "write y[i, j] in place of y[i*m + j]"), ("(i*m + j)*l + k", "write y[i, j, k] in place of"),
    ("i*m + j + 1", "rewrite the access in an affine form"), ("i*j", "rewrite the access in an affine form")])
def test_the_subscripts_of_rows_are_a_way_out(place: str, hint: str) -> None:
    knl = lk.make_kernel("{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<l}", f"y[{place}] = i + j + k")
    with pytest.raises(lk.UndecidedError, match="a subscript of 'insn' is not affine") as caught:
        lk.tag_inames(knl, "i: g.0")
    assert f"keep these statements in their order, {hint}" in caught.value.hint


def test_an_offset_is_added_to_subscripts() -> None:
    twice = lk.make_function("{[j]: 0<=j<n}", "b[j] = 2*a[j]", name="twice")
    data = [lk.GlobalArg("x", np.int32, offset="start"), lk.GlobalArg("y", offset=2), lk.GlobalArg("z", offset=0), ...]
    knl = lk.make_kernel("{[i]: 0<=i<3}", ["y[:] = twice(x[:], 3)", lk.Assignment("z[i]", "x[i] + y[i]")], data,
                         functions=[twice], assumptions="start>=0")
    out = knl(x=np.arange(9, dtype=np.int32), y=np.zeros(5, np.int32), start=4)
    assert out.y.tolist() == [0, 0, 8, 10, 12]
    assert out.z.tolist() == [12, 15, 18]
    for offset, text, error in (("2x", "y[i] = 1", "The offset of 'y' cannot be '2x'"), (1.5, "y[i] = 1", "offset="),
                                (2, "y[i, 0] = 1", "'y' has an offset and 2 axes")):
        with pytest.raises(lk.LoopkitError, match=error):
            lk.make_kernel("{[i]: 0<=i<n}", text, [lk.GlobalArg("y", offset=offset), "..."])  # type: ignore[arg-type]
    with pytest.raises(lk.BoundsError):
        lk.generate_code(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 1", [lk.GlobalArg("y", np.int32, offset=-1), "..."]))
