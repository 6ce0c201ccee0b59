"""The points of a bounded instance set at given sizes, one by one."""
from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import prod

import islpy as isl

from loopkit.poly.affine import DIM, to_int
from loopkit.poly.sets import InstanceSet, checker, fix_params, params_of


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
        found.update(x for x in product(*box) if inside(dict(zip(names, x, strict=True))) is None)
    return sorted(found)
