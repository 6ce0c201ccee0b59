"""Values of rows: a statement with some of the inames on an axis of the block runs for all values of the others.

Threads of a row compute sums of it together, and a value for each row needs no iname along the row. A statement with
only the inames of rows gets those along the row too. Each thread then has a copy of the value, if no thread reads what
another one writes. Otherwise, one thread of each row runs the statement: the first one.
"""
from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import data_params
from loopkit.analysis.constructors import Image, between_images, with_dependences
from loopkit.analysis.dependences import dependences
from loopkit.analysis.legality import across_blocks, axis_inames
from loopkit.analysis.ranges import iname_range
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Dependence, Statement
from loopkit.kernel.tags import AutoLocalTag, LocalTag
from loopkit.kernel.tree import Leaf, Tree, leaves, nest, rewrite
from loopkit.lowering.scheduled import Schedule
from loopkit.poly.affine import add, subtract
from loopkit.poly.piecewise import equal_coordinates
from loopkit.poly.sets import Map, bounded_by

#: Statements and the inames that they get.
Added = Mapping[str, tuple[str, ...]]


def with_lanes(schedule: Schedule) -> Schedule:
    """*schedule*, where all statements of a launch that share inames on an axis of the block have the same ones."""
    knl = schedule.kernel
    found = {s: inames for part in schedule.launches for s, inames in _missing(knl, [*leaves(part.tree)])}
    if not found:
        return schedule
    copied = {x for x in (knl.statement_by_id[s].written for s in found) if _may_have_copies(knl, x, found)}
    while True:
        result = _with_lanes_for(knl, found, copied)
        # whoever writes the values, their readers are in the same thread
        elsewhere = {d.array for d in dependences(result) if d.array in copied and d.kind == "flow"
                     and across_blocks(result, d, LocalTag) is not None}
        if not elsewhere:
            return replace(schedule, kernel=result)
        copied -= elsewhere


def _missing(knl: LoopKernel, statements: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The statements of one launch that lack inames which others have on an axis besides theirs, and these inames."""
    packings = {s: axis_inames(knl, knl.statement_by_id[s].inames, LocalTag) for s in statements}
    for s, own in packings.items():
        if any(isinstance(knl.tags.get(x), AutoLocalTag) for x in knl.statement_by_id[s].inames):
            continue
        missing = list[str]()
        for axis, inames in own.items():
            larger = [other[axis] for other in packings.values() if {*inames} < {*other.get(axis, ())}]
            widest = max(larger, key=len, default=inames)
            more = [x for x in widest if x not in inames]
            extents = [iname_range(knl, x)[1] for x in more]
            # lanes of rows are in one run: those of a row come last
            if widest[:len(inames)] == inames and all(extents) and prod(extents) > 1:
                missing += more
        if missing:
            yield s, tuple(missing)


def _may_have_copies(knl: LoopKernel, array: str, added: Added) -> bool:
    """May each thread have a copy of *array*, and run what the statements that get inames do to it?"""
    t = knl.temporaries.get(array)
    return t is not None and t.address_space in (None, AddressSpace.PRIVATE) and not t.between_blocks \
        and not any(s.instructions for s in knl.statements if s.written == array and s.id in added)


def _with_lanes_for(knl: LoopKernel, added: Added, copied: Collection[str]) -> LoopKernel:
    """*knl*, where statements run for all values of the inames *added* to them, or for the first ones.

    :arg copied: the temporaries with a copy for each thread.
    """
    def extended(s: Statement) -> Statement:
        domain = s.domain.onto((*s.inames, *added[s.id]))
        for x in added[s.id]:
            low, extent = iname_range(knl, x)
            domain = domain.where(*bounded_by(x, low, add(low, extent if s.written in copied else 1)))
        return replace(s, domain=domain)

    def around(tree: Tree) -> Tree:
        return nest(added[tree.statement], tree) if isinstance(tree, Leaf) and tree.statement in added else tree
    statements = tuple(extended(s) if s.id in added else s for s in knl.statements)
    return with_dependences(knl, partial(_between_copies, knl, added, copied), statements=statements,
                            tree=rewrite(knl.tree, around))


def _between_copies(knl: LoopKernel, added: Added, copied: Collection[str], found: Sequence[Dependence],
                    new: LoopKernel) -> Iterator[Dependence]:
    """The dependences of *knl* between the instances of *new*: a copy of a value is for its own thread."""
    images = {s: [Image(s, _instances_of_lanes(knl, new, s))] for s in added}
    for d in between_images(found, images):
        pairs = _equal_digits(new, d, added) if d.array in copied else []
        if pairs:
            a, b = (new.statement_by_id[s].inames for s in (d.source, d.sink))
            equal = equal_coordinates(a, [x for x, _ in pairs], b, [y for _, y in pairs])
            relation = d.relation.intersect(equal)
            if not relation.is_empty():
                yield replace(d, relation=relation)
        else:
            yield d


def _instances_of_lanes(knl: LoopKernel, new: LoopKernel, statement: str) -> Map:
    """The instances of *new* for each instance of *statement* in *knl*, without bounds that depend on data."""
    old, own = (x.statement_by_id[statement].domain for x in (knl, new))
    shared = [p.Variable(x) for x in old.inames]
    return equal_coordinates(old.inames, shared, own.inames, shared).intersect_domain(
        old.without_params(data_params(knl, old)).set).intersect_range(own.without_params(data_params(new, own)).set)


def _equal_digits(knl: LoopKernel, d: Dependence, added: Added) -> list[tuple[Expression, Expression]]:
    """The coordinates of threads of both statements of *d*, at the digits of inames that its source got.

    A source with inames of its own there writes one value, which all instances of the sink may need.
    """
    own, other = (axis_inames(knl, knl.statement_by_id[s].inames, LocalTag) for s in (d.source, d.sink))
    found = list[tuple[Expression, Expression]]()
    for axis in own.keys() & other.keys():
        first, second = (_inames_by_digit(knl, x[axis]) for x in (own, other))
        for digit in first.keys() & second.keys():
            x, y = first[digit], second[digit]
            if x in added.get(d.source, ()):
                one, two = (subtract(p.Variable(i), iname_range(knl, i)[0]) for i in (x, y))
                found.append((one, two))
    return found


def _inames_by_digit(knl: LoopKernel, inames: Sequence[str]) -> dict[tuple[int, int], str]:
    """Each of *inames*, on one axis, by the number of threads from one of its values to the next, and its extent."""
    result, stride = dict[tuple[int, int], str](), 1
    for x in reversed(inames):
        extent = iname_range(knl, x)[1]
        result[stride, extent] = x
        stride *= extent
        if not extent:
            break                           # it depends on sizes
    return result
