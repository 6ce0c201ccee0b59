"""When a text gets 64-bit indices: wherever a loop, a guard or an address could leave 32 bits."""
from __future__ import annotations

import itertools

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import loopkit as lk
from loopkit.kernel.target import GPU
from loopkit.lowering.types import infer_types
from loopkit.runtime.arguments import CallPlan
from loopkit.runtime.views import ArrayView, c_strides

I8 = np.int8


def wide(knl: lk.LoopKernel, **given: object) -> bool:
    """Does a call with arrays of these shapes, which need not exist, and these scalars want 64 bits?"""
    plan = CallPlan(infer_types(knl), GPU)

    places = itertools.count(1)

    def array(shape: tuple[int, ...], dtype: np.dtype) -> ArrayView:
        return ArrayView(dtype, shape, c_strides(shape, dtype.itemsize), next(places) << 40, 0)
    dtypes = {a.name: np.dtype(a.dtype) for a in infer_types(knl).array_args.values()}
    return plan.bind({k: array(v, dtypes[k]) if isinstance(v, tuple) else v for k, v in given.items()}).wide


def fill() -> lk.LoopKernel:
    return lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 1"), {"y": I8})


@pytest.mark.parametrize("length", [96, 1024])
def test_room_for_the_last_tile(length: int) -> None:
    knl = lk.split_iname(fill(), "i", length, outer_tag="g.0", inner_tag="l.0")
    assert not wide(knl, y=(2**31 - 4*length,))
    for n in (2**31 - length, 2**31 - 5, 2**31 - 1, 2**31):
        assert wide(knl, y=(n,))


def test_a_size_of_a_declared_dtype() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "s[0] = sum(i, 1.0)")
    for dtype in (None, np.int64, np.uint32):
        declared = knl if dtype is None else lk.add_dtypes(knl, {"n": dtype})
        assert wide(declared, n=2**31 + 1)
        assert not wide(declared, n=2**30)


@pytest.mark.parametrize(("bound", "values", "expected"), [
    ("4*n", {"n": 2**29}, True), ("4*n", {"n": 2**26}, False), ("n + m", {"n": 2**30, "m": 2**30}, True),
    ("n + m", {"n": 2**27, "m": 2**27}, False), ("n - 2147483000", {"n": 1000}, True)])
def test_bounds_that_combine_sizes(bound: str, values: dict[str, int], expected: bool) -> None:
    knl = lk.make_kernel(f"{{[i]: 0<=i<{bound}}}", "s[0] = sum(i, 1.0)")
    assert wide(knl, **values) is expected


def test_steps_back_from_the_next_row() -> None:
    """``(i + 1)*m - 1`` passes through the row after the last."""
    knl = lk.make_kernel("{[i,j]: 0<=i<n-1 and 1<=j<m}", "y[i,j] = x[i+1,j-1]")
    knl = lk.add_dtypes(knl, {"x": I8})
    assert wide(knl, x=(3, 2**29 + 10), y=(3, 2**29 + 10))
    assert not wide(knl, x=(40_000, 40_000), y=(40_000, 40_000))


@pytest.mark.parametrize(("n", "m", "expected"), [
    (50_000, 50_000, True), (50_000, 40_000, False), (2**30, 3, True), (3, 2**30, True), (1000, 1000, False)])
def test_scratch_arrays_count(n: int, m: int, expected: bool) -> None:
    """A temporary in global memory may be larger than all arrays that a caller passes."""
    knl = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", "for i, j\n <> t = x[i] + z[j]\n y[i] = y[i] + t\nend")
    knl = lk.expand(lk.add_dtypes(knl, {"x,z,y": I8}), "t", ["i", "j"])
    assert wide(knl, x=(n,), y=(n,), z=(m,)) is expected


def test_other_scalars_do_not_decide() -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i] + k"), {"x,k": np.int64})
    assert not wide(knl, x=(10,), k=2**40)


@pytest.mark.parametrize("scale", [float("nan"), float("inf"), 1.0])
def test_numbers_do_not_decide(scale: float) -> None:
    knl = lk.make_kernel("{[i]: 0<=i<4*n}", "s[0] = sum(i, scale*a[0])")
    knl = lk.add_dtypes(knl, {"scale,a": np.float64})
    assert wide(knl, a=(1,), n=2**29, scale=scale)
    assert not wide(knl, a=(1,), n=2**29 - 100, scale=scale)


@given(st.integers(0, 2**33), st.integers(0, 2**12), st.integers(1, 2**12))
def test_the_short_way_says_what_the_long_one_does(n: int, m: int, length: int) -> None:
    knl = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<3*m+7}", "y[i,j] = x[i,j+5]", assumptions="n>=0")
    knl = lk.split_iname(lk.add_dtypes(knl, {"x": I8}), "i", length)
    plan = CallPlan(infer_types(knl), GPU)
    long_way = CallPlan(infer_types(knl), GPU)
    long_way._surely_32 = long_way._surely_small = 0
    shapes = {"x": (n, 3*m + 12), "y": (n, 3*m + 7)}
    arrays = {k: ArrayView(np.dtype(I8), s, c_strides(s, 1), (i + 1) << 50, 0)
              for i, (k, s) in enumerate(shapes.items())}
    assert plan.bind({**arrays, "m": m}).wide is long_way.bind({**arrays, "m": m}).wide


@pytest.mark.deep
def test_forms_whose_parts_are_larger_than_the_whole() -> None:
    """The bound n - m is small; n and m are not. isl would write 255*m + n for the number of its blocks."""
    knl = lk.make_kernel("{[i]: 0<=i<n-m}", "y[i] = 2*x[i]", assumptions="m>=0 and n>=m")
    knl = lk.split_iname(lk.add_dtypes(knl, {"x": np.float32}), "i", 256, outer_tag="g.0", inner_tag="l.0")
    x = np.arange(1000, dtype=np.float32)
    for m in (10, 10**7, 2*10**7, 10**8, 10**9, 2*10**9):
        y, = lk.compile(knl, target="c")(x=x, n=m + 1000, m=m)
        assert (y == 2*x).all(), m
    assert wide(knl, x=(1000,), n=12*10**8 + 1000, m=12*10**8)
    assert not wide(knl, x=(1000,), n=10**8 + 1000, m=10**8)
