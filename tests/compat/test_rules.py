"""Substitution rules of loopy: tagged names, the steps that select by them, and the statements of reductions."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopkit.compat.loopy as lp
from loopkit.compat.loopy.tagged import with_rules_for_tags
from loopkit.compat.loopy.transform.data import reduction_arg_to_subst_rule
from loopkit.errors import PreconditionError

HOST = lp.ExecutableCTarget()


def make(domains: Any, text: Any, data: Any = None) -> Any:
    return lp.make_kernel(domains, text, data, target=HOST)


def text_of(unit: Any) -> str:
    text: str = unit.default_entrypoint.core.statements_text
    return text


# Tags

@pytest.mark.parametrize(("given", "read"), [
    ("y[i] = a$t[b$u[i]]", "y[i] = a_t(b_u(i))"),
    ("y$t[i], z = f(x$t[i])", "y$t[i], z = f(x_t(i))"),          # f is no rule
    ("g(s) := 2*s\nif g$t(i) >= 2\ny[i] = sin$t(x)\nend", "g(s) := 2*s\nif g_t(i) >= 2\ny[i] = sin(x)\nend"),
    ("c := x[0]\ny[i] = c$one + c$one", "c := x[0]\ny[i] = c_one + c_one"),
    ("y[i] = x$t + x_t", "y[i] = x + x_t"),                     # a tag of a number has no meaning
])
def test_tagged_names_are_rules(given: str, read: str) -> None:
    texts, tagged = with_rules_for_tags([given])
    assert texts[-1] == read
    assert len(texts) == len(tagged) + 1


def test_tags_select_the_uses_of_a_rule() -> None:
    unit = make("{[i]: 0<=i<4}", "f(s) := x[s] + 1\ng(s) := f(s)*f$deep(s)\ny[i] = g$one(i) - g$two(i)")
    knl = unit["loopy_kernel"]
    assert {*knl.substitutions} == {"f", "g"}
    assert str(knl.id_to_insn["insn"].expression) == "g(i) + (-1)*g(i)"
    unit = lp.expand_subst(unit, "... > id:g and tag:two > id:f and tag:deep")
    assert {name: str(r.expression) for name, r in unit["loopy_kernel"].substitutions.items()} == {
        "f": "x[s] + 1", "g": "f(s)*f(s)", "g_two": "f(s)*(x[s] + 1)"}
    unit = lp.expand_subst(unit, "... > tag:one")
    assert "y[i] = f(i)*f_deep(i) - g_two(i)" in text_of(unit)
    x = np.arange(4, dtype=np.int32)
    _, (y,) = unit(x=x)
    assert not y.any()
    with pytest.raises(PreconditionError, match="'id:q' selects no substitution rule") as refusal:
        lp.expand_subst(unit, "... > id:q")
    assert "there are f$deep, g$two, f" in str(refusal.value.hint)
    with pytest.raises(PreconditionError, match="loopkit has nothing for"):
        lp.expand_subst(unit, "id:insn > id:g > id:f")


def test_a_prefetch_of_a_tagged_element() -> None:
    unit = make("{[i,j]: 0<=i<4 and 0<=j<8}", "y[i,j] = a$row[i,j]*a[i,0]")
    unit = lp.add_prefetch(unit, "a$row[i,:]", default_tag="for")
    assert "a_fetch[a_dim_1] = a[i, a_dim_1]  {id=a_fetch_rule}" in text_of(unit)
    assert "y[i, j] = a_fetch[j]*a[i, 0]" in text_of(unit)


def test_one_copy_of_all_uses_of_a_rule() -> None:
    """``"f(i)"`` describes one use; the copy also serves the other one."""
    unit = make("{[i,j,k]: 0<=i<4 and 0<=j,k<8}", "f(s) := sum(k, x[s,k])\ny[i,j] = f(i)*f(j)",
                [lp.GlobalArg("x", np.int32, shape=(8, 8)), "..."])
    unit = lp.precompute(unit, "f(i)", "i", default_tag="for")
    assert "y[i, j] = f_0[i]*f_0[j]" in text_of(unit)
    x = np.arange(64, dtype=np.int32).reshape(8, 8)
    _, (y,) = unit(x=x)
    np.testing.assert_array_equal(y, np.outer(x.sum(1)[:4], x.sum(1)))


# Reductions

def test_the_statements_of_a_realized_reduction() -> None:
    unit = make("{[i,k]: 0<=i<4 and 0<=k<8}", "y[i] = sum(k, x[i,k]) {id=y}\nz[i] = max(k, x[i,k]) {id=z, dep=y}")
    knl = lp.realize_reduction(unit, insn_id_filter=["y"])["loopy_kernel"]
    assert [i.id for i in knl.instructions] == ["y_k_init", "y_k_update", "y", "z"]
    assert {i.id: i.reduction_inames() for i in knl.instructions if i.reduction_inames()} == {"z": {"k"}}
    assert (knl.insn_inames("y_k_update"), knl.insn_inames("y_k_init")) == ({"i", "k"}, {"i"})
    assert knl.id_to_insn["y_k_update"].depends_on == {"y_k_init"}
    assert knl.id_to_insn["y"].depends_on == {"y_k_update"}
    assert knl.writer_map()["acc_k"] == {"y_k_init", "y_k_update"}
    assert [i.id for i in lp.find_instructions(knl, "writes:acc_k")] == ["y_k_init", "y_k_update", "y"]
    mapped = lp.map_instructions(knl, "id:y", lambda i: i.copy(expression=i.expression + 1))
    assert "y[i] = sum(k, x[i, k]) + 1  {id=y}" in mapped.core.statements_text
    assert len(lp.preprocess_kernel(unit)["loopy_kernel"].instructions) == 6
    with pytest.raises(PreconditionError, match="keeps its statements"):
        knl.copy(instructions=list(knl.instructions))


def test_a_c_instruction_without_an_id_takes_the_next_one() -> None:
    code = lp.CInstruction("i", "t = 2*i;", assignees="t")
    unit = make("{[i]: 0<=i<4}", [code, "y[0] = 1", "z[0] = 2 {id=insn_0}"], [
        lp.TemporaryVariable("t", np.int32), "..."])
    assert {"insn_t", "insn_0", "insn_1"} <= {*unit["loopy_kernel"].id_to_insn}


def test_partial_sums_of_blocks() -> None:
    unit = make("{[i]: 0<=i<n}", "y[0] = sum(i, a[i])", [lp.GlobalArg("a,y", np.int32), "..."])
    unit = lp.split_reduction_outward(lp.split_iname(unit, "i", 8, inner_tag="l.0"), "i_outer")
    unit = reduction_arg_to_subst_rule(unit, "i_outer")
    unit = lp.precompute(unit, "red_i_outer_arg", "i_outer", temporary_address_space=lp.AddressSpace.GLOBAL,
                         default_tag="l.auto")
    unit = lp.tag_inames(lp.realize_reduction(unit), "i_outer_0:g.0")
    knl = unit["loopy_kernel"]
    assert knl.id_to_insn["red_i_outer_arg_barrier"].depends_on == {"red_i_outer_arg"}
    unit = lp.add_dependency(unit, "writes:acc_i_outer", "id:red_i_outer_arg_barrier")
    a = np.arange(37, dtype=np.int32)
    _, (y,) = unit(a=a)
    assert y[0] == a.sum()
