"""Coverage: no temporary is read before it is written; notes list unwritten output elements."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import combinations

from loopkit.analysis.accesses import Access, accesses_by_array, why_inexact, why_undecided
from loopkit.analysis.dependences import clobbered_reads, dependences, is_reorderable
from loopkit.analysis.must_writes import is_must_write, joint_must_writes
from loopkit.errors import AccessWitness, VerificationError, values_text
from loopkit.kernel.dependence import Dependence
from loopkit.kernel.kernel import LoopKernel
from loopkit.lowering.lowered import Lowered
from loopkit.poly.affine import NotAffineError
from loopkit.poly.elements import missed
from loopkit.poly.flow import JointMustWrite
from loopkit.poly.limits import IMPORTANT, affordable
from loopkit.poly.relations import element_at, in_one_iteration, same_element
from loopkit.poly.sets import InstanceSet, Map, Set
from loopkit.verification.report import Check, Finding, Verdict, refuted, smallest_instance, undecided


def coverage(lowered: Lowered) -> Check:
    """Is each value of a temporary written before it is read?

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
    temporaries = [name for name in by_array if name in knl.temporaries]
    cache: dict[object, Set | None] = {}
    for name in temporaries:
        findings += _reads(knl, by_array[name], flows.get(name, []), cache)
    summary = "no temporaries" if not temporaries else f"{', '.join(temporaries)}: written before read"
    return Check("coverage", summary, tuple(dict.fromkeys(findings)), tuple(notes),
                 claim="no read before a write" if temporaries else "")


# Outputs

def _written(lowered: Lowered, name: str, writes: Sequence[Access]) -> str:
    """A note about the writes to one output."""
    shape = lowered.shapes[name]
    must_writes = [a.relation for a in writes if a.affine and a.must]
    extents = [e for e in shape if e is not None]
    if not must_writes or len(extents) < len(shape):
        doubt = next((why for a in writes if (why := why_inexact(lowered.kernel, a))), "its extent is not known")
        return f"{name}: which elements are written is not known, as {doubt}"
    try:
        known = affordable(lambda: (missed(must_writes, extents, lowered.kernel.assumptions),), otherwise=None,
                           budget=IMPORTANT)
    except NotAffineError:
        return f"{name}: whether every element is written is not known, its shape being no affine form"
    if known is None:
        return f"{name}: whether every element is written is not known, as isl gave up after {IMPORTANT:_} operations"
    (gaps,) = known
    rest = " for certain" if len(must_writes) < len(writes) else ""
    more = affordable(lambda: _more_than_once(writes), otherwise=True)
    often = ", some more than once" if more else " once"
    if gaps is None:
        return f"{name}: every element is written{rest}{often}"
    axes = tuple(f"axis {i}" for i in range(len(extents)))
    params, values = smallest_instance(lowered.kernel, InstanceSet(axes, gaps))
    element = f"{name}[{', '.join(map(str, values.values()))}]"
    return f"{name}: not every element is written{rest}; {values_text(params, 'with {}: ')}{element} is not"


def _more_than_once(writes: Sequence[Access]) -> bool:
    """Can two instances write one element?"""
    return not all(a.affine for a in writes) or any(not a.relation.is_injective() for a in writes) or any(
        not same_element(a.relation, b.relation).is_empty() for a, b in combinations(writes, 2))


# Temporaries

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
            yield _finding(knl, read, read.domain.named(unwritten),
                           exact=all(a.affine and a.must for a in accesses if a.is_write))


def _unwritten(accesses: Sequence[Access], j: int, flows: Sequence[Dependence], joint: Sequence[JointMustWrite],
               several: bool) -> Set | None:
    """The instances of a read without a must-write before them; ``None`` if there are none."""
    read = accesses[j]
    unwritten = read.domain.set
    found = {i: _sources(accesses[i], read, flows, several) for i in range(len(accesses)) if accesses[i].is_write}
    for i, pairs in found.items():
        if is_must_write(accesses[i]):
            unwritten = reduce(Set.subtract, (p.range() for p in pairs), unwritten)
    for one in joint:
        if one.read in (None, j) and not unwritten.is_empty():
            # one of these writes must have run if all of them come before
            behind = [[in_one_iteration(p, one.loops).range() for p in found[i]] for i in one.writes]
            if all(behind):
                unwritten = unwritten.subtract(reduce(Set.intersect, (reduce(Set.union, ranges) for ranges in behind)))
    return None if unwritten.is_empty() else unwritten


def _sources(write: Access, read: Access, flows: Sequence[Dependence], several: bool) -> list[Map]:
    """The pairs in which *write* gives, or may give, *read* its value.

    :arg several: the reading statement has several reads of the array, so a flow may belong to another one.
    """
    pairs = [d.relation for d in flows if d.source == write.statement]
    if not several or not pairs:
        return pairs
    on_one_cell = same_element(write.relation, read.relation)
    return [p.intersect(on_one_cell) for p in pairs]


def _finding(knl: LoopKernel, read: Access, unwritten: InstanceSet, *, exact: bool) -> Finding:
    if not (exact and read.affine and read.must):
        writers = [s.id for s in knl.statements if s.written == read.array]
        return undecided(f"whether '{read.array}' is written before '{read.statement}' reads it: "
                         f"{why_undecided(knl, read.array, read.statement, *writers)}.")
    params, values = smallest_instance(knl, unwritten)
    element = element_at(read.subscript_relation, params, tuple(values.values()))
    return refuted(VerificationError(
        f"'{read.statement}' reads '{read.array}' before anything is written there.", check="coverage",
        witness=AccessWitness(params, (read.statement, values), read.array, element),
        hint=f"write '{read.array}' first, restrict the domain of '{read.statement}', or assume sizes at which it is "
             "written"))
