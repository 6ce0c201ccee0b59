"""Stage 4: where temporaries live. Values become cells.

A value that only its own thread reads is private; one that threads of the block read is shared; one that other
blocks or later launches read is in global memory. Where two values are alive at once in one cell, the temporary
is expanded over the inames that tell them apart. Each choice is then proven: in the order that runs, every read
finds the value which it would have found in the reference order.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, accesses_by_array, kills
from loopkit.analysis.dependences import Dependence, dependences
from loopkit.analysis.legality import across_blocks, iname_extent, iname_range, packed_coordinate
from loopkit.analysis.order import loops_of
from loopkit.analysis.shapes import array_shapes
from loopkit.errors import ShapeError, StorageError, instance_text
from loopkit.kernel.data import AddressSpace, TemporaryVariable
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import AutoLocalTag, GroupTag, InameTag, LocalTag, is_parallel
from loopkit.kernel.tree import Path, meeting, paths
from loopkit.lowering.schedule import Schedule
from loopkit.poly.affine import subtract
from loopkit.poly.flow import TimedAccess, value_flow
from loopkit.poly.relations import cells, differing, injective_given, restrict, same_element, smallest_pair
from loopkit.poly.sets import InstanceSet, Map


@dataclass(frozen=True)
class Storage:
    """The cells of one temporary.

    :ivar lead: inames whose values stand before the subscripts, each counted from its minimum in *lows*.
    :ivar shape: all extents, those of *lead* first.
    """

    name: str
    dtype: np.dtype
    space: AddressSpace
    lead: tuple[str, ...]
    lows: tuple[Expression, ...]
    shape: tuple[Expression, ...]

    def __str__(self) -> str:
        extents = "".join(f"[{e}]" for e in self.shape)
        over = f" expanded over {', '.join(self.lead)}" if self.lead else ""
        return f"{self.space} {self.dtype} {self.name}{extents}{over}"

    def subscripts(self, own: tuple[Expression, ...]) -> tuple[Expression, ...]:
        """*own* subscripts with those of the expansion before them."""
        return (*(subtract(p.Variable(x), low) for x, low in zip(self.lead, self.lows, strict=True)),
                *own)


def settle_storage(schedule: Schedule) -> dict[str, Storage]:
    """The storage of every temporary that is used.

    :raises StorageError: a declared address space or shape cannot hold the values that are alive at once.
    """
    knl = schedule.kernel
    places: dict[str, tuple[int, Path]] = {}
    for i, tree in enumerate(schedule.launches):
        for s, path in paths(tree).items():
            places[s] = (i, path)
    flows: dict[str, list[Dependence]] = {}
    for d in dependences(knl):
        if d.of_value:
            flows.setdefault(d.array, []).append(d)
    shapes = array_shapes(knl)
    result = {}
    for name, accesses in accesses_by_array(knl).items():
        temporary = knl.temporaries.get(name)
        if temporary is not None:
            own = flows.get(name, [])
            _require_written(temporary, accesses)
            result[name] = _settled(knl, temporary, accesses, own, places, shapes[name])
    return result


def _settled(knl: LoopKernel, t: TemporaryVariable, accesses: Sequence[Access], flows: Sequence[Dependence],
             places: Mapping[str, tuple[int, Path]], shape: tuple[Expression | None, ...]) -> Storage:
    """The first of the candidates, the smallest first, that is proven to hold all values."""
    needed = _address_space(knl, t, flows, places)
    own = _own_shape(t, shape)
    refused: StorageError | None = None
    for space, lead in _candidates(knl, t, flows, places, needed, own):
        extents = [iname_extent(knl, x) for x in lead]
        if space is not AddressSpace.GLOBAL and not all(isinstance(e, int) for e in (*extents, *own)):
            continue                        # a number of cells that depends on the sizes
        try:
            _prove(knl, t, accesses, flows, places, space, lead)
        except StorageError as err:
            refused = refused or err
            continue
        assert t.dtype is not None
        return Storage(t.name, t.dtype, space, lead, tuple(iname_range(knl, x)[0] for x in lead), (*extents, *own))
    raise refused or StorageError(
        f"'{t.name}' is declared {t.address_space}, but it needs a number of cells that depends on the sizes.",
        subject=t.name, hint="split the loop that separates its writer from its reader, or declare it global")


def _candidates(knl: LoopKernel, t: TemporaryVariable, flows: Sequence[Dependence],
                places: Mapping[str, tuple[int, Path]], space: AddressSpace, own: tuple[Expression, ...]
                ) -> Iterator[tuple[AddressSpace, tuple[str, ...]]]:
    """Address spaces and expansions to try, from the fewest cells up.

    Only inames in which every value's writer and reader agree can tell cells apart. A space and a shape that the
    user declared together are kept as they are.
    """
    if t.fixed:
        yield space, ()
        return
    common = _common_inames(knl, flows)
    between = _between(knl, flows, places)
    separating = tuple(x for x in common if x in between)
    sequential = tuple(x for x in common if not is_parallel(knl.tags.get(x)))
    tried: dict[tuple[AddressSpace, tuple[str, ...]], None] = {}
    if own or not separating:
        tried[space, ()] = None
    tried[space, separating] = None
    tried[space, sequential] = None
    if space is AddressSpace.LOCAL:
        tried[space, tuple(x for x in common if not isinstance(knl.tags.get(x), GroupTag))] = None
    if t.address_space in (None, AddressSpace.GLOBAL):
        if own:
            tried[AddressSpace.GLOBAL, ()] = None
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


# {{{ address space

def _address_space(knl: LoopKernel, t: TemporaryVariable, flows: Sequence[Dependence],
                   places: Mapping[str, tuple[int, Path]]) -> AddressSpace:
    """The smallest space in which every reader finds the value; the declared one if it is large enough."""
    needed, witness = AddressSpace.PRIVATE, None
    for d in flows:
        space = _space_of_flow(knl, d, places)
        if _SIZES[space] > _SIZES[needed]:
            needed, witness = space, d
    if t.address_space is None:
        return needed
    if _SIZES[t.address_space] < _SIZES[needed]:
        assert witness is not None
        a, b = knl.statement_by_id[witness.source], knl.statement_by_id[witness.sink]
        raise StorageError(
            f"'{t.name}' is declared {t.address_space}, but {a.id} writes values that {b.id} reads in another "
            f"{'thread' if needed is AddressSpace.LOCAL else 'block or launch'}.", subject=t.name,
            hint=f"set_temporary_address_space(knl, '{t.name}', '{needed}')")
    return t.address_space


_SIZES = {AddressSpace.PRIVATE: 0, AddressSpace.LOCAL: 1, AddressSpace.GLOBAL: 2}


def _space_of_flow(knl: LoopKernel, d: Dependence, places: Mapping[str, tuple[int, Path]]) -> AddressSpace:
    if places[d.source][0] != places[d.sink][0]:
        return AddressSpace.GLOBAL
    if not _together(knl, d, GroupTag):
        return AddressSpace.GLOBAL
    uses_threads = any(isinstance(tag, LocalTag) for tag in knl.tags.values())
    a, b = knl.statement_by_id[d.source], knl.statement_by_id[d.sink]
    if uses_threads and any(isinstance(knl.tags.get(x), AutoLocalTag) for x in (*a.inames, *b.inames)):
        return AddressSpace.LOCAL
    return AddressSpace.PRIVATE if _together(knl, d, LocalTag) else AddressSpace.LOCAL


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
        if differing(d.relation, [(a.inames.index(x), b.inames.index(y))
                                  for x, y in zip(inames, theirs, strict=True)]) is not None:
            return False
    return True


def axis_inames(knl: LoopKernel, inames: Sequence[str], kind: type[InameTag]) -> dict[int, tuple[str, ...]]:
    """Which of *inames* lie on each axis of *kind*, outermost first."""
    result: dict[int, tuple[str, ...]] = {}
    for x in inames:
        tag = knl.tags.get(x)
        if isinstance(tag, kind):
            assert isinstance(tag, GroupTag | LocalTag)
            result[tag.axis] = (*result.get(tag.axis, ()), x)
    return result

# }}}


# {{{ expansion

def _between(knl: LoopKernel, flows: Sequence[Dependence], places: Mapping[str, tuple[int, Path]]) -> frozenset[str]:
    """The inames of sequential loops that stand between some value's writer and its reader, one loop each."""
    found: set[str] = set()
    for d in flows:
        (launch_a, way_a), (launch_b, way_b) = places[d.source], places[d.sink]
        shared = meeting(way_a, way_b).loops if launch_a == launch_b else ()
        found |= {x for x in loops_of(way_a) if x in loops_of(way_b) and x not in shared}
    return frozenset(found)


