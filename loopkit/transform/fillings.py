"""What fills a buffer and empties it: the two statements, their places, and the dependences of all that touch them.

A *filling* is one iteration of the loops around the buffer. An argument is storage: the elements that are touched are
loaded, those that are written are stored. A temporary carries values: those that come from outside of a filling are
loaded, those that are read outside of it are stored. What atomic updates add to an array begins as nothing in each
filling, and is added to the array at its end.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, accesses_by_array, accesses_of
from loopkit.analysis.constructors import with_dependences
from loopkit.analysis.dependences import shared_loops, values_in, with_waived
from loopkit.analysis.order import execution_paths, meeting_of
from loopkit.analysis.shapes import array_shapes
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import map_children, substitute, variables
from loopkit.expr.nodes import Neutral
from loopkit.instructions.atomic_update import AtomicUpdate
from loopkit.kernel.data import AddressSpace, TemporaryVariable
from loopkit.kernel.dependence import Dependence
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement, with_expressions
from loopkit.kernel.tags import InameTag
from loopkit.kernel.tree import Leaf, leaves, nest
from loopkit.poly.affine import NotAffineError, add, to_aff
from loopkit.poly.enumerated import subscripts_on, where_holds
from loopkit.poly.relations import cells, in_time_order, restrict, same_element, subscript_relation
from loopkit.poly.sets import InstanceSet, Map, Set, with_dim_names
from loopkit.transform.box import Box
from loopkit.transform.placement import around_users, placed


@dataclass(frozen=True)
class Points:
    """The points (inames of the loops around, place in the box) at which a buffer is loaded and stored, if at any."""

    load: InstanceSet | None
    store: InstanceSet | None


@dataclass(frozen=True)
class Buffer:
    """What stands in the place of the array *name*, and for whom.

    :ivar outer: the inames of the loops around it.
    :ivar init: what it is loaded with, in terms of ``base``, and *store*, what is stored, of ``base`` and ``buffer``;
        ``None``: the array's own element, and the buffer's.
    :ivar whole_box: all of the box is loaded, as far as it lies inside the array.
    :ivar partial: the operation of the atomic updates that the buffer collects; ``None``: it holds the array's values.
    """

    kernel: LoopKernel
    name: str
    temporary: str
    users: tuple[str, ...]
    outer: tuple[str, ...]
    box: Box
    tag: InameTag | None
    space: AddressSpace | None
    load_id: str
    store_id: str
    init: Expression | None
    store: Expression | None
    whole_box: bool
    partial: str | None = None

    @property
    def of_value(self) -> bool:
        """Is it a temporary's values that are worked on?"""
        return self.name in self.kernel.temporaries

    def points(self) -> Points:
        """Where an argument's buffer is loaded, if at all, and stored."""
        moves = [found for u in self.users for found in self.moves(u)]
        every = self._images(m for _, m in moves)
        written = self._images(m for a, m in moves if a.is_write)
        if self.partial is not None:
            return Points(written, written)
        return Points(self._boxed(every) if self.whole_box and every is not None else every, written)

    def put_in(self, step: str, points: Points) -> LoopKernel:
        """The kernel with the buffer, loaded and stored at *points*."""
        kernel, users = self.kernel, frozenset(self.users)
        first = None if points.load is None else self._copy("init", points.load)
        last = None if points.store is None else self._copy("store", points.store)
        before, after = (None if s is None else nest(self._dims(what), Leaf(s.id))
                         for s, what in ((first, "init"), (last, "store")))
        tree = placed(kernel, step, self.name, users, self.outer,
                      lambda body: around_users(body, users, before, after))
        at = {s: i for i, s in enumerate(leaves(tree))}
        new = [with_expressions(s, self._replaced) if s.id in users else s for s in kernel.statements]
        copies = [s for s in (first, last) if s is not None]
        statements = tuple(sorted([*copies, *new], key=lambda s: at[s.id]))
        dims = [x for s, what in ((first, "init"), (last, "store")) if s is not None for x in self._dims(what)]
        dtype = (kernel.temporaries if self.of_value else kernel.array_args)[self.name].dtype
        temporary = TemporaryVariable(self.temporary, dtype, self.box.shape, self.space)

        def derived(found: Sequence[Dependence], after: LoopKernel) -> tuple[Dependence, ...]:
            moves = {u: self.moves(u) for u in self.users}
            if self.partial is not None:
                return (*_collected(self, after, moves), *values_in(after, self.temporary, self.outer))
            return (*_Moved(self, after, moves, first, last).dependences(),
                    *values_in(after, self.temporary, self.outer))
        return with_dependences(
            kernel, derived,
            statements=statements, tree=tree, temporaries={**kernel.temporaries, self.temporary: temporary},
            tags={**kernel.tags, **(dict.fromkeys(dims, self.tag) if self.tag is not None else {})})

    def moves(self, user: str) -> list[tuple[Access, Map]]:
        """For each access of *user*: the point of loading and storing that is its element."""
        s = self.kernel.statement_by_id[user]
        outer = tuple(p.Variable(x) for x in self.outer)
        return [(a, self._anywhere(a) if self.partial is not None else
                 restrict(subscripts_on(a.domain, (*outer, *self.box.offsets(a.subscripts))), a.domain))
                for a in accesses_of(self.kernel, s) if a.array == self.name]

    def _anywhere(self, a: Access) -> Map:
        """The points of an update's element, which may be any along an axis whose subscript is no affine form."""
        known = (*(p.Variable(x) for x in self.outer), *(
            e if is_affine(self.kernel, a, e) else None for e in self.box.offsets(a.subscripts)))
        inames = (*self.outer, *self.box.dims)
        inside = InstanceSet.universe(inames).where(*(
            condition for x, length in zip(self.box.dims, self.box.shape, strict=True)
            for condition in ((">=", p.Variable(x)), ("<", add(p.Variable(x), -length)))))
        return restrict(cells(a.domain.inames, known), a.domain).intersect_range(inside.set)

    def in_one_filling(self, source: str, sink: str) -> Map:
        """Instances of two users that are of one filling."""
        outer = tuple(p.Variable(x) for x in self.outer)
        return same_element(*(subscript_relation(self.kernel.statement_by_id[s].inames, outer) for s in (source, sink)))

    # {{{ the two statements

    def _named(self, what: str) -> Box:
        """The box with the inames of loading (``init``) or storing."""
        inames = (None if x is None else self.kernel.fresh_name(f"{self.name}_{what}_{k}")
                  for k, x in enumerate(self.box.inames))
        return replace(self.box, inames=tuple(inames))

    def _dims(self, what: str) -> tuple[str, ...]:
        return self._named(what).dims

    def touched(self) -> InstanceSet:
        """All points of loading and storing."""
        points = self._images(m for u in self.users for _, m in self.moves(u))
        assert points is not None
        return points

    def _images(self, moves: Iterable[Map]) -> InstanceSet | None:
        inames = (*self.outer, *self.box.dims)
        points: InstanceSet | None = None
        for move in moves:
            image = InstanceSet(inames, with_dim_names(move.range(), inames))
            points = image if points is None else points.union(image)
        return points

    def _boxed(self, points: InstanceSet) -> InstanceSet:
        """All of the box for each filling of *points*, as far as it lies inside the array.

        :raises PreconditionError: it is not known where the array ends.
        """
        found = points.onto(self.outer).onto(points.inames)
        for dim, length in zip(self.box.dims, self.box.shape, strict=True):
            found = found.where((">=", p.Variable(dim)), ("<", add(p.Variable(dim), -length)))
        shape = array_shapes(self.kernel)[self.name]
        names = self.kernel.value_params.union(points.inames)
        for axis, (at, extent, x) in enumerate(zip(self.box.arguments(), shape, self.box.inames, strict=True)):
            if x is not None:
                if extent is None:
                    raise self._open_end(axis)
                for condition in (p.Comparison(at, ">=", 0), p.Comparison(at, "<", extent)):
                    inside = where_holds(found, condition, names)
                    if inside is None:
                        raise self._open_end(None)
                    found = inside
        return found

    def _open_end(self, axis: int | None) -> PreconditionError:
        where = "" if axis is None else f" along axis {axis}"
        return PreconditionError(
            f"fetch_bounding_box: where '{self.name}' ends{where} is no affine form of the sizes, so that what of the "
            "box lies outside of it cannot be left out.", subject=self.name,
            hint=f"declare its shape: GlobalArg('{self.name}', shape=...)")

    def _copy(self, what: str, points: InstanceSet) -> Statement:
        """The statement that loads (``init``) or stores."""
        box = self._named(what)
        inames = (*self.outer, *box.dims)
        domain = InstanceSet(inames, with_dim_names(points.set, inames))
        target = p.Variable(self.temporary)
        cell = p.Subscript(target, tuple(p.Variable(x) for x in box.dims)) if box.dims else target
        element = _element(self.name, box.arguments())
        if self.partial is not None:
            return Statement(self.load_id, cell, Neutral(self.partial), domain) if what == "init" else \
                Statement(self.store_id, element, cell, domain, combine=self.partial, instructions=(AtomicUpdate(),))
        if what == "init":
            value = element if self.init is None else substitute(self.init, {"base": element})
            return Statement(self.load_id, cell, value, domain)
        value = cell if self.store is None else substitute(self.store, {"base": element, "buffer": cell})
        return Statement(self.store_id, element, value, domain)

    def _replaced(self, expr: Expression) -> Expression:
        target = p.Variable(self.temporary)
        if isinstance(expr, p.Subscript) and expr.aggregate == p.Variable(self.name):
            return p.Subscript(target, self.box.offsets(expr.index_tuple)) if self.box.dims else target
        return target if expr == p.Variable(self.name) else map_children(expr, self._replaced)

    # }}}


