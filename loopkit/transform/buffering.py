"""Buffers: part of an array worked on in a temporary, loaded before and stored after (buffer_array)."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access, accesses_of, data_params
from loopkit.analysis.buffer_proof import require_buffered
from loopkit.analysis.dependences import Dependence, dependences, unchanged_from, values_in, with_waived
from loopkit.analysis.legality import require_legal
from loopkit.analysis.order import loops_of
from loopkit.errors import PreconditionError, ScheduleError, UndecidedError
from loopkit.expr.mappers import map_children, substitute, variables
from loopkit.expr.parsing import parse_expression
from loopkit.kernel.data import AddressSpace, TemporaryVariable, ValueArg
from loopkit.kernel.kernel import LoopKernel, unknown
from loopkit.kernel.obligation import Obligation
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import GroupTag, InameTag
from loopkit.kernel.tree import Leaf, leaves, nest
from loopkit.poly.affine import NotAffineError, to_aff
from loopkit.poly.relations import restrict, same_element, subscript_relation
from loopkit.poly.sets import InstanceSet, Map, with_dim_names
from loopkit.transform.box import Box, Sweep, box_of
from loopkit.transform.placement import around_users, placed
from loopkit.transform.reindex import with_expressions
from loopkit.transform.step import (
    as_address_space,
    as_tag,
    matching_statements,
    name_list,
    require_fresh,
    require_fresh_id,
    transform,
)


@transform
def buffer_array(kernel: LoopKernel, var_name: str, buffer_inames: str | Iterable[str],
                 init_expression: str | None = None, store_expression: str | None = None, *,
                 within: str | Collection[str] | None = None, default_tag: str | InameTag | None = "l.auto",
                 temporary_name: str | None = None, temporary_address_space: str | AddressSpace | None = None,
                 init_insn_id: str | None = None, store_insn_id: str | None = None, assume: str | None = None,
                 unsafe: bool = False) -> LoopKernel:
    """Let statements work on a temporary in the place of an array, over what *buffer_inames* touch of it.

    Before the part that uses the array, the buffer is loaded, unless each element is certainly written before it is
    read; after that part, the elements that are written are stored. The loops around all this are those of the inames
    that the subscripts mention and that are not in *buffer_inames* (parallel inames of the grid stay too).

    :arg var_name: an array argument.
    :arg buffer_inames: the inames whose iterations share one buffer.
    :arg init_expression: what the buffer is loaded with, in terms of ``base``, the element of the array; default: that.
    :arg store_expression: what is stored, in terms of ``base`` and ``buffer``, the value in the buffer; default: that.
        Whether other expressions give the same values is the caller's to say, by *assume* or *unsafe*.
    :arg within: the statements that use the buffer; default: all that touch the array.
    :arg default_tag: tag for the inames of loading and storing; ``"l.auto"`` spreads them over the threads of a
        block.
    :raises UnknownNameError: no such array, or an iname that no statement has.
    :raises NameConflictError: a name that is taken.
    :raises PreconditionError: nothing writes the array, a subscript or a bound is read from memory, or the box has no
        constant size.
    :raises ScheduleError: the statements do not share a place for the buffer.
    :raises IllegalTransformError: the buffer would miss a write of others, or hide its own from them.
    :raises UndecidedError: an expression was given, and nobody answers for it.

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
    if var_name not in kernel.array_args:
        raise unknown("array argument", var_name, kernel.array_args)
    sweep = name_list(buffer_inames)
    step = f"buffer_array({var_name!r}, {list(sweep)})"
    users = _users_of(kernel, var_name, within)
    _require_usable(kernel, step, var_name, users)
    for x in sweep:
        if not any(x in s.inames for s in users):
            raise unknown("iname", x, {y for s in users for y in s.inames}, where=f"the users of '{var_name}'")
    name = temporary_name or kernel.fresh_name(f"{var_name}_buf")
    require_fresh(kernel, name, "temporary")
    uses = [(s, _subscripts_of(kernel, var_name, s)) for s in users]
    outer = _outer_inames(kernel, var_name, uses, sweep)
    box = box_of(kernel, Sweep(step, var_name, sweep, None), uses, outer)
    ids = _ids_of(kernel, var_name, init_insn_id, store_insn_id)
    space = None if temporary_address_space is None else as_address_space(temporary_address_space)
    init = _template(kernel, "init_expression", init_expression, "base")
    store = _template(kernel, "store_expression", store_expression, "base", "buffer")
    buffer = _Buffer(kernel, var_name, name, tuple(s.id for s in users), outer, box,
                     None if default_tag is None else as_tag(default_tag), space, ids[0], ids[1], init, store)
    result = buffer.put_in(step, load=True)
    if init is not None or store is not None:
        _require_dtype(kernel, step, var_name)
        return _answered_for(require_legal(result, step, assume=assume, unsafe=unsafe), step, var_name, assume, unsafe)
    if not any(d.source == buffer.load_id for d in dependences(result) if d.array == name and d.kind == "flow"):
        _require_dtype(kernel, step, var_name)
        result = buffer.put_in(step, load=False)
    require_buffered(kernel, result, var_name, name, step)
    return require_legal(result, step, assume=assume, unsafe=unsafe)


