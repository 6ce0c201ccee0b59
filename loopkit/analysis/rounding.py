"""Accumulation length: a bound on the roundings in an output, from all reductions and recurrences."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from loopkit.analysis.accesses import accesses_by_array, accesses_of, accesses_to, analysis_domain, data_params, reached
from loopkit.expr.mappers import variables
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.poly.points import extents


def accumulation_length(knl: LoopKernel, sizes: Mapping[str, int]) -> int:
    """The greatest number of operations on the way to an output element, up to a constant.

    The sum of two kinds of products. For each reduction: the extents of its inames. For each statement that reads
    values it contributes to: the extents of the inames that its element does not depend on (an accumulation), or of
    all its inames (a recurrence). An extent that depends on data counts as the largest of *sizes*.
    """
    total = 0
    for node in knl.reductions.values():
        for update in map(knl.statement, node.updates):
            total += prod(_extents(knl, update, [x for x in node.inames if x in update.inames], sizes))
    sources = _sources(knl)
    for statement in knl.statements:
        if statement.id not in knl.reduction_of and statement.written in reached(
                sources[statement.written], lambda name: sources.get(name, ())):
            kept = _kept_inames(knl, statement)
            lengths = _extents(knl, statement, [x for x in statement.inames if x not in (kept or ())], sizes)
            total += sum(lengths) if kept is None else prod(lengths)
    return max(total, 1)


def index_names(knl: LoopKernel) -> frozenset[str]:
    """The arrays whose values decide the elements or the number of other accesses (index arrays)."""
    found = {name for accesses in accesses_by_array(knl).values() for a in accesses for s in a.subscripts
             for name in variables(s) & knl.data.keys()}
    found.update(name for s in knl.statements for name in data_params(knl, s.domain))
    sources = _sources(knl)
    through = reached(found, lambda name: sources.get(name, ()) if name in knl.temporaries else ())
    return frozenset(through & knl.array_args.keys())


def _extents(knl: LoopKernel, statement: Statement, inames: Sequence[str], sizes: Mapping[str, int]) -> list[int]:
    domain = analysis_domain(knl, statement)
    found = extents(domain.set, [domain.inames.index(x) for x in inames], sizes)
    return [max(sizes.values(), default=1) if e is None else e for e in found]


def _kept_inames(knl: LoopKernel, statement: Statement) -> frozenset[str] | None:
    """The inames of the element that *statement* accumulates into; ``None`` where it reads another element."""
    reads, [written] = (accesses_to(knl, statement.id, statement.written, is_write=kind) for kind in (False, True))
    if not reads or any(a.subscripts != written.subscripts for a in reads):
        return None
    return frozenset(name for s in written.subscripts for name in variables(s))


def _sources(knl: LoopKernel) -> Mapping[str, set[str]]:
    """For each written name, the names that its statements read."""
    found: dict[str, set[str]] = {}
    for statement in knl.statements:
        reads = {a.array for a in accesses_of(knl, statement) if not a.is_write}
        if statement.id in knl.reduction_of:
            reads.discard(statement.written)          # the accumulation of a reduction counts as the reduction
        found.setdefault(statement.written, set()).update(reads)
    return found