def _common_inames(knl: LoopKernel, flows: Sequence[Dependence]) -> tuple[str, ...]:
    """The inames in which the writer and the reader of every value agree."""
    common: list[str] | None = None
    for d in flows:
        equal = _equal_inames(knl, d)
        common = equal if common is None else [x for x in common if x in equal]
    return tuple(common or ())


def _equal_inames(knl: LoopKernel, d: Dependence) -> list[str]:
    """The inames in which every value's writer and reader agree."""
    a, b = knl.statement_by_id[d.source].inames, knl.statement_by_id[d.sink].inames
    return [x for x in a if x in b and differing(d.relation, [(a.index(x), b.index(x))]) is None]

# }}}


# {{{ proof

def _prove(knl: LoopKernel, t: TemporaryVariable, accesses: Sequence[Access], flows: Sequence[Dependence],
           places: Mapping[str, tuple[int, Path]], space: AddressSpace, lead: tuple[str, ...]) -> None:
    """:raises StorageError: in the order that runs, some read would find another value."""
    if _evidently_right(knl, accesses, flows, places, space, lead):
        return
    if space is AddressSpace.GLOBAL:
        _require_one_block_a_cell(knl, t, accesses, places, lead)
    # an update keeps the value that its reduction's init began
    updates = {a.statement for a in accesses if _is_update(knl.statement_by_id[a.statement])}
    axes = _axes(knl, accesses, space)
    lookers, timed = [], []
    for a in accesses:
        if a.is_write and a.statement in updates:
            continue
        lookers.append(a)
        timed.append(_timed(knl, a, places, axes, lead, a.is_write and kills(knl, a, accesses)))
    reads = _reads(lookers)
    wanted = _by_pair((d.source, d.sink, d.relation.intersect_range(reads[d.sink].set))
                      for d in flows if d.sink in reads)
    found = _by_pair((lookers[i].statement, lookers[j].statement, relation) for i, j, relation in value_flow(timed))
    for pair, relation in found.items():
        wrong = relation.subtract(wanted[pair]) if pair in wanted else relation
        if not wrong.is_empty():
            _refuse(knl, t, space, pair, wrong)
    for pair, relation in wanted.items():
        lost = relation.subtract(found[pair]) if pair in found else relation
        if pair[0] not in updates and not lost.is_empty():
            _refuse(knl, t, space, pair, lost)


