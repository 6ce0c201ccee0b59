"""buffer_array: a staging buffer for a part of an array, copied in before its users and copied out after them."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, accesses_by_array, accesses_to, commute, data_params, origin
from loopkit.analysis.constructors import annotated
from loopkit.analysis.copy_out import require_buffered, require_collected, require_values_buffered
from loopkit.analysis.dependences import (
    End,
    accessed_elements,
    between_iterations,
    in_order,
    moved_dependences,
    order_of_values,
    relations_of,
    with_assumed,
)
from loopkit.analysis.match import Within, matching_names
from loopkit.analysis.must_writes import is_must_write
from loopkit.analysis.order import meeting_of
from loopkit.analysis.shapes import array_shapes
from loopkit.errors import PreconditionError, UndecidedError, require_known
from loopkit.expr.mappers import element, substitute, variables
from loopkit.expr.nodes import Neutral
from loopkit.expr.parsing import KnownNames, parse_expression
from loopkit.instructions.atomic_update import AtomicUpdate
from loopkit.kernel.data import AddressSpace, ValueArg
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Dependence, Obligation, Statement, with_expressions
from loopkit.kernel.tags import InameTag
from loopkit.poly.affine import is_quasi_affine
from loopkit.poly.piecewise import cells, subscripts_on
from loopkit.poly.relations import differing, in_one_iteration, same_element, shared_dims, union_of_some
from loopkit.poly.sets import InstanceSet, Map, Set, with_dim_names
from loopkit.transform.side_effects import Allowed
from loopkit.transform.staging import Box, BoxRequest, Staged, StagingBuffer, temporary_for
from loopkit.transform.step import matching_statements, new_id, require_no_rule, transform


@transform
def buffer_array(kernel: LoopKernel, var_name: str, buffer_inames: str | Iterable[str],
                 init_expression: str | None = None, store_expression: str | None = None, *,
                 within: Within = None, default_tag: str | InameTag | None = "l.auto",
                 temporary_name: str | None = None, temporary_address_space: str | AddressSpace | None = None,
                 fetch_bounding_box: bool = False, init_insn_id: str | None = None, store_insn_id: str | None = None,
                 allow_reordering: bool = False, allow_global_storage: bool = False, allow_launches: bool = False,
                 assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """Let statements use a staging buffer in place of the array elements that they access over *buffer_inames*.

    Copy-in loads the elements before the users of the buffer run. It is left out if a must-write of every element
    precedes its first read. Copy-out stores the written elements after the users have run. The loops over inames of the
    subscripts that are not in *buffer_inames* stay around the buffer, and so do parallel inames of the grid.

    For a temporary, copy-in loads the values written outside these loops, and copy-out stores the values read outside
    them. Loops shared with other users of the temporary also stay around the buffer.

    For atomic updates, the buffer accumulates the increments, and copy-out adds them to the array atomically. All loops
    but those of *buffer_inames* stay. An axis with a subscript read from memory is held whole, by its declared extent.

    :arg var_name: an array argument or a temporary.
    :arg buffer_inames: the inames whose iterations share one buffer; ``"i, j"`` or a sequence.
    :arg init_expression: the value for copy-in, in terms of ``base``, the element of the array; default: ``base``.
    :arg store_expression: the value for copy-out, in terms of ``base`` and ``buffer``, the value in the buffer;
        default: ``buffer``. *assume* or *unsafe* must vouch for equal results, unless only *init_expression* is given
        and no statement reads a value of copy-in.
    :arg within: the statements that use the buffer; default: all that access the array.
    :arg default_tag: tag for the inames of the copies; ``"l.auto"`` distributes them over the block's threads.
    :arg fetch_bounding_box: copy in the whole bounding box, as far as it lies inside the array. Its loops have simple
        bounds.
    :arg allow_reordering: as for :func:`add_prefetch`; so are *allow_global_storage* and *allow_launches*.
    :raises UnknownNameError: no such array or temporary, or an iname that no statement has.
    :raises NameConflictError: a name that is taken.
    :raises PreconditionError: nothing writes the array; a subscript or a bound is read from memory; the box has no
        constant size; the extents of the array for a whole box are unknown; a temporary belongs to a reduction, has a
        write that depends on data, or has no other users; an array with atomic updates has other users.
    :raises ScheduleError: the statements do not share a place for the buffer, or it needs one of the *allow* arguments.
    :raises StorageError, IllegalTransformError: the buffer would enlarge another temporary, miss a write of other
        statements, hide its writes from them, or read elements that another block writes concurrently.
    :raises UndecidedError: an expression matters and was given without *assume* or *unsafe*.

    >>> knl = lk.make_kernel("{[i, k]: 0<=i<16 and 0<=k<m}", "y[i] = y[i] + a[i, k]")
    >>> print(lk.buffer_array(knl, "y", "i", default_tag=None).statements_text)
    for y_init_0
      y_buf[y_init_0] = y[y_init_0]  {id=init_y}
    end
    for i, k
      y_buf[i] = y_buf[i] + a[i, k]  {id=insn}
    end
    for y_store_0
      y[y_store_0] = y_buf[y_store_0]  {id=store_y}
    end
    """
    require_known("array", [var_name], kernel.data)
    inames = matching_names(buffer_inames, kernel.inames)
    step = f"buffer_array({var_name!r}, {list(inames)})"
    users, operation = _users_of(kernel, step, var_name, within,
                                 bool(fetch_bounding_box or init_expression or store_expression))
    require_known("iname", inames, [x for s in users for x in s.inames], where=f"the users of '{var_name}'")
    load_id = new_id(kernel, init_insn_id, f"init_{var_name}")
    buffer = _spanning(Buffer(
        kernel, step, Staged(var_name, partial(element, var_name)),
        temporary_for(kernel, temporary_name, f"{var_name}_buf", kernel.data[var_name].dtype, temporary_address_space),
        BoxRequest(inames, default_tag, fetch_bounding_box),
        Allowed(allow_reordering, allow_global_storage, allow_launches, assume, unsafe),
        load_id=load_id, store_id=new_id(kernel, store_insn_id, f"store_{var_name}", load_id),
        init=Neutral(operation) if operation is not None else
        _template(kernel, "init_expression", init_expression, "base"),
        store=_template(kernel, "store_expression", store_expression, "base", "buffer"), operation=operation), users)
    return buffer.placed_best(lambda at: at.allowed.legal(_buffered(at), step))


def _buffered(buffer: Buffer) -> LoopKernel:
    """The kernel with *buffer*, and the proof that it preserves values."""
    kernel, name, own = buffer.kernel, buffer.name, buffer.temporary.name
    writers = {s.id for s in kernel.statements if s.written == name}
    load, store = buffer.value_points() if buffer.of_value else buffer.points()
    if load is None and store is None:
        raise PreconditionError(f"{buffer.step}: only statements of the buffer use '{name}': a buffer would "
                                "only be another name for it.", subject=name,
                                hint="select the statements that use the buffer by within=")
    result = buffer.with_copies(load, store)
    if not buffer.of_value and buffer.operation is None and buffer.store is None and not any(
            source == buffer.load_id for source, _ in relations_of(result, own, "flow")):
        load, result = None, buffer.with_copies(None, store)    # whatever its values, nothing reads them
    has_expressions = buffer.store is not None or (buffer.init is not None and load is not None)
    # an array's dtype is the join of its writers' dtypes, a buffer's dtype that of its first writer
    if buffer.temporary.dtype is None and (has_expressions or (load is None and (
            not writers <= buffer.uses.keys() if buffer.of_value else len(writers) > 1))):
        raise PreconditionError(f"{buffer.step}: the dtype of '{name}' is unknown.", subject=name,
                                hint=f"add_dtypes(knl, {{'{name}': ...}}) first")
    if has_expressions and buffer.operation is None:
        claim = f"what is loaded and stored leaves in '{name}' what its statements give it"
        if buffer.allowed.assume is None and not buffer.allowed.unsafe:
            raise UndecidedError(
                f"{buffer.step}: whether '{name}' gets the same values cannot be decided.",
                "init_expression= or store_expression= changes the values that are copied",
                hint='leave them out, or state why the results are equal: assume="..."')
        return annotated(result, obligations=(
            *result.obligations, Obligation(buffer.step, claim, buffer.allowed.assume)))
    prove: Callable[[LoopKernel, LoopKernel, str, str, str], None] = require_collected if buffer.operation is not None \
        else require_values_buffered if buffer.of_value else require_buffered
    prove(kernel, result, name, own, buffer.step)
    return result


@dataclass(frozen=True, kw_only=True)
class Buffer(StagingBuffer):
    """A staging buffer with copy-in and copy-out.

    :ivar init: the value that copy-in stores, in terms of ``base``; *store*: that of copy-out, in terms of ``base`` and
        ``buffer``. ``None``: the array's element, and the buffer's.
    :ivar operation: the operation of the atomic updates that it accumulates; ``None``: it holds the array's values.
    """

    load_id: str
    store_id: str
    init: Expression | None
    store: Expression | None
    operation: str | None

    @property
    def of_value(self) -> bool:
        return self.operation is None and self.name in self.kernel.temporaries

    @cached_property
    def moves(self) -> Mapping[str, list[tuple[Access, Map]]]:
        """For each user its accesses, and the relation from its instances to the cells of their elements."""
        return {u: [(a, self._cell_of(a)) for a in accesses_to(self.kernel, u, self.name)] for u in self.uses}

    @cached_property
    def used_cells(self) -> InstanceSet:
        return self.cells(m for own in self.moves.values() for _, m in own)

    def _cell_of(self, a: Access) -> Map:
        if self.operation is None:
            return self.cell_of(a.domain, a.subscripts).intersect_domain(a.domain.set)
        # an update's element may be any along an axis whose subscript is not an affine form
        known = (*map(p.Variable, self.outer), *(
            e if is_quasi_affine(e, a.domain.inames, self.kernel.value_params) else None
            for e in self.box.offsets(a.subscripts)))
        inside = InstanceSet.universe(self.inames).where(*self.box.conditions)
        return cells(a.domain.inames, known).intersect_domain(a.domain.set).intersect_range(inside.set)

    def points(self) -> tuple[Set, Set]:
        """The cells that are copied in, unless no user reads them, and copied out."""
        written = self.cells(m for own in self.moves.values() for a, m in own if a.is_write).set
        return written if self.operation is not None else self.used_cells.set, written

    def value_points(self) -> tuple[Set | None, Set | None]:
        """The copied values of a temporary: those that enter or leave an iteration of the loops around it."""
        kernel, users = self.kernel, self.moves.keys()
        elements = subscripts_on(self.used_cells, self.box.arguments())
        load, store = list[Set](), list[Set]()
        for d in with_assumed(kernel):
            if d.array != self.name or d.kind != "flow" or users.isdisjoint((d.source, d.sink)):
                continue
            pairs = between_iterations(kernel, d, self.outer) if users >= {d.source, d.sink} else d.relation
            if pairs is None:
                continue
            load += [pairs.apply_range(move).intersect(same_element(w.relation, elements)).range()
                     for a, move in self.moves.get(d.sink, ()) if not a.is_write
                     for w in accesses_to(kernel, d.source, self.name, is_write=True)]
            store += [pairs.apply_domain(move).domain() for a, move in self.moves.get(d.source, ()) if a.is_write]
        return union_of_some(load), union_of_some(store)

    def with_copies(self, load: Set | None, store: Set | None) -> LoopKernel:
        first, last = (None if points is None else self._copy(what, points)
                       for what, points in (("init", load), ("store", store)))
        return self.put_in(first, last, lambda s: with_expressions(s, self.used),
                           lambda _, result: self.dependences(result, first, last))

    def _copy(self, what: str, points: Set) -> Statement:
        own = Box(tuple((v, None if x is None else self.kernel.fresh_name(f"{self.name}_{what}_{axis}"))
                        for axis, (v, x) in enumerate(self.box.axes)))
        if what == "init":
            copy = self.copy_in(self.load_id, own, points, whole=self.request.whole)
            return copy if self.init is None else replace(copy, expression=substitute(
                self.init, {"base": copy.expression}))
        copy = self.copy_in(self.store_id, own, points)
        cell, element = copy.assignee, copy.expression
        assert isinstance(element, p.Variable | p.Subscript)
        value = cell if self.store is None else substitute(self.store, {"base": element, "buffer": cell})
        return replace(copy, assignee=element, expression=value, combine=self.operation,
                       instructions=() if self.operation is None else (AtomicUpdate(),))

    def dependences(self, result: LoopKernel, first: Statement | None, last: Statement | None) -> Iterator[Dependence]:
        """The dependences of the users, moved to copy-in and copy-out, between iterations of the loops around them."""
        for moved in moved_dependences(self.kernel, {self.name}, partial(self._ends, first, last)):
            are_users = all(move is not None for move in moved.moves)
            if moved.after is moved.d:
                yield moved.d
            elif not are_users or self.operation is None:   # among themselves the updates have no order
                d = moved.on_one_element(result)
                # within an iteration the buffer's cells carry the dependence of two users
                pairs = between_iterations(result, d, self.outer) if are_users else d.relation
                if pairs is not None and not pairs.is_empty():
                    yield replace(d, relation=pairs)
        if not self.of_value and self.operation is None and last is not None:   # else only value flow or updates matter
            if first is not None and self.name in variables(first.expression):
                once = same_element(*(accessed_elements(result, s.id, self.name, is_write=s is last)
                                      for s in (first, last)))
                yield Dependence("anti", self.name, first.id, last.id,
                                 in_one_iteration(once, shared_dims(first.inames, last.inames, self.outer)))
            if self.request.whole and first is not None:
                yield from self._of_others(result, first, last)
        yield from order_of_values(result, self.temporary.name, self.outer)

    def _ends(self, first: Statement | None, last: Statement | None, _: Dependence, statement: str, is_write: bool
              ) -> list[End]:
        """The statements that access the array in place of *statement*."""
        if statement not in self.moves:
            return [(statement, is_write, None)]
        move = reduce(Map.union, (m for a, m in self.moves[statement] if a.is_write == is_write))
        if self.operation is not None:
            return [(self.store_id, is_write, move)]
        # an element that is only read is not copied out; an overwritten value is not copied in
        reading = [s.id for s in (first, last) if s is not None and self.name in variables(s.expression)
                   and (not self.of_value if is_write else s is first)]
        return [*((s, False, move) for s in reading),
                *([(last.id, True, move)] if is_write and last is not None else ())]

    def _of_others(self, result: LoopKernel, load: Statement, store: Statement) -> Iterator[Dependence]:
        """The order of copy-in and the writers, for elements that no user of the iteration accesses."""
        others = load.domain.subtract(InstanceSet(load.inames, with_dim_names(self.used_cells.set, load.inames)))
        read = accessed_elements(result, load.id, self.name, is_write=False).intersect_domain(others.set)
        for a in accesses_by_array(result)[self.name]:
            if a.is_write:
                every = same_element(read, a.relation)
                pairs = differing(every, shared_dims(load.inames, store.inames, self.outer)) \
                    if a.statement == store.id else every
                if pairs is None:
                    continue
                for kind, source, sink, related in (("anti", load.id, a.statement, pairs),
                                                    ("flow", a.statement, load.id, pairs.reverse())):
                    relation = in_order(result, source, sink, related)
                    if not relation.is_empty():
                        yield Dependence(kind, self.name, source, sink, relation, exact=a.exact)


def _users_of(kernel: LoopKernel, step: str, name: str, within: Within, is_special: bool
              ) -> tuple[list[Statement], str | None]:
    """The users of *name*, and the operation of atomic updates; *is_special*: more than elements is requested."""
    chosen = matching_statements(kernel, within)
    own = {s: accesses_to(kernel, s, name) for s in chosen}
    users = [s for s in kernel.statements if own.get(s.id)]
    operation = _operation_of(step, name, [a for s in users for a in own[s.id]])
    of_value = operation is None and name in kernel.temporaries
    if not any(s.written == name for s in users):
        raise PreconditionError(f"No statement writes '{name}'.", subject=name,
                                hint="add_prefetch copies an array that is only read")
    require_no_rule(kernel, frozenset([name]))
    if of_value and any(name == node.accumulator for node in kernel.reductions.values()):
        raise PreconditionError(f"{step}: '{name}' is the accumulator of a reduction.", subject=name,
                                hint="buffer the array or temporary that gets the result of the reduction")
    for s in users:
        leave_out = "leave this statement out with within="
        if data := data_params(kernel, s.domain):
            raise PreconditionError(f"{step}: a bound of '{s.id}' is {origin(kernel, data)}.", subject=s.id,
                                    hint=leave_out)
        for a in own[s.id]:
            if of_value and a.is_write and not is_must_write(a):
                raise PreconditionError(
                    f"{step}: whether '{s.id}' writes '{name}' depends on data, so it is unknown which values "
                    "copy-in must load.", subject=name,
                    hint=f"{leave_out}, or write the old value where the condition fails: if(condition, new, old)")
    if is_special and (operation is not None or of_value):
        why = "arguments, not for temporaries" if of_value else "values, not for atomic updates"
        raise PreconditionError(f"{step}: fetch_bounding_box=, init_expression= and store_expression= are for {why}.",
                                subject=name, hint="leave them out")
    return users, operation


def _operation_of(step: str, name: str, accesses: Sequence[Access]) -> str | None:
    """The operation of the atomic updates that all *accesses* of users are part of; ``None``: none is part of one."""
    first = next((a for a in accesses if a.update is not None), None)
    if first is None:
        return None
    other = next((a for a in accesses if not commute(a, first) or a.update is None), None)
    if other is not None:
        raise PreconditionError(
            f"{step}: a buffer accumulates atomic updates of '{name}' by one operation, that of '{first.statement}', "
            f"but '{other.statement}' uses '{name}' in another way.", subject=name,
            hint=f"select the updates alone: within='{first.statement}'")
    return first.update


def _template(kernel: LoopKernel, what: str, text: str | None, *placeholders: str) -> Expression | None:
    """The expression *text* of *placeholders* and value arguments."""
    if text is None:
        return None
    expr = parse_expression(str(text), known=KnownNames(functions=kernel.functions))
    values = {a.name for a in kernel.arguments if isinstance(a, ValueArg)}
    if other := variables(expr) - {*placeholders, *values}:
        raise PreconditionError(f"{what} may contain {' and '.join(placeholders)} and value arguments, but not "
                                f"'{min(other)}'.", subject=min(other))
    return expr


def _ends_of_axes(buffer: Buffer, s: Statement, subscripts: Sequence[Expression]) -> Iterator[tuple[Expression, ...]]:
    """The *subscripts* of an update; of an axis whose subscript is read from memory, the first and the last element."""
    kernel, name = buffer.kernel, buffer.name
    ends: list[tuple[Expression, ...]] = []
    for axis, (e, extent) in enumerate(zip(subscripts, array_shapes(kernel)[name], strict=True)):
        is_affine = is_quasi_affine(e, s.inames, kernel.value_params)
        if not is_affine and not isinstance(extent, int):
            raise PreconditionError(
                f"{buffer.step}: '{s.id}' may access any element along axis {axis} of '{name}', whose extent is not "
                "declared or not constant.", subject=name, hint=f"GlobalArg('{name}', shape=...), or fix_parameters")
        ends.append((e, e) if is_affine or not isinstance(extent, int) else (0, extent - 1))
    yield from zip(*ends, strict=True) if ends else [()]


def _spanning(buffer: Buffer, users: Sequence[Statement]) -> Buffer:
    """*buffer* with its users and its loops: those that distinguish cells; for updates, all but the swept ones."""
    kernel, name = buffer.kernel, buffer.name
    uses = {s.id: tuple(dict.fromkeys(a.subscripts for a in accesses_to(kernel, s.id, name))) for s in users}
    stay = {x for arguments in uses.values() for args in arguments for e in args for x in variables(e)}
    if name in kernel.temporaries:
        # a value that enters or leaves an iteration is copied in or out there
        others = {a.statement for a in accesses_by_array(kernel)[name]} - uses.keys()
        stay = stay.union(*(meeting_of(kernel.paths, u, o).loops for u in uses for o in others))
    if buffer.operation is not None:
        stay = set(kernel.inames)
        uses = {s.id: tuple(dict.fromkeys(end for args in uses[s.id] for end in _ends_of_axes(buffer, s, args)))
                for s in users}
    return replace(buffer, uses=uses, outer=buffer.loops_around(dict.fromkeys(uses, stay), buffer.request.sweep))
