"""The staging engine: a staging buffer of cells for each iteration of the loops around it.

Copy-in fills the buffer before its users, and copy-out writes it back behind them. ``add_prefetch`` and ``precompute``
stage values that statements read; ``buffer_array`` also stages values that they write.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_as
from loopkit.analysis.constructors import with_dependences
from loopkit.analysis.order import loops_of
from loopkit.analysis.ranges import constant_range, known_sizes
from loopkit.analysis.shapes import array_shapes
from loopkit.errors import PreconditionError, ScheduleError
from loopkit.expr.mappers import children, map_children, variables
from loopkit.kernel.data import AddressSpace, TemporaryVariable
from loopkit.kernel.kernel import Derive, LoopKernel, unknown
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import GroupTag, InameTag
from loopkit.kernel.tree import Leaf, leaves, nest
from loopkit.poly.affine import add, subtract
from loopkit.poly.elements import BoxAxis, joined, outside, swept_interval
from loopkit.poly.enumerated import subscripts_on, where_holds
from loopkit.poly.limits import affordable
from loopkit.poly.pieces import plain_hull
from loopkit.poly.relations import same_element, subscript_relation
from loopkit.poly.sets import InstanceSet, Map, Set, with_dim_names
from loopkit.transform.placement import around_users, placed, with_loops_kept
from loopkit.transform.side_effects import Allowed, with_fewest_side_effects
from loopkit.transform.step import require_fresh, require_positive

Arguments = tuple[Expression, ...]

#: The arguments (subscripts) of an expression that a buffer replaces, else ``None``.
IsUse = Callable[[Expression], Arguments | None]


@dataclass(frozen=True)
class Box:
    """The box of a copy: per axis its interval; axes of one element have no iname."""

    intervals: tuple[BoxAxis, ...]
    inames: tuple[str | None, ...]

    def offsets(self, args: Sequence[Expression]) -> tuple[Expression, ...]:
        """The subscripts in the copy of the element at *args*."""
        return tuple(subtract(a, v.base) for a, v, x in zip(args, self.intervals, self.inames, strict=True)
                     if x is not None)

    def arguments(self) -> tuple[Expression, ...]:
        """The arguments at the point that the inames of the copy name."""
        return tuple(add(v.base, p.Variable(x)) if x is not None else v.base
                     for v, x in zip(self.intervals, self.inames, strict=True))

    @property
    def dims(self) -> tuple[str, ...]:
        return tuple(x for x in self.inames if x is not None)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(v.extent for v, x in zip(self.intervals, self.inames, strict=True) if x is not None)

    @property
    def conditions(self) -> list[tuple[str, Expression]]:
        """The bounds of the inames of the copy."""
        return [condition for x, length in zip(self.dims, self.shape, strict=True)
                for condition in ((">=", p.Variable(x)), ("<", add(p.Variable(x), -length)))]

    def lengthened(self, multiples: Sequence[int]) -> Box:
        """This box, with axes that have inames lengthened at their ends to multiples of these numbers."""
        numbers = iter(multiples)
        return replace(self, intervals=tuple(
            v if x is None else replace(v, extent=-(-v.extent // (by := next(numbers)))*by)
            for v, x in zip(self.intervals, self.inames, strict=True)))


@dataclass(frozen=True)
class StagingBuffer:
    """Cells in place of the uses found by *is_use* in the statements of *uses*: array elements or values of a rule.

    :ivar step: the transformation, as in its call; *name*: the array or the rule.
    :ivar sweep: the inames over which the box spans; *dim_names*: the requested names for the inames of the copy.
    :ivar value: the value of a cell, as a function of its arguments.
    :ivar whole_box: copy in all of the box, as far as the operands lie inside of their arrays.
    :ivar allowed: the side effects that the caller allows.
    :ivar multiples: numbers to whose multiples the lengths of the box's axes are rounded up.
    :ivar uses: for each user the arguments that span the box; *outer*: the inames of the loops around it.
    """

    kernel: LoopKernel
    step: str
    name: str
    sweep: tuple[str, ...]
    temporary: str
    is_use: IsUse
    value: Callable[[Arguments], Expression]
    tag: InameTag | None
    space: AddressSpace | None
    dtype: np.dtype | None
    whole_box: bool
    allowed: Allowed
    multiples: int | Sequence[int] = 1
    dim_names: Sequence[str] | None = None
    uses: Mapping[str, Sequence[Arguments]] = field(default_factory=dict)
    outer: tuple[str, ...] = ()

    @cached_property
    def box(self) -> Box:
        """The bounding box of all uses, lengthened."""
        box = _box_of(self)
        return box.lengthened(self._lengths(len(box.dims)))

    def _lengths(self, axes: int) -> tuple[int, ...]:
        """The multiples for the lengths of the box.

        :raises PreconditionError: not a positive integer for each axis, or the box is not copied as a whole.
        """
        given = self.multiples
        several = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]*axes
        if len(several) != axes:
            raise PreconditionError(
                f"{self.step}: the box has {axes} axes of more than one element, but box_multiples= has {len(several)} "
                "numbers.", subject="box_multiples",
                hint="give each a number, 1 for one that stays, or give a single number for all")
        numbers = tuple(require_positive(m, "each number of box_multiples=") for m in several)
        if not self.whole_box and any(m > 1 for m in numbers):
            raise PreconditionError(f"{self.step}: box_multiples= lengthens a box that is copied as a whole.",
                                    subject="box_multiples", hint="fetch_bounding_box=True")
        return numbers

    def placed_best(self, made: Callable[[StagingBuffer], LoopKernel], *, fixed: bool = False) -> LoopKernel:
        """*made* of the buffer in its loops, or in further loops around them if those give fewer side effects.

        :arg fixed: in its loops only.
        """
        wider = self.outer if fixed else with_loops_kept(self.kernel, list(self.uses), self.outer, self.sweep)
        return with_fewest_side_effects(self.kernel, self.step, self.allowed, (self.outer, wider),
                                        lambda place: made(replace(self, outer=place)))

    # {{{ cells

    @property
    def inames(self) -> tuple[str, ...]:
        """The inames of a cell: those of the loops around the buffer, and those of the place in the box."""
        return (*self.outer, *self.box.dims)

    def cell_of(self, domain: InstanceSet, arguments: Arguments) -> Map:
        """From the instances *domain* at least, which have *arguments*, to their cells."""
        return subscripts_on(domain, (*map(p.Variable, self.outer), *self.box.offsets(arguments)))

    def cells(self, moves: Iterable[Map]) -> InstanceSet:
        """The cells in the range of *moves*, which must not be empty."""
        return reduce(InstanceSet.union, (InstanceSet(self.inames, with_dim_names(move.range(), self.inames))
                                          for move in moves))

    def in_one_iteration(self, source: tuple[str, ...], sink: tuple[str, ...]) -> Map:
        """Instances of two lists of inames that share their cells: they agree in the loops around the buffer."""
        return same_element(*(subscript_relation(x, tuple(map(p.Variable, self.outer))) for x in (source, sink)))

    # }}}

    # {{{ statements

    def copy_in(self, statement_id: str, box: Box, points: Set, *, whole: bool = False) -> Statement:
        """The statement that computes the cells *points*, or the *whole* box around them; *box* names its inames."""
        inames = (*self.outer, *box.dims)
        copy = Statement(statement_id, element(self.temporary, tuple(map(p.Variable, box.dims))),
                         self.value(box.arguments()), InstanceSet(inames, with_dim_names(points, inames)))
        return replace(copy, domain=self._whole(copy, box)) if whole else copy

    def _whole(self, copy: Statement, box: Box) -> InstanceSet:
        """All of the box wherever some of it is used, except where *copy* would read outside of an array.

        :raises PreconditionError: the extents of an array are unknown.
        """
        every = copy.domain.onto(self.outer).onto(copy.inames).where(*box.conditions)
        names = self.kernel.value_params.union(copy.inames)
        inside, ends = every, dict[Expression, None]()
        for a in (a for a in accesses_as(self.kernel, replace(copy, domain=every)) if not a.is_write):
            along = [(i, extent) for i, extent in zip(a.subscripts, array_shapes(self.kernel)[a.array], strict=True)
                     if not variables(i).isdisjoint(box.dims)]
            if not along:
                continue
            own = tuple(p.Comparison(*end) for i, extent in along if extent is not None
                        for end in ((i, ">=", 0), (i, "<", extent)))
            there = where_holds(a.domain, p.LogicalAnd(own), names) if len(own) == 2*len(along) else None
            if there is None:
                raise PreconditionError(
                    f"{self.step}: it is not known where '{a.array}' ends for all of the box around '{self.name}'.",
                    subject=a.array, hint="leave fetch_bounding_box out, or declare its shape: "
                                          f"GlobalArg('{a.array}', shape=...)")
            inside, ends = inside.subtract(a.domain.subtract(there)), ends | dict.fromkeys(own)
        # isl gives a difference in pieces; it is one polyhedron where these conditions alone make it
        kept = tuple(end for end in ends if (holds := where_holds(inside, end, names)) is not None
                     and inside.is_subset(holds))
        plain = where_holds(every, p.LogicalAnd(kept), names) if kept else every
        return plain if plain is not None and plain.is_equal(inside) else inside

    def in_one_piece(self, copy: Statement) -> InstanceSet:
        """The domain of *copy*, or one polyhedron around its pieces if its operands lie inside of their arrays there.

        A few more loads cost less than the guards for the pieces, and less than the analysis of many pieces in later
        steps.
        """
        kernel = self.kernel
        if copy.domain.set.n_basic_set() < 2:
            return copy.domain
        every = copy.domain.named(plain_hull(copy.domain.set)).where(*self.box.conditions)
        places = copy.domain.onto(self.outer).set.remove_divs()
        shapes = array_shapes(kernel)
        for a in accesses_as(kernel, replace(copy, domain=every)):
            if not a.is_write and (
                    a.array not in shapes or a.array in kernel.temporaries or a.array in kernel.written_names
                    or not a.affine or not a.must
                    or outside(a.relation, shapes[a.array], kernel.assumptions) is not None):
                return copy.domain
        fits = every.set.is_bounded() and affordable(lambda: every.onto(self.outer).set.is_subset(places),
                                                     otherwise=False)
        return every if fits else copy.domain

    def used(self, expr: Expression) -> Expression:
        """*expr* with cells in the place of all uses."""
        arguments = self.is_use(expr)
        return map_children(expr, self.used) if arguments is None else element(self.temporary,
                                                                               self.box.offsets(arguments))

    def put_in(self, first: Statement | None, last: Statement | None, rewritten: Callable[[Statement], Statement],
               derive: Derive, writers: frozenset[str] = frozenset()) -> LoopKernel:
        """The kernel with copy-in and copy-out, as far as they exist, around its users, which are *rewritten*.

        :arg derive: gives the dependences of the result; see :func:`loopkit.analysis.constructors.with_dependences`.
        :arg writers: statements that must stay before the copy-in.
        """
        kernel, users = self.kernel, frozenset(self.uses)
        copies = [s for s in (first, last) if s is not None]
        before, after = (None if s is None else nest(s.inames[len(self.outer):], Leaf(s.id)) for s in (first, last))
        tree = placed(kernel, self.step, self.name, users, self.outer,
                      lambda body: around_users(body, users, before, after, writers))
        at = {s: i for i, s in enumerate(leaves(tree))}
        new = [rewritten(s) if s.id in users else s for s in kernel.statements]
        dims = [x for s in copies for x in s.inames[len(self.outer):]] if self.tag is not None else []
        return with_dependences(
            kernel, derive, statements=tuple(sorted([*copies, *new], key=lambda s: at[s.id])), tree=tree,
            temporaries={**kernel.temporaries, self.temporary: TemporaryVariable(self.temporary, self.dtype,
                                                                                 self.box.shape, self.space)},
            tags={**kernel.tags, **{x: self.tag for x in dims if self.tag is not None}})

    # }}}


def element(name: str, subscripts: Arguments) -> p.Variable | p.Subscript:
    """An element of an array, or a scalar."""
    return p.Subscript(p.Variable(name), subscripts) if subscripts else p.Variable(name)


def uses_of_array(name: str) -> IsUse:
    """The predicate for uses of the array *name*."""
    def is_use(expr: Expression) -> Arguments | None:
        if isinstance(expr, p.Subscript) and expr.aggregate == p.Variable(name):
            return expr.index_tuple
        return () if expr == p.Variable(name) else None
    return is_use


def uses_in(s: Statement, is_use: IsUse) -> tuple[Arguments, ...]:
    """The arguments of the uses in a statement's expression and in the subscripts of its assignee, each once."""
    return uses_of((s.expression, *s.subscripts), is_use)


