"""Full-tile versions, constant bounds of unrolled loops, several inames on one axis, and the stages by name."""
from __future__ import annotations

import numpy as np
import pytest
from pymbolic.typing import Expression

import loopkit as lk
from loopkit.analysis import dependences, shared_values
from loopkit.ast.nodes import Assign, For, If
from loopkit.ast.walk import nodes_in
from loopkit.poly import codegen
from loopkit.poly.relations import same_element
from loopkit.poly.sets import Map
from loopkit.verification.validation import validate
from tests.cases import CASES, Case
from tests.lowering.kernels import F32, make, outside_axes
from tests.lowering.shown import lowered, nodes, placed
from tests.transform.same import assert_same

FULL = "a full tile"


def scale() -> lk.LoopKernel:
    return make("{[i,j]: 0<=i<n and 0<=j<m}", "y[i,j] = 2*x[i,j]", x=F32)


def blocks_of(knl: lk.LoopKernel) -> tuple[int, int, int]:
    return lowered(knl).launches[0].block


# Full tiles

def mapped(knl: lk.LoopKernel) -> lk.LoopKernel:
    knl = lk.split_iname(knl, "i", 4, outer_tag="g.1", inner_tag="l.1")
    return lk.split_iname(knl, "j", 8, outer_tag="g.0", inner_tag="l.0")


def test_whole_tiles_have_a_version_without_guards() -> None:
    versions = [node for node in nodes(mapped(scale())) if isinstance(node, If) and node.comment == FULL]
    assert len(versions) == 1
    assert versions[0].otherwise is not None
    assert not any(isinstance(node, If) for node in versions[0].then.children)


@pytest.mark.deep
def test_no_version_where_it_is_switched_off() -> None:
    knl = lk.set_options(mapped(scale()), full_tiles=False)
    assert not any(isinstance(node, If) and node.comment == FULL for node in nodes(knl))
    assert_same(scale(), knl, n=5, m=9)


def test_no_version_where_every_tile_is_whole() -> None:
    for knl in (mapped(lk.assume(scale(), "n mod 4 = 0 and m mod 8 = 0")),
                lk.fix_parameters(mapped(scale()), n=8, m=16),
                lk.tag_inames(lk.fix_parameters(scale(), m=8), "i:g.0, j:l.0")):
        assert not any(isinstance(node, If) for node in nodes(knl))


def test_no_version_without_threads() -> None:
    assert not any(isinstance(node, If) and node.comment == FULL for node in nodes(lk.split_iname(scale(), "i", 4)))


def values_of_whole_tiles(expression: str, dtype: type = F32) -> list[Expression]:
    """What is assigned in full tiles; the kernel must be right, and proven, with two versions of its tiles."""
    plain = make("{[i,j]: 0<=i<n and 0<=j<m}", f"y[i,j] = {expression}", x=F32, y=dtype)
    knl = mapped(plain)
    for n, m in ((1, 1), (5, 9), (16, 33)):
        assert_same(plain, knl, n=n, m=m)
    assert validate(lowered(knl)) == ()
    whole = next(node for node in nodes(knl) if isinstance(node, If) and node.comment == FULL)
    return [node.value for node in nodes_in(whole.then) if isinstance(node, Assign)]


@pytest.mark.deep
@pytest.mark.parametrize("expression", [
    "if(0<i and i<n-1 and 0<j and j<m-1, x[i-1,j] + x[i,j+1], x[i,j])", "if(i == n-1 or i < 5, x[i,j], 2*x[i,j])",
    "if(i<5, x[i,j], if(j<m-2, x[i,j+2], 3*x[i,j]))"])
def test_whole_tiles_ask_nothing_at_borders(expression: str) -> None:
    [value] = values_of_whole_tiles(expression)
    assert "if" not in str(value).lower()


@pytest.mark.deep
@pytest.mark.parametrize("expression", [
    "if(i < j, x[i,j], 2*x[i,j])", "if(i % 2 == 0, x[i,j], 2*x[i,j])", "if(x[i,j] > 0, x[i,j], 2*x[i,j])",
    "if(j < m-1, i, x[i,j])/3", "if(0 < j and j < 3, x[i,j], 2*x[i,j]) + if(j % 3 == 1, x[i,j], 1)"])