def _require_one_block_a_cell(knl: LoopKernel, t: TemporaryVariable, accesses: Sequence[Access],
                              places: Mapping[str, tuple[int, Path]], lead: tuple[str, ...]) -> None:
    """:raises StorageError: two blocks of one launch, between which there is no order, touch one cell."""
    for a in accesses:
        for b in accesses:
            if not a.is_write or places[a.statement][0] != places[b.statement][0]:
                continue
            pairs = same_element(_global_cells(a, lead), _global_cells(b, lead))
            apart = across_blocks(knl, Dependence("output" if b.is_write else "flow", t.name, a.statement, b.statement,
                                                  pairs))
            if apart is not None:
                _refuse(knl, t, AddressSpace.GLOBAL, (a.statement, b.statement), apart,
                        "writes" if b.is_write else "reads")


def _global_cells(a: Access, lead: tuple[str, ...]) -> Map:
    inames = a.domain.inames
    if missing := [x for x in lead if x not in inames]:
        raise _outside_of(a, missing[0])
    return a.relation.flat_range_product(restrict(cells(inames, [p.Variable(x) for x in lead]), a.domain))


def _outside_of(a: Access, iname: str) -> StorageError:
    return StorageError(f"'{a.statement}' uses '{a.array}' outside of the loop over '{iname}' that keeps its values "
                        "apart.", subject=a.array)


def _reads(accesses: Sequence[Access]) -> dict[str, InstanceSet]:
    """For each statement the instances that read: a branch of an ``if`` may leave some out."""
    result: dict[str, InstanceSet] = {}
    for a in accesses:
        if not a.is_write:
            result[a.statement] = result[a.statement].union(a.domain) if a.statement in result else a.domain
    return result


