"""pad_domain: pads the iteration domain to full tiles; no result beyond the edge is stored.

The proof compares the kernels before and after the step. Four conditions must hold. At its old instances, a statement
computes the same value. A new instance reads only elements that were read before, or values of temporaries that were
written. A read at an old instance gets the same value. A new step of a reduction with a result at an old instance
combines the neutral element.
"""
from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from math import isfinite, prod

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import (
    Access,
    accesses_by_array,
    accesses_of,
    analysis_domain,
    data_params,
    doubt_of,
    expanded_expression,
    integer_names,
)
from loopkit.analysis.constructors import rewritten, with_dependences
from loopkit.analysis.dependences import (
    joined_relations,
    order_of_values,
    reduction_dependences,
    relations_of,
    with_assumed,
)
from loopkit.analysis.legality import proven
from loopkit.analysis.match import Within
from loopkit.analysis.shapes import existing_elements
from loopkit.analysis.values_preserved import Flow, wrong_values
from loopkit.analysis.witnesses import BrokenPairs, Refusal, element_of, refuse_smallest
from loopkit.errors import PreconditionError, ScheduleError
from loopkit.expr.dtypes import FLOAT64, type_of
from loopkit.expr.mappers import alike, called, children, element, map_children, subexpressions, variables
from loopkit.expr.nodes import NumberOperation, TypeCast, to_text
from loopkit.kernel.data import SubstitutionRule
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Dependence, ReductionNode, Statement
from loopkit.poly.domains import condition_of, padded_to_tiles
from loopkit.poly.elements import outside, read_beyond
from loopkit.poly.piecewise import where_holds
from loopkit.poly.relations import identity_on
from loopkit.poly.sets import InstanceSet, Map, Set, with_dim_names
from loopkit.transform.reindex import with_domains
from loopkit.transform.step import known_list, matching_statements, require_dtype, require_positive, transform
from loopkit.transform.subst import rules_using

#: Every dtype of numbers has all integers up to this value, so that sums and products up to it are exact.
_EXACT = 128


