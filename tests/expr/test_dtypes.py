"""The dtype rules, one by one."""
from __future__ import annotations

import numpy as np
import pymbolic.primitives as p
import pytest

from loopkit.errors import TypeInferenceError
from loopkit.expr.dtypes import Type, Weak, reduction_type, type_of, weak
from loopkit.expr.indices import as_index
from loopkit.expr.mappers import variables
from loopkit.expr.nodes import REDUCTIONS, Reduction, to_text
from loopkit.expr.parsing import parse_expression
from tests.expr.typed import dtype_of

NAMES: dict[str, Type] = {
    **{name: np.dtype(dtype) for name, dtype in {
        "f": "float32", "d": "float64", "x": "int32", "s": "int8", "L": "int64", "u": "uint8", "U": "uint32",
        "z": "complex64", "w": "complex128", "t": "bool"}.items()},
    "i": weak(np.dtype("int32")), "n": weak(np.dtype("int64")), "alpha": weak(np.dtype("float32")),
    "beta": weak(np.dtype("float64"))}


def dtype(text: str) -> np.dtype | None:
    return dtype_of(parse_expression(text), NAMES.get)


@pytest.mark.parametrize(("text", "expected"), [
    # Python's scalars, inames and value arguments are weak
    ("i*f[i]", "float32"), ("2.5*f[i]", "float32"), ("beta*f[i]", "float32"), ("n + s[i]", "int8"),
    ("2j*f[i]", "complex64"),
    ("1.5*x[i]", "float64"), ("2j*x[i]", "complex128"), ("i/2*f[i]", "float32"), ("sqrt(2)*f[i]", "float32"),
    # alone they have a dtype of their own
    ("i", "int32"), ("n*i", "int64"), ("1.5", "float64"), ("2*alpha", "float32"), ("alpha*beta", "float64"),
    ("2j", "complex128"), ("4294967296", "int64"), ("i/2", "float64"), ("i*alpha", "float32"),
    # arrays promote as numpy's
    ("x[i]*f[i]", "float64"), ("s[i]*f[i]", "float32"), ("U[i] + x[i]", "int64"), ("u[i] + s[i]", "int16"),
    ("z[i]*d[i]", "complex128"), ("f[i] + t[i]", "float32"),
    # division, floor division, powers
    ("x[i]/2", "float64"), ("s[i]/s[i]", "float64"), ("x[i]//2", "int32"), ("f[i] % 2", "float32"),
    ("f[i]**2", "float32"),
    ("x[i]**2", "int32"), ("x[i]**-1", "float64"), ("f[i]**0.5", "float32"),
    # comparisons and logic, min, max and if
    ("x[i] < f[i]", "bool"), ("not t[i]", "bool"), ("t[i] and x[i]", "bool"), ("min(f[i], 0)", "float32"),
    ("max(x[i], d[i])", "float64"), ("if(t[i], f[i], 0)", "float32"), ("if(t[i], true, t[i])", "bool"),
    # truth values count as weak integers
    ("t[i] + t[i]", "int32"), ("(t[i] + t[i])*f[i]", "float32"), ("t[i]*s[i]", "int8"),
    # functions
    ("sqrt(f[i])", "float32"), ("exp(x[i])", "float64"), ("exp(z[i])", "complex64"), ("abs(w[i])", "float64"),
    ("abs(s[i])", "int8"), ("real(z[i])", "float32"), ("floor(f[i])", "float32"), ("floor(x[i])", "int32"),
    ("atan2(f[i], 1)", "float32"), ("atan2(f[i], x[i])", "float64"), ("isnan(f[i])", "bool"), ("conj(f[i])", "float32"),
    ("cast(int8, f[i])", "int8"), ("2f", "float32"), ("2f*d[i]", "float64")])
def test_dtype(text: str, expected: str) -> None:
    assert dtype(text) == np.dtype(expected)


@pytest.mark.parametrize(("operation", "operand", "expected"), [
    ("sum", "f", "float32"), ("sum", "t", "int32"), ("max", "s", "int8"), ("any", "x", "bool")])
def test_a_reduction_has_its_operands_dtype_and_counts_have_int32(operation: str, operand: str, expected: str) -> None:
    assert reduction_type(REDUCTIONS[operation], NAMES[operand]) == np.dtype(expected)


def test_unknown_names() -> None:
    assert dtype("2*q[i]") is None
    assert dtype("q[i] < 2") == np.dtype(bool)
    assert dtype("cast(float32, q[i])") == np.dtype("float32")
    assert dtype("if(q[i] < 0, f[i], 1)") == np.dtype("float32")


def test_weak_types_say_what_they_are() -> None:
    found = type_of(parse_expression("i*n"), NAMES.get)
    assert isinstance(found, Weak)
    assert str(found) == "weak int"
    assert weak(np.dtype(bool)) == np.dtype(bool)


@pytest.mark.parametrize(("text", "subject"), [
    ("min(z[i], 1)", "minimum"), ("z[i] // 2", "floor division"), ("z[i] % 2", "remainder"), ("floor(z[i])", "floor"),
    ("atan2(z[i], 1)", "atan2")])
def test_complex_numbers_have_no_order(text: str, subject: str) -> None:
    with pytest.raises(TypeInferenceError) as info:
        dtype(text)
    assert info.value.subject == subject


def test_complex_maximum_over_an_iname() -> None:
    with pytest.raises(TypeInferenceError):
        reduction_type(REDUCTIONS["max"], NAMES["z"])


def test_numbers_of_numpy_are_not_weak() -> None:
    assert type_of(np.float32(2), NAMES.get) == np.float32
    with pytest.raises(TypeError, match="not a number"):
        type_of("2", NAMES.get)         # type: ignore[arg-type]


def test_a_node_of_no_operation_of_the_language() -> None:
    with pytest.raises(TypeError, match="CommonSubexpression is not a node"):
        variables(p.CommonSubexpression(p.Variable("x")))


def test_only_a_kernel_knows_the_type_of_a_reduction() -> None:
    assert type_of(Reduction("sum", ("k",), 2), NAMES.get) is None


def test_text_may_end_with_lines() -> None:
    assert parse_expression("x\n\n") == p.Variable("x")


def test_parts_of_subscripts() -> None:
    types = {"s": np.dtype("uint8"), "t": np.dtype("int32")}
    s, t = map(p.Variable, types)
    for expr, text in ((s**2 + t, "cast(int32, s)**2 + t"),
                       ((s + p.Comparison(t, "<", 3))//2, "(cast(int32, s) + (t < 3)) // 2")):
        assert to_text(as_index(expr, lambda e: type_of(e, types.get), np.dtype("int32"))) == text