def _element(name: str, arguments: tuple[Expression, ...]) -> p.Variable | p.Subscript:
    return p.Subscript(p.Variable(name), arguments) if arguments else p.Variable(name)


def value_points(buffer: Buffer) -> Points:
    """Where a temporary's buffer is loaded and stored: what comes from outside of a filling, and what leaves it."""
    kernel, users = buffer.kernel, frozenset(buffer.users)
    inames = (*buffer.outer, *buffer.box.dims)
    elements = subscripts_on(buffer.touched(), buffer.box.arguments())
    found: dict[str, InstanceSet] = {}

    def join(what: str, points: Set) -> None:
        own = InstanceSet(inames, with_dim_names(points, inames))
        if not own.is_empty():
            found[what] = found[what].union(own) if what in found else own
    for d in with_waived(kernel):
        if d.array != buffer.name or d.kind != "flow" or users.isdisjoint((d.source, d.sink)):
            continue
        pairs = d.relation
        if d.source in users and d.sink in users:
            pairs = pairs.subtract(buffer.in_one_filling(d.source, d.sink))
        for a, move in buffer.moves(d.sink) if d.sink in users else ():
            if not a.is_write:
                for w in accesses_of(kernel, kernel.statement_by_id[d.source]):
                    if w.array == buffer.name and w.is_write:
                        join("load", pairs.apply_range(move).intersect(same_element(w.relation, elements)).range())
        for a, move in buffer.moves(d.source) if d.source in users else ():
            if a.is_write:
                join("store", pairs.apply_domain(move).domain())
    return Points(found.get("load"), found.get("store"))