@transform
def pad_domain(kernel: LoopKernel, lengths: Mapping[str, int], *, value: float = 0,
               within: Within = None) -> LoopKernel:
    """Pad the domain of statements that write temporaries: round it up to full tiles along the inames of *lengths*.

    A partial tile then has the text of a full tile: only loads and the final stores have guards. Such guards cost a
    tiled matrix product little; a guard around each multiplication costs a lot. Values computed beyond the edge go into
    cells of temporaries that no statement reads. Reduction steps beyond the end are proven to combine the neutral
    element.

    Array reads beyond the edge yield *value*, through a substitution rule ``a_padded`` for ``a``. The edge is that of
    the elements with readers; with a declared shape, it is that of the array along axes without padded reduction
    inames. :func:`precompute` makes a full tile of this rule. Pad the domain before splitting inames by these lengths,
    or by divisors of them.

    :arg lengths: the length of a tile along each iname; tiles count from 0.
    :arg value: the padding value. It must be neutral for the reductions over these inames: 0 for a sum of products.
    :arg within: the statements to pad; default: all that write temporaries and have one of the inames.
    :raises UnknownNameError: there is no such iname.
    :raises PreconditionError: no statement can be padded, or one of them must not be: its domain depends on data, it
        has a non-affine read, it reads an array that the kernel writes, or it may divide by zero beyond the edge.
    :raises ScheduleError: earlier steps changed the order in which values are written to the temporaries.
    :raises IllegalTransformError: a reader would get another value from beyond the edge, for example if a reduction
        combines a value that is not neutral; with its witness.

    >>> knl = lk.make_kernel("{[i, k]: 0<=i<n and 0<=k<l}", "y[i] = sum(k, a[i, k]*x[k])")
    >>> knl = lk.pad_domain(lk.add_dtypes(knl, {"a,x": np.float32}), {"i": 64, "k": 16})
    >>> print(knl.substitutions["a_padded"].expr)
    a[a_axis_0, a_axis_1] if a_axis_0 < n and a_axis_1 < l else 0
    >>> print(knl.statements[0].id, knl.statements[0].domain.text)
    insn.k.init [n] -> { [i] : i >= 0 and 64*floor((-1 + n)/64) >= -63 + i }
    >>> print(knl.statements_text)
    for i
      y[i] = sum(k, a_padded(i, k)*x_padded(k))  {id=insn, if=i < n}
    end
    """
    sizes = {x: require_positive(length, f"the length of a tile along '{x}'") for x, length in lengths.items()}
    known_list("iname", sizes, kernel.inames)
    chosen = _to_pad(kernel, sizes, within)
    step = f"pad_domain({dict(sizes)})"
    if not isfinite(value):
        raise PreconditionError(f"The padding value is a finite number, not {value!r}.", subject="value")
    padded = {s.id: s for s in with_domains(chosen, partial(_padded_domain, sizes))}
    moved = [s.id for s in chosen if padded[s.id].domain is not s.domain]
    if not moved:
        return kernel
    for s in chosen:
        _require_paddable(kernel, s, step)
    names = sorted({a.array for s in moved for a in accesses_of(kernel, kernel.statement_by_id[s])
                    if a.array in kernel.temporaries})
    ordered = with_dependences(kernel, partial(_in_new_order, names))        # those of its tree are in fewer pieces
    for name in names:
        found, known = (joined_relations(d for d in with_assumed(knl) if d.array == name) for knl in (ordered, kernel))
        if any(wrong_values(found, known)):
            raise ScheduleError(f"{step}: earlier steps changed the order in which '{name}' is written.",
                                subject=name, hint="pad the domain before those steps")
    grown = with_dependences(kernel, partial(_in_new_order, names),
                             statements=tuple(padded.get(s.id, s) for s in kernel.statements))
    fill = value.item() if isinstance(value, np.generic) else value
    result = _with_padded_reads(kernel, grown, moved, sizes, fill)
    require_extended(ordered, result, step, sizes)
    return proven(result)


def _to_pad(kernel: LoopKernel, sizes: Mapping[str, int], within: Within) -> list[Statement]:
    named = {s.id for s in kernel.statements if s.written in kernel.temporaries} if within is None \
        else matching_statements(kernel, within)
    chosen = [s for s in kernel.statements if s.id in named and not sizes.keys().isdisjoint(s.inames)]
    if not chosen:
        raise PreconditionError(f"No statement with one of {', '.join(sizes)} writes a temporary.",
                                subject=next(iter(sizes), ""), hint="arrays have no elements beyond their edge")
    stored = next((s for s in chosen if s.written not in kernel.temporaries), None)
    if stored is not None:
        raise PreconditionError(f"'{stored.id}' writes the array '{stored.written}', and no element beyond the edge "
                                "may be written.", subject=stored.id, hint="leave it out of within=")
    return chosen


def _require_paddable(kernel: LoopKernel, s: Statement, step: str) -> None:
    """:raises PreconditionError: the instances or reads of *s* are not affine, or padding *s* has another effect."""
    node = next((r for r in kernel.reductions.values() if s.id in r.parts), None)
    if s.predicates or data_params(kernel, s.domain):
        why = "whether it runs depends on data"
    elif s.commutes or (node is not None and (node.sweep is not None or node.others)):
        why = "it is an atomic update" if s.commutes else "it is part of a scan, or of a reduction that was peeled"
    elif (a := next((a for a in accesses_of(kernel, s) if not a.exact), None)) is not None:
        why = f"its access to '{a.array}' is not affine"
    elif any(isinstance(e, p.FloorDiv | p.Remainder) and not isinstance(e.denominator, int)
             for e in subexpressions(expanded_expression(kernel, s))):
        why = "it may divide by zero there"
    elif written := {a.array for a in accesses_of(kernel, s)} & kernel.array_args.keys() & kernel.written_names:
        why = f"it reads '{min(written)}', which the kernel writes"
    else:
        return
    raise PreconditionError(f"{step}: '{s.id}' cannot run beyond the edge: {why}.", subject=s.id,
                            hint="select the other statements by within=")


