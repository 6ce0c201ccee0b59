"""Random subscripts of what is read, of any integer dtype: the element is that of plain integers, or as numpy wraps."""
from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given

import loopkit as lk
from loopkit.lowering.pipeline import lower_fully
from loopkit.target.code import Layout
from loopkit.verify.validation import validate
from tests.property.test_programs import EXAMPLES, examples

#: What a subscript is made of: its parts are read, are inames and sizes, or literals.
READ, SIZES, NUMBERS = ("s[i]", "s[i + 1]"), ("i", "j", "m", "m*i", "i - 300", "2*j + 200"), ("2", "3", "7")
Tree = Any
N, M = 3, 400


@st.composite
def trees(draw: st.DrawFn, depth: int = 2) -> Tree:
    if not depth or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from((*READ, *READ, *SIZES, *NUMBERS)))
    operation = draw(st.sampled_from(("+", "+", "*", "min", "max", "//", "%")))
    left = draw(trees(depth - 1))
    return operation, left, draw(st.sampled_from(NUMBERS)) if operation in ("//", "%") else draw(trees(depth - 1))


def text(tree: Tree) -> str:
    if isinstance(tree, str):
        return f"({tree})"
    operation, a, b = tree[0], text(tree[1]), text(tree[2])
    return f"{operation}({a} + 0*m, {b})" if operation in ("min", "max") and a in ("(i)", "(j)") else \
        f"{operation}({a}, {b})" if operation in ("min", "max") else f"({a} {operation} {b})"


def leaves(tree: Tree) -> list[Tree]:
    """The terms and factors of a sum of products, which is one operation."""
    return [x for part in tree[1:] for x in leaves(part)] if tree[0] in ("+", "*") and len(tree) == 3 else [tree]


