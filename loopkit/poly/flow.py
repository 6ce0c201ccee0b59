"""Value-based dataflow between accesses, by isl's ``compute_flow``."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import islpy as isl

from loopkit.poly.affine import DIM
from loopkit.poly.limits import gave_up


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
    depth = max(len(a.time) for a in accesses)
    must = [i for i, a in enumerate(accesses) if a.is_write and a.must]
    try:
        found = _computed(accesses, depth)
    except isl.Error as err:
        if gave_up(err):
            raise
        # isl's algorithm fails on some sets with integer divisions
        found = list(_pairwise(accesses, must, must, depth))
    # given may-writes, isl's algorithm crashes on some sets with integer divisions
    found += _pairwise(accesses, [i for i, a in enumerate(accesses) if a.is_write and not a.must], must, depth)
    result = []
    for source, sink, relation in found:
        left = _left(accesses, source, sink, relation, [x for x in joint if x.read in (None, sink)], depth)
        if not left.is_empty():
            result.append((source, sink, left))
    return sorted(result, key=lambda r: r[:2])


Flow = tuple[int, int, isl.Map]


def _computed(accesses: Sequence[TimedAccess], depth: int) -> list[Flow]:
    """The flow from must-writes, by isl's algorithm."""
    sinks = must = schedule = None
    for i, access in enumerate(accesses):
        if access.is_write and not access.must:
            continue
        relation = access.relation.set_tuple_name(DIM.in_, f"A{i}").set_tuple_name(DIM.out, "X")
        as_union = isl.UnionMap.from_map(relation)
        if not access.is_write:
            sinks = as_union if sinks is None else sinks.union(as_union)
        else:
            must = as_union if must is None else must.union(as_union)
        times = isl.UnionMap.from_map(_time_map(relation, access.time, depth))
        schedule = times if schedule is None else schedule.union(times)
    if schedule is None or sinks is None or must is None:
        return []
    info = isl.UnionAccessInfo.from_sink(sinks).set_must_source(must)
    flow = info.set_schedule_map(schedule).compute_flow().get_may_dependence()
    maps: list[isl.Map] = []
    flow.foreach_map(maps.append)
    return [(int(m.get_tuple_name(DIM.in_)[1:]), int(m.get_tuple_name(DIM.out)[1:]), anonymous(m)) for m in maps]


def _pairwise(accesses: Sequence[TimedAccess], sources: Sequence[int], must: Sequence[int], depth: int
              ) -> Iterator[Flow]:
    """The flow from *sources* by definition: a write before a read without a must-write between them."""
    for source in sources:
        for sink, read in enumerate(accesses):
            if read.is_write:
                continue
            relation = _left(accesses, source, sink, _before(accesses[source], read, depth),
                             [JointMustWrite((write,)) for write in must], depth)
            if not relation.is_empty():
                yield source, sink, relation


def _left(accesses: Sequence[TimedAccess], source: int, sink: int, pairs: isl.Map, writes: Sequence[JointMustWrite],
          depth: int) -> isl.Map:
    """The *pairs* that share an element that none of *writes* replaces between them.

    If an instance of both ends may access several elements, each element is considered separately.
    """
    if pairs.is_empty() or not writes:
        return pairs
    first, last = accesses[source].relation, accesses[sink].relation
    if first.is_single_valued() or last.is_single_valued():
        for group in writes:
            if not pairs.is_empty():
                pairs = pairs.subtract(_hidden(accesses, source, sink, group, depth))
        return pairs
    at, of = first.range_map(), first.domain_map()      # from (instance, element) to the element, to the instance
    found = at.apply_range(last.reverse()).intersect(of.apply_range(pairs))
    for group in writes:
        behind = reduce(isl.Map.intersect, (
            at.apply_range(accesses[w].relation.reverse()).intersect(
                of.apply_range(_earlier(accesses[source], accesses[w], depth))) for w in group.writes))
        ahead = reduce(isl.Map.intersect, (_earlier(accesses[w], accesses[sink], depth) for w in group.writes))
        found = found.subtract(behind.apply_range(_agreeing(ahead, group)))
    return found.domain_factor_domain()


def _hidden(accesses: Sequence[TimedAccess], source: int, sink: int, group: JointMustWrite, depth: int) -> isl.Map:
    """The pairs of *source* and *sink* between which all of the writes run, in one of their instances."""
    behind = reduce(isl.Map.intersect, (_before(accesses[source], accesses[w], depth) for w in group.writes))
    ahead = reduce(isl.Map.intersect, (_before(accesses[w], accesses[sink], depth) for w in group.writes))
    return behind.apply_range(_agreeing(ahead, group))


def _agreeing(ahead: isl.Map, group: JointMustWrite) -> isl.Map:
    for a, b in group.loops:
        ahead = ahead.equate(DIM.in_, a, DIM.out, b)
    return ahead


def earlier_accesses(first: TimedAccess, second: TimedAccess) -> isl.Map:
    """The pairs of instances of two accesses that access one element, the first one earlier."""
    return _before(first, second, max(len(first.time), len(second.time)))


def _before(first: TimedAccess, second: TimedAccess, depth: int) -> isl.Map:
    """The pairs of instances of two accesses that access one element, the first one earlier."""
    return first.relation.apply_range(second.relation.reverse()).intersect(_earlier(first, second, depth))


def _earlier(first: TimedAccess, second: TimedAccess, depth: int) -> isl.Map:
    """The pairs of instances of two statements of which the first runs earlier."""
    times = [_time_map(a.relation, a.time, depth) for a in (first, second)]
    earlier = isl.Map.lex_lt(times[0].get_space().range())
    return times[0].apply_range(earlier).apply_range(times[1].reverse())


def anonymous(relation: isl.Map) -> isl.Map:
    """*relation* without the names of its tuples."""
    return relation.reset_tuple_id(DIM.in_).reset_tuple_id(DIM.out)


def _time_map(relation: isl.Map, time: Sequence[tuple[str, int]], depth: int) -> isl.Map:
    domain = relation.get_space().domain()
    local = isl.LocalSpace.from_space(domain)
    affs = isl.AffList.alloc(isl.DEFAULT_CONTEXT, depth)
    for level in range(depth):
        kind, value = time[level] if level < len(time) else ("at", 0)
        if kind == "loop":
            affs = affs.add(isl.Aff.var_on_domain(local, DIM.set, value))
        else:
            affs = affs.add(isl.Aff.zero_on_domain(local).set_constant_val(
                isl.Val.int_from_si(isl.DEFAULT_CONTEXT, value)))
    space = isl.Space.from_domain(domain).add_dims(DIM.out, depth)
    return isl.Map.from_multi_aff(isl.MultiAff.from_aff_list(space, affs))
