"""The proof that a step preserves values: each read gets the value of the same write as before the step.

A write instance identifies a value. The *wanted* flow relates each write instance to the instances that must read its
value; the *found* flow is the one after the step. A wanted pair that is not found is a lost value; a found pair that
is not wanted is a wrong value in its place.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from loopkit.analysis.accesses import Access, accesses_by_array
from loopkit.analysis.dependences import (
    Pair,
    assumed_flows,
    between_iterations,
    clobbered_reads,
    dependences,
    in_order,
    joined,
    timed,
    without_assumed,
)
from loopkit.analysis.must_writes import joint_must_writes
from loopkit.analysis.order import execution_paths
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Dependence
from loopkit.kernel.tags import is_parallel
from loopkit.poly.flow import TimedAccess, value_flow
from loopkit.poly.relations import same_element
from loopkit.poly.sets import Map

#: From write instances to the instances that read their values, for each two statements.
Flow = Mapping[Pair, Map]


@dataclass(frozen=True)
class WrongValue:
    """Instances of *sink* that read the values of *source* instances and must not; if *is_lost*, the reverse."""

    source: str
    sink: str
    pairs: Map
    is_lost: bool


def wrong_values(wanted: Flow, found: Flow, continued: Collection[str] = ()) -> Iterator[WrongValue]:
    """The differences of *found* from *wanted*: first the values in the place of others, then the lost ones.

    :arg continued: statements whose values may be lost, as updates continue them.
    """
    yield from (WrongValue(*pair, pairs, is_lost=False) for pair, pairs in beyond(found, wanted))
    yield from (WrongValue(*pair, pairs, is_lost=True) for pair, pairs in beyond(wanted, found)
                if pair[0] not in continued)


def beyond(first: Flow, second: Flow) -> Iterator[tuple[Pair, Map]]:
    """The pairs of *first* that are not in *second*."""
    for pair, relation in first.items():
        if pair not in second or not relation.is_subset(second[pair]):
            rest = without(relation, second, pair)
            if not rest.is_empty():
                yield pair, rest


def without(pairs: Map, flow: Flow, statements: Pair) -> Map:
    """The *pairs* of instances of two *statements* that are not in *flow*."""
    return pairs.subtract(flow[statements]) if statements in flow else pairs


def over_copies(flow: Flow, copies: Collection[str]) -> dict[Pair, Map]:
    """*flow* between statements that are not *copies*, with the flow through chains of copies composed."""
    arrived = {pair: relation for pair, relation in flow.items() if pair[0] not in copies}
    found = list(arrived.items())
    for _ in copies:
        arrived = joined(((source, second), through) for (source, sink), relation in arrived.items() if sink in copies
                         for (first, second), further in flow.items()
                         if first == sink and not (through := relation.apply_range(further)).is_empty())
        found += arrived.items()
    return joined(part for part in found if part[0][1] not in copies)


def clobbered_values(knl: LoopKernel, accesses: Sequence[Access], flows: Sequence[Dependence],
                     placed: Callable[[Access], TimedAccess], *, trusting: bool = True) -> Iterator[WrongValue]:
    """The wrong values in the cells of one temporary, whose wanted flow is *flows*.

    :arg placed: an access to the cells, with its place in the order.
    :arg trusting: leave out the wrong values that an assumed dependence allows; *flows* may then have assumed ones.
    """
    # an update continues the value of its reduction's init or of another write
    updates = {s.id for s in (knl.statement_by_id[a.statement] for a in accesses)
               if s.combine is not None and (s.id in knl.reduction_of or s.commutes)}
    ends = [a for a in accesses if not (a.is_write and a.statement in updates)]
    # not all instances of a reader read if the read is in a branch of an if
    reads = joined((a.statement, a.domain.set) for a in ends if not a.is_write)
    wanted = joined(((d.source, d.sink), d.relation.intersect_range(reads[d.sink])) for d in flows if d.sink in reads)
    found = joined(((ends[i].statement, ends[j].statement), relation)
                   for i, j, relation in value_flow([placed(a) for a in ends], joint_must_writes(knl, ends)))
    array = ends[0].array if ends else ""
    for wrong in wrong_values(wanted, found, updates):
        if trusting and knl.obligations:
            pairs = without_assumed(knl, array, wrong.source, wrong.sink, wrong.pairs)
            clobbered = None if wrong.is_lost else clobbered_reads(knl, array, wrong.sink)
            wrong = replace(wrong, pairs=pairs if clobbered is None else pairs.subtract_range(clobbered))
        if not wrong.pairs.is_empty():
            yield wrong


def clobbered_flows(knl: LoopKernel, array: str, assumed: Sequence[Dependence]) -> Iterator[tuple[Dependence, Map]]:
    """Flows of the temporary *array*, with the pairs between which a write of an *assumed* pair may now run.

    Follows execution order, with one cell for each element in all iterations of sequential loops. Writes that now run
    at once may run in either order, even if a launch ends between them and the reader.
    """
    accesses = accesses_by_array(knl)[array]
    bound = [d for d in dependences(knl) if d.array == array and d.kind == "flow"]
    apart = copied_over(knl, accesses, [*bound, *assumed_flows(knl, array)])
    found = list(clobbered_values(knl, accesses, bound, lambda a: in_cells(knl, a, apart), trusting=False))
    for d in bound:
        lost = [m.pairs for m in found if m.is_lost and (m.source, m.sink) == (d.source, d.sink)]
        clobbered = [lost[0].intersect_range(wrong.pairs.intersect_domain(moved).range())
                     for wrong in found if lost and not wrong.is_lost and wrong.sink == d.sink
                     for other in assumed for statement, moved in ((other.source, other.relation.domain()),
                                                                   (other.sink, other.relation.range()))
                     if statement == wrong.source]
        clobbered += (relation for other in assumed for relation in _either_last(knl, accesses, other, d, apart))
        for relation in clobbered:
            pairs = d.relation.intersect(relation)
            if not pairs.is_empty():
                yield d, pairs


def _either_last(knl: LoopKernel, accesses: Sequence[Access], other: Dependence, d: Dependence, apart: Sequence[str]
                 ) -> Iterator[Map]:
    """The pairs of the flow *d* whose cell the other end of a pair of *other* writes at once, before the read."""
    writes = {a.statement: in_cells(knl, a, apart).relation for a in accesses if a.is_write}
    if not writes.keys() >= {other.source, other.sink}:
        return
    pairs = other.relation.intersect(same_element(writes[other.source], writes[other.sink]))
    pairs = pairs.subtract(in_order(knl, other.sink, other.source, pairs.reverse()).reverse())
    for mine, others, both in ((other.sink, other.source, pairs.reverse()), (other.source, other.sink, pairs)):
        if d.source == mine:
            reads = both.reverse().apply_range(d.relation)
            reads = reads.subtract(in_order(knl, d.sink, others, reads.reverse()).reverse())
            yield both.apply_range(reads)


def copied_over(knl: LoopKernel, accesses: Sequence[Access], flows: Sequence[Dependence]) -> tuple[str, ...]:
    """The parallel inames along which storage is replicated: no value flows between their instances."""
    shared = [x for x in knl.inames if is_parallel(knl.tags.get(x)) and all(x in a.domain.inames for a in accesses)]
    return tuple(x for x in shared if all(between_iterations(knl, d, [x]) is None for d in flows))


def in_cells(knl: LoopKernel, a: Access, apart: Sequence[str]) -> TimedAccess:
    """The access to the cells in execution order, with a copy of each cell for each value of the inames *apart*."""
    return timed(a, execution_paths(knl)[a.statement], apart)
