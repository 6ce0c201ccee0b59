"""pad_domain: the iteration domain is padded to full tiles; results beyond the edge are not stored."""
from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from math import isfinite

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_by_array, accesses_of, data_params, expanded_expression
from loopkit.analysis.constructors import rewritten, with_dependences
from loopkit.analysis.dependences import joined_relations, order_of_values, reduction_dependences, with_assumed
from loopkit.analysis.extension_proof import require_extended
from loopkit.analysis.legality import proven
from loopkit.analysis.shapes import reached_elements
from loopkit.analysis.values_preserved import same_flow
from loopkit.errors import PreconditionError, ScheduleError
from loopkit.expr.dtypes import type_of
from loopkit.expr.mappers import called, map_children, subexpressions, variables
from loopkit.expr.text import to_text
from loopkit.kernel.data import SubstitutionRule
from loopkit.kernel.dependence import Dependence
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.poly.domains import condition_of, padded_to_tiles
from loopkit.poly.sets import InstanceSet, with_dim_names
from loopkit.transform.reindex import element, with_domains
from loopkit.transform.step import matching_statements, require_dtype, require_iname, require_positive, transform
from loopkit.transform.subst import rules_using


@transform
def pad_domain(kernel: LoopKernel, lengths: Mapping[str, int], *, value: float = 0,
               within: str | Collection[str] | None = None) -> LoopKernel:
    """Pad the domain of statements that write temporaries: round it up to full tiles along the inames of *lengths*.

    A partial tile then has the text of a full tile: only loads and the final stores have guards. Such guards cost a
    tiled matrix product little; a guard around each multiplication costs a lot. Values computed beyond the edge go into
    cells of temporaries that no statement reads. Reduction steps beyond the end are proven to combine the neutral
    element.

    Array reads beyond the edge yield *value*, through a substitution rule ``a_padded`` for ``a``. :func:`precompute`
    makes a full tile of this rule. Pad the domain before splitting inames by these lengths, or by divisors of them.

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
    for x in sizes:
        require_iname(kernel, x)
    chosen = _chosen(kernel, sizes, within)
    step = f"pad_domain({dict(sizes)})"
    if not isfinite(value):
        raise PreconditionError(f"Arrays go on with a finite number, not with {value!r}.", subject="value")
    padded = {s.id: s for s in with_domains(chosen, partial(_padded, sizes))}
    moved = [s.id for s in chosen if padded[s.id].domain is not s.domain]
    if not moved:
        return kernel
    for s in chosen:
        _require_able(kernel, s, step)
    names = sorted({a.array for s in moved for a in accesses_of(kernel, kernel.statement_by_id[s])
                    if a.array in kernel.temporaries})
    ordered = with_dependences(kernel, partial(_dependences, names))        # those of its tree are in fewer pieces
    for name in names:
        found, known = (joined_relations(d for d in with_assumed(knl) if d.array == name) for knl in (ordered, kernel))
        if not same_flow(found, known):
            raise ScheduleError(f"{step}: earlier steps changed the order in which values come into '{name}'.",
                                subject=name, hint="fill tiles before those steps")
    grown = with_dependences(kernel, partial(_dependences, names),
                             statements=tuple(padded.get(s.id, s) for s in kernel.statements))
    fill = value.item() if isinstance(value, np.generic) else value
    result = _with_padded_reads(kernel, grown, moved, fill)
    require_extended(ordered, result, step, sizes)
    return proven(result)


def _chosen(kernel: LoopKernel, sizes: Mapping[str, int], within: str | Collection[str] | None) -> list[Statement]:
    named = {s.id for s in kernel.statements if s.written in kernel.temporaries} if within is None \
        else matching_statements(kernel, within)
    chosen = [s for s in kernel.statements if s.id in named and not sizes.keys().isdisjoint(s.inames)]
    if not chosen:
        raise PreconditionError(f"No statement with one of {', '.join(sizes)} writes a temporary.",
                                subject=next(iter(sizes), ""), hint="what goes into an array ends where the array does")
    stored = next((s for s in chosen if s.written not in kernel.temporaries), None)
    if stored is not None:
        raise PreconditionError(f"'{stored.id}' writes the array '{stored.written}', of which nothing beyond the edge "
                                "may be written.", subject=stored.id, hint="leave it out of within=")
    return chosen


def _require_able(kernel: LoopKernel, s: Statement, step: str) -> None:
    """:raises PreconditionError: the instances or reads of *s* are not affine, or padding *s* has another effect."""
    node = next((r for r in kernel.reductions.values() if s.id in r.parts), None)
    if s.predicates or data_params(kernel, s.domain):
        why = "whether it runs depends on data"
    elif s.commutes or (node is not None and (node.sweep is not None or node.others)):
        why = "it is an atomic update" if s.commutes else "it is part of a scan, or of a reduction that was peeled"
    elif any(not a.affine or not a.must for a in accesses_of(kernel, s)):
        why = "what it reads or writes is not affine"
    elif any(isinstance(e, p.FloorDiv | p.Remainder) and not isinstance(e.denominator, int)
             for e in subexpressions(expanded_expression(kernel, s))):
        why = "it may divide by zero there"
    elif written := {a.array for a in accesses_of(kernel, s)} & kernel.array_args.keys() & kernel.written_names:
        why = f"it reads '{min(written)}', which the kernel writes"
    else:
        return
    raise PreconditionError(f"{step}: '{s.id}' cannot run on beyond the edge: {why}.", subject=s.id,
                            hint="name the statements that can with within=")


def _padded(sizes: Mapping[str, int], domain: InstanceSet) -> InstanceSet:
    """*domain* rounded up to full tiles; the same object if it consists of full tiles already."""
    found = domain
    for x, length in sizes.items():
        found = padded_to_tiles(found, x, length) if x in found.inames else found
    return domain if found.is_equal(domain) else found


def _with_padded_reads(kernel: LoopKernel, grown: LoopKernel, moved: Collection[str], fill: complex) -> LoopKernel:
    """*grown* where the statements *moved* read arrays through rules with *fill* for elements without a reader."""
    rules: dict[str, SubstitutionRule] = {}
    for array in dict.fromkeys(a.array for s in moved for a in accesses_of(grown, grown.statement_by_id[s])):
        taken = [name for rule in rules.values() for name in (rule.name, *rule.arguments)]
        if array in kernel.array_args and (rule := _rule(kernel, grown, array, moved, fill, taken)) is not None:
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


def _rule(kernel: LoopKernel, grown: LoopKernel, array: str, moved: Collection[str], fill: complex,
          taken: Sequence[str]) -> SubstitutionRule | None:
    """The element of *array*, or *fill* for an element without a reader; ``None`` if all have readers."""
    accesses = accesses_by_array(kernel)[array]
    rank = len(accesses[0].subscripts)
    if not rank:
        return None
    name = kernel.fresh_name(f"{array}_padded", *taken)
    axes = tuple(kernel.fresh_name(f"{array}_axis_{d}", *taken, name) for d in range(rank))
    now = InstanceSet(axes, with_dim_names(reached_elements(kernel, accesses), axes))
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
        raise PreconditionError(f"{fill!r} is no value of '{array}', whose elements are {dtype}.", subject=array,
                                hint="give another value=")
    return SubstitutionRule(name, axes, expr)


def _dependences(names: Sequence[str], found: Sequence[Dependence], after: LoopKernel) -> Iterator[Dependence]:
    """The dependences *found*; for the temporaries *names*, the dependences in the order of *after* replace them."""
    yield from (d for d in found if d.array not in names)
    for name in names:
        nodes = [node for node in after.reductions.values() if node.accumulator == name]
        for node in nodes:
            yield from reduction_dependences(after, node)
        if not nodes:
            yield from order_of_values(after, name)
