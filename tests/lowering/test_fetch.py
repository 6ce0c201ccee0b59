"""``l.auto``: a box of instances distributed over the threads of a block, for any two shapes."""
from __future__ import annotations

from math import prod

import pytest

import loopkit as lk
from loopkit.ast.nodes import Define, For
from loopkit.lowering.binding import MOST_UNROLLED
from tests.lowering.kernels import F32, make
from tests.lowering.shown import nodes, storages
from tests.target.text import lines_with
from tests.transform.same import assert_same

SHAPES = [(5,), (8,), (20,), (3, 4), (4, 3), (18, 18), (2, 3, 4), (3, 1, 5)]
THREADS = [(8,), (4,), (4, 3), (8, 2), (2, 2, 2), (16, 16)]


def box(shape: tuple[int, ...], threads: tuple[int, ...]) -> lk.LoopKernel:
    """A block reads a box backwards, once for each of its threads."""
    axes, lanes = "ijk"[:len(shape)], "pqr"[:len(threads)]
    ranges = [f"0<={x}<{e}" for x, e in (*zip(axes, shape, strict=True), *zip(lanes, threads, strict=True))]
    backwards = [f"{e - 1}-{x}" for x, e in zip(axes, shape, strict=True)]
    return make(f"{{[b,{','.join(axes + lanes)}]: 0<=b<n and {' and '.join(ranges)}}}",
                f"y[b,{','.join(axes + lanes)}] = x[b,{','.join(backwards)}]", x=F32)


def mapped(plain: lk.LoopKernel, shape: tuple[int, ...], threads: tuple[int, ...]) -> lk.LoopKernel:
    knl = lk.tag_inames(plain, {"b": "g.0", **{"pqr"[axis]: f"l.{axis}" for axis in range(len(threads))}})
    return lk.add_prefetch(knl, "x", list("ijk"[:len(shape)]))


