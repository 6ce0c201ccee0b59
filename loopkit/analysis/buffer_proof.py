"""The proof that a buffer serves: statements that work on it leave in the array what they would have left there.

As :mod:`loopkit.analysis.staging_proof`, it compares two kernels and knows nothing of how the second was made. A
*filling* of the buffer is one iteration of the loops that its loading, its users and its storing share. Within one, the
values must flow through the cells as they flowed through the elements, from the loading and to the storing; all that is
written must be stored; and what bound a user to others outside of its filling must bind the loading and the storing.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, accesses_by_array, accesses_of, doubt_of
from loopkit.analysis.certainty import certain_write, sure_writes
from loopkit.analysis.dependences import dependences, shared_loops
from loopkit.analysis.order import execution_paths, meeting_of
from loopkit.analysis.witnesses import Refusal, refuse_smallest
from loopkit.errors import IllegalTransformError, Witness
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.elements import outside
from loopkit.poly.flow import TimedAccess, value_flow
from loopkit.poly.relations import (
    cells,
    element_at,
    in_time_order,
    same_element,
    subscript_relation,
)
from loopkit.poly.sets import Map, Set

#: Two statements.
Pair = tuple[str, str]

#: The times of loading, using and storing.
_LOADING, _USER, _STORING = 0, 1, 2


@dataclass(frozen=True)
class _Touch:
    """What touches a value on its way: a user, the loading or the storing.

    :ivar access: to the array.
    :ivar elements: instances to (filling, element of the array).
    :ivar is_write: it writes the buffer.
    """

    access: Access
    elements: Map
    is_write: bool
    time: tuple[tuple[str, int], ...]

    @property
    def statement(self) -> str:
        return self.access.statement


def require_buffered(before: LoopKernel, after: LoopKernel, array: str, buffer: str, step: str) -> None:
    """Refuse *after* if its users of *buffer* may leave something else in *array* than they do in *before*.

    :raises IllegalTransformError: with the instances, the sizes and the element.
    :raises UndecidedError: it may, depending on subscripts or conditions that are not affine.
    """
    users = {a.statement for a in accesses_by_array(after)[buffer] if a.statement in before.statement_by_id}
    new = [s for s in after.statements if s.id not in before.statement_by_id]
    loading = next((s.id for s in new if s.written == buffer), None)
    storing = next(s.id for s in new if s.written == array)
    filling = tuple(x for x in after.statement_by_id[storing].inames
                    if all(x in after.statement_by_id[u].inames for u in users))
    accesses = accesses_by_array(before)[array]
    touches = list(_touches(before, after, accesses, users, filling, loading, storing))
    found = [outside_of(after, array, buffer, step), _another_flow(before, after, array, buffer, step, touches)]
    store = next(s for s in touches if s.statement == storing)
    found += [_not_stored(after, array, step, t, store) for t in touches if t.is_write and t.statement != loading]
    if not before.obligations:              # else an order that was given up binds no more
        found.append(_unbound(before, after, array, step, _Users(accesses, touches, loading, storing), filling))
    refuse_smallest(chain(*found), f"{step}: whether '{array}' holds the same values afterwards")


def _touches(before: LoopKernel, after: LoopKernel, accesses: Sequence[Access], users: set[str],
             filling: Sequence[str], loading: str | None, storing: str) -> Iterator[_Touch]:
    for a in accesses:
        if a.statement in users:
            inames = before.statement_by_id[a.statement].inames
            # only what is of one filling meets, so that its loops tell no times apart
            steps = (("at", s.position) if s.iname is None else ("loop", inames.index(s.iname))
                     for s in execution_paths(before)[a.statement] if s.iname not in filling)
            time = (("at", _USER), *steps, ("at", 1 if a.is_write else 0))
            yield _Touch(a, _keyed(a, filling), a.is_write, time)
    for statement, at in ((loading, _LOADING), (storing, _STORING)):
        if statement is not None:
            # the loading writes what it reads of the array, the storing reads what it writes there
            own = next(a for a in accesses_of(after, after.statement_by_id[statement])
                       if a.array == accesses[0].array)
            yield _Touch(own, _keyed(own, filling), at == _LOADING, (("at", at),))


def _keyed(a: Access, filling: Sequence[str]) -> Map:
    coordinates: list[Expression] = [p.Variable(x) for x in filling]
    return cells(a.domain.inames, coordinates).flat_range_product(a.relation)


# {{{ within one filling

def outside_of(after: LoopKernel, array: str, buffer: str, step: str) -> Iterator[Refusal]:
    """Accesses to a cell outside of the buffer, which holds nothing."""
    for a in accesses_by_array(after)[buffer]:
        bad = outside(a.relation, after.temporaries[buffer].shape or (), after.assumptions)
        if bad is not None:
            yield _of_point(after, array, step, a, bad, "touch", "has no cell in the buffer", buffer)


def _another_flow(before: LoopKernel, after: LoopKernel, array: str, buffer: str, step: str,
                  touches: Sequence[_Touch]) -> Iterator[Refusal]:
    """Where the flow through the buffer's cells is not the one through the elements, from the loading, to the storing.
    """
    own = [t for t in touches if t.time[0] == ("at", _USER)]
    timed = [TimedAccess(t.elements, t.is_write, t.time[0] == ("at", _LOADING) or certain_write(t.access), t.time)
             for t in touches]
    hungry = _not_loaded(touches)
    if not hungry.is_empty():
        # what would come from before the loading comes from nowhere
        timed.append(TimedAccess(hungry.identity(), True, True, (("at", _LOADING - 1),)))
    doubt = doubt_of(before, *(t.access for t in own))
    wanted: dict[Pair, Map] = {}
    for i, j, relation in value_flow(timed, sure_writes(before, [t.access for t in own])):
        if i == len(touches):
            yield _of_point(after, array, step, touches[j].access, relation.range(), "read", "has not been loaded")
        else:
            _join(wanted, (touches[i].statement, touches[j].statement), relation)
    found = relations_of(after, buffer, "flow")
    lost = [another_flow(after, array, step, pair, pairs, "lose", doubt) for pair, pairs in beyond(wanted, found)]
    # a value that is lost leaves its place to another one: that the first is gone is what there is to say
    yield from lost or [another_flow(after, array, step, pair, pairs, "mistake", doubt)
                        for pair, pairs in beyond(found, wanted)]


def beyond(first: Mapping[Pair, Map], second: Mapping[Pair, Map]) -> Iterator[tuple[Pair, Map]]:
    """What *first* relates of each two statements and *second* does not."""
    for pair, relation in first.items():
        if pair not in second:
            yield pair, relation
        elif not relation.is_subset(second[pair]):
            yield pair, relation.subtract(second[pair])


def _not_loaded(touches: Sequence[_Touch]) -> Set:
    """The elements of each filling that the loading leaves out."""
    every = touches[0].elements.range()
    for t in touches[1:]:
        every = every.union(t.elements.range())
    for t in touches:
        if t.time[0] == ("at", _LOADING):
            every = every.subtract(t.elements.range())
    return every


def relations_of(knl: LoopKernel, array: str, kind: str | None = None) -> dict[Pair, Map]:
    """The dependences of *array* between each two statements, those of one *kind* or all."""
    result: dict[Pair, Map] = {}
    for d in dependences(knl):
        if d.array == array and kind in (None, d.kind):
            _join(result, (d.source, d.sink), d.relation)
    return result


def _join(relations: dict[Pair, Map], pair: Pair, relation: Map) -> None:
    relations[pair] = relations[pair].union(relation) if pair in relations else relation


def another_flow(after: LoopKernel, array: str, step: str, pair: Pair, pairs: Map, what: str,
                 doubt: str | None = None) -> Refusal:
    """The refusal to ``"lose"``, or to ``"mistake"``, the values that go along *pairs* of two statements."""
    return Refusal(after, *pair, pairs, lambda params, at_write, at_read: IllegalTransformError(
        f"{step} would {what} a value of '{array}' on its way through the buffer.",
        Witness(params, (pair[0], at_write), (pair[1], at_read), array, None, "flow" if what == "lose" else "value"),
        after=after), doubt)


def _not_stored(after: LoopKernel, array: str, step: str, write: _Touch, storing: _Touch) -> Iterator[Refusal]:
    kept = same_element(storing.elements, write.elements).range()
    lost = write.access.domain.set.subtract(kept)
    if not lost.is_empty():
        yield _of_point(after, array, step, write.access, lost, "write", "is not stored after it")


def _of_point(knl: LoopKernel, array: str, step: str, a: Access, points: Set, does: str, that: str,
              touched: str | None = None) -> Refusal:
    """The refusal for instances *points* of access *a*."""
    return Refusal.of_points(knl, a.statement, points, lambda params, _, values: IllegalTransformError(
        f"{step}: '{a.statement}' would {does} an element of '{array}' that {that}.",
        Witness(params, (a.statement, {}), (a.statement, values), touched or array,
                element_at(a.subscript_relation, params, tuple(values.values())), "missing")), doubt_of(knl, a))

# }}}


# {{{ between fillings, and with other statements

@dataclass(frozen=True)
class _Users:
    """:ivar accesses: to the array before the step, of which the users' are among *touches*."""

    accesses: Sequence[Access]
    touches: Sequence[_Touch]
    loading: str | None
    storing: str

    def ends(self, a: Access, mine: _Touch | None) -> Iterator[tuple[str, bool, Map | None]]:
        """What stands for access *a* after the step: (statement, does it write the array, the way to it)."""
        if mine is None:
            yield a.statement, a.is_write, None
            return
        for t in self.touches:
            if t.statement == self.loading or (t.statement == self.storing and a.is_write):
                yield t.statement, t.statement == self.storing, same_element(mine.elements, t.elements)


