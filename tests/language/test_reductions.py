"""Reductions are statements from the start: init, update, final."""
from __future__ import annotations

import numpy as np
import pytest

from loopkit.expr.nodes import Neutral
from loopkit.language.make import make_kernel
from loopkit.poly.sets import InstanceSet
from tests.language.outline import outline, text

BOX = "{[i,j,k]: 0<=i<n and 0<=j<m and 0<=k<l}"


def test_three_statements() -> None:
    knl = make_kernel(BOX, "c[i,j] = sum(k, a[i,k]*b[k,j]) {id=S, tags=hot}")
    assert outline(knl) == text("""
        for i
          for j
            S.k.init: acc_k = neutral(sum)
            for k
              S.k.update: acc_k sum= a[i, k]*b[k, j]
            S: c[i, j] = acc_k
        """)
    node = knl.reductions["S.k"]
    assert (node.operation, node.accumulator, node.inames) == ("sum", "acc_k", ("k",))
    assert (node.init, node.update, node.final) == ("S.k.init", "S.k.update", "S")
    assert knl.statement("S.k.init").expression == Neutral("sum")
    assert knl.statement("S.k.init").combine is None
    assert knl.reduction_of == {"S.k.init": node, "S.k.update": node}
    assert knl.temporaries["acc_k"].shape == ()
    assert all(s.options.tags == {"hot"} for s in knl.statements)


def test_a_sum_over_nothing_is_stored_too() -> None:
    """The box's other sides do not narrow the set of the statement that stores."""
    knl = make_kernel("{[i,k]: 0<=i<n and 0<=k<l}", "y[i] = sum(k, a[k])")
    assert knl.statement("insn").domain.text == "[n] -> { [i] : 0 <= i < n }"


@pytest.mark.parametrize(("domains", "instructions", "expected"), [
    pytest.param(BOX, "s = sum([i, k], a[i,k])", """
        insn.i_k.init: acc_i_k = neutral(sum)
        for i
          for k
            insn.i_k.update: acc_i_k sum= a[i, k]
        insn: s = acc_i_k
        """, id="several inames nest in the given order"),
    pytest.param(BOX, "y[i] = sum(j, b[j]*max(k, a[j,k]))", """
        for i
          insn.j.init: acc_j = neutral(sum)
          for j
            insn.k.init: acc_k = neutral(max)
            for k
              insn.k.update: acc_k max= a[j, k]
            insn.j.update: acc_j sum= b[j]*acc_k
          insn: y[i] = acc_j
        """, id="nested"),
    pytest.param(BOX, "y[i] = sum(k, a[k]) / sum(k, b[k])", """
        for i
          insn.k.init: acc_k = neutral(sum)
          for k
            insn.k.update: acc_k sum= a[k]
          insn.k_0.init: acc_k_0 = neutral(sum)
          for k
            insn.k_0.update: acc_k_0 sum= b[k]
          insn: y[i] = acc_k / acc_k_0
        """, id="two over one iname"),
    pytest.param(BOX, "acc_k = product(k, a[k])", """
        insn.k.init: acc_k_0 = neutral(product)
        for k
          insn.k.update: acc_k_0 product= a[k]
        insn: acc_k = acc_k_0
        """, id="names are fresh"),
    pytest.param("{[i]: 0<=i<n}", "y[i] = sum({[k]: 0<=k<i}, a[k])\nz[i] = sum({[k]: i<=k<n}, a[k])", """
        for i
          insn.k.init: acc_k = neutral(sum)
          for k
            insn.k.update: acc_k sum= a[k]
          insn: y[i] = acc_k
          insn_0.k.init: acc_k_0 = neutral(sum)
          for k
            insn_0.k.update: acc_k_0 sum= a[k]
          insn_0: z[i] = acc_k_0
        """, id="with domains of their own"),
    pytest.param(BOX, "f(x) := sum(k, a[k]*x)\ny[i] = f(i) + f(2)", """
        for i
          insn.k.init: acc_k = neutral(sum)
          for k
            insn.k.update: acc_k sum= a[k]*i
          insn.k_0.init: acc_k_0 = neutral(sum)
          for k
            insn.k_0.update: acc_k_0 sum= a[k]*2
          insn: y[i] = acc_k + acc_k_0
        """, id="in a substitution rule: written out"),
    pytest.param(BOX, "if sum(k, a[k]) > 0\n y[i] = 1\nend", """
        for i
          insn_cond.k.init: acc_k = neutral(sum)
          for k
            insn_cond.k.update: acc_k sum= a[k]
          insn_cond: cond = acc_k > 0
          insn: y[i] = 1 if cond
        """, id="in a condition"),
    pytest.param(BOX, "y[i] = any(k, a[k] > 0) {if=all(k, b[k] > 0)}", """
        for i
          insn_cond.k.init: acc_k = neutral(all)
          for k
            insn_cond.k.update: acc_k all= b[k] > 0
          insn_cond: cond = acc_k
          insn.k.init: acc_k_0 = neutral(any)
          for k
            insn.k.update: acc_k_0 any= a[k] > 0 if cond
          insn: y[i] = acc_k_0 if cond
        """, id="in if="),
    pytest.param(BOX, "y[i] = if(x[i] > 0, sum(k, a[k]), 0)", """
        for i
          insn.k.init: acc_k = neutral(sum)
          for k
            insn.k.update: acc_k sum= a[k] if x[i] > 0
          insn: y[i] = acc_k if x[i] > 0 else 0
        """, id="in a branch: only where it is taken"),
])
def test_tree(domains: str, instructions: str, expected: str) -> None:
    assert outline(make_kernel(domains, instructions)) == text(expected)


