"""Functions as references: every form of a call, of a result, and of a misfit."""
from __future__ import annotations

import functools
import operator
import re
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from loopkit.errors import CallError, EquivalenceError, PreconditionError, UnknownNameError
from loopkit.kernel.kernel import LoopKernel
from loopkit.runtime.references import ReferenceCall, parameters_of, reference_call


def twice() -> LoopKernel:
    return lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name="twice"), {"x": np.float64})


def difference() -> LoopKernel:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = a[i] - b[i]", name="difference")
    return lk.add_dtypes(knl, {"a": np.float64, "b": np.float64})


def sums() -> LoopKernel:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i] + 1\nz = sum(i, x[i])", name="sums")
    return lk.add_dtypes(knl, {"x": np.float64})


class Difference:
    def __call__(self, left: Any, right: Any) -> Any:
        return left - right

    def method(self, left: Any, right: Any) -> Any:
        return left - right


def without_names(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)
    return wrapper


# Calls

@pytest.mark.parametrize("ref", [
    np.subtract, operator.sub, Difference(), Difference().method, without_names(np.subtract),
    functools.partial(np.einsum, "i,i->i", np.ones(5)), np.vectorize(lambda p, q: p - q),
    functools.wraps(np.subtract)(lambda *args: args[0] - args[1]),
    lambda left, right: left - right, lambda left, right, /: left - right, lambda *args: args[0] - args[1],
    lambda left, *rest: left - rest[0], lambda b, left: left - b, lambda left, a: a - left, lambda b, *, a: a - b,
    lambda left, right, scale=1: scale*(left - right), lambda **given: given["a"] - given["b"],
    lambda left, right, n: left[:n] - right, functools.partial(lambda left, right, scale: scale*(left - right),
                      scale=1),
    functools.partial(lambda a, left, right: a*(left - right), 1)])
def test_forms_of_a_call(ref: Callable[..., Any]) -> None:
    if isinstance(ref, functools.partial) and ref.func is np.einsum:
        knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i]"), {"x": np.float64})
        lk.check_equivalent(ref, knl, {"n": 5}, "c")
        return
    lk.check_equivalent(ref, difference(), {"n": 5}, "c")


def test_names_of_the_caller() -> None:
    for ref, names in ((lambda a, b: b - a, {"a": "b", "b": "a"}), (lambda *, left, b: left - b, {"left": "a"}),
                       (lambda p, q: q - p, {"p": "b"}), (lambda **given: given["left"] - given["b"], {"left": "a"})):
        lk.check_equivalent(ref, difference(), {"n": 5}, "c", names=names)


def test_scalars_by_position_and_sizes_by_name() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = s*x[i]", [lk.GlobalArg("x", np.float64, "n"),
                                                           lk.ValueArg("s", np.float64), "..."])
    lk.check_equivalent(lambda v, alpha: alpha*v, knl, {"n": 5}, "c")
    lk.check_equivalent(lambda v, alpha, n: alpha*v*n/n, knl, {"n": 5}, "c")


def test_keywords_of_a_partial_function_keep_their_values() -> None:
    lk.check_equivalent(functools.partial(lambda v, n: n*v, n=2), twice(), {"n": 5}, "c")


def test_positional_only_parameters_with_defaults() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = if(c[i] > 0, p[i], q[i])", name="choice")
    knl = lk.add_dtypes(knl, {"c": np.int32, "p": np.float64, "q": np.float64})

    def where(condition: Any, left: Any = None, right: Any = None, /) -> Any:
        return np.where(condition > 0, left, right)
    lk.check_equivalent(where, knl, {"n": 7}, "c")


def call(ref: Callable[..., Any], names: dict[str, str] | None = None) -> ReferenceCall:
    return reference_call(ref, difference(), ["a", "b", "n"], ["a", "b"], names or {})


def test_the_text_of_a_call() -> None:
    def subtract(left: Any, right: Any, scale: float = 1) -> Any:
        return scale*(left - right)
    assert call(subtract).shown == "subtract(left=a, right=b)"
    assert call(subtract, {"scale": "n"}).shown == "subtract(left=a, right=b, scale=n)"
    assert call(np.subtract).shown == "subtract(a, b)"
    assert call(lambda left, a: 0).shown == "reference(left=b, a=a)"
    assert call(lambda a, b: 0).by_name
    assert not call(lambda b, left: 0).by_name


def test_functions_without_a_signature() -> None:
    with pytest.raises(ValueError, match="no signature"):
        __import__("inspect").signature(max)
    assert [q.kind.name for q in parameters_of(max).values()] == ["VAR_POSITIONAL"]
    assert [q.kind.name for q in parameters_of(np.add).values()] == ["POSITIONAL_ONLY"]*2


