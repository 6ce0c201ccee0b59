"""Bounds: every access is inside its array, for all sizes that the assumptions allow."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, accesses_by_array, integer_names, is_known, why_inexact
from loopkit.analysis.shapes import Shape
from loopkit.errors import AccessWitness, BoundsError
from loopkit.expr.mappers import children, replaced, subexpressions, variables
from loopkit.expr.nodes import TypeCast
from loopkit.kernel.data import GlobalArg, TemporaryVariable
from loopkit.kernel.kernel import LoopKernel
from loopkit.lowering.lowered import Lowered, Storage
from loopkit.poly.elements import outside
from loopkit.poly.limits import kept
from loopkit.poly.piecewise import is_piecewise, where_holds
from loopkit.poly.relations import element_at
from loopkit.poly.sets import InstanceSet, Set
from loopkit.verification.report import Check, Finding, refuted, smallest_instance, undecided


def bounds(lowered: Lowered) -> Check:
    """Is every access of the lowered kernel inside its array? Temporaries have the shape of their storage."""
    knl = lowered.kernel
    findings: dict[Finding, None] = {}
    cache: dict[object, Set | None] = {}
    count = 0
    for name, accesses in accesses_by_array(knl).items():
        storage = lowered.storages.get(name)
        shape = lowered.shapes[name] if storage is None else storage.shape
        unknown = _unknown_extent(knl, name, shape, storage)
        if unknown is not None:
            findings[undecided(f"whether accesses stay inside '{name}': its extent {unknown} is no affine form of the "
                               "sizes.")] = None
        shape = tuple(e if e is None or is_piecewise(e) else None for e in shape)
        for a in accesses:
            count += 1
            findings.update(dict.fromkeys(_findings(knl, a, shape, storage, cache)))
    return Check("bounds", f"{count} accesses", tuple(findings), claim="in bounds")


def _unknown_extent(knl: LoopKernel, name: str, shape: Shape, storage: Storage | None) -> object:
    """An extent that is not affine, unless the shape is the least that holds all accesses; ``None``: none is."""
    if (storage is not None and knl.temporaries[name].shape is None) or (
            storage is None and knl.array_args[name].shape is None and knl.array_args[name].shape_like is None):
        return None
    return next((e for e in shape if e is not None and not is_piecewise(e)), None)


def _findings(knl: LoopKernel, a: Access, shape: Shape, storage: Storage | None,
              cache: dict[object, Set | None]) -> Iterator[Finding]:
    bad = None
    if a.affine:
        lead = () if storage is None else (storage.lead, storage.lows)
        bad = kept(cache, (shape, lead, id(a.domain), a.subscripts), lambda: _outside(knl, a, shape, storage))
        if bad is None:
            return
    elif _stays_inside(knl, a, shape, storage):
        return
    if bad is None or not a.must:
        yield undecided(f"whether '{a.statement}' stays inside '{a.array}': {why_inexact(knl, a)}.")
        return
    params, values = smallest_instance(knl, a.domain.named(bad))
    element = element_at(a.subscript_relation, params, tuple(values.values()))
    yield refuted(BoundsError(
        f"'{a.statement}' accesses '{a.array}' outside its shape.", check="bounds",
        witness=AccessWitness(params, (a.statement, values), a.array, element, "accesses"),
        hint="restrict the domain, guard the statement with if=, declare a larger shape" + (
            ", or assume sizes at which it stays inside" if params else "")))


def _outside(knl: LoopKernel, a: Access, shape: Shape, storage: Storage | None) -> Set | None:
    return outside(a.relation if storage is None else storage.accessed_cells(a), shape, knl.assumptions)


# Subscripts that are read from memory, by the range of their dtype: a uint8 is 0 to 255

#: Most bytes of an integer whose values can index an array with an element for each value.
_SHORT = 2


def _stays_inside(knl: LoopKernel, a: Access, shape: Shape, storage: Storage | None) -> bool:
    """Does *a* stay inside for all values read into its subscripts? ``False``: it is not known.

    Each value that is read becomes a coordinate with the range of its dtype. A subscript may compute with such values,
    and choose among them by conditions on them.
    """
    names: dict[Expression, p.Variable] = {}
    ranges: dict[str, np.iinfo] = {}
    subscripts = []
    integers = integer_names(knl, knl.statement_by_id[a.statement])
    for s, extent in zip(a.subscripts, shape[len(shape) - len(a.subscripts):], strict=True):
        own = _own_reads(knl, s, integers)
        if own is None or (own and extent is None):
            return False
        for read, info in own.items():
            ranges[names.setdefault(read, p.Variable(f"read_{len(names)}")).name] = info
        subscripts.append(replaced(s, names) if own else s)
    conditions = [c for x, info in ranges.items() for c in ((">=", p.Variable(x) - int(info.min)),
                                                            ("<=", p.Variable(x) - int(info.max)))]
    points = a.domain.onto((*a.domain.inames, *ranges)).where(*conditions)
    allowed = integers.union(points.inames)
    return all(where.is_empty() or (is_known(where, allowed, *chosen) and _outside(
        knl, replace(a, domain=where, subscripts=chosen, known=(True,)*len(chosen)), shape, storage) is None)
               for where, chosen in _choices(points, tuple(subscripts), allowed))


def _own_reads(knl: LoopKernel, subscript: Expression, integers: frozenset[str]
               ) -> Mapping[Expression, np.iinfo] | None:
    """The reads in *subscript*, with their ranges; ``None`` if it computes with more than such values and *integers*.
    """
    reads: dict[Expression, np.iinfo] = {}
    data: dict[str, GlobalArg | TemporaryVariable] = {**knl.array_args, **knl.temporaries}

    def walk(e: Expression) -> bool:
        match e:
            case p.Subscript(aggregate=p.Variable(name=name)) | p.Variable(name=name) if name in data:
                dtype = data[name].dtype
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
    return {} if variables(subscript).isdisjoint(data) else reads if walk(subscript) else None


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
