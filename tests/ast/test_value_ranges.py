"""Value ranges of integers under conditions and in loops."""
from __future__ import annotations

import pymbolic.primitives as p

from loopkit.ast.nodes import Block, For
from loopkit.ast.value_ranges import ValueRanges
from loopkit.poly.affine import add, floor_div

n, m = p.Variable("n"), p.Variable("m")


def test_a_condition_bounds_what_it_compares_with_a_number() -> None:
    condition = p.LogicalAnd((p.Comparison(16, "<=", n), p.Comparison(m, ">=", 3), p.Comparison(n, "<=", 99)))
    inside = ValueRanges({"m": 5}).where(condition)
    assert inside.least(add(floor_div(n, 16), -1)) == 0
    assert inside.least(m) == 5
    assert ValueRanges().where(p.LogicalOr(condition.children)).least(n) is None
    assert ValueRanges().where(p.Comparison(n, "<", 16)).least(n) is None


def test_a_condition_bounds_the_variable_of_a_quotient() -> None:
    tiles = floor_div(add(n, 63), 64)
    assert ValueRanges().where(p.Comparison(0, "<", tiles)).least(n) == 1
    assert ValueRanges().where(p.Comparison(tiles, ">", 2)).least(n) == 129
    assert ValueRanges().where(p.Comparison(3, "<=", tiles)).least(tiles) == 3
    assert ValueRanges().where(p.Comparison(0, "<", floor_div(n, -2))).least(n) is None


def test_a_new_value_is_another_name() -> None:
    assert ValueRanges().where(p.Comparison(2, "<=", n)).defining("n", m).least(n) is None


def test_a_loop_bounds_its_variable() -> None:
    inside = ValueRanges().inside(For("n", 0, p.Min((3, m)), 1, Block()))
    assert inside.below(n, 3)
    assert not inside.below(n, 2)
    assert inside.defining("m", add(n, 1)).below(m, 4)
    assert not inside.inside(For("n", 0, m, 1, Block())).below(n, 3)
    assert not ValueRanges().inside(For("n", m, 3, 1, Block())).below(n, 3)