def test_domains_of_reductions() -> None:
    knl = make_kernel("{[i]: 0<=i<n}", "y[i] = sum({[k]: 0<=k<i}, a[k]*sum({[j]: k<=j<m}, b[j]))")
    by_id = {s.id: s.domain for s in knl.statements}
    assert by_id["insn.k.update"].is_equal(InstanceSet.parse("[n] -> { [i, k] : 0 <= k < i < n }"))
    assert by_id["insn.j.update"].is_equal(InstanceSet.parse("[m, n] -> { [i, k, j] : 0 <= k < i < n and k <= j < m }"))
    assert [a.name for a in knl.arguments] == ["a", "b", "m", "n", "y"]


def test_parents_of_a_reduction_iname_are_inames_of_the_statement() -> None:
    knl = make_kernel(["{[i]: 0<=i<n}", "{[k]: 0<=k<i}"], "s = sum(k, a[k])")
    assert knl.statement("insn").inames == ("i",)
    knl = make_kernel(["{[i]: 0<=i<n}", "{[k]: 0<=k<i}"], "s = sum([i,k], a[k])")
    assert knl.statement("insn").inames == ()


def test_a_branch_narrows_the_update_only() -> None:
    knl = make_kernel(BOX, "y[i] = if(i > 0, sum(k, a[i-1,k]), 0)")
    by_id = {s.id: s.domain.text for s in knl.statements}
    assert by_id["insn.k.init"] == "[n] -> { [i] : 0 <= i < n }"
    assert by_id["insn.k.update"] == "[l, n] -> { [i, k] : 0 < i < n and 0 <= k < l }"


def test_operands_of_and_and_or_narrow_the_update_behind_them() -> None:
    for condition in ("i > 0 and sum(j, a[i-1,j]) > 3", "i == 0 or sum(j, a[i-1,j]) > 3"):
        knl = make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", f"y[i] = if({condition}, a[i,0], 0)")
        assert knl.statement("insn.j.init").domain.text == "[n] -> { [i] : 0 <= i < n }"
        assert knl.statement("insn.j.update").domain.text == "[m, n] -> { [i, j] : 0 < i < n and 0 <= j < m }"
        ones = np.ones((3, 4))
        np.testing.assert_array_equal(knl(a=ones, m=4).y, [0, 1, 1] if "and" in condition else [1, 1, 1])


@pytest.mark.deep(every=5)
@pytest.mark.parametrize(("comparison", "holds"), [
    ("x[i] < 2", [1, 0, 0, 0]), ("x[i] >= 2", [0, 1, 1, 0]), ("x[i] == 2", [0, 1, 0, 0]), ("x[i] != 2", [1, 0, 1, 1]),
    ("not x[i] < 2", [0, 1, 1, 1])])
def test_a_nan_takes_the_other_branch(comparison: str, holds: list[int]) -> None:
    """The opposite of ``x < 2`` is not ``x >= 2``."""
    knl = make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", f"y[i] = if({comparison}, sum(j, a[i,j]), -sum(j, a[i,j]))")
    x = np.array([1, 2, 3, np.nan])
    np.testing.assert_array_equal(knl(x=x, a=np.ones((4, 5))).y, np.where(holds, 5, -5))


def test_dependences_hold_for_all_three() -> None:
    knl = make_kernel(BOX, "x[i] = 1 {id=first}\ny[i] = sum(k, a[k]) {id=S, dep=first, nosync=first}")
    assert all(s.options.depends_on == s.options.no_sync_with == {"first"} for s in knl.statements if s.id != "first")
