"""The proof that buffers preserve values: users of a staging buffer leave the same values as users of the array.

It compares the kernels before and after the step. The new statements are the *copy-in*, which writes the buffer, and
the *copy-out*, which writes the array. A *tile* is one iteration of the loops that copy-in, users and copy-out share.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import chain

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, accesses_by_array, accesses_to, analysis_domain, doubt_of
from loopkit.analysis.dependences import End, Pair, between_iterations, joined, moved_dependences, relations_of, timed
from loopkit.analysis.must_writes import is_must_write, joint_must_writes
from loopkit.analysis.order import execution_paths, meeting_of
from loopkit.analysis.shapes import array_shapes
from loopkit.analysis.values_preserved import Flow, WrongValue, beyond, over_copies, without, wrong_values
from loopkit.analysis.witnesses import BrokenPairs, Refusal, element_of, refuse_smallest, shared_element
from loopkit.expr.mappers import subscripts_of
from loopkit.expr.nodes import Neutral
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Dependence, Statement, writing_ends
from loopkit.poly.affine import add, is_quasi_affine, subtract
from loopkit.poly.elements import outside
from loopkit.poly.flow import TimedAccess, value_flow
from loopkit.poly.relations import same_element, subscript_relation
from loopkit.poly.sets import Map, Set, bounded_by

#: The times of copy-in, users and copy-out in a tile.
_COPY_IN, _USER, _COPY_OUT = 0, 1, 2


@dataclass(frozen=True)
class _Buffering:
    """A step *name* from *before* to *after*, in which statements access *buffer* in the place of *array*."""

    before: LoopKernel
    after: LoopKernel
    array: str
    buffer: str
    name: str

    @cached_property
    def users(self) -> tuple[Statement, ...]:
        ids = {a.statement for a in accesses_by_array(self.after)[self.buffer]}
        return tuple(s for s in self.after.statements if s.id in ids and s.id in self.before.statement_by_id)

    @cached_property
    def accesses(self) -> list[Access]:
        ids = {s.id for s in self.users}
        return [a for a in accesses_by_array(self.before)[self.array] if a.statement in ids]

    @cached_property
    def copies(self) -> tuple[Statement, ...]:
        return tuple(s for s in self.after.statements if s.id not in self.before.statement_by_id)

    def of_copies(self, *, is_write: bool) -> list[Access]:
        """The accesses of the copies to the array: the copy-in reads it, the copy-out writes it."""
        return [a for s in self.copies for a in accesses_to(self.after, s.id, self.array, is_write=is_write)]

    @cached_property
    def copy_out(self) -> Statement:
        return next(s for s in self.copies if s.written == self.array)

    @cached_property
    def tile(self) -> tuple[str, ...]:
        return tuple(x for x in self.copy_out.inames if all(x in s.inames for s in self.users))

    def in_tile(self, inames: tuple[str, ...]) -> Map:
        return subscript_relation(inames, tuple(map(p.Variable, self.tile)))

    def elements(self, a: Access) -> Map:
        """From instances to (tile, element)."""
        return self.in_tile(a.domain.inames).flat_range_product(a.relation)

    def outside_of_buffer(self) -> Iterator[Refusal]:
        for a in accesses_by_array(self.after)[self.buffer]:
            bad = outside(a.relation, self.after.temporaries[self.buffer].shape or (), self.after.assumptions)
            if bad is not None:
                yield self.of_points(a, bad, "access", "has no cell in the buffer")

    def of_points(self, a: Access, points: Set, does: str, why: str) -> Refusal:
        return Refusal(BrokenPairs.of_points(self.after, a.statement, a.statement, points, a.array,
                                             element=element_of(a.subscript_relation)),
                       f"{self.name}: '{a.statement}' would {does} an element of '{self.array}' that {why}.",
                       doubt=doubt_of(self.after, a))

    def other_values(self, wanted: Flow, found: Flow, doubt: str | None) -> Iterator[Refusal]:
        """Refusals of lost values, or of wrong ones if none is lost: a lost value often leaves a wrong one."""
        wrong = list(wrong_values(wanted, found))
        for w in [w for w in wrong if w.is_lost] or wrong:
            yield self.of_values(w, doubt)

    def of_values(self, w: WrongValue, doubt: str | None = None) -> Refusal:
        known = w.is_lost and {w.source, w.sink} <= self.before.statement_by_id.keys()
        return Refusal(
            BrokenPairs(self.after, w.source, w.sink, w.pairs, self.array, "flow" if w.is_lost else "value",
                        shared_element(self.before, self.array, "flow", w.source, w.sink) if known else None),
            f"{self.name} would {'lose' if w.is_lost else 'replace'} a value of '{self.array}' that passes through the "
            "buffer.", after=self.after, doubt=doubt)

    def unbound(self, ends: Callable[[Dependence, str, bool], list[End]], known: Flow) -> Iterator[Refusal]:
        """Refusals of dependences of users that no dependence of *known* keeps between the *ends* after the step."""
        users = {s.id for s in self.users}
        for moved in moved_dependences(self.before, {self.array}, ends):
            d, pair = moved.d, (moved.after.source, moved.after.sink)
            if moved.after is d or d.assumed:
                continue
            after = moved.on_one_element(self.after)
            # within a tile the flow of the buffer keeps the order of two users
            relation = between_iterations(self.after, after, self.tile) if users.issuperset((d.source, d.sink)) \
                else after.relation
            for _, lost in beyond({pair: relation}, known) if relation is not None else ():
                accesses = [a for s, wrote in zip((d.source, d.sink), writing_ends(d.kind), strict=True)
                            for a in accesses_to(self.before, s, self.array, is_write=wrote)]
                yield Refusal(
                    BrokenPairs(self.after, d.source, d.sink, moved.origin(lost), self.array, d.kind,
                                shared_element(self.before, self.array, d.kind, d.source, d.sink)),
                    f"{self.name} would not order '{pair[0]}' before '{pair[1]}', which replace '{d.source}' and "
                    f"'{d.sink}'.", after=self.after, doubt=doubt_of(self.before, *accesses))


def require_values_buffered(before: LoopKernel, after: LoopKernel, temporary: str, buffer: str, step: str) -> None:
    """Refuse *after* if a read of *temporary* or of its *buffer* may get another value than in *before*.

    :raises IllegalTransformError: with the instances and the sizes.
    """
    taken = _Buffering(before, after, temporary, buffer, step)
    flow = joined(chain(*(relations_of(after, x, "flow").items() for x in (temporary, buffer))))
    found = taken.other_values(relations_of(before, temporary, "flow"), over_copies(flow, [s.id for s in taken.copies]),
                               doubt_of(before, *accesses_by_array(before)[temporary]))
    refuse_smallest(chain(taken.outside_of_buffer(), found),
                    f"{step}: whether each read of '{temporary}' gets the same value afterwards")


def require_buffered(before: LoopKernel, after: LoopKernel, array: str, buffer: str, step: str) -> None:
    """Refuse *after* if its users of *buffer* may leave something else in the argument *array* than in *before*.

    In each tile, the flow through the cells of the buffer must be that through the elements, and all written elements
    must be copied out. The copies take over the dependences between users and statements outside of their tile.

    :raises IllegalTransformError: with the instances, the sizes and the element.
    :raises UndecidedError: it may, depending on subscripts or conditions that are not affine.
    """
    taken = _Buffering(before, after, array, buffer, step)
    [copy_out] = taken.of_copies(is_write=True)
    stored = taken.elements(copy_out)
    found = [taken.outside_of_buffer(), _wrong_flow(taken, copy_out), (
        taken.of_points(a, a.domain.set.subtract(same_element(stored, taken.elements(a)).range()), "write",
                        "is not stored after it") for a in taken.accesses if a.is_write)]
    if not before.obligations:              # else some dependence may be assumed, and does not bind
        found.append(_unbound(taken, copy_out))
    refuse_smallest(chain(*found), f"{step}: whether '{array}' holds the same values afterwards")


def _wrong_flow(taken: _Buffering, copy_out: Access) -> Iterator[Refusal]:
    """Refusals where the flow through the buffer's cells in a tile differs from the flow through the elements."""
    users, copies_in = taken.accesses, taken.of_copies(is_write=False)
    accesses = [*users, *copies_in, copy_out]
    elements = [taken.elements(a) for a in accesses]
    paths = execution_paths(taken.before)
    # the copy-in writes the elements that it reads into the buffer, the copy-out reads them there
    steps = [TimedAccess(own, a.is_write, is_must_write(a),
                         (("at", _USER), *timed(a, paths[a.statement], taken.tile).time))
             for a, own in zip(users, elements, strict=False)]
    loaded = elements[len(users):-1]
    steps += [TimedAccess(own, True, True, (("at", _COPY_IN),)) for own in loaded]
    steps.append(TimedAccess(elements[-1], False, False, (("at", _COPY_OUT),)))
    unloaded = reduce(Set.subtract, map(Map.range, loaded), reduce(Set.union, map(Map.range, elements)))
    if not unloaded.is_empty():
        # a value from before the copy-in is not in the buffer
        steps.append(TimedAccess(unloaded.identity(), True, True, (("at", _COPY_IN - 1),)))
    wanted: list[tuple[Pair, Map]] = []
    for i, j, relation in value_flow(steps, joint_must_writes(taken.before, users)):
        if i == len(accesses):
            yield taken.of_points(accesses[j], relation.range(), "read", "has not been loaded")
        else:
            wanted.append(((accesses[i].statement, accesses[j].statement), relation))
    yield from taken.other_values(joined(wanted), relations_of(taken.after, taken.buffer, "flow"),
                                  doubt_of(taken.before, *users))