def uses_of(expressions: Iterable[Expression], is_use: IsUse) -> tuple[Arguments, ...]:
    """The arguments of the uses in *expressions*, each once."""
    found: dict[Arguments, None] = {}

    def walk(expr: Expression) -> None:
        args = is_use(expr)
        if args is not None:
            found[args] = None
        for child in expr.index_tuple if isinstance(expr, p.Subscript) else children(expr):
            walk(child)
    for expression in expressions:
        walk(expression)
    return tuple(found)


def require_inames(inames: Sequence[str], known: Collection[str], where: str) -> None:
    """:raises UnknownNameError: one of *inames* is not in *known*."""
    if strange := [x for x in inames if x not in known]:
        raise unknown("iname", strange[0], known, where=where)


def loops_around(kernel: LoopKernel, name: str, stay: Mapping[str, Collection[str]], sweep: Collection[str],
                 others: str = "") -> tuple[str, ...]:
    """The loops around a buffer, the same for all its users: those that *stay* for each, but for those of *sweep*.

    :raises ScheduleError: they differ between users.
    """
    found: dict[tuple[str, ...], str] = {}
    for s, inames in stay.items():
        found[tuple(x for x in loops_of(kernel.paths[s]) if x not in sweep and (
            x in inames or isinstance(kernel.tags.get(x), GroupTag)))] = s
    if len(found) > 1:
        (a, first), (b, second) = list(found.items())[:2]
        raise ScheduleError(
            f"'{first}' and '{second}' use '{name}' in different loops ({', '.join(a) or 'none'} and "
            f"{', '.join(b) or 'none'}), so that one copy cannot serve both.", subject=name,
            hint=f"name one of them with within={others}")
    return next(iter(found))


