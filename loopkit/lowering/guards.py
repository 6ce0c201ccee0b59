"""Guards: folding drops those that are known at their place, and code for full tiles needs none.

In unrolled loops, a condition that can fail in few iterations also tests the iteration. The CUDA compiler cannot find
that range, but it folds the test after unrolling.

Some inames vary inside a tile: threads, ``l.auto`` boxes, inner loops of constant range. Others number the tiles. A
full-tile condition consists of the constraints that couple the two, at the tile's worst point. The version without
guards is beside the general one.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from math import prod

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import expanded_expression, integer_names
from loopkit.analysis.ranges import constant_range
from loopkit.ast.nodes import Completion, For, If, Node
from loopkit.ast.walk import map_child_nodes
from loopkit.expr.dtypes import Type, type_of
from loopkit.expr.mappers import conjunction, conjuncts, map_children, subexpressions, variables
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import IlpTag, is_unrolled
from loopkit.kernel.tree import LoopPlace, leaves, loop_place, loops_in, meeting, paths
from loopkit.lowering.lowered import GRID, BoundStatement, Launch
from loopkit.poly.affine import NotAffineError, add
from loopkit.poly.domains import full_box_condition
from loopkit.poly.extents import couples
from loopkit.poly.piecewise import is_affine_condition, params_where, where_holds
from loopkit.poly.sets import InstanceSet, Set, at_most_one, param_range, params_of, range_condition, universe_params

Ranges = Mapping[str, tuple[int, int]]


def folded(expr: Expression, points: InstanceSet, names: frozenset[str], types: Mapping[str, Type]) -> Expression:
    """*expr* as it is at all of *points*, without conditions on *names* that have one truth value there.

    A condition stays if dropping it would change the dtype of the expression.
    """
    if not isinstance(expr, p.If) or (holds := points_where(points, expr.condition, names)) is None:
        return map_children(expr, lambda e: folded(e, points, names, types))
    fails = points.subtract(holds)
    then, other = folded(expr.then, holds, names, types), folded(expr.else_, fails, names, types)
    dtype = type_of(expr, types.get)
    for branch, meant, never in ((then, expr.then, fails), (other, expr.else_, holds)):
        if never.is_empty() and dtype is not None and type_of(meant, types.get) == dtype:
            return branch
    return p.If(_plain(expr.condition), then, other)


def _plain(condition: Expression) -> Expression:
    """An affine *condition* with like terms collected on each side, as in subscripts."""
    if isinstance(condition, p.Comparison):
        return p.Comparison(add(condition.left), condition.operator, add(condition.right))
    return map_children(condition, _plain)


def points_where(points: InstanceSet, condition: Expression, names: frozenset[str]) -> InstanceSet | None:
    """The points where an affine *condition* holds; ``None``: it is affine at single values only."""
    return where_holds(points, condition, names) if is_affine_condition(condition, names) else None


def with_limited_conditions(node: Node, ranges: Ranges, context: Set, about: Callable[[Expression], bool]) -> Node:
    """*node*, in loops unrolled over *ranges*, with conditions limited to the iterations in which they can fail.

    :arg context: the conditions that hold around *node*; *about*: is a condition limited?
    """
    match node:
        case If():
            found = (_part(c, ranges, context) if about(c) else c for c in conjuncts(node.condition))
            node = replace(node, condition=conjunction(found))
        case For(start=int() as start, stop=int() as stop):
            context = context.intersect(range_condition(node.iname, start, stop - 1))
        case _:
            pass
    return map_child_nodes(node, lambda child: with_limited_conditions(child, ranges, context, about))


def _part(part: Expression, ranges: Ranges, context: Set) -> Expression:
    with suppress(NotAffineError):
        fails = params_where(p.LogicalNot(part)).intersect(context)
        return unless(part, fails, {x: own for x, own in ranges.items() if x in variables(part)})
    return part


def unless(part: Expression, fails: Set, ranges: Ranges) -> Expression:
    """*part*, which is false at points of *fails* only, or the iterations of one of *ranges* in which it cannot fail.

    *part* alone, if these are few: the longer text would save little.
    """
    for x, (first, last) in ranges.items():
        low, high = InstanceSet((), fails.from_params()).onto((x,)).constant_range(x)
        if low is None or high is None or 2*(high - low + 1) >= last - first + 1:
            continue
        before = (p.Comparison(p.Variable(x), "<", low),) if low > first else ()
        behind = (p.Comparison(high, "<", p.Variable(x)),) if high < last else ()
        if before or behind:
            return p.LogicalOr((*before, *behind, *(part.children if isinstance(part, p.LogicalOr) else (part,))))
    return part


# Full tiles

#: The budget of isl for a version for full tiles.
VERSION = 2_000_000

#: The length of a thread's text, in statements with unrolled loops written out, above which it is not written twice.
LONG = 256


def full_block(launch: Launch) -> tuple[Set, frozenset[str]]:
    """The full-tile condition of a block, on sizes and blocks, and the statements that no block with a full tile runs.

    A statement that runs in one block along an axis only, such as peeled ends of rows, may have partial tiles.
    It comes last, and does not constrain blocks that do not run it.
    """
    found: dict[str, list[Set]] = {}
    seen = set[int]()
    for s, bound in launch.statements.items():
        found[s] = list(_full_tile_conditions(launch, bound, seen=id(bound.domain) in seen))
        seen.add(id(bound.domain))
    # statements with the same inames of the grid have the same blocks
    ways = {(bound.alone_on, *_blocks_of(launch, bound)) for bound in launch.statements.values()}
    ends = [s for s, bound in launch.statements.items() if len(ways) > 1 and _is_thin(launch, bound)]
    if not any(own for s, own in found.items() if s not in ends):
        ends = []
    full = reduce(Set.intersect, (c for s, own in found.items() if s not in ends for c in own), universe_params())
    absent = set[str]()
    for s in ends:
        if params_of(launch.statements[s].domain).intersect(full).intersect(_grid_places(launch)).is_empty():
            absent.add(s)
        else:
            full = reduce(Set.intersect, found[s], full)
    return full, frozenset(absent)


def _full_tile_conditions(launch: Launch, bound: BoundStatement, known: Collection[str] = (), *, seen: bool = False
                          ) -> Iterator[Set]:
    """The conditions under which a statement has all points of its tile.

    :arg known: loops around the tile that the conditions may have, beside the blocks.
    :arg seen: another statement has this domain too.
    """
    # TMA fills and cuts partial tiles by itself
    if bound.statement.completion in (Completion.PHASE, Completion.STORES):
        return
    inames = bound.domain.inames
    box = _ranges_in_tile(launch, bound, {x for x in inames if _is_in_tile(launch.kernel, x)})
    free_of = tuple(x for x in (*inames, *_threads_of(launch, bound)) if x not in box and x not in known)
    names = frozenset(launch.mapping.block_inames).union(inames).difference(box, free_of)
    filled = None if seen else full_box_condition(bound.domain.set, inames, box, involving=(), free_of=free_of)
    if filled is not None:
        yield filled
    for sides in _conditional(launch.kernel, bound):
        conditions = (full_box_condition(side.set, inames, box, involving=(), free_of=free_of) for side in sides)
        # most tiles are on this side; a condition that couples two axes divides the grid
        border = next((c for c in conditions if c is not None and (known or not couples(c, names))
                       and all(param_range(c, x)[1] is None for x in names)), None)
        if border is not None:
            yield border


def _conditional(knl: LoopKernel, bound: BoundStatement) -> Iterator[tuple[InstanceSet, InstanceSet]]:
    """For each affine condition in the expression of a statement, the points where it holds, and the others.

    A condition can make a tile partial, for example at the edge of a grid with fixed values around it. The full-tile
    condition includes it, so that the version for full tiles has no such ``if``.
    """
    choices = (e for e in subexpressions(expanded_expression(knl, bound.statement)) if isinstance(e, p.If))
    for condition in dict.fromkeys(e.condition for e in choices):
        holds = points_where(bound.domain, condition, integer_names(knl, bound.statement))
        if holds is not None:
            yield holds, bound.domain.subtract(holds)


def edges_are_small(launch: Launch) -> bool:
    """Is a thread's text long, and most of it the same for full and partial tiles?

    A second version of all of it only saves the guards of a few loads and stores. A branch between matrix instructions
    would hold them up.
    """
    knl = launch.kernel
    if nests := [s for s, bound in launch.statements.items() if bound.statement.has_nest]:
        ways = paths(launch.tree)
        guarded = [s for s, bound in launch.statements.items()
                   if next(_full_tile_conditions(launch, bound, bound.domain.inames), None) is not None]
        return not any(meeting(ways[a], ways[b]).loops for a in guarded for b in nests)
    # the number of copies of each statement in the text of a thread
    lengths = {s: prod(high - low + 1 for x in bound.domain.inames if _is_in_tile(knl, x)
                       for low, high in [constant_range(knl, bound.statement.domain, x)]
                       if low is not None and high is not None)
               for s, bound in launch.statements.items()}
    every = sum(lengths.values())
    if every <= LONG:
        return False
    other = sum(lengths[s] for s, bound in launch.statements.items()
                if next(_full_tile_conditions(launch, bound, bound.domain.inames), None) is not None)
    return other > 0 and every - other > max(LONG, other)


def full_tile_here(launch: Launch, statements: Iterable[str], known: Collection[str]) -> Set:
    """The condition, on *known* names, for a full tile in the loops around *statements*."""
    found = (condition for s in statements for condition in _full_tile_conditions(launch, launch.statements[s], known))
    return reduce(Set.intersect, found, universe_params())


def _is_thin(launch: Launch, bound: BoundStatement) -> bool:
    """Does *bound* run in at most one block along one of the grid's axes?"""
    if any(axis in GRID for axis in bound.alone_on):
        return True
    points = InstanceSet((), params_of(bound.domain)).without_params([*launch.mapping.thread_names])
    return any(at_most_one(points.onto((x,)), x) for x in _blocks_of(launch, bound))


