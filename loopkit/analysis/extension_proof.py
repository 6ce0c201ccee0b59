"""The proof that statements may run at more instances: the results at the old instances stay the same.

It compares the kernels before and after the step, as :mod:`loopkit.analysis.copy_in` does. Four conditions must hold.
At its old instances, a statement computes the same value. A new instance reads only elements that were read before, or
values of temporaries that were written. A read at an old instance gets the same value. A new step of a reduction with
a result at an old instance combines the neutral element.
"""
from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from math import prod

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import (
    Access,
    accesses_by_array,
    accesses_of,
    analysis_domain,
    doubt_of,
    expanded_expression,
    integer_names,
)
from loopkit.analysis.dependences import relations_of
from loopkit.analysis.shapes import reached_elements
from loopkit.analysis.values_preserved import Flow, wrong_values
from loopkit.analysis.witnesses import BrokenPairs, Refusal, element_of_sink, refuse_smallest
from loopkit.expr.dtypes import FLOAT64
from loopkit.expr.mappers import alike, children
from loopkit.expr.nodes import REDUCTIONS
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import ReductionNode, Statement
from loopkit.poly.elements import outside, read_beyond
from loopkit.poly.piecewise import where_holds
from loopkit.poly.relations import identity_on
from loopkit.poly.sets import InstanceSet, Map, Set

#: Every dtype of numbers has all integers up to this value, so that sums and products up to it are exact.
_EXACT = 128


@dataclass(frozen=True)
class _Step:
    """A step *name* from *before* to *after*, which extends domains along *inames*."""

    before: LoopKernel
    after: LoopKernel
    name: str
    inames: Collection[str]

    def of_points(self, s: Statement, points: Set, what: str, a: Access | None = None) -> Refusal:
        """The refusal of *points* of *s*: of another value, or at the access *a* of an element without a value."""
        array, kind = (s.written, "value") if a is None else (a.array, "missing")
        element, doubt = (None, None) if a is None else (element_of_sink(a.subscript_relation), doubt_of(self.after, a))
        return Refusal(BrokenPairs.of_points(self.after, s.id, s.id, points, array, kind, element),
                       f"{self.name}: {what}.", doubt=doubt)

    def of_flow(self, source: Statement, sink: Statement, pairs: Map, array: str, what: str, own: Collection[str]
                ) -> Refusal:
        """:arg own: inames without which the step would keep the flow, for hints."""
        leave = [x for x in self.inames if len(self.inames) > 1 and x in own]
        return Refusal(BrokenPairs(self.after, source.id, sink.id, pairs, array, "value"), f"{self.name}: {what}.",
                       [f"leave '{x}' out" for x in leave]
                       or [f"name the statements that run on with within=, '{source.id}' not"],
                       doubt=doubt_of(self.before, *accesses_by_array(self.before)[array]))


def require_extended(before: LoopKernel, after: LoopKernel, step: str, inames: Collection[str] = ()) -> None:
    """Refuse *after*, whose statements run at more points, if a result of *before* may change.

    :arg inames: the inames along which the domains are extended, for hints.
    :raises IllegalTransformError: with the instances, the sizes and the element.
    :raises UndecidedError: a result may change, depending on subscripts or conditions that are not affine.
    """
    refuse_smallest(_refusals(_Step(before, after, step, inames)), f"{step}: whether all results stay the same")


def _refusals(step: _Step) -> Iterator[Refusal]:
    before, after = step.before, step.after
    flows: dict[str, Flow] = {}
    beyond: dict[str, InstanceSet] = {}
    for new in after.statements:
        own = before.statement_by_id[new.id]
        yield from _another_value(step, own, new)      # statements that did not move count too: rules are shared
        if new.domain is not own.domain:
            beyond[new.id] = analysis_domain(after, new).subtract(analysis_domain(before, own))
            for a in accesses_of(after, new):
                if a.array in before.temporaries and a.array not in flows:
                    flows[a.array] = relations_of(after, a.array)
                yield from _outside(step, a, beyond[new.id], flows.get(a.array, {}))
    nodes = {r.accumulator: r for r in before.reductions.values()}
    for t, found in flows.items():
        yield from _combined_beyond(step, nodes[t], beyond) if t in nodes else _another_flow(step, found, t)


def _another_value(step: _Step, own: Statement, new: Statement) -> Iterator[Refusal]:
    """Refusals of the points of *own* at which *new* computes another value."""
    for wrong in _differing(expanded_expression(step.before, own), expanded_expression(step.after, new),
                            analysis_domain(step.before, own), integer_names(step.after, new)):
        yield step.of_points(new, wrong.set, f"'{new.id}' would compute something else")


