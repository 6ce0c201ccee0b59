"""Reductions over tuples are numpy's under every mapping: ties, NaN, empty ranges, and an order that is kept."""
from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

import loopkit as lk
from loopkit.expr.tuple_operations import TUPLE_REDUCTIONS
from loopkit.expr.tuples import tuple_dtype
from loopkit.interpreter.instances import reference_order
from loopkit.interpreter.interpreter import Evaluator, InitialData, Interpreter
from loopkit.lowering.types import infer_types
from loopkit.verification.validation import validate
from tests.deep import amount
from tests.property.kernels import Draw
from tests.property.machine import execute
from tests.targets import WarpsOf

EXAMPLES = int(os.environ.get("LOOPKIT_PROPERTY_EXAMPLES", "600"))//40
FIRST_SEED = int(os.environ.get("LOOPKIT_PROPERTY_SEED", "0"))
CHECKED = settings(max_examples=amount(EXAMPLES), database=None, deadline=None, phases=[Phase.generate],
                   suppress_health_check=list(HealthCheck))

Mapped = Callable[[lk.LoopKernel, int], lk.LoopKernel]

#: From a kernel with rows ``i`` and a reduction over ``j``, and a number of lanes.
MAPPINGS: dict[str, Mapped] = {
    "one thread": lambda knl, _: knl,
    "rows by blocks": lambda knl, _: lk.tag_inames(knl, "i:g.0"),
    "split": lambda knl, lanes: lk.split_iname(knl, "j", lanes),
    "threads": lambda knl, lanes: lk.split_iname(lk.tag_inames(knl, "i:g.0"), "j", lanes, inner_tag="l.0"),
    "rows of threads": lambda knl, lanes: lk.split_iname(
        lk.split_iname(knl, "i", 2, outer_tag="g.0", inner_tag="l.1"), "j", lanes, inner_tag="l.0")}

ARGMIN = "value[i], index[i] = argmin(j, x[i, j])"


