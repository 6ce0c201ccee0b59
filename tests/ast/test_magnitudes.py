"""No integer that a loop program computes, intermediate results included, is greater than its bound."""
from __future__ import annotations

from collections.abc import Iterator
from math import prod

import hypothesis.strategies as st
import pymbolic.primitives as p
import pytest
from hypothesis import given
from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign, Block, Call, Define, For, Function, If, Program, Region
from loopkit.ast.value_ranges import largest_address, largest_magnitude
from loopkit.expr.evaluate import evaluate
from loopkit.expr.mappers import children
from loopkit.instructions.mma import MMA, MmaIssue

N, M = p.Variable("n"), p.Variable("m")

LEAVES = st.one_of(st.integers(-300, 300), st.sampled_from((N, M)))
EXPRESSIONS = st.recursive(LEAVES, lambda inner: st.one_of(
    st.lists(inner, min_size=2, max_size=3).map(lambda parts: p.Sum(tuple(parts))),
    st.tuples(st.integers(-300, 300), inner).map(p.Product),
    st.tuples(inner, st.integers(1, 300)).map(lambda pair: p.FloorDiv(*pair)),
    st.tuples(inner, st.integers(1, 300)).map(lambda pair: p.Remainder(*pair)),
    st.lists(inner, min_size=2, max_size=3).map(lambda parts: p.Min(tuple(parts))),
    st.lists(inner, min_size=2, max_size=3).map(lambda parts: p.Max(tuple(parts))),
    st.tuples(inner, inner, inner, inner).map(lambda e: p.If(p.Comparison(e[0], "<", e[1]), e[2], e[3]))), max_leaves=8)


def parts(expr: Expression) -> Iterator[Expression]:
    yield expr
    for child in children(expr):
        yield from parts(child)


def program(*body: Assign | For | If | Define | Region) -> Program:
    return Program((Function("f", {}, {}, (), Block(body)),), Block((Call("f"),)))


@given(EXPRESSIONS, st.integers(-5000, 5000), st.integers(-5000, 5000))
def test_parts_of_expressions(expr: Expression, n: int, m: int) -> None:
    values = {"n": n, "m": m}
    whole = program(Define("x", p.Sum((expr, N, M))))        # sizes, so that there is a bound
    met = [abs(evaluate(part, values)) for part in parts(expr) if not isinstance(part, p.Comparison | int)]
    assert max(met, default=0) <= largest_magnitude(whole, values)
    assert largest_magnitude(whole, values) <= largest_magnitude(whole, dict.fromkeys(values, 5000))


def test_the_parts_of_a_form_that_isl_wrote() -> None:
    """The number of blocks of 256 that n - m threads fill."""
    blocks = p.Sum((p.Product((-1, M)), p.FloorDiv(p.Sum((p.Product((255, M)), N, 255)), 256)))
    found = largest_magnitude(program(Define("blocks", blocks)), {"n": 10**7 + 1000, "m": 10**7})
    assert 255*10**7 + 10**7 <= found < 258*10**7


@pytest.mark.parametrize(("body", "values", "least", "most"), [
    # i runs to n, and 4*i with it
    (For("i", 0, N, 1, Block((Define("x", p.Product((4, p.Variable("i")))),))), {"n": 100}, 396, 410),
    (For("i", p.Product((-1, N)), 0, 1, Block((Define("x", p.Product((4, p.Variable("i")))),))), {"n": 100}, 400, 410),
    # tiles: 16*(n/16) is about n
    (For("i", 0, p.FloorDiv(p.Sum((N, 15)), 16), 1, Block((Define("x", p.Product((16, p.Variable("i")))),))),
     {"n": 1600}, 1600, 1660),
    (If(p.Comparison(p.Sum((N, M)), "<", 3), Block()), {"n": 7, "m": 8}, 15, 17),
    # a step beyond the end
    (For("i", 0, N, 64, Block()), {"n": 100}, 164, 170),
    # what is read from memory stays below the length of an array
    (Define("x", p.Sum((N, p.Variable("row")))), {"n": 7}, 7, 9),
    (Assign(p.Subscript(p.Variable("a"), (p.Product((3, N)),)), 0, None, "S"), {"n": 7}, 21, 23)])
def test_nodes(body: For | If | Define | Assign, values: dict[str, int], least: int, most: int) -> None:
    assert least <= largest_magnitude(program(body), values) <= most


def test_loops_of_the_host_reach_into_launches() -> None:
    function = Function("f", {"g.0": p.Variable("t")}, {"i": p.Variable("g.0")}, (),
                        Block((Define("x", p.Product((5, p.Variable("i")))),)))
    order = Block((For("t", 0, p.Product((2, N)), 1, Block((Call("f"),))),))
    assert 50 <= largest_magnitude(Program((function,), order), {"n": 5}) <= 55


def test_what_a_lane_loads_for_a_matrix_product_counts() -> None:
    element = p.Subscript(p.Variable("a"), (p.Product((70_000, N)),))
    other = p.Subscript(p.Variable("b"), (0,))
    body = Region(Block(()), MmaIssue(MMA["mma.m8n8k4.f64"], (element,), (other,), (other, other)))
    assert largest_magnitude(program(body), {"n": 40_000, "m": 0}) >= 70_000*40_000


@given(st.lists(st.one_of(EXPRESSIONS, st.tuples(EXPRESSIONS, EXPRESSIONS).map(p.Product)), min_size=1, max_size=3),
       st.integers(1, 9), st.integers(-500, 500), st.integers(-500, 500))
def test_addresses(extents: list[Expression], beyond: int, n: int, m: int) -> None:
    """Products of sizes count, too."""
    values = {"n": n, "m": m}
    assert prod(abs(evaluate(e, values)) + beyond for e in extents) <= largest_address(extents, beyond, values)