def _unbound(before: LoopKernel, after: LoopKernel, array: str, step: str, users: _Users, filling: Sequence[str]
             ) -> Iterator[Refusal]:
    """Two accesses, one of them a write, whose order no dependence keeps between what stands for them now."""
    known = relations_of(after, array)
    load, store = (next((t for t in users.touches if t.statement == s), None) for s in (users.loading, users.storing))
    if load is not None and store is not None:
        once = same_element(load.elements, store.elements)
        if not once.is_subset(known.get((load.statement, store.statement), once.subtract(once))):
            yield another_flow(after, array, step, (load.statement, store.statement), once, "lose")
    if load is not None:
        yield from _read_out_of_order(after, array, step, load.access, known)
    mine = {id(t.access): t for t in users.touches}
    for a in users.accesses:
        for b in users.accesses:
            u, v = mine.get(id(a)), mine.get(id(b))
            if (u is None and v is None) or not (a.is_write or b.is_write):
                continue
            pairs = _ordered(before, a, b)
            if u is not None and v is not None:
                coordinates = tuple(p.Variable(x) for x in filling)
                pairs = pairs.subtract(same_element(*(subscript_relation(t.access.domain.inames, coordinates)
                                                      for t in (u, v))))
            if not pairs.is_empty():
                yield from _not_known(after, step, users, (a, u), (b, v), pairs, known)


