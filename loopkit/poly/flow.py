"""Value-based dataflow between accesses."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, reduce

import islpy as isl
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.poly.affine import DIM
from loopkit.poly.limits import kept_results
from loopkit.poly.piecewise import smaller_coordinates
from loopkit.poly.relations import in_one_iteration, same_element


@dataclass(frozen=True)
class TimedAccess:
    """One access with its place in the execution order.

    :ivar relation: instances to elements, restricted to the statement's domain.
    :ivar must: a must-write: it replaces the earlier value, whatever the data.
    :ivar time: ``("at", position)`` or ``("loop", dimension)`` for each level.
    """

    relation: isl.Map
    is_write: bool
    must: bool
    time: tuple[tuple[str, int], ...]


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


def value_flow(accesses: Sequence[TimedAccess], joint: Sequence[JointMustWrite] = ()
               ) -> tuple[tuple[int, int, isl.Map], ...]:
    """The value-based flow of *accesses* to one array: (index of the write, index of the read, relation).

    Each read gets the last write before it. A may-write does not hide earlier writes, unless it is part of a
    joint must-write.
    """
    return _computed_flow(tuple(accesses), tuple(joint))


@kept_results                                       # most steps leave the accesses to most arrays as they are
def _computed_flow(accesses: Sequence[TimedAccess], joint: Sequence[JointMustWrite]
                   ) -> tuple[tuple[int, int, isl.Map], ...]:
    earlier = cache(lambda a, b: earlier_accesses(accesses[a], accesses[b]))
    is_none = cache(lambda a, b: earlier(a, b).is_empty())
    writes = [*(JointMustWrite((i,)) for i, a in enumerate(accesses) if a.is_write and a.must), *joint]
    found = [(i, j, _not_replaced(accesses, i, j, [
                x for x in writes if x.read in (None, j) and not any(is_none(i, w) or is_none(w, j) for w in x.writes)],
                earlier)) for i, source in enumerate(accesses) if source.is_write
             for j, sink in enumerate(accesses) if not sink.is_write and not is_none(i, j)]
    return tuple(flow for flow in found if not flow[2].is_empty())


def _not_replaced(accesses: Sequence[TimedAccess], source: int, sink: int, writes: Sequence[JointMustWrite],
                  earlier: Callable[[int, int], isl.Map]) -> isl.Map:
    """The pairs of *source* and *sink* that share an element that none of *writes*, between them, replaces.

    If an instance of both ends may access several elements, each element is considered separately.
    """
    found = earlier(source, sink)
    if not writes:
        return found
    first, last = accesses[source], accesses[sink]
    one_element = first.relation.is_single_valued() or last.relation.is_single_valued()
    # from (instance, element) to the element, to the instance
    at, of = first.relation.range_map(), first.relation.domain_map()
    found = found if one_element else same_element(at, last.relation).intersect(of.apply_range(found))
    for group in writes:
        if found.is_empty():
            break
        behind = reduce(isl.Map.intersect, (
            earlier(source, w) if one_element
            else same_element(at, accesses[w].relation).intersect(of.apply_range(_earlier(first, accesses[w])))
            for w in group.writes))
        ahead = reduce(isl.Map.intersect, (
            earlier(w, sink) if one_element else _earlier(accesses[w], last) for w in group.writes))
        # pairs outside of *found* would only make the subtraction slower, without end for some divisions
        replaced = behind.apply_range(in_one_iteration(ahead, group.loops)).intersect(found)
        found = found.subtract(replaced)
    return found if one_element else found.domain_factor_domain()


def earlier_accesses(first: TimedAccess, second: TimedAccess) -> isl.Map:
    """The pairs of instances of two accesses that access one element, the first one earlier."""
    same = same_element(first.relation, second.relation)
    return same if same.is_empty() else same.intersect(_earlier(first, second))


def _earlier(first: TimedAccess, second: TimedAccess) -> isl.Map:
    """The pairs of instances of two statements of which the first runs earlier.

    Instances of one access at one time (of two threads) are in the order of their inames.
    """
    depth = max(len(first.time), len(second.time))
    (names, times), (others, later) = _named_time(first, depth), _named_time(second, depth)
    if first is second:
        times = later = (*times, *map(p.Variable, names))
    return _smaller(names, times, others, later)


_smaller = lru_cache(maxsize=4096)(smaller_coordinates)


def _named_time(access: TimedAccess, depth: int) -> tuple[tuple[str, ...], tuple[Expression, ...]]:
    """Names for the inames of *access*, and its time in them, filled up to *depth* entries."""
    names = tuple(f"x{i}" for i in range(access.relation.dim(DIM.in_)))
    return names, tuple(p.Variable(names[value]) if kind == "loop" else value
                        for kind, value in (*access.time, *[("at", 0)]*(depth - len(access.time))))
