"""loopy's dtypes: what is written, and the arithmetic of C. The expected values are loopy's own."""
from __future__ import annotations

import numpy as np
import pytest
from pymbolic import parse

import loopkit as lk
import loopkit.compat.loopy as lp
from loopkit.compat.loopy.dtypes import in_c, with_loopy_dtypes
from loopkit.expr.nodes import to_text

DTYPES = {"n8": "int8", "u8": "uint8", "n32": "int32", "n64": "int64", "u32": "uint32", "f": "float32", "d": "float64"}


def typed(instructions: str, **outputs: str) -> lk.LoopKernel:
    knl = lk.make_kernel("{[i,j]: 0<=i,j<n}", instructions)
    return with_loopy_dtypes(lk.add_dtypes(knl, {
        **{name: dtype for name, dtype in DTYPES.items() if name in knl.argument_by_name}, **outputs}))


@pytest.mark.parametrize(("value", "dtype", "text"), [
    ("1.5", "float32", "1.5"),
    ("0.1", "float64", "0.1"),
    ("n32[i] + 0.5", "float32", "cast(float32, n32[i]) + 0.5f"),
    ("n32[i] + f[i]", "float32", "cast(float32, n32[i]) + f[i]"),
    ("n64[i] + f[i]", "float64", "cast(float32, n64[i]) + f[i]"),
    ("f[i] + 1.23456789012345", "float64", "f[i] + cast(float64, 1.23456789012345)"),
    ("f[i] + d[i]", "float64", "f[i] + d[i]"),
    ("2.5*i*d[i]", "float64", "2.5*i*d[i]"),
    ("n8[i] + 100", "int32", "cast(int32, n8[i]) + 100"),
    ("u8[i] - 5", "int32", "cast(int32, u8[i]) - 5"),
    ("n8[i]*n8[i]", "int8", "cast(int32, n8[i])*cast(int32, n8[i])"),
    ("n32[i] / 2", "float64", "cast(float64, n32[i]) / cast(float64, 2)"),
    ("i / 3.0", "float32", "i / 3.0f"),
    ("sum(j, n8[j])", "int8", "sum(j, n8[j])"),
    ("if(n8[i] < 3, n8[i], f[i])", "float32", "if(n8[i] < 3, cast(float32, n8[i]), f[i])"),
    ("n8[i] << 2", "int32", "cast(int32, n8[i]) << cast(int32, 2)"),
    ("n8[i] | n8[j]", "int8", "cast(int32, n8[i]) | cast(int32, n8[j])"),
    ("n32[i] << n64[i]", "int64", "cast(int32, n32[i]) << cast(int32, n64[i])"),
    ("if(n32[i] < 3, n8[i], 2000) + d[i]", "float64", "if(n32[i] < 3, cast(float64, n8[i]), 2000) + d[i]"),
    ("if(i - 4 < u32[i], 1, 2)", "int32",
     "if(cast(uint32, cast(int32, i - 4)) < u32[i], cast(int32, 1), cast(int32, 2))"),
    ("if(u32[i] > -3, 1, 2)", "int32",
     "if(u32[i] > cast(uint32, cast(int32, -3)), cast(int32, 1), cast(int32, 2))"),
    ("if(i < u32[i] + 7, 1, 2)", "int32",
     "if(cast(uint32, cast(int32, i)) < u32[i] + 7, cast(int32, 1), cast(int32, 2))"),
    ("x0", "int32", None),
])
def test_a_value_has_loopys_dtype(value: str, dtype: str, text: str | None) -> None:
    if text is None:
        knl = typed("<> x0 = 1\ny[i] = x0")
    else:
        knl = typed(f"y[i] = {value}")
        assert to_text(knl.instructions[0].expression) == text
    assert knl.argument_by_name["y"].dtype == np.dtype(dtype)


def test_division_of_integers_has_the_precision_of_what_is_written() -> None:
    halved = typed("y[i] = n32[i]/2", y="float32").instructions[0]
    assert to_text(halved.expression) == "cast(float32, n32[i]) / 2f"


def test_operands_of_a_real_quotient_have_real_literals() -> None:
    """A difference of unsigned numbers is then real, and does not wrap."""
    unit = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = (a[i] - b[i])/(2*b[i])", target=lp.ExecutableCTarget())
    _, (y,) = unit(a=np.array([1], np.uint8), b=np.array([3], np.uint32))
    assert y.tolist() == [-1/3]