# {{{ dependences

def is_affine(kernel: LoopKernel, a: Access, e: Expression) -> bool:
    """Is a subscript of *a* an affine form in inames and sizes?"""
    try:
        to_aff(e, a.domain.inames, kernel.value_params)
    except NotAffineError:
        return False
    return True


def _collected(buffer: Buffer, result: LoopKernel, moves: Mapping[str, Sequence[tuple[Access, Map]]]
               ) -> Iterator[Dependence]:
    """What bound the atomic updates that *buffer* collects binds the storing."""
    [stored, _] = (a for a in accesses_of(result, result.statement_by_id[buffer.store_id]) if a.array == buffer.name)
    for d in with_waived(buffer.kernel):
        if d.array != buffer.name or not (d.source in moves or d.sink in moves):
            yield d
        elif d.source in moves and d.sink in moves:
            assert d.waived                 # among themselves they have no order
        elif d.source in moves:
            others = _touched(result, d.sink, buffer.name, is_write=d.kind != "flow")
            relation = d.relation.apply_domain(moves[d.source][0][1]).intersect(same_element(stored.relation, others))
            yield replace(d, source=buffer.store_id, relation=relation)
        else:
            others = _touched(result, d.source, buffer.name, is_write=d.kind != "anti")
            relation = d.relation.apply_range(moves[d.sink][0][1]).intersect(same_element(others, stored.relation))
            yield replace(d, sink=buffer.store_id, relation=relation)


def _touched(knl: LoopKernel, statement: str, array: str, *, is_write: bool) -> Map:
    """The elements of *array* that the instances of *statement* read, or write."""
    found: Map | None = None
    for a in accesses_of(knl, knl.statement_by_id[statement]):
        if a.array == array and a.is_write == is_write:
            found = a.relation if found is None else found.union(a.relation)
    assert found is not None
    return found


@dataclass(frozen=True)
class _End:
    """One end of a dependence after the step: a statement that reads or writes the array, and the way to it."""

    statement: str
    is_write: bool
    move: Map | None


