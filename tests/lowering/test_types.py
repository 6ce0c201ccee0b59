"""Stage 1: dtypes from what is declared to what is written."""
from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import loopkit as lk
from loopkit.lowering.types import index_types, infer_types, unknown_dtypes


def typed(domain: str, text: str, dtypes: Mapping[str, object], **options: object) -> dict[str, str | None]:
    """The dtypes of a kernel's arguments and temporaries, by name."""
    knl = lk.add_dtypes(lk.make_kernel(domain, text, **options), dtypes)        # type: ignore[arg-type]
    knl = infer_types(knl)
    return {a.name: None if a.dtype is None else str(a.dtype) for a in (*knl.arguments, *knl.temporaries.values())}


I = "{[i]: 0<=i<n}"                     # noqa: E741
IK = "{[i, k]: 0<=i<n and 0<=k<m}"
F32 = np.float32


def test_a_reduction_has_its_operands_dtype() -> None:
    found = typed(IK, "y[i] = sum(k, a[i, k]*x[k])", {"a,x": F32})
    assert found == {"a": "float32", "x": "float32", "y": "float32", "acc_k": "float32", "m": None, "n": None}


@pytest.mark.parametrize(("text", "dtypes", "name", "expected"), [
    ("y[i] = i*x[i]", {"x": F32}, "y", "float32"),
    ("y[i] = x[i]/2", {"x": np.int32}, "y", "float64"),
    ("y[i] = 0", {}, "y", "int32"), ("y[i] = 0.5", {}, "y", "float64"),
    ("y[i] = alpha*x[i]", {"x": F32, "alpha": np.float64}, "y", "float32"),
    # a temporary: its first write; weak ones wait for the others
    ("<> t = x[i]\nt = z[i]\ny[i] = t", {"x": F32, "z": np.float64}, "t", "float32"),
    ("<> s = 0\ns = s + x[i]\ny[i] = s", {"x": F32}, "s", "float32"),
    ("<> h = 0.5\ny[i] = h*x[i]", {"x": F32}, "y", "float64"),
    ("<float64> t = x[i]\ny[i] = t", {"x": F32}, "y", "float64"),
    # an output: the join of its writes
    ("y[i] = x[i]\ny[i] = z[i]", {"x": F32, "z": np.int32}, "y", "float64"),
    ("y[i] = 1\ny[i] = y[i] + x[i]", {"x": F32}, "y", "float32"),
    # bounds and subscripts are integers
    ("y[i] = x[i + shift]", {"x": F32}, "shift", None), ("y[i] = q(i)\nq(j) := x[j]*2", {"x": F32}, "y", "float32")])
def test_dtype(text: str, dtypes: Mapping[str, object], name: str, expected: str | None) -> None:
    assert typed(I, text, dtypes)[name] == expected


@pytest.mark.parametrize(("operation", "dtype", "expected"), [
    ("sum", np.bool_, "int32"), ("any", np.int32, "bool"), ("max", np.int8, "int8"),
    ("product", np.complex64, "complex64"),
    ("all", np.bool_, "bool"), ("min", np.bool_, "bool")])
def test_accumulators(operation: str, dtype: type, expected: str) -> None:
    assert typed(IK, f"y[i] = {operation}(k, a[i, k])", {"a": dtype})["acc_k"] == expected


@pytest.mark.parametrize(("operation", "dtype", "value"), [
    ("sum", np.float32, 0.0), ("product", np.int32, 1), ("max", np.float32, -np.inf), ("min", np.int8, 127),
    ("any", np.int32, False), ("all", np.bool_, True), ("sum", np.complex64, 0j)])
def test_neutral_elements(operation: str, dtype: type, value: object) -> None:
    knl = lk.add_dtypes(lk.make_kernel(IK, f"y[i] = {operation}(k, a[i, k])"), {"a": dtype})
    found = infer_types(knl).statement("insn.k.init").expression
    assert found == value
    assert type(found) is type(value)


