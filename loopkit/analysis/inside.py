"""Accesses inside of their arrays: what the analysis proves about one access, or about one of its subscripts."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, integer_names, is_known
from loopkit.analysis.shapes import Shape
from loopkit.expr.mappers import array_of, children, replaced, subexpressions, variables
from loopkit.expr.nodes import TypeCast
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.elements import outside
from loopkit.poly.limits import affordable
from loopkit.poly.piecewise import is_piecewise, where_holds
from loopkit.poly.sets import InstanceSet, Set, bounded_by


def unproven_axes(knl: LoopKernel, a: Access, shape: Shape) -> tuple[int, ...]:
    """The axes of an array of *shape* along which *a* may be outside, as far as is known.

    A call does not check the length of an axis with an unknown extent, so no subscript of it is proven.
    """
    def is_proven(axis: int) -> bool:
        extent = shape[axis]
        if extent is None or not is_piecewise(extent):
            return False
        one = replace(a, subscripts=(a.subscripts[axis],), known=(a.known[axis],))

        def outside_of(x: Access) -> Set | None:
            return outside(x.relation, (extent,), knl.assumptions)
        return affordable(lambda: outside_of(one) is None if one.affine else
                          stays_inside(knl, one, (extent,), outside_of), otherwise=False)
    return tuple(axis for axis in range(len(a.subscripts)) if not is_proven(axis))


# Subscripts that are read from memory, by the range of their dtype: a uint8 is 0 to 255

#: Most bytes of an integer whose values can index an array with an element for each value.
_SHORT = 2


def stays_inside(knl: LoopKernel, a: Access, shape: Shape, outside_of: Callable[[Access], Set | None]) -> bool:
    """Does *a* stay inside for all values read into its subscripts? ``False``: it is not known.

    Each value that is read becomes a coordinate with the range of its dtype. A subscript may compute with such values,
    and choose among them by conditions on them.

    :arg outside_of: the instances at which an affine access is outside; ``None``: there are none.
    """
    names: dict[Expression, Expression] = {}
    ranges: dict[str, np.iinfo] = {}
    for read, info in (found for s in a.subscripts for found in _short_reads(knl, s)):
        name = f"read_{len(names)}"
        if names.setdefault(read, p.Variable(name)) == p.Variable(name):
            ranges[name] = info
    integers = integer_names(knl, knl.statement_by_id[a.statement])
    subscripts = tuple(replaced(s, names) for s in a.subscripts)
    for s, own, extent in zip(a.subscripts, subscripts, shape[len(shape) - len(subscripts):], strict=True):
        computed = (isinstance(e, p.Call | p.Quotient | p.Power | TypeCast | bool | float | complex)
                    for e in subexpressions(own))
        if not variables(s).isdisjoint(knl.data) and (
                extent is None or not variables(own) <= integers.union(ranges) or any(computed)):
            return False
    conditions = (c for x, info in ranges.items() for c in bounded_by(x, int(info.min), int(info.max) + 1))
    points = a.domain.onto((*a.domain.inames, *ranges)).where(*conditions)
    allowed = integers.union(points.inames)
    return all(where.is_empty() or (is_known(where, allowed, *chosen) and outside_of(
        replace(a, domain=where, subscripts=chosen, known=(True,)*len(chosen))) is None)
               for where, chosen in _choices(points, subscripts, allowed))


def _short_reads(knl: LoopKernel, expr: Expression) -> Iterator[tuple[Expression, np.iinfo]]:
    """The reads in *expr* of short integers, with their ranges."""
    if isinstance(expr, p.Subscript | p.Variable):
        name = array_of(expr)
        dtype = knl.data[name].dtype if name in knl.data else None
        # a written array may hold another value when it is read again
        if dtype is not None and dtype.kind in "iu" and dtype.itemsize <= _SHORT and name not in knl.written_names:
            yield expr, np.iinfo(dtype)
            return
    for part in children(expr):
        yield from _short_reads(knl, part)


def _choices(where: InstanceSet, subscripts: tuple[Expression, ...], allowed: frozenset[str]
             ) -> Iterator[tuple[InstanceSet, tuple[Expression, ...]]]:
    """*subscripts* without choices, for each way to choose, and the points at which that way may be taken."""
    choice = next((e for e in chain.from_iterable(map(subexpressions, subscripts)) if isinstance(e, p.If)), None)
    if choice is None:
        yield where, subscripts
        return
    holds = where_holds(where, choice.condition, allowed)
    for taken, points in ((choice.then, holds), (choice.else_, None if holds is None else where.subtract(holds))):
        yield from _choices(where if points is None else points,
                            tuple(replaced(s, {choice: taken}) for s in subscripts), allowed)
