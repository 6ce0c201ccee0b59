"""Pairs of instances that may access one element whose subscripts depend on data.

A temporary in a subscript, as in ``c[first + i]``, is a fresh unknown for each of its values. Two instances that read
one value, such as the ``first`` of their block, access one element only if they do so for some value of it.
"""
from __future__ import annotations

from functools import reduce

from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access
from loopkit.analysis.must_writes import setter_of
from loopkit.expr.mappers import variables
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.affine import DIM, is_quasi_affine
from loopkit.poly.piecewise import equal_coordinates
from loopkit.poly.relations import in_one_iteration, same_element, shared_dims
from loopkit.poly.sets import Map


def values_in(knl: LoopKernel, a: Access) -> tuple[tuple[str, str | None], ...]:
    """The temporaries in the subscripts of *a* that are not affine, each with the statement that set it in the same
    iteration; ``None``: there is not one. For two accesses with equal ones, :func:`meeting_accesses` is the same.
    """
    names = sorted({x for i, known in zip(a.subscripts, a.known, strict=True) if not known for x in variables(i)
                    if x in knl.temporaries})
    setters = [setter_of(knl, x, knl.statement_by_id[a.statement]) for x in names]
    return tuple((x, None if s is None else s.id) for x, s in zip(names, setters, strict=True))


def meeting_accesses(knl: LoopKernel, a: Access, b: Access) -> Map:
    """Pairs of instances of *a* and *b*, accesses to one array, that may access one element."""
    sure, maybe = sure_and_maybe(knl, a, b)
    return maybe if sure is None else sure.union(maybe)


def sure_and_maybe(knl: LoopKernel, a: Access, b: Access) -> tuple[Map | None, Map]:
    """The pairs of :func:`meeting_accesses` that access one element for each value in their subscripts, ``None`` if
    no pairs are known to do so, and the others.
    """
    pairs = same_element(a.relation, b.relation)
    if a.affine and b.affine:
        return None, pairs
    ends = knl.statement_by_id[a.statement], knl.statement_by_id[b.statement]
    shared, equal = pairs, list[tuple[Expression, Expression]]()
    allowed = knl.value_params | knl.temporaries.keys()
    for i, j in zip(a.subscripts, b.subscripts, strict=True):
        if not (is_quasi_affine(i, ends[0].inames, allowed) and is_quasi_affine(j, ends[1].inames, allowed)):
            continue
        setters = {x: [setter_of(knl, x, end) for end in ends] for x in variables(i) | variables(j)
                   if x in knl.temporaries}
        if all(s is not None and s is t for s, t in setters.values()):
            own = {x for s, _ in setters.values() if s is not None for x in s.inames}
            shared = in_one_iteration(shared, shared_dims(ends[0].inames, ends[1].inames, [*own]))
            equal.append((i, j))
    meet = equal_coordinates(ends[0].inames, [i for i, _ in equal], ends[1].inames, [j for _, j in equal])
    names = [x for x in knl.temporaries if (k := meet.find_dim_by_name(DIM.param, x)) >= 0
             and meet.involves_dims(DIM.param, k, 1)]
    meet = reduce(lambda m, x: m.project_out(DIM.param, m.find_dim_by_name(DIM.param, x), 1), names, meet)
    both = shared.intersect(meet)
    # the values cancel out, and each instance makes its access
    if not names and len(equal) == len(a.subscripts) and a.doubt is None and b.doubt is None:
        return both, pairs.subtract(shared)
    return None, pairs.subtract(shared).union(both)
