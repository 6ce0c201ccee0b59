"""Cross-block dependences within one launch: values between statements that run on different axes of the grid.

A statement outside a grid axis runs on block 0 of it when it writes global memory, and in every block when it
writes a private or shared temporary. Between the two no order exists inside a launch.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopkit.analysis.accesses import accesses_by_array, commute
from loopkit.analysis.assumed_dependences import assumed_flows
from loopkit.analysis.dependences import dependences
from loopkit.analysis.host_loops import not_separable, obstacle
from loopkit.analysis.order import execution_paths, meeting_of
from loopkit.analysis.witnesses import parameters_of, witness_at
from loopkit.errors import IllegalTransformError
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.dependence import Dependence
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tree import Seq, leaves
from loopkit.lowering.lowered import GRID, Launch, Pair, Schedule, Storage
from loopkit.lowering.storage import common_inames, is_global_anyway, leaves_its_launch, space_of_flow
from loopkit.lowering.storage_proof import one_cell_across_blocks
from loopkit.poly.relations import smallest_pair


def pairs_through_memory(schedule: Schedule) -> frozenset[Pair]:
    """Pairs of statements of one launch that must be in two, because a temporary comes to lie in global memory.

    Every block has its own copy of what is private or shared. But a value that lives from launch to launch, or one of
    as many as a size says, has one cell, which other blocks may write or read too. Cells that an expansion can keep
    apart do not count.
    """
    knl = schedule.kernel
    places = schedule.places()
    flows: dict[str, list[Dependence]] = {}
    for d in dependences(knl):
        if d.of_value and d.kind == "flow":
            flows.setdefault(d.array, []).append(d)
    found: set[Pair] = set()
    for name, bound in flows.items():
        given_up = list(assumed_flows(knl, name))
        own = [*bound, *given_up]
        if not (any(leaves_its_launch(knl, d, places) for d in bound) or is_global_anyway(knl, name)
                or any(space_of_flow(knl, d, places) is AddressSpace.GLOBAL for d in given_up)):
            continue
        accesses = accesses_by_array(knl)[name]
        lead = tuple(x for x in common_inames(knl, own) if all(x in a.domain.inames for a in accesses))
        for a in accesses:
            for b in accesses:
                if a.is_write and a.statement != b.statement and not commute(a, b) and one_cell_across_blocks(
                        knl, a, b, places, lead) is not None:
                    found.add((a.statement, b.statement))
    # where no launch can end between the two, the storage is refused
    return frozenset((a, b) for a, b in found if _separable(knl, a, b))


def _separable(knl: LoopKernel, first: str, second: str) -> bool:
    """Can the host run all loops around both statements?"""
    where = meeting_of(execution_paths(knl), first, second)
    return obstacle(knl, first, where.loops) is None


def crossing_pairs(launches: Sequence[Launch], storages: Mapping[str, Storage]) -> frozenset[Pair]:
    """Pairs of statements of one launch that must be in two.

    :raises IllegalTransformError: a loop that the host cannot run holds both, so that they cannot be.
    """
    found: set[Pair] = set()
    for launch in launches:
        if not any(axis in launch.extents for axis in GRID):
            continue
        children = launch.tree.children if isinstance(launch.tree, Seq) else (launch.tree,)
        place = {s: i for i, child in enumerate(children) for s in leaves(child)}
        for d in dependences(launch.kernel):
            if d.source in place and d.sink in place and _in_global_memory(d, storages) and _apart(launch, d) \
                    and not d.relation.is_empty():
                if place[d.source] == place[d.sink]:
                    _require_separable(launch.kernel, d)
                found.add((d.source, d.sink))
    return frozenset(found)


def _require_separable(knl: LoopKernel, d: Dependence) -> None:
    """:raises IllegalTransformError: no launch can end between the two statements of *d*."""
    where = meeting_of(execution_paths(knl), d.source, d.sink)
    if not_separable(knl, d, where, d.relation) is not None:
        raise _inseparable(knl, d, obstacle(knl, d.source, where.loops))


def _in_global_memory(d: Dependence, storages: Mapping[str, Storage]) -> bool:
    storage = storages.get(d.array)
    return bool(d.array) and (storage is None or storage.space is AddressSpace.GLOBAL)


def _apart(launch: Launch, d: Dependence) -> bool:
    """Does one of the two run on block 0 of an axis only, and the other not?"""
    alone = [set(launch.statements[s].alone_on) for s in (d.source, d.sink)]
    return any((axis in alone[0]) != (axis in alone[1]) for axis in GRID if axis in launch.extents)


def _inseparable(knl: LoopKernel, d: Dependence, why: str | None) -> IllegalTransformError:
    a, b = knl.statement_by_id[d.source], knl.statement_by_id[d.sink]
    params, source, sink = smallest_pair(d.relation, a.inames, b.inames, parameters_of(knl))
    hints = [] if why is None else [f"the host cannot run the loop, one launch an iteration: {why}"]
    return IllegalTransformError(
        f"'{a.id}' runs in one block and '{b.id}' in all of them, although the second needs the first.",
        witness_at(knl, d.array, d.kind, params, (a.id, source), (b.id, sink)),
        [*hints, "end the sequential loop between the two statements, so that they become two launches"])
