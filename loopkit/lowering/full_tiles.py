"""Full-tile conditions: the conditions under which a version of the text without guards is right.

Some inames vary inside a tile: threads, copied boxes, inner loops of constant range. Others number the tiles. A
full-tile condition consists of the constraints that couple the two, at the worst corner of the tile. The version
without guards stands beside the general one.
"""
from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import reduce
from math import prod

import pymbolic.primitives as p

from loopkit.analysis.accesses import expanded_expression
from loopkit.analysis.ranges import constant_range
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import IlpTag, is_unrolled
from loopkit.kernel.tree import Loop, LoopPlace, Seq, Tree, leaves, loop_place
from loopkit.lowering.guard_folding import borders, has_branches
from loopkit.lowering.lowered import BLOCK, GRID, BoundStatement, Launch
from loopkit.poly.affine import NotAffineError, subtract
from loopkit.poly.sets import InstanceSet, Set, at_most_one, condition_set, params_of
from loopkit.poly.tiles import full_box_condition

#: The budget of isl for a version for full tiles.
VERSION = 2_000_000


def full_block(launch: Launch) -> tuple[Set, frozenset[str]] | None:
    """The full-tile condition of a block, on sizes and blocks; ``None`` if no guard depends on it.

    A statement that runs in one block along an axis only, such as peeled ends of rows, may have partial tiles.
    It comes last, and does not constrain blocks that do not run it.

    :returns: the condition, and the statements that no block with a full tile runs.
    """
    found: dict[str, list[Set]] = {}
    seen: set[int] = set()
    for s, bound in launch.statements.items():
        found[s] = list(_conditions(launch, bound, seen=id(bound.domain) in seen))
        seen.add(id(bound.domain))
    # statements with the same inames of the grid have the same blocks
    ways = {(bound.alone_on, *_blocks_of(launch, bound)) for bound in launch.statements.values()}
    ends = [s for s, bound in launch.statements.items() if len(ways) > 1 and _is_thin(launch, bound)]
    conditions = [c for s, own in found.items() if s not in ends for c in own]
    if not conditions:
        conditions, ends = [c for own in found.values() for c in own], []
    if not conditions:
        return None
    whole = reduce(Set.intersect, conditions)
    absent = set[str]()
    for s in ends:
        if params_of(launch.statements[s].domain).intersect(whole).intersect(_places(launch)).is_empty():
            absent.add(s)
        else:
            whole = reduce(Set.intersect, found[s], whole)
    return whole, frozenset(absent)


def _conditions(launch: Launch, bound: BoundStatement, known: Collection[str] | None = None, *, seen: bool = False
                ) -> Iterator[Set]:
    """The conditions under which a statement has all points of its tile.

    :arg known: loops around the tile that the conditions may have; ``None``: the blocks only.
    :arg seen: another statement has this domain too.
    """
    knl, inames = launch.kernel, bound.domain.inames
    unrolled = {x for x in inames if _is_unrolled(knl, x)}
    box, names = _box(launch, bound, unrolled), frozenset(launch.coordinates).difference(launch.ranges)
    if known is None:
        free_of = tuple(set(inames) - unrolled)
    else:
        free_of = tuple(x for x in inames if x not in box and x not in known)
        names = names.union(inames).difference(box, free_of)
    filled = None if seen else full_box_condition(bound.domain.set, inames, box, involving=(), free_of=free_of)
    if filled is not None:
        yield filled
    if has_branches(expanded_expression(knl, bound.statement)):
        yield from borders(knl, bound.statement, bound.domain, box, free_of, names, coupled=known is not None)


#: The length of a thread's text, in statements with unrolled loops written out, above which it is not written twice.
LONG = 256


def edges_are_small(launch: Launch) -> bool:
    """Is a thread's text long, and most of it the same for full and partial tiles?

    A second version of all of it only saves the guards of a few loads and stores.
    """
    lengths = {s: _length(launch.kernel, bound) for s, bound in launch.statements.items()}
    every = sum(lengths.values())
    if every <= LONG:
        return False
    other = sum(lengths[s] for s, bound in launch.statements.items()
                if next(_conditions(launch, bound, bound.domain.inames), None) is not None)
    return other > 0 and every - other > max(LONG, other)


