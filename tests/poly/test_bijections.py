"""Maps between inames and the ends of loops, at the border to isl."""
from __future__ import annotations

import islpy as isl
import pymbolic.primitives as p
import pytest

from loopkit.poly.affine import add, floor_div, from_aff, multiply, remainder, subtract, to_aff
from loopkit.poly.domains import affine_ends, inverse, parted, solutions
from loopkit.poly.sets import InstanceSet, parse_assumptions, universe_params

ROW, COLUMN, N = map(p.Variable, "ijn")


@pytest.mark.parametrize("expr", [
    7, ROW, add(multiply(3, ROW), multiply(-2, N), 5), floor_div(add(ROW, N), 4), remainder(subtract(COLUMN, ROW), 3),
    add(multiply(5, floor_div(add(multiply(2, ROW), 1), 3)), floor_div(floor_div(N, 2), 7)),
])
def test_from_aff_reads_back(expr: object) -> None:
    value = to_aff(expr, ("i", "j"))                                                        # type: ignore[arg-type]
    assert to_aff(from_aff(value, ("i", "j")), ("i", "j")).plain_is_equal(value)


def test_from_aff_of_a_fraction() -> None:
    value = isl.Aff.read_from_str(isl.DEFAULT_CONTEXT, "[n] -> { [i] -> [(3i + n - 1)/2] }")
    assert from_aff(value, ("i",)) == floor_div(add(multiply(3, ROW), N, -1), 2)


def test_inverse_everywhere_and_on_the_domain() -> None:
    relation = solutions(("i", "j"), ("k",), [subtract(p.Variable("k"), add(multiply(8, ROW), COLUMN))])
    points = InstanceSet.parse("{[i,j]: 0<=j<8}")
    values = inverse(relation, points, ("k",))
    assert values is not None
    for k in (-9, 0, 7, 8, 100):
        found = [to_aff(v, ("k",)).eval(_point(k)).to_python() for v in values]
        assert found == [k // 8, k % 8]


def _point(value: int) -> isl.Point:
    return isl.Set.read_from_str(isl.DEFAULT_CONTEXT, f"{{[{value}]}}").sample_point()


@pytest.mark.parametrize(("domain", "ends"), [
    ("[n] -> {[i]: 2<=i<n}", (2, subtract(N, 1))), ("[n] -> {[i]: 0<=2i<n}", (0, add(floor_div(add(N, 1), 2), -1))),
    ("[n,m] -> {[i]: 0<=i<n and i<m}", None), ("[n] -> {[i]: i<n}", None), ("[n] -> {[i]: i<n and i>n}", (0, 0)),
    ("[n] -> {[i]: 0<=i<n or 0<=i<n-3}", (0, subtract(N, 1)))])
def test_affine_ends(domain: str, ends: object) -> None:
    assert affine_ends(InstanceSet.parse(domain), universe_params()) == ends


def test_affine_ends_under_assumptions() -> None:
    points = InstanceSet.parse("[n,m] -> {[i]: 0<=i<n and i<m}")
    assert affine_ends(points, parse_assumptions("n <= m", ["n", "m"])) == (0, subtract(N, 1))


@pytest.mark.parametrize(("domain", "first", "last"), [
    ("[n] -> {[i]: 0<=i<n}", 1, 1), ("[n] -> {[i]: 0<=i<n}", 3, 0), ("[n] -> {[t,i]: 0<=t<4 and t<=i<n and i<8}", 1, 2),
    ("{[i]: 0<=i<20 and i mod 3 = 1}", 2, 4)])
def test_the_parts_of_a_loop(domain: str, first: int, last: int) -> None:
    points = InstanceSet.parse(domain)
    parts = parted(points, first, last)
    assert parts is not None
    for n in (0, 1, 2, 7):
        own = [_values(points.named(points.set.intersect(part.set)), n) for part in parts]
        for outer, values in _values(points, n).items():
            low, high = min(values), max(values)
            want = [{i for i in values if i < low + first}]
            want.append({i for i in values - want[0] if i <= high - last})
            want.append(values - want[0] - want[1])
            assert [part.get(outer, set()) for part in own] == want


def _values(points: InstanceSet, n: int) -> dict[tuple[int, ...], set[int]]:
    """The values of the innermost iname by those of the others."""
    found: dict[tuple[int, ...], set[int]] = {}
    fixed = points.set.intersect_params(isl.Set.read_from_str(isl.DEFAULT_CONTEXT, f"[n] -> {{: n = {n}}}"))
    fixed.foreach_point(lambda point: found.setdefault(tuple(
        point.get_coordinate_val(isl.dim_type.set, d).to_python() for d in range(len(points.inames) - 1)), set()).add(
        point.get_coordinate_val(isl.dim_type.set, len(points.inames) - 1).to_python()))
    return found


def test_a_loop_without_an_end_has_no_last_iterations() -> None:
    assert parted(InstanceSet.parse("{[i]: i>=0}"), 1, 1) is None
    assert parted(InstanceSet.parse("{[i]: i>=0}"), 1, 0) is not None