@pytest.mark.parametrize(("text", "value"), [
    ("(n - 4)//u", -2), ("(n - 4) % (u + 1)", 2), ("u//(n - 4)", -1), ("(u - 4)//2", 2147483647), ("l % u", 1),
    ("-5//u", -3), ("(n - 4)*u//3", 0)])
def test_whole_quotients_of_signed_and_unsigned_numbers_are_not_those_of_c(text: str, value: int) -> None:
    """loopy divides in the common dtype of both operands; sums and products wrap as in C."""
    unit = lp.make_kernel("{[i]: 0<=i<1}", f"y[i] = {text}", target=lp.ExecutableCTarget())
    given = {"u": np.uint32(2), "n": np.int32(0), "l": np.int64(-5)}
    used = {name: number for name, number in given.items() if name in text}
    _, (y,) = lp.add_dtypes(unit, {name: number.dtype for name, number in used.items()})(**used)
    assert y.tolist() == [value]


def test_the_fraction_of_a_branch_is_not_cut_off() -> None:
    with pytest.raises(lk.TypeInferenceError, match=r"fraction of 0\.1"):
        typed("y[i] = n32[i] + if(n32[i] > 2, i, 0.1)", y="int32")


def test_division_of_integers_is_that_of_c_where_an_integer_is_written() -> None:
    unit = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 3*(a[i]/b[i])", [lp.GlobalArg("a,b,y", np.int32, shape="n"), "..."],
                          target=lp.ExecutableCTarget())
    _, (y,) = unit(a=np.array([7, -7], np.int32), b=np.array([2, 2], np.int32))
    assert y.tolist() == [9, -9]
    with pytest.raises(lk.TypeInferenceError, match="divides integers of 64 bits"):
        typed("y[i] = n64[i]/2", y="int64")


@pytest.mark.parametrize(("a", "b", "c"), [
    ("int8", "int8", "int32"), ("uint16", "uint8", "int32"), ("int32", "uint32", "uint32"),
    ("int64", "uint32", "int64"),
    ("bool", "bool", "int32"), ("int64", "float32", "float32"), ("float32", "float64", "float64"),
    ("float32", "complex64", "complex64")])
def test_operands_are_converted_as_in_c(a: str, b: str, c: str) -> None:
    assert in_c(np.dtype(a), np.dtype(b)) == in_c(np.dtype(b), np.dtype(a)) == np.dtype(c)


def test_a_sum_of_truth_values_is_refused() -> None:
    with pytest.raises(lk.TypeInferenceError, match="sums truth values"):
        typed("y[i] = sum(j, f[j] > 1)", y="bool", acc_j="bool")


def test_a_literal_that_loopy_would_cut_off_is_refused() -> None:
    with pytest.raises(lk.TypeInferenceError, match=r"cuts off the fraction of 0\.5"):
        typed("y[i] = n32[i] + 0.5", y="int32")


def test_calls_compute_in_loopys_dtypes() -> None:
    unit = lp.make_kernel("{[i]: 0<=i<m}", "y[i] = n8[i] + 100\nz[i] = n32[i] + 0.5", target=lp.ExecutableCTarget())
    _, (y, z) = unit(n8=np.array([100, -100], np.int8), n32=np.array([1, 2], np.int32))
    assert (y.dtype, y.tolist(), z.dtype, z.tolist()) == (np.int32, [200, 0], np.float32, [1.5, 2.5])


def test_a_complex_literal_of_a_text_is_wide_and_one_of_an_object_as_narrow_as_its_value() -> None:
    x = np.ones(2, np.float32)
    for value, dtype in (("x[i] + 1j", np.complex128), (parse("x")[parse("i")] + 1j, np.complex64),
                         (parse("x")[parse("i")] + np.complex128(1j), np.complex128)):
        unit = lp.make_kernel("{[i]: 0<=i<2}", [lp.Assignment("y[i]", value)])
        unit = lp.add_and_infer_dtypes(unit, {"x": x.dtype})
        assert unit["loopy_kernel"].arg_dict["y"].dtype.numpy_dtype == np.dtype(dtype)


def test_a_cast_of_a_tuple_is_refused_with_the_dtypes() -> None:
    unit = lp.make_kernel("{[i]: 0<=i<2}", "<> t = make_uint2(0, 1)\ny[i] = cast(int64, t) + i")
    with pytest.raises(lk.TypeInferenceError, match="no common dtype"):
        lp.preprocess_program(unit)
