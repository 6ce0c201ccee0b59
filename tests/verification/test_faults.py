"""Fault injection: each guard, bound, box, index and barrier of each real case off by one, and all of it is caught.

``make test-deep`` tries every fault; else a few of each kind are tried in each case, of common kinds in a sixth of
the cases.
``LOOPKIT_FAULT_COUNTS=file`` appends how many were caught, one JSON object for each case.
"""
from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pymbolic.primitives as p
import pytest

import loopkit as lk
from loopkit.ast.nodes import Assign, For, Program, Region, Sync
from loopkit.expr.evaluate import evaluate
from loopkit.expr.mappers import variables
from loopkit.lowering.lowered import Lowered
from loopkit.poly.limits import bounded
from loopkit.poly.piecewise import piecewise_relation
from loopkit.poly.sets import Set
from loopkit.verification.report import Mismatch
from loopkit.verification.validation import findings
from loopkit.verification.validation_grid import grid_of
from loopkit.verification.validation_walk import executions
from tests.cases import CASES
from tests.deep import DEEP, some
from tests.lowering.waiting import WAITING
from tests.matrix_kernels import product
from tests.verification.faults import Fault, faults
from tests.verification.packed import PACKED
from tests.verification.test_butterflies import centred

#: Small products whose factors ldmatrix loads into fragments.
MATRIX_UNITS = {f"{name} from fragments": partial(product, name, "ldmatrix") for name in (
    "mma.m16n8k16.f32.bf16", "mma.m16n8k4.f32.tf32")}

KERNELS = {case.name: case.make for case in CASES} | PACKED | {name: way.make for name, way in WAITING.items()} \
    | MATRIX_UNITS | {"lanes that exchange values": partial(centred, lanes=8)}
#: How many faults of one kind are tried in one case by default.
MOST = 1

#: The kinds that many cases have: a sixth of them are tried in each case by default.
COMMON = frozenset({
    "guard weakened", "guard tightened", "bound weakened", "footprint shrunk", "box shrunk", "grid shrunk",
    "coordinate shifted", "index shifted", "barrier deleted", "barrier moved", "wait deleted", "wait weakened",
    "wait of fewer threads", "group not ended", "copy at once", "part of another length", "vector shifted",
    "vector lengthened", "vector not moved", "alignment dropped"})

#: What a fault of each kind is found as.
FOUND_AS = {
    "guard weakened": {"outside", "twice", "missing", "value"},
    "guard tightened": {"missing", "outside", "barrier", "group"},         # it may be around a wait
    "bound weakened": {"outside", "twice", "vector"},
    "footprint shrunk": {"missing"},
    "box shrunk": {"box"},
    "grid shrunk": {"missing"},
    "coordinate shifted": {"missing"},
    "part of another length": {"missing", "undecided"},
    "index shifted": {"element", "value"},
    "update not atomic": {"value"},
    "old value loaded plainly": {"value"},
    "old value of another update": {"value"},
    "step taken apart": {"step"},
    "step of the load alone": {"step"},
    "step of the update alone": {"step"},
    "step turned round": {"step"},
    "step taken apart and turned round": {"step"},
    "value stored without its flag": {"value"},
    "value read without a wait": {"value"},
    "blocks without tickets": {"ticket"},
    "vector shifted": {"vector"},
    "vector lengthened": {"vector"},
    "vector not moved": {"vector"},
    "alignment dropped": {"vector"},
    "operand changed": {"instruction"},
    "row changed": {"instruction"},
    "move of another kind": {"instruction"},
    "nest divergent": {"divergent", "missing"},
    "vector outside": {"vector"},
    "shuffle deleted": {"missing"},
    "shuffle shifted": {"lane"},
    "shuffle spoils": {"lane"},
    "butterfly in one direction": {"lane"},
    "butterfly of other lanes": {"lane"},
    "result of no butterfly": {"lane"},
    "shuffle as a region": {"lane", "barrier"},
    "shuffle divergent": {"divergent", "lane"},             # the other lane of a pair may not exchange its value
    "barrier deleted": {"barrier", "group"},
    "barrier moved": {"barrier", "group"},
    "group deleted": {"group"},
    "group not ended": {"group"},
    "wait deleted": {"group"},
    "wait weakened": {"group"},
    "wait moved": {"group"},
    "wait of fewer threads": {"barrier", "group"},
    "copy at once": {"value"},
    "copied otherwise": {"vector"}}


