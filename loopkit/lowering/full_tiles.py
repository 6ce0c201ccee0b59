"""Where tiles are whole, so that a version without guards can stand beside the generic one.

The condition is found from the constraints that couple what varies inside a tile (threads, fetched boxes,
inner loops of constant range) to what names the tile, at the worst corner of the tile.
"""
from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from loopkit.analysis.accesses import expanded_expression
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import IlpTag, is_unrolled
from loopkit.kernel.tree import Loop, LoopPlace, Seq, Tree, leaves, loop_place
from loopkit.lowering.binding import BoundStatement, Launch
from loopkit.lowering.decided import borders, has_branches
from loopkit.poly.codegen import worst_corner
from loopkit.poly.sets import Set


def full_block(knl: LoopKernel, launch: Launch) -> Set | None:
    """The condition on sizes and blocks under which a block's tile is whole; ``None`` if nothing depends on it."""
    if launch.threads == 1:
        return None
    conditions: list[Set] = []
    seen: set[int] = set()
    blocks = frozenset(launch.coordinates).difference(launch.ranges)
    for bound in launch.statements.values():
        unrolled = {x for x in bound.domain.inames if _is_unrolled(knl, x)}
        free_of = tuple(set(bound.domain.inames) - unrolled)
        if id(bound.domain) not in seen:
            seen.add(id(bound.domain))
            found = worst_corner(bound.domain.set, bound.domain.inames, _box(launch, bound, unrolled),
                                 involving=(), free_of=free_of)
            conditions += [] if found is None else [found]
        if has_branches(expanded_expression(knl, bound.statement)):
            conditions += borders(knl, bound.statement, bound.domain, _box(launch, bound, unrolled), free_of, blocks)
    return reduce(Set.intersect, conditions) if conditions else None


def full_iterations(knl: LoopKernel, launch: Launch) -> dict[LoopPlace, Set]:
    """For each innermost tile loop, the condition under which an iteration's tile is whole."""
    if launch.threads == 1:
        return {}
    result: dict[LoopPlace, Set] = {}
    for loop in _loops(launch.tree):
        if _is_unrolled(knl, loop.iname):
            continue                        # part of the tile
        inner = {x.iname for x in _loops(loop.body)}
        conditions = [_iteration(launch, launch.statements[s], loop.iname, inner) for s in leaves(loop)]
        found = [c for c in conditions if c is not None]
        if not found:
            continue
        whole = found[0]
        for c in found[1:]:
            whole = whole.intersect(c)
        result[loop_place(loop)] = whole
    # only the innermost tile loop is split: each one doubles the text
    outer = {loop_place(loop) for loop in _loops(launch.tree)
             if any(loop_place(inner) in result for inner in _loops(loop.body))}
    return {place: whole for place, whole in result.items() if place not in outer}


def _iteration(launch: Launch, bound: BoundStatement, loop: str, inner: set[str]) -> Set | None:
    box = _box(launch, bound, inner)
    free = tuple(x for x in bound.domain.inames if x != loop and x not in box and x in inner)
    return worst_corner(bound.domain.set, bound.domain.inames, box, involving=(loop,), free_of=free)


def _is_unrolled(knl: LoopKernel, iname: str) -> bool:
    """Is the loop over *iname* a part of the tile that a thread works on?"""
    tag = knl.tags.get(iname)
    return is_unrolled(tag) or isinstance(tag, IlpTag)


def _box(launch: Launch, bound: BoundStatement, inner: set[str]) -> Mapping[str, tuple[int, int]]:
    """What varies inside a tile, with its range: threads, spread boxes, and inner loops of constant range."""
    box = {x: launch.ranges[x] for x in bound.hardware if x in launch.ranges}
    for x in (*bound.auto, *(x for x in bound.domain.inames if x in inner)):
        low, high = bound.statement.domain.constant_range(x)
        if low is not None and high is not None:
            box[x] = (low, high)
    return box


def _loops(tree: Tree) -> list[Loop]:
    match tree:
        case Loop(_, body):
            return [tree, *_loops(body)]
        case Seq(children):
            return [x for c in children for x in _loops(c)]
        case _:
            return []

