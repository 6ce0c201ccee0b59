"""The proof that a copy serves its readers: each read of it gets the value that the original read would have got.

It looks at the two kernels alone, not at how the copy was made. A read of the temporary stands where an expression
stood before; the instances of the copy that its value comes from are the flow which lowering holds storage to. Three
things must hold of these pairs (copy, reader): every read has one, the expression that the copy evaluates is the one
that the reader evaluated, and both come behind the same writes of all that the expression reads.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import (
    Access,
    accesses_by_array,
    accesses_of,
    analysis_domain,
    declared,
    doubt_of,
    expanded_expression,
    why_undecided,
)
from loopkit.analysis.dependences import dependences, shared_loops
from loopkit.analysis.order import execution_paths, meeting_of
from loopkit.analysis.witnesses import Refusal, refuse_smallest
from loopkit.errors import IllegalTransformError, UndecidedError, Witness
from loopkit.expr.dtypes import Type, type_of
from loopkit.expr.indices import index_value, is_of_values
from loopkit.expr.mappers import children, head_of
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.obligation import Obligation
from loopkit.kernel.statement import Statement
from loopkit.poly.affine import NotAffineError, names_in
from loopkit.poly.elements import outside
from loopkit.poly.enumerated import affine_on, subscripts_on
from loopkit.poly.relations import (
    any_element,
    element_at,
    in_time_order,
    restrict,
    same_element,
)
from loopkit.poly.sets import InstanceSet, Map


@dataclass(frozen=True)
class StagedRead:
    """A read of the temporary at *subscripts*, by the instances *domain*, where *original* stood before.

    :ivar doubt: why it is not known of each of *domain* that it reads; ``None``: it does.
    """

    reader: Statement
    subscripts: tuple[Expression, ...]
    original: Expression
    domain: InstanceSet
    doubt: str | None

    @property
    def cells(self) -> Map:
        return restrict(subscripts_on(self.domain, self.subscripts), self.domain)


@dataclass
class _Alike:
    """What must agree for two expressions of one form to have one value.

    :ivar copied: affine parts of the copy's expression; *original* those of the reader's, in the same order.
    :ivar references: ``(name, subscripts of the copy, subscripts of the reader)`` of all that is read from memory.
    """

    copied: list[Expression] = field(default_factory=list)
    original: list[Expression] = field(default_factory=list)
    references: list[tuple[str, tuple[Expression, ...], tuple[Expression, ...]]] = field(default_factory=list)


def require_staged(before: LoopKernel, after: LoopKernel, temporary: str, step: str, *, assume: str | None = None,
                   unsafe: bool = False) -> tuple[Obligation, ...]:
    """Refuse *after* if a read of *temporary* may get another value than the read in *before* that it stands for.

    What it gives is owed: the order of writes and copies that the caller answers for. That each read finds a copy of
    what it stands for is never taken on trust.

    :arg assume: why what cannot be decided holds; *unsafe*: accept what is refuted too.
    :raises IllegalTransformError: with the instances, the sizes and the element.
    :raises UndecidedError: a write of what is copied is not affine, so that its order to the copy cannot be decided; or
        it depends on data whether a read that finds no copy is made at all.
    """
    writers = [s for s in after.statements if s.written == temporary]
    for copy in writers[1:] or [s for s in writers if s.predicates or s.combine is not None]:
        raise UndecidedError(f"{step}: whether '{temporary}' is a copy cannot be decided.",
                             f"'{copy.id}' may leave a cell as it was, or combines into it")
    [copy] = writers
    written: Map = accesses_of(after, copy)[-1].relation
    lost = outside(written, after.temporaries[temporary].shape or (), after.assumptions)
    if lost is not None:                    # a cell outside of the temporary holds nothing
        written = written.subtract_domain(lost)
    flows = [d for d in dependences(after) if d.array == temporary and d.kind == "flow"]
    owed: list[Obligation] = []
    refusals: list[Refusal] = []
    for use in _uses(before, after, temporary):
        pairs: Map = same_element(written, use.cells)
        flow = [d.relation for d in flows if d.sink == use.reader.id and d.source == copy.id]
        for relation in flow[1:]:
            flow[0] = flow[0].union(relation)
        pairs = pairs.intersect(flow[0]) if flow else pairs.subtract(pairs)
        alike, other = _another_value(before, after, step, copy, use, pairs)
        wrong = [*_not_covered(after, step, copy, use, pairs), *other]
        if wrong:                           # the writes of another element say nothing of the order
            refusals += wrong
            pairs = reduce(Map.subtract, [r.pairs for r in other], pairs)
            use = replace(use, domain=use.domain.named(pairs.range()))
        for name, ours, theirs in dict.fromkeys(alike.references):
            if name in before.written_names:
                for claim in _other_writes(before, after, copy, use, _Reference(name, ours, theirs), pairs):
                    refusal = _out_of_order(before, after, step, copy, use, claim)
                    if claim.doubt is not None:
                        owed.append(_accepted(before, step, copy, use, claim, assume, unsafe))
                    elif unsafe:
                        owed.append(Obligation(step, "the copy may miss a write, or see one too early: "
                                                     f"{_witness(use, claim, *refusal.smallest)}"))
                    else:
                        refusals.append(refusal)
    refuse_smallest(refusals, f"{step}: whether each read of '{temporary}' finds its value")
    return tuple(dict.fromkeys(owed))


# {{{ the uses

def _uses(before: LoopKernel, after: LoopKernel, temporary: str) -> Iterator[StagedRead]:
    for s in after.statements:
        reads = [a for a in accesses_of(after, s) if a.array == temporary and not a.is_write]
        if not reads:
            continue
        found: dict[tuple[Expression, ...], Expression] = {}
        old = before.statement_by_id[s.id]
        find = partial(_find, before, temporary, found)
        find(expanded_expression(after, s), expanded_expression(before, old), inside=False)
        for new, former in zip(s.subscripts, old.subscripts, strict=True):
            find(new, former, inside=True)
        for subscripts, original in found.items():
            own = [a for a in reads if a.subscripts == subscripts]
            domain = reduce(InstanceSet.union, [a.domain for a in own])
            yield StagedRead(s, subscripts, original, domain, doubt_of(after, *own))


def _find(knl: LoopKernel, temporary: str, found: dict[tuple[Expression, ...], Expression], new: Expression,
          old: Expression, *, inside: bool) -> None:
    """Put what stood in *old* where *new* reads *temporary* into *found*: an index, if that is *inside* a subscript."""
    def typed(e: Expression) -> Type | None:
        return type_of(e, partial(declared, knl))
    if new is old:
        return
    value = index_value(old, typed) if inside else old
    inside = isinstance(new, p.Subscript) or (inside and not is_of_values(old, typed))
    match new:
        case p.Subscript(aggregate=p.Variable(name=name)) if name == temporary:
            found[new.index_tuple] = value
        case p.Variable(name=name) if name == temporary:
            found[()] = value
        case _:
            for a, b in zip(children(new), children(old), strict=True):
                _find(knl, temporary, found, a, b, inside=inside)

# }}}


# {{{ every read has a value

def _not_covered(after: LoopKernel, step: str, copy: Statement, use: StagedRead, pairs: Map) -> Iterator[Refusal]:
    missing = use.domain.set.subtract(pairs.range())
    if not missing.is_empty():
        yield Refusal.of_points(after, use.reader.id, missing, lambda params, _, values: IllegalTransformError(
            f"{step}: '{use.reader.id}' would read an element that '{copy.id}' has not copied.",
            Witness(params, (copy.id, {}), (use.reader.id, values), copy.written,
                    element_at(use.cells, params, tuple(values.values())), "missing")), use.doubt)

# }}}


# {{{ it is the value of the same expression

def _another_value(before: LoopKernel, after: LoopKernel, step: str, copy: Statement, use: StagedRead, pairs: Map
                   ) -> tuple[_Alike, list[Refusal]]:
    """What must agree for the copy to have the reader's value, and where it has another form."""
    value = expanded_expression(after, copy)
    alike = _Alike()
    points = analysis_domain(after, copy)
    ours, theirs = (_Forms(before.value_params, own) for own in (points, use.domain))
    same_form = _align(value, use.original, ours, theirs, before, alike)
    equal: Map = same_element(subscripts_on(points, tuple(alike.copied)),
                              subscripts_on(use.domain, tuple(alike.original)))
    if pairs.is_empty() or (same_form and pairs.is_subset(equal)):
        return alike, []
    wrong = pairs.subtract(equal) if same_form else pairs
    return alike, [Refusal(after, copy.id, use.reader.id, wrong, lambda params, at_copy, at_use: IllegalTransformError(
        f"{step}: '{copy.id}' would copy '{value}' where '{use.reader.id}' reads '{use.original}'.",
        Witness(params, (copy.id, at_copy), (use.reader.id, at_use), copy.written,
                element_at(use.cells, params, tuple(at_use.values())), "value")), use.doubt)]


