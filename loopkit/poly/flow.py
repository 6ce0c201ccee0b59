"""Value-based dataflow between accesses, by isl's ``compute_flow``."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import islpy as isl

from loopkit.poly.affine import DIM
from loopkit.poly.limits import gave_up
from loopkit.poly.relations import in_one_iteration, same_element


@dataclass(frozen=True)
class TimedAccess:
    """One access with its place in the execution order.

    :ivar relation: instances to elements, restricted to the statement's domain.
    :ivar must: a must-write: it replaces the earlier value, whatever the data.
    :ivar time: one entry for each level: a constant position, or the index of an iname of the statement.
    """

    relation: isl.Map
    is_write: bool
    must: bool
    time: tuple[tuple[str, int], ...]      # ("at", position) or ("loop", dimension)


@dataclass(frozen=True)
class JointMustWrite:
    """May-writes to one element of which one has happened before any read that follows them all.

    All have one instance space.

    :ivar writes: their indices among the accesses.
    :ivar read: the index of the only read for which this holds; ``None``: any read.
    :ivar loops: pairs of dimensions, of the writes and of the read, in which the instances must agree.
    """

    writes: tuple[int, ...]
    read: int | None = None
    loops: tuple[tuple[int, int], ...] = ()


def value_flow(accesses: Sequence[TimedAccess], joint: Sequence[JointMustWrite] = ()) -> list[tuple[int, int, isl.Map]]:
    """The value-based flow of *accesses* to one array: (index of the write, index of the read, relation).

    Each read gets the last write before it. A may-write does not hide earlier writes, unless it is part of a
    joint must-write.
    """
    must = [i for i, a in enumerate(accesses) if a.is_write and a.must]
    try:
        found = _computed(accesses)
    except isl.Error as err:
        if gave_up(err):
            raise
        # isl's algorithm fails on some sets with integer divisions
        found = list(_pairwise(accesses, must, must))
    # given may-writes, isl's algorithm crashes on some sets with integer divisions
    found += _pairwise(accesses, [i for i, a in enumerate(accesses) if a.is_write and not a.must], must)
    result = [(source, sink, _left(accesses, source, sink, relation, [x for x in joint if x.read in (None, sink)]))
              for source, sink, relation in found]
    return sorted((flow for flow in result if not flow[2].is_empty()), key=lambda flow: flow[:2])


ValueFlow = tuple[int, int, isl.Map]


def _computed(accesses: Sequence[TimedAccess]) -> list[ValueFlow]:
    """The flow from must-writes, by isl's algorithm."""
    empty = isl.UnionMap.empty_ctx(isl.DEFAULT_CONTEXT)
    sinks, must, schedule = empty, empty, empty
    depth = max(len(a.time) for a in accesses)
    for i, access in enumerate(accesses):
        if access.is_write and not access.must:
            continue
        relation = access.relation.set_tuple_name(DIM.in_, f"A{i}").set_tuple_name(DIM.out, "X")
        if access.is_write:
            must = must.union(relation)
        else:
            sinks = sinks.union(relation)
        schedule = schedule.union(_time_map(relation, access.time, depth))
    if sinks.is_empty() or must.is_empty():
        return []
    info = isl.UnionAccessInfo.from_sink(sinks).set_must_source(must)
    flow = info.set_schedule_map(schedule).compute_flow().get_may_dependence()
    maps: list[isl.Map] = []
    flow.foreach_map(maps.append)
    return [(int(m.get_tuple_name(DIM.in_)[1:]), int(m.get_tuple_name(DIM.out)[1:]),
             m.reset_tuple_id(DIM.in_).reset_tuple_id(DIM.out)) for m in maps]


def _pairwise(accesses: Sequence[TimedAccess], sources: Sequence[int], must: Sequence[int]) -> Iterator[ValueFlow]:
    """The flow from *sources* by definition: a write before a read without a must-write between them."""
    for source in sources:
        for sink, read in enumerate(accesses):
            if not read.is_write:
                pairs = earlier_accesses(accesses[source], read)
                yield source, sink, _left(accesses, source, sink, pairs, [JointMustWrite((write,)) for write in must])


def _left(accesses: Sequence[TimedAccess], source: int, sink: int, pairs: isl.Map, writes: Sequence[JointMustWrite]
          ) -> isl.Map:
    """The *pairs* that share an element that none of *writes* replaces between them.

    If an instance of both ends may access several elements, each element is considered separately.
    """
    if pairs.is_empty() or not writes:
        return pairs
    first, last = accesses[source], accesses[sink]
    one_element = first.relation.is_single_valued() or last.relation.is_single_valued()
    # from (instance, element) to the element, to the instance
    at, of = first.relation.range_map(), first.relation.domain_map()
    found = pairs if one_element else same_element(at, last.relation).intersect(of.apply_range(pairs))
    for group in writes:
        if found.is_empty():
            break
        between = [accesses[w] for w in group.writes]
        behind = reduce(isl.Map.intersect, (
            earlier_accesses(first, w) if one_element
            else same_element(at, w.relation).intersect(of.apply_range(_earlier(first, w))) for w in between))
        ahead = reduce(isl.Map.intersect, (
            earlier_accesses(w, last) if one_element else _earlier(w, last) for w in between))
        found = found.subtract(behind.apply_range(in_one_iteration(ahead, group.loops)))
    return found if one_element else found.domain_factor_domain()


def earlier_accesses(first: TimedAccess, second: TimedAccess) -> isl.Map:
    """The pairs of instances of two accesses that access one element, the first one earlier."""
    return same_element(first.relation, second.relation).intersect(_earlier(first, second))


def _earlier(first: TimedAccess, second: TimedAccess) -> isl.Map:
    """The pairs of instances of two statements of which the first runs earlier."""
    depth = max(len(first.time), len(second.time))
    times = [_time_map(a.relation, a.time, depth) for a in (first, second)]
    earlier = isl.Map.lex_lt(times[0].get_space().range())
    return times[0].apply_range(earlier).apply_range(times[1].reverse())


def _time_map(relation: isl.Map, time: Sequence[tuple[str, int]], depth: int) -> isl.Map:
    domain = relation.get_space().domain()
    local = isl.LocalSpace.from_space(domain)
    affs = isl.AffList.alloc(isl.DEFAULT_CONTEXT, depth)
    for kind, value in (*time, *[("at", 0)]*(depth - len(time))):
        affs = affs.add(isl.Aff.var_on_domain(local, DIM.set, value) if kind == "loop" else
                        isl.Aff.zero_on_domain(local).set_constant_val(value))
    return isl.Map.from_multi_aff(isl.MultiAff.from_aff_list(isl.Space.from_domain(domain).add_dims(DIM.out, depth),
                                                             affs))
