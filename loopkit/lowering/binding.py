"""The stage ``binding``: hardware inames become coordinates of the grid and the block.

An axis of the grid or the block is an iname minus its minimum. A statement outside an axis of its launch runs
at every place along it where its target has separate copies, and at coordinate 0 elsewhere.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import analysis_domain
from loopkit.analysis.legality import axis_inames, iname_extent, iname_range, iname_span
from loopkit.analysis.order import loops_of
from loopkit.errors import PreconditionError
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import AutoLocalTag, GroupTag, LocalTag
from loopkit.kernel.target import Machine
from loopkit.kernel.tree import Leaf, Tree, leaves, nest, paths, rewrite
from loopkit.lowering.launch_kernel import launch_kernel
from loopkit.lowering.lowered import BLOCK, GRID, BoundStatement, Launch, LaunchBody, Schedule, Storage
from loopkit.poly.affine import add, floor_div, multiply, remainder, subtract
from loopkit.poly.codegen import condition_expression
from loopkit.poly.extents import first_value
from loopkit.poly.piecewise import at_least
from loopkit.poly.sets import InstanceSet, Set

#: An axis and the inames that lie on it in some statement, outermost first.
OnAxis = tuple[str, tuple[str, ...]]


def bind(schedule: Schedule, storages: Mapping[str, Storage], machine: Machine) -> tuple[Launch, ...]:
    """Bind each launch of *schedule* to the grid and the block of *machine*."""
    knl = schedule.kernel
    one = len(schedule.launches) == 1
    return tuple(_launch(launch_kernel(knl, part), part, knl.name if one else f"{knl.name}_{i}", storages,
                         machine)
                 for i, part in enumerate(schedule.launches))


def _launch(knl: LoopKernel, part: LaunchBody, name: str, storages: Mapping[str, Storage], machine: Machine
            ) -> Launch:
    tree = part.tree
    statements = [knl.statement_by_id[s] for s in leaves(tree)]
    uses = {s.id: {**{f"g.{a}": xs for a, xs in axis_inames(knl, s.inames, GroupTag).items()},
                   **{f"l.{a}": xs for a, xs in axis_inames(knl, s.inames, LocalTag).items()}} for s in statements}
    extents: dict[str, Expression] = {}
    coordinates: dict[str, Expression] = {}
    packings: dict[str, tuple[str, ...]] = {}
    on_axes = tuple(dict.fromkeys(item for use in uses.values() for item in use.items()))
    for axis, inames in on_axes:
        if _require_one_packing(packings, inames):
            coordinates.update(_unpacked(knl, axis, inames))
        extents[axis] = _larger(extents.get(axis), _packed_extent(knl, inames))
    for axis in extents:
        users = [s for s in statements if axis in uses[s.id]]
        if len(users) < len(statements) and not all(_never_empty(knl, s) for s in users):
            extents[axis] = _larger(1, extents[axis])        # the others run on coordinate 0
    ranges = {x: _thread_range(knl, x, inames, axis, extents) for axis, inames in on_axes if axis in BLOCK
              for x in inames}
    on_grid = [(axis, inames) for axis, inames in on_axes if axis in GRID]
    extents, sizes = _without_idle_grids(knl, statements, on_grid, extents)
    block_ranges = _over_blocks(knl, on_grid, extents, sizes)
    if all(extents.get(axis, 1) == 1 for axis in BLOCK):
        tree = _auto_loops_sequential(knl, tree, statements)
    ways = paths(tree)
    domains: dict[tuple[object, ...], InstanceSet] = {}         # statements that share a set still share one
    bound = {}
    for s in statements:
        loops = loops_of(ways[s.id])
        alone = tuple(axis for axis in sorted(extents) if axis not in uses[s.id]
                      and not _replicated(knl, s, axis, storages))
        hardware = tuple(x for inames in uses[s.id].values() for x in inames)
        auto = tuple(x for x in s.inames if x not in loops and x not in hardware)
        key = (id(s.domain), loops, alone)
        if key not in domains:
            domain = s.domain.bound([x for x in s.inames if x not in loops]).onto(loops)
            domains[key] = domain.where(*(("==", p.Variable(axis)) for axis in alone))
        bound[s.id] = BoundStatement(s, domains[key], hardware, auto, alone)
    return Launch(name, tree, bound, extents, coordinates, ranges, block_ranges, part.hosts, knl, machine)


def _without_idle_grids(knl: LoopKernel, statements: Sequence[Statement], on_grid: Sequence[OnAxis],
                        extents: dict[str, Expression]) -> tuple[dict[str, Expression], Set]:
    """*extents*, with one of them zero for sizes at which no statement runs, and the sizes for which there are blocks.

    The extent of an iname is an expression for the sizes at which it has values. At others it may be positive, and
    what is known of the iname in each block would be false there.
    """
    sizes = knl.assumptions
    for axis in GRID:
        some = at_least(extents.get(axis, 1), 1)
        if some is not None:
            sizes = sizes.intersect(some)
    idle = [axis for axis, inames in on_grid if _follows(knl, axis, inames, extents)
            and not all(sizes.is_subset(iname_span(knl, x).set.params()) for x in inames)]
    if not idle:
        return extents, sizes
    domains = {id(s.domain): analysis_domain(knl, s).set.params() for s in statements}
    runs = reduce(Set.union, domains.values())
    if sizes.is_subset(runs):
        return extents, sizes
    runs = runs.intersect(sizes)
    condition = condition_expression(runs, knl.assumptions)
    assert condition is not None
    return {**extents, min(idle): p.If(condition, extents[min(idle)], 0)}, runs


def _follows(knl: LoopKernel, axis: str, inames: tuple[str, ...], extents: Mapping[str, Expression]) -> bool:
    """Does *axis* of the grid have exactly the length that *inames* need, for all sizes with blocks?"""
    extent = extents[axis]
    return not isinstance(extent, int) \
        and _packed_extent(knl, inames) == (extent.then if isinstance(extent, p.If) else extent)


def _over_blocks(knl: LoopKernel, on_grid: Sequence[OnAxis], extents: Mapping[str, Expression], sizes: Set
                 ) -> dict[str, tuple[int, int] | None]:
    """The ``g`` inames with a value in every block, and their ranges over the blocks where these are constant.

    :arg sizes: those for which there are blocks.
    """
    ranges: dict[str, tuple[int, int] | None] = {}
    for axis, inames in on_grid:
        follows = _follows(knl, axis, inames, extents)
        for x in inames:
            # the first one has the rest of the axis, which may be longer than needed
            lengths = (extents[axis], _packed_extent(knl, inames)) if x == inames[0] else (iname_extent(knl, x),)
            if all(isinstance(n, int) for n in (*lengths, iname_range(knl, x)[0])):
                ranges[x] = _thread_range(knl, x, inames, axis, extents)
            elif follows and _has_ends(knl, x, sizes):
                ranges.setdefault(x, None)
    return ranges


def _has_ends(knl: LoopKernel, iname: str, sizes: Set) -> bool:
    """Does *iname* take the values of the first and of the last block, for all *sizes*?

    An axis begins at the least value for any sizes where that is constant; there may be blocks before the first value.
    """
    points = iname_span(knl, iname)
    low, extent = iname_range(knl, iname)
    if not isinstance(low, int):
        return sizes.is_subset(points.set.params()) and low == first_value(points, knl.assumptions)
    ends = [low, low + extent - 1] if extent else [low]
    return all(sizes.is_subset(points.where(("==", subtract(p.Variable(iname), end))).set.params()) for end in ends)


def _never_empty(knl: LoopKernel, s: Statement) -> bool:
    """Has *s* an instance for all sizes that the assumptions allow?"""
    return bool(knl.assumptions.is_subset(s.domain.set.params()))


def _replicated(knl: LoopKernel, s: Statement, axis: str, storages: Mapping[str, Storage]) -> bool:
    """Does *s*, which is outside *axis*, run at every place along it?"""
    if axis.startswith("l") and any(isinstance(knl.tags.get(x), AutoLocalTag) for x in s.inames):
        return True                      # all threads take part already
    storage = storages.get(s.written)
    if storage is None or storage.space is AddressSpace.GLOBAL:
        return False
    return storage.space is AddressSpace.PRIVATE or axis.startswith("g")


def _auto_loops_sequential(knl: LoopKernel, tree: Tree, statements: Sequence[Statement]) -> Tree:
    """In a block of one thread, ``l.auto`` inames are ordinary loops around their statement."""
    auto = {s.id: tuple(x for x in s.inames if isinstance(knl.tags.get(x), AutoLocalTag)) for s in statements}

    return rewrite(tree, lambda node: nest(auto[node.statement], node) if isinstance(node, Leaf) else node)


def _unpacked(knl: LoopKernel, axis: str, inames: Sequence[str]) -> dict[str, Expression]:
    """Each of *inames*, outermost first, as a function of the axis that they share."""
    result: dict[str, Expression] = {}
    stride: Expression = 1
    for x in reversed(inames):
        rest = p.Variable(axis) if stride == 1 else floor_div(p.Variable(axis), stride)
        extent = _divisor(knl, x)
        result[x] = add(remainder(rest, extent) if x != inames[0] else rest, iname_range(knl, x)[0])
        stride = multiply(stride, extent)
    return dict(reversed(result.items()))


def _divisor(knl: LoopKernel, iname: str) -> Expression:
    """The extent of *iname*, or 1 if it has no values: blocks may exist for other statements."""
    extent = iname_extent(knl, iname)
    if isinstance(extent, int) or knl.assumptions.is_subset(iname_span(knl, iname).set.params()):
        return extent
    return p.Max((1, extent))


def _require_one_packing(packings: dict[str, tuple[str, ...]], inames: tuple[str, ...]) -> bool:
    """Record the inames that share an axis, the same for all statements; returns whether this packing is new.

    :raises PreconditionError: one of *inames* shares its axis with others elsewhere.
    """
    for x in inames:
        if packings.get(x, inames) != inames:
            raise PreconditionError(
                f"'{x}' shares its hardware axis in two ways: as {', '.join(packings[x])} in one statement and as "
                f"{', '.join(inames)} in another.", subject=x,
                hint="give the inames of one axis to all statements in the same way, or use another axis")
    new = inames[0] not in packings
    packings.update(dict.fromkeys(inames, inames))
    return new


def _packed_extent(knl: LoopKernel, inames: Sequence[str]) -> Expression:
    result: Expression = 1
    for x in inames:
        result = multiply(result, iname_extent(knl, x))
    return result


def _larger(a: Expression | None, b: Expression) -> Expression:
    if a is None or a == b:
        return b
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    children = [*(a.children if isinstance(a, p.Max) else (a,))]
    return a if b in children else p.Max((*children, b))


def _thread_range(knl: LoopKernel, iname: str, inames: tuple[str, ...], axis: str,
                  extents: Mapping[str, Expression]) -> tuple[int, int]:
    """The values of *iname* over the threads of the block, whose axis may be longer than *iname*."""
    low = iname_range(knl, iname)[0]
    assert isinstance(low, int)
    if iname != inames[0]:
        extent = iname_extent(knl, iname)             # a launch may have a constant one, though the kernel has not
        assert isinstance(extent, int)
        return low, low + extent - 1
    inner = _packed_extent(knl, inames[1:])
    length = extents[axis]
    assert isinstance(inner, int)
    assert isinstance(length, int)
    return low, low + -(-length // inner) - 1