def _length(knl: LoopKernel, bound: BoundStatement) -> int:
    """The number of copies of a statement in the text of a thread."""
    ranges = [constant_range(knl, bound.statement.domain, x) for x in bound.domain.inames if _is_unrolled(knl, x)]
    return prod(1 if low is None or high is None else high - low + 1 for low, high in ranges)


def full_tile_here(launch: Launch, statements: Iterable[str], known: Collection[str]) -> Set | None:
    """The condition under which an iteration of the loops around *statements* is a full tile; ``None``: none needed.

    :arg known: the names that a condition may have.
    """
    found = [condition for s in statements for condition in _conditions(launch, launch.statements[s], known)]
    return reduce(Set.intersect, found) if found else None


def _is_thin(launch: Launch, bound: BoundStatement) -> bool:
    """Does *bound* run in at most one block along one of the grid's axes?"""
    if any(axis in GRID for axis in bound.alone_on):
        return True
    points = InstanceSet((), params_of(bound.domain)).without_params([*launch.ranges, *BLOCK])
    return any(at_most_one(points.onto((x,)), x) for x in _blocks_of(launch, bound))


def _blocks_of(launch: Launch, bound: BoundStatement) -> tuple[str, ...]:
    return tuple(x for x in bound.hardware if x not in launch.ranges)


def _places(launch: Launch) -> Set:
    """The grid's inames in terms of its axes, where they are affine, with the assumptions."""
    result = launch.kernel.assumptions
    for x, value in launch.coordinates.items():
        if x not in launch.ranges:
            with suppress(NotAffineError):
                result = result.intersect(condition_set("==", subtract(p.Variable(x), value), ()).params())
    return result


def full_iterations(launch: Launch) -> dict[LoopPlace, Set]:
    """For each innermost tile loop, the condition under which an iteration has a full tile."""
    result: dict[LoopPlace, Set] = {}
    for loop in _loops(launch.tree):
        if _is_unrolled(launch.kernel, loop.iname):
            continue                        # part of the tile
        inner = {x.iname for x in _loops(loop.body)}
        conditions = [_iteration(launch, launch.statements[s], loop.iname, inner) for s in leaves(loop)]
        found = [c for c in conditions if c is not None]
        if found:
            result[loop_place(loop)] = reduce(Set.intersect, found)
    # only the innermost tile loop is split: each one doubles the text
    outer = {loop_place(loop) for loop in _loops(launch.tree)
             if any(loop_place(inner) in result for inner in _loops(loop.body))}
    return {place: whole for place, whole in result.items() if place not in outer}


def _iteration(launch: Launch, bound: BoundStatement, loop: str, inner: set[str]) -> Set | None:
    box = _box(launch, bound, inner)
    free = tuple(x for x in bound.domain.inames if x != loop and x not in box and x in inner)
    return full_box_condition(bound.domain.set, bound.domain.inames, box, involving=(loop,), free_of=free)


def _is_unrolled(knl: LoopKernel, iname: str) -> bool:
    """Is the loop over *iname* a part of the tile that a thread works on?"""
    tag = knl.tags.get(iname)
    return is_unrolled(tag) or isinstance(tag, IlpTag)


def _box(launch: Launch, bound: BoundStatement, inner: set[str]) -> Mapping[str, tuple[int, int]]:
    """The inames that vary inside a tile, with their ranges: threads, distributed boxes, and constant inner loops."""
    box = {}
    for x in (*bound.hardware, *bound.auto, *(x for x in bound.domain.inames if x in inner)):
        # an axis may have more threads than an iname on it has values
        low, high = constant_range(launch.kernel, bound.statement.domain, x)
        if low is not None and high is not None and (x in launch.ranges or x not in bound.hardware):
            box[x] = (low, high)
        elif x in launch.ranges:
            box[x] = launch.ranges[x]
    return box


def _loops(tree: Tree) -> list[Loop]:
    match tree:
        case Loop(_, body):
            return [tree, *_loops(body)]
        case Seq(children):
            return [x for c in children for x in _loops(c)]
        case _:
            return []
