"""Checks of the result of each stage, for any kernel."""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from loopkit.analysis.accesses import accesses_by_array
from loopkit.ast.check import require_well_formed
from loopkit.ast.nodes import Assign, Block, Call, Program
from loopkit.ast.walk import nodes_in
from loopkit.errors import InternalError
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import LocalTag, is_parallel
from loopkit.kernel.tree import leaves, paths
from loopkit.lowering.cross_block import crossing_pairs
from loopkit.lowering.lowered import BLOCK, Launch, Schedule, Storage


def _require(holds: bool, text: str) -> None:
    if not holds:
        raise InternalError(text)


def _require_once(what: str, found: Iterable[str], wanted: Iterable[str]) -> None:
    there, meant = Counter(iter(found)), Counter(iter(wanted))
    wrong = sorted((there - meant) + (meant - there))
    _require(not wrong, f"{what}: {', '.join(wrong)} should be there once")


def types(knl: LoopKernel) -> None:
    """The dtypes of all temporaries and array arguments are known, and each statement stands in the tree once."""
    dtypes = {**{name: t.dtype for name, t in knl.temporaries.items()},
              **{name: a.dtype for name, a in knl.array_args.items()}}
    for name, dtype in dtypes.items():
        _require(dtype is not None, f"'{name}' has no dtype")
    _require_once("the tree", leaves(knl.tree), knl.statement_by_id)


def reductions(knl: LoopKernel) -> None:
    """Besides, no reduction is over threads."""
    types(knl)
    for node in knl.reductions.values():
        _require(not any(isinstance(knl.tags.get(x), LocalTag) for x in node.inames),
                 f"the reduction of '{node.final}' is over threads")


def schedule(knl: LoopKernel, scheduled: Schedule) -> None:
    """Each statement is in one launch, and no loop of a launch is parallel."""
    _require_once("the launches", (s for part in scheduled.launches for s in leaves(part.tree)), knl.statement_by_id)
    for part in scheduled.launches:
        for way in paths(part.tree).values():
            for step in way:
                _require(step.iname is None or not is_parallel(knl.tags.get(step.iname)),
                         f"the loop over '{step.iname}' is parallel")


def storage(scheduled: Schedule, storages: Mapping[str, Storage]) -> None:
    """Each temporary that is used has cells, with a dtype."""
    used = accesses_by_array(scheduled.kernel).keys() & scheduled.kernel.temporaries.keys()
    _require_once("the storage", storages, used)


def launches(scheduled: Schedule, bound: Sequence[Launch]) -> None:
    """Each launch has the statements of its part of the schedule, for the block and the grid."""
    for launch, part in zip(bound, scheduled.launches, strict=True):
        _require_once(f"launch '{launch.name}'", leaves(launch.tree), leaves(part.tree))
        _require_once(f"launch '{launch.name}'", launch.statements, leaves(part.tree))
        _require(all(isinstance(launch.extents.get(axis, 1), int) for axis in BLOCK),
                 f"the block of '{launch.name}' has no constant extents")


def apart(scheduled: Schedule, bound: Sequence[Launch], storages: Mapping[str, Storage]) -> None:
    """Besides, no value crosses blocks in a launch."""
    launches(scheduled, bound)
    _require(not crossing_pairs(bound, storages), "values cross blocks in a launch")


def host(bound: Sequence[Launch], order: Block) -> None:
    """The host makes all launches."""
    called = {node.name for node in nodes_in(order) if isinstance(node, Call)}
    _require_once("the host's part", called, (launch.name for launch in bound))


def program(bound: Sequence[Launch], storages: Mapping[str, Storage], made: Program) -> None:
    """The function of each launch is well-formed (:mod:`loopkit.ast.check`) and assigns what its statements do."""
    host(bound, made.order)
    for launch, function in zip(bound, made.functions, strict=True):
        knl = launch.kernel
        outside = {name for name, storage in storages.items() if storage.space is AddressSpace.GLOBAL}
        divergent = {a.name for a in function.arrays if not a.shared}
        require_well_formed(function, outside.union(knl.argument_by_name), divergent.union(launch.ranges, BLOCK))
        assigned = {node.statement for node in nodes_in(function.body) if isinstance(node, Assign)}
        _require(assigned <= launch.statements.keys(), f"'{launch.name}' assigns what is not in it")
