"""Random subscripts of what is read, of any integer dtype: the element is that of plain integers, after any step."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, reject

import loopkit as lk
from loopkit.interpreter.interpreter import Evaluator
from loopkit.lowering.pipeline import lowered_once
from loopkit.lowering.types import index_types
from loopkit.runtime.typed import TypedKernel
from loopkit.target.code import Layout
from loopkit.verification.validation import validate
from tests.deep import amount
from tests.property.test_programs import EXAMPLES, examples

N, M, MODULUS = 3, 5, 89
DTYPES = ("uint8", "int8", "uint16", "int16", "int32", "uint32", "int64", "uint64")

#: Parts of subscripts, as the language and as Python has them; all of Python's numbers are exact.
LEAVES = {
    **{e: e for e in ("s[i]", "s[i + 1]", "t[j]", "i", "j", "k", "q", "m", "m*i", "i - 300", "2*j + 200", "200 - i",
                      "2", "3", "7", "250", "100000")},
    "f(i)": "s[i]*2 + t[j]", "f(i + 1)": "s[i + 1]*2 + t[j]", "g(j)": "t[j]*m + 3",
    "cast(uint8, s[i]*3 + 100)": "(s[i]*3 + 100) % 256", "250u8": "250",
    "if(s[i]*3 > 2*t[j], i, j)": "(i if s[i]*3 > 2*t[j] else j)"}
Tree = Any


@st.composite
def trees(draw: st.DrawFn, depth: int = 2) -> Tree:
    if not depth or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(list(LEAVES)))
    operation = draw(st.sampled_from(("+", "+", "-", "*", "min", "max", "//", "%")))
    right = draw(st.sampled_from(("2", "3", "7", "m"))) if operation in ("//", "%") else draw(trees(depth - 1))
    return operation, draw(trees(depth - 1)), right


def text(tree: Tree) -> str:
    if isinstance(tree, str):
        return f"({tree})"
    operation, a, b = tree[0], text(tree[1]), text(tree[2])
    # min(i, ...) is a reduction
    return f"{operation}({a} + 0*m, {b})" if operation in ("min", "max") else f"({a} {operation} {b})"


def value(tree: Tree, names: Mapping[str, Any]) -> int:
    """The exact value."""
    if isinstance(tree, str):
        return int(eval(LEAVES[tree], {}, dict(names)))
    a, b = (value(part, names) for part in tree[1:])
    operations: dict[str, Callable[[], int]] = {
        "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a*b, "min": lambda: min(a, b), "max": lambda: max(a, b),
        "//": lambda: a // b, "%": lambda: a % b}
    result = operations[tree[0]]()
    if abs(result) >= 2**50:                            # an index has 64 bits
        reject()
    return result


#: Whole subscripts, of a tree as text: those that need all of its value, and those that need its last bits alone.
WHOLE: dict[str, Callable[[int, int, int], int]] = {
    "({}) % 89": lambda x, i, j: x % 89, "max(0, min(88, {}))": lambda x, i, j: max(0, min(x, 88)),
    "if({} > 7, 5, j % 9)": lambda x, i, j: 5 if x > 7 else j,
    "({0})*(j + 3) - ({0})*(2*j + 6) // 2 + i % 4": lambda x, i, j: i}
Step = Callable[[lk.LoopKernel], lk.LoopKernel]

STEPS: dict[str, Step] = {
    "split i": lambda k: lk.split_iname(k, "i", 2), "split j": lambda k: lk.split_iname(k, "j", 3),
    "split j by threads": lambda k: lk.split_iname(k, "j", 4, outer_tag="g.0", inner_tag="l.0"),
    "shift i": lambda k: lk.shift(k, "i", 300), "shift j": lambda k: lk.shift(k, "j", -7),
    "shift k": lambda k: lk.shift(k, "k", -100), "reverse i": lambda k: lk.reverse(k, "i"),
    "reverse j": lambda k: lk.reverse(k, "j"), "fix m": lambda k: lk.fix_parameters(k, m=M),
    "fix n": lambda k: lk.fix_parameters(k, n=N), "q on the grid": lambda k: lk.tag_inames(k, {"q": "g.1"}),
    "write k out": lambda k: lk.set_options(lk.tag_inames(k, {"k": "unr"}), textual_unroll=True),
    "precompute f": lambda k: lk.precompute(k, "f", "i, j", default_tag=None),
    "precompute f at j": lambda k: lk.precompute(k, "f", "i", default_tag=None),
    "precompute g": lambda k: lk.precompute(k, "g", "j", default_tag=None),
    "prefetch s": lambda k: lk.add_prefetch(k, "s", "i", default_tag=None),
    "name s": lambda k: lk.extract_subst(k, "h", "s[p]", "p"), "write out f": lambda k: lk.expand_subst(k, "f"),
    "write out": lk.expand_subst, "join": lambda k: lk.join_inames(k, ["k", "q"]),
    "values of i": lambda k: lk.assume(k, "n <= 3")}


def kernel(subscript: str, s: str, t: str) -> lk.LoopKernel:
    return lk.make_kernel(
        "{[i, j, k, q]: 0<=i<n and 0<=j<m and 100<=k<102 and 50<=q<51}",
        f"f(p) := s[p]*2 + t[j]\n g(p) := t[p]*m + 3\n y[i, j, k - 100, q - 50] = x[{subscript}]",
        [lk.GlobalArg("x", np.int32, shape=MODULUS), lk.GlobalArg("s", s), lk.GlobalArg("t", t), "..."])


def numbers(dtype: str, count: int, seed: int) -> np.ndarray:
    info = np.iinfo(dtype)
    most = 2**40 if dtype in ("int64", "uint64") else 2**32
    return np.random.default_rng(seed).integers(max(info.min, -most), min(info.max, most), count, dtype, endpoint=True)


def exact(form: str, tree: Tree, s: np.ndarray, t: np.ndarray) -> np.ndarray:
    """The elements that plain integers lead to."""
    result = np.zeros((N, M, 2, 1), np.int32)
    lists = {"s": s.tolist(), "t": t.tolist(), "m": M, "q": 50}
    for i, j, k in np.ndindex(N, M, 2):
        found = value(tree, {**lists, "i": i, "j": j, "k": k + 100})
        result[i, j, k, 0] = WHOLE[form](found, i, j)
    return result


def wide(text: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, target, layout: text(self, target, replace(layout, index_bits=64))


@examples(0, amount(2*EXAMPLES))
@given(st.sampled_from(list(WHOLE)), trees(), st.sampled_from(DTYPES), st.sampled_from(DTYPES),
       st.lists(st.sampled_from(list(STEPS)), max_size=4, unique=True), st.booleans(), st.integers(0, 10**6))
def test_subscripts_are_integers(form: str, tree: Tree, a: str, b: str, steps: list[str], of_64_bits: bool, seed: int
                                 ) -> None:
    s, t = numbers(a, N + 1, seed), numbers(b, M, seed + 1)
    wanted = exact(form, tree, s, t)
    knl = kernel(form.format(text(tree)), a, b)
    for step in steps:
        # what a step is about may be gone, or not be in one place
        with suppress(lk.UnknownNameError, lk.PreconditionError, lk.ScheduleError):
            knl = STEPS[step](knl)
    arguments = {"s": s, "t": t, "x": np.arange(MODULUS, dtype=np.int32), "m": M, "n": N}
    arguments = {x: v for x, v in arguments.items() if x in knl.argument_by_name}
    with patch.object(TypedKernel, "text", wide(TypedKernel.text) if of_64_bits else TypedKernel.text):
        found = knl(**arguments)
    np.testing.assert_array_equal(found.y.reshape(wanted.shape), wanted, f"{knl}\n{a} {b} {steps}")


@pytest.mark.deep(every=5)
@pytest.mark.parametrize("form", list(WHOLE))
@pytest.mark.parametrize("a", ["int8", "int16", "int32", "int64"])
def test_signed_and_unsigned_ones_are_integers_together(a: str, form: str) -> None:
    """As values they are a float64 with an uint64, which is no reason to take the last 32 bits of each."""
    s, t = numbers(a, N + 1, 0), numbers("uint64", M, 1)
    for tree in ("f(i)", ("+", "s[i]", "t[j]"), ("max", ("+", "t[j]", "s[i]"), "f(i)")):
        for step in (None, "prefetch s", "precompute f", "split j"):
            knl = kernel(form.format(text(tree)), a, "uint64")
            if step is not None:
                with suppress(lk.UnknownNameError, lk.PreconditionError, lk.ScheduleError):
                    knl = STEPS[step](knl)
            found = knl(s=s, t=t, x=np.arange(MODULUS, dtype=np.int32), m=M, n=N)
            wanted = exact(form, tree, s, t)
            np.testing.assert_array_equal(found.y.reshape(wanted.shape), wanted, f"{tree} {step}")


@examples(1, amount(EXAMPLES))
@given(trees(), st.sampled_from(DTYPES), st.sampled_from(DTYPES), st.integers(0, 10**6))
def test_one_instance_at_a_time(tree: Tree, a: str, b: str, seed: int) -> None:
    """The interpreter has the same integers."""
    s, t = numbers(a, N + 1, seed), numbers(b, M, seed + 1)
    knl = lk.add_dtypes(kernel(text(tree), a, b), {"y": np.int32})
    arrays = {"s": s, "t": t}
    values = Evaluator(index_types(knl), lambda name, at: arrays[name][at])
    statement = lk.expand_subst(knl).statements[0]
    for i, j in np.ndindex(N, M):
        names = {"i": i, "j": j, "k": 101, "q": 50, "m": M}
        wanted = value(tree, {**names, "s": s.tolist(), "t": t.tolist()})
        assert values.subscripts(statement.expression, names) == (wanted,)


def precomputed(rule: str, expression: str) -> lk.LoopKernel:
    knl = lk.make_kernel("{[i]: 0<=i<8}", f"f(p) := {rule}\n y[i] = {expression}", [
        lk.GlobalArg("s", np.uint8), lk.GlobalArg("x", np.int32, shape=1200), "..."])
    return lk.precompute(knl, "f", "i", default_tag=None)


@pytest.mark.parametrize(("rule", "expression", "dtype", "wanted"), [
    ("s[p] + p", "x[f(i)]", "int64", lambda s, i: s + i), ("s[p]*2", "x[f(i) + i]", "int64", lambda s, i: 2*s + i),
    ("p*2 + 1", "x[f(i)]", "int64", lambda s, i: 2*i + 1), ("s[p]", "x[f(i)*4] + f(i)", None, lambda s, i: 5*s),
    ("s[p]*2", "x[cast(uint8, f(i))]", None, lambda s, i: 2*s % 256), ("s[p]*2", "f(i)", None, lambda s, i: 2*s % 256)])
def test_a_copy_of_a_part_of_a_subscript(rule: str, expression: str, dtype: str | None, wanted: Callable[..., Any]
                                         ) -> None:
    """The cells hold indices where subscripts alone use them; in a cast, and elsewhere, a value is one."""
    knl, s = precomputed(rule, expression), np.arange(200, 208, dtype=np.uint8)
    given = {name: v for name, v in (("s", s), ("x", np.arange(1200, dtype=np.int32))) if name in knl.argument_by_name}
    np.testing.assert_array_equal(knl(**given).y, [wanted(200 + i, i) for i in range(8)])
    assert (f"cast({dtype}, " in knl.statements_text) == (dtype is not None)


def test_a_rule_that_is_an_index_and_a_value() -> None:
    with pytest.raises(lk.PreconditionError, match=r"used in a subscript.*and in a value"):
        precomputed("s[p]*2", "x[f(i)] + f(i)")


@pytest.mark.deep(every=2)
@pytest.mark.parametrize(("subscript", "wanted"), [
    ("s[i]*m", 4*200), ("f(i)*m + 1", 4*202 + 1), ("g(i)", 4*200 + 3), ("t[s[i]*m]*m", 4*200), ("s[i]*2", 400),
    ("s[i]*m + i", 4*200), ("min(s[i] + s[i], m + 600)", 400), ("if(s[i]*2 > 300, 9, m)", 9),
    ("cast(uint8, s[i]*m)", 4*200 % 256), ("cast(int32, w*s[i])", 100)])
def test_a_size_that_becomes_a_literal_cuts_nothing_off(subscript: str, wanted: int) -> None:
    """What is read is an index beside a size and beside a literal; in a cast it is what it is elsewhere."""
    for known in (True, False):
        text = f"f(p) := s[p] + 2\n g(p) := s[p]*m + 3\n y[i] = if(m > 0 and w > 0, x[{subscript}], t[0])"
        knl = lk.make_kernel("{[i]: 0<=i<2}", text, [
            lk.GlobalArg("s", shape=2), lk.GlobalArg("t", shape=1000), lk.GlobalArg("x", np.int32, shape=1000),
            lk.ValueArg("w", np.float32), "..."])
        knl = lk.add_dtypes(knl, {"s,t": np.uint8} if known else {})
        s, t, x = np.full(2, 200, np.uint8), np.full(1000, 200, np.uint8), np.arange(1000, dtype=np.int32)
        for result in (knl(s=s, t=t, x=x, m=4, w=0.5), lk.fix_parameters(knl, m=4)(s=s, t=t, x=x, w=0.5)):
            assert result.y[0] == wanted, knl.statements_text


@pytest.mark.parametrize(("subscript", "wanted"), [
    ("(i*j*1000) % 89", lambda i, j: i*j*1000 % 89), ("i*(100000*100000) % 89", lambda i, j: i*10**10 % 89),
    ("min(88, i*j*1000 // 200000000)", lambda i, j: np.minimum(88, i*j*1000 // 200000000)),
    ("if(i*j*1000 > 3000000000, 3, 4)", lambda i, j: np.where(i*j*1000 > 3*10**9, 3, 4))])
def test_products_of_sizes_are_not_cut_off(subscript: str, wanted: Callable[..., Any]) -> None:
    """An address of 32 bits may be a part of a number of 64."""
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<n}", f"y[i, j] = x[{subscript}]",
                         [lk.GlobalArg("x", np.int32, shape=MODULUS), "..."])
    i, j = np.meshgrid(*2*[np.arange(2000, dtype=np.int64)], indexing="ij")
    np.testing.assert_array_equal(knl(x=np.arange(MODULUS, dtype=np.int32), n=2000).y, wanted(i, j))


@pytest.mark.parametrize("dtypes", [("int32", "uint64"), ("uint64", "int64"), ("uint32", "int8")])
def test_integers_that_have_no_common_dtype(dtypes: tuple[str, str]) -> None:
    """numpy adds an int64 and a uint64 as real numbers; as subscripts they are integers."""
    knl = lk.make_kernel("{[i]: 0<=i<3}", "y[i] = x[s[i] + t[i]]", [
        lk.GlobalArg("s", dtypes[0]), lk.GlobalArg("t", dtypes[1]), lk.GlobalArg("x", np.int32, shape=9), "..."])
    s, t = (np.arange(3).astype(dtype) for dtype in dtypes)
    np.testing.assert_array_equal(knl(s=s, t=t, x=np.arange(9, dtype=np.int32)).y, [0, 2, 4])


@pytest.mark.parametrize("subscript", ["s[i] / 2", "w*s[i]", "s[i] + 0.5", "sqrt(s[i])"])
def test_real_subscripts_are_refused(subscript: str) -> None:
    knl = lk.make_kernel("{[i]: 0<=i<3}", f"y[i] = x[{subscript}]", [
        lk.GlobalArg("s", np.uint8), lk.GlobalArg("x", np.int32, shape=9), lk.ValueArg("w", np.float32), "..."])
    with pytest.raises(lk.TypeInferenceError, match="as a subscript of 'x'"):
        lk.generate_code(knl)


@pytest.mark.parametrize(("domain", "assumptions"), [
    ("100<=j<101", None), ("100<=j<m", "m = 101"), ("100<=j<102", None)])
def test_an_iname_that_becomes_a_literal_cuts_nothing_off(domain: str, assumptions: str | None) -> None:
    """An iname with one value, or with its iterations written out, becomes a literal. The results stay the same."""
    knl = lk.make_kernel(f"{{[i, j]: 0<=i<n and {domain}}}", "y[i, j - 100] = x[s[i] + j] + s[i]", [
        lk.GlobalArg("s", np.uint8), lk.GlobalArg("x", np.int32, shape=400), lk.GlobalArg("y", shape="n, 2"), "..."],
        assumptions=assumptions)
    s = np.array([200, 3], np.uint8)
    given = {"x": np.arange(400, dtype=np.int32), "s": s, "y": np.zeros((2, 2), np.int32)}
    given |= {"m": 101} if assumptions else {}
    unrolled = [] if assumptions else [lk.set_options(lk.tag_inames(knl, {"j": "unr"}), textual_unroll=True)]
    for kernel in (knl, *unrolled):
        np.testing.assert_array_equal(kernel(**given).y[:, 0], 2*s.astype(np.int32) + 100)
        assert validate(lowered_once(lk.add_dtypes(kernel, {"y": np.int32}))) == ()
        assert "(unsigned char)" not in lk.generate_code(kernel, target="cuda").source


def test_rows_of_a_large_table() -> None:
    """An index of 32 bits leads to any row, also where the elements have longer ones."""
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "y[i, j] = x[s[i], j] + z[s[i]*m + j]",
                         [lk.GlobalArg("s", np.int32), lk.GlobalArg("x,z", np.int8), "..."])
    for target in ("c", "cuda"):
        wide = str(lk.generate_code(knl, target=target, layout=Layout(64)))
        assert wide.count("(long long)s[i]*") == 2
