"""Does every read of a temporary find the value that it is meant to find, where its cells and the order are given?"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pymbolic.primitives as p

from loopkit.analysis.accesses import Access, accesses_by_array
from loopkit.analysis.certainty import certain_write, sure_writes
from loopkit.analysis.dependences import dependences, shared_loops
from loopkit.analysis.order import execution_paths, meeting_of
from loopkit.analysis.waived import careless_reads, met, not_waived
from loopkit.kernel.dependence import Dependence
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import is_parallel
from loopkit.poly.flow import TimedAccess, value_flow
from loopkit.poly.relations import cells, differing, in_time_order, same_element
from loopkit.poly.sets import InstanceSet, Map


@dataclass(frozen=True)
class Misread:
    """Instances of *sink* that find the value of the *source* instances *pairs* gives them, though they must not.

    :ivar is_lost: the other way round: they must find it and do not.
    """

    source: str
    sink: str
    pairs: Map
    is_lost: bool


def misreads(knl: LoopKernel, accesses: Sequence[Access], flows: Sequence[Dependence],
             timed: Callable[[Access], TimedAccess], *, trusting: bool = True) -> Iterator[Misread]:
    """What is wrong with cells that hold the values of one temporary, whose flow is meant to be *flows*.

    :arg timed: an access to its cells, at its place in the order.
    :arg trusting: leave out what a step was accepted on trust for; its flows may be among *flows*.
    """
    # an update keeps the value that its reduction's init, or another write, began
    updates = {a.statement for a in accesses if _is_update(knl.statement_by_id[a.statement])}
    lookers = [a for a in accesses if not (a.is_write and a.statement in updates)]
    reads = _reads(lookers)
    wanted = _by_pair((d.source, d.sink, d.relation.intersect_range(reads[d.sink].set))
                      for d in flows if d.sink in reads)
    found = _by_pair((lookers[i].statement, lookers[j].statement, relation)
                     for i, j, relation in value_flow([timed(a) for a in lookers], sure_writes(knl, lookers)))
    array = lookers[0].array if lookers else ""
    for pair, relation in found.items():
        wrong = relation.subtract(wanted[pair]) if pair in wanted else relation
        if trusting:
            wrong = _answered(knl, array, *pair, wrong)
        if not wrong.is_empty():
            yield Misread(*pair, wrong, is_lost=False)
    for pair, relation in wanted.items():
        lost = relation.subtract(found[pair]) if pair in found else relation
        if trusting:
            lost = not_waived(knl, array, *pair, lost)
        if pair[0] not in updates and not lost.is_empty():
            yield Misread(*pair, lost, is_lost=True)


def _answered(knl: LoopKernel, array: str, source: str, sink: str, wrong: Map) -> Map:
    """Those of the *wrong* pairs that nobody has answered for."""
    if not knl.obligations:
        return wrong
    wrong = not_waived(knl, array, source, sink, wrong)
    careless = careless_reads(knl, array, sink)
    return wrong if careless is None else wrong.subtract_range(careless)


def overtaken(knl: LoopKernel, array: str, given_up: Sequence[Dependence]) -> Iterator[tuple[Dependence, Map]]:
    """Flows of the temporary *array*, with those pairs between which a write now comes whose order was *given_up*.

    That is so in the order that runs, where each element has one cell in all iterations of sequential loops. Writes
    that now run at once may come in either order, whatever ends between them and the reader.
    """
    accesses = accesses_by_array(knl)[array]
    bound = [d for d in dependences(knl) if d.array == array and d.kind == "flow"]
    apart = copied_over(knl, accesses, [*bound, *met(knl, array)])
    found = list(misreads(knl, accesses, bound, lambda a: in_cells(knl, a, apart), trusting=False))
    for d in bound:
        lost = [m.pairs for m in found if m.is_lost and (m.source, m.sink) == (d.source, d.sink)]
        for wrong in found if lost else ():
            if wrong.is_lost or wrong.sink != d.sink:
                continue
            for other in given_up:
                for statement, moved in ((other.source, other.relation.domain()), (other.sink, other.relation.range())):
                    if statement == wrong.source:
                        reads = wrong.pairs.intersect_domain(moved).range()
                        pairs = d.relation.intersect(lost[0]).intersect_range(reads)
                        if not pairs.is_empty():
                            yield d, pairs
        at_once = [relation for other in given_up for relation in _either_last(knl, accesses, other, d, apart)]
        for writes in at_once:
            pairs = d.relation.intersect(writes)
            if not pairs.is_empty():
                yield d, pairs


def _either_last(knl: LoopKernel, accesses: Sequence[Access], other: Dependence, d: Dependence, apart: Sequence[str]
                 ) -> Iterator[Map]:
    """Pairs of the flow *d* whose cell is written at once, before it is read, by the other end of a pair of *other*."""
    writes = {a.statement: in_cells(knl, a, apart).relation for a in accesses if a.is_write}
    if not writes.keys() >= {other.source, other.sink}:
        return
    pairs = other.relation.intersect(same_element(writes[other.source], writes[other.sink]))
    pairs = pairs.subtract(_in_order(knl, other.sink, other.source, pairs.reverse()).reverse())
    for mine, others, both in ((other.sink, other.source, pairs.reverse()), (other.source, other.sink, pairs)):
        if d.source == mine:
            reads = both.reverse().apply_range(d.relation)
            reads = reads.subtract(_in_order(knl, d.sink, others, reads.reverse()).reverse())
            yield both.apply_range(reads)


def _in_order(knl: LoopKernel, source: str, sink: str, pairs: Map) -> Map:
    """Those of *pairs* whose source runs before their sink."""
    where = meeting_of(execution_paths(knl), source, sink)
    return in_time_order(pairs, shared_loops(knl, source, sink, where.loops), where.before)


def copied_over(knl: LoopKernel, accesses: Sequence[Access], flows: Sequence[Dependence]) -> tuple[str, ...]:
    """The parallel inames whose instances have copies of their own: no value goes from one to another."""
    shared = [x for x in knl.inames if is_parallel(knl.tags.get(x)) and all(x in a.domain.inames for a in accesses)]

    def crosses(x: str, d: Dependence) -> bool:
        a, b = knl.statement_by_id[d.source].inames, knl.statement_by_id[d.sink].inames
        return differing(d.relation, [(a.index(x), b.index(x))]) is not None
    return tuple(x for x in shared if not any(crosses(x, d) for d in flows))


def in_cells(knl: LoopKernel, a: Access, apart: Sequence[str]) -> TimedAccess:
    """The access to the cells of all copies, one for each value of the inames *apart*, in the order that runs."""
    inames = a.domain.inames
    copies = cells(inames, [p.Variable(x) for x in apart])
    steps = [("at", step.position) if step.iname is None else ("loop", inames.index(step.iname))
             for step in execution_paths(knl)[a.statement]]
    return TimedAccess(a.relation.flat_range_product(copies), a.is_write, certain_write(a),
                       (*steps, ("at", 1 if a.is_write else 0)))


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
    return s.combine is not None and (s.reduction is not None or s.commutes)