def _unbound(taken: _Buffering, copy_out: Access) -> Iterator[Refusal]:
    """Refusals of pairs of accesses, one of them a write, whose order no dependence keeps after the step."""
    after, known = taken.after, relations_of(taken.after, taken.array)
    copies_in = taken.of_copies(is_write=False)
    for copy_in in copies_in:
        once = same_element(taken.elements(copy_in), taken.elements(copy_out))
        yield from (taken.of_values(WrongValue(*pair, pairs, is_lost=True))
                    for pair, pairs in beyond({(copy_in.statement, copy_out.statement): once}, known))
        # another statement may write what a copy-in reads, even if no user reads it
        for w in (a for a in accesses_by_array(after)[taken.array] if a.is_write):
            ends_of = copy_in.statement, w.statement
            pairs = without(same_element(copy_in.relation, w.relation), known, ends_of)
            pairs = without(pairs.reverse(), known, ends_of[::-1]).reverse()
            yield Refusal(BrokenPairs.on_one_element(after, taken.array, "anti", *ends_of, pairs),
                          f"{taken.name}: no dependence would stop '{w.statement}' from writing the element that "
                          f"'{copy_in.statement}' reads at that time.", after=after, doubt=doubt_of(after, copy_in, w))

    def ends(_: Dependence, statement: str, is_write: bool) -> list[End]:
        own = [taken.elements(a) for a in taken.accesses if a.statement == statement and a.is_write == is_write]
        return [(a.statement, a.is_write, same_element(reduce(Map.union, own), taken.elements(a)))
                for a in (*copies_in, *([copy_out] if is_write else []))] if own else [(statement, is_write, None)]
    yield from taken.unbound(ends, known)


