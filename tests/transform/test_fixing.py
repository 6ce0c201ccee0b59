"""fix_parameters: numbers of all kinds in the place of value arguments, and what is computed keeps its dtype."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopkit as lk

F32, F64 = np.float32, np.float64


def made(text: str, **dtypes: Any) -> lk.LoopKernel:
    knl = lk.make_kernel("{[i]: 0<=i<n}", text)
    return lk.add_dtypes(knl, {k: v for k, v in dtypes.items() if k in knl.argument_by_name})


@pytest.mark.deep(every=8)
@pytest.mark.parametrize("text", [
    "y[i] = alpha*x[i]", "y[i] = alpha", "y[i] = alpha*i + 1", "y[i] = alpha/3*x[i]",
    "y[i] = if(alpha*0.1 > 0.25, x[i], 0)", "<> t = alpha*alpha\n y[i] = t*x[i]", "y[i] = x[i]/alpha + sqrt(alpha)",
    "f(v) := alpha*v\n y[i] = f(x[i]) - alpha", "y[i] = alpha*beta", "y[i] = 1 {if=alpha*0.1 > beta}",
    "y[i] = x[i] + sum({[k]: 0<=k<3}, alpha*k)", "y[i] = -alpha + x[i]"])
@pytest.mark.parametrize("dtype", [F64, F32, np.float16, None])
@pytest.mark.parametrize("x", [F32, F64, np.int32])
def test_a_real_value_computes_what_the_argument_did(text: str, dtype: Any, x: Any) -> None:
    knl = made(text, **({} if dtype is None else {"alpha": dtype}), x=x, beta=F32)
    given: dict[str, Any] = {"x": np.arange(1, 5).astype(x), "beta": 0.7}
    given = {name: v for name, v in given.items() if name in knl.argument_by_name}
    for alpha in (2.5, -0.1, 3.0):
        fixed = lk.fix_parameters(knl, alpha=alpha)
        assert "alpha" not in fixed.argument_by_name
        expected, found = knl(**given, n=4, alpha=alpha), fixed(**given, n=4)
        for one, other in zip(expected, found, strict=True):
            assert one.dtype == other.dtype, fixed
            np.testing.assert_array_equal(one, other, str(fixed))


@pytest.mark.parametrize(("dtype", "value"), [
    (np.int64, 7), (np.int32, np.int16(7)), (np.bool_, True), (np.complex128, 2 - 1j), (np.complex64, 0.1),
    (F32, 3), (F32, np.float64(0.1)), (None, 3), (None, np.float32(0.1)), (None, 1j)])
def test_numbers_of_all_kinds(dtype: Any, value: Any) -> None:
    knl = made("y[i] = alpha\n z[i] = if(i > 1, alpha, 0)", **({} if dtype is None else {"alpha": dtype}))
    expected, found = knl(n=3, alpha=value), lk.fix_parameters(knl, alpha=value)(n=3)
    for one, other in zip(expected, found, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("name", "value", "dtype", "message"), [
    ("n", 2.5, None, "'n' is a size: it can be fixed to an integer, not to 2.5"),
    ("n", np.float64(4), None, "'n' is a size: it can be fixed to an integer"),
    ("n", True, None, "'n' is a size: it can be fixed to an integer, not to True"),
    ("n", "4", None, "'n' is a size: it can be fixed to an integer, not to '4'"),
    ("alpha", "x", None, "'alpha' is a number: it can be fixed to a number, not to 'x'"),
    ("alpha", None, F32, "'alpha' is float32: it can be fixed to a real number, not to None"),
    ("alpha", 1j, F64, "'alpha' is float64: it can be fixed to a real number, not to 1j"),
    ("alpha", np.arange(3), F64, "'alpha' is float64: it can be fixed to a real number"),
    ("alpha", True, F64, "'alpha' is float64: it can be fixed to a real number, not to True"),
    ("alpha", 1, np.bool_, "'alpha' is bool: it can be fixed to a truth value, not to 1"),
    ("alpha", 2.5, np.int32, "'alpha' is int32: it can be fixed to an integer, not to 2.5"),
    ("alpha", 2**40, np.int32, "'alpha' is int32, which has no literal for 1099511627776"),
    ("alpha", 1e39, F32, "'alpha' is float32, which has no literal for 1e\\+39"),
    ("alpha", float("nan"), F64, "'alpha' is float64, which has no literal for nan"),
    ("alpha", 3, np.uint8, "'alpha' is uint8, but only integers of int32 and int64 can be fixed")])
def test_what_a_value_argument_cannot_be(name: str, value: Any, dtype: Any, message: str) -> None:
    knl = made("y[i] = alpha*x[i]", **({} if dtype is None else {"alpha": dtype}))
    with pytest.raises(lk.PreconditionError, match=message) as caught:
        lk.fix_parameters(knl, **{name: value})
    assert caught.value.subject == name
    assert "hint:" in str(caught.value)


@pytest.mark.parametrize("text", ["y[i] = a*a*x[i]", "y[i] = x[i] + a*i*a*x[i]", "y[i] = x[i] + sqrt(a*a)*x[i]",
                                  "y[i] = x[i] {if=x[i] > a*a}"])
def test_products_of_64_bits_are_not_cut_off(text: str) -> None:
    """A literal has no dtype: a*a would overflow as an int32 that was right as an int64."""
    knl = made(text, x=F64, a=np.int64)
    with pytest.raises(lk.PreconditionError, match=r"computes .* with 64 bits"):
        lk.fix_parameters(knl, a=100000)


@pytest.mark.parametrize("text", ["y[i] = a*a", "y[i] = a*x[i]", "y[i] = x[a*i]", "<> t = a*i\n y[i] = t + a",
                                  "y[i] = (a*2)*x[i]", "y[i] = x[i] {if=i + 2*a > 5}"])
def test_what_64_bits_compute_stays(text: str) -> None:
    knl = made(text, a=np.int64, x=F32)
    given = {"x": np.arange(9, dtype=F32)} if "x[" in text else {}
    for a in (2, 100000) if "a*i]" not in text else (2,):
        expected, found = knl(**given, n=3, a=a).y, lk.fix_parameters(knl, a=a)(**given, n=3).y
        assert expected.dtype == found.dtype
        np.testing.assert_array_equal(expected, found)


@pytest.mark.deep(every=6)
@pytest.mark.parametrize("text", [
    "y[i] = x[i] {if=p*i < 9}", "y[i] = sum(k, x[k]) {if=p*i + n < 9}", "y[i] = x[i] {if=p*i < 9 and x[i] > 2}",
    "y[i] = sum(k, x[k] + max([j], x[j]*k)) {if=p*p*i < 9}", "y[i] = sum(k, x[k]) + max(j, x[j]) {if=p*i >= q*i}",
    "y[i] = x[i] {if=p*i > q and i % q == 1}",
    "for i\n <> t = x[i] {if=p*i < 9}\n y[i] = t {if=p*i < 9}\n end"])
def test_an_affine_condition_narrows_the_instances(text: str) -> None:
    """As in a kernel with the numbers in its text, so that an iname has a constant range there."""
    domains = "{[i, k, j]: 0<=i<n and 0<=k<m and 0<=j<m}"
    knl = lk.make_kernel(domains, text, assumptions="n>=1 and m>=1")
    knl = lk.split_iname(knl, "i", 4)
    given = {"p": 2, "q": 3}
    fixed = lk.fix_parameters(knl, **{x: v for x, v in given.items() if x in knl.argument_by_name})
    for x, v in given.items():
        text = text.replace(f"{x}*", f"{v}*").replace(f"> {x}", f"> {v}").replace(f"% {x}", f"% {v}")
    read = lk.split_iname(lk.make_kernel(domains, text, assumptions="n>=1 and m>=1"), "i", 4)
    assert any(s.predicates for s in knl.statements)
    for s in read.statements:
        own = fixed.statement_by_id[s.id]
        assert own.domain.is_equal(s.domain), s.id
        assert len(own.predicates) == len(s.predicates)
    x = np.arange(12.) % 5
    data = {"x": x, "n": 7, "m": 12} if "m" in read.argument_by_name else {"x": x[:7], "n": 7}
    np.testing.assert_array_equal(lk.add_dtypes(fixed, {"x": F64})(**data).y, lk.add_dtypes(read, {"x": F64})(**data).y)