def run(knl: lk.LoopKernel, x: np.ndarray, outputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of the lowered program, in warps of 4 threads; its translation is validated too."""
    lowered = lk.lower(knl, WarpsOf(4))
    assert validate(lowered) == ()
    sizes = dict(zip("nm", x.shape, strict=True))
    return execute(lowered, {"x": x, **outputs}, sizes, random.Random(0))


@st.composite
def rows(draw: Draw) -> np.ndarray:
    """Few different numbers, so that many are equal."""
    shape = draw(st.integers(1, 3)), draw(st.integers(1, 20))
    values = [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, *([np.nan] if draw(st.booleans()) else [])]
    few = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
    return np.array(draw(st.lists(st.sampled_from(few), min_size=shape[0]*shape[1], max_size=shape[0]*shape[1]))
                    ).reshape(shape)


@pytest.mark.parametrize("name", MAPPINGS)
def test_the_first_place_wins(name: str) -> None:
    @seed(FIRST_SEED)
    @CHECKED
    @given(rows(), st.sampled_from(["argmin", "argmax"]), st.sampled_from([2, 3, 8]))
    def check(x: np.ndarray, operation: str, lanes: int) -> None:
        plain = lk.add_dtypes(lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", ARGMIN.replace("argmin", operation)),
                              {"x": np.float64})
        got = run(MAPPINGS[name](plain, lanes), x, {"value": np.zeros(len(x)), "index": np.zeros(len(x), np.int32)})
        index = getattr(x, operation)(axis=1)
        np.testing.assert_array_equal(got["index"], index)
        np.testing.assert_array_equal(got["value"], x[range(len(x)), index])
    check()


@seed(FIRST_SEED)
@CHECKED
@given(rows())
def test_instances_one_by_one(x: np.ndarray) -> None:
    """The interpreter gives what the machine gives, also for tuples in an array of a dtype that the text declares."""
    knl = infer_types(lk.add_dtypes(lk.make_kernel(
        "{[i, j]: 0<=i<n and 0<=j<m}", "<> t[i] = argmin(j, x[i, j])\ny[i] = t[i]\nindex[i] = y[i].index"),
        {"x": np.float64}))
    machine = Interpreter(knl, dict(zip("nm", x.shape, strict=True)), InitialData(0, {"x": x}, frozenset()))
    machine.run(reference_order(knl, machine.instances()))
    np.testing.assert_array_equal([machine.cell("index", (i,)) for i in range(len(x))], x.argmin(axis=1))
    np.testing.assert_array_equal([machine.cell("y", (i,))["value"] for i in range(len(x))],
                                  x[range(len(x)), x.argmin(axis=1)])


def test_every_two_tuples_have_an_order() -> None:
    """Also those with NaN in both fields: both orders of combining give one result."""
    numbers = [0.0, 1.0, np.nan, -np.inf]
    dtype = tuple_dtype(("value", "index"), [np.dtype(float)]*2)
    every = [np.array(pair, dtype)[()] for pair in itertools.product(numbers, repeat=2)]
    for operation in (TUPLE_REDUCTIONS["argmin"], TUPLE_REDUCTIONS["argmax"]):
        evaluator, merged = Evaluator({"a": dtype, "b": dtype}, lambda _name, _index: None), operation.merged(dtype)
        for a, b in itertools.product(every, repeat=2):
            one, other = (evaluator.of(merged, {"a": x, "b": y}) for x, y in ((a, b), (b, a)))
            assert repr(one) == repr(other)


def segments(x: Sequence[int], flags: Sequence[bool]) -> list[int]:
    """The sums of each segment so far."""
    found: list[int] = []
    for value, starts in zip(x, flags, strict=True):
        found.append(value + (found[-1] if found and not starts else 0))
    return found


@pytest.mark.parametrize("how", ["in order", "threads", "two levels"])
def test_segmented_scans(how: str) -> None:
    """Operands that may be grouped, but not exchanged."""
    text = "y[i], <> begun = segmented(sum)(j, x[j], flag[j])  {id=S}"
    plain = lk.add_dtypes(lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<=i}", text, assumptions="n>=2"),
                          {"x": np.int64, "flag": np.int32})

    @seed(FIRST_SEED)
    @settings(CHECKED, max_examples=amount(EXAMPLES//3))
    @given(st.lists(st.tuples(st.integers(-5, 5), st.booleans()), min_size=2, max_size=40))
    def check(operands: list[tuple[int, bool]]) -> None:
        x, flags = map(list, zip(*operands, strict=True))
        if how == "two levels":
            knl = lk.make_two_level_scan(plain, "S", "j", "i", 4, outer_tag="g.0", inner_tag="l.0")
            knl = lk.realize_scan(knl, "j", "i_inner")
        else:
            knl = lk.fix_parameters(plain, n=len(x)) if how == "threads" else plain
            knl = lk.realize_scan(lk.tag_inames(knl, "i:l.0") if how == "threads" else knl, "j")
        got = execute(lk.lower(knl), {"x": np.array(x), "flag": np.array(flags, np.int32),
                                                 "y": np.zeros(len(x), np.int64)}, {"n": len(x)}, random.Random(0))
        assert got["y"].tolist() == segments(x, flags)
    check()


#: From a kernel with rows ``i`` and a reduction over ``j``, by threads that combine their parts in order.
IN_ORDER: dict[str, Callable[[lk.LoopKernel], lk.LoopKernel]] = {
    "an operand each": lambda knl: lk.tag_inames(knl, "j:l.0"),
    "some operands each": lambda knl: lk.split_iname(lk.tag_inames(knl, "i:g.0"), "j", 3, outer_tag="l.0"),
    "rows": lambda knl: lk.split_iname(lk.tag_inames(knl, "i:l.0"), "j", 3, outer_tag="l.1"),
    "two axes": lambda knl: lk.split_iname(knl, "j", 3, outer_tag="l.1", inner_tag="l.0"),
    "two levels": lambda knl: lk.tag_inames(
        lk.split_reduction_inward(lk.split_iname(knl, "j", 5), "j_inner"), "j_inner:l.0")}


@pytest.mark.parametrize("name", IN_ORDER)
def test_segmented_reductions_over_threads(name: str) -> None:
    text = "y[i], begun[i] = segmented(sum)(j, x[i, j], x[i, j] > 3)"
    for length in (7, 21):
        knl = IN_ORDER[name](lk.add_dtypes(lk.make_kernel(f"{{[i, j]: 0<=i<2 and 0<=j<{length}}}", text),
                                           {"x": np.int64}))
        x = np.random.default_rng(length).integers(-5, 5, (2, length))
        lowered = lk.lower(knl, WarpsOf(4))
        assert validate(lowered) == ()
        got = execute(lowered, {"x": x, "y": np.zeros(2, np.int64), "begun": np.zeros(2, np.int32)}, {},
                      random.Random(0))
        assert got["y"].tolist() == [segments(row, row > 3)[-1] for row in x]
        assert got["begun"].tolist() == [int(max(row) > 3) for row in x]


def test_threads_and_levels_keep_an_order() -> None:
    knl = lk.make_kernel("{[j]: 0<=j<64}", "y = segmented(sum)(j, x[j], flag[j]).value")
    with pytest.raises(lk.IllegalTransformError, match=r"split_iname\(knl, 'j', 64, outer_tag='l.0'\)"):
        lk.split_iname(knl, "j", 8, inner_tag="l.0")
    with pytest.raises(lk.PreconditionError, match="its operands would have another order"):
        lk.split_reduction_inward(lk.split_iname(knl, "j", 8), "j_outer")


#: The mean and the sum of squared distances from it, combined as Chan, Golub and LeVeque do (1979).
WELFORD = lk.ReductionOperation(
    "welford", {"n": "a.n + b.n",
                "mean": "if(b.n == 0, a.mean, a.mean + (b.mean - a.mean)*b.n/(a.n + b.n))",
                "m2": "if(b.n == 0, a.m2, a.m2 + b.m2 + (b.mean - a.mean)**2*a.n*b.n/(a.n + b.n))"},
    neutral={"n": 0, "mean": 0, "m2": 0}, reorderable=True)


@pytest.mark.parametrize("name", ["one thread", "threads", "rows of threads"])
def test_an_operation_of_the_user(name: str) -> None:
    plain = lk.add_dtypes(lk.make_kernel(
        "{[i, j]: 0<=i<n and 0<=j<m}", "<> w = welford(j, 1.0, x[i, j], 0.0)\nmean[i] = w.mean\nvar[i] = w.m2/w.n",
        reductions=[WELFORD]), {"x": np.float64})
    x = np.random.default_rng(1).normal(3, 2, (3, 21))
    got = run(MAPPINGS[name](plain, 8), x, {"mean": np.zeros(3), "var": np.zeros(3)})
    np.testing.assert_allclose(got["mean"], x.mean(axis=1), rtol=1e-13)
    np.testing.assert_allclose(got["var"], x.var(axis=1), rtol=1e-13)


def test_no_operands() -> None:
    plain = lk.add_dtypes(lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", ARGMIN), {"x": np.int32})
    got: Any = run(plain, np.zeros((2, 0), np.int32), {"value": np.zeros(2, np.int32), "index": np.zeros(2, np.int32)})
    assert got["value"].tolist() == got["index"].tolist() == [2**31 - 1]*2