def _by_pair(flows: Iterable[tuple[str, str, Map]]) -> dict[tuple[str, str], Map]:
    """The relations of each pair of statements joined (two may meet through several references)."""
    result: dict[tuple[str, str], Map] = {}
    for source, sink, relation in flows:
        pair = (source, sink)
        result[pair] = result[pair].union(relation) if pair in result else relation
    return result


def _is_update(s: Statement) -> bool:
    return s.reduction is not None and s.combine is not None


def _refuse(knl: LoopKernel, t: TemporaryVariable, space: AddressSpace, pair: tuple[str, str], pairs: Map,
            then: str = "reads") -> None:
    writer, reader = (knl.statement_by_id[s] for s in pair)
    params, at_write, at_read = smallest_pair(pairs, writer.inames, reader.inames)
    sizes = ", ".join(f"{k} = {v}" for k, v in params.items())
    raise StorageError(
        f"The {space} cells of '{t.name}' cannot hold all values that are alive at once: the value that "
        f"{instance_text(writer.id, at_write)} writes and the one that {instance_text(reader.id, at_read)} {then} "
        f"share a cell{' (with ' + sizes + ')' if sizes else ''}.", subject=t.name,
        hint=f"privatize '{t.name}' over the loop between them, or keep the two in one loop")


def _evidently_right(knl: LoopKernel, accesses: Sequence[Access], flows: Sequence[Dependence],
                     places: Mapping[str, tuple[int, Path]], space: AddressSpace, lead: tuple[str, ...]) -> bool:
    """One certain write in the readers' own iteration: no other value can come between."""
    writers = {a.statement for a in accesses if a.is_write}
    if len(writers) != 1 or not all(kills(knl, a, accesses) for a in accesses if a.is_write):
        return False
    writer = next(a for a in accesses if a.is_write)
    launch, way = places[writer.statement]
    loops = loops_of(way)
    for d in flows:
        if d.source != writer.statement or places[d.sink][0] != launch:
            return False
        where = meeting(way, places[d.sink][1])
        equal = _equal_inames(knl, d)
        if not where.before or any(x not in equal or (x not in where.loops and x not in lead) for x in loops):
            return False
    if space is AddressSpace.PRIVATE:
        return True
    copies = [x for x in writer.domain.inames if isinstance(knl.tags.get(x), GroupTag)] \
        if space is AddressSpace.LOCAL else []
    given = [*loops, *copies, *lead]
    return injective_given(writer.relation, [writer.domain.inames.index(x) for x in given])


def _axes(knl: LoopKernel, accesses: Sequence[Access], space: AddressSpace) -> list[tuple[type[InameTag], int]]:
    """The hardware axes along which the temporary has a copy at each place."""
    kinds = {AddressSpace.PRIVATE: (GroupTag, LocalTag), AddressSpace.LOCAL: (GroupTag,),
             AddressSpace.GLOBAL: ()}[space]
    return [(kind, axis) for kind in kinds
            for axis in sorted({x for a in accesses for x in axis_inames(knl, a.domain.inames, kind)})]


def _timed(knl: LoopKernel, a: Access, places: Mapping[str, tuple[int, Path]],
           axes: Sequence[tuple[type[InameTag], int]], lead: tuple[str, ...], must: bool) -> TimedAccess:
    """The access in the order that runs, to cells of all copies of the temporary."""
    launch, way = places[a.statement]
    inames = a.domain.inames
    if missing := [x for x in lead if x not in inames]:
        raise _outside_of(a, missing[0])
    coordinates: list[Expression | None] = [p.Variable(x) for x in lead]
    for kind, axis in axes:
        own = axis_inames(knl, inames, kind).get(axis)
        # a statement outside an axis runs at every place along it
        coordinates.append(None if own is None else packed_coordinate(knl, own))
    relation = a.relation.flat_range_product(restrict(cells(inames, coordinates), a.domain))
    time: list[tuple[str, int]] = [("at", launch)]
    time += [("at", step.position) if step.iname is None else ("loop", inames.index(step.iname)) for step in way]
    time.append(("at", 1 if a.is_write else 0))
    return TimedAccess(relation, a.is_write, must, tuple(time))

# }}}
