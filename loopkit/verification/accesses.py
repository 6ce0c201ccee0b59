"""The checks of bounds and coverage: each access is inside its array, and each read element of a temporary is written.

Both hold for all sizes that the assumptions allow. Notes list the unwritten elements of outputs.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import combinations

from loopkit.analysis.accesses import Access, accesses_by_array, why_inexact, why_undecided
from loopkit.analysis.dependences import clobbered_reads, dependences, is_reorderable
from loopkit.analysis.inside import stays_inside
from loopkit.analysis.must_writes import is_must_write, joint_must_writes
from loopkit.analysis.shapes import Shape
from loopkit.analysis.witnesses import parameters_of
from loopkit.errors import AccessWitness, BoundsError, VerificationError, values_text
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Dependence
from loopkit.lowering.lowered import Lowered
from loopkit.lowering.stored import Storage
from loopkit.poly.affine import NotAffineError
from loopkit.poly.elements import missed, outside
from loopkit.poly.flow import JointMustWrite
from loopkit.poly.limits import IMPORTANT, affordable, kept
from loopkit.poly.piecewise import is_piecewise
from loopkit.poly.relations import element_at, in_one_iteration, same_element
from loopkit.poly.sets import Map, Set, lexmin_point
from loopkit.verification.report import Check, Finding, Verdict, refuted, undecided


def bounds(lowered: Lowered) -> Check:
    """Check that every access of the lowered kernel is inside its array, or inside the storage of its temporary."""
    knl = lowered.kernel
    findings: dict[Finding, None] = {}
    cache: dict[object, Set | None] = {}
    count = 0
    for name, accesses in accesses_by_array(knl).items():
        storage = lowered.storages.get(name)
        shape = lowered.shapes[name] if storage is None else storage.shape
        unknown = _unknown_extent(knl, name, shape, storage)
        if unknown is not None:
            findings[undecided(f"whether accesses stay inside '{name}': its extent {unknown} is not an affine form of "
                               "the sizes.")] = None
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
    elif stays_inside(knl, a, shape, lambda x: _outside(knl, x, shape, storage)):
        return
    if bad is None or a.doubt is not None:
        yield undecided(f"whether '{a.statement}' stays inside '{a.array}': {why_inexact(knl, a)}.")
        return
    params, values, element = _smallest(knl, a, bad)
    yield refuted(BoundsError(
        f"'{a.statement}' accesses '{a.array}' outside its shape.", check="bounds",
        witness=AccessWitness(params, (a.statement, values), a.array, element, "accesses"),
        hint=f"restrict the domain, guard {_guarded(a)}, declare a larger shape" + (
            ", or assume sizes at which it stays inside" if params else "") + "".join(
            f': assumptions="{x} >= 0"' for x in [x for x, value in params.items() if value < 0][:1])))


def _guarded(a: Access) -> str:
    """The part of a statement that a guard of *a* encloses."""
    return "the statement with if=" if a.is_write else f"the read by if(..., {a.array}[...], 0)"


def _outside(knl: LoopKernel, a: Access, shape: Shape, storage: Storage | None) -> Set | None:
    return outside(a.relation if storage is None else storage.accessed_cells(a), shape, knl.assumptions)


# Coverage

def coverage(lowered: Lowered) -> Check:
    """Check that each value of a temporary is written before it is read.

    Elements of outputs that are not written, or written more than once, are legal: notes list them.
    """
    knl = lowered.kernel
    by_array = accesses_by_array(knl)
    notes = [_written(lowered, name, [a for a in by_array[name] if a.is_write])
             for name in knl.array_args if name in knl.written_names]
    findings: list[Finding] = []
    flows: dict[str, list[Dependence]] = {}
    for d in dependences(knl):
        if d.of_value and d.kind == "flow" and not is_reorderable(knl, d):
            flows.setdefault(d.array, []).append(d)
    temporaries = [name for name in by_array if name in knl.temporaries and not knl.temporaries[name].read_only]
    cache: dict[object, Set | None] = {}
    for name in temporaries:
        findings += _reads(knl, by_array[name], flows.get(name, []), cache)
    summary = "no temporaries" if not temporaries else f"{', '.join(temporaries)}: written before read"
    return Check("coverage", summary, tuple(dict.fromkeys(findings)), tuple(notes),
                 claim="no read before a write" if temporaries else "")


def _written(lowered: Lowered, name: str, writes: Sequence[Access]) -> str:
    """A note about the writes to one output."""
    shape = lowered.shapes[name]
    must_writes = [a.relation for a in writes if a.exact]
    extents = [e for e in shape if e is not None]
    if not must_writes or len(extents) < len(shape):
        doubt = next((why for a in writes if (why := why_inexact(lowered.kernel, a))), "its extent is unknown")
        return f"{name}: which elements are written is unknown, because {doubt}"
    try:
        known = affordable(lambda: (missed(must_writes, extents, lowered.kernel.assumptions),), otherwise=None,
                           budget=IMPORTANT)
    except NotAffineError:
        return f"{name}: whether every element is written is unknown, because its shape is not an affine form"
    if known is None:
        return f"{name}: whether every element is written is unknown: isl stopped after {IMPORTANT:_} operations"
    (gaps,) = known
    rest = " whatever the data" if len(must_writes) < len(writes) else ""
    more = affordable(lambda: _more_than_once(writes), otherwise=True)
    often = ", some more than once" if more else " once"
    if gaps is None:
        return f"{name}: every element is written{rest}{often}"
    axes = tuple(f"axis {i}" for i in range(len(extents)))
    params, values = _smallest_point(lowered.kernel, gaps, axes)
    element = f"{name}[{', '.join(map(str, values.values()))}]"
    return f"{name}: not every element is written{rest}; {values_text(params, 'with {}: ')}{element} is not"


def _more_than_once(writes: Sequence[Access]) -> bool:
    """Can two instances write one element?"""
    return not all(a.affine for a in writes) or any(not a.relation.is_injective() for a in writes) or any(
        not same_element(a.relation, b.relation).is_empty() for a, b in combinations(writes, 2))


def _reads(knl: LoopKernel, accesses: Sequence[Access], flows: Sequence[Dependence], cache: dict[object, Set | None]
           ) -> Iterator[Finding]:
    """Reads of one temporary that may run before any write of their element."""
    joint = joint_must_writes(knl, accesses)
    for j, read in enumerate(accesses):
        if read.is_write:
            continue
        own = [d for d in flows if d.sink == read.statement]
        several = sum(a.statement == read.statement and not a.is_write for a in accesses) > 1
        key = (id(read.domain), read.subscripts if several else None, tuple(id(d.relation) for d in own))
        if joint or key not in cache:
            cache[key] = _unwritten(accesses, j, own, joint, several)
        unwritten = cache[key]
        clobbered = None if unwritten is None else clobbered_reads(knl, read.array, read.statement)
        if unwritten is not None and clobbered is not None:
            yield Finding(Verdict.ASSUMED, f"that '{read.statement}' may find any value in '{read.array}' is an "
                                           "obligation of the kernel.")
            unwritten = unwritten.subtract(clobbered)
        if unwritten is not None and not unwritten.is_empty():
            yield _finding(knl, read, unwritten,
                           exact=all(a.exact for a in accesses if a.is_write))


def _unwritten(accesses: Sequence[Access], j: int, flows: Sequence[Dependence], joint: Sequence[JointMustWrite],
               several: bool) -> Set | None:
    """The instances of a read without a must-write before them; ``None`` if there are none."""
    read = accesses[j]
    unwritten = read.domain.set
    found = {i: _flow_between(accesses[i], read, flows, several) for i in range(len(accesses)) if accesses[i].is_write}
    for one in (*(JointMustWrite((i,)) for i in found if is_must_write(accesses[i])), *joint):
        if one.read in (None, j) and not unwritten.is_empty():
            # one of these writes must have run if all of them come before
            behind = [[in_one_iteration(pairs, one.loops).range() for pairs in found[i]] for i in one.writes]
            if all(behind):
                unwritten = unwritten.subtract(reduce(Set.intersect, (reduce(Set.union, ranges) for ranges in behind)))
    return None if unwritten.is_empty() else unwritten


def _flow_between(write: Access, read: Access, flows: Sequence[Dependence], several: bool) -> list[Map]:
    """The pairs in which *write* gives, or may give, *read* its value.

    :arg several: the reading statement has several reads of the array, so a flow may belong to another one.
    """
    pairs = [d.relation for d in flows if d.source == write.statement]
    if not several or not pairs:
        return pairs
    on_one_cell = same_element(write.relation, read.relation)
    return [relation.intersect(on_one_cell) for relation in pairs]


def _finding(knl: LoopKernel, read: Access, unwritten: Set, *, exact: bool) -> Finding:
    if not (exact and read.exact):
        writers = [s.id for s in knl.statements if s.written == read.array]
        return undecided(f"whether '{read.array}' is written before '{read.statement}' reads it: "
                         f"{why_undecided(knl, read.array, read.statement, *writers)}.")
    params, values, element = _smallest(knl, read, unwritten)
    return refuted(VerificationError(
        f"'{read.statement}' reads '{read.array}' before anything is written there.", check="coverage",
        witness=AccessWitness(params, (read.statement, values), read.array, element),
        hint=f"write '{read.array}' first, restrict the domain of '{read.statement}', or assume sizes at which it is "
             "written"))


def _smallest(knl: LoopKernel, a: Access, points: Set) -> tuple[dict[str, int], dict[str, int], tuple[int, ...]]:
    """The parameters and the inames of the smallest of *points*, and the element that *a* accesses there."""
    params, values = _smallest_point(knl, points, a.domain.inames)
    return params, values, element_at(a.subscript_relation, params, tuple(values.values()))


def _smallest_point(knl: LoopKernel, points: Set, names: tuple[str, ...]) -> tuple[dict[str, int], dict[str, int]]:
    point = lexmin_point(points, names, parameters_of(knl))
    assert point is not None
    return point
