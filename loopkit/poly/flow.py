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
    """One access to a temporary, with its place in time.

    :ivar relation: instances to elements, restricted to the statement's domain.
    :ivar time: one entry a level: a constant position, or the index of an iname of the statement.
    :ivar must: the write certainly happens (it kills what was there).
    """

    relation: isl.Map
    is_write: bool
    must: bool
    time: tuple[tuple[str, int], ...]      # ("at", position) or ("loop", dimension)


@dataclass(frozen=True)
class OneOf:
    """Writes to one cell, of which one has happened wherever a read comes behind them all.

    The writes are of one instance space; they are indices among the accesses, as is the read.

    :ivar read: ``None``: any read.
    :ivar loops: the dimensions of the writes and the read in which their instances must agree for it.
    """

    writes: tuple[int, ...]
    read: int | None = None
    loops: tuple[tuple[int, int], ...] = ()


def value_flow(accesses: Sequence[TimedAccess], one_of: Sequence[OneOf] = ()) -> list[tuple[int, int, isl.Map]]:
    """The flow between *accesses* to one array, as (index of the write, index of the read, relation).

    Each read gets the last write before it. Writes that may not happen do not hide earlier ones, but for those that
    *one_of* is sure of.
    """
    depth = max(len(a.time) for a in accesses)
    certain = [i for i, a in enumerate(accesses) if a.is_write and a.must]
    try:
        found = _computed(accesses, depth)
    except isl.Error as err:
        if gave_up(err):
            raise
        # isl's algorithm fails on some sets with integer divisions
        found = list(_pairwise(accesses, certain, certain, depth))
    # given sources that may not happen, isl's algorithm crashes on some sets with integer divisions
    found += _pairwise(accesses, [i for i, a in enumerate(accesses) if a.is_write and not a.must], certain, depth)
    result = []
    for source, sink, relation in found:
        left = _left(accesses, source, sink, relation, [x for x in one_of if x.read in (None, sink)], depth)
        if not left.is_empty():
            result.append((source, sink, left))
    return sorted(result, key=lambda r: r[:2])


Flow = tuple[int, int, isl.Map]


def _computed(accesses: Sequence[TimedAccess], depth: int) -> list[Flow]:
    """The flow from certain writes, by isl's own algorithm."""
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


def _pairwise(accesses: Sequence[TimedAccess], sources: Sequence[int], certain: Sequence[int], depth: int
              ) -> Iterator[Flow]:
    """The flow from *sources* by its definition: a write before a read, without a certain write between them."""
    for source in sources:
        for sink, read in enumerate(accesses):
            if read.is_write:
                continue
            relation = _left(accesses, source, sink, _before(accesses[source], read, depth),
                             [OneOf((write,)) for write in certain], depth)
            if not relation.is_empty():
                yield source, sink, relation


def _left(accesses: Sequence[TimedAccess], source: int, sink: int, pairs: isl.Map, writes: Sequence[OneOf], depth: int
          ) -> isl.Map:
    """Those *pairs* that have an element to which none of the certain *writes* comes between them.

    Where one of the two touches a single element, that is the element. Where both may touch several, each is looked at.
    """
    if pairs.is_empty() or not writes:
        return pairs
    first, last = accesses[source].relation, accesses[sink].relation
    if first.is_single_valued() or last.is_single_valued():
        for sure in writes:
            if not pairs.is_empty():
                pairs = pairs.subtract(_hidden(accesses, source, sink, sure, depth))
        return pairs
    at, of = first.range_map(), first.domain_map()      # an instance with one of its elements, to either
    found = at.apply_range(last.reverse()).intersect(of.apply_range(pairs))
    for sure in writes:
        behind = reduce(isl.Map.intersect, (
            at.apply_range(accesses[w].relation.reverse()).intersect(
                of.apply_range(_earlier(accesses[source], accesses[w], depth))) for w in sure.writes))
        ahead = reduce(isl.Map.intersect, (_earlier(accesses[w], accesses[sink], depth) for w in sure.writes))
        found = found.subtract(behind.apply_range(_agreeing(ahead, sure)))
    return found.domain_factor_domain()


def _hidden(accesses: Sequence[TimedAccess], source: int, sink: int, sure: OneOf, depth: int) -> isl.Map:
    """The pairs of *source* and *sink* between which all of the writes stand, in one instance of theirs."""
    behind = reduce(isl.Map.intersect, (_before(accesses[source], accesses[w], depth) for w in sure.writes))
    ahead = reduce(isl.Map.intersect, (_before(accesses[w], accesses[sink], depth) for w in sure.writes))
    return behind.apply_range(_agreeing(ahead, sure))


def _agreeing(ahead: isl.Map, sure: OneOf) -> isl.Map:
    for a, b in sure.loops:
        ahead = ahead.equate(DIM.in_, a, DIM.out, b)
    return ahead


def earlier_touches(first: TimedAccess, second: TimedAccess) -> isl.Map:
    """The instances of two accesses that touch one element, the first one earlier."""
    return _before(first, second, max(len(first.time), len(second.time)))


def _before(first: TimedAccess, second: TimedAccess, depth: int) -> isl.Map:
    """The instances of two accesses that touch one element, the first one earlier."""
    return first.relation.apply_range(second.relation.reverse()).intersect(_earlier(first, second, depth))


def _earlier(first: TimedAccess, second: TimedAccess, depth: int) -> isl.Map:
    """The instances of two statements of which the first comes earlier."""
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