def _blocks_of(launch: Launch, bound: BoundStatement) -> tuple[str, ...]:
    return tuple(x for x in bound.hardware if x not in launch.mapping.thread_inames)


def _threads_of(launch: Launch, bound: BoundStatement) -> tuple[str, ...]:
    return tuple(x for x in bound.hardware if x in launch.mapping.thread_inames)


def _grid_places(launch: Launch) -> Set:
    """The grid's inames in terms of its axes, where they are affine, with the assumptions."""
    result = launch.kernel.assumptions
    for x in launch.mapping.block_inames:
        with suppress(NotAffineError):
            place = p.Comparison(p.Variable(x), "==", launch.mapping.coordinates[x])
            result = result.intersect(params_where(place))
    return result


def full_iterations(launch: Launch) -> dict[LoopPlace, Set]:
    """For each innermost tile loop, the condition under which an iteration has a full tile."""
    result: dict[LoopPlace, Set] = {}
    for loop in reversed([*loops_in(launch.tree)]):
        inner = [*loops_in(loop.body)]
        # only the innermost tile loop is split: each one doubles the text
        if not _is_in_tile(launch.kernel, loop.iname) and not any(loop_place(x) in result for x in inner):
            names = {x.iname for x in inner}
            conditions = [_iteration(launch, launch.statements[s], loop.iname, names) for s in leaves(loop)]
            if found := [c for c in conditions if c is not None]:
                result[loop_place(loop)] = reduce(Set.intersect, found)
    return result


