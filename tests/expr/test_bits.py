"""Operations on bits: numpy's values in C and in the interpreter, intervals, and the affine reading of constants."""
from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest
from pymbolic.typing import Expression

import loopkit as lk
from loopkit.errors import TypeInferenceError
from loopkit.expr.dtypes import WEAK_INT, Type, resolve, type_of
from loopkit.expr.evaluate import evaluate
from loopkit.expr.intervals import Interval, interval
from loopkit.expr.mappers import subexpressions
from loopkit.expr.nodes import to_text
from loopkit.expr.parsing import parse_expression
from loopkit.interpreter.interpreter import Evaluator
from loopkit.poly.affine import is_quasi_affine
from loopkit.poly.piecewise import points_where
from loopkit.target.c.target import C
from loopkit.target.cuda.dialect import CUDA
from tests.expr.typed import VALUES, arrays, lookup, numpy_value, run_c, source
from tests.golden_files import GoldenFiles
from tests.nvrtc import compile_cuda

_INTEGERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
_BINARY = [lambda a, b: p.BitwiseAnd((a, b)), lambda a, b: p.BitwiseOr((a, b)), lambda a, b: p.BitwiseXor((a, b)),
           p.LeftShift, p.RightShift, lambda a, b: p.Sum((a, b)), lambda a, b: p.Product((a, b))]


def _made(rng: random.Random, depth: int) -> Expression:
    """A random integer expression. Shifts by a_i1, with values from -9 to 9, have counts that C leaves undefined."""
    if depth == 0 or rng.random() < 0.1:
        return rng.choice([*(p.Subscript(p.Variable(f"a_{d}"), p.Variable("k")) for d in _INTEGERS), 1, 3, 9, 40,
                           p.Variable("i"), p.Variable("n")])
    if rng.random() < 0.15:
        return p.BitwiseNot(_made(rng, depth - 1))
    node: Any = rng.choice(_BINARY)
    return node(_made(rng, depth - 1), _made(rng, depth - 1))


def _expressions(count: int) -> list[tuple[Expression, np.ndarray]]:
    """Expressions with numpy's values."""
    rng, found = random.Random(5), list[tuple[Expression, np.ndarray]]()
    while len(found) < count:
        expr = _made(rng, rng.randint(1, 3))
        try:
            assert type_of(expr, lookup) is not None
            with np.errstate(all="ignore"):
                values = numpy_value(expr)
        except (TypeInferenceError, TypeError, OverflowError, ValueError):
            continue            # int64 with uint64, or a literal that numpy refuses
        if isinstance(values, np.ndarray):
            found.append((expr, values))
    return found


def test_values_are_those_of_numpy(tmp_path: Path) -> None:
    made = _expressions(250)
    for (expr, expected), got in zip(made, run_c([e for e, _ in made], C, tmp_path), strict=True):
        assert got.dtype == expected.dtype, to_text(expr)
        np.testing.assert_array_equal(got, expected, to_text(expr))
    types: dict[str, Type] = {"k": WEAK_INT, **{
        x: found for x in (*arrays(), *VALUES) if (found := lookup(x)) is not None}}
    for expr, expected in made:
        evaluator = Evaluator(types, lambda name, element: arrays()[name][element])
        for k in (0, 7, 23):
            assert evaluator.of(expr, {**VALUES, "k": k}) == expected[k], to_text(expr)


def test_the_cuda_form_compiles() -> None:
    compile_cuda(source([e for e, _ in _expressions(12)], CUDA, 'extern "C" __global__ void')[0], "sm_80")


def test_intervals_hold_every_value() -> None:
    rng = random.Random(8)
    for _ in range(300):
        expr = _made(rng, 3)
        names = {e: p.Variable(f"v{number}") for number, e in enumerate(dict.fromkeys(
            e for e in subexpressions(expr) if isinstance(e, p.Subscript)))}
        from_names = {str(x): x for x in names.values()}
        ends = {x: sorted(rng.choices(range(-20, 21), k=2)) for x in (*from_names, "i", "n")}
        whole = parse_expression(to_text(expr))
        for e, x in names.items():
            whole = parse_expression(to_text(whole).replace(to_text(e), x.name))
        found = interval(whole, lambda e, ends=ends: Interval(*ends[e.name]))           # type: ignore[misc]
        for _ in range(10):
            value = evaluate(whole, {x: rng.randint(*low_high) for x, low_high in ends.items()})
            assert found.holds(value), (to_text(whole), ends, value, found)