def _padded_domain(sizes: Mapping[str, int], domain: InstanceSet) -> InstanceSet:
    """*domain* rounded up to full tiles; the same object if it consists of full tiles already."""
    found = domain
    for x, length in sizes.items():
        found = padded_to_tiles(found, x, length) if x in found.inames else found
    return domain if found.is_equal(domain) else found


def _with_padded_reads(kernel: LoopKernel, grown: LoopKernel, moved: Collection[str], padded_inames: Collection[str],
                       fill: complex) -> LoopKernel:
    """*grown* where the statements *moved* read arrays through rules with *fill* for elements without a reader."""
    summed = {x for node in kernel.reductions.values() for x in node.inames} & {*padded_inames}
    rules: dict[str, SubstitutionRule] = {}
    for array in dict.fromkeys(a.array for s in moved for a in accesses_of(grown, grown.statement_by_id[s])):
        if array in kernel.array_args and (
                rule := _rule(kernel, grown, array, moved, summed, fill)) is not None:
            rules[array] = rule

    def padded(expr: Expression) -> Expression:
        if isinstance(expr, p.Subscript) and isinstance(expr.aggregate, p.Variable) and expr.aggregate.name in rules:
            return p.Call(p.Variable(rules[expr.aggregate.name].name), tuple(map(padded, expr.index_tuple)))
        return map_children(expr, padded)
    read = [kernel.statement_by_id[s].expression for s in moved]
    names = frozenset[str]().union(*map(variables, read), *map(called, read))
    substitutions = {k: replace(r, expr=padded(r.expr)) if k in names or names & rules_using(kernel, [k]) else r
                     for k, r in kernel.substitutions.items()}
    return rewritten(grown, substitutions={**substitutions, **{r.name: r for r in rules.values()}}, statements=tuple(
        replace(s, expression=padded(s.expression)) if s.id in moved else s for s in grown.statements))


def _rule(kernel: LoopKernel, grown: LoopKernel, array: str, moved: Collection[str], summed: Collection[str],
          fill: complex) -> SubstitutionRule | None:
    """The element of *array*, or *fill* for an element without a reader; ``None`` if all have readers.

    Elements that exist by the declared shape need no reader, except along axes of the padded reduction inames *summed*.
    """
    accesses = accesses_by_array(kernel)[array]
    free = [k for k in range(len(accesses[0].subscripts))
            if not any(variables(a.subscripts[k]) & {*summed} for a in accesses)]
    axes = tuple(kernel.fresh_name(f"{array}_axis_{d}") for d in range(len(accesses[0].subscripts)))
    now = InstanceSet(axes, with_dim_names(existing_elements(kernel, accesses, free), axes))
    then = reduce(InstanceSet.union, (InstanceSet(axes, with_dim_names(a.relation.range(), axes))
                                      for a in accesses_by_array(grown)[array] if a.statement in moved))
    if then.is_subset(now):
        return None
    condition = condition_of(now, now.union(then), kernel.assumptions)
    assert condition is not None
    if isinstance(condition, p.LogicalAnd):
        condition = p.LogicalAnd(tuple(sorted(condition.children, key=to_text)))
    expr = p.If(condition, element(array, tuple(map(p.Variable, axes))), fill)
    dtype = require_dtype(array, kernel.array_args[array].dtype)
    if type_of(expr, {array: dtype}.get) != dtype:
        raise PreconditionError(f"'{array}' has elements of {dtype}, which cannot hold {fill!r}.", subject=array,
                                hint="give another value=")
    return SubstitutionRule(kernel.fresh_name(f"{array}_padded"), axes, expr)


