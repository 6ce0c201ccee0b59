"""Inames, conditions and orders of single instructions; the list of arguments."""
from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest

import loopkit as lk
from loopkit.analysis.dependences import dependences

FLAT, TRIANGLE = "{[i, j]: 0<=i<n and 0<=j<m}", "{[i, j, k]: 0<=i<n and 0<=j<m and 0<=k<=i}"


def pair(**options: Any) -> lk.LoopKernel:
    return lk.make_kernel(FLAT, "t[i] = 2*x[i] {id=A}\ny[i, j] = t[i] + j {id=B}\nz[i] = y[i, 0] {id=C}", **options)


def instances(knl: lk.LoopKernel, statement: str, **sizes: int) -> list[tuple[int, ...]]:
    """The instances of *statement*, each as its inames in the order of their names."""
    domain = knl.statement(statement).domain
    domain = domain.onto(sorted(domain.inames))
    ranges = [range(10)]*len(domain.inames)
    return [point for point in product(*ranges) if not domain.where(
        *(("==", p.Variable(x) - v) for x, v in (*zip(domain.inames, point, strict=True), *sizes.items()))).is_empty()]


@pytest.mark.parametrize("name", ["A", "C"])
def test_a_new_iname_joins_the_loop_beside_it(name: str) -> None:
    new = lk.add_inames_to_insn(pair(), "j", name)
    assert new.statements_text.count("for j") == 1
    assert instances(new, name, n=2, m=3) == [(i, j) for i in range(2) for j in range(3)]
    assert new.history[-1].verdict == "defined"


def test_neighbours_get_one_new_loop() -> None:
    knl = lk.make_kernel(FLAT, "a[i] = 1 {id=A}\nb[i] = 2 {id=B}\nc[i, j] = 3 {id=C}")
    new = lk.add_inames_to_insn(knl, "j", "A, B")
    assert new.statements_text.splitlines()[0] == "for i, j"
    assert new.statements_text.count("for") == 1
    alone = lk.make_kernel([FLAT, "{[k]: 0<=k<4}"], "a[i] = 1 {id=A}\nb[i, j] = 2 {id=B}")
    alone = lk.add_inames_to_insn(alone, "k", "A")
    assert alone.statements_text.splitlines()[1] == "  for k"


def test_nested_bounds_and_conditions_stay() -> None:
    knl = lk.make_kernel([FLAT, "[i] -> {[k]: 0<=k<=i}"], "a[i] = sum(k, x[k]) {id=A, if=i>0}\nb[i, j] = 2 {id=B}")
    new = lk.add_inames_to_insn(knl, "j", "A")
    x = np.arange(4.0)
    assert instances(new, "A", n=3, m=2) == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert instances(new, "A.k.update", n=2, m=1) == [(1, 0, 0), (1, 0, 1)]
    out = lk.compile(new, "c")(x=x, m=2, a=np.full(4, -1.0))
    assert out.a.tolist() == [-1, 1, 3, 6]
    assert instances(lk.add_inames_to_insn(knl, "k", "B"), "B", n=2, m=1) == [(0, 0, 0), (1, 0, 0), (1, 0, 1)]
    wider = lk.remove_predicates_from_insn(knl, "i > 0", "A")
    assert lk.compile(wider, "c")(x=x, m=2, a=np.full(4, -1.0)).a.tolist() == [0, 1, 3, 6]
    assert instances(lk.remove_inames_from_insn(new, "j", "A"), "A", n=3, m=2) == [(1,), (2,)]


def test_tagged_and_split_kernels() -> None:
    knl = lk.make_kernel("{[i, j]: 0<=i<16 and 0<=j<8}", "for i\n<> a[j] = 1 {id=A}\nb[i] = a[i//2] {id=B}\nend")
    knl = lk.split_iname(lk.split_iname(knl, "i", 4, inner_tag="l.0"), "j", 2)
    new = lk.remove_inames_from_insn(knl, {"i_inner"}, "id:A")
    assert new.statement("A").inames == ("i_outer", "j_outer", "j_inner")
    assert {str(t) for t in new.tags.values()} == {"l.0"}


def test_one_of_several_conditions_is_removed() -> None:
    knl = lk.make_kernel(FLAT, "y[i] = 1 {id=A, if=i > 1 and i < 5 and x[i] > 0}\nw[i, j] = 1")
    less = lk.remove_predicates_from_insn(knl, ["i < 5"], "A")
    assert instances(less, "A", n=7) == [(i,) for i in range(2, 7)]
    assert less.statement("A").predicates == knl.statement("A").predicates
    least = lk.remove_predicates_from_insn(less, p.Variable("x")[p.Variable("i")].gt(0), "A")
    assert (instances(least, "A", n=3), least.statement("A").predicates) == ([(2,)], ())


def test_an_order_that_later_steps_keep() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "for i\ny[i] = x[i] {id=A}\nend\nfor i\nz[i] = x[i] {id=B}\nend")
    knl = lk.add_dependency(lk.split_iname(knl, "i", 4), "B", "writes:y")
    assert [(d.source, d.sink) for d in dependences(knl)] == [("A", "B")]
    assert knl.statement("B").options.depends_on == {"A"}
    with pytest.raises(lk.IllegalTransformError, match=r"dep= requires"):
        lk.add_dependency(knl, "A", "B")
    assert [s.verdict for s in knl.history] == ["structural", "proven"]


