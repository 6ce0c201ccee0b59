"""The proof that copy-in preserves values: each read of the staging buffer gets the value that the original read got.

It compares the kernels before and after the step. A read of the buffer replaces an expression of the kernel before.
The flow of the buffer pairs instances of the copy with such reads. Three conditions must hold: every read has a pair;
in each pair the copy evaluates the expression that the read replaces; and both get the same values for all that the
expression reads.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import (
    Access,
    accesses_by_array,
    accesses_to,
    analysis_domain,
    declared,
    doubt_of,
    expanded_expression,
    is_known,
    why_undecided,
)
from loopkit.analysis.dependences import in_order, relations_of
from loopkit.analysis.values_preserved import wrong_values
from loopkit.analysis.witnesses import BrokenPairs, Refusal, element_of, refuse_smallest
from loopkit.errors import UndecidedError
from loopkit.expr.dtypes import type_of
from loopkit.expr.indices import index_value, is_of_values
from loopkit.expr.mappers import alike, array_of, children, subscripts_of, variables
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Obligation, Statement
from loopkit.poly.affine import is_quasi_affine
from loopkit.poly.elements import outside
from loopkit.poly.piecewise import cells, subscripts_on
from loopkit.poly.relations import same_element
from loopkit.poly.sets import InstanceSet, Map


@dataclass(frozen=True)
class _StagedRead:
    """A read of the temporary at *subscripts*, by the instances *domain*, some of them in *doubt*, for *original*."""

    reader: Statement
    subscripts: tuple[Expression, ...]
    original: Expression
    domain: InstanceSet
    doubt: str | None

    @property
    def cells(self) -> Map:
        return subscripts_on(self.domain, self.subscripts).intersect_domain(self.domain.set)


@dataclass(frozen=True)
class _CopyIn:
    before: LoopKernel
    after: LoopKernel
    copy: Statement
    name: str


def require_copied_in(before: LoopKernel, after: LoopKernel, temporary: str, step: str, *, assume: str | None = None,
                      unsafe: bool = False) -> tuple[Obligation, ...]:
    """Refuse *after* if a read of *temporary* may get another value than the read of *before* that it replaces.

    Returns the orders of writes and copies that the caller assumes. No obligation allows a read without a copy.

    :arg assume: the reason why undecided conditions hold; *unsafe*: accept refuted conditions too.
    :raises IllegalTransformError: with the instances, the sizes and the element.
    :raises UndecidedError: the order of the copy and a write that is not affine cannot be decided; or data decides
        whether a read without a copy is made.
    """
    [copy] = (s for s in after.statements if s.written == temporary)
    assert (copy.predicates, copy.combine) == ((), None)
    taken = _CopyIn(before, after, copy, step)
    [write] = accesses_to(after, copy.id, temporary, is_write=True)
    lost = outside(write.relation, after.temporaries[temporary].shape or (), after.assumptions)
    # a cell outside of the temporary holds nothing
    written = write.relation if lost is None else write.relation.subtract_domain(lost)
    flow = relations_of(after, temporary, "flow")
    obligations: list[Obligation] = []
    refusals: list[Refusal] = []
    for use in _uses(before, after, temporary):
        pairs: Map = same_element(written, use.cells)
        pairs = pairs.intersect(flow.get((copy.id, use.reader.id), Map.empty(pairs.get_space())))
        references, other = _another_value(taken, use, pairs)
        missing = use.domain.set.subtract(pairs.range())
        if other or not missing.is_empty():     # writes of another element imply nothing about the order
            refusals += [Refusal(
                BrokenPairs.of_points(after, copy.id, use.reader.id, missing, temporary,
                                      element=element_of(use.cells)),
                f"{step}: '{use.reader.id}' would read an element that '{copy.id}' has not copied.", doubt=use.doubt),
                *other]
            pairs = reduce(Map.subtract, [r.broken.pairs for r in other], pairs)
            use = replace(use, domain=use.domain.named(pairs.range()))
        for claim in (c for read in references if array_of(read[0]) in before.written_names
                      for c in _other_writes(taken, use, read, pairs)):
            if claim.doubt is not None:
                obligations.append(_obligation(taken, use, claim, assume, unsafe))
            elif unsafe:
                obligations.append(Obligation(step, "the copy may miss a write, or see one too early: "
                                              f"{claim.broken.witness()}"))
            else:
                refusals.append(claim)
    refuse_smallest(refusals, f"{step}: whether each read of '{temporary}' finds its value")
    return tuple(dict.fromkeys(obligations))


def _uses(before: LoopKernel, after: LoopKernel, temporary: str) -> Iterator[_StagedRead]:
    for s in after.statements:
        reads = accesses_to(after, s.id, temporary, is_write=False)
        if not reads:
            continue
        old = before.statement_by_id[s.id]
        found = dict(_originals(before, temporary, expanded_expression(after, s), expanded_expression(before, old),
                                inside=False))
        for new, former in zip(s.subscripts, old.subscripts, strict=True):
            found.update(_originals(before, temporary, new, former, inside=True))
        for subscripts, original in found.items():
            own = [a for a in reads if a.subscripts == subscripts]
            domain = reduce(InstanceSet.union, [a.domain for a in own])
            yield _StagedRead(s, subscripts, original, domain, doubt_of(after, *own))


def _originals(knl: LoopKernel, temporary: str, new: Expression, old: Expression, *, inside: bool
               ) -> Iterator[tuple[tuple[Expression, ...], Expression]]:
    """The subscripts of each read of *temporary* in *new*, with the part of *old* that it replaces."""
    typed = partial(type_of, lookup=partial(declared, knl))
    if new is old:
        return
    value = index_value(old, typed) if inside else old
    inside = isinstance(new, p.Subscript) or (inside and not is_of_values(old, typed))
    match new:
        case p.Subscript(aggregate=p.Variable(name=name)) if name == temporary:
            yield new.index_tuple, value
        case p.Variable(name=name) if name == temporary:
            yield (), value
        case _:
            for a, b in zip(children(new), children(old), strict=True):
                yield from _originals(knl, temporary, a, b, inside=inside)


#: Parts of the copy and of the reader that must have equal values: affine expressions, or elements of one array.
_Parts = tuple[Expression, Expression]


def _another_value(taken: _CopyIn, use: _StagedRead, pairs: Map) -> tuple[Iterable[_Parts], list[Refusal]]:
    """The reads that must find equal values for the copy to have the reader's value, and refusals if they differ."""
    copy, points = taken.copy, analysis_domain(taken.after, taken.copy)
    value = expanded_expression(taken.after, copy)
    parts = list(_aligned(value, use.original, (points, use.domain), taken.before))
    known = dict.fromkeys(filter(None, parts))
    references = [(new, old) for new, old in known if not variables(new).isdisjoint(taken.before.data)]
    if None not in parts:
        affine = [part for part in known if part not in references]
        pairs = pairs.subtract(same_element(subscripts_on(points, tuple(new for new, _ in affine)),
                                            subscripts_on(use.domain, tuple(old for _, old in affine))))
    return references, [] if pairs.is_empty() else [Refusal(
        BrokenPairs(taken.after, copy.id, use.reader.id, pairs, copy.written, "value", element_of(use.cells)),
        f"{taken.name}: '{copy.id}' would copy '{value}' where '{use.reader.id}' reads '{use.original}'.",
        doubt=use.doubt)]


