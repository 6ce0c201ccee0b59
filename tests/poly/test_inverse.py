"""Affine forms turned around."""
from __future__ import annotations

import pytest

from loopkit.expr.evaluate import evaluate
from loopkit.expr.parsing import parse_expression
from loopkit.poly.domains import inverse, two_with_one_image
from loopkit.poly.relations import subscript_relation
from loopkit.poly.sets import InstanceSet

SQUARE = "[n] -> {[t, i]: 0<=t<n and 0<=i<n}"
LINE = "[n] -> {[i]: 0<=i<n}"


@pytest.mark.parametrize(("domain", "forms"), [
    (SQUARE, "t, t+i"),
    (SQUARE, "2*t+i, t"),
    (SQUARE, "i, t"),
    (SQUARE, "t+i, t-i"),
    (SQUARE, "n-1-i, t"),
    (SQUARE, "t, t, i"),
    (SQUARE, "0, i, n, t"),
    (SQUARE, "t//2, i//3, t%2, i%3"),
    (LINE, "i//16, i%16"),
    (LINE, "2*i+1"),
    (LINE, "i//4"),                            # not injective
    (SQUARE, "t+i"),
    (SQUARE, "i"),
    ("[n] -> {[i, j]: 0<=i<8 and 0<=j<8}", "8*i+j"),
    ("[n] -> {[i, j]: 0<=i<8 and 0<=j<8}", "7*i+j"),
    ("[n] -> {[i, j]: 0<=i<n and j=2*i}", "i"),
    ("[n] -> {[i, j]: 0<=i<n and j=2*i}", "j"),
    ("[n] -> {[i]: 0<=i<n and i%3=0}", "i//3"),
])
def test_against_all_points(domain: str, forms: str) -> None:
    points = InstanceSet.parse(domain)
    entries = tuple(parse_expression(f) for f in forms.split(","))
    relation = subscript_relation(points.inames, entries)
    names = [f"c{i}" for i in range(len(entries))]
    n = 9
    inside = [dict(zip(points.inames, point, strict=True)) for point in _box(len(points.inames), n)
              if not points.named(points.set.intersect(
                  InstanceSet.parse(f"[n] -> {{[{', '.join(points.inames)}]: n = {n} and "
                                    + " and ".join(f"{x}={v}" for x, v in zip(points.inames, point, strict=True))
                                    + "}").set)).is_empty()]
    images = [tuple(evaluate(e, {**p, "n": n}) for e in entries) for p in inside]
    found = two_with_one_image(relation, points)
    if found is not None:
        sizes, first, second = found
        assert first != second
        assert [evaluate(e, {**sizes, **first}) for e in entries] == [evaluate(e, {**sizes, **second}) for e in entries]
        assert len(set(images)) < len(images)
        return
    assert len(set(images)) == len(images)
    turned = inverse(relation, points, names)
    assert turned is not None
    for point, image in zip(inside, images, strict=True):
        values = {**dict(zip(names, image, strict=True)), "n": n}
        assert {x: evaluate(e, values) for x, e in zip(points.inames, turned, strict=True)} == point


def _box(rank: int, n: int) -> list[tuple[int, ...]]:
    if not rank:
        return [()]
    return [(*rest, i) for rest in _box(rank - 1, n) for i in range(2*n)]


def test_an_empty_set_has_some_inverse() -> None:
    points = InstanceSet.parse("{[i]: 1 = 0}")
    relation = subscript_relation(("i",), (parse_expression("i//2"),))
    assert two_with_one_image(relation, points) is None
    assert inverse(relation, points, ["c"]) == (0,)


def test_no_single_form() -> None:
    points = InstanceSet.parse("{[i]: 0<=i<4 or 10<=i<14}")
    relation = subscript_relation(("i",), (parse_expression("i%10"), parse_expression("i//1000")))
    assert two_with_one_image(relation, points) is not None
    points = InstanceSet.parse("{[i]: 0<=i<4 or 14<=i<18}")
    assert two_with_one_image(relation, points) is None
    assert inverse(relation, points, ["a", "b"]) is None