def _differing(old: Expression, new: Expression, points: InstanceSet, names: frozenset[str]) -> Iterator[InstanceSet]:
    """Sets that hold all *points* at which *new* may have another value than *old*.

    *new* may have branches that *old* does not have, and must have its form otherwise.
    """
    if new is old or new == old:
        return
    if isinstance(new, p.If) and not isinstance(old, p.If):
        holds = where_holds(points, new.condition, names)
        yield points if holds is None else points.subtract(holds)
        yield from _differing(old, new.then, points if holds is None else holds, names)
        return
    if isinstance(new, p.If) and isinstance(old, p.If) and new.condition == old.condition:
        holds = where_holds(points, old.condition, names)
        if holds is not None:               # each branch is that of some of the points
            yield from _differing(old.then, new.then, holds, names)
            yield from _differing(old.else_, new.else_, points.subtract(holds), names)
            return
    if not alike(old, new):
        yield points
    else:
        for a, b in zip(children(old), children(new), strict=True):
            yield from _differing(a, b, points, names)


def _outside(step: _Step, a: Access, beyond: InstanceSet, flow: Flow) -> Iterator[Refusal]:
    """Refusals of elements without a value, or outside of the array, at access *a*; *beyond*: the new instances."""
    before, after = step.before, step.after
    new = after.statement_by_id[a.statement]
    if a.array in after.temporaries:
        bad = outside(a.relation, after.temporaries[a.array].shape or (), after.assumptions)
        if bad is not None:
            yield step.of_points(new, bad, f"'{new.id}' would access an element outside of '{a.array}'", a)
        if a.is_write:
            return
        missing = (beyond if a.domain is analysis_domain(after, new) else beyond.intersect(a.domain)).set
        missing = reduce(Set.subtract, (relation.range() for (_, sink), relation in flow.items() if sink == new.id),
                         missing)
    else:
        reads = [b for b in accesses_by_array(before)[a.array] if not b.is_write]
        missing = read_beyond(a.relation, reached_elements(before, reads))
    yield step.of_points(new, missing, f"'{new.id}' would read an element of '{a.array}' that has no value there", a)


def _another_flow(step: _Step, found: Flow, array: str) -> Iterator[Refusal]:
    """Refusals of reads that were there and get another value."""
    before = step.before
    now = {pair: relation.intersect_range(analysis_domain(before, before.statement_by_id[pair[1]]).set)
           for pair, relation in found.items()}
    wrong = list(wrong_values(relations_of(before, array), now))
    # a lost value has a wrong one in its place
    for w in [w for w in wrong if not w.is_lost] or wrong:
        source, sink = (before.statement_by_id[s] for s in (w.source, w.sink))
        yield step.of_flow(source, sink, w.pairs, array, f"'{sink.id}' would get another value of '{array}'",
                           [x for x in source.inames if x not in sink.inames])


def _combined_beyond(step: _Step, node: ReductionNode, beyond: Mapping[str, InstanceSet]) -> Iterator[Refusal]:
    """Refusals of new updates, those *beyond* the old ones, whose operand is not neutral and changes an old result.

    An accumulator takes its value from all updates of its instance, so that no value is lost.
    """
    before = step.before
    final = before.statement_by_id[node.final]
    for s in (before.statement_by_id[u] for u in node.updates if u in beyond):
        new = identity_on(beyond[s.id], analysis_domain(before, final), before.statement_by_id[node.init].inames)
        if not new.is_empty() and not _is_neutral(step.after, node.operation, s.id, s.domain.named(new.domain())):
            yield step.of_flow(s, final, new, node.accumulator, f"beyond the edge '{s.id}' would combine what is not "
                               f"the neutral element of its {node.operation}", node.inames)


def _is_neutral(knl: LoopKernel, operation: str, update: str, points: InstanceSet) -> bool:
    """Is the operand of *update* the neutral element of *operation* at all of *points*, whatever the data?"""
    if operation in knl.operations:         # a user's operation may start from a value that is not neutral
        return False
    s = knl.statement_by_id[update]
    value = _number(expanded_expression(knl, s), points, integer_names(knl, s))
    return value is not None and value == REDUCTIONS[operation].neutral_of(FLOAT64)


def _number(expr: Expression, points: InstanceSet, names: frozenset[str]) -> int | None:
    """The integer that *expr* equals at all of *points*, in any dtype and order of evaluation; ``None``: not known."""
    match expr:
        case bool():
            return None
        case int() | float():
            value: int | None = int(expr) if isinstance(expr, int) or expr.is_integer() else None
        case p.If():
            holds = where_holds(points, expr.condition, names)
            if holds is None:
                return None
            parts = {_number(branch, where, names)
                     for branch, where in ((expr.then, holds), (expr.else_, points.subtract(holds)))
                     if not where.is_empty()}
            value = parts.pop() if len(parts) == 1 else None
        case p.Sum(children=terms) | p.Product(children=terms):
            whole = [n for c in terms if (n := _number(c, points, names)) is not None]
            value = None if len(whole) < len(terms) else sum(whole) if isinstance(expr, p.Sum) else prod(whole)
        case _:
            return None
    return value if value is not None and abs(value) <= _EXACT else None
