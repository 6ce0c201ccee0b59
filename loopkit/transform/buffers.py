"""Copy-in and copy-out of a staging buffer that statements write: the two statements and their dependences.

For an argument, copy-in loads the elements to read and copy-out stores the written ones. For a temporary,
both copy values: copy-in loads the values that enter an iteration of the loops around the buffer, and copy-out stores
the values that leave it. For atomic updates, the buffer begins with the neutral element in each such iteration, and
copy-out adds it to the array.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, accesses_by_array, accesses_of
from loopkit.analysis.dependences import in_order, values_in, with_assumed
from loopkit.analysis.moved_dependences import End, Moved, accessed_elements, moved_dependences
from loopkit.expr.mappers import substitute, variables
from loopkit.expr.nodes import Neutral
from loopkit.instructions.atomic_update import AtomicUpdate
from loopkit.kernel.dependence import Dependence
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement, with_expressions
from loopkit.poly.affine import is_quasi_affine
from loopkit.poly.enumerated import subscripts_on
from loopkit.poly.relations import cells, restrict, same_element
from loopkit.poly.sets import InstanceSet, Map, Set, with_dim_names
from loopkit.transform.staging import StagingBuffer


@dataclass(frozen=True)
class Points:
    """The cells that are copied in and copied out, if any are."""

    load: Set | None
    store: Set | None


@dataclass(frozen=True)
class Buffer:
    """A staging buffer with copy-in and copy-out.

    :ivar init: the value that copy-in stores, in terms of ``base``; *store*: the value that copy-out stores, in terms
        of ``base`` and ``buffer``. ``None``: the array's element, and the buffer's.
    :ivar operation: the operation of the atomic updates that it accumulates; ``None``: it holds the array's values.
    """

    staged: StagingBuffer
    load_id: str
    store_id: str
    init: Expression | None
    store: Expression | None
    operation: str | None

    @property
    def kernel(self) -> LoopKernel:
        """The kernel without the buffer."""
        return self.staged.kernel

    @property
    def name(self) -> str:
        """The array that the buffer replaces."""
        return self.staged.name

    @property
    def of_value(self) -> bool:
        """Is the array a temporary, whose values flow through the buffer?"""
        return self.name in self.kernel.temporaries

    @cached_property
    def moves(self) -> Mapping[str, list[tuple[Access, Map]]]:
        """For each user its accesses, and the relation from its instances to the cells of their elements."""
        return {u: [(a, self._cell_of(a)) for a in accesses_of(self.kernel, self.kernel.statement_by_id[u])
                    if a.array == self.name] for u in self.staged.uses}

    def _cell_of(self, a: Access) -> Map:
        staged = self.staged
        if self.operation is None:
            return restrict(staged.cell_of(a.domain, a.subscripts), a.domain)
        # an update's element may be any along an axis whose subscript is no affine form
        known = (*map(p.Variable, staged.outer), *(
            e if is_quasi_affine(e, a.domain.inames, self.kernel.value_params) else None
            for e in staged.box.offsets(a.subscripts)))
        inside = InstanceSet.universe(staged.inames).where(*staged.box.conditions)
        return restrict(cells(a.domain.inames, known), a.domain).intersect_range(inside.set)

    def points(self) -> Points:
        """The elements of an argument that are copied."""
        every, written = ([m for own in self.moves.values() for a, m in own if a.is_write or not only]
                          for only in (self.operation is not None, True))
        return Points(self.staged.cells(every).set, self.staged.cells(written).set)

    def value_points(self) -> Points:
        """The copied values of a temporary: those that enter or leave an iteration of the loops around it."""
        kernel, users = self.kernel, self.moves.keys()
        every = self.staged.cells(m for own in self.moves.values() for _, m in own)
        elements = subscripts_on(every, self.staged.box.arguments())
        load, store = list[Set](), list[Set]()
        for d in with_assumed(kernel):
            if d.array != self.name or d.kind != "flow" or users.isdisjoint((d.source, d.sink)):
                continue
            pairs = d.relation
            if d.source in users and d.sink in users:
                pairs = pairs.subtract(self.staged.in_one_iteration(
                    *(kernel.statement_by_id[s].inames for s in (d.source, d.sink))))
            writes = [w.relation for w in accesses_of(kernel, kernel.statement_by_id[d.source])
                      if w.array == self.name and w.is_write]
            load += [pairs.apply_range(move).intersect(same_element(w, elements)).range()
                     for a, move in self.moves.get(d.sink, ()) if not a.is_write for w in writes]
            store += [pairs.apply_domain(move).domain() for a, move in self.moves.get(d.source, ()) if a.is_write]
        return Points(*(reduce(Set.union, found) if (found := [x for x in each if not x.is_empty()]) else None
                        for each in (load, store)))

    def put_in(self, points: Points) -> LoopKernel:
        """The kernel with the buffer, with copies of *points*."""
        first = None if points.load is None else self._copy("init", points.load)
        last = None if points.store is None else self._copy("store", points.store)
        return self.staged.put_in(first, last, lambda s: with_expressions(s, self.staged.used),
                                  lambda _, result: self.dependences(result, first, last))

    def _copy(self, what: str, points: Set) -> Statement:
        """The statement that copies in (``init``) or out."""
        box = self.staged.box
        own = replace(box, inames=tuple(None if x is None else self.kernel.fresh_name(f"{self.name}_{what}_{k}")
                                        for k, x in enumerate(box.inames)))
        if what == "init":
            copy = self.staged.copy_in(self.load_id, own, points, whole=self.staged.whole_box)
            if self.operation is not None:
                return replace(copy, expression=Neutral(self.operation))
            return copy if self.init is None else replace(copy, expression=substitute(
                self.init, {"base": copy.expression}))
        copy = self.staged.copy_in(self.store_id, own, points)
        cell, element = copy.assignee, copy.expression
        assert isinstance(element, p.Variable | p.Subscript)
        value = cell if self.store is None else substitute(self.store, {"base": element, "buffer": cell})
        return replace(copy, assignee=element, expression=value, combine=self.operation,
                       instructions=() if self.operation is None else (AtomicUpdate(),))

    # {{{ dependences

    def dependences(self, result: LoopKernel, first: Statement | None, last: Statement | None) -> Iterator[Dependence]:
        """The dependences of the users, moved to copy-in and copy-out, between iterations of the loops around them."""
        for moved in moved_dependences(self.kernel, {self.name}, partial(self._ends, first, last)):
            yield from [moved.d] if moved.after is moved.d else self._narrowed(result, moved)
        if not self.of_value and self.operation is None and last is not None:   # else only value flow or updates matter
            if first is not None and self.name in variables(first.expression):
                once = same_element(*(accessed_elements(result, s.id, self.name, is_write=s is last)
                                      for s in (first, last)))
                yield Dependence("anti", self.name, first.id, last.id,
                                 once.intersect(self.staged.in_one_iteration(first.inames, last.inames)))
            if self.staged.whole_box and first is not None:
                yield from self._of_others(result, first, last)
        yield from values_in(result, self.staged.temporary, self.staged.outer)

    def _ends(self, first: Statement | None, last: Statement | None, _: Dependence, statement: str, is_write: bool
              ) -> list[End]:
        """The statements that access the array in place of *statement*."""
        if statement not in self.moves:
            return [End(statement, is_write)]
        move = reduce(Map.union, (m for a, m in self.moves[statement] if a.is_write == is_write))
        if self.operation is not None:
            return [End(self.store_id, is_write, move)]
        # an element that is only read is not copied out; an overwritten value is not copied in
        reading = [s.id for s in (first, last) if s is not None and self.name in variables(s.expression)
                   and (not self.of_value if is_write else s is first)]
        return [*(End(s, False, move) for s in reading),
                *([End(last.id, True, move)] if is_write and last is not None else ())]

    def _narrowed(self, result: LoopKernel, moved: Moved) -> Iterator[Dependence]:
        relation = moved.after.relation
        if moved.source.move is not None and moved.sink.move is not None:
            if self.operation is not None:
                return                      # among themselves the updates have no order
            # within an iteration the buffer's cells carry the dependence
            relation = relation.subtract(self.staged.in_one_iteration(self.staged.inames, self.staged.inames))
        relation = relation.intersect(moved.accessing(result, self.name))
        if not relation.is_empty():
            yield replace(moved.after, relation=relation)

    def _of_others(self, result: LoopKernel, load: Statement, store: Statement) -> Iterator[Dependence]:
        """The order of copy-in and the writers, for elements that no user of the iteration accesses."""
        used = self.staged.cells(m for own in self.moves.values() for _, m in own)
        others = load.domain.subtract(InstanceSet(load.inames, with_dim_names(used.set, load.inames)))
        read = restrict(accessed_elements(result, load.id, self.name, is_write=False), others)
        for a in accesses_by_array(result)[self.name]:
            if a.is_write:
                pairs = same_element(read, a.relation)
                if a.statement == store.id:
                    pairs = pairs.subtract(self.staged.in_one_iteration(load.inames, store.inames))
                for kind, source, sink, related in (("anti", load.id, a.statement, pairs),
                                                    ("flow", a.statement, load.id, pairs.reverse())):
                    relation = in_order(result, source, sink, related)
                    if not relation.is_empty():
                        yield Dependence(kind, self.name, source, sink, relation, exact=a.affine and a.must)

    # }}}