# {{{ preconditions

def _users_of(kernel: LoopKernel, name: str, within: str | Collection[str] | None) -> list[Statement]:
    chosen = matching_statements(kernel, within)
    return [s for s in kernel.statements if (chosen is None or s.id in chosen)
            and any(a.array == name for a in accesses_of(kernel, s))]


def _subscripts_of(kernel: LoopKernel, name: str, s: Statement) -> tuple[tuple[Expression, ...], ...]:
    return tuple(dict.fromkeys(a.subscripts for a in accesses_of(kernel, s) if a.array == name))


def _ids_of(kernel: LoopKernel, name: str, init: str | None, store: str | None) -> tuple[str, str]:
    """The ids of loading and storing; :raises NameConflictError: one is taken."""
    ids = init or kernel.fresh_name(f"init_{name}"), store or kernel.fresh_name(f"store_{name}")
    require_fresh_id(kernel, ids[0])
    require_fresh_id(kernel, ids[1], ids[0])
    return ids


def _require_dtype(kernel: LoopKernel, step: str, name: str) -> None:
    """A buffer that is not loaded with the array's own values says nothing of their dtype."""
    if kernel.array_args[name].dtype is None:
        raise PreconditionError(f"{step}: '{name}' has no dtype yet, which its buffer takes.", subject=name,
                                hint=f"add_dtypes(knl, {{'{name}': ...}}) first")


def _template(kernel: LoopKernel, what: str, text: str | None, *placeholders: str) -> Expression | None:
    """The expression *text* of *placeholders* and value arguments."""
    if text is None:
        return None
    expr = parse_expression(str(text))
    values = {a.name for a in kernel.arguments if isinstance(a, ValueArg)}
    if other := variables(expr) - {*placeholders, *values}:
        raise PreconditionError(f"{what} is made of {' and '.join(placeholders)} and of value arguments, not of "
                                f"'{min(other)}'.", subject=min(other))
    return expr


def _answered_for(knl: LoopKernel, step: str, name: str, assume: str | None, unsafe: bool) -> LoopKernel:
    """*knl* owing that the expressions of its buffer change no value; :raises UndecidedError: nobody says so."""
    if assume is None and not unsafe:
        raise UndecidedError(
            f"{step}: whether '{name}' gets the same values cannot be decided.",
            "init_expression= and store_expression= say what its buffer is loaded with and what of it is stored",
            hint='leave them out, or answer for them: assume="..."')
    owed = Obligation(step, f"what is loaded and stored leaves in '{name}' what its statements give it", assume)
    return knl.copy(obligations=(*knl.obligations, owed), carried=unchanged_from(knl))


