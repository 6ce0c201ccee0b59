"""loopy's steps for inames, copies and fusion, by the loops and the values that they give."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pytools.tag import Tag

import loopkit.compat.loopy as lp
from loopkit.errors import PreconditionError

HOST = lp.ExecutableCTarget()


def make(domains: Any, text: str, **options: Any) -> Any:
    return lp.make_kernel(domains, text, target=HOST, **options)


def loops_of(unit: Any) -> dict[str, frozenset[str]]:
    return {i.id: i.within_inames for i in unit.default_entrypoint.instructions}


def lines_of(unit: Any) -> list[str]:
    return [line.strip() for line in unit.default_entrypoint.core.statements_text.splitlines()]


def test_an_iname_of_some_statements_of_a_loop() -> None:
    unit = make("{[i]: 0<=i<10}", "c[i] = 3*d[i] {id=a}\nb[i] = 2*d[i] {id=b}")
    assert loops_of(lp.split_iname(unit, "i", 4, within="id:b")) == {"a": {"i"}, "b": {"i_outer", "i_inner"}}


def test_joined_inames() -> None:
    unit = lp.join_inames(lp.split_iname(make("{[i]: 0<=i<6}", "y[i] = x[i]"), "i", 2), ["i_inner", "i_outer"])
    assert loops_of(unit) == {"insn": {"i_inner_and_i_outer"}}
    assert lines_of(unit)[1].startswith("y[2*(i_inner_and_i_outer % 3) + i_inner_and_i_outer // 3] = ")


def test_the_loops_of_fusion() -> None:
    unit = make("{[i,j0,j1]: 0<=i,j0,j1<4}", "b[i,j0] = x[j0]\nc[j1] = x[j1]")
    kernel = unit.default_entrypoint
    groups = lp.get_kennedy_unweighted_fusion_candidates(kernel, frozenset({"j0", "j1"}))
    assert groups == {"ifused": {"j0", "j1"}}
    fused = lp.rename_inames_in_batch(unit, groups)
    assert loops_of(fused) == {"insn": {"i", "ifused"}, "insn_0": {"ifused"}}
    # the loop over i also holds another statement
    both = make("{[i,j0,j1]: 0<=i,j0,j1<4}", "a[i] = 1\nfor i\nb[i,j0] = a[i]\nend\nc[j1] = x[j1]")
    assert len(lp.get_kennedy_unweighted_fusion_candidates(both, {"j0", "j1"})) == 2
    # a statement outside runs between the two loops
    for dep, count in (("one", 1), ("two", 2)):
        between = make("{[j0,j1]: 0<=j0,j1<4}",
                       f"b[j0] = 1 {{id=one}}\ns = 2 {{id=two, dep=one}}\nc[j1] = 3 {{dep={dep}}}")
        assert len(lp.get_kennedy_unweighted_fusion_candidates(between, {"j0", "j1"})) == count


@pytest.mark.parametrize(("text", "together"), [
    ("y[i] = sum(j, sum([j0], a[i,j,j0]))\nz[i] = sum(j, sum([j1], a[i,j,j1]))", True),
    ("y[i] = sum(j0, a[i,0,j0]) + sum(j1, a[i,1,j1])", True),
    ("y[i] = sum(j0, a[i,0,j0])\nz[i] = sum(j1, y[i]*a[i,1,j1])", False),
    ("y[i] = sum(j0, a[i,0,j0])\nz = sum(j1, a[0,1,j1])", False)])
def test_the_reductions_of_fusion(text: str, *, together: bool) -> None:
    unit = make("{[i,j,j0,j1]: 0<=i,j,j0,j1<3}", text)
    groups = lp.get_kennedy_unweighted_fusion_candidates(unit.default_entrypoint, {"j0", "j1"})
    assert len(groups) == (1 if together else 2)
    assert len(lp.get_kennedy_unweighted_fusion_candidates(unit.default_entrypoint, {"j0", "j1"},
                                                           force_infusible={("j0", "j1")})) == 2
    if together:
        fused = lp.rename_inames_in_batch(unit, groups)
        assert all("ifused" in i.reduction_inames() for i in fused.default_entrypoint.instructions if "y" in str(i))
        a = np.random.default_rng(1).random((3, 3, 3))
        np.testing.assert_allclose(fused(a=a)[1][0], a[:, :3 if "sum(j, " in text else 2].sum((1, 2)))


def test_each_reduction_gets_its_own_iname() -> None:
    class Mark(Tag):
        """A user tag."""

    unit = lp.tag_inames(make("{[i]: 0<=i<9}", "y = sum(i, x[i]) + sum(i, 3*x[i]) {id=y}"), {"i": Mark()})
    kernel = lp.make_reduction_inames_unique(unit).default_entrypoint
    assert kernel.id_to_insn["y"].reduction_inames() == {"i", "i_0"}
    assert kernel.inames["i_0"].tags_of_type(Mark)
    assert lp.make_reduction_inames_unique(unit, inames="j").default_entrypoint.all_inames() == {"i"}


def test_the_names_of_computed_values() -> None:
    unit = make("{[e,i,r]: 0<=e<2 and 0<=i<5 and 0<=r<3}", "v(e, i) := e + i\nw(s) := s + i + 0.5\n"
                "y[e,i] = v(e, i)\nz[r,i] = w(r)")
    unit = lp.precompute(unit, "v", "i")
    assert "v_0[i_0] = e + i_0  {id=v}" in lines_of(unit)
    unit = lp.precompute(unit, "w", "r, i")
    assert "w_0[s, w_i] = s + w_i + 0.5  {id=w}" in lines_of(unit)
    dtypes = {name: t.dtype.numpy_dtype for name, t in unit.default_entrypoint.temporary_variables.items()}
    assert dtypes == {"v_0": np.int32, "w_0": np.float32}


def test_a_copy_in_the_loops_of_another() -> None:
    text = "y[e,i] = sum(j, a[i,j]*u[e,j])\nz[e,i] = sum(k, b[i,k]*u[e,k])"
    unit = make("{[e,i,j,k]: 0<=e<n and 0<=i,j<4 and 0<=k<LAST}".replace("LAST", "4"), text)
    other = make("{[e,i,j,k]: 0<=e<n and 0<=i,j<4 and 0<=k<LAST}".replace("LAST", "5"), text)

    def copied(unit: Any) -> Any:
        for name, inames in (("a", "i,j"), ("b", "i,k")):
            unit = lp.extract_subst(unit, f"{name}_of", f"{name}[p,q]", parameters="p,q")
            unit = lp.precompute(unit, f"{name}_of", inames, default_tag="for", precompute_inames="p,q")
        return unit
    loops = loops_of(copied(unit))
    assert loops["a_of"] == loops["b_of"] == {"p", "q"}
    with pytest.raises(PreconditionError, match="The iname 'q' exists, and has other values"):
        copied(other)


def test_one_prefetch_of_reads_in_several_loops() -> None:
    unit = make("{[n,k,l]: start<=n<end and 0<=k,l<3}", "for n\n<> t[k] = a[m[n,k]]\ny[m[n,l]] = t[l] + 1\nend")
    unit = lp.add_prefetch(unit, "m[n, :]", "k", temporary_name="rows", default_tag="for")
    assert "<> t[k] = a[rows[k]]  {id=insn}" in lines_of(unit)
    assert "y[rows[l]] = t[l] + 1  {id=insn_0}" in lines_of(unit)
    twice = make("{[i,j,k]: 0<=i,j,k<4}", "y[i] = sum(j, a[j]*x[i])\nz[i] = sum(k, a[k]*x[i])")
    for iname, reader in (("j", "y"), ("k", "z")):
        twice = lp.add_prefetch(twice, "a", iname, within=f"writes:{reader}", temporary_name="copy")
    assert {"copy", "copy_0"} <= twice.default_entrypoint.temporary_variables.keys()


def test_a_line_that_only_orders_others_is_in_its_loops() -> None:
    unit = make(["{[i]: 0<=i<3}", "{[j]: first<=j<last}", "{[k]: 0<=k<2}"],
                "for i\n<> first = i\n<> last = i + 2\nfor j\nfor k\n... nop\nend\ny[i,j] = 1\nend\nend",
                seq_dependencies=True)
    assert lines_of(unit)[0] == "for i"
    assert lines_of(unit).count("for i") == 1


def test_uses_of_one_rule_are_expanded() -> None:
    unit = make("{[i]: 0<=i<4}", "f(s) := 2*x[s]\ng(s) := f(s) + 1\ny[i] = g(i) {id=y}\nz[i] = f(i) + g(i) {id=z}")
    assert "z[i] = 2*x[i] + g(i)  {id=z}" in lines_of(lp.expand_subst(unit, "... > id:f"))
    part = lines_of(lp.expand_subst(unit, "id:z > id:g"))
    assert {"y[i] = g(i)  {id=y}", "z[i] = f(i) + (f(i) + 1)  {id=z}"} <= {*part}


def test_assumptions_about_computed_values() -> None:
    unit = make("{[i]: 0<=i<n}", "<> t = 3\ny[i] = t")
    assert "n > 7" in str(lp.assume(unit, "n > 7 and t >= 0").default_entrypoint.assumptions).replace("n >= 8", "n > 7")
    assert lp.assume(unit, "[t] -> { : t >= 0 }").default_entrypoint.core is unit.default_entrypoint.core
    assert lp.assume(unit, "n > 7 or t > 0").default_entrypoint.core is unit.default_entrypoint.core


def test_an_iname_without_bounds_is_left_out_if_nothing_has_it() -> None:
    unit = lp.make_kernel("{[j,i]: 0<=i<n}", "y[i] = 2")
    assert unit["loopy_kernel"].all_inames() == {"i"}
    for text in ("y[i] = j", "y[i] = 2 {inames=i:j}"):
        with pytest.raises(lp.LoopyError, match="'j' has no end"):
            lp.make_kernel("{[i,j]: 0<=i<n}", text)
