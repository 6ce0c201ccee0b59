"""The proof that storage is right: in execution order, every read gets the value of its write."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, accesses_by_array, commute
from loopkit.analysis.between_blocks import require_one_launch, require_one_write
from loopkit.analysis.dependences import (
    assumed_dependences,
    assumed_flows,
    dependences,
    shared_loops,
    timed,
    without_assumed,
)
from loopkit.analysis.legality import across_blocks, axis_inames, places_on_axis
from loopkit.analysis.order import loops_of
from loopkit.analysis.values_preserved import clobbered_values
from loopkit.analysis.witnesses import parameters_of
from loopkit.errors import StorageError, instance_text
from loopkit.kernel.data import AddressSpace, TemporaryVariable
from loopkit.kernel.dependence import Dependence
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import GroupTag, InameTag, LocalTag
from loopkit.kernel.tree import meeting
from loopkit.lowering.lowered import Schedule, SchedulePoint
from loopkit.poly.flow import TimedAccess
from loopkit.poly.limits import kept
from loopkit.poly.piecewise import cells
from loopkit.poly.relations import (
    differing,
    in_one_iteration,
    injective_given,
    same_element,
    smallest_pair,
)
from loopkit.poly.sets import Map


@dataclass(frozen=True)
class Values:
    """The values of one temporary.

    :ivar flows: from each write to the reads of its value, including the assumed ones.
    :ivar places: the launches and loops of all statements of the kernel.
    """

    kernel: LoopKernel
    temporary: TemporaryVariable
    accesses: Sequence[Access]
    flows: Sequence[Dependence]
    places: Mapping[str, SchedulePoint]


def values_in(schedule: Schedule) -> Iterator[Values]:
    """The values of every temporary that is used."""
    knl, places = schedule.kernel, schedule.places()
    flows: dict[str, list[Dependence]] = {}
    for d in dependences(knl):
        if d.of_value and d.kind == "flow":
            flows.setdefault(d.array, []).append(d)
    for name, accesses in accesses_by_array(knl).items():
        if name in knl.temporaries:
            own = (*flows.get(name, ()), *assumed_flows(knl, name))
            yield Values(knl, knl.temporaries[name], accesses, own, places)


def require_right_cells(v: Values, space: AddressSpace, lead: tuple[str, ...]) -> None:
    """:raises StorageError: in execution order, some read would get another value."""
    if v.temporary.between_blocks:
        own = [v.places[a.statement] for a in v.accesses]
        require_one_launch(v.kernel, v.temporary.name, [(place.launch, place.hosts) for place in own])
        require_one_write(v.kernel, v.temporary.name)
        return
    if _evidently_right(v, space, lead):
        return
    if space is AddressSpace.GLOBAL:
        for a, b in product((a for a in v.accesses if a.is_write), v.accesses):
            apart = None if commute(a, b) else one_cell_across_blocks(v, a, b, lead)
            if apart is not None:           # two unordered blocks of one launch access one cell
                _refuse(v, space, (a.statement, b.statement), apart, "writes" if b.is_write else "reads")
    axes = _axes(v, space)
    for wrong in clobbered_values(v.kernel, v.accesses, v.flows, lambda a: _timed(v, a, axes, lead)):
        _refuse(v, space, (wrong.source, wrong.sink), wrong.pairs)


def one_cell_across_blocks(v: Values, a: Access, b: Access, lead: tuple[str, ...]) -> Map | None:
    """The pairs of instances, in different blocks of one launch, that access one cell of the expansion over *lead*."""
    place = v.places[a.statement]
    if place.launch != v.places[b.statement].launch:
        return None
    first, second = (_expanded(x, lead, [p.Variable(i) for i in lead]) for x in (a, b))
    pairs = in_one_iteration(same_element(first, second), shared_loops(v.kernel, a.statement, b.statement, place.hosts))
    pairs = without_assumed(v.kernel, a.array, a.statement, b.statement, pairs)
    return across_blocks(v.kernel, Dependence("output" if b.is_write else "flow", a.array, a.statement, b.statement,
                                              pairs))


def _expanded(a: Access, lead: tuple[str, ...], coordinates: Sequence[Expression | None]) -> Map:
    """The cells of *a* in the expansion over *lead*, at these *coordinates* of copies."""
    inames = a.domain.inames
    if missing := [x for x in lead if x not in inames]:
        raise StorageError(f"'{a.statement}' uses '{a.array}' outside of the loop over '{missing[0]}' that keeps its "
                           "values apart.", subject=a.array)
    return a.relation.flat_range_product(cells(inames, coordinates))


def _refuse(v: Values, space: AddressSpace, pair: tuple[str, str], pairs: Map, then: str = "reads") -> None:
    knl, name = v.kernel, v.temporary.name
    writer, reader = (knl.statement_by_id[s] for s in pair)
    params, at_write, at_read = smallest_pair(pairs, writer.inames, reader.inames, parameters_of(knl))
    sizes = ", ".join(f"{k} = {value}" for k, value in params.items())
    hint = "keep the writer and the reader of each value in one loop"
    if assumed_dependences(knl, name):
        hint = f"the kernel's obligations do not speak of this pair: keep its order too; {hint}"
    raise StorageError(
        f"The {space} cells of '{name}' cannot hold all values that are alive at once: the value that "
        f"{instance_text(writer.id, at_write)} writes and the one that {instance_text(reader.id, at_read)} {then} "
        f"share a cell{' (with ' + sizes + ')' if sizes else ''}.", subject=name, hint=hint)


def _evidently_right(v: Values, space: AddressSpace, lead: tuple[str, ...]) -> bool:
    """Is there one write, in the readers' own iteration? Then no other value can come between."""
    writes = [a for a in v.accesses if a.is_write]
    if len({a.statement for a in writes}) != 1 or not all(a.affine for a in writes):
        return False
    writer = writes[0]
    place = v.places[writer.statement]
    loops = loops_of(place.way)
    for d in v.flows:
        if d.source != writer.statement or v.places[d.sink].launch != place.launch:
            return False
        where = meeting(place.way, v.places[d.sink].way)
        equal = equal_inames(v.kernel, d)
        if not where.before or any(x not in equal or (x not in where.loops and x not in lead) for x in loops):
            return False
    if space is AddressSpace.PRIVATE:
        return True
    inames = writer.domain.inames
    on_grid = [x for x in inames if isinstance(v.kernel.tags.get(x), GroupTag)]
    # blocks have copies of what is shared; nothing orders the iterations of two blocks on global memory but the host
    ordered = place.hosts if space is AddressSpace.GLOBAL and on_grid else loops
    given = [*ordered, *(on_grid if space is not AddressSpace.GLOBAL else ()), *lead]
    return injective_given(writer.subscript_relation, writer.domain, [inames.index(x) for x in given])