def test_an_order_that_moves_instructions() -> None:
    knl = lk.make_kernel("{[i,j]: 0<=i,j<n}", """
        y[i] = x[i] {id=A}
        u[i] = y[i] {id=B}
        z[i] = sum(j, x[j]) {id=C}
        """)
    turned = lk.add_dependency(knl, "A", "C", allow_reordering=True)
    assert [s.id for s in turned.instructions] == ["C", "A", "B"]
    with pytest.raises(lk.IllegalTransformError):
        lk.add_dependency(knl, "A", "B", allow_reordering=True)


def test_claims_about_barriers() -> None:
    knl = lk.make_kernel(FLAT, "t[i] = 2*x[i] {id=A}\ny[i] = t[i] {id=B}\nz[i] = x[i] {id=C}")
    claims = {s: knl.statement(s).options.no_sync_with for s in "ABC"}
    assert claims == dict.fromkeys("ABC", frozenset())
    both = lk.add_nosync(knl, "local", "A", None, bidirectional=True)
    assert {s: set(both.statement(s).options.no_sync_with) for s in "ABC"} == {"A": {"B"}, "B": {"A"}, "C": set()}
    assert lk.add_nosync(knl, "any", "A", "C", force=True).statement("C").options.no_sync_with == {"A"}
    assert lk.add_nosync(knl, "local", "A", "C", empty_ok=True) == knl
    assert lk.add_nosync(knl, "global", "A", "B") == knl


def test_instructions_are_found() -> None:
    assert [insn.id for insn in lk.find_instructions(pair(), "writes:y or reads:y")] == ["B", "C"]
    assert [insn.id for insn in lk.find_instructions(pair(), None)] == ["A", "B", "C"]
    assert lk.find_instructions(pair(), "nosuch*") == []
    with pytest.raises(lk.ParseError):
        lk.find_instructions(pair(), "writes:")


def test_arguments_get_another_order() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    new = lk.set_argument_order(knl, ["y", "n", "x"])
    assert [a.name for a in new.arguments] == ["y", "n", "x"]


def test_only_unused_arguments_go() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "f(u) := beta*u\ny[i] = f(x[i])", [
        lk.GlobalArg("old", np.float64, shape="q"), lk.GlobalArg("x", np.float64, shape="m"), "..."],
        assumptions="q >= 2 and n >= 1")
    new = lk.remove_unused_arguments(knl)
    assert [a.name for a in new.arguments] == ["x", "beta", "m", "n", "y"]
    assert str(new.assumptions).count("q") == 0
    assert not new.assumptions.is_equal(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 1").assumptions)


@pytest.mark.parametrize(("act", "error", "message"), [
    (lambda: lk.add_inames_to_insn(pair(), "k", "A"), lk.UnknownNameError, "'k' is not an iname"),
    (lambda: lk.add_inames_to_insn(
        lk.make_kernel([FLAT, "[j] -> {[k]: 0<=k<=j}"], "y[i] = 1 {id=A}\nz[i,j,k] = 1"), "k", "A"),
     lk.PreconditionError, "The bounds of 'k' depend on 'j', which 'A' does not"),
    (lambda: lk.remove_inames_from_insn(pair(), "j", "A"), lk.PreconditionError, "'A' does not have the iname 'j'"),
    (lambda: lk.remove_inames_from_insn(pair(), "j", "B"), lk.PreconditionError, "'B' uses the iname 'j' in its exp"),
    (lambda: lk.remove_inames_from_insn(lk.make_kernel(TRIANGLE, "y[j] = sum(k, x[k]) {id=A, inames=i:j}"), "i", "A"),
     lk.PreconditionError, "'A' uses the iname 'i'"),
    (lambda: lk.remove_predicates_from_insn(pair(), "i < 4", "A"), lk.PreconditionError,
     "'A' does not have the condition 'i < 4'"),
    (lambda: lk.remove_predicates_from_insn(pair(), "x[i] > 0", "A"), lk.PreconditionError, "does not have the condit"),
    (lambda: lk.add_nosync(pair(), "block", "A", "B"), lk.PreconditionError, "'block' is not a scope"),
    (lambda: lk.add_nosync(pair(), "local", "C", "A"), lk.PreconditionError, "No instruction of the sinks depends"),
    (lambda: lk.add_dependency(pair(), "D", "A"), lk.UnknownNameError, "'D' is not a statement"),
    (lambda: lk.set_argument_order(pair(), "x, y"), lk.PreconditionError, "leaves out the argument 'm'"),
    (lambda: lk.set_argument_order(pair(), "x, y, z, t, n, m, x"), lk.PreconditionError, "has the argument 'x' twice"),
    (lambda: lk.set_argument_order(pair(), "x, q"), lk.UnknownNameError, "'q' is not an argument")])
def test_refused(act: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        act()
