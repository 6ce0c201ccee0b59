"""``indexof`` and ``indexof_vec``: the number of elements before one in memory, in each layout."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit.compat.loopy as lp
from loopkit.errors import PreconditionError

HOST = lp.ExecutableCTarget()
BOX = "{[i,j,k]: 0<=i<4 and 0<=j<n and 0<=k<2}"


@pytest.mark.parametrize(("function", "tags"), [
    ("indexof", None), ("indexof", "F"), ("indexof", "N1,N2,N0"), ("indexof_vec", "vec,c,c")])
def test_an_array_of_its_own_indices_is_a_range_in_memory(function: str, tags: str | None) -> None:
    unit = lp.make_kernel(BOX, f"out[i,j,k] = {function} ( out[i,j,k] )", target=HOST)
    unit = unit if tags is None else lp.tag_array_axes(unit, "out", tags)
    _, (out,) = lp.split_iname(unit, "i", 2)(n=3)
    assert out.dtype == np.int32
    assert out.ravel("K").tolist() == list(range(24))


def test_indices_of_a_declared_argument_hold_its_strides_and_its_offset() -> None:
    text = "load(p_) := 100*indexof(x[p_ // 2])\ny[i,j] = load(2*j + x[i]) + indexof(a[j,i])"
    unit = lp.make_kernel("{[i,j]: 0<=i,j<n}", text, [
        lp.GlobalArg("x", np.int32, shape="n + 5", offset=3), lp.GlobalArg("a", np.int32, shape="n,n", strides=(1, 8)),
        "..."], target=HOST)
    x = np.zeros(8, np.int32)
    _, (y,) = unit(x=x, a=np.zeros((3, 8), np.int32).T[:3], n=3)
    assert y.tolist() == [[100*(j + 3) + j + 8*i for j in range(3)] for i in range(3)]


def test_an_index_without_a_meaning_is_an_error() -> None:
    for line in ("y[i] = indexof(x)", "y[i] = indexof(x[i] + 1)", "y[i] = indexof_vec(2)"):
        with pytest.raises(PreconditionError, match="is not an element of an array"):
            lp.make_kernel("{[i]: 0<=i<n}", line)
    unit = lp.make_kernel(BOX, "out[i,j,k] = indexof(out[i,j,k])", target=HOST)
    with pytest.raises(PreconditionError, match="the number of a vector"):
        lp.tag_array_axes(unit, "out", "vec,c,c")
    with pytest.raises(PreconditionError, match="'out' has 4 axes now"):
        lp.split_array_axis(unit, "out", 0, 2)(n=3)
    with pytest.raises(PreconditionError, match="'out' is the array of indexof"):
        lp.rename_argument(unit, "out", "other")
    function = lp.make_function("{[i]: 0<=i<4}", "b[i] = indexof(a[i]) + 0*a[i]", name="f")
    caller = lp.merge([lp.make_kernel("{[j]: 0<=j<2}", "y[j, :] = f(x[j, :])\na[j] = 1", target=HOST), function])
    for unit in (caller, lp.inline_callable_kernel(caller, "f")):
        with pytest.raises(PreconditionError, match="belongs to the kernel 'f', and not to 'loopy_kernel'"):
            unit(x=np.zeros((2, 4)))
    temporary = lp.make_kernel("{[i]: 0<=i<8}", "<> t[i] = 1\ny[i] = t[i] + indexof(t[i])", target=HOST)
    with pytest.raises(PreconditionError, match="layout of 't' in memory is not known"):
        temporary()
