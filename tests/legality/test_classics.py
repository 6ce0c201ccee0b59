"""No false alarms: classic loop nests with all of their legal mappings are proven, without assume=, and right.

Every single step of the common kinds is also judged by enumeration: what is refused is really broken, with the smallest
witness, and what is accepted is not.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import combinations

import numpy as np
import pytest

import loopkit as lk
from tests.legality.classics import Classic
from tests.legality.linear_algebra import LINEAR_ALGEBRA
from tests.legality.pairs import Step, step
from tests.legality.recurrences import RECURRENCES
from tests.legality.stencils import STENCILS
from tests.legality.trace import Judged, require_smallest

CLASSICS = {**LINEAR_ALGEBRA, **STENCILS, **RECURRENCES}
MAPPED = [pytest.param(name, mapping, id=f"{name}: {mapping}")
          for name, classic in CLASSICS.items() for mapping in ("as written", *classic.mappings)]


@cache
def kernel(name: str) -> lk.LoopKernel:
    return CLASSICS[name].kernel("classic")


def test_there_are_enough() -> None:
    assert len(CLASSICS) == sum(map(len, (LINEAR_ALGEBRA, STENCILS, RECURRENCES))) >= 25
    assert all(len(c.mappings) > 1 for c in CLASSICS.values())


@pytest.mark.deep
@pytest.mark.parametrize(("name", "mapping"), MAPPED)
def test_mapping(name: str, mapping: str) -> None:
    classic, knl = CLASSICS[name], kernel(name)
    for one in classic.mappings.get(mapping, ()):
        knl = one.apply(knl)
        assert knl.history[-1].verdict in ("proven", "structural")
    assert not knl.obligations
    compiled = lk.compile(knl, "c")
    for sizes in classic.sizes:
        wanted = classic.data(kernel(name), sizes)
        arrays = {a: v.copy() for a, v in wanted.items()}
        classic.answer(**wanted, **sizes)
        compiled(**arrays, **{x: v for x, v in sizes.items() if x in knl.argument_by_name})
        for a, want in wanted.items():
            np.testing.assert_allclose(arrays[a], want, rtol=1e-9, atol=1e-9, err_msg=f"{a} with {sizes}")


# Each step by itself, judged by enumeration

def single_steps(knl: lk.LoopKernel) -> Iterator[Step]:
    """Every loop over blocks, in strips over threads and by ilp, and every two loops interchanged and tiled."""
    reducing = {x for node in knl.reductions.values() for x in node.inames}
    for x in knl.inames:
        if x not in reducing:
            yield step("tag_inames", {x: "g.0"})
        yield step("split_iname", x, 2, inner_tag="l.0")
        yield step("split_iname", x, 2, inner_tag="ilp")
    nests = {pair for path in knl.paths.values()
             for pair in combinations([s.iname for s in path if s.iname is not None], 2)}
    for x, y in sorted(nests):
        yield step("interchange", x, y)
        yield step("tile", {x: 2, y: 2})


def sizes_for(classic: Classic) -> dict[str, int]:
    """Large enough for two tiles of two, and a rest."""
    return {x: 3 if x == "nt" else 5 for x in classic.sizes[0]}


@pytest.mark.deep
@pytest.mark.parametrize("name", CLASSICS)
def test_single_steps(name: str) -> None:
    knl = kernel(name)
    sizes = sizes_for(CLASSICS[name])
    counts: Counter[str] = Counter()
    for one in single_steps(knl):
        try:
            result = one.apply(knl)
        except lk.IllegalTransformError as error:
            require_smallest([knl, one.apply(knl, unsafe=True)], error.witness, reach=0)
            counts["refused"] += 1
        except (lk.PreconditionError, lk.ScheduleError):
            counts["impossible"] += 1
        else:
            broken = Judged((knl, result), sizes).broken()
            assert not broken, f"{one} was accepted, but breaks {broken[0]}"
            counts["proven"] += 1
    assert counts["proven"]