def _require_usable(kernel: LoopKernel, step: str, name: str, users: Sequence[Statement]) -> None:
    if not any(s.written == name for s in users):
        raise PreconditionError(f"No statement writes '{name}'.", subject=name,
                                hint="to read a copy of it, add_prefetch")
    for rule in kernel.substitutions.values():
        if name in variables(rule.expr):
            raise PreconditionError(f"'{name}' is used by the substitution rule '{rule.name}'.", subject=name,
                                    hint=f"expand_subst(knl, '{rule.name}') first")
    for s in users:
        if data_params(kernel, s.domain):
            raise PreconditionError(f"{step}: a bound of '{s.id}' is read from memory.", subject=s.id,
                                    hint="leave this statement out with within=")
        for a in accesses_of(kernel, s):
            if a.array == name and not _affine(kernel, s, a.subscripts):
                at = ", ".join(map(str, a.subscripts))
                raise PreconditionError(f"{step} needs affine subscripts, but '{s.id}' touches '{name}[{at}]'.",
                                        subject=name, hint="leave this statement out with within=")


def _affine(kernel: LoopKernel, s: Statement, subscripts: Sequence[Expression]) -> bool:
    try:
        for e in subscripts:
            to_aff(e, s.inames, kernel.value_params)
    except NotAffineError:
        return False
    return True


def _outer_inames(kernel: LoopKernel, name: str, uses: Sequence[tuple[Statement, Sequence[tuple[Expression, ...]]]],
                  sweep: Collection[str]) -> tuple[str, ...]:
    """The loops around the buffer, the same for all users."""
    mentioned = frozenset[str]().union(*(variables(e) for _, arguments in uses for args in arguments for e in args))
    results: dict[tuple[str, ...], str] = {}
    for s, _ in uses:
        results[tuple(x for x in loops_of(kernel.paths[s.id]) if x not in sweep and (
            x in mentioned or isinstance(kernel.tags.get(x), GroupTag)))] = s.id
    if len(results) > 1:
        (a, first), (b, second) = list(results.items())[:2]
        raise ScheduleError(
            f"'{first}' and '{second}' use '{name}' in different loops ({', '.join(a) or 'none'} and "
            f"{', '.join(b) or 'none'}), so that one buffer cannot serve both.", subject=name,
            hint="name one of them with within=")
    return next(iter(results))

# }}}


@dataclass(frozen=True)
class _Buffer:
    """What stands in the place of the array *name*, and for whom."""

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

    def put_in(self, step: str, *, load: bool) -> LoopKernel:
        """The kernel with the buffer, with or without loading it."""
        kernel, users = self.kernel, frozenset(self.users)
        moves = {u: self._moves(u) for u in self.users}
        every = [m for own in moves.values() for _, m in own]
        written = [m for own in moves.values() for a, m in own if a.is_write]
        first = self._copy(self.load_id, "init", every) if load else None
        last = self._copy(self.store_id, "store", written)
        store_box = self._named("store")
        trees = None if first is None else nest(self._named("init").dims, Leaf(self.load_id))
        tree = placed(kernel, step, self.name, users, self.outer,
                      lambda body: around_users(body, users, trees, nest(store_box.dims, Leaf(self.store_id))))
        at = {s: i for i, s in enumerate(leaves(tree))}
        new = [with_expressions(s, self._replaced) if s.id in users else s for s in kernel.statements]
        statements = tuple(sorted([*([] if first is None else [first]), last, *new], key=lambda s: at[s.id]))
        dims = [*([] if first is None else self._named("init").dims), *store_box.dims]
        temporary = TemporaryVariable(self.temporary, kernel.array_args[self.name].dtype, self.box.shape, self.space)
        result = kernel.copy(
            statements=statements, tree=tree, temporaries={**kernel.temporaries, self.temporary: temporary},
            tags={**kernel.tags, **(dict.fromkeys(dims, self.tag) if self.tag is not None else {})})

        def carried() -> tuple[Dependence, ...]:
            return (*_Moved(self, result, moves, first, last).dependences(),
                    *values_in(result, self.temporary, self.outer))
        return result.copy(carried=carried)

    def _named(self, what: str) -> Box:
        """The box with the inames of loading (``init``) or storing."""
        inames = (None if x is None else self.kernel.fresh_name(f"{self.name}_{what}_{k}")
                  for k, x in enumerate(self.box.inames))
        return replace(self.box, inames=tuple(inames))

    def _copy(self, statement_id: str, what: str, moves: Sequence[Map]) -> Statement:
        """The statement that loads or stores what the images of *moves* name."""
        box = self._named(what)
        inames = (*self.outer, *box.dims)
        points: InstanceSet | None = None
        for move in moves:
            image = InstanceSet(inames, with_dim_names(move.range(), inames))
            points = image if points is None else points.union(image)
        assert points is not None
        target = p.Variable(self.temporary)
        cell = p.Subscript(target, tuple(p.Variable(x) for x in box.dims)) if box.dims else target
        element = _element(self.name, box.arguments())
        if what == "init":
            value = element if self.init is None else substitute(self.init, {"base": element})
            return Statement(statement_id, cell, value, points)
        value = cell if self.store is None else substitute(self.store, {"base": element, "buffer": cell})
        return Statement(statement_id, element, value, points)

    def _moves(self, user: str) -> list[tuple[Access, Map]]:
        """For each access of *user*: the point of loading and storing that is its element."""
        s = self.kernel.statement_by_id[user]
        outer = tuple(p.Variable(x) for x in self.outer)
        return [(a, restrict(subscript_relation(s.inames, (*outer, *self.box.offsets(a.subscripts))), a.domain))
                for a in accesses_of(self.kernel, s) if a.array == self.name]

    def _replaced(self, expr: Expression) -> Expression:
        target = p.Variable(self.temporary)
        if isinstance(expr, p.Subscript) and expr.aggregate == p.Variable(self.name):
            return p.Subscript(target, self.box.offsets(expr.index_tuple)) if self.box.dims else target
        return target if expr == p.Variable(self.name) else map_children(expr, self._replaced)