Axis = tuple[type[InameTag], int, tuple[tuple[str, ...], ...]]


def _axes(v: Values, space: AddressSpace) -> list[Axis]:
    """The hardware axes along which the temporary has a copy at each place, with the packings of the accesses."""
    kinds = {AddressSpace.PRIVATE: (GroupTag, LocalTag), AddressSpace.GLOBAL: ()}.get(space, (GroupTag,))
    found: dict[tuple[type[InameTag], int], dict[tuple[str, ...], None]] = {}
    for kind in kinds:
        for a in v.accesses:
            for axis, inames in sorted(axis_inames(v.kernel, a.domain.inames, kind).items()):
                found.setdefault((kind, axis), {})[inames] = None
    return [(kind, axis, tuple(packings)) for (kind, axis), packings in found.items()]


def _timed(v: Values, a: Access, axes: Sequence[Axis], lead: tuple[str, ...]) -> TimedAccess:
    """The access in execution order, to cells of all copies of the temporary."""
    coordinates: list[Expression | None] = [p.Variable(x) for x in lead]
    for kind, axis, packings in axes:
        own = axis_inames(v.kernel, a.domain.inames, kind).get(axis)
        places_along = places_on_axis(v.kernel, *packings)
        if places_along is None:
            shown = " and as ".join(", ".join(inames) for inames in packings)
            raise StorageError(
                f"The statements that use '{a.array}' lie on one hardware axis as {shown}, in bounds that depend on "
                "sizes, so that it is not known which of them have the same copy.", subject=a.array,
                hint=f"set_temporary_address_space(knl, '{a.array}', 'global'), another axis for one of them, or "
                     "fix_parameters")
        # a statement outside an axis runs at every place along it
        coordinates += [None if own is None else place[packings.index(own)] for place in places_along]
    return replace(timed(a, v.places[a.statement].way), relation=_expanded(a, lead, coordinates))


def equal_inames(knl: LoopKernel, d: Dependence) -> list[str]:
    """The inames in which every value's writer and reader agree."""
    a, b = knl.statement_by_id[d.source].inames, knl.statement_by_id[d.sink].inames
    known = knl.memo.setdefault("equal_inames", {})

    def equal(x: str) -> bool:
        dims = a.index(x), b.index(x)
        return kept(known, (id(d.relation), *dims), lambda: (d.relation, differing(d.relation, [dims]) is None))[1]
    return [x for x in a if x in b and equal(x)]
