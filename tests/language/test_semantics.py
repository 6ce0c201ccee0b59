"""The meaning of kernels, compared with Python: affine conditions as sets, and the order of whole programs."""
from __future__ import annotations

from math import inf, nan
from typing import Any

import hypothesis.strategies as st
import islpy as isl
import numpy as np
import pymbolic.primitives as p
import pytest
from hypothesis import given, settings

import loopkit as lk
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tree import Leaf, Loop, Seq, Tree
from loopkit.language.make import make_kernel
from loopkit.poly.sets import InstanceSet

SIZE = 5


def points(domain: InstanceSet) -> set[tuple[int, ...]]:
    """The points of *domain* for ``n = SIZE``."""
    found: set[tuple[int, ...]] = set()
    fixed = domain.set
    for i in range(fixed.dim(isl.dim_type.param)):
        fixed = fixed.fix_val(isl.dim_type.param, i, isl.Val.int_from_si(isl.DEFAULT_CONTEXT, SIZE))
    fixed.foreach_point(lambda point: found.add(tuple(
        point.get_coordinate_val(isl.dim_type.set, d).to_python() for d in range(len(domain.inames)))))
    return found


# Conditions

FORMS = st.sampled_from(["i", "j", "i + j", "2*i - 3", "i - j", "n - i", "i // 2", "j % 3", "(i + 2*j) // 3", "2"])
COMPARISONS = st.tuples(FORMS, st.sampled_from(["<", "<=", "==", "!=", ">=", ">"]), FORMS).map(" ".join)
CONDITIONS = st.recursive(COMPARISONS, lambda inner: st.one_of(
    st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda t: f"({t[0]}) {t[1]} ({t[2]})"),
    inner.map(lambda t: f"not ({t})")), max_leaves=4)


@settings(max_examples=100, deadline=None)
@given(CONDITIONS)
def test_affine_conditions_are_those_of_python(condition: str) -> None:
    box = "{[i,j]: 0<=i,j<n}"
    [alone] = make_kernel(box, f"a[i,j] = 1 {{if={condition}}}").statements
    then, otherwise = make_kernel(box, f"if {condition}\n a[i,j] = 1\nelse\n b[i,j] = 2\nend").statements
    every = {(i, j) for i in range(SIZE) for j in range(SIZE)}
    holds = {(i, j) for i, j in every if eval(condition, {"i": i, "j": j, "n": SIZE})}
    assert not alone.predicates
    assert points(alone.domain) == points(then.domain) == holds
    assert points(otherwise.domain) == every - holds


# Order: the instances of a program in the order in which Python runs it


def program(draw: Any, opened: tuple[str, ...], depth: int) -> list[str]:
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        free = [x for x in "ij" if x not in opened]
        kind = draw(st.sampled_from(["line", "line", "for", "if"] if depth else ["line"]))
        if kind == "for" and free:
            iname = draw(st.sampled_from(free))
            lines += [f"for {iname}", *program(draw, (*opened, iname), depth - 1), "end"]
        elif kind == "if" and opened:
            lines += [f"if {opened[-1]} % 2 == 0", *program(draw, opened, depth - 1)]
            if draw(st.booleans()):
                lines += ["else", *program(draw, opened, depth - 1)]
            lines += ["end"]
        else:
            # every iname that a line mentions has its block, so that Python can run the text as it is
            lines.append(draw(st.sampled_from(["a[0] = 1", *(f"b[{x}] = 1" for x in opened)])))
    return lines