@pytest.mark.parametrize(("ref", "name", "shown"), [
    (lambda x, a: x*a, "a", "reference(x=x, a=?)"), (lambda x, *, q: x, "q", "reference(x=x, q=?)"),
    (lambda q, /, x: x, "q", "reference(q=?, x=x)"), (lambda x, m: x[:m], "m", "reference(x=x, m=?)"),
    (np.dot, "b", "dot(a=x, b=?)"), (np.multiply, "x2", "multiply(x1=x, x2=?)"),
    (lambda *, q: q, "q", "reference(q=?)"),
    (Difference(), "right", "Difference(left=x, right=?)")])
def test_parameters_without_an_argument(ref: Callable[..., Any], name: str, shown: str) -> None:
    with pytest.raises(CallError, match=f"the reference function takes '{name}', which check_equivalent has no "
                                        f"value for: {re.escape(shown)}") as refusal:
        lk.check_equivalent(ref, twice(), {"n": 5})
    assert refusal.value.argument == name
    assert f"names={{'{name}': 'x'}}, or wrap it: lambda x: " in str(refusal.value.hint)
    assert "choose one of n, x" in str(refusal.value.hint)


def test_an_output_is_no_input() -> None:
    with pytest.raises(CallError, match="takes 'y', an output of kernel 'twice' without a value before the call"):
        lk.check_equivalent(lambda x, y: 2*x, twice(), {"n": 5})


@pytest.mark.parametrize(("ref", "text"), [
    (lambda v: v, "takes as 'v': the inputs are 'a', 'b'"), (np.sin, "takes as 'x1': the inputs are 'a', 'b'")])
def test_inputs_that_are_not_clear(ref: Callable[..., Any], text: str) -> None:
    with pytest.raises(CallError, match=text) as refusal:
        lk.check_equivalent(ref, difference(), {"n": 5})
    assert "': 'a'}, or wrap it: lambda a, b: " in str(refusal.value.hint)
    with pytest.raises(CallError, match="it is not clear"):
        lk.check_equivalent(lambda v, w=1, *rest: v, difference(), {"n": 5})
    with pytest.raises(CallError, match="takes as 'v': the inputs are 'a', 'b'") as refusal:
        lk.check_equivalent(lambda v, w=None: v, difference(), {"n": 5})
    assert "names={'v': 'a', 'w': 'b'}, or wrap it" in str(refusal.value.hint)
    lk.check_equivalent(lambda v, w=None: v - w, difference(), {"n": 5}, names={"v": "a", "w": "b"})


def test_a_gap_before_a_positional_parameter() -> None:
    with pytest.raises(CallError, match=r"takes 'p', .*: reference\(p=\?, x=x\)"):
        lk.check_equivalent(lambda p=1, x=2, /: x, twice(), {"n": 5})


def test_names_that_do_not_fit() -> None:
    with pytest.raises(UnknownNameError, match="'w' is not a parameter of the reference function"):
        lk.check_equivalent(lambda v: v, twice(), {"n": 5}, names={"w": "x"})
    with pytest.raises(UnknownNameError, match="'y' is not an input of the kernel"):
        lk.check_equivalent(lambda v: v, twice(), {"n": 5}, names={"v": "y"})
    with pytest.raises(PreconditionError, match="names= is for a reference function"):
        lk.check_equivalent(twice(), twice(), {"n": 5}, names={"A": "x"})


def test_a_kernel_without_inputs() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<4}", "y[i] = 2")
    lk.check_equivalent(lambda: np.full(4, 2), knl)
    with pytest.raises(CallError, match=r"takes 'q', .* reference\(q=\?\)") as refusal:
        lk.check_equivalent(lambda q: q, knl)
    assert refusal.value.hint == "the kernel has no arguments with a value before the call"


def test_exceptions_are_the_users_own() -> None:
    def broken(x: Any) -> Any:
        raise KeyError("mine")
    with pytest.raises(KeyError, match="mine") as caught:
        lk.check_equivalent(broken, twice(), {"n": 5})
    assert caught.value.__notes__ == [
        "check_equivalent called the reference as broken(x=x) with n = 5; parameters={...} chooses other sizes"]
    assert traceback.extract_tb(caught.tb)[-1].name == "broken"


def test_a_function_may_work_in_place() -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*y[i]"), {"y": np.float64})

    def double(v: Any) -> Any:
        v *= 2
        return v
    lk.check_equivalent(double, knl, {"n": 5}, "c")
    own = np.ones(5)
    lk.check_equivalent(double, twice(), {"n": 5, "x": own}, "c")
    assert np.array_equal(own, np.ones(5))


