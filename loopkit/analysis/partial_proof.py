"""The proof that a buffer collects atomic updates: what each adds reaches its element, once, and in time.

As :mod:`loopkit.analysis.buffer_proof`, it compares two kernels and knows nothing of how the second was made. In each
filling, the loading sets all cells that are stored to the neutral element before the first user; the storing, behind
the last one, combines each cell once with the element that the users of the cell meant. As the operation's operands
come in any order and grouping, the array holds what it would have held, from when the last user's filling is stored on.
So what had to come before a user must come before the storing of its filling, and what behind, behind it.

A subscript that is read from memory is a coordinate of its own: any within the array, the same in both kernels.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, accesses_by_array, accesses_of
from loopkit.analysis.buffer_proof import relations_of
from loopkit.analysis.dependences import dependences
from loopkit.analysis.order import meeting_of
from loopkit.analysis.shapes import array_shapes
from loopkit.analysis.witnesses import Refusal, raise_smallest
from loopkit.errors import IllegalTransformError, InternalError, Witness
from loopkit.expr.nodes import Neutral
from loopkit.kernel.dependence import Dependence
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.poly.affine import NotAffineError, subtract, to_aff
from loopkit.poly.elements import outside
from loopkit.poly.relations import one_to_one, same_element, subscript_relation
from loopkit.poly.sets import InstanceSet, Map, Set


@dataclass(frozen=True)
class _Way:
    """An instance, with its unknown subscripts as further coordinates, and what it touches in its filling.

    :ivar cells: to (filling, cell of the buffer); *elements*: to (filling, element of the array).
    """

    statement: Statement
    points: InstanceSet
    cells: Map
    elements: Map


def require_collected(before: LoopKernel, after: LoopKernel, array: str, buffer: str, step: str) -> None:
    """Refuse *after* if its users of *buffer* may leave something else in *array* than they do in *before*.

    :raises IllegalTransformError: with the instances and the sizes.
    """
    users = [s for s in after.statements if s.id in before.statement_by_id and s.written == buffer]
    new = [s for s in after.statements if s.id not in before.statement_by_id]
    [loading] = (s for s in new if s.written == buffer)
    [storing] = (s for s in new if s.written == array)
    filling = tuple(x for x in storing.inames if all(x in u.inames for u in users))
    _require_form(before, after, (loading, storing), users, buffer, filling)
    load = _way(after, loading, filling, loading.assignee, loading.assignee)
    store = _way(after, storing, filling, storing.expression, storing.assignee)
    _require(step, after, array, one_to_one(store.cells) and store.cells.range().is_subset(load.cells.range()))
    for s in (loading, storing):
        own = next(a for a in accesses_of(after, s) if a.array == buffer)
        bad = outside(own.relation, after.temporaries[buffer].shape or (), after.assumptions)
        _require(step, after, array, bad is None)
    known = relations_of(after, array)
    found: list[Refusal] = []
    for u in users:
        way = _way(before, u, filling, u.assignee, before.statement_by_id[u.id].assignee)
        stored = same_element(way.cells, store.cells)
        arrived = stored.apply_range(store.elements)
        found += [_elsewhere(after, array, step, u.id, _instances(wrong.domain(), way))
                  for wrong in (way.elements.subtract(arrived), arrived.subtract(way.elements)) if not wrong.is_empty()]
        found += _out_of_order(before, after, array, step, _only(stored, way), u.id, known)
    if found:
        raise_smallest(found)


def _elsewhere(after: LoopKernel, array: str, step: str, user: str, points: Set) -> Refusal:
    return Refusal.of_points(after, user, points, lambda params, _, at: IllegalTransformError(
        f"{step}: what '{user}' adds to '{array}' would not be stored, or elsewhere.",
        Witness(params, (user, {}), (user, at), array, None, "missing"), after=after))


def _require(step: str, after: LoopKernel, array: str, holds: bool) -> None:
    if not holds:
        raise InternalError(f"{step}: the buffer of '{array}' in '{after.name}' does not hold what is added to it.")


def _require_form(before: LoopKernel, after: LoopKernel, copies: tuple[Statement, Statement],
                  users: Sequence[Statement], buffer: str, filling: tuple[str, ...]) -> None:
    """The statements are what this proof is about: neutral elements, atomic updates and their sum, in this order."""
    loading, storing = copies
    operation = storing.combine
    right = isinstance(loading.expression, Neutral) and loading.expression.operation == operation \
        and loading.combine is None and storing.commutes and not loading.predicates and not storing.predicates
    for u in users:
        old = before.statement_by_id[u.id]
        right = right and (u.commutes, u.combine, u.expression, u.predicates, u.domain) == (
            True, operation, old.expression, old.predicates, old.domain)
        for first, second in ((loading, u), (u, storing)):
            where = meeting_of(after.paths, first.id, second.id)
            right = right and where.before and set(where.loops) == set(filling)
    touching = {a.statement for a in accesses_by_array(after)[buffer]}
    if not right or touching != {loading.id, storing.id, *(u.id for u in users)}:
        raise InternalError(f"The buffer '{buffer}' of '{after.name}' does not collect atomic updates.")


def _way(knl: LoopKernel, s: Statement, filling: tuple[str, ...], cell: Expression, element: Expression) -> _Way:
    """An instance of *s* that touches *cell* in the place of *element*."""
    unknown: list[tuple[Expression, str]] = []
    bounds: list[tuple[str, Expression]] = []
    inames = s.inames

    def affine(e: Expression) -> bool:
        try:
            to_aff(e, inames, knl.value_params)
        except NotAffineError:
            return False
        return True
    assert isinstance(element, p.Variable | p.Subscript)
    subscripts = _subscripts(element)
    for axis, e in enumerate(subscripts):
        if not affine(e):
            name = f"'{axis}"
            unknown.append((e, name))
            extent = array_shapes(knl)[_name(element)][axis]
            assert isinstance(extent, int)
            bounds += [(">=", p.Variable(name)), ("<", subtract(p.Variable(name), extent))]

    def known(e: Expression) -> Expression:
        if affine(e):
            return e
        for other, name in unknown:
            rest = subtract(e, other)
            if affine(rest):
                return subtract(p.Variable(name), subtract(0, rest))
        raise NotAffineError(str(e))
    names = (*inames, *(name for _, name in unknown))
    domain = next(a for a in accesses_of(knl, knl.statement_by_id[s.id]) if a.is_write).domain \
        if s.id in knl.statement_by_id else s.domain
    points = domain.onto(names).where(*bounds)
    place = tuple(map(p.Variable, filling))
    return _Way(s, points, *(subscript_relation(names, (*place, *map(known, each))).intersect_domain(points.set)
                             for each in (_subscripts(cell), subscripts)))


def _subscripts(e: Expression) -> tuple[Expression, ...]:
    return e.index_tuple if isinstance(e, p.Subscript) else ()


def _name(e: Expression) -> str:
    variable = e.aggregate if isinstance(e, p.Subscript) else e
    assert isinstance(variable, p.Variable)
    return variable.name


def _only(pairs: Map, way: _Way) -> Map:
    """*pairs* by the inames of their first instance alone."""
    return _own(way).reverse().apply_range(pairs)


def _instances(points: Set, way: _Way) -> Set:
    """*points* by the inames of the instance alone."""
    return _own(way).intersect_domain(points).range()


def _own(way: _Way) -> Map:
    return subscript_relation(way.points.inames, tuple(map(p.Variable, way.statement.inames)))


def _out_of_order(before: LoopKernel, after: LoopKernel, array: str, step: str, stored: Map, user: str,
                  known: dict[tuple[str, str], Map]) -> Iterator[Refusal]:
    """Where the storing of its filling, *stored* for each instance, is not bound by what binds *user* to others."""
    storing = next(s for s in after.statements if s.id not in before.statement_by_id and s.written == array)
    own = _touched(after, storing.id, array)
    for d in dependences(before):
        if d.array != array or (d.source == user) == (d.sink == user):
            continue
        other = _touched(before, d.sink if d.source == user else d.source, array)
        if d.source == user:
            pair, owed = (storing.id, d.sink), d.relation.apply_domain(stored).intersect(same_element(own, other))
        else:
            pair, owed = (d.source, storing.id), d.relation.apply_range(stored).intersect(same_element(other, own))
        lost = owed.subtract(known[pair]) if pair in known else owed
        if not lost.is_empty():
            yield _unbound(after, step, pair, d, lost)


def _unbound(after: LoopKernel, step: str, pair: tuple[str, str], d: Dependence, lost: Map) -> Refusal:
    return Refusal(after, *pair, lost, lambda params, source, sink: IllegalTransformError(
        f"{step} would not keep '{pair[0]}' before '{pair[1]}', which stand for '{d.source}' and '{d.sink}'.",
        Witness(params, (pair[0], source), (pair[1], sink), d.array, None, d.kind), after=after))


def _touched(knl: LoopKernel, statement: str, array: str) -> Map:
    found: list[Access] = [a for a in accesses_of(knl, knl.statement_by_id[statement]) if a.array == array]
    result = found[0].relation
    for a in found[1:]:
        result = result.union(a.relation)
    return result