def value(tree: Tree, names: dict[str, Any], *, whole: bool = False) -> Any:
    """Python's integer where a size or a literal decides, else a number of numpy's.

    :arg whole: it is part of a sum or product that a size takes part in.
    """
    if isinstance(tree, str):
        found = eval(tree, {}, names)
        return int(found) if whole else found
    operation, *parts = tree
    if operation in ("+", "*"):
        whole = whole or any(is_size(x, names) for x in leaves(tree))
        a, b = (value(x, names, whole=whole) for x in parts)
        result = a + b if operation == "+" else a*b
        assume(abs(int(result)) < 2**31)                # an index has 32 bits here
        return result
    a, b = (value(x, names) for x in parts)
    if any(is_size(x, names) for x in parts):
        a, b = int(a), int(b)
    found = {"min": min, "max": max, "//": lambda x, y: x // y, "%": lambda x, y: x % y}[operation](a, b)
    dtype = next((type(x) for x in (a, b) if isinstance(x, np.generic)), int)
    return int(found) if whole else dtype(found)


def is_size(tree: Tree, names: dict[str, Any]) -> bool:
    """Is it an integer that is no literal, and that nothing read decides?"""
    kinds = flat(tree)
    return not kinds & set(READ) and bool(kinds & set(SIZES))


def flat(tree: Tree) -> set[str]:
    return {tree} if isinstance(tree, str) else {x for part in tree[1:] for x in flat(part)}


@examples(0, EXAMPLES)
@given(trees(), st.sampled_from(("uint8", "int8", "uint16", "int16", "int32", "uint32")), st.booleans(),
       st.integers(0, 10**6))
def test_subscripts_are_integers(tree: Tree, dtype: str, flat_table: bool, seed: int) -> None:
    knl = lk.make_kernel(
        "{[i, j]: 0<=i<n and 0<=j<m}",
        f"y[i, j] = x[({text(tree)}) % 89{'' if flat_table else ', j'}]",
        [lk.GlobalArg("x", np.int32, shape="89" if flat_table else "89, m"), lk.GlobalArg("s", dtype), "..."])
    info = np.iinfo(dtype)
    s = np.random.default_rng(seed).integers(max(info.min, -10**6), min(info.max, 10**6), N + 1, dtype, endpoint=True)
    table = np.arange(89*(1 if flat_table else M), dtype=np.int32).reshape((89,) if flat_table else (89, M))
    with np.errstate(over="ignore"):
        wanted = [[table[at if flat_table else (at, j)] for j in range(M) for at in [int(value(
            ("%", tree, "89"), {"s": s, "i": i, "j": j, "m": M}))]] for i in range(N)]
    for step in (lambda k: k, lambda k: lk.shift(k, "i", 300), lambda k: lk.split_iname(k, "j", 256)):
        np.testing.assert_array_equal(step(knl)(x=table, s=s, m=M, n=N).y, wanted, f"{knl.statements_text} {dtype}")


def test_a_copy_of_a_part_of_a_subscript() -> None:
    """What a temporary would cut off is refused; what it holds as it was computed is not."""
    def precomputed(rule: str, subscript: str) -> lk.LoopKernel:
        knl = lk.make_kernel("{[i]: 0<=i<8}", f"f(p) := {rule}\n y[i] = x[{subscript}]", [
            lk.GlobalArg("s", np.uint8), lk.GlobalArg("x", np.int32, shape=600), "..."])
        return lk.precompute(knl, "f", "i", default_tag=None)
    for rule, subscript in (("s[p] + p", "f(i)"), ("s[p]*2", "f(i) + i"), ("m*s[p]", "f(i)")):
        with pytest.raises(lk.PreconditionError, match="part of a subscript"):
            precomputed(rule, subscript)
    given = {"x": np.arange(600, dtype=np.int32), "s": np.arange(200, 208, dtype=np.uint8)}
    np.testing.assert_array_equal(precomputed("s[p]*2", "f(i)")(**given).y, 2*given["s"])
    np.testing.assert_array_equal(precomputed("cast(int64, s[p]) + p", "f(i)")(**given).y, given["s"] + np.arange(8))


@pytest.mark.parametrize(("subscript", "wanted"), [
    ("s[i]*m", 4*200), ("f(i)*m + 1", 4*202 + 1), ("g(i)", 4*200 + 3), ("t[s[i]*m]*m", 4*200), ("s[i]*2", 400 % 256),
    ("s[i]*m + i", 4*200), ("min(s[i] + s[i], m + 600)", 400 % 256)])
def test_a_size_that_becomes_a_literal_cuts_nothing_off(subscript: str, wanted: int) -> None:
    """Elements and literals alone are computed as they are; beside a size they are an index, and stay one."""
    for known in (True, False):
        text = f"f(p) := s[p] + 2\n g(p) := s[p]*m + 3\n y[i] = if(m > 0, x[{subscript}], t[0])"
        knl = lk.make_kernel("{[i]: 0<=i<2}", text, [
            lk.GlobalArg("s", shape=2), lk.GlobalArg("t", shape=1000), lk.GlobalArg("x", np.int32, shape=1000), "..."])
        knl = lk.add_dtypes(knl, {"s,t": np.uint8} if known else {})
        s, t, x = np.full(2, 200, np.uint8), np.full(1000, 200, np.uint8), np.arange(1000, dtype=np.int32)
        for result in (knl(s=s, t=t, x=x, m=4), lk.fix_parameters(knl, m=4)(s=s, t=t, x=x)):
            assert result.y[0] == wanted, knl.statements_text


@pytest.mark.parametrize(("domain", "assumptions"), [
    ("100<=j<101", None), ("100<=j<m", "m = 101"), ("100<=j<102", None)])
def test_an_iname_that_becomes_a_literal_cuts_nothing_off(domain: str, assumptions: str | None) -> None:
    """That it has one value, or is written out, is no more than how the text is made."""
    knl = lk.make_kernel(f"{{[i, j]: 0<=i<n and {domain}}}", "y[i, j - 100] = x[s[i] + j] + s[i]", [
        lk.GlobalArg("s", np.uint8), lk.GlobalArg("x", np.int32, shape=400), lk.GlobalArg("y", shape="n, 2"), "..."],
        assumptions=assumptions)
    s = np.array([200, 3], np.uint8)
    given = {"x": np.arange(400, dtype=np.int32), "s": s, "y": np.zeros((2, 2), np.int32)}
    given |= {"m": 101} if assumptions else {}
    unrolled = [] if assumptions else [lk.set_options(lk.tag_inames(knl, {"j": "unr"}), textual_unroll=True)]
    for kernel in (knl, *unrolled):
        np.testing.assert_array_equal(kernel(**given).y[:, 0], 2*s.astype(np.int32) + 100)
        assert validate(lower_fully(lk.add_dtypes(kernel, {"y": np.int32}))) == ()
        assert "(unsigned char)" not in lk.generate_code(kernel, target="cuda").source


def test_rows_of_a_large_table() -> None:
    """An index of 32 bits leads to any row, also where the elements have longer ones."""
    knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "y[i, j] = x[s[i], j] + z[s[i]*m + j]",
                         [lk.GlobalArg("s", np.int32), lk.GlobalArg("x,z", np.int8), "..."])
    for target in ("c", "cuda"):
        wide = str(lk.generate_code(knl, target=target, layout=Layout(64)))
        assert wide.count("(long long)s[i]*") == 2