def _read_out_of_order(after: LoopKernel, array: str, step: str, load: Access, known: dict[Pair, Map]
                       ) -> Iterator[Refusal]:
    """What is loaded and used by no one may be old or new, but nothing writes it at the same time."""
    for w in accesses_by_array(after)[array]:
        if not w.is_write:
            continue
        pairs = same_element(load.relation, w.relation)
        behind, before = known.get((load.statement, w.statement)), known.get((w.statement, load.statement))
        pairs = pairs if behind is None else pairs.subtract(behind)
        pairs = pairs if before is None else pairs.subtract(before.reverse())
        if not pairs.is_empty():
            yield _of_pairs(after, (load, w), pairs, f"{step}: nothing would keep '{w.statement}' from writing "
                            f"what '{load.statement}' reads at that moment.")


def _of_pairs(after: LoopKernel, ends: tuple[Access, Access], pairs: Map, sentence: str) -> Refusal:
    """The refusal for *pairs* of two accesses to one element."""
    a, b = ends
    kind = ("output" if b.is_write else "flow") if a.is_write else "anti"
    return Refusal(after, a.statement, b.statement, pairs, lambda params, source, sink: IllegalTransformError(
        sentence, Witness(params, (a.statement, source), (b.statement, sink), a.array,
                          element_at(a.subscript_relation, params, tuple(source.values())), kind), after=after),
        doubt_of(after, a, b))


def _not_known(after: LoopKernel, step: str, users: _Users, first: tuple[Access, _Touch | None],
               second: tuple[Access, _Touch | None], pairs: Map, known: dict[Pair, Map]
               ) -> Iterator[Refusal]:
    ends = first[0], second[0]
    for s, s_writes, s_move in users.ends(*first):
        for t, t_writes, t_move in users.ends(*second):
            if not (s_writes or t_writes):
                continue
            moved = pairs if s_move is None else pairs.apply_domain(s_move)
            moved = moved if t_move is None else moved.apply_range(t_move)
            unbound = moved.subtract(known[s, t]) if (s, t) in known else moved
            if unbound.is_empty():
                continue
            # those of which the statements that stand for them now are bound by nothing
            back = unbound if s_move is None else unbound.apply_domain(s_move.reverse())
            back = back if t_move is None else back.apply_range(t_move.reverse())
            yield _of_pairs(after, ends, pairs.intersect(back), f"{step} would not keep '{s}' before '{t}', "
                            f"which stand for '{ends[0].statement}' and '{ends[1].statement}'.")


def _ordered(knl: LoopKernel, a: Access, b: Access) -> Map:
    """The instances of *a* that run before those of *b* on the same element."""
    where = meeting_of(execution_paths(knl), a.statement, b.statement)
    return in_time_order(same_element(a.relation, b.relation),
                         shared_loops(knl, a.statement, b.statement, where.loops), where.before)

# }}}
