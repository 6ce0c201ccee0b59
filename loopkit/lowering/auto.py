"""The stage ``auto``: ``l.auto`` inames that are loops, and those whose threads keep values.

Lowering distributes the other ones at the end, each statement on its own. A value that one statement leaves to another
is then in shared memory: the two may run on different threads.
"""
from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from loopkit.analysis.accesses import fastest_last
from loopkit.analysis.constructors import annotated
from loopkit.analysis.dependences import between_iterations, dependences
from loopkit.analysis.legality import violations
from loopkit.analysis.ranges import iname_range
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Dependence
from loopkit.kernel.tags import AutoLocalTag, InameTag, LocalTag, UnrollTag
from loopkit.lowering.schedule import in_one_launch, launches_of
from loopkit.lowering.storage import space_of_flow
from loopkit.transform.thread_distribution import block_of, distributed


def without_needless_auto(knl: LoopKernel) -> LoopKernel:
    """*knl* with ``l.auto`` inames as loops in blocks of one thread, and on axes of the block where values stay in
    threads.
    """
    if not any(isinstance(tag, AutoLocalTag) for tag in knl.tags.values()):
        return knl
    if not any(isinstance(tag, LocalTag) and iname_range(knl, x)[1] != 1 for x, tag in knl.tags.items()):
        return _in_blocks_of_one_thread(knl)
    for auto in dict.fromkeys(_keeping_values(knl)):
        knl = _on_axes(knl, auto)
    return knl


def _in_blocks_of_one_thread(knl: LoopKernel) -> LoopKernel:
    """*knl* with ``l.auto`` inames as ordinary loops.

    As parallel inames they may be where loops may not; then they stay, and become loops around single statements.
    """
    loops = annotated(knl, tags={x: tag for x, tag in knl.tags.items() if not isinstance(tag, AutoLocalTag)})
    return loops if _is_in_order(loops) else knl


def _is_in_order(knl: LoopKernel) -> bool:
    return next(violations(knl), None) is None


def _auto_inames(knl: LoopKernel, statement: str) -> tuple[str, ...]:
    return tuple(x for x in knl.statement_by_id[statement].inames if isinstance(knl.tags.get(x), AutoLocalTag))


def _keeping_values(knl: LoopKernel) -> Iterator[tuple[str, ...]]:
    """The ``l.auto`` inames of the statements that leave each value to statements at the same point of these inames."""
    for d in dependences(knl):
        if d.of_value and d.kind == "flow" and d.source != d.sink:
            own = _auto_inames(knl, d.source)
            if own and own == _auto_inames(knl, d.sink) and between_iterations(knl, d, own) is None:
                yield own


def _on_axes(knl: LoopKernel, auto: tuple[str, ...]) -> LoopKernel:
    """*knl* with *auto* on the axes of the block that their statements leave free; the rounds are ordinary loops.

    They stay where a loop over rounds would break the order, or where their ranges are not constant.
    """
    users = [s for s in knl.statements if _auto_inames(knl, s.id) == auto]
    taken = block_of(knl, [s.id for s in users])
    block = {axis: n for axis, n in block_of(knl, [s.id for s in in_one_launch(knl, users[0].id)]).items()
             if axis not in taken}
    loops = annotated(knl, tags={x: tag for x, tag in knl.tags.items() if x not in auto})
    if not block or not all(iname_range(knl, x)[1] for x in auto) or not _is_in_order(loops):
        return knl
    orders = (fastest_last(knl, s.expression, auto) for s in users)
    result, axes = distributed(knl, next((order for order in orders if order != auto), auto), block)
    tags: dict[str, InameTag] = {x: UnrollTag() if axis is None else LocalTag(axis) for x, axis in axes.items()}
    result = annotated(result, tags={**result.tags, **tags})
    return _with_arrays_of_blocks(result, {s.id for s in users}) if _is_in_order(result) else knl


def _with_arrays_of_blocks(knl: LoopKernel, writers: Collection[str]) -> LoopKernel:
    """*knl* with the arrays in shared memory that *writers* fill and others read, in the same threads.

    One array for a block has as many cells as the array of each thread would have.
    """
    flows: dict[str, list[Dependence]] = {}
    for d in dependences(knl):
        if d.of_value and d.kind == "flow":
            flows.setdefault(d.array, []).append(d)
    places = launches_of(knl)
    own = {t.name: replace(t, address_space=AddressSpace.LOCAL) for t in knl.temporaries.values()
           if t.address_space is None and t.shape and {d.source for d in flows.get(t.name, ())} <= {*writers}
           and all(d.sink not in writers and space_of_flow(knl, d, places) is AddressSpace.PRIVATE
                   for d in flows.get(t.name, ()))}
    return annotated(knl, temporaries={**knl.temporaries, **own})