def test_what_is_no_border_or_would_change_the_dtype_is_asked(expression: str) -> None:
    [value] = values_of_whole_tiles(expression, np.float64)
    assert "if" in str(value).lower()


def statements_of_whole_tiles(plain: lk.LoopKernel, knl: lk.LoopKernel) -> set[str]:
    for n, m in ((3, 3), (6, 17), (14, 40)):
        assert_same(plain, knl, n=n, m=m)
    assert validate(lowered(knl)) == ()
    whole = next(node for node in nodes(knl) if isinstance(node, If) and node.comment == FULL)
    return {node.statement for node in nodes_in(whole.then) if isinstance(node, Assign)}


def test_whole_tiles_have_no_ends_of_rows() -> None:
    plain = make("{[i,j]: 1<=i<n-1 and 1<=j<m-1}", "y[i,j] = x[i-1,j] + x[i+1,j]", x=F32)
    knl = lk.peel(lk.split_iname(plain, "j", 2, outer_iname="jv"), "jv", first=1, last=1)
    knl = lk.duplicate_inames(knl, ["i"], within="insn_*", new_inames=["e"])
    for x, tile, axis in (("i", 4, 1), ("e", 4, 1), ("jv", 4, 0), ("jv_last", 4, 0)):
        knl = lk.split_iname(knl, x, tile, outer_tag=f"g.{axis}", inner_tag=f"l.{axis}")
    assert statements_of_whole_tiles(plain, knl) == {"insn"}


@pytest.mark.deep
def test_borders_in_a_loop_over_tiles() -> None:
    """The main loop and its remainder each ask what has two answers there."""
    plain = make("{[i,k]: 0<=i<n and 0<=k<m}",
                 "y[i] = sum(k, if(0 < k and k < m-1, a[i,k-1] + a[i,k+1], a[i,k]))", a=F32)
    knl = lk.split_iname(lk.split_iname(plain, "i", 8, inner_tag="l.0"), "k", 4)
    for n, m in ((1, 1), (9, 3), (17, 22)):
        assert_same(plain, knl, n=n, m=m)
    assert validate(lowered(knl)) == ()


@pytest.mark.deep
def test_what_one_block_runs_stays_where_its_tile_is_whole() -> None:
    plain = make("{[i,j]: 0<=i<n and 0<=j<m}", "s[i] = 3*x[i,0]\ny[i,j] = x[i,j]", x=F32)
    assert len(statements_of_whole_tiles(plain, mapped(plain))) == 2


@pytest.mark.deep
def test_the_main_loop_over_tiles_has_no_guards_and_the_remainder_stands_behind_it() -> None:
    plain = make("{[i,k]: 0<=i<n and 0<=k<m}", "y[i] = sum(k, x[k]*a[i,k])", a=F32, x=F32)
    knl = lk.split_iname(plain, "i", 8, outer_tag="g.0", inner_tag="l.0")
    knl = lk.add_prefetch(lk.split_iname(knl, "k", 8), "x", "k_inner")
    whole = next(node for node in nodes(knl) if isinstance(node, If) and node.comment == FULL)
    loops = [node for node in whole.then.children if isinstance(node, For)]
    assert [loop.iname for loop in loops] == ["k_outer"]
    assert not any(isinstance(node, If) for node in loops[0].body.children)
    assert any(isinstance(node, If) for node in whole.then.children)
    for n, m in ((1, 1), (8, 8), (9, 17), (16, 7)):
        assert_same(plain, knl, n=n, m=m)


def test_a_condition_of_a_product_stays_in_each_iteration() -> None:
    knl = make("{[i,k]: 0<=i<32 and 0<=k<4}", "y[i,k] = x[i,k] {if=i*k < 40}", x=F32)
    knl = lk.tag_inames(knl, {"i": "l.0", "k": "unr"})
    condition, = (str(node.condition) for node in nodes(knl) if isinstance(node, If))
    assert condition == "i*k < 40"


# Unrolled loops