def _aligned(new: Expression, old: Expression, points: tuple[InstanceSet, InstanceSet], knl: LoopKernel
             ) -> Iterator[_Parts | None]:
    """The parts that must be equal, at the *points* of the copy and of the reader; ``None``: two forms differ."""
    if is_known(points[0], knl.value_params, new) and is_known(points[1], knl.value_params, old):
        yield new, old
        return
    ours, theirs = children(new), children(old)
    if isinstance(new, p.Variable) and new == old:
        if new.name in knl.data:
            yield new, old
    elif not alike(new, old):
        if ours or type(new) is not type(old) or new != old:        # two numbers may be equal
            yield None
    else:
        if isinstance(new, p.Subscript) and isinstance(old, p.Subscript) and isinstance(new.aggregate, p.Variable):
            yield (new, old) if new.aggregate == old.aggregate else None
            ours, theirs = ours[1:], theirs[1:]
        for a, b in zip(ours, theirs, strict=True):
            yield from _aligned(a, b, points, knl)


def _other_writes(taken: _CopyIn, use: _StagedRead, read: _Parts, pairs: Map) -> Iterator[Refusal]:
    """Refusals for writes that decide the value of the copy and not that of the reader, or the reverse."""
    before, after, copy, reader = taken.before, taken.after, taken.copy, use.reader.id
    params, name, (ours, theirs) = before.value_params, array_of(read[0]), map(subscripts_of, read)
    seen = _read_elements(use.domain, params, theirs)
    copied = _read_elements(analysis_domain(after, copy), params, ours)
    own = [a for a in accesses_to(before, reader, name, is_write=False) if a.subscripts == theirs]
    for w in accesses_by_array(before)[name]:
        if not w.is_write:
            continue
        wanted, found = _deciding(before, w, reader, seen), _deciding(after, w, copy.id, copied).apply_range(pairs)
        for wrong in wrong_values({(w.statement, reader): wanted}, {(w.statement, reader): found}):
            if wrong.is_lost:
                when, ends = "before it is written", "begins after"
                broken = BrokenPairs(before, w.statement, reader, wrong.pairs, w.array, "flow", element_of(seen))
            else:
                when, ends = "after it is overwritten", "ends before"
                broken = BrokenPairs(before, reader, w.statement, wrong.pairs.reverse(), w.array, "anti",
                                     element_of(seen, source=True))
            yield Refusal(broken, f"{taken.name} would copy an element of '{w.array}' {when}.",
                          [f"stage it in a loop that {ends} the write: name that loop as an outer iname"], after,
                          doubt_of(before, w, *own))