@dataclass(frozen=True)
class _Moved:
    """What bound the users of the array binds the loading and the storing of their buffer."""

    buffer: Buffer
    result: LoopKernel
    moves: Mapping[str, Sequence[tuple[Access, Map]]]
    load: Statement | None
    store: Statement | None

    def dependences(self) -> Iterator[Dependence]:
        for d in with_waived(self.buffer.kernel):
            if d.array != self.buffer.name or not (d.source in self.moves or d.sink in self.moves):
                yield d
                continue
            for a in self._ends(d.source, is_write=d.kind in ("flow", "output")):
                for b in self._ends(d.sink, is_write=d.kind in ("anti", "output")):
                    if a.is_write or b.is_write:
                        yield from self._between(d, a, b)
        if self.buffer.of_value or self.store is None:
            return                          # no order but that of values binds a temporary
        for load in self._reading():
            if load.statement != self.store.id:
                once = same_element(self._elements(load), self._elements(_End(self.store.id, True, None)))
                yield self._dependence("anti", load.statement, self.store.id, once.intersect(self._same_region()))
        if self.buffer.whole_box and self.load is not None:
            yield from self._of_others(self.load)

    def _reading(self) -> Iterator[_End]:
        """The loading, and the storing, if they read the array."""
        for s in (self.load, self.store):
            if s is not None and self.buffer.name in variables(s.expression):
                yield _End(s.id, False, None)

    def _ends(self, statement: str, *, is_write: bool) -> Iterator[_End]:
        """What touches the array where *statement* did."""
        if statement not in self.moves:
            yield _End(statement, is_write, None)
            return
        moves = [m for a, m in self.moves[statement] if a.is_write == is_write]
        move = moves[0]
        for other in moves[1:]:
            move = move.union(other)
        for end in self._reading():
            stores = self.store is not None and end.statement == self.store.id
            # what is only read is not stored, and a value that is written anew is not loaded
            if not self.buffer.of_value if is_write else not stores:
                yield replace(end, move=move)
        if is_write and self.store is not None:
            yield _End(self.store.id, True, move)

    def _between(self, d: Dependence, a: _End, b: _End) -> Iterator[Dependence]:
        relation = d.relation
        if a.move is not None:
            relation = relation.apply_domain(a.move)
        if b.move is not None:
            relation = relation.apply_range(b.move)
        if a.move is not None and b.move is not None:
            relation = relation.subtract(self._same_region())       # the buffer's own affair
        relation = relation.intersect(same_element(self._elements(a), self._elements(b)))
        if not relation.is_empty():
            kind = ("output" if b.is_write else "flow") if a.is_write else "anti"
            yield replace(d, kind=kind, source=a.statement, sink=b.statement, relation=relation)

    def _of_others(self, load: Statement) -> Iterator[Dependence]:
        """The order of loading what no user of the filling touches, and of those who write it, as they run now."""
        inames = load.inames
        touched: InstanceSet | None = None
        for own in self.moves.values():
            for _, move in own:
                image = InstanceSet(inames, with_dim_names(move.range(), inames))
                touched = image if touched is None else touched.union(image)
        assert touched is not None
        others = load.domain.subtract(touched)
        read = restrict(self._elements(_End(load.id, False, None)), others)
        paths = execution_paths(self.result)
        for a in accesses_by_array(self.result)[self.buffer.name]:
            if not a.is_write:
                continue
            pairs = same_element(read, a.relation)
            if self.store is not None and a.statement == self.store.id:
                pairs = pairs.subtract(self._same_region())
            for kind, source, sink, related in (("anti", load.id, a.statement, pairs),
                                                ("flow", a.statement, load.id, pairs.reverse())):
                where = meeting_of(paths, source, sink)
                relation = in_time_order(related, shared_loops(self.result, source, sink, where.loops), where.before)
                if not relation.is_empty():
                    yield replace(self._dependence(kind, source, sink, relation), exact=a.affine and a.certain)

    def _dependence(self, kind: str, source: str, sink: str, relation: Map) -> Dependence:
        return Dependence(kind, self.buffer.name, source, sink, relation)

    def _same_region(self) -> Map:
        """Points of loading or storing that belong to one filling of the buffer."""
        outer = tuple(p.Variable(x) for x in self.buffer.outer)
        filling = subscript_relation((*self.buffer.outer, *self.buffer.box.dims), outer)
        return same_element(filling, filling)

    def _elements(self, end: _End) -> Map:
        return _touched(self.result, end.statement, self.buffer.name, is_write=end.is_write)

# }}}