def _align(new: Expression, old: Expression, ours: _Forms, theirs: _Forms, knl: LoopKernel, alike: _Alike) -> bool:
    """Have both the same form? What must agree besides is put into *alike*."""
    if ours.known(new) and theirs.known(old):
        alike.copied.append(new)
        alike.original.append(old)
        return True
    if type(new) is not type(old):
        return False
    match new:
        case p.Subscript(aggregate=p.Variable(name=name)):
            assert isinstance(old, p.Subscript)
            alike.references.append((name, new.index_tuple, old.index_tuple))
            parts = (new.index_tuple, old.index_tuple)
            if new.aggregate != old.aggregate:
                return False
        case p.Variable(name=name):
            if name in knl.temporaries or name in knl.array_args:
                alike.references.append((name, (), ()))
            return new == old and name not in ours.names
        case _:
            parts = (children(new), children(old))
            if not parts[0]:
                return new == old
            if head_of(new) != head_of(old):
                return False
    return len(parts[0]) == len(parts[1]) and all(
        _align(a, b, ours, theirs, knl, alike) for a, b in zip(*parts, strict=True))


@dataclass(frozen=True)
class _Forms:
    """The expressions that are affine forms at the instances *points*, or are for each value of an iname."""

    params: frozenset[str]
    points: InstanceSet

    @property
    def names(self) -> frozenset[str]:
        return self.params.union(self.points.inames)

    def known(self, *expressions: Expression) -> bool:
        try:
            return all(names_in(e) <= self.names for e in expressions) and affine_on(self.points, expressions)
        except NotAffineError:
            return False

