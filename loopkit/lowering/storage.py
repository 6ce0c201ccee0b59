"""The stage ``storage``: storage allocation of temporaries.

A value that only its own thread reads is private; one that threads of the block read is shared; one that other
blocks or later launches read is in global memory. If two values would be alive at once in one cell, the temporary
is expanded over the inames that distinguish them. Each choice is then proven: in execution order, every read
gets the same value as in the reference order.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress, product
from math import inf, prod

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, accesses_by_array, commute
from loopkit.analysis.between_blocks import require_one_launch, require_one_write
from loopkit.analysis.constructors import without_axes
from loopkit.analysis.dependences import (
    assumed_dependences,
    assumed_flows,
    between_iterations,
    dependences,
    shared_loops,
    timed,
    without_assumed,
)
from loopkit.analysis.legality import across_blocks, axis_inames, places_on_axis
from loopkit.analysis.order import loops_of
from loopkit.analysis.ranges import iname_extent, iname_range, iname_span
from loopkit.analysis.shapes import array_shapes
from loopkit.analysis.values_preserved import clobbered_values
from loopkit.analysis.witnesses import BrokenPairs
from loopkit.errors import ShapeError, StorageError, instance_text, values_text
from loopkit.expr.mappers import subexpressions, subscripts_of, variables
from loopkit.expr.nodes import to_text
from loopkit.kernel.cost import SPACES
from loopkit.kernel.data import AddressSpace, MemoryLayout, TemporaryVariable
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Dependence
from loopkit.kernel.tags import AutoLocalTag, GroupTag, InameTag, LocalTag, is_parallel
from loopkit.kernel.tree import meeting
from loopkit.lowering.axes import axes_of_lanes, require_axes
from loopkit.lowering.scheduled import Schedule, SchedulePoint
from loopkit.lowering.stored import Storage
from loopkit.poly.flow import TimedAccess
from loopkit.poly.limits import kept
from loopkit.poly.piecewise import cells
from loopkit.poly.relations import in_one_iteration, injective_given, same_element
from loopkit.poly.sets import Map

#: Extents, as far as they are known.
Extents = tuple[Expression | None, ...]


def allocate_storage(schedule: Schedule) -> tuple[Schedule, dict[str, Storage]]:
    """The storage of every temporary that is used, and *schedule* without the axes that need no cells.

    :raises StorageError: a declared address space or shape cannot hold the values that are alive at once.
    """
    found = {name: allocate() for name, allocate in each_storage(schedule)}
    result = {name: storage for name, (storage, _) in found.items()}
    gone = {name: axes for name, (_, axes) in found.items() if axes}
    return replace(schedule, kernel=without_axes(schedule.kernel, gone)) if gone else schedule, result


def each_storage(schedule: Schedule) -> Iterator[tuple[str, Callable[[], tuple[Storage, frozenset[int]]]]]:
    """A function for each used temporary; it returns its storage and its axes without cells, or raises."""
    shapes = array_shapes(schedule.kernel)
    for v in values_in(schedule):
        yield v.temporary.name, partial(_allocated, v, shapes[v.temporary.name])


def _allocated(v: Values, shape: Extents) -> tuple[Storage, frozenset[int]]:
    t = v.temporary
    if t.initializer is not None:
        own = _own_shape(v, shape)
        require_axes(t, own, AddressSpace.CONSTANT)
        return Storage(t, AddressSpace.CONSTANT, (), (), own, AddressSpace.CONSTANT), frozenset()
    if not any(a.is_write for a in v.accesses):
        raise StorageError(f"The temporary '{t.name}' is read by '{v.accesses[0].statement}' but never written.",
                           subject=t.name, hint="write it first, or make it an argument")
    axes = _needless_axes(v)
    storage = _registers(v, shape, axes) if axes else None
    return (_expanded(v, shape), frozenset()) if storage is None else (storage, axes)


def _common_subscripts(accesses: Sequence[Access]) -> dict[int, frozenset[str]]:
    """The axes that every access subscripts in the same form, with the inames of that form."""
    if not all(a.affine for a in accesses):
        return {}
    own = set(accesses[0].domain.inames)
    return {k: frozenset(variables(e) & own) for k, e in enumerate(accesses[0].subscripts)
            if all(a.subscripts[k] == e for a in accesses)}


def _needless_axes(v: Values) -> frozenset[int]:
    """The axes that the same forms of inames subscript everywhere, and that the user did not request."""
    t = v.temporary
    if t.shape is not None or t.layout != MemoryLayout() or t.instruction is not None \
            or t.address_space not in (None, AddressSpace.PRIVATE):
        return frozenset()
    return frozenset(k for k, inames in _common_subscripts(v.accesses).items() if inames)


def _registers(v: Values, shape: Extents, axes: frozenset[int]) -> Storage | None:
    """Private storage without *axes*, where it holds all values in fewer cells; else ``None``."""
    others = [k not in axes for k in range(len(shape))]
    fewer = [replace(a, subscripts=tuple(compress(a.subscripts, others)), known=()) for a in v.accesses]
    try:
        found = _expanded(replace(v, accesses=fewer), tuple(compress(shape, others)))
    except StorageError:
        return None
    return found if found.space is AddressSpace.PRIVATE and _cells(found.shape) < _cells(shape) else None


def _cells(shape: Extents) -> float:
    """The number of cells; a very large number if it depends on sizes."""
    return prod(e if isinstance(e, int) else inf for e in shape)


def _expanded(v: Values, shape: Extents) -> Storage:
    """The smallest candidate that is proven to hold all values."""
    knl, t = v.kernel, v.temporary
    needed = _address_space(v)
    own = _own_shape(v, shape)
    refused: StorageError | None = None
    for space, lead in _candidates(v, needed, own):
        extents = [iname_extent(knl, x) for x in lead]
        if space is not AddressSpace.GLOBAL and not all(isinstance(e, int) for e in (*extents, *own)):
            continue                        # a number of cells that depends on the sizes
        try:
            _require_right_cells(v, space, lead)
        except StorageError as err:
            refused = refused or err
            continue
        require_axes(t, own, space)
        lanes = axes_of_lanes(knl, v.accesses, lead, len(own)) if space is AddressSpace.WARP else ()
        return Storage(t, space, lead, tuple(iname_range(knl, x)[0] for x in lead), (*extents, *own), needed,
                       lanes)
    raise refused or StorageError(
        f"'{t.name}' is declared {t.address_space}, but it needs a number of cells that depends on the sizes.",
        subject=t.name, hint="split the loop that separates its writer from its reader, or declare it global")


def _candidates(v: Values, space: AddressSpace, own: tuple[Expression, ...]
                ) -> Iterator[tuple[AddressSpace, tuple[str, ...]]]:
    """Address spaces and expansions to try, from the fewest cells up.

    Only inames in which every value's writer and reader agree can distinguish cells, and those that subscript an axis
    do so already. A space and a shape that the user declared together are kept as they are.
    """
    knl, t = v.kernel, v.temporary
    if t.fixed or t.between_blocks:
        yield space, ()
        return

    def parallel(iname: str) -> bool:
        return is_parallel(knl.tags.get(iname))
    # an iname without constant bounds or sizes around it numbers no cells
    common, between = [x for x in common_inames(v) if iname_span(knl, x).set.is_bounded()], _inames_between(v)
    subscripting = {x for inames in _common_subscripts(v.accesses).values() if len(inames) == 1 for x in inames}
    separating = tuple(x for x in common if x in between)
    leads: list[tuple[AddressSpace, Iterable[str]]] = [(space, ())] if own or not separating else []
    leads += [(space, (x for x in separating if x not in subscripting)), (space, separating),
              (space, (x for x in common if not parallel(x)))]
    if space in (AddressSpace.LOCAL, AddressSpace.WARP):
        in_block = tuple(x for x in common if not isinstance(knl.tags.get(x), GroupTag))
        own_lanes = tuple(x for x in in_block if x in separating or parallel(x))
        leads += [(space, (x for x in own_lanes if x not in subscripting)), (space, own_lanes), (space, in_block)]
    if t.address_space in (None, AddressSpace.GLOBAL):
        # loops around both, also the host's, need no cells of their own if each value is read before the next
        apart = tuple(x for x in common if x in separating or parallel(x))
        leads += [(AddressSpace.GLOBAL, ())] if own else []
        leads += [(AddressSpace.GLOBAL, lead) for lead in ((x for x in apart if x not in subscripting), apart, common)]
    yield from dict.fromkeys((where, tuple(lead)) for where, lead in leads)


def _own_shape(v: Values, shape: Extents) -> tuple[Expression, ...]:
    known = tuple(e for e in shape if e is not None)
    if len(known) < len(shape):
        name, axis = v.temporary.name, shape.index(None)
        unknown = [a for a in v.accesses if not all(a.known[axis:axis + 1])]
        cause = next((a for a in unknown or v.accesses if unknown or any(
            not iname_span(v.kernel, x).set.is_bounded()
            for x in variables(a.subscripts[axis]).intersection(a.domain.inames))), v.accesses[0])
        raise ShapeError(f"The shape of the temporary '{name}' cannot be inferred: its subscript "
                         f"'{to_text(cause.subscripts[axis])}' in '{cause.statement}' has no bound.",
                         subject=name, hint=f"declare it: TemporaryVariable('{name}', shape=...)")
    return known


# Address space

def _address_space(v: Values) -> AddressSpace:
    """The smallest space in which every reader finds the value; the declared one if it is large enough."""
    knl, t = v.kernel, v.temporary
    if t.address_space is AddressSpace.WARP:
        return AddressSpace.WARP
    needed, witness = AddressSpace.GLOBAL if t.between_blocks else AddressSpace.PRIVATE, None
    for d in v.flows:
        space = space_of_flow(knl, d, v.places)
        if SPACES.index(space) > SPACES.index(needed):
            needed, witness = space, d
    if t.address_space is None:             # distributed values are for all threads, however few there are
        spread = needed is AddressSpace.PRIVATE and any(_spread(knl, d) for d in v.flows)
        return AddressSpace.LOCAL if spread else needed
    if SPACES.index(t.address_space) >= SPACES.index(needed):
        return t.address_space
    if witness is None:
        raise StorageError(f"'{t.name}' is declared {t.address_space}, but other blocks wait for its values.",
                           subject=t.name, hint="do not declare its address space")
    in_block = needed is AddressSpace.LOCAL
    apart = across_blocks(knl, witness, LocalTag if in_block else GroupTag)
    pairs = witness.relation if apart is None else apart
    sizes, *instances = BrokenPairs(knl, witness.source, witness.sink, pairs, t.name, "flow").smallest
    example = " and ".join(map(instance_text, (witness.source, witness.sink), instances))
    raise StorageError(
        f"'{t.name}' is declared {t.address_space}, but {witness.source} writes values that {witness.sink} reads in "
        f"another {'thread' if in_block else 'block or launch'}, such as {example}{values_text(sizes, ' (with {})')}.",
        subject=t.name, hint=f"set_temporary_address_space(knl, '{t.name}', '{needed}')")


def space_of_flow(knl: LoopKernel, d: Dependence, places: Mapping[str, SchedulePoint]) -> AddressSpace:
    """The smallest space in which the readers of *d* find its values."""
    if leaves_its_launch(knl, d, places) or across_blocks(knl, d) is not None:
        return AddressSpace.GLOBAL
    if across_blocks(knl, d, LocalTag) is not None:
        return AddressSpace.LOCAL
    own = axis_inames(knl, knl.statement_by_id[d.source].inames, LocalTag)
    others = _spread(knl, d) and any(isinstance(tag := knl.tags.get(x), LocalTag) and tag.axis not in own
                                     for s, place in places.items() if place.launch == places[d.source].launch
                                     for x in knl.statement_by_id[s].inames)
    return AddressSpace.LOCAL if others else AddressSpace.PRIVATE


def _spread(knl: LoopKernel, d: Dependence) -> tuple[str, ...]:
    """The ``l.auto`` inames of the two statements; the threads along block axes without an iname execute them.

    There are none if the value is in a bound, a condition or a subscript of the reader, and each thread computes it for
    itself.
    """
    reader = knl.statement_by_id[d.sink]
    places = (i for e in subexpressions(reader.expression) for i in subscripts_of(e))
    deciding = frozenset(reader.domain.params).union(*map(variables, (*reader.predicates, *reader.subscripts, *places)))
    if d.array in deciding and not any(isinstance(knl.tags.get(x), LocalTag | AutoLocalTag)
                                       for x in knl.statement_by_id[d.source].inames):
        return ()
    return tuple(x for s in (d.source, d.sink) for x in knl.statement_by_id[s].inames
                 if isinstance(knl.tags.get(x), AutoLocalTag))


def leaves_its_launch(knl: LoopKernel, d: Dependence, places: Mapping[str, SchedulePoint]) -> bool:
    """Is a value read in another launch, or in another iteration of the host's loops?"""
    place = places[d.source]
    return place.launch != places[d.sink].launch or between_iterations(knl, d, place.hosts) is not None