def require_collected(before: LoopKernel, after: LoopKernel, array: str, buffer: str, step: str) -> None:
    """Refuse *after* if its atomic updates of *buffer* may leave something else in *array* than they do in *before*.

    In each tile, the copy-in must set all cells to the neutral element, and the copy-out combine each cell once with
    the element that its users updated. As updates run in any order and grouping, the array has its old value after the
    copy-out of the last user's tile. A dependence of a user becomes one of its tile's copy-out.

    An element combines the values of many updates, of which none is the last. So the wanted flow is from each update to
    the element that it updates, and the found flow leads through the cells; that each arrives once is shown beside it.

    :raises IllegalTransformError: with the instances and the sizes.
    """
    taken = _Buffering(before, after, array, buffer, step)
    [copy_in] = (s for s in taken.copies if s.written == buffer)
    copy_out = taken.copy_out
    _, loaded, _ = _lifted(taken, after, copy_in, copy_in.assignee, copy_in.assignee)
    _, cells, elements = _lifted(taken, after, copy_out, copy_out.expression, copy_out.assignee)
    assert not any(r.broken.sink in (copy_in.id, copy_out.id) for r in taken.outside_of_buffer())
    assert all((_collects(taken, copy_in), cells.is_injective(), cells.range().is_subset(loaded.range())))
    found: list[Refusal] = []
    stores: dict[str, Map] = {}
    for u in taken.users:
        instances, own_cells, updated = _lifted(taken, before, u, u.assignee, before.statement_by_id[u.id].assignee)
        stored = same_element(own_cells, cells)
        arrived = stored.apply_range(elements)
        found += [Refusal(
            BrokenPairs.of_points(after, u.id, u.id, instances.intersect_domain(wrong.pairs.domain()).range(), array),
            f"{step}: the update of '{array}' by '{u.id}' would {'be lost' if wrong.is_lost else 'go elsewhere'}.",
            after=after) for wrong in wrong_values({(u.id, array): updated}, {(u.id, array): arrived})]
        stores[u.id] = instances.reverse().apply_range(stored)

    def ends(_: Dependence, statement: str, is_write: bool) -> list[End]:
        return [(copy_out.id, is_write, stores[statement]) if statement in stores else (statement, is_write, None)]
    refuse_smallest(chain(found, taken.unbound(ends, relations_of(after, array))), step)