def chosen(name: str, low: Lowered) -> Iterator[Fault]:
    kinds: dict[str, list[Fault]] = defaultdict(list)
    for fault in faults(low.program):
        kinds[fault.kind].append(fault)
    if DEEP:
        yield from (fault for some_kind in kinds.values() for fault in some_kind)
        return
    common = [kind for kind in kinds if kind in COMMON]
    tried = some(common, 6, lambda kind: f"{kind} in {name}") if common else []
    for kind in (kind for kind in kinds if kind not in COMMON or kind in tried):
        yield from kinds[kind][::-(-len(kinds[kind]) // MOST)]


@pytest.mark.parametrize("name", KERNELS)
def test_every_fault_is_caught(name: str) -> None:
    """Each fault is found as what it is, or it is none: every statement runs where it ran before."""
    low = lk.lower(KERNELS[name]())
    counts: Counter[str] = Counter()
    for fault in chosen(name, low):
        with bounded(f"'{fault.text}'"):
            found = next(findings(replace(low, program=fault.program)), None)
            if found is not None:
                assert found.kind in FOUND_AS[fault.kind], f"{fault.kind}: {fault.text} as {found}"
                require_real_place(fault.program, found)
                counts[f"{fault.kind}: caught"] += 1
            else:
                assert "step" not in fault.kind, f"missed: {fault.kind}: {fault.text}"
                assert same_runs(low, fault.program), f"missed: {fault.kind}: {fault.text}"
                counts[f"{fault.kind}: no fault"] += 1
    if "LOOPKIT_FAULT_COUNTS" in os.environ:
        with Path(os.environ["LOOPKIT_FAULT_COUNTS"]).open("a") as file:
            file.write(json.dumps({"case": name, **counts}) + "\n")
    assert any(kind.endswith("caught") for kind in counts)


def require_real_place(program: Program, found: Mismatch) -> None:
    """The blocks and threads of *found* exist, and their inames are what the program computes for them."""
    if not found.place:
        return
    function = next(f for f in program.functions if f.name == found.launch)
    known = {**found.parameters, **found.place}
    for axis, extent in function.extents.items():
        if variables(extent) | {axis} <= known.keys():
            assert 0 <= known[axis] < evaluate(extent, known), str(found)
    for x, value in function.coordinates.items():
        if variables(value) | {x} <= known.keys():
            assert known[x] == evaluate(value, known), str(found)


def same_runs(low: Lowered, program: Program) -> bool:
    """Does *program*, which differs from that of *low* in its guards and bounds only, run each statement where that
    does, with the same arrays, at least the same barriers and waits?"""
    for before, after in zip(low.program.functions, program.functions, strict=True):
        if before.arrays != after.arrays or dict(before.extents) != dict(after.extents):
            return False
        knl = next(launch.kernel for launch in low.launches if launch.name == before.name)
        old, new = runs(knl, low.program, before.name), runs(knl, program, after.name)
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
        if isinstance(e.node, For | Region):
            continue
        if isinstance(e.node, Assign):
            key = f"{e.node.target} = {e.node.value}, {e.node.instructions}"
            values = [*map(p.Variable, grid.coordinates), *e.instance.values()]
        else:
            assert isinstance(e.node, Sync)
            key = e.node.title
            values = list(map(p.Variable, grid.coordinates))
        points = piecewise_relation(e.coordinates, values).intersect_domain(e.points).range()
        if not points.is_empty():
            found[key] = found[key].union(points) if key in found else points
    return found