# Expansion

def _inames_between(v: Values) -> frozenset[str]:
    """The inames of sequential loops between the writer and the reader of some value, one loop each."""
    ways = [(v.places[d.source].way, v.places[d.sink].way) for d in v.flows]
    return frozenset(x for a, b in ways for x in {*loops_of(a)} & {*loops_of(b)} - {*meeting(a, b).loops})


def common_inames(v: Values) -> tuple[str, ...]:
    """The inames in which the writer and the reader of every value agree."""
    equal = [_equal_inames(v.kernel, d) for d in v.flows]
    return tuple(x for x in equal[0] if all(x in others for others in equal)) if equal else ()


# The proof: in execution order, every read gets the value of its write

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


def _require_right_cells(v: Values, space: AddressSpace, lead: tuple[str, ...]) -> None:
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
    axes = _axes_of_copies(v, space)
    for wrong in clobbered_values(v.kernel, v.accesses, v.flows, lambda a: _timed(v, a, axes, lead)):
        _refuse(v, space, (wrong.source, wrong.sink), wrong.pairs)


def one_cell_across_blocks(v: Values, a: Access, b: Access, lead: tuple[str, ...]) -> Map | None:
    """The pairs of instances, in different blocks of one launch, that access one cell of the expansion over *lead*."""
    place = v.places[a.statement]
    if place.launch != v.places[b.statement].launch:
        return None
    first, second = (_expanded_cells(x, lead, [p.Variable(i) for i in lead]) for x in (a, b))
    pairs = in_one_iteration(same_element(first, second), shared_loops(v.kernel, a.statement, b.statement, place.hosts))
    pairs = without_assumed(v.kernel, a.array, a.statement, b.statement, pairs)
    return across_blocks(v.kernel, Dependence("output" if b.is_write else "flow", a.array, a.statement, b.statement,
                                              pairs))