def _collects(taken: _Buffering, copy_in: Statement) -> bool:
    """Are the copy-in neutral elements, the users atomic updates and the copy-out their combination, in this order?"""
    copy_out, paths = taken.copy_out, taken.after.paths
    return copy_in == replace(copy_in, expression=Neutral(copy_out.combine or ""), combine=None, predicates=()) \
        and copy_out.commutes and not copy_out.predicates and all(
            u == replace(taken.before.statement_by_id[u.id], assignee=u.assignee, combine=copy_out.combine)
            and u.commutes and u.written == taken.buffer and where.before and set(where.loops) == set(taken.tile)
            for u in taken.users for where in (
                meeting_of(paths, copy_in.id, u.id), meeting_of(paths, u.id, copy_out.id)))


def _lifted(taken: _Buffering, knl: LoopKernel, s: Statement, cell: Expression, element: Expression
            ) -> tuple[Map, Map, Map]:
    """From *s* with a coordinate for each unknown subscript: to instances, (tile, *cell*) and (tile, *element*)."""
    def affine(e: Expression) -> bool:
        return is_quasi_affine(e, s.inames, knl.value_params)
    shape = array_shapes(knl)[taken.array]
    unknown = {e: (p.Variable(f"'{axis}"), shape[axis])
               for axis, e in enumerate(subscripts_of(element)) if not affine(e)}

    def known(e: Expression) -> Expression:
        rests = ((name, subtract(e, other)) for other, (name, _) in unknown.items())
        return e if affine(e) else next((add(name, rest) for name, rest in rests if affine(rest)), e)
    names = (*s.inames, *(name.name for name, _ in unknown.values()))
    points = analysis_domain(knl, s).onto(names)
    for name, extent in unknown.values():
        assert isinstance(extent, int)
        points = points.where(*bounded_by(name.name, 0, extent))
    cells, elements = (taken.in_tile(names).flat_range_product(subscript_relation(
        names, tuple(map(known, subscripts_of(e))))).intersect_domain(points.set) for e in (cell, element))
    return subscript_relation(names, tuple(map(p.Variable, s.inames))), cells, elements