# {{{ the box

def _box_of(buffer: StagingBuffer) -> Box:
    """The bounding box of all uses while the inames of *sweep* vary and those of *outer* are fixed.

    :raises PreconditionError: there is none of constant size, or too few names.
    """
    found: list[BoxAxis] | None = None
    for statement, arguments in buffer.uses.items():
        domain = buffer.kernel.statement_by_id[statement].domain
        ranges = _sweep_ranges(buffer, domain, arguments)
        for args in arguments:
            intervals = []
            for axis, a in enumerate(args):
                interval = swept_interval(domain, a, buffer.outer, ranges, known_sizes(buffer.kernel))
                if interval is not None and found is not None:
                    interval = joined(found[axis], interval)
                if interval is None:
                    raise PreconditionError(
                        f"{buffer.step}: what is used along axis {axis} of '{buffer.name}' has no box of constant "
                        "size.", subject=buffer.name,
                        hint="sweep inames of constant range only (split_iname), or name fewer statements with within=")
                intervals.append(interval)
            found = intervals
    assert found is not None
    spanned = [k for k, v in enumerate(found) if v.extent > 1]
    names: list[str | None] = [None] * len(found)
    for number, k in enumerate(spanned):
        names[k] = _dim_name(buffer, number, k)
    return Box(tuple(found), tuple(names))


def _dim_name(buffer: StagingBuffer, number: int, axis: int) -> str:
    if buffer.dim_names is None:
        return buffer.kernel.fresh_name(f"{buffer.name}_dim_{axis}")
    if number >= len(buffer.dim_names):
        raise PreconditionError(f"{buffer.step} has more axes than names were given ({list(buffer.dim_names)}).",
                                subject=buffer.name)
    require_fresh(buffer.kernel, buffer.dim_names[number])
    return buffer.dim_names[number]


def _sweep_ranges(buffer: StagingBuffer, domain: InstanceSet, arguments: Sequence[Arguments]
                  ) -> dict[str, tuple[int, int]]:
    mentioned = {y for args in arguments for a in args for y in variables(a)}
    ranges = {}
    for x in buffer.sweep:
        if x in domain.inames and x in mentioned:
            low, high = constant_range(buffer.kernel, domain, x)
            if low is None or high is None:
                raise PreconditionError(f"{buffer.step}: '{x}' has no constant range.", subject=x,
                                        hint=f"split_iname(knl, '{x}', 16) and sweep the inner iname")
            ranges[x] = (low, high)
    return ranges

# }}}
