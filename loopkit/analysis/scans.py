"""Scans: reductions in which each instance along an iname adds operands at the end of those of the previous instance.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pymbolic.primitives as p

from loopkit.analysis.accesses import analysis_domain, data_params, expand_rules, expanded_expression, why_undecided
from loopkit.analysis.dependences import dependences
from loopkit.analysis.witnesses import BrokenPairs, parameters_of
from loopkit.errors import PreconditionError, ScheduleError, UndecidedError, instance_text, require_known, values_text
from loopkit.expr.mappers import variables
from loopkit.expr.nodes import to_text
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Dependence, ReductionNode, Statement
from loopkit.kernel.tree import Leaf, leaves, loops_in
from loopkit.poly.affine import add, multiply, remainder
from loopkit.poly.relations import apart_along, identity_on, only_dims, subscript_relation
from loopkit.poly.sets import InstanceSet, lexmin_point


@dataclass(frozen=True)
class Scan:
    """A reduction that is a scan along *sweep*.

    :ivar iname: the only iname of the reduction.
    :ivar shift: the operand that is new at ``sweep = i`` is the one at ``iname = i + shift``; ``None``: an instance has
        several new operands, or their distance varies.
    :ivar newest: the operands of each instance that the previous one does not have.
    :ivar rows: the other inames of its statement; each of their instances is a separate scan.
    """

    node: ReductionNode
    sweep: str
    iname: str
    shift: int | None
    newest: InstanceSet
    rows: tuple[str, ...]


def scan_along(knl: LoopKernel, node: ReductionNode, sweep: str) -> Scan:
    """*node* as a scan along *sweep*, with a proof that it is one.

    :raises UnknownNameError: the statement does not have *sweep*.
    :raises PreconditionError: it is not a scan, with the smallest sizes and instance that show it.
    :raises UndecidedError: its bounds or operands depend on data.
    """
    if len(node.inames) != 1 or node.others:
        raise PreconditionError(f"The reduction of '{node.final}' has several parts, over {', '.join(node.inames)}, "
                                "so it is not a scan.", subject=node.name,
                                hint="make the scan before its inames are split or peeled")
    iname, = node.inames
    init, update = knl.statement_by_id[node.init], knl.statement_by_id[node.update]
    require_known("iname", [sweep], init.inames, where=f"'{node.final}'")
    if isinstance(init.assignee, p.Subscript):
        raise PreconditionError(f"The accumulator '{node.accumulator}' of '{node.final}' has a cell for each iteration "
                                "of loops between whose iterations a scan must carry it.", subject=node.accumulator,
                                hint="make the scan before privatize and expand")
    parts = (expanded_expression(knl, update), *(expand_rules(e, knl.substitutions) for e in update.predicates))
    if any(sweep in variables(e) for e in parts):
        raise PreconditionError(f"The reduction of '{node.final}' is not a scan along '{sweep}': its operand depends "
                                f"on '{sweep}' itself, so no result contains the previous one.", subject=node.name,
                                hint=f"move the part that depends on '{sweep}' out of the reduction")
    if data_params(knl, update.domain) or data_params(knl, init.domain):
        raise UndecidedError(f"Whether the reduction of '{node.final}' is a scan along '{sweep}' cannot be decided.",
                             "its bounds are read from memory", hint="bound it by inames and parameters")
    sums, terms = analysis_domain(knl, init), analysis_domain(knl, update)
    rows = tuple(x for x in init.inames if x != sweep)
    first = sums.subtract(_one_further(sums, sweep))
    several, _ = apart_along(identity_on(first, first, rows), first.inames.index(sweep))
    if not several.is_empty():
        raise _refusal(knl, node, sweep, f"there is a gap before {{at}}, where '{sweep}' starts again",
                       first.named(several.range()), _hint_for_gaps(knl, sums, first.named(several.range()), sweep))
    newest = _newest(knl, node, sums, terms, sweep)
    _require_same_values(knl, update, sweep)
    return Scan(node, sweep, iname, _shift(newest, iname, sweep), newest, rows)


def require_alone(knl: LoopKernel, scan: Scan) -> None:
    """:raises ScheduleError: the loop over the iname of *scan* has other statements than the update."""
    for loop in loops_in(knl.tree):
        if loop.iname == scan.iname and scan.node.update in leaves(loop) and loop.body != Leaf(scan.node.update):
            raise ScheduleError(f"The loop of '{scan.node.update}' over '{scan.iname}' also encloses other statements.",
                                subject=scan.iname, hint="compute them before the reduction, into an array")


def _hint_for_gaps(knl: LoopKernel, sums: InstanceSet, starts: InstanceSet, sweep: str) -> str | None:
    """If *sweep* has a stride: the step that gives it the stride 1. *starts*: instances of *sums* after a gap."""
    ends = [lexmin_point(points.set, (sweep,), parameters_of(knl)) for points in (sums.onto((sweep,)),
                                                                                  starts.onto((sweep,)))]
    first, second = (end[1][sweep] if end is not None else 0 for end in ends)
    if not sums.is_subset(sums.where(("==", remainder(add(p.Variable(sweep), -first), second - first)))):
        return None
    new = knl.fresh_name(f"{sweep}_new")
    old = to_text(add(multiply(second - first, p.Variable(new)), first))
    return (f"a sweep takes each integer from its first to its last: affine_map_inames(knl, '{sweep}', '{new}', "
            f"'{sweep} = {old}') before the scan")


def _refusal(knl: LoopKernel, node: ReductionNode, sweep: str, why: str, points: InstanceSet,
             hint: str | None = None) -> PreconditionError:
    """The error for the smallest of *points*, instances of a part of *node*; ``{at}`` in *why* is replaced by the
    instance.
    """
    point = lexmin_point(points.set, points.inames, parameters_of(knl))
    assert point is not None
    sizes, at = point
    own = {x: v for x, v in at.items() if x in knl.statement_by_id[node.init].inames}
    what = why.format(at=instance_text(node.final, own), **{f"_{x}": v for x, v in at.items()})
    return PreconditionError(
        f"The reduction of '{node.final}' is not a scan along '{sweep}': {values_text(sizes, 'with {}, ')}{what}.",
        subject=node.name,
        hint=hint or f"in a scan only the upper bound moves with '{sweep}': sum(j, x[j]) over 0<=j<={sweep}")


def _one_further(points: InstanceSet, sweep: str) -> InstanceSet:
    """*points* moved by 1 along *sweep*."""
    values = tuple(add(p.Variable(x), int(x == sweep)) for x in points.inames)
    return points.apply(subscript_relation(points.inames, values), points.inames)


def _newest(knl: LoopKernel, node: ReductionNode, sums: InstanceSet, terms: InstanceSet, sweep: str) -> InstanceSet:
    """The operands of each instance that the previous instance does not have."""
    before = _one_further(terms, sweep)
    lost = before.intersect(sums.onto(terms.inames)).subtract(terms)
    iname, = node.inames
    if not lost.is_empty():
        raise _refusal(knl, node, sweep, f"{{at}} leaves out the operand at {iname} = {{_{iname}}}, which the one "
                       "before it has", lost)
    newest = terms.subtract(before)
    rest = [x for x in terms.inames if x != iname]
    inserted, _ = apart_along(identity_on(newest, before.intersect(terms), rest), newest.inames.index(iname))
    if not inserted.is_empty():
        raise _refusal(knl, node, sweep, f"the new operand of {{at}} at {iname} = {{_{iname}}} is not behind those "
                       "that the one before it has", newest.named(inserted.domain()))
    return newest


def _shift(newest: InstanceSet, iname: str, sweep: str) -> int | None:
    """The distance of the new operand from *sweep* if there is one at most and the distance is constant."""
    point = lexmin_point(newest.set, newest.inames)
    if point is None:
        return 0
    shift = point[1][iname] - point[1][sweep]
    there = newest.where(("==", add(p.Variable(iname), -1*p.Variable(sweep), -shift)))
    return shift if newest.is_subset(there) else None


def _require_same_values(knl: LoopKernel, update: Statement, sweep: str) -> None:
    """Each operand has one value, whichever instance of the sweep reads it."""
    into = [d for d in dependences(knl)
            if d.sink == update.id and d.source != update.id and d.array not in ("", update.written)]
    for d in (*_changed_values(knl, into, update, sweep), *_overwritten(knl, into, update, sweep)):
        if not d.exact:
            raise UndecidedError(f"Whether the operands of '{update.id}' keep their values along '{sweep}' cannot be "
                                 "decided.", f"they are read from '{d.array}', and "
                                 f"{why_undecided(knl, d.array, d.source, d.sink)}",
                                 hint="compute them before the loop, into a separate array")
        sizes, source, sink = BrokenPairs(knl, d.source, d.sink, d.relation, d.array, d.kind).smallest
        raise PreconditionError(
            f"The operands of '{update.id}' change along '{sweep}': {values_text(sizes, 'with {}, ')}"
            f"{instance_text(d.source, source)} writes an element of '{d.array}' that "
            f"{instance_text(d.sink, sink)} reads, and other instances read another value there.", subject=d.array,
            hint="write to an array that the reduction does not read")


def _changed_values(knl: LoopKernel, into: Sequence[Dependence], update: Statement, sweep: str
                    ) -> Iterator[Dependence]:
    """Flows of temporaries that bring several values to one operand."""
    rest = [i for i, x in enumerate(update.inames) if x != sweep]
    flows = [(d, only_dims(d.relation, range(len(knl.statement_by_id[d.source].inames)), rest))
             for d in into if d.of_value]
    for i, (d, values) in enumerate(flows):
        others = [other.range() for e, other in flows[:i] if e.array == d.array]
        if not values.is_injective() or not all(values.range().is_disjoint(other) for other in others):
            yield d


def _overwritten(knl: LoopKernel, into: Sequence[Dependence], update: Statement, sweep: str) -> Iterator[Dependence]:
    """Dependences of arguments with a write between two reads of one operand."""
    domain = analysis_domain(knl, update)
    same = identity_on(domain, domain, [x for x in update.inames if x != sweep])
    before = [d for d in dependences(knl) if d.source == update.id]
    for d in into:
        for e in before:
            if not d.of_value and e.sink == d.source and e.array == d.array \
                    and not e.relation.apply_range(d.relation).intersect(same).is_empty():
                yield replace(d, exact=d.exact and e.exact)
