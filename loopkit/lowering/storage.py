"""The stage ``storage``: storage allocation of temporaries.

A value that only its own thread reads is private; one that threads of the block read is shared; one that other
blocks or later launches read is in global memory. If two values would be alive at once in one cell, the temporary
is expanded over the inames that tell them apart. Each choice is then proven: in the order that runs, every read
finds the value which it would have found in the reference order.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf, prod
from typing import Any

from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, accesses_by_array
from loopkit.analysis.assumed_dependences import assumed_flows
from loopkit.analysis.axes import without_axes
from loopkit.analysis.dependences import dependences, shared_loops
from loopkit.analysis.legality import axis_inames, iname_extent, iname_range
from loopkit.analysis.order import loops_of
from loopkit.analysis.shapes import array_shapes
from loopkit.errors import ShapeError, StorageError
from loopkit.expr.mappers import variables
from loopkit.kernel.data import AddressSpace, TemporaryVariable
from loopkit.kernel.dependence import Dependence
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import AutoLocalTag, GroupTag, InameTag, LocalTag, is_parallel
from loopkit.kernel.tree import meeting
from loopkit.lowering.lowered import Schedule, SchedulePoint, Storage, in_order
from loopkit.lowering.storage_proof import agree, evidently_wrong, require_right_cells
from loopkit.poly.relations import differing


def allocate_storage(schedule: Schedule) -> tuple[Schedule, dict[str, Storage]]:
    """The storage of every temporary that is used, and *schedule* without the axes that need no cells.

    :raises StorageError: a declared address space or shape cannot hold the values that are alive at once.
    """
    found = {name: settle() for name, settle in each_storage(schedule)}
    result = {name: storage for name, (storage, _) in found.items()}
    gone = {name: axes for name, (_, axes) in found.items() if axes}
    return replace(schedule, kernel=without_axes(schedule.kernel, gone)) if gone else schedule, result


def each_storage(schedule: Schedule) -> Iterator[tuple[str, Callable[[], tuple[Storage, frozenset[int]]]]]:
    """For every temporary that is used, what finds its storage and its axes that need no cells, or raises."""
    knl = schedule.kernel
    places = schedule.places()
    flows: dict[str, list[Dependence]] = {}
    for d in dependences(knl):
        if d.of_value and d.kind == "flow":
            flows.setdefault(d.array, []).append(d)
    shapes = array_shapes(knl)

    def settle(temporary: TemporaryVariable, accesses: Sequence[Access]) -> tuple[Storage, frozenset[int]]:
        name = temporary.name
        own = [*flows.get(name, ()), *assumed_flows(knl, name)]
        _require_written(temporary, accesses)
        axes = _needless_axes(temporary, accesses)
        storage = _registers(knl, temporary, accesses, own, places, shapes[name], axes) if axes else None
        return (storage, axes) if storage is not None else \
            (_settled(knl, temporary, accesses, own, places, shapes[name]), frozenset())
    for name, accesses in accesses_by_array(knl).items():
        temporary = knl.temporaries.get(name)
        if temporary is not None:
            yield name, partial(settle, temporary, accesses)


def _needless_axes(t: TemporaryVariable, accesses: Sequence[Access]) -> frozenset[int]:
    """The axes that every access subscripts by the same iname, or the same form of inames, and nobody asked for."""
    if t.shape is not None or t.order or t.swizzle is not None or t.lanes or t.instruction is not None \
            or t.address_space not in (None, AddressSpace.PRIVATE) or not all(a.affine for a in accesses):
        return frozenset()
    first = accesses[0].subscripts
    return frozenset(k for k, e in enumerate(first) if variables(e) & set(accesses[0].domain.inames)
                     and all(a.subscripts[k] == e for a in accesses))


def _subscripting(accesses: Sequence[Access]) -> frozenset[str]:
    """The inames that subscript one axis, alone, in the same way in every access."""
    if not all(a.affine for a in accesses):
        return frozenset()
    forms = (e for k, e in enumerate(accesses[0].subscripts) if all(a.subscripts[k] == e for a in accesses))
    own = set(accesses[0].domain.inames)
    return frozenset(x for e in forms if len(names := variables(e) & own) == 1 for x in names)


def _registers(knl: LoopKernel, t: TemporaryVariable, accesses: Sequence[Access], flows: Sequence[Dependence],
               places: Mapping[str, SchedulePoint], shape: tuple[Expression | None, ...], axes: frozenset[int]
               ) -> Storage | None:
    """Private storage without *axes*, where it holds all values in fewer cells; else ``None``."""
    def rest(values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(e for k, e in enumerate(values) if k not in axes)
    fewer = [replace(a, subscripts=rest(a.subscripts), known=()) for a in accesses]
    try:
        found = _settled(knl, t, fewer, flows, places, rest(shape))
    except StorageError:
        return None
    return found if found.space is AddressSpace.PRIVATE and _cells(found.shape) < _cells(shape) else None


def _cells(shape: tuple[Expression | None, ...]) -> float:
    """How many cells; as good as infinitely many where sizes say it."""
    return prod(e if isinstance(e, int) else inf for e in shape)


def _settled(knl: LoopKernel, t: TemporaryVariable, accesses: Sequence[Access], flows: Sequence[Dependence],
             places: Mapping[str, SchedulePoint], shape: tuple[Expression | None, ...]) -> Storage:
    """The first of the candidates, the smallest first, that is proven to hold all values."""
    needed = _address_space(knl, t, flows, places)
    own = _own_shape(t, shape)
    refused: StorageError | None = None
    wrong: list[tuple[AddressSpace, tuple[str, ...]]] = []
    for space, lead in _candidates(knl, t, flows, places, needed, own, _subscripting(accesses)):
        extents = [iname_extent(knl, x) for x in lead]
        if space is not AddressSpace.GLOBAL and not all(isinstance(e, int) for e in (*extents, *own)):
            continue                        # a number of cells that depends on the sizes
        if evidently_wrong(knl, t, accesses, flows, places, space, lead):
            wrong.append((space, lead))
            continue
        try:
            require_right_cells(knl, t, accesses, flows, places, space, lead)
        except StorageError as err:
            refused = refused or err
            continue
        assert t.dtype is not None
        _require_axes(t, own, space)
        swizzle = None if t.swizzle is None else replace(t.swizzle, axis=len(lead) + _position(t, t.swizzle.axis))
        return Storage(t.name, t.dtype, space, lead, tuple(iname_range(knl, x)[0] for x in lead), (*extents, *own),
                       t.lanes, t.note, t.order, swizzle, t.instruction)
    for space, lead in wrong:               # with a witness, which takes longer
        require_right_cells(knl, t, accesses, flows, places, space, lead)
    raise refused or StorageError(
        f"'{t.name}' is declared {t.address_space}, but it needs a number of cells that depends on the sizes.",
        subject=t.name, hint="split the loop that separates its writer from its reader, or declare it global")


def _candidates(knl: LoopKernel, t: TemporaryVariable, flows: Sequence[Dependence],
                places: Mapping[str, SchedulePoint], space: AddressSpace, own: tuple[Expression, ...],
                subscripting: frozenset[str]) -> Iterator[tuple[AddressSpace, tuple[str, ...]]]:
    """Address spaces and expansions to try, from the fewest cells up.

    Only inames in which every value's writer and reader agree can tell cells apart. A space and a shape that the
    user declared together are kept as they are.

    :arg subscripting: inames that an axis of its own tells apart already.
    """
    if t.fixed or t.between_blocks:
        yield space, ()
        return
    common = common_inames(knl, flows)
    between = _between(knl, flows, places)
    separating = tuple(x for x in common if x in between)
    sequential = tuple(x for x in common if not is_parallel(knl.tags.get(x)))
    tried: dict[tuple[AddressSpace, tuple[str, ...]], None] = {}
    if own or not separating:
        tried[space, ()] = None
    tried[space, tuple(x for x in separating if x not in subscripting)] = None
    tried[space, separating] = None
    tried[space, sequential] = None
    if space is AddressSpace.LOCAL and not t.lanes:
        in_block = tuple(x for x in common if not isinstance(knl.tags.get(x), GroupTag))
        tried[space, tuple(x for x in in_block if x in separating or is_parallel(knl.tags.get(x)))] = None
        tried[space, in_block] = None
    if t.address_space in (None, AddressSpace.GLOBAL):
        if own:
            tried[AddressSpace.GLOBAL, ()] = None
        # loops around both, the host's among them, need no cells of their own where each value is read before the next
        apart = tuple(x for x in common if x in separating or is_parallel(knl.tags.get(x)))
        tried[AddressSpace.GLOBAL, tuple(x for x in apart if x not in subscripting)] = None
        tried[AddressSpace.GLOBAL, apart] = None
        tried[AddressSpace.GLOBAL, common] = None
    yield from tried


def _require_written(t: TemporaryVariable, accesses: Sequence[Access]) -> None:
    if not any(a.is_write for a in accesses):
        raise StorageError(f"The temporary '{t.name}' is read by '{accesses[0].statement}' but never written.",
                           subject=t.name, hint="write it first, or make it an argument")


def _own_shape(t: TemporaryVariable, shape: tuple[Expression | None, ...]) -> tuple[Expression, ...]:
    result: list[Expression] = []
    for extent in shape:
        if extent is None:
            raise ShapeError(f"The shape of the temporary '{t.name}' cannot be inferred: a subscript has no bound.",
                             subject=t.name, hint=f"declare it: TemporaryVariable('{t.name}', shape=...)")
        result.append(extent)
    return tuple(result)


# {{{ how axes lie

def _position(t: TemporaryVariable, axis: int) -> int:
    return t.order.index(axis) if t.order else axis


def _require_axes(t: TemporaryVariable, own: tuple[Expression, ...], space: AddressSpace) -> None:
    """:raises StorageError: what was said of the axes of *t* does not fit those that it has now, or where it lies."""
    if t.order and sorted(t.order) != [*range(len(own))]:
        raise StorageError(f"The {len(t.order)} axes of '{t.name}' were tagged, and it has {len(own)} now.",
                           subject=t.name, hint="tag_array_axes behind the transformation that changed them")
    if t.swizzle is None:
        return
    if space is not AddressSpace.LOCAL or t.lanes:
        where = "in registers" if space is not AddressSpace.GLOBAL else "in global memory"
        raise StorageError(f"'{t.name}' is swizzled, but it lies {where}, and only shared memory has banks.",
                           subject=t.name, hint="leave the swizzle out, or let other threads of the block read it")
    columns = in_order(own, t.order)[-1]
    whole = t.swizzle.chunk*t.swizzle.period
    if t.swizzle.axis >= len(own) or _position(t, t.swizzle.axis) == len(own) - 1 or not isinstance(columns, int) \
            or columns % whole:
        raise StorageError(f"'{t.name}' was swizzled by {whole} columns, and its axes changed: {t.swizzle} does not "
                           f"fit [{', '.join(map(str, own))}].", subject=t.name,
                           hint="swizzle behind the transformation that changed them")

# }}}


# {{{ address space

def _address_space(knl: LoopKernel, t: TemporaryVariable, flows: Sequence[Dependence],
                   places: Mapping[str, SchedulePoint]) -> AddressSpace:
    """The smallest space in which every reader finds the value; the declared one if it is large enough."""
    needed, witness = AddressSpace.GLOBAL if t.between_blocks else AddressSpace.PRIVATE, None
    for d in flows:
        space = space_of_flow(knl, d, places)
        if _SIZES[space] > _SIZES[needed]:
            needed, witness = space, d
    if t.address_space is None:             # what is spread over threads is for all of them, however few there are
        spread = needed is AddressSpace.PRIVATE and any(_spread(knl, d) for d in flows)
        return AddressSpace.LOCAL if spread else needed
    if _SIZES[t.address_space] < _SIZES[needed]:
        if witness is None:
            raise StorageError(f"'{t.name}' is declared {t.address_space}, but other blocks wait for its values.",
                               subject=t.name, hint="leave its address space open")
        a, b = knl.statement_by_id[witness.source], knl.statement_by_id[witness.sink]
        raise StorageError(
            f"'{t.name}' is declared {t.address_space}, but {a.id} writes values that {b.id} reads in another "
            f"{'thread' if needed is AddressSpace.LOCAL else 'block or launch'}.", subject=t.name,
            hint=f"set_temporary_address_space(knl, '{t.name}', '{needed}')")
    return t.address_space


_SIZES = {AddressSpace.PRIVATE: 0, AddressSpace.LOCAL: 1, AddressSpace.GLOBAL: 2}


def space_of_flow(knl: LoopKernel, d: Dependence, places: Mapping[str, SchedulePoint]) -> AddressSpace:
    """The smallest space in which the readers of *d* find its values."""
    if leaves_its_launch(knl, d, places):
        return AddressSpace.GLOBAL
    if not _together(knl, d, GroupTag):
        return AddressSpace.GLOBAL
    if not _together(knl, d, LocalTag):
        return AddressSpace.LOCAL
    own = axis_inames(knl, knl.statement_by_id[d.source].inames, LocalTag)
    others = _spread(knl, d) and any(isinstance(tag := knl.tags.get(x), LocalTag) and tag.axis not in own
                                     for s, place in places.items() if place.launch == places[d.source].launch
                                     for x in knl.statement_by_id[s].inames)
    return AddressSpace.LOCAL if others else AddressSpace.PRIVATE


def _spread(knl: LoopKernel, d: Dependence) -> tuple[str, ...]:
    """The ``l.auto`` inames of the two statements: the axes of the block that these do not have run them."""
    return tuple(x for s in (d.source, d.sink) for x in knl.statement_by_id[s].inames
                 if isinstance(knl.tags.get(x), AutoLocalTag))


def is_global_anyway(knl: LoopKernel, name: str) -> bool:
    """Is a temporary declared global, or its shape no constant?"""
    return knl.temporaries[name].address_space is AddressSpace.GLOBAL \
        or not all(isinstance(e, int) for e in array_shapes(knl)[name])


def leaves_its_launch(knl: LoopKernel, d: Dependence, places: Mapping[str, SchedulePoint]) -> bool:
    """Is a value read in another launch, or in another iteration of the host's loops?"""
    place = places[d.source]
    return place.launch != places[d.sink].launch or differing(
        d.relation, shared_loops(knl, d.source, d.sink, place.hosts)) is not None


