"""Bounds of subscripts that are read from memory, by the range of their dtype: a uint8 is 0 to 255."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, integer_names
from loopkit.analysis.shapes import Shape
from loopkit.expr.mappers import children, map_children, subexpressions, variables
from loopkit.expr.nodes import TypeCast
from loopkit.kernel.kernel import LoopKernel
from loopkit.lowering.lowered import Storage
from loopkit.poly.affine import NotAffineError
from loopkit.poly.elements import outside
from loopkit.poly.enumerated import affine_on, where_holds
from loopkit.poly.sets import InstanceSet

#: Most bytes of an integer whose values can index an array with an element for each value.
_SHORT = 2


def stays_inside(knl: LoopKernel, a: Access, shape: Shape, storage: Storage | None) -> bool:
    """Does *a* stay inside for all values read into its subscripts? ``False``: it is not known.

    Each value that is read becomes a coordinate with the range of its dtype. A subscript may compute with such values,
    and choose among them by conditions on them.
    """
    names: dict[Expression, str] = {}
    ranges: dict[str, np.iinfo] = {}
    subscripts = []
    integers = integer_names(knl, knl.statement_by_id[a.statement])
    for s, extent in zip(a.subscripts, shape[len(shape) - len(a.subscripts):], strict=True):
        own = _own_reads(knl, s, integers)
        if own is None or (own and extent is None):
            return False
        for read, info in own.items():
            ranges[names.setdefault(read, f"read_{len(names)}")] = info
        subscripts.append(_named(s, names) if own else s)
    conditions = [c for x, info in ranges.items() for c in ((">=", p.Variable(x) - int(info.min)),
                                                            ("<=", p.Variable(x) - int(info.max)))]
    points = a.domain.onto((*a.domain.inames, *ranges)).where(*conditions)
    allowed = integers.union(points.inames)
    return all(_inside(knl, replace(a, domain=where, subscripts=chosen, known=(True,)*len(chosen)), shape, storage)
               for where, chosen in _choices(points, tuple(subscripts), allowed))


def _own_reads(knl: LoopKernel, subscript: Expression, integers: frozenset[str]
               ) -> Mapping[Expression, np.iinfo] | None:
    """The reads in *subscript*, with their ranges; ``None`` if it computes with more than such values and *integers*.
    """
    reads: dict[Expression, np.iinfo] = {}

    def walk(e: Expression) -> bool:
        match e:
            case p.Subscript(aggregate=p.Variable(name=name)) | p.Variable(name=name) if name in knl.array_args \
                    or name in knl.temporaries:
                dtype = _dtype(knl, name)
                # a written array may hold another value when it is read again
                short = dtype is not None and dtype.kind in "iu" and dtype.itemsize <= _SHORT
                if dtype is not None and short and name not in knl.written_names:
                    reads[e] = np.iinfo(dtype)
                return e in reads
            case p.Variable(name=name):
                return name in integers
            case p.Call() | p.Quotient() | p.Power() | TypeCast() | bool() | float() | complex():
                return False
            case _:
                return all(map(walk, children(e)))
    data = knl.array_args.keys() | knl.temporaries.keys()
    return {} if variables(subscript).isdisjoint(data) else reads if walk(subscript) else None


def _dtype(knl: LoopKernel, name: str) -> np.dtype | None:
    return knl.array_args[name].dtype if name in knl.array_args else knl.temporaries[name].dtype


def _named(e: Expression, names: Mapping[Expression, str]) -> Expression:
    """*e* with a variable for each read."""
    return p.Variable(names[e]) if e in names else map_children(e, lambda child: _named(child, names))


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
                            tuple(_replaced(s, choice, taken) for s in subscripts), allowed)


def _replaced(e: Expression, old: Expression, new: Expression) -> Expression:
    return new if e == old else map_children(e, lambda child: _replaced(child, old, new))


def _inside(knl: LoopKernel, a: Access, shape: Shape, storage: Storage | None) -> bool:
    if a.domain.is_empty():
        return True
    try:
        return affine_on(a.domain, a.subscripts) and outside(
            a.relation if storage is None else storage.touched(a), shape, knl.assumptions) is None
    except NotAffineError:
        return False