def _iteration(launch: Launch, bound: BoundStatement, loop: str, inner: set[str]) -> Set | None:
    box, inames = _ranges_in_tile(launch, bound, inner), bound.domain.inames
    free_of = tuple(x for x in (*inames, *_threads_of(launch, bound))
                    if x not in box and (x in inner or x not in inames))
    return full_box_condition(bound.domain.set, inames, box, involving=(loop,), free_of=free_of)


def _is_in_tile(knl: LoopKernel, iname: str) -> bool:
    """Is the loop over *iname* a part of the tile that a thread works on?"""
    tag = knl.tags.get(iname)
    return is_unrolled(tag) or isinstance(tag, IlpTag)


def _ranges_in_tile(launch: Launch, bound: BoundStatement, inner: set[str]) -> Ranges:
    """The inames that vary inside a tile, with their ranges: threads, distributed boxes, and constant inner loops."""
    box = {}
    for x in (*bound.hardware, *bound.auto, *(x for x in bound.domain.inames if x in inner)):
        # an axis may have more threads than an iname on it has values
        low, high = constant_range(launch.kernel, bound.statement.domain, x)
        is_in_tile = x in launch.mapping.thread_inames or x not in bound.hardware
        if low is not None and high is not None and is_in_tile:
            box[x] = (low, high)
        elif is_in_tile and (own := launch.mapping.ranges.get(x)) is not None:
            box[x] = own
    return box
