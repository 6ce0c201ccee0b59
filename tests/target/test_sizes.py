"""Sizes of any integer dtype are integers in subscripts, bounds and conditions: nothing of theirs is cut off."""
from __future__ import annotations

import re

import numpy as np
import pytest

import loopkit as lk

FORMS = (
    "y[-n + i + 20] = 1", "y[i] = x[(40 + i - n)//2]", "y[i] = x[((-n) % 20)]", "y[i] = x[max(-n + i, 0)]",
    "y[i] = x[abs(-n)]", "y[i] = if(-n <= i, 1, x[i - 20])", "y[i] = if(n - 10 < i, 1, 0)",
    "y[i] = if(n*n < 400, 1, 0)",
    "y[i] = if((n - 10)//2 < i and x[i] > 3, 1, 0)", "y[i] = if(not n - 2*n + i >= 0, 1, 0)")


@pytest.mark.deep(every=5)
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "uint32", "uint64"])
def test_forms(dtype: str) -> None:
    text = "\n".join(re.sub(r"^y\[", f"y[{k}, ", form) for k, form in enumerate(FORMS))
    x = np.arange(60.)
    knl = lk.make_kernel("{[i]: 0<=i<20}", text, [
        lk.GlobalArg("x", np.float64, shape=60), lk.GlobalArg("y", np.float64, shape=(len(FORMS), 60)),
        lk.ValueArg("n", np.dtype(dtype)), "..."], assumptions="0<=n<=20")
    mapped = lk.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="l.0")
    for n in (0, 1, 5, 12, 20):
        want = np.zeros((len(FORMS), 60))
        for y, form in zip(want, FORMS, strict=True):
            target, _, value = re.sub(r"\bif\((.*?), (.*), (.*)\)", r"(\2) if \1 else (\3)", form).partition(" = ")
            for i in range(20):
                names = {"i": i, "n": n, "x": x, "y": y}
                y[eval(target.removeprefix("y"), names)[0]] = eval(value, names)
        for k in (knl, mapped):
            np.testing.assert_array_equal(lk.compile(k, target="c")(x=x, n=n).y, want)


def test_beyond_all_indices() -> None:
    """A uint64 may be a seed of any value; as a size it is an integer as large as indices can be."""
    knl = lk.make_kernel("{[i]: 0<=i<4}", "y[i] = if(i < n, 1, 2)\nz[i] = x[i]*seed", [
        lk.GlobalArg("x", np.uint64), lk.ValueArg("n,seed", np.uint64), "..."])
    x = np.arange(4, dtype=np.uint64)
    out = lk.compile(knl, target="c")(x=x, n=2**63 - 1, seed=2**64 - 1)
    assert list(out.y) == [1]*4
    np.testing.assert_array_equal(out.z, -x)
    with pytest.raises(lk.CallError, match="'n' is 9223372036854775808, which int64 cannot hold"):
        lk.compile(knl, target="c")(x=x, n=2**63, seed=0)


def test_a_cast_to_fewer_bits_may_be_negative() -> None:
    """Its operand is an iname, which is not."""
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = cast(int8, i)//3\nz[i] = cast(int8, i) % 3 + x[i]")
    x, i = np.zeros(300, np.int8), np.arange(300).astype(np.int8)
    out = lk.compile(lk.add_dtypes(knl, {"y": np.int8}), target="c")(x=x)
    np.testing.assert_array_equal(out.y, i//3)
    np.testing.assert_array_equal(out.z, i % 3)


def test_unsigned_sizes_are_not_negative() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n-m}", "y[i] = x[i + m]", [lk.GlobalArg("x", np.float32, shape="n"), "..."])
    with pytest.raises(lk.BoundsError, match="accesses x"):
        lk.generate_code(knl)
    for unsigned in (lk.add_dtypes(knl, {"m": np.uint16}), lk.make_kernel(
            "{[i]: 0<=i<n-m}", "y[i] = x[i + m]", [
                lk.GlobalArg("x", np.float32, shape="n"), lk.ValueArg("m", np.uint8), "..."])):
        assert lk.verify(unsigned).verdict is lk.Verdict.PROVEN


@pytest.mark.deep
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "uint32", "uint64", "int64"])
def test_bounds_from_memory(dtype: str) -> None:
    """``hi - 2`` is below zero where ``hi`` is 0, in a loop, its parts and what guards them."""
    knl = lk.make_kernel(["{[i]: 0<=i<n}", "{[j]: hi-2<=j<hi}"], """
        for i
            <> hi = length[i]
            y[i] = sum(j, x[j+2])
            z[i] = hi - 2
        end""")
    length, x = np.array([1, 0, 3, 7], dtype), np.arange(9.)**2
    for k in (knl, lk.split_iname(knl, "j", 4), lk.split_iname(knl, "i", 2, outer_tag="g.0", inner_tag="l.0")):
        out = lk.compile(k, target="c")(length=length, x=x)
        assert list(out.y) == [sum(x[h:h + 2]) for h in map(int, length)]
        np.testing.assert_array_equal(out.z, length - length.dtype.type(2))       # where it is data


def test_a_bound_is_an_integer() -> None:
    knl = lk.make_kernel(["{[i]: 0<=i<n}", "{[j]: 0<=j<hi}"], "for i\n <> hi = length[i]\n y[i] = sum(j, x[j])\nend")
    with pytest.raises(lk.TypeInferenceError, match="'hi', which bounds a loop, is a real number"):
        lk.generate_code(lk.add_dtypes(knl, {"length,x": np.float32}))