def _read_elements(points: InstanceSet, params: frozenset[str], subscripts: Sequence[Expression]) -> Map:
    relation = subscripts_on(points, tuple(subscripts)) if is_known(points, params, *subscripts) else cells(
        points.inames, [s if is_quasi_affine(s, points.inames, params) else None for s in subscripts])
    return relation.intersect_domain(points.set)


def _deciding(knl: LoopKernel, write: Access, sink: str, elements: Map) -> Map:
    """The instances of *write* that decide the values that *sink* reads: for an argument all earlier ones; for a
    temporary, whose cells lowering allocates later, the sources of its flow.
    """
    pairs = same_element(write.relation, elements)
    if write.array not in knl.temporaries:
        return in_order(knl, write.statement, sink, pairs)
    flow = relations_of(knl, write.array, "flow")
    return pairs.intersect(flow.get((write.statement, sink), Map.empty(pairs.get_space())))


def _obligation(taken: _CopyIn, use: _StagedRead, claim: Refusal, assume: str | None, unsafe: bool) -> Obligation:
    """The obligation for the undecided *claim*; :raises UndecidedError: the caller did not assume it."""
    write = claim.broken.source if claim.broken.kind == "flow" else claim.broken.sink
    if assume is None and not unsafe:
        raise UndecidedError(
            f"{taken.name}: whether '{write}' writes between '{taken.copy.id}' and its use in '{use.reader.id}' "
            "cannot be decided.", why_undecided(taken.before, claim.broken.array, write, use.reader.id),
            hint='leave the reader out with within=, or state why it is legal: assume="..."')
    return Obligation(taken.name, f"'{write}' never writes what '{taken.copy.id}' holds for '{use.reader.id}' "
                                  "between the two", assume)
