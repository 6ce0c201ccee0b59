"""Atomic updates: statements that combine something with an element, in any order and at once."""
from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial

from loopkit.analysis.accesses import commute
from loopkit.analysis.constructors import reference_pairs, with_dependences
from loopkit.analysis.dependences import flow_of_values, joined_relations, order_of_values, relations_of
from loopkit.analysis.legality import require_legal
from loopkit.analysis.values_preserved import same_flow
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import update_of
from loopkit.expr.text import to_text
from loopkit.instructions.atomic_update import AtomicUpdate
from loopkit.kernel.dependence import Dependence
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.poly.relations import same_element
from loopkit.transform.step import matching_statements, transform


@transform
def make_atomic(kernel: LoopKernel, within: str | Collection[str] | None = None, *, assume: str | None = None,
                unsafe: bool = False) -> LoopKernel:
    """Execute updates ``a[f] = a[f] + e`` as atomic read-modify-write operations, as the option ``{atomic}`` does.

    Atomic updates of one array by one operation may run in any order and concurrently, in one statement or in several.
    The operations are the reduction operations ``+``, ``*``, ``min``, ``max``, ``and`` and ``or``. Sums of real numbers
    are rounded in the order of execution, as in a reduction. Every other access to the array keeps its order with each
    update.

    :arg within: the statements; default: all that update an element of an array.
    :raises UnknownNameError: a pattern matches nothing of the kernel.
    :raises PreconditionError: a statement is no update; every update is atomic already; or the values of a temporary no
        longer flow in the order of the kernel.
    :raises IllegalTransformError: a reader of a temporary would miss an earlier update.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "h[i // 4] = h[i // 4] + w[i]")
    >>> print(lk.make_atomic(knl, "insn").statements_text)
    for i
      h[i // 4] = h[i // 4] + w[i]  {id=insn, atomic}
    end
    >>> dict(lk.tag_inames(lk.make_atomic(knl), "i:g.0").tags)
    {'i': GroupTag(axis=0)}
    """
    new = _atomic(kernel, within)
    arrays = {s.written for s in new.values()}
    for name in sorted(arrays & kernel.temporaries.keys()):
        if not same_flow(relations_of(kernel, name, "flow"), joined_relations(flow_of_values(kernel, name))):
            raise PreconditionError(
                f"The steps so far have given '{name}' an order that one cell for each element does not keep.",
                subject=name, hint=f"make the updates of '{name}' atomic before these steps, or write {{atomic}}")
    result = with_dependences(kernel, partial(_bound, arrays),
                              statements=tuple(new.get(s.id, s) for s in kernel.statements))
    return require_legal(result, f"make_atomic({', '.join(map(repr, new))})", assume=assume, unsafe=unsafe)


def _atomic(kernel: LoopKernel, within: str | Collection[str] | None) -> dict[str, Statement]:
    """The updates to make atomic, as they are then."""
    chosen = matching_statements(kernel, within)
    # the init and the updates of a reduction belong to its statement, whose operand they make
    named = [s for s in kernel.statements if s.id in chosen and s.id not in kernel.reduction_of and not s.commutes]
    updates = {s.id: update_of(s.assignee, s.expression) for s in named}
    for s in named if within is not None else ():
        if updates[s.id] is None:
            target = to_text(s.assignee)
            raise PreconditionError(f"'{s.id}' is no update of '{target}'.", subject=s.id,
                                    hint=f"an update is written {target} = {target} + e, or with *, min, max, and, or")
    found = {s.id: replace(s, combine=update[0], expression=update[1], instructions=(AtomicUpdate(),))
             for s in named if (update := updates[s.id]) is not None}
    if not found:
        raise PreconditionError(f"There is no update in '{kernel.name}' that is not atomic.", subject=kernel.name,
                                hint="an update is written a[f] = a[f] + e, or with *, min, max, and, or")
    return found


def _bound(arrays: Collection[str], found: Sequence[Dependence], after: LoopKernel) -> Iterator[Dependence]:
    """The dependences that remain once updates of *arrays* are atomic."""
    values = sorted(arrays & after.temporaries.keys())
    for d in found:
        if d.array in values:
            continue
        if d.array not in arrays:
            yield d
            continue
        pairs = reference_pairs(after, d)
        bound = [(a, b) for a, b in pairs if not commute(a, b)]
        if len(bound) == len(pairs):
            yield d
            continue
        for a, b in bound:
            relation = d.relation.intersect(same_element(a.relation, b.relation))
            if not relation.is_empty():
                yield replace(d, relation=relation)
    for name in values:
        yield from order_of_values(after, name)