@pytest.mark.deep
@pytest.mark.parametrize("threads", THREADS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_element_is_fetched(shape: tuple[int, ...], threads: tuple[int, ...]) -> None:
    plain = box(shape, threads)
    knl = mapped(plain, shape, threads)
    rounds = [node for node in nodes(knl) if isinstance(node, For) and node.iname == "x_fetch_rule_round"]
    for node in rounds:
        assert (node.start, node.step) == (0, 1)
        assert node.stop == -(-prod(shape) // prod(threads))          # as few as the threads allow
        assert node.unroll is (prod(shape) <= MOST_UNROLLED*prod(threads))
    if not rounds:
        assert prod(shape) <= prod(threads)
    assert_same(plain, knl, n=2)


def test_neighbouring_threads_read_neighbouring_addresses() -> None:
    knl = mapped(box((18, 18), (16, 16)), (18, 18), (16, 16))
    defined = [node.name for node in nodes(knl) if isinstance(node, Define)]
    assert defined == ["x_fetch_rule_point", "x_dim_1", "x_dim_2"]
    assert lines_with(knl, "x_dim_2 =") == ["const int x_dim_2 = x_fetch_rule_point % 18;"]     # the last axis fastest
    assert lines_with(knl, "x_fetch_rule_point =") == [
        "const int x_fetch_rule_point = 256*x_fetch_rule_round + 16*threadIdx.y + threadIdx.x;"]


def test_an_axis_as_long_as_the_block_is_the_block_s() -> None:
    knl = mapped(box((3, 4), (4,)), (3, 4), (4,))
    assert lines_with(knl, "x_dim_2 =") == ["const int x_dim_2 = threadIdx.x;"]
    knl = mapped(box((3, 4), (4, 3)), (3, 4), (4, 3))
    assert lines_with(knl, "x_dim_1 =") == ["const int x_dim_1 = threadIdx.y;"]


def test_without_threads_the_box_is_loops() -> None:
    plain = make("{[b,i]: 0<=b<n and 0<=i<5}", "y[b,i] = x[b,4-i]", x=F32)
    knl = lk.add_prefetch(lk.tag_inames(plain, "b:g.0"), "x", "i")
    assert storages(knl) == {"x_fetch": "private float32 x_fetch[5]"}
    assert [node.iname for node in nodes(knl) if isinstance(node, For)] == ["x_dim_1", "i"]
    assert_same(plain, knl, n=3)


@pytest.mark.deep
def test_l_auto_on_an_ordinary_statement() -> None:
    plain = make("{[b,i,j,p]: 0<=b<n and 0<=i<5 and 0<=j<7 and 0<=p<4}", """
        for b
            for i, j
                y[b,i,j] = 2*x[b,j,i] {id=spread}
            end
            for p
                z[b,p] = x[b,p,0] {id=threads}
            end
        end
        """, x=F32)
    knl = lk.tag_inames(plain, "b:g.0, p:l.0, i:l.auto, j:l.auto")
    assert_same(plain, knl, n=3)


@pytest.mark.deep
def test_a_ragged_box_is_guarded_element_by_element() -> None:
    plain = make("{[i,k]: 0<=i<n and 0<=k<m}", "y[i] = sum(k, x[k]*a[i,k])", a=F32, x=F32)
    knl = lk.split_iname(plain, "i", 8, outer_tag="g.0", inner_tag="l.0")
    knl = lk.add_prefetch(lk.split_iname(knl, "k", 20), "x", "k_inner")
    for n, m in ((1, 1), (8, 20), (9, 21), (17, 59)):
        assert_same(plain, knl, n=n, m=m)


@pytest.mark.deep
def test_neighbouring_threads_read_neighbouring_addresses_of_a_copy_that_is_transposed() -> None:
    plain = make("{[b,i,j,p,q]: 0<=b<n and 0<=i<18 and 0<=j<12 and 0<=p<16 and 0<=q<4}",
                 "f(s, r) := x[b, r, s]\ny[b,i,j,p,q] = f(11-j, 17-i)", x=F32)
    knl = lk.tag_inames(plain, {"b": "g.0", "p": "l.0", "q": "l.1"})
    knl = lk.precompute(knl, "f", ["i", "j"])
    assert lines_with(knl, "f_dim_0 =") == ["const int f_dim_0 = f_0_rule_point % 12;"]         # the last axis of x
    assert lines_with(knl, "f_dim_1 =") == ["const int f_dim_1 = f_0_rule_point / 12;"]
    assert_same(plain, knl, n=2)


@pytest.mark.deep
def test_loads_that_disagree_leave_the_box_as_it_is() -> None:
    plain = make("{[b,i,j,p]: 0<=b<n and 0<=i<18 and 0<=j<12 and 0<=p<16}",
                 "f(s, r) := x[b, r, s] + z[b, s, r]\ny[b,i,j,p] = f(j, i)", x=F32, z=F32)
    knl = lk.tag_inames(plain, {"b": "g.0", "p": "l.0"})
    knl = lk.precompute(knl, "f", ["i", "j"])
    assert lines_with(knl, "f_dim_1 =") == ["const int f_dim_1 = f_0_rule_point % 18;"]
    assert_same(plain, knl, n=2)


@pytest.mark.deep
def test_neighbours_take_the_shortest_steps() -> None:
    """With vectors no iname steps by one element."""
    plain = make("{[b,i,k]: 0<=b<n and 0<=i,k<16}", "y[b,i,k] = x[b,i,15-k]", x=F32)
    knl = lk.tag_inames(plain, "b:g.0, k:l.0, i:l.1")
    knl = lk.add_prefetch(knl, "x", ["k", "i"], dim_arg_names=["row", "column"], default_tag=None)
    knl = lk.split_iname(knl, "column", 4, inner_tag="vec", outer_tag="l.auto")
    knl = lk.prioritize_loops(lk.tag_inames(knl, "row:l.auto"), "column_outer, row")
    assert lines_with(knl, "const int column_outer =")[0].endswith("% 4;")
    assert_same(plain, knl, n=3)
