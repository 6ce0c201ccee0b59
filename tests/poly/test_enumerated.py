"""Subscripts and conditions that are affine for each value of a form, compared with their values point by point."""
from __future__ import annotations

import pytest

from loopkit.expr.evaluate import evaluate
from loopkit.expr.parsing import parse_expression
from loopkit.poly.affine import NotAffineError
from loopkit.poly.elements import missed
from loopkit.poly.piecewise import affine_on, subscripts_on, where_holds
from loopkit.poly.points import all_points
from loopkit.poly.relations import element_at
from loopkit.poly.sets import InstanceSet, parse_assumptions

FEW = InstanceSet.parse("[n] -> {[k,i]: -1<=k<4 and 0<=i<n}")


@pytest.mark.parametrize("text", [
    "k*(n//4) + i", "k*(n//4) + min(2, n % 4, i)", "(k + 1)*(i + n)", "i*k*3 - n", "max(2, k*i) // 3",
    "max(n, k*i) % 5", "i - 2*k", "min(i + 1, n - 1)", "((k + 1) % 2)*(n//3) + min((k + 1) % 2, n % 3)",
    "(k - k // 2)*n + i", "(i + 1) % n", "(i - 1) % n + 2*k", "3*((2*i - n) // n) + k", "(i + (i + 1) % n) % n",
    "((i + 1) % n) // 4",
])
def test_values(text: str) -> None:
    subscript = parse_expression(text)
    relation = subscripts_on(FEW, (subscript, parse_expression("i")))
    for n in (1, 6, 11):
        for k in (-1, 0, 3):
            for i in (0, n - 1):
                want = evaluate(subscript, {"n": n, "k": k, "i": i})
                assert element_at(relation, {"n": n}, (k, i)) == (want, i)


@pytest.mark.parametrize("text", ["i*n", "i*i", "k*k*i*n", "x[k]", "k*1.5", "(i + 3) % n", "i % m", "i % -n"])
def test_others(text: str) -> None:
    assert not affine_on(FEW, (parse_expression(text),))


@pytest.mark.parametrize("text", [
    "k*(n//4) + min(k, n % 4) + i < n - 1", "i < min(n - 1, 5)", "not (k*n >= i) and i > 0", "k*i == n or k == 2",
    "i < n"])
def test_conditions(text: str) -> None:
    condition = parse_expression(text)
    points = where_holds(FEW, condition, {"k", "i", "n"})
    assert points is not None
    for n in (1, 6, 11):
        assert all_points(points, {"n": n}, 1000) == [
            (k, i) for k in range(-1, 4) for i in range(n) if evaluate(condition, {"n": n, "k": k, "i": i})]


@pytest.mark.parametrize("text", ["x[i] > 0", "i > 0.5", "i*n > k", "i < m", "x[i] == x[i]"])
def test_other_conditions(text: str) -> None:
    assert where_holds(FEW, parse_expression(text), {"k", "i", "n"}) is None


def test_where_there_are_no_points_nothing_is_asked() -> None:
    nothing = InstanceSet.parse("[n] -> {[k,i]: 0<=i<n and n<0}")
    assert affine_on(nothing, (parse_expression("k*n"),))
    assert subscripts_on(nothing, (parse_expression("k*n"),)).is_empty()


def test_many_values_are_not_enumerated() -> None:
    many = InstanceSet.parse("[n] -> {[k,i]: 0<=k<100 and 0<=i<n}")
    with pytest.raises(NotAffineError):
        subscripts_on(many, (parse_expression("k*n"),))


def test_what_pieces_miss_comes_in_few_pieces() -> None:
    """Sixteen chunks of rows, each with a guard: isl's questions about what they leave out grow with the pieces."""
    chunk = "k*(n//16) + min(k, n % 16) + i"
    rows = InstanceSet.parse("[n, m] -> {[k, i, j]: 0<=k<16 and 0<=i and 16*i<n+16 and 0<=j<m}")
    inside = where_holds(rows, parse_expression(f"{chunk} + j < n"), {"k", "i", "j", "n"})
    assert inside is not None
    written = subscripts_on(inside, (parse_expression(chunk), parse_expression("j"))).intersect_domain(inside.set)
    some = parse_assumptions("n >= 1 and m >= 1", ["m", "n"])
    gaps = missed([written], [parse_expression("n"), parse_expression("m")], some)
    assert gaps is not None
    assert gaps.n_basic_set() < 60