# }}}


# {{{ no write comes between

@dataclass(frozen=True)
class _Reference:
    """A read of *name* by the copy, at *ours*, in the place of the reader's own, at *theirs*."""

    name: str
    ours: tuple[Expression, ...]
    theirs: tuple[Expression, ...]


@dataclass(frozen=True)
class _Unordered:
    """Instances of *write* and the reader that *ref* has on different sides of the reader and of its copy.

    :ivar is_lost: the reader sees the write, its copy does not; else the other way round.
    :ivar doubt: why it is not known of each pair that both touch the element; ``None``: they do.
    """

    write: Access
    elements: Map
    pairs: Map
    is_lost: bool
    doubt: str | None


def _other_writes(before: LoopKernel, after: LoopKernel, copy: Statement, use: StagedRead, ref: _Reference, pairs: Map
                  ) -> Iterator[_Unordered]:
    """Where what was written before the reader read *ref* is not what is written before the copy does."""
    seen = _elements(before, use.reader, ref.theirs, use.domain)
    copied = _elements(after, copy, ref.ours, analysis_domain(after, copy))
    own = [a for a in accesses_of(before, before.statement_by_id[use.reader.id])
           if a.array == ref.name and a.subscripts == ref.theirs and not a.is_write]
    behind = _value_flow if ref.name in before.temporaries else _earlier
    for w in accesses_by_array(before)[ref.name]:
        if w.is_write:
            old, new = behind(before, w, use.reader, seen), behind(after, w, copy, copied).apply_range(pairs)
            for wrong, is_lost in ((old.subtract(new), True), (new.subtract(old), False)):
                if not wrong.is_empty():
                    yield _Unordered(w, seen, wrong, is_lost, doubt_of(before, w, *own))


def _elements(knl: LoopKernel, s: Statement, subscripts: Sequence[Expression], domain: InstanceSet) -> Map:
    if _Forms(knl.value_params, domain).known(*subscripts):
        return restrict(subscripts_on(domain, tuple(subscripts)), domain)
    return restrict(any_element(s.inames, len(subscripts)), domain)


def _earlier(knl: LoopKernel, write: Access, sink: Statement, elements: Map) -> Map:
    """The instances of *write* that run before those of *sink* on the same one of *elements*."""
    where = meeting_of(execution_paths(knl), write.statement, sink.id)
    pairs = same_element(write.relation, elements)
    return in_time_order(pairs, shared_loops(knl, write.statement, sink.id, where.loops), where.before)


def _value_flow(knl: LoopKernel, write: Access, sink: Statement, elements: Map) -> Map:
    """The instances of *write* whose value *sink* reads: a temporary carries values, its cells are settled later."""
    pairs = same_element(write.relation, elements)
    found: Map = pairs.subtract(pairs)
    for d in dependences(knl):
        if d.kind == "flow" and d.array == write.array and d.source == write.statement and d.sink == sink.id:
            found = found.union(d.relation.intersect(pairs))
    return found


def _accepted(before: LoopKernel, step: str, copy: Statement, use: StagedRead, found: _Unordered, assume: str | None,
              unsafe: bool) -> Obligation:
    """What the caller answers for; :raises UndecidedError: nobody does."""
    write = found.write
    if assume is None and not unsafe:
        raise UndecidedError(
            f"{step}: whether '{write.statement}' writes between '{copy.id}' and its use in '{use.reader.id}' "
            "cannot be decided.", why_undecided(before, write.array, write.statement, use.reader.id),
            hint='leave the reader out with within=, or answer for it: assume="..."')
    return Obligation(step, f"'{write.statement}' never writes what '{copy.id}' holds for '{use.reader.id}' "
                            "between the two", assume)


def _out_of_order(before: LoopKernel, after: LoopKernel, step: str, copy: Statement, use: StagedRead, found: _Unordered
                  ) -> Refusal:
    when = "before it is written" if found.is_lost else "after it is overwritten"
    return Refusal(before, found.write.statement, use.reader.id, found.pairs, lambda *at: IllegalTransformError(
        f"{step} would copy an element of '{found.write.array}' {when}.",
        _witness(use, found, *at),
        [f"stage it in a loop that {'begins after' if found.is_lost else 'ends before'} the write: name that loop as "
         "an outer iname"], after=after))


def _witness(use: StagedRead, found: _Unordered, params: Mapping[str, int], at_write: Mapping[str, int],
             at_use: Mapping[str, int]) -> Witness:
    element = element_at(found.elements, params, tuple(at_use.values()))
    first, second = (found.write.statement, at_write), (use.reader.id, at_use)
    return Witness(params, first, second, found.write.array, element, "flow") if found.is_lost else \
        Witness(params, second, first, found.write.array, element, "anti")

# }}}
