"""The reference order: inames, nests, blocks, and the tree they make."""
from __future__ import annotations

import pytest

from loopkit.kernel.tree import leaves
from loopkit.language.make import make_kernel
from loopkit.poly.sets import InstanceSet
from tests.language.outline import outline, text

BOX = "{[i,j,k]: 0<=i<n and 0<=j<m and 0<=k<l}"


@pytest.mark.parametrize(("domains", "instructions", "expected"), [
    pytest.param(BOX, "y[j,i] = 1", """
        for i
          for j
            insn: y[j, i] = 1
        """, id="the domains give the nest"),
    pytest.param(BOX, "x[i] = 1\ny[i,j] = x[i]\nz[i] = y[i,0]", """
        for i
          insn: x[i] = 1
          for j
            insn_0: y[i, j] = x[i]
          insn_1: z[i] = y[i, 0]
        """, id="neighbours share the longest common prefix"),
    pytest.param(BOX, "x[i] = 1\ny[j] = 1\nz[i] = 1", """
        for i
          insn: x[i] = 1
        for j
          insn_0: y[j] = 1
        for i
          insn_1: z[i] = 1
        """, id="not adjacent: two loops of one name"),
    pytest.param(BOX, "for j, i\n  y[i,j,k] = 1\nend", """
        for j
          for i
            for k
              insn: y[i, j, k] = 1
        """, id="blocks are outermost in their order"),
    pytest.param(BOX, "for i\n  x[i] = 1\nend\nfor i\n  y[i] = 1\nend", """
        for i
          insn: x[i] = 1
        for i
          insn_0: y[i] = 1
        """, id="each block is a loop of its own"),
    pytest.param(BOX, "for i\n  for j\n    <> t = 1\n  end\n  s = 2\nend\nu = 3", """
        for i
          for j
            insn: t = 1
          insn_0: s = 2
        insn_1: u = 3
        """, id="inames of blocks need no mention"),
    pytest.param(BOX, "s = 1 {inames=j:i}", """
        for i
          for j
            insn: s = 1
        """, id="inames="),
    pytest.param(["{[i]: 0<=i<n}", "[i] -> {[k]: 0<=k<i}", "[i] -> {[j]: i<=j<n}"], "x[k] = 1\ny[j] = 2", """
        for i
          for k
            insn: x[k] = 1
          for j
            insn_0: y[j] = 2
        """, id="parents of domains; siblings under one iname"),
    pytest.param(["{[k]: 0<=k<i}", "{[i]: 0<=i<n}"], "x[k] = 1", """
        for i
          for k
            insn: x[k] = 1
        """, id="parents first, wherever they are listed"),
    pytest.param(BOX, "<> t = x[i]\ny[j] = t", """
        for i
          insn: t = x[i]
          for j
            insn_0: y[j] = t
        """, id="inames come through a temporary"),
    pytest.param(BOX, "<> t = x[i]\ny[j] = t {inames=}", """
        for i
          insn: t = x[i]
        for j
          insn_0: y[j] = t
        """, id="none do where the option says so"),
    pytest.param(BOX, "f(x) := x*w[i]\nz[j] = f(2)", """
        for i
          for j
            insn: z[j] = f(2)
        """, id="a substitution rule mentions for its user"),
    pytest.param(BOX, "f(i) := 2*i\nz[j] = f(j)", """
        for j
          insn: z[j] = f(j)
        """, id="an argument of a rule is no iname"),
    pytest.param(BOX, "y[i] = a[i] {if=j < i}", """
        for i
          for j
            insn: y[i] = a[i]
        """, id="a condition mentions"),
])
def test_tree(domains: str | list[str], instructions: str, expected: str) -> None:
    knl = make_kernel(domains, instructions)
    assert outline(knl) == text(expected)
    assert [s.id for s in knl.statements] == list(leaves(knl.tree))


def test_loops_above_a_statement_are_its_inames() -> None:
    knl = make_kernel(["{[i,j]: 0<=i,j<n}", "{[k]: 0<=k<i}"],
                      "for j\n  y[j] += sum(k, a[k]*x[i]) {if=a[j] > 0}\nend\nfor i\n  x[i] = 1\nend")
    for statement in knl.statements:
        loops = tuple(step.iname for step in knl.paths[statement.id] if step.iname is not None)
        assert loops == statement.inames


# Instance sets