def test_nested_reductions() -> None:
    found = typed("{[i, k, l]: 0<=i,k,l<n}", "y[i] = sum(k, a[k]*max(l, b[l]))", {"a": F32, "b": np.int32})
    assert (found["acc_l"], found["acc_k"], found["y"]) == ("int32", "float64", "float64")


def test_bounds_read_from_memory() -> None:
    found = typed(["{[i]: 0<=i<n}", "{[j]: lo<=j<hi}"],          # type: ignore[arg-type]
                  "for i\n<> lo = row[i]\n<> hi = row[i+1]\ny[i] = sum(j, v[j])\nend", {"row": np.int64, "v": F32})
    assert (found["lo"], found["hi"], found["y"]) == ("int64", "int64", "float32")


def test_what_is_not_known() -> None:
    knl = lk.make_kernel(I, "<> t = alpha*x[i]\ny[i] = t + z[i]")
    assert unknown_dtypes(knl) == ("alpha", "x", "y", "z")
    assert unknown_dtypes(lk.add_dtypes(knl, {"x,z": F32})) == ("alpha", "y")
    assert unknown_dtypes(lk.add_dtypes(knl, {"x,z,alpha": F32})) == ()
    with pytest.raises(lk.TypeInferenceError, match="'alpha' of kernel 'kernel' cannot be inferred") as info:
        infer_types(knl)
    assert info.value.subject == "alpha"
    assert "add_dtypes(knl, {'alpha,x,z': np.float32})" in str(info.value)


def test_an_array_that_depends_on_itself_alone_is_not_known() -> None:
    knl = lk.add_dtypes(lk.make_kernel("{[i]: 1<=i<n}", "a[i] = a[i-1] + b[i]"), {"b": F32})
    assert unknown_dtypes(knl) == ("a",)
    with pytest.raises(lk.TypeInferenceError, match=r"'a' .* its elements are computed from other elements of it"):
        infer_types(knl)


@pytest.mark.parametrize(("text", "dtypes", "message"), [
    ("y[i] = x[i]/2", {"x": np.int32, "y": np.int32}, "fraction would be lost"),
    ("y[i] = x[i]", {"x": np.complex64, "y": F32}, "imaginary part would be lost"),
    ("<int32> t = x[i]\ny[i] = t", {"x": F32}, "fraction would be lost")])
def test_what_does_not_fit(text: str, dtypes: Mapping[str, object], message: str) -> None:
    with pytest.raises(lk.TypeInferenceError, match=message) as info:
        typed(I, text, dtypes)
    assert "cast(" in str(info.value) or "real(" in str(info.value)


@pytest.mark.parametrize(("text", "dtypes"), [
    ("y[i] = x[i]", {"x": np.float64, "y": F32}), ("y[i] = x[i]", {"x": np.int64, "y": F32}),
    ("y[i] = cast(int32, x[i])", {"x": F32, "y": np.int32}), ("y[i] = x[i]", {"x": F32, "y": np.complex64}),
    ("y[i] = i", {"y": F32}), ("y[i] = x[i] > 0", {"x": F32, "y": np.int8})])
def test_what_c_converts_is_fine(text: str, dtypes: Mapping[str, object]) -> None:
    typed(I, text, dtypes)


def test_types_of_a_text() -> None:
    knl = infer_types(lk.add_dtypes(lk.make_kernel(I, "y[i] = alpha*x[i]"), {"x": F32, "alpha": np.float64}))
    types = index_types(knl, np.dtype(np.int64))
    assert types["x"] == np.dtype(F32)
    assert {name: str(types[name]) for name in ("i", "n", "alpha")} == {
        "i": "weak int", "n": "weak int", "alpha": "weak float"}


@pytest.mark.deep
def test_a_long_chain_has_one_dtype() -> None:
    lines = [f"<> t{k + 1}_ = 2*t{k}_ + x[i]" for k in range(1, 300)]
    knl = lk.make_kernel(I, "\n".join(["<> t1_ = x[i]", *lines, "y[i] = t300_"]))
    knl = lk.add_dtypes(knl, {"x": F32})
    knl = infer_types(knl)
    assert knl.temporaries["t300_"].dtype == F32