def _expanded_cells(a: Access, lead: tuple[str, ...], coordinates: Sequence[Expression | None]) -> Map:
    """The cells of *a* in the expansion over *lead*, at these *coordinates* of copies."""
    inames = a.domain.inames
    if missing := [x for x in lead if x not in inames]:
        raise StorageError(f"'{a.statement}' uses '{a.array}' outside of the loop over '{missing[0]}' that keeps its "
                           "values apart.", subject=a.array)
    return a.relation.flat_range_product(cells(inames, coordinates))


def _refuse(v: Values, space: AddressSpace, pair: tuple[str, str], pairs: Map, then: str = "reads") -> None:
    knl, name = v.kernel, v.temporary.name
    sizes, *instances = BrokenPairs(knl, *pair, pairs, name, "flow").smallest
    written, read = map(instance_text, pair, instances)
    hint = "keep the writer and the reader of each value in one loop"
    if v.temporary.base_storage is not None:
        hint = f"'{name}' is {v.temporary.note}: give one of them memory of its own"
    if assumed_dependences(knl, name):
        hint = f"the kernel's obligations do not speak of this pair: keep its order too; {hint}"
    raise StorageError(
        f"The {space} cells of '{name}' cannot hold all values that are alive at once: the value that "
        f"{written} writes and the value that {read} {then} share a cell{values_text(sizes, ' (with {})')}.",
        subject=name, hint=hint)


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
        equal = _equal_inames(v.kernel, d)
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