@pytest.mark.deep(every=38)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_unrolled_loops_have_constant_bounds(case: Case) -> None:
    for node in nodes(case.make()):
        if isinstance(node, For) and node.unroll:
            assert isinstance(node.start, int)
            assert isinstance(node.stop, int)


@pytest.mark.deep
@pytest.mark.parametrize("tag", ["unr", "ilp"])
def test_a_ragged_domain_becomes_a_guard_inside(tag: str) -> None:
    plain = make("{[i]: 0<=i<n}", "<> t = 2*x[i]\ny[i] = t", x=F32)
    knl = lk.split_iname(plain, "i", 32, outer_tag="g.0")
    knl = lk.split_iname(knl, "i_inner", 8, outer_tag=tag, inner_tag="l.0")
    unrolled = [node for node in nodes(knl) if isinstance(node, For) and node.iname == "i_inner_outer"]
    assert unrolled
    assert all((node.start, node.stop, node.unroll) == (0, 4, True) for node in unrolled)
    for n in (1, 8, 31, 32, 45):
        assert_same(plain, knl, n=n)


def test_ilp_seq_is_not_unrolled() -> None:
    plain = make("{[i,j]: 0<=i<n and 0<=j<4}", "<> t = 2*x[i,j]\ny[i,j] = t", x=F32)
    knl = lk.tag_inames(plain, "i:g.0, j:ilp.seq")
    assert not any(isinstance(node, For) and node.unroll for node in nodes(knl))
    assert_same(plain, knl, n=3)


def test_ilp_runs_all_instances_of_a_statement_before_the_next_statement() -> None:
    plain = make("{[i,j]: 0<=i<n and 0<=j<4}", "<> t = 2*x[i,j] {id=a}\ny[i,j] = t {id=b}", x=F32)
    assert placed(lk.tag_inames(plain, "i:g.0, j:ilp")) == ["for j\n  a\nfor j\n  b"]
    assert placed(lk.tag_inames(plain, "i:g.0, j:unr")) == ["for j\n  a\n  b"]


# Axes

def test_two_inames_on_one_thread_axis() -> None:
    plain = lk.fix_parameters(scale(), n=5, m=7)
    knl = lk.tag_inames(plain, "i:l.0, j:l.0")
    assert blocks_of(knl) == (35, 1, 1)
    assert_same(plain, knl)


@pytest.mark.deep
def test_two_inames_on_one_block_axis() -> None:
    knl = lk.tag_inames(scale(), "i:g.0, j:g.0")
    assert_same(scale(), knl, n=5, m=7)
    assert_same(scale(), knl, n=1, m=1)


@pytest.mark.deep
def test_two_inames_on_both_axes_with_offsets() -> None:
    plain = make("{[i,j]: 2<=i<n and -3<=j<m}", "y[i,j+3] = 2*x[i,j+3]", x=F32)
    knl = lk.split_iname(lk.split_iname(plain, "i", 3), "j", 4)
    knl = lk.tag_inames(knl, {"i_outer": "g.0", "j_outer": "g.0", "i_inner": "l.0", "j_inner": "l.0"})
    for n, m in ((3, -2), (8, 1), (11, 13)):
        assert_same(plain, knl, n=n, m=m)


@pytest.mark.deep
def test_an_axis_starts_at_the_iname_s_minimum() -> None:
    plain = make("{[i,j]: 2<=i<n and 3<=j<11}", "y[i,j] = 2*x[i,j]", x=F32)
    knl = lk.tag_inames(plain, "i:g.0, j:l.0")
    assert blocks_of(knl) == (8, 1, 1)
    for n in (3, 9):
        assert_same(plain, knl, n=n)


@pytest.mark.deep
def test_an_iname_bounded_by_another_takes_the_largest_extent() -> None:
    plain = make("{[i,j]: 0<=i<n and i<=j<i+4}", "y[i,j-i] = 2*x[j]", x=F32)
    knl = lk.split_iname(lk.split_iname(plain, "i", 4, outer_tag="g.1", inner_tag="l.1"), "j", 4, outer_tag="g.0",
                         inner_tag="l.0")
    for n in (1, 5, 12):
        assert_same(plain, knl, n=n)