@pytest.mark.parametrize("text", ["i << 3", "i >> 2", "i & 7", "7 & i", "i & -8", "~i", "~(i >> 1) & 1", "i & 0"])
def test_constants_have_an_affine_reading(text: str) -> None:
    expr = parse_expression(text)
    assert is_quasi_affine(expr)
    for i in range(-20, 20):
        equal = points_where(p.Comparison(expr, "==", evaluate(expr, {"i": i})), ("i",))
        fixed = points_where(p.Comparison(p.Variable("i"), "==", i), ("i",))
        assert fixed.is_subset(equal), (text, i)


@pytest.mark.parametrize("text", ["i | 1", "i ^ 1", "i & 6", "i << j", "i >> j", "i << -1", "1 << i"])
def test_other_operands_have_none(text: str) -> None:
    assert not is_quasi_affine(parse_expression(text))


@pytest.mark.parametrize(("text", "message"), [
    ("a_f4[k] & 1", "'a_f4[k] & 1' operates on bits, and 'a_f4[k]' is float32"),
    ("1 << 2.0", "'1 << 2.0' operates on bits, and '2.0' is float64"),
    ("~a_c8[k]", "operates on bits, and 'a_c8[k]' is complex64"),
    ("a_i8[k] | a_u8[k]", "The operands of 'a_i8[k] | a_u8[k]' are int64 and uint64"),
])
def test_refused(text: str, message: str) -> None:
    with pytest.raises(TypeInferenceError) as caught:
        type_of(parse_expression(text), lookup)
    assert message in str(caught.value)
    assert caught.value.hint is not None


def test_truth_values_stay_truth_values() -> None:
    assert resolve(type_of(parse_expression("(i < n) & ~t[k]"), lookup) or np.dtype("int8")) == np.dtype(bool)


def test_a_kernel_with_bits_in_its_subscripts(golden: GoldenFiles) -> None:
    """Affine subscripts, others, and shifts that need a helper."""
    knl = lk.make_kernel("{[i]: 0<=i<n}", """
        y[i] = x[i << 1] if i & 1 == 0 else x[i >> 1]
        w[i] = x[(i ^ 5) & 15] | s[i] << 4
        """, [lk.GlobalArg("x", np.int32), lk.GlobalArg("s", np.int16), "..."])
    knl = lk.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    x, s, i = np.arange(100, 200, dtype=np.int32), np.arange(-5, 6, dtype=np.int16), np.arange(11)
    out = knl(x=x, s=s)
    np.testing.assert_array_equal(out.y, np.where(i & 1 == 0, x[i << 1], x[i >> 1]))
    np.testing.assert_array_equal(out.w, x[(i ^ 5) & 15] | s << 4)
    golden.check("language/bits.cu", lk.generate_code(knl, target="cuda"))
    golden.check("language/bits.c", lk.generate_code(knl, target="c"))


def test_reductions_of_bits() -> None:
    """numpy's values by shuffles, also of a row without operands, which has the neutral element."""
    cases: list[tuple[str, np.ufunc, type[np.generic]]] = [
        ("bit_and", np.bitwise_and, np.uint8), ("bit_or", np.bitwise_or, np.int32),
        ("bit_xor", np.bitwise_xor, np.uint64), ("bit_and", np.bitwise_and, np.bool_)]
    knl = lk.make_kernel("[n] -> {[i,k]: 0<=i<3 and 0<=k<n}", "\n".join(
        f"y{case}[i] = {name}(k, x{case}[i, k])" for case, (name, *_) in enumerate(cases)))
    knl = lk.add_dtypes(knl, {f"x{case}": dtype for case, (*_, dtype) in enumerate(cases)})
    knl = lk.split_iname(knl, "k", 32, inner_tag="l.0")
    for columns in (40, 0):
        given = [np.random.default_rng(2).integers(0, 2 if dtype is np.bool_ else 200, (3, columns)).astype(dtype)
                 for *_, dtype in cases]
        found = knl(**{f"x{case}": x for case, x in enumerate(given)}, n=columns)
        for y, x, (_, f, dtype) in zip(found, given, cases, strict=True):
            assert y.dtype == dtype
            assert (y == f.reduce(x, axis=1)).all()
    compile_cuda(str(lk.generate_code(lk.tag_inames(knl, "i:g.0"), target="cuda")))


def test_bits_of_real_numbers_have_no_reduction() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[0] = bit_or(i, x[i])")
    with pytest.raises(TypeInferenceError, match=r"'bit_or' operates on bits, and its operand is float32"):
        lk.generate_code(lk.add_dtypes(knl, {"x": np.float32}))