@pytest.mark.parametrize(("domains", "instructions", "expected"), [
    (BOX, "y[i,j] = 1", ["[m, n] -> { [i, j] : 0 <= i < n and 0 <= j < m }"]),
    ("{[i,k]: 0<=i<n and 0<=k<i}", "y[i] = 1", ["[n] -> { [i] : 0 < i < n }"]),
    ("{[i]: 0<=i<n or 2n<=i<3n}", "y[i] = 1", ["[n] -> { [i] : (2n <= i < 3n) or (0 <= i < n) }"]),
    ("{[i]: 0<=i<n and exists e: i = 2e}", "y[i] = 1", ["[n] -> { [i] : (i) mod 2 = 0 and 0 <= i < n }"]),
    ("{[i]: 0<=i<e and exists (e2: i = 2e2)}", "y[i] = 1", ["[e] -> { [i] : (i) mod 2 = 0 and 0 <= i < e }"]),
    ("[n] -> {[i]: 0<=i<(n+1)//2}", "y[i] = 1", ["[n] -> { [i] : i >= 0 and 2i < n }"]),
    ("{[i]: 0<=i<n}", "y[i] = 1 {if=i > 3 and x[i] > 0}", ["[n] -> { [i] : 4 <= i < n }"]),
    ("{[i]: 0<=i<n}", "if i % 2 == 0\n y[i] = 1\nelse\n y[i] = 2\nend",
     ["[n] -> { [i] : (i) mod 2 = 0 and 0 <= i < n }", "[n] -> { [i] : i mod 2 = 1 and 0 <= i < n }"]),
    ("{[i]: 0<=i<9}", "if 2 < i < 5\n y[i] = 1\nelif i < 1\n y[i] = 2\nelse\n y[i] = 3\nend",
     ["{ [i] : 3 <= i <= 4 }", "{ [i = 0] }", "{ [i] : 0 < i <= 8 and (i <= 2 or i >= 5) }"]),
    (["{[i]: 0<=i<n}", "{[j]: lo<=j<lo+3}"], "for i\n <int32> lo = p[i]\n y[j] = 1\nend",
     ["[n] -> { [i] : 0 <= i < n }", "[lo, n] -> { [i, j] : 0 <= i < n and lo <= j <= 2 + lo }"]),
    ("{[i]: 0<=i<n}", "s = 1", ["{ [] }"]),
])
def test_instance_sets(domains: str | list[str], instructions: str, expected: list[str]) -> None:
    found = list(dict.fromkeys(s.domain for s in make_kernel(domains, instructions).statements))
    assert len(found) == len(expected)
    for one, other in zip(found, map(InstanceSet.parse, expected), strict=True):
        assert one.is_equal(other), f"{one.text} is not {other.text}"


def test_statements_with_the_same_inames_share_the_set() -> None:
    knl = make_kernel(BOX, "x[i,j] = 1\ny[i,j] = sum(k, a[k]) {if=x[i,j] > 0}\n"
                      "z[i,j] = 2 {if=i > 0}\nw[i,j] = 2 {if=i>0}")
    by_id = {s.id: s.domain for s in knl.statements}
    assert by_id["insn"] is by_id["insn_0"] is by_id["insn_0.k.init"]
    assert by_id["insn_1"] is by_id["insn_2"]


def test_a_float_parameter_is_no_parameter_of_a_set() -> None:
    [statement] = make_kernel("{[i]: 0<=i<n}", "y[i] = 1 {if=alpha > 0}").statements
    assert statement.domain.params == ("n",)
    assert [str(c) for c in statement.predicates] == ["alpha > 0"]


# Conditions that are not affine

def test_a_block_evaluates_its_condition_once() -> None:
    knl = make_kernel(BOX, "if a[i] > 0\n a[i] = 0\n b[i,j] = 1\nelse\n c[i] = 1\nend")
    assert outline(knl) == text("""
        for i
          insn_cond: cond = a[i] > 0
          insn: a[i] = 0 if cond
          for j
            insn_0: b[i, j] = 1 if cond
          insn_1: c[i] = 1 if not cond
        """)
    assert knl.temporaries["cond"].dtype == bool
    assert knl.temporaries["cond"].shape == ()


def test_a_condition_is_computed_in_the_loops_of_its_block() -> None:
    knl = make_kernel(BOX, "<> t = a[i,j]\nif t > 0\n b[i,j] = t\nend")
    assert outline(knl) == text("""
        for i
          for j
            insn: t = a[i, j]
            insn_cond: cond = t > 0
            insn_0: b[i, j] = t if cond
        """)


def test_a_for_block_in_a_condition_stands_in_its_loops() -> None:
    knl = make_kernel(BOX, "if a[j] > 0\n x[j] = 0\n for i\n  y[i] = 1\n end\nend")
    assert outline(knl) == text("""
        for j
          insn_cond: cond = a[j] > 0
          insn: x[j] = 0 if cond
          for i
            insn_0: y[i] = 1 if cond
        """)


def test_affine_parts_narrow_the_set_where_there_is_no_else() -> None:
    knl = make_kernel("{[i]: 0<=i<n}", "if i > 0 and a[i-1] > 0\n a[i] = 0\nend")
    assert knl.domains_text == "[n] -> { [i] : 0 < i < n }"
    assert outline(knl) == text("""
        for i
          insn_cond: cond = a[i + -1] > 0
          insn: a[i] = 0 if cond
        """)
    knl = make_kernel("{[i]: 0<=i<n}", "if i > 0 and a[i] > 0\n a[i] = 0\nelse\n b[i] = 0\nend")
    assert knl.domains_text == "[n] -> { [i] : 0 <= i < n }"
    assert str(knl.statement("insn_cond").expression) == "i > 0 and a[i] > 0"


def test_nested_conditions() -> None:
    knl = make_kernel("{[i]: 0<=i<n}", "if a[i] > 0\n if b[i] > 0\n  c[i] = 1\n end\n d[i] = 1\nend")
    assert outline(knl) == text("""
        for i
          insn_cond: cond = a[i] > 0
          insn_cond_0: cond_0 = cond and b[i] > 0
          insn: c[i] = 1 if cond_0
          insn_0: d[i] = 1 if cond
        """)


def test_a_condition_behind_an_instruction_stays_there() -> None:
    knl = make_kernel("{[i]: 0<=i<n}", "y[i] = 1 {if=x[i] > 0 and not flag}")
    assert outline(knl) == text("""
        for i
          insn: y[i] = 1 if x[i] > 0 and not flag
        """)
