"""Values as Python text: what is written makes the same value again, and nothing else is written."""
from __future__ import annotations

import math
import os
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import islpy as isl
import ml_dtypes
import numpy as np
import pymbolic.primitives as p
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loopkit as lk
from loopkit.ast.nodes import Completion
from loopkit.kernel.literals import call_text, literal, shown
from loopkit.kernel.tags import GroupTag, IlpTag

NAMES = {"np": np, "lk": lk, "p": p, "isl": isl}


def again(value: object) -> Any:
    return eval(literal(value), dict(NAMES))


@pytest.mark.parametrize("value", [
    None, ..., True, False, 0, -7, 2**80, 1.5, -0.0, 1e300, math.inf, -math.inf, "", "a'b\"c", "back\\slash\n", "tab\t",
    "two\nlines", 'ends in "\n"', "three\n\"\"\" quotes", "\x00\n", "line\r\nfeed", np.int8(-3), np.uint64(2**64 - 1),
    np.float32(0.1), np.float64("inf"), np.bool_(True), np.complex64(1 - 2j), np.dtype("float32"), np.dtype("bool"),
    float, int, bool, np.float16, [], [1, [2]], (), (1,), (1, 2), {}, {"a": {"b": (1.0, None)}}, {1, 2}, set(),
    frozenset(), frozenset({"x"}), range(3), range(1, 9, 2), lk.AddressSpace.LOCAL,
    lk.GlobalArg("x"), lk.GlobalArg("x", np.dtype("float64"), shape=(4, p.Variable("n") + 1)),
    lk.ValueArg("s", np.dtype("float32")), lk.TemporaryVariable("t", shape=(), address_space=lk.AddressSpace.PRIVATE),
    lk.ReductionOperation("f", "if(b > a, b, a)", neutral=-9, reorderable=True),
    lk.Options(full_tiles=False, min_blocks=2), lk.SubstitutionRule("f", ("x",), 2*p.Variable("x")),
    lk.TypeCast("int32", 3), lk.Reduction("sum", ("k",), p.Variable("k")), lk.Assignment("y[i]", "2*x[i]", id="twice"),
    lk.Assignment(p.Variable("t"), 2, within_inames={"i"}, temp_var_type="auto", predicates=["n > 3"]),
    p.Comparison(p.Variable("n"), "<", 3), p.Min((p.Variable("n"), 4)), p.Variable("a")[p.Variable("i"), 1] // 2,
], ids=repr)
def test_the_text_makes_the_value_again(value: object) -> None:
    made = again(value)
    assert made == value
    if not isinstance(value, np.dtype):                 # np.float32 for np.dtype("float32"), which are equal
        assert type(made) is type(value)
    if isinstance(value, int | float | complex | str):
        assert repr(made) == repr(value)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers() | st.text(),
                    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner)))
def test_any_data(value: object) -> None:
    assert repr(again(value)) == repr(value)           # NaN equals no number, and -0.0 equals 0.0


def test_a_kernel_is_written_as_its_steps() -> None:
    knl = lk.split_iname(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 1"), "i", 4)
    assert again([knl]) == [knl]
    assert literal(knl) == "lk.split_iname(lk.make_kernel('{[i]: 0<=i<n}', 'y[i] = 1'), 'i', 4)"


def test_a_tag_is_written_as_its_name() -> None:
    assert again({"i": GroupTag(0), "j": IlpTag(unroll=False)}) == {"i": "g.0", "j": "ilp.seq"}


def test_a_mapping_of_any_kind_is_written_as_a_dict() -> None:
    assert again(MappingProxyType({"a": 1})) == {"a": 1}


def test_a_set_of_isl() -> None:
    points = isl.Set("[n] -> { : exists (e : n = 2e) }")
    assert again(points).is_equal(points)


def test_lines_of_text_stay_lines() -> None:
    assert literal("for i\n  y[i] = 1\nend") == '"""for i\n  y[i] = 1\nend"""'


class Innocent:
    """Its text is code."""

    def __repr__(self) -> str:
        return "__import__('os').getcwd()"


def nested() -> Callable[[], None]:
    return lambda: None


@pytest.mark.parametrize("value", [
    Completion.FLAG,
    Innocent(), nested(), os.getcwd, [1, (nested(),)], {"a": Innocent()}, Innocent, np.ones(2), np.dtype([("a", "i4")]),
    np.dtype(">f4"), np.datetime64("2020-01-01"), b"bytes", iter([1]), lk.GlobalArg("x", shape=(Innocent(),)),  # type: ignore[arg-type]
    ml_dtypes.float8_e5m2(1.5), ml_dtypes.bfloat16(1.5),
    ], ids=lambda value: type(value).__name__)
def test_what_is_no_value_is_refused(value: object) -> None:
    with pytest.raises(lk.PreconditionError, match="cannot be written as Python text"):
        literal(value)
    assert "<" in shown(value)


def test_names_that_python_does_not_take_as_keywords() -> None:
    assert call_text("f", "1", a="2", **{"lambda": "3", "a b": "4"}) == "f(1, a=2, **{'lambda': 3, 'a b': 4})"
