"""Relations between instances, against single pairs of them."""
from __future__ import annotations

import random
from functools import reduce
from itertools import product

import islpy as isl
import pytest

from loopkit.poly.relations import identity_on, only_dims, union_of, union_of_some
from loopkit.poly.sets import InstanceSet

MOST = 4


Point = tuple[int, ...]


def union(inames: tuple[str, ...], parts: list[str]) -> InstanceSet:
    where = " or ".join(f"({t})" for t in parts) or "false"
    return InstanceSet(inames, isl.Set(f"{{ [{', '.join(inames)}] : {where} }}"))


def drawn(lot: random.Random, inames: tuple[str, ...]) -> tuple[InstanceSet, set[Point]]:
    """A union of boxes, of every so many points at times, and its points."""
    boxes = [([sorted(lot.choices(range(MOST), k=2)) for _ in inames], lot.randint(1, 2))
             for _ in range(lot.randint(1, 3))]
    texts = [" and ".join([f"{low} <= {x} <= {high}" for x, (low, high) in zip(inames, ends, strict=True)]
                          + [f"({' + '.join(inames)}) mod {step} = 0"]) for ends, step in boxes]
    points = {point for point in product(range(MOST), repeat=len(inames)) for ends, step in boxes
              if sum(point) % step == 0 and all(low <= v <= high for v, (low, high) in zip(point, ends, strict=True))}
    return union(inames, texts), points


@pytest.mark.deep(every=6)
@pytest.mark.parametrize("seed", range(60))
def test_pairs_agree_in_what_is_shared(seed: int) -> None:
    lot = random.Random(seed)
    names = [("i", "j"), ("i", "j", "k"), ("j", "i"), ("i",)]
    (source, first), (sink, second) = (drawn(lot, lot.choice(names)) for _ in range(2))
    both = [x for x in source.inames if x in sink.inames]
    shared = lot.sample(both, lot.randint(1, len(both)))

    def agree(s: Point, t: Point) -> bool:
        return all(s[source.inames.index(x)] == t[sink.inames.index(x)] for x in shared)
    if lot.random() < 0.5:                 # as in a reduction: each instance of the one has its partners
        second = {t for t in second if any(agree(s, t) for s in first)}
        sink = union(sink.inames, [" and ".join(f"{x} = {v}" for x, v in zip(sink.inames, t, strict=True))
                                   for t in sorted(second)])
    pairs = identity_on(source, sink, shared)
    for s, t in product(*(product(range(MOST), repeat=len(d.inames)) for d in (source, sink))):
        pair = isl.Map(f"{{ [{', '.join(map(str, s))}] -> [{', '.join(map(str, t))}] }}")
        assert pair.is_subset(pairs) == (s in first and t in second and agree(s, t)), (s, t)


@pytest.mark.parametrize(("source", "sink"), [([0, 2], [0, 1]), ([2, 0], [1]), ([1], [1, 0]), ([2, 0, 1], [])])
def test_some_dimensions_come_in_the_order_that_is_asked_for(source: list[int], sink: list[int]) -> None:
    pair = isl.Map("{ [10, 11, 12] -> [20, 21] }")
    wanted = isl.Map(f"{{ {[10 + i for i in source]} -> {[20 + i for i in sink]} }}")
    assert only_dims(pair, source, sink).is_equal(wanted)


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_a_union_has_all_parts_in_their_order(count: int) -> None:
    parts = [isl.Set(f"{{ [{3*k}] }}") for k in range(count)]
    found = union_of(parts)
    assert str(found) == str(reduce(isl.Set.union, parts))
    assert union_of_some([isl.Set("{ [i] : 1 = 0 }"), *parts]).is_equal(found)
    assert union_of_some([isl.Set("{ [i] : 1 = 0 }")]) is None
