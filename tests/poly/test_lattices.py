"""Loops over points with strides: isl leaves some out where strides leave one value of a loop, which it must not."""
from __future__ import annotations

import random

import pytest

from loopkit.poly.codegen import CodeLoop
from loopkit.poly.sets import InstanceSet, range_condition
from tests.loop_programs import generated, run


def drawn(seed: int) -> tuple[int, int, tuple[int, ...], int, str]:
    """A tile of *width* times *count* points in a block, coefficients and modulus of a lattice, and a condition."""
    r = random.Random(seed)
    width, count, modulus = r.choice((2, 3, 4)), r.choice((2, 3, 4)), r.choice((2, 3, 4))
    whole = (r.choice((0, 1)), 1, width, width*count)
    factors = whole if r.random() < 0.5 else tuple(r.randint(0, 3) for _ in range(4))
    last = f"{width}*m + {width*count}*o + {width - 1}"
    return width, count, factors, modulus, r.choice((f"{last} >= n", f"{last} >= n", f"{last} < n", "n >= 0"))


# the first two were found as wrong results
FOUND = [(3, 3, (1, 1, 3, 9), 2, "3*m + 9*o + 2 >= n"), (3, 2, (2, 1, 2, 2), 4, "3*m + 6*o + 2 >= n")]


@pytest.mark.deep(every=26)
@pytest.mark.parametrize("case", [*FOUND, *map(drawn, range(24))])
def test_every_point_once_and_in_order(case: tuple[int, int, tuple[int, ...], int, str]) -> None:
    width, count, (constant, of_t, of_m, of_o), modulus, condition = case
    form = f"{constant} + {of_t}*t + {of_m}*m + {of_o}*o"
    points = InstanceSet.parse(
        f"[n, t] -> {{ [o, m]: ({form}) mod {modulus} = 0 and 0 <= o and 0 <= m < {count} and 0 <= t < {width} "
        f"and {width}*m + {width*count}*o + t < n and {condition} }}")
    nodes = generated(CodeLoop("o", CodeLoop("m", "S")), {"S": points}, range_condition("t", 0, width - 1),
                      lambda name: name)
    for n in range(-1, 26):
        for t in range(width):
            at = [{"n": n, "t": t, "o": o, "m": m} for o in range(14) for m in range(count)]
            wanted = [(x["o"], x["m"]) for x in at if eval(form, dict(x)) % modulus == 0 and eval(condition, dict(x))
                      and width*x["m"] + width*count*x["o"] + t < n]
            assert run(nodes, {"n": n, "t": t}) == [("S", x) for x in wanted], (n, t)