def _axes_of_copies(v: Values, space: AddressSpace) -> list[Axis]:
    """The hardware axes along which the temporary has a copy at each coordinate, with the inames that
    each access has on them."""
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
            shown = "; others have ".join(", ".join(inames) for inames in packings)
            raise StorageError(
                f"It is unknown which statements use the same copy of '{a.array}'. On a hardware axis some have the "
                f"inames {shown}; and their bounds depend on sizes.", subject=a.array,
                hint=f"set_temporary_address_space(knl, '{a.array}', 'global'), another axis for one of them, or "
                     "fix_parameters")
        # a statement outside an axis runs at every place along it
        coordinates += [None if own is None else place[packings.index(own)] for place in places_along]
    return replace(timed(a, v.places[a.statement].way), relation=_expanded_cells(a, lead, coordinates))


def _equal_inames(knl: LoopKernel, d: Dependence) -> list[str]:
    """The inames in which every value's writer and reader agree."""
    a, b = knl.statement_by_id[d.source].inames, knl.statement_by_id[d.sink].inames
    known = knl.memo.setdefault("equal_inames", {})

    def equal(x: str) -> bool:
        key = id(d.relation), a.index(x), b.index(x)
        return kept(known, key, lambda: (d.relation, between_iterations(knl, d, [x]) is None))[1]
    return [x for x in a if x in b and equal(x)]