# Results

@pytest.mark.parametrize("ref", [
    lambda x: (x + 1, x.sum()), lambda x: [x + 1, x.sum()], lambda x: {"z": x.sum(), "y": x + 1},
    lambda x: (list(x + 1), float(x.sum())), lambda x: {"y": x + 1, "z": np.array(x.sum()), "others": 3}])
def test_forms_of_several_results(ref: Callable[..., Any]) -> None:
    lk.check_equivalent(ref, sums(), {"n": 5}, "c")


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("ref", [
    lambda x: 2*x, lambda x: [2*x], lambda x: (2*x,), lambda x: list(2*x), lambda x: {"y": 2*x},
    lambda x: [float(v) for v in 2*x], lambda x: (2*x).astype(np.float32).astype(object).astype(float)])
def test_forms_of_one_result(ref: Callable[..., Any], size: int) -> None:
    x = np.arange(size, dtype=np.float64)
    lk.check_equivalent(ref, twice(), {"n": size, "x": x}, "c")


def test_nested_lists_and_scalars() -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i, j]: 0<=i<2 and 0<=j<2}", "y[i, j] = x[i, j]"), {"x": np.float64})
    lk.check_equivalent(lambda x: x.tolist(), knl, target="c")
    total = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y = sum(i, x[i])"), {"x": np.float64})
    for ref in (np.sum, lambda x: float(x.sum()), lambda x: np.array(x.sum()), lambda x: [x.sum()], sum):
        lk.check_equivalent(ref, total, {"n": 5}, "c")


@pytest.mark.parametrize(("result", "text"), [
    (None, "gives no 'y': it returns None, and kernel 'sums' has the outputs y, z"),
    ((1, 2, 3), "gives no 'y': it returns 3 values"), (np.ones(5), "gives no 'y': it returns an object of ndarray"),
    ({"y": np.ones(5)}, "gives no 'z'"), ((None, 1), "gives no 'y'"), (("text", 1), "no array of numbers for 'y', but "
                                                                                  "a str"),
    (([[1], [2, 3]], 1), "no array of numbers for 'y', but a list"), ((np.array("2020", "M8[D]"), 1), "no array of n")])
def test_results_that_are_none(result: Any, text: str) -> None:
    with pytest.raises(CallError, match=text) as refusal:
        lk.check_equivalent(lambda x: result, sums(), {"n": 5}, "c")
    assert refusal.value.hint in ("return y, z in this order, or the dict {'y': y, 'z': z}",
                                  "return y as a numpy array")


def test_a_mask_is_not_ignored() -> None:
    lk.check_equivalent(lambda x: np.ma.array(2*x), twice(), {"n": 5}, "c")
    with pytest.raises(CallError, match="gives a masked array for 'y'") as refusal:
        lk.check_equivalent(lambda x: np.ma.array(2*x, mask=x > 1), twice(), {"n": 5}, "c")
    assert refusal.value.hint == "return y.filled(...)"


@pytest.mark.parametrize(("result", "text"), [
    (np.ones(4), r"'y' has the shape \(5,\), and the reference's is \(4,\)"),
    (3.0, r"'y' has the shape \(5,\), and the reference's is \(\)"),
    (np.ones((5, 1)), r"'y' has the shape \(5,\), and the reference's is \(5, 1\)"),
    (np.ones(5, complex), "'y' is of dtype float64, and the reference's is complex128")])
def test_results_of_another_shape_or_dtype(result: Any, text: str) -> None:
    with pytest.raises(EquivalenceError, match=f"^{text}") as refusal:
        lk.check_equivalent(lambda x: result, twice(), {"n": 5}, "c")
    assert refusal.value.output == "y"
    assert "with n = 5, data: random, seed 0" in refusal.value.details()


def test_dtypes_that_agree() -> None:
    count = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i]"), {"x": np.int16})
    lk.check_equivalent(lambda x: x.astype(np.int64), count, {"n": 5}, "c")
    lk.check_equivalent(lambda x: x.astype(int), lk.add_dtypes(lk.make_kernel(
        "{[i]: 0<=i<n}", "y[i] = x[i]"), {"x": np.float32}), {"n": 5, "x": np.ones(5, np.float32)}, "c")
    with pytest.raises(EquivalenceError, match="'y' is of dtype int16, and the reference's is float64"):
        lk.check_equivalent(lambda x: x.astype(float), count, {"n": 5}, "c")
    truth = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i] > 0"), {"x": np.int16})
    lk.check_equivalent(lambda x: (x > 0).astype(int), truth, {"n": 5}, "c")
