"""Operators on every pair of special values, as numpy has them, and the names that the headers of a text take."""
from __future__ import annotations

import subprocess
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from loopkit.language.names import fault
from loopkit.runtime.compiler import BASE_FLAGS
from loopkit.target.c.target import C
from tests.compilers import c_compiler

OPERATORS: dict[str, Any] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide, "//": np.floor_divide, "%": np.remainder,
    "<": np.less, ">=": np.greater_equal, "==": np.equal}


def special(dtype: str) -> np.ndarray:
    if np.dtype(dtype).kind == "f":
        return np.array([0, -0.0, 1, -1, 2.5, -2.5, 7, -7, 0.1, 1e30, -1e30, np.inf, -np.inf, np.nan], dtype)
    range_ = np.iinfo(dtype)
    return np.array([0, 1, 2, 3, 7, 100, range_.max, range_.max - 1, range_.min, range_.min + 1], dtype)


@pytest.mark.deep(every=8)
@pytest.mark.parametrize(("left", "right"), [
    ("float32", "float32"), ("float64", "float64"), ("int8", "uint8"), ("uint64", "int64"), ("int32", "float32"),
    ("float32", "uint16"), ("int64", "int64"), ("uint32", "int32")])
def test_operators(left: str, right: str) -> None:
    a, b = (v.ravel() for v in np.meshgrid(special(left), special(right), indexing="ij"))
    if a.dtype.kind != "f" and b.dtype.kind != "f":
        defined = (b != 0) & ((b.dtype.kind == "u") | (b != -1))
        a, b = a[defined], b[defined]
    text = "\n".join(f"r{k}[i] = a[i] {op} b[i]" for k, op in enumerate(OPERATORS))
    out = lk.compile(lk.make_kernel("{[i]: 0<=i<n}", text), target="c")(a=a, b=b)
    for got, (op, function) in zip(out, OPERATORS.items(), strict=True):
        with np.errstate(all="ignore"):
            want = function(a, b)
        assert got.dtype == want.dtype, op
        np.testing.assert_array_equal(got, want, err_msg=op)
        if want.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(got)[want == 0], np.signbit(want)[want == 0], err_msg=op)


def test_macros_are_no_names() -> None:
    """An array ``HUGE_VAL`` was declared as a function that gives a pointer, which was called as the kernel."""
    headers = C.preamble("float _Complex").partition("static")[0]
    flags = [f for f in BASE_FLAGS if f.startswith("-std")]
    text = subprocess.run([c_compiler(), *flags, "-dM", "-E", "-x", "c", "-"], input=headers, check=True, text=True,
                          capture_output=True).stdout
    macros = {line.split()[1].partition("(")[0] for line in text.splitlines()}
    assert "HUGE_VAL" in macros
    assert [m for m in sorted(macros) if fault(m) is None] == []
