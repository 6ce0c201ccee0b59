"""Fault injection: each guard, bound, box, index and barrier of each real case off by one, and all of it is caught.

``LOOPKIT_FAULTS=all`` tries every fault; else some of each kind are tried in each case, of the barriers all.
``LOOPKIT_FAULT_COUNTS=file`` appends how many were caught, one JSON object for each case.
"""
from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pymbolic.primitives as p
import pytest

import loopkit as lk
from loopkit.ast.nodes import Assign, Program, Sync
from loopkit.lowering.pipeline import Lowered
from loopkit.poly.limits import bounded
from loopkit.poly.piecewise import piecewise_relation
from loopkit.poly.sets import Set
from loopkit.verify.validation import findings
from loopkit.verify.validation_walk import executions, grid_of
from tests.cases import CASES
from tests.verify.faults import Fault, faults

ALL = os.environ.get("LOOPKIT_FAULTS") == "all"
#: How many faults of one kind are tried in one case.
MOST = 4

#: What a fault of each kind is found as.
FOUND_AS = {
    "guard weakened": {"outside", "twice", "missing"},
    "guard tightened": {"missing", "outside"},
    "bound weakened": {"outside", "twice", "vector"},
    "footprint shrunk": {"missing"},
    "box shrunk": {"box"},
    "grid shrunk": {"missing"},
    "index shifted": {"element", "value"},
    "update not atomic": {"value"},
    "vector shifted": {"vector"},
    "vector lengthened": {"vector"},
    "vector not moved": {"vector"},
    "alignment dropped": {"vector"},
    "vector outside": {"vector"},
    "shuffle deleted": {"missing"},
    "shuffle shifted": {"lane"},
    "shuffle spoils": {"lane"},
    "shuffle as a region": {"lane", "barrier"},
    "shuffle divergent": {"divergent"},
    "barrier deleted": {"barrier", "copy"},
    "barrier moved": {"barrier", "copy"},
    "group deleted": {"copy"},
    "group not ended": {"copy"},
    "wait deleted": {"copy"},
    "wait weakened": {"copy"},
    "wait of a warp": {"barrier", "copy"},
    "copy at once": {"value"}}


def chosen(low: Lowered) -> Iterator[Fault]:
    kinds: dict[str, list[Fault]] = defaultdict(list)
    for fault in faults(low.program):
        kinds[fault.kind].append(fault)
    for kind, some in kinds.items():
        step = 1 if ALL or kind.startswith(("barrier", "shuffle", "wait", "group")) else -(-len(some) // MOST)
        yield from some[::step]


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_every_fault_is_caught(name: str) -> None:
    """Each fault is found as what it is, or it is none: every statement runs where it ran before."""
    low = lk.lower(next(case for case in CASES if case.name == name).make())
    assert isinstance(low, Lowered)
    counts: Counter[str] = Counter()
    for fault in chosen(low):
        with bounded(f"'{fault.text}'"):
            found = next(findings(replace(low, program=fault.program)), None)
            if found is not None:
                assert found.kind in FOUND_AS[fault.kind], f"{fault.kind}: {fault.text} as {found}"
                counts[f"{fault.kind}: caught"] += 1
            else:
                assert same_runs(low, fault.program), f"missed: {fault.kind}: {fault.text}"
                counts[f"{fault.kind}: no fault"] += 1
    if "LOOPKIT_FAULT_COUNTS" in os.environ:
        with Path(os.environ["LOOPKIT_FAULT_COUNTS"]).open("a") as file:
            file.write(json.dumps({"case": name, **counts}) + "\n")
    assert any(kind.endswith("caught") for kind in counts)


def same_runs(low: Lowered, program: Program) -> bool:
    """Does *program*, which differs from that of *low* in its guards and bounds only, run each statement where that
    does, with the same arrays, at least the same barriers and waits?"""
    for before, after in zip(low.program.functions, program.functions, strict=True):
        if before.arrays != after.arrays or dict(before.extents) != dict(after.extents):
            return False
        old, new = runs(low.kernel, low.program, before.name), runs(low.kernel, program, after.name)
        if old.keys() != new.keys():
            return False
        for key, points in old.items():
            if not (points.is_equal if " = " in key else points.is_subset)(new[key]):
                return False
    return True


def runs(knl: lk.LoopKernel, program: Program, name: str) -> dict[str, Set]:
    """For each text of a statement, on which threads it runs at which instance; for barriers the blocks."""
    function = next(f for f in program.functions if f.name == name)
    grid = grid_of(knl, function)
    found: dict[str, Set] = {}
    for e in executions(knl, function, grid):
        if isinstance(e.node, Assign):
            key = f"{e.node.target} = {e.node.value}"
            values = [*map(p.Variable, grid.coordinates), *e.instance]
        else:
            assert isinstance(e.node, Sync)
            key = e.node.title
            values = list(map(p.Variable, grid.coordinates))
        points = piecewise_relation(e.coordinates, values).intersect_domain(e.points).range()
        if not points.is_empty():
            found[key] = found[key].union(points) if key in found else points
    return found