def _element(name: str, arguments: tuple[Expression, ...]) -> p.Variable | p.Subscript:
    return p.Subscript(p.Variable(name), arguments) if arguments else p.Variable(name)


# {{{ dependences

@dataclass(frozen=True)
class _End:
    """One end of a dependence after the step: a statement that reads or writes the array, and the way to it."""

    statement: str
    is_write: bool
    move: Map | None


@dataclass(frozen=True)
class _Moved:
    """What bound the users of the array binds the loading and the storing of their buffer."""

    buffer: _Buffer
    result: LoopKernel
    moves: Mapping[str, Sequence[tuple[Access, Map]]]
    load: Statement | None
    store: Statement

    def dependences(self) -> Iterator[Dependence]:
        for d in with_waived(self.buffer.kernel):
            if d.array != self.buffer.name or not (d.source in self.moves or d.sink in self.moves):
                yield d
                continue
            for a in self._ends(d.source, is_write=d.kind in ("flow", "output")):
                for b in self._ends(d.sink, is_write=d.kind in ("anti", "output")):
                    if a.is_write or b.is_write:
                        yield from self._between(d, a, b)
        for load in self._reading():
            if load.statement != self.store.id:
                once = same_element(self._elements(load), self._elements(_End(self.store.id, True, None)))
                yield self._dependence("anti", load.statement, self.store.id, once.intersect(self._same_region()))

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
            if is_write or end.statement != self.store.id:      # what is only read is not stored
                yield replace(end, move=move)
        if is_write:
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
            yield replace(self._dependence(kind, a.statement, b.statement, relation), exact=d.exact)

    def _dependence(self, kind: str, source: str, sink: str, relation: Map) -> Dependence:
        return Dependence(kind, self.buffer.name, source, sink, relation)

    def _same_region(self) -> Map:
        """Points of loading or storing that belong to one filling of the buffer."""
        outer = tuple(p.Variable(x) for x in self.buffer.outer)
        filling = subscript_relation(self.store.inames, outer)
        return same_element(filling, filling)

    def _elements(self, end: _End) -> Map:
        found: Map | None = None
        for a in accesses_of(self.result, self.result.statement_by_id[end.statement]):
            if a.array == self.buffer.name and a.is_write == end.is_write:
                found = a.relation if found is None else found.union(a.relation)
        assert found is not None
        return found

# }}}
