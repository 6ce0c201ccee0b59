"""Does every read of a temporary find the value that it is meant to find, where its cells and the order are given?"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from loopkit.analysis.accesses import Access
from loopkit.analysis.certainty import sure_writes
from loopkit.analysis.dependences import Dependence
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.poly.flow import TimedAccess, value_flow
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
             timed: Callable[[Access], TimedAccess]) -> Iterator[Misread]:
    """What is wrong with cells that hold the values of one temporary, whose flow is meant to be *flows*.

    :arg timed: an access to its cells, at its place in the order.
    """
    # an update keeps the value that its reduction's init began
    updates = {a.statement for a in accesses if _is_update(knl.statement_by_id[a.statement])}
    lookers = [a for a in accesses if not (a.is_write and a.statement in updates)]
    reads = _reads(lookers)
    wanted = _by_pair((d.source, d.sink, d.relation.intersect_range(reads[d.sink].set))
                      for d in flows if d.sink in reads)
    found = _by_pair((lookers[i].statement, lookers[j].statement, relation)
                     for i, j, relation in value_flow([timed(a) for a in lookers], sure_writes(knl, lookers)))
    for pair, relation in found.items():
        wrong = relation.subtract(wanted[pair]) if pair in wanted else relation
        if not wrong.is_empty():
            yield Misread(*pair, wrong, is_lost=False)
    for pair, relation in wanted.items():
        lost = relation.subtract(found[pair]) if pair in found else relation
        if pair[0] not in updates and not lost.is_empty():
            yield Misread(*pair, lost, is_lost=True)


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
