"""Bounds: every access is inside its array, for all sizes that the assumptions allow."""
from __future__ import annotations

from collections.abc import Iterator

from loopkit.analysis.accesses import Access, accesses_by_array, why_inexact
from loopkit.analysis.shapes import Shape
from loopkit.errors import BoundsError
from loopkit.kernel.kernel import LoopKernel
from loopkit.lowering.lowered import Lowered, Storage
from loopkit.poly.elements import outside
from loopkit.poly.piecewise import is_piecewise
from loopkit.poly.relations import element_at
from loopkit.poly.sets import InstanceSet
from loopkit.verification.read_subscripts import stays_inside
from loopkit.verification.report import Check, Finding, refuted, smallest_instance, undecided


def bounds(lowered: Lowered) -> Check:
    """Is every access of the lowered kernel inside its array? Temporaries have the shape of their storage."""
    knl = lowered.kernel
    findings: dict[Finding, None] = {}
    cache: dict[object, InstanceSet | None] = {}
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
    if storage is not None:
        inferred = knl.temporaries[name].shape is None
    else:
        inferred = knl.array_args[name].shape is None and knl.array_args[name].shape_like is None
    if inferred:
        return None
    return next((e for e in shape if e is not None and not is_piecewise(e)), None)


def _findings(knl: LoopKernel, a: Access, shape: Shape, storage: Storage | None,
              cache: dict[object, InstanceSet | None]) -> Iterator[Finding]:
    if not a.affine:
        if stays_inside(knl, a, shape, storage):
            return
        yield undecided(f"whether '{a.statement}' stays inside '{a.array}': {why_inexact(knl, a)}.")
        return
    lead = () if storage is None else (storage.lead, storage.lows)
    key = (shape, lead, id(a.domain), a.subscripts)
    if key not in cache:
        cache[key] = _outside(knl, a, shape, storage)
    bad = cache[key]
    if bad is None:
        return
    if not a.must:
        yield undecided(f"whether '{a.statement}' stays inside '{a.array}': {why_inexact(knl, a)}.")
        return
    params, values = smallest_instance(knl, bad)
    element = element_at(a.subscript_relation, params, tuple(values.values()))
    yield refuted(BoundsError(
        f"'{a.statement}' accesses '{a.array}' outside its shape.", array=a.array, parameters=params,
        instance=(a.statement, values), element=element,
        hint="restrict the domain, guard the statement with if=, declare a larger shape" + (
            ", or assume sizes at which it stays inside" if params else "")))


def _outside(knl: LoopKernel, a: Access, shape: Shape, storage: Storage | None) -> InstanceSet | None:
    """The instances that access an element outside; ``None`` if there are none."""
    bad = outside(a.relation if storage is None else storage.touched(a), shape, knl.assumptions)
    return None if bad is None else a.domain.named(bad)