def _together(knl: LoopKernel, d: Dependence, kind: type[InameTag]) -> bool:
    """Does every value stay at one place along the axes of *kind*?

    A writer outside an axis runs at every place along it, so that all readers have their own copy.
    """
    a, b = knl.statement_by_id[d.source], knl.statement_by_id[d.sink]
    source, sink = (axis_inames(knl, s.inames, kind) for s in (a, b))
    for axis, inames in source.items():
        theirs = sink.get(axis)
        if theirs is None:
            return False
        if inames != theirs and not (len(inames) == 1 and len(theirs) == 1):
            return False
        if len(inames) == 1 and inames != theirs and iname_range(knl, inames[0])[0] != iname_range(knl, theirs[0])[0]:
            return False
        if not all(agree(knl, d, x, y) for x, y in zip(inames, theirs, strict=True)):
            return False
    return True

# }}}


# {{{ expansion

def _between(knl: LoopKernel, flows: Sequence[Dependence], places: Mapping[str, SchedulePoint]) -> frozenset[str]:
    """The inames of sequential loops that stand between some value's writer and its reader, one loop each."""
    found: set[str] = set()
    for d in flows:
        way_a, way_b = places[d.source].way, places[d.sink].way
        shared = meeting(way_a, way_b).loops
        found |= {x for x in loops_of(way_a) if x in loops_of(way_b) and x not in shared}
    return frozenset(found)


def common_inames(knl: LoopKernel, flows: Sequence[Dependence]) -> tuple[str, ...]:
    """The inames in which the writer and the reader of every value agree."""
    common: tuple[str, ...] | None = None
    for d in flows:
        a, b = knl.statement_by_id[d.source].inames, knl.statement_by_id[d.sink].inames
        common = tuple(x for x in (a if common is None else common) if x in a and x in b and agree(knl, d, x, x))
    return common or ()

# }}}