@pytest.mark.deep
def test_statements_of_different_extents_share_an_axis() -> None:
    plain = make("{[i,j]: 0<=i<n and 0<=j<m}", "for i\n y[i] = 2*x[i]\nend\nfor j\n z[j] = 3*w[j]\nend", x=F32, w=F32)
    knl = lk.split_iname(plain, "i", 8, outer_tag="g.0", inner_tag="l.0")
    knl = lk.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    assert blocks_of(knl) == (16, 1, 1)
    for n, m in ((1, 40), (40, 1), (9, 17)):
        assert_same(plain, knl, n=n, m=m)


@pytest.mark.deep
@pytest.mark.parametrize("domain", [
    "{[i]: 0<=i<n and exists k: i=3*k+1}", "{[i]: 0<=i<n and (i<3 or i>=6)}", "{[i]: 0<=i<n; [i]: 2*n<=i<3*n}"])
def test_holes_in_a_domain_stay_holes(domain: str) -> None:
    plain = make(domain, "y[i] = 2*x[i]", x=F32)
    for knl in (lk.tag_inames(plain, "i:g.0"), lk.split_iname(plain, "i", 4, outer_tag="g.0", inner_tag="l.0")):
        for n in (1, 2, 7, 9):
            assert_same(plain, knl, n=n)


@pytest.mark.deep
def test_a_statement_outside_the_axes_runs_once() -> None:
    for knl in (lk.split_iname(lk.tag_inames(outside_axes(), "i:g.0"), "j", 8, inner_tag="l.0"),
                lk.split_iname(outside_axes(), "j", 8, outer_tag="g.0", inner_tag="l.0")):
        bound = lk.lower(knl, stop="binding")
        assert "l.0" in bound.launches[0].statements["store"].alone_on
        assert bound.launches[0].statements["value"].alone_on == ()           # its value is each thread's own
        for n, m in ((1, 0), (3, 19), (2, 8)):
            assert_same(outside_axes(), knl, n=n, m=m)


@pytest.mark.deep
def test_an_update_outside_the_threads_happens_once() -> None:
    plain = make("{[i,j]: 0<=i<n and 0<=j<16}", "for i\n z[i] = z[i] + c[i]\n for j\n y[i,j] = 2*x[i,j]\n end\nend",
                 z=F32, c=F32, x=F32)
    assert_same(plain, lk.tag_inames(plain, "i:g.0, j:l.0"), n=4)
    assert_same(plain, lk.tag_inames(plain, "j:l.0"), n=4)


@pytest.mark.deep
def test_empty_grids_are_launched_for_nothing() -> None:
    for n, m in ((0, 5), (5, 0), (0, 0)):
        assert_same(scale(), mapped(scale()), n=n, m=m)


def test_long_sequences_reach_isl_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "for t\n" + "\n".join(f"y[t, {k}, i{k}] = x[t, i{k}] + {k}" for k in range(9)) + "\nend"

    def of_many_loops() -> lk.LoopKernel:
        return make(["{[t]: 0<=t<3}", *(f"{{[i{k}]: {k}<=i{k}<n and t<m}}" for k in range(9))], text, x=F32)
    at_once = lk.lower(of_many_loops()).program
    monkeypatch.setattr(codegen, "_PARTS", 2)
    in_parts = lowered(of_many_loops())
    assert validate(in_parts) == ()
    assert str(in_parts.program) == str(at_once)


def test_statements_of_constant_subscripts_are_compared_only_with_their_like(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[Map] = []

    def counted(source: Map, sink: Map) -> Map:
        compared.append(source)
        return same_element(source, sink)
    monkeypatch.setattr(shared_values, "same_element", counted)
    knl = make("{[i]: 0<=i<n}", "\n".join(f"y[i, {k//2}] = x[i] + {k}" for k in range(12)), x=F32)
    found = {(d.source, d.sink) for d in dependences.dependences(knl)}
    ids = [s.id for s in knl.statements]
    assert found == set(zip(ids[::2], ids[1::2], strict=True))
    assert len(compared) == 6*4