def in_python(lines: list[str]) -> list[tuple[str, tuple[int, ...]]]:
    """The instances in the order of nested Python loops."""
    code, depth, opened, count = ["def run(trace):"], 1, [], 0
    blocks: list[str] = []
    for line in lines:
        word = line.split()[0]
        if word == "for":
            code.append("    "*depth + f"for {line.split()[1]} in range({SIZE}):")
            opened.append(line.split()[1])
        elif word == "if":
            code.append("    "*depth + line + ":")
        elif word == "else":
            depth -= 1
            code.append("    "*depth + "else:")
        elif word == "end":
            depth -= 1
            if blocks.pop() == "for":
                opened.pop()
            continue
        else:
            name = "insn" if not count else f"insn_{count - 1}"
            count += 1
            code.append("    "*depth + f"trace.append(('{name}', ({''.join(x + ',' for x in opened)})))")
            continue
        if word != "else":
            blocks.append(word)
        depth += 1
    names: dict[str, Any] = {}
    exec("\n".join(code), names)
    trace: list[tuple[str, tuple[int, ...]]] = []
    names["run"](trace)
    return trace


def in_loopkit(knl: LoopKernel) -> list[tuple[str, tuple[int, ...]]]:
    """The instances in the order of the kernel's tree."""
    members = {s.id: points(s.domain) for s in knl.statements}
    trace: list[tuple[str, tuple[int, ...]]] = []

    def run(tree: Tree, at: dict[str, int]) -> None:
        match tree:
            case Leaf(name):
                instance = tuple(at[x] for x in knl.statement(name).inames)
                if instance in members[name]:
                    trace.append((name, instance))
            case Loop(iname, body):
                for value in range(SIZE):
                    run(body, {**at, iname: value})
            case Seq(children):
                for child in children:
                    run(child, at)
            case _:
                raise AssertionError(tree)
    run(knl.tree, {})
    return trace


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_blocks_run_as_in_python(data: st.DataObject) -> None:
    lines = program(data.draw, (), 3)
    knl = make_kernel("{[i,j]: 0<=i,j<n}", lines)
    assert in_loopkit(knl) == in_python(lines)


def test_rules_in_conditions_and_in_subscripts_that_are_written() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", """
        f(s) := 2*x[s]
        g(s) := s + 1
        y[g(i)] = f(i) {if=f(i) > 5}
        if f(i) < 3
            z[i] = 1
        end
        w[i] = 1 {if=g(i) > 2}
        """, [*(lk.GlobalArg(a, np.float64) for a in "xyzw"), "..."])
    x = np.arange(5.)
    out = knl(x=x, y=np.zeros(6), z=np.zeros(5), w=np.zeros(5))
    np.testing.assert_array_equal(out["y"][1:], np.where(2*x > 5, 2*x, 0))
    np.testing.assert_array_equal(out["z"], 2*x < 3)
    np.testing.assert_array_equal(out["w"], np.arange(5) > 1)


def test_numbers_without_digits() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", ["y[i] = x[i] if x[i] > 0 else -inf()", lk.Assignment(
        "z[i]", inf*p.Variable("inf") + p.Variable("x")[p.Variable("i")]), lk.Assignment(
        "w[i]", p.NaN(np.float32)), lk.Assignment("v[i]", p.If(p.Comparison(p.Variable("i"), "<", 1), nan, -inf))])
    assert knl.statements_text.splitlines()[1:-1] == [
        "  y[i] = if(x[i] > 0, x[i], -inf())  {id=insn}", "  z[i] = inf()*inf + x[i]  {id=insn_0}",
        "  w[i] = cast(float32, nan())  {id=insn_1}", "  v[i] = if(i < 1, nan(), -inf())  {id=insn_2}"]
    again = lk.make_kernel("{[i]: 0<=i<n}", knl.statements_text)
    assert again.statements_text == knl.statements_text
    out = again(x=np.array([-1., 2.], np.float32), inf=np.float32(-3))
    np.testing.assert_array_equal([out.y, out.z, out.v], [[-inf, 2], [-inf, -inf], [nan, -inf]])
    assert np.isnan(out.w).all()
    assert out.w.dtype == out.y.dtype == np.float32
    with pytest.raises(lk.ParseError, match=r"The number 'inf' takes no arguments, not 1"):
        lk.make_kernel("{[i]: 0<=i<n}", "y[i] = inf(2)")