def _in_new_order(names: Sequence[str], found: Sequence[Dependence], after: LoopKernel) -> Iterator[Dependence]:
    """The dependences *found*; for the temporaries *names*, the dependences in the order of *after* replace them."""
    yield from (d for d in found if d.array not in names)
    for name in names:
        node = next((node for node in after.reductions.values() if node.accumulator == name), None)
        yield from order_of_values(after, name) if node is None else reduction_dependences(after, node)


@dataclass(frozen=True)
class _Padding:
    """A step *name* from *before* to *after*, which extends domains along *inames*."""

    before: LoopKernel
    after: LoopKernel
    name: str
    inames: Collection[str]

    def of_points(self, s: Statement, points: Set, what: str, a: Access | None = None) -> Refusal:
        """The refusal of *points* of *s*: of another value, or at the access *a* of an element without a value."""
        array, kind = (s.written, "value") if a is None else (a.array, "missing")
        element, doubt = (None, None) if a is None else (element_of(a.subscript_relation), doubt_of(self.after, a))
        return Refusal(BrokenPairs.of_points(self.after, s.id, s.id, points, array, kind, element),
                       f"{self.name}: {what}.", doubt=doubt)

    def of_flow(self, source: Statement, sink: Statement, pairs: Map, array: str, what: str, own: Collection[str]
                ) -> Refusal:
        """:arg own: inames without which the step would keep the flow, for hints."""
        leave = [x for x in self.inames if len(self.inames) > 1 and x in own]
        return Refusal(BrokenPairs(self.after, source.id, sink.id, pairs, array, "value"), f"{self.name}: {what}.",
                       [f"leave '{x}' out" for x in leave]
                       or [f"select the statements to pad by within=, without '{source.id}'"],
                       doubt=doubt_of(self.before, *accesses_by_array(self.before)[array]))


def require_extended(before: LoopKernel, after: LoopKernel, step: str, inames: Collection[str] = ()) -> None:
    """Refuse *after*, whose statements run at more points, if a result of *before* may change.

    :arg inames: the inames along which the domains are extended, for hints.
    :raises IllegalTransformError: with the instances, the sizes and the element.
    :raises UndecidedError: a result may change, depending on subscripts or conditions that are not affine.
    """
    refuse_smallest(_refusals(_Padding(before, after, step, inames)), f"{step}: whether all results stay the same")


def _refusals(step: _Padding) -> Iterator[Refusal]:
    before, after = step.before, step.after
    flows: dict[str, Flow] = {}
    beyond: dict[str, InstanceSet] = {}
    for new in after.statements:
        own = before.statement_by_id[new.id]
        # statements that did not move count too: rules are shared
        for wrong in _differing(expanded_expression(before, own), expanded_expression(after, new),
                                analysis_domain(before, own), integer_names(after, new)):
            yield step.of_points(new, wrong.set, f"'{new.id}' would compute something else")
        if new.domain is not own.domain:
            beyond[new.id] = analysis_domain(after, new).subtract(analysis_domain(before, own))
            for a in accesses_of(after, new):
                if a.array in before.temporaries and a.array not in flows:
                    flows[a.array] = relations_of(after, a.array)
                yield from _without_values(step, a, beyond[new.id], flows.get(a.array, {}))
    nodes = {r.accumulator: r for r in before.reductions.values()}
    for t, found in flows.items():
        yield from _combined_beyond(step, nodes[t], beyond) if t in nodes else _another_flow(step, found, t)


def _differing(old: Expression, new: Expression, points: InstanceSet, names: frozenset[str]) -> Iterator[InstanceSet]:
    """Sets that hold all *points* at which *new* may have another value than *old*.

    *new* may have branches that *old* does not have, and must have its form otherwise.
    """
    if new == old:
        return
    holds = where_holds(points, new.condition, names) if isinstance(new, p.If) else None
    if isinstance(new, p.If) and holds is not None and not isinstance(old, p.If):
        yield points.subtract(holds)
        yield from _differing(old, new.then, holds, names)
    elif isinstance(new, p.If) and holds is not None and isinstance(old, p.If) and new.condition == old.condition:
        yield from _differing(old.then, new.then, holds, names)
        yield from _differing(old.else_, new.else_, points.subtract(holds), names)
    elif not alike(old, new):
        yield points
    else:
        for a, b in zip(children(old), children(new), strict=True):
            yield from _differing(a, b, points, names)


