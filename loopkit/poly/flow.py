"""Value-based dataflow between accesses, by isl's ``compute_flow``."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import islpy as isl

from loopkit.poly.affine import DIM


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


def value_flow(accesses: Sequence[TimedAccess]) -> list[tuple[int, int, isl.Map]]:
    """The flow between *accesses* to one array, as (index of the write, index of the read, relation).

    Each read gets the last write before it; writes that may not happen do not hide earlier ones.
    """
    depth = max(len(a.time) for a in accesses)
    sinks = must = may = schedule = None
    for i, access in enumerate(accesses):
        relation = access.relation.set_tuple_name(DIM.in_, f"A{i}").set_tuple_name(DIM.out, "X")
        as_union = isl.UnionMap.from_map(relation)
        if not access.is_write:
            sinks = as_union if sinks is None else sinks.union(as_union)
        elif access.must:
            must = as_union if must is None else must.union(as_union)
        else:
            may = as_union if may is None else may.union(as_union)
        times = isl.UnionMap.from_map(_time_map(relation, access.time, depth))
        schedule = times if schedule is None else schedule.union(times)
    if schedule is None or sinks is None or (must is None and may is None):
        return []
    info = isl.UnionAccessInfo.from_sink(sinks)
    if must is not None:
        info = info.set_must_source(must)
    if may is not None:
        info = info.set_may_source(may)
    flow = info.set_schedule_map(schedule).compute_flow().get_may_dependence()
    found: list[isl.Map] = []
    flow.foreach_map(found.append)
    result = []
    for m in found:
        source, sink = (int(m.get_tuple_name(t)[1:]) for t in (DIM.in_, DIM.out))
        result.append((source, sink, anonymous(m)))
    return sorted(result, key=lambda r: r[:2])


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
