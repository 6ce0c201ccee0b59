"""Single points of a set: whether values satisfy the assumptions, and the points of a set at given parameters."""
from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from math import prod

import islpy as isl

from loopkit.poly.affine import DIM, to_int
from loopkit.poly.limits import bounded, coalesced
from loopkit.poly.sets import InstanceSet, constant_range, fix_params, params_of, params_text


def _test_of(constraint: isl.Constraint) -> tuple[Callable[[Mapping[str, int]], bool], str]:
    """Whether parameter values satisfy *constraint*, and its text."""
    terms = [(str(x), to_int(c)) for x, c in constraint.get_coefficients_by_name(DIM.param).items() if x != 1]
    constant, equality = to_int(constraint.get_constant_val()), constraint.is_equality()

    def satisfied(values: Mapping[str, int]) -> bool:
        total = constant + sum(coefficient * values[name] for name, coefficient in terms)
        return total == 0 if equality else total >= 0
    return satisfied, params_text(isl.BasicSet.from_constraint(constraint).to_set())


def holds(params: isl.Set, values: Mapping[str, int]) -> bool:
    """Are the parameter *values* a point of the parameter set *params*? Absent parameters may be anything."""
    return not fix_params(params, values).is_empty()


def checker(params: isl.Set) -> Callable[[Mapping[str, int]], str | None]:
    """A function of parameter values that returns the text of a violated condition, or ``None``.

    A conjunction without unknowns becomes plain integer arithmetic, as a call of isl takes 20 us.
    """
    points = coalesced(params).drop_unused_params()
    parts = points.get_basic_sets()
    if len(parts) == 1 and not parts[0].dim(DIM.div):
        tests = list(map(_test_of, parts[0].get_constraints()))
        return lambda values: next((text for satisfied, text in tests if not satisfied(values)), None)
    whole = params_text(points)

    def check(values: Mapping[str, int]) -> str | None:
        with bounded(f"whether {whole} holds for a call"):
            return None if holds(points, values) else whole
    return check


def extents(points: isl.Set, dims: Sequence[int], values: Mapping[str, int]) -> tuple[int | None, ...]:
    """The extents of the dimensions *dims* of a set at the parameter *values*; ``None``: unbounded."""
    fixed = fix_params(points, values)
    if fixed.is_empty():
        return (0,) * len(dims)
    ends = [constant_range(fixed, dim) for dim in dims]
    return tuple(None if low is None or high is None else high - low + 1 for low, high in ends)


def all_points(points: InstanceSet, values: Mapping[str, int], most: int) -> list[tuple[int, ...]] | None:
    """The points at the parameter *values*, in order; ``None``: more than *most*, or a parameter has no value."""
    if not values.keys() >= set(points.params):
        return None
    fixed = fix_params(points.set, values).drop_unused_params()
    if not fixed.is_bounded():
        return None
    found: set[tuple[int, ...]] = set()
    names = tuple(f"x{i}" for i in range(fixed.dim(DIM.set)))
    for piece in fixed.get_basic_sets():
        single = isl.Set.from_basic_set(piece)
        if single.is_empty():
            continue
        box = [range(to_int(single.dim_min_val(i)), to_int(single.dim_max_val(i)) + 1) for i in range(len(names))]
        if prod(map(len, box)) > most:
            return None
        inside = checker(params_of(InstanceSet(names, single)))
        found.update(x for x in itertools.product(*box) if inside(dict(zip(names, x, strict=True))) is None)
    return sorted(found)


def pair_test(relation: isl.Map, values: Mapping[str, int]) -> Callable[[Sequence[int], Sequence[int]], bool]:
    """A function that returns whether two points are a pair of *relation* at the parameter *values*."""
    n, m = relation.dim(DIM.in_), relation.dim(DIM.out)
    names = (*(f"s{i}" for i in range(n)), *(f"t{i}" for i in range(m)))
    flat = fix_params(relation, values).move_dims(DIM.in_, n, DIM.out, 0, m).domain()
    tests = [checker(params_of(InstanceSet(names, isl.Set.from_basic_set(piece)))) for piece in flat.get_basic_sets()]

    def test(source: Sequence[int], sink: Sequence[int]) -> bool:
        point = dict(zip(names, (*source, *sink), strict=True))
        return any(t(point) is None for t in tests)
    return test