def _without_values(step: _Padding, a: Access, beyond: InstanceSet, flow: Flow) -> Iterator[Refusal]:
    """Refusals of elements without a value, or outside of the array, at access *a*; *beyond*: the new instances."""
    before, after = step.before, step.after
    new = after.statement_by_id[a.statement]
    if a.array in after.temporaries:
        bad = outside(a.relation, after.temporaries[a.array].shape or (), after.assumptions)
        if bad is not None:
            yield step.of_points(new, bad, f"'{new.id}' would access an element outside of '{a.array}'", a)
        if a.is_write:
            return
        missing = reduce(Set.subtract, (relation.range() for (_, sink), relation in flow.items() if sink == new.id),
                         beyond.intersect(a.domain).set)
    else:
        reads = [b for b in accesses_by_array(before)[a.array] if not b.is_write]
        missing = read_beyond(a.relation, existing_elements(before, reads, range(len(a.subscripts))))
    yield step.of_points(new, missing, f"'{new.id}' would read an element of '{a.array}' that has no value there", a)


def _another_flow(step: _Padding, found: Flow, array: str) -> Iterator[Refusal]:
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


def _combined_beyond(step: _Padding, node: ReductionNode, beyond: Mapping[str, InstanceSet]) -> Iterator[Refusal]:
    """Refusals of new updates, those *beyond* the old ones, whose operand is not neutral and changes an old result.

    An accumulator takes its value from all updates of its instance, so that no value is lost.
    """
    before, after = step.before, step.after
    final = before.statement_by_id[node.final]
    # a user's operation may start from a value that is not neutral, and a tuple is not a number
    operation = after.operation(node.operation)
    neutral = operation.neutral_of(FLOAT64) if isinstance(operation, NumberOperation) else None
    for s in (before.statement_by_id[u] for u in node.updates if u in beyond):
        new = identity_on(beyond[s.id], analysis_domain(before, final), before.statement_by_id[node.init].inames)
        operand = expanded_expression(after, after.statement_by_id[s.id])
        if not new.is_empty() and (neutral is None or neutral != _constant_value(
                operand, s.domain.named(new.domain()), integer_names(after, s))):
            yield step.of_flow(s, final, new, node.accumulator, f"beyond the edge '{s.id}' would combine what is not "
                               f"the neutral element of its {node.operation}", node.inames)


def _constant_value(expr: Expression, points: InstanceSet, names: frozenset[str]) -> int | None:
    """The integer that *expr* equals at all of *points*, in any dtype and order of evaluation; ``None``: not known."""
    match expr:
        case bool():
            return None
        case int() | float():
            value: int | None = int(expr) if expr % 1 == 0 else None
        case p.If():
            holds = where_holds(points, expr.condition, names)
            if holds is None:
                return None
            parts = {_constant_value(branch, where, names)
                     for branch, where in ((expr.then, holds), (expr.else_, points.subtract(holds)))
                     if not where.is_empty()}
            value = parts.pop() if len(parts) == 1 else None
        case p.Sum(children=terms) | p.Product(children=terms):
            whole = [n for c in terms if (n := _constant_value(c, points, names)) is not None]
            value = None if len(whole) < len(terms) else sum(whole) if isinstance(expr, p.Sum) else prod(whole)
        case TypeCast(child=child) | p.Call(function=p.Variable(name="tf32"), parameters=(child,)):
            value = _constant_value(child, points, names)
            value = value if value in (0, 1) else None              # these two are in each dtype
        case _:
            return None
    return value if value is not None and abs(value) <= _EXACT else None
