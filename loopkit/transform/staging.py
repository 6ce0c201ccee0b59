"""The staging engine: a staging buffer of cells for each iteration of the loops around it.

Copy-in writes the buffer before its users run, and copy-out writes it back after them. ``add_prefetch`` and
``precompute`` stage values that statements read; ``buffer_array`` also stages values that they write.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Self

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_as, analysis_domain, is_known
from loopkit.analysis.constructors import with_dependences
from loopkit.analysis.order import loops_of
from loopkit.analysis.ranges import constant_range, known_sizes
from loopkit.analysis.shapes import array_shapes
from loopkit.errors import LoopkitError, PreconditionError, ScheduleError
from loopkit.expr.indices import short_index
from loopkit.expr.mappers import element, map_children, variables
from loopkit.expr.nodes import to_text
from loopkit.kernel.data import AddressSpace, TemporaryVariable, named_space
from loopkit.kernel.kernel import Derive, LoopKernel
from loopkit.kernel.statement import Statement, StatementOptions
from loopkit.kernel.tags import GroupTag, InameTag, LocalTag, is_innermost, is_parallel
from loopkit.kernel.tree import Leaf, Loop, Tree, in_order_of, leaves, nest, parts_of, rewrite_over, seq, without
from loopkit.language.names import name_list
from loopkit.poly.affine import add, affine_difference, subtract
from loopkit.poly.elements import BoxAxis, joined, outside, swept_interval
from loopkit.poly.limits import affordable
from loopkit.poly.piecewise import subscripts_on, where_holds
from loopkit.poly.sets import Condition, InstanceSet, Map, Set, bounded_by, plain_hull, with_dim_names
from loopkit.transform.order import with_loop_sunk
from loopkit.transform.side_effects import Allowed, side_effect
from loopkit.transform.step import as_tag, new_name, require_fresh, require_positive

Arguments = tuple[Expression, ...]


@dataclass(frozen=True)
class Staged:
    """The elements of an array or the values of a rule.

    :ivar value: the value of a cell, as a function of its arguments.
    :ivar free: inames that are further arguments of each use.
    :ivar only: the subscripts of the uses that are replaced, ``None`` for any; without subscripts, all uses are.
    """

    name: str
    value: Callable[[Arguments], Expression]
    free: tuple[str, ...] = ()
    only: tuple[Expression | None, ...] = ()

    def is_use(self, expr: Expression) -> Arguments | None:
        """The arguments (subscripts) of *expr* if it is replaced, else ``None``."""
        match expr:
            case (p.Subscript(aggregate=p.Variable(name=name), index_tuple=args)
                  | p.Call(function=p.Variable(name=name), parameters=args)) if name == self.name:
                chosen = all(wanted is None or wanted == given or affine_difference(wanted, given) == 0
                             for wanted, given in zip(self.only, args, strict=False))
                if not chosen:
                    return None
                return (*args, *map(p.Variable, self.free))
            case p.Variable(name=self.name) if not self.only:
                return tuple(map(p.Variable, self.free))
            case _:
                return None


@dataclass(frozen=True)
class BoxRequest:
    """The box of a copy as requested by the caller, over the inames *sweep*; *tag*: the tag of the copy's inames."""

    sweep: tuple[str, ...]
    tag: str | InameTag | None
    whole: bool
    dim_names: str | Iterable[str] | None = None
    multiples: int | Sequence[int] = 1


@dataclass(frozen=True)
class Box:
    """The box of a copy: per axis its interval and its iname; axes of one element have none."""

    axes: tuple[tuple[BoxAxis, str | None], ...]

    def offsets(self, args: Sequence[Expression]) -> tuple[Expression, ...]:
        return tuple(short_index(subtract(a, v.base)) for a, (v, x) in zip(args, self.axes, strict=True)
                     if x is not None)

    def arguments(self) -> tuple[Expression, ...]:
        """The arguments at the point that the inames of the copy name."""
        return tuple(v.base if x is None else add(v.base, p.Variable(x)) for v, x in self.axes)

    @property
    def dims(self) -> tuple[str, ...]:
        return tuple(x for _, x in self.axes if x is not None)

    @property
    def shape(self) -> tuple[Expression, ...]:
        return tuple(v.extent for v, x in self.axes if x is not None)

    @property
    def conditions(self) -> list[Condition]:
        return [c for x, length in zip(self.dims, self.shape, strict=True) for c in bounded_by(x, 0, length)]


@dataclass(frozen=True)
class StagingBuffer:
    """A temporary with cells in place of the uses of *staged* in some statements.

    :ivar step: the transformation, as in its call.
    :ivar uses: for each user the arguments that span the box; *outer*: the inames of the loops around it.
    """

    kernel: LoopKernel
    step: str
    staged: Staged
    temporary: TemporaryVariable
    request: BoxRequest
    allowed: Allowed
    uses: Mapping[str, Collection[Arguments]] = field(default_factory=dict)
    outer: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.staged.name

    @cached_property
    def box(self) -> Box:
        axes: list[tuple[BoxAxis, str | None]] = [(v, None) for v in _intervals(self)]
        spanned = [axis for axis, (v, _) in enumerate(axes) if not v.is_one]
        names = self._dim_names(spanned, len(axes))
        for axis, name, multiple in zip(spanned, names, self._multiples(len(spanned)), strict=True):
            interval, _ = axes[axis]
            own = interval.extent
            axes[axis] = replace(interval, extent=-(-own // multiple)*multiple if isinstance(own, int) else own), name
        return Box(tuple(axes))

    def _dim_names(self, axes: Sequence[int], rank: int) -> list[str]:
        if self.request.dim_names is None:
            return [self.kernel.fresh_name(f"{self.name}_dim_{axis}") for axis in axes]
        given = list(name_list(self.request.dim_names))
        if len(given) < len(axes):
            raise PreconditionError(f"{self.step} needs a name for each axis, and has only {given}.", subject=self.name)
        # names of all axes, or of those with more than one element
        own = [given[axis] for axis in axes] if len(given) == rank else given[:len(axes)]
        for name in own:
            require_fresh(self.kernel, name, in_rules=False)
        return own

    def _multiples(self, axes: int) -> tuple[int, ...]:
        given = self.request.multiples
        several = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]*axes
        if len(several) != axes:
            raise PreconditionError(
                f"{self.step}: the box has {axes} axes of more than one element, but box_multiples= has {len(several)} "
                "numbers.", subject="box_multiples",
                hint="pass a number for each, 1 to keep its length, or a single number for all")
        numbers = tuple(require_positive(m, "each number of box_multiples=") for m in several)
        if not self.request.whole and any(m > 1 for m in numbers):
            raise PreconditionError(f"{self.step}: box_multiples= needs fetch_bounding_box=True.",
                                    subject="box_multiples", hint="fetch_bounding_box=True")
        return numbers

    def placed_best(self, made: Callable[[Self], LoopKernel], *, fixed: bool = False) -> LoopKernel:
        """*made* in its loops or, unless *fixed*, in further loops around them, where it has no side effect.

        :raises LoopkitError: there are no such loops; the error is that of its own.
        """
        refusals: list[LoopkitError] = []
        for outer in (self.outer,) if fixed else dict.fromkeys((self.outer, self._wider())):
            try:
                result = made(replace(self, outer=outer))
                found = side_effect(self.kernel, result, self.step, self.allowed)
            except LoopkitError as error:
                found = error
            if found is None:
                return result
            refusals.append(found)
        raise refusals[0]

    def _wider(self) -> tuple[str, ...]:
        """The loops around the buffer and the sequential loops between them: then only a swept loop must move."""
        moving = {x for x, tag in self.kernel.tags.items() if is_parallel(tag) or is_innermost(tag)}
        found = {tuple(x for x in loops if x in self.outer or (
            x in loops[:loops.index(self.outer[-1])] and x not in moving.union(self.request.sweep)))
            for loops in (loops_of(self.kernel.paths[s]) for s in self.uses)} if self.outer else set()
        return found.pop() if len(found) == 1 else self.outer

    def loops_around(self, stay: Mapping[str, Collection[str]], sweep: Collection[str], others: str = ""
                     ) -> tuple[str, ...]:
        """The loops that *stay* around each user, without those over *sweep*; the same for all users."""
        paths, tags = self.kernel.paths, self.kernel.tags
        # registers belong to the threads: a copy there is one for each
        in_registers = self.temporary.address_space in (AddressSpace.PRIVATE, AddressSpace.WARP)
        own = (GroupTag, LocalTag) if in_registers else (GroupTag,)
        found = {tuple(x for x in loops_of(paths[s]) if x not in sweep and (
            x in inames or isinstance(tags.get(x), own))): s for s, inames in stay.items()}
        if len(found) > 1:
            (a, first), (b, second) = list(found.items())[:2]
            raise ScheduleError(
                f"'{first}' and '{second}' use '{self.name}' in different loops ({', '.join(a) or 'none'} and "
                f"{', '.join(b) or 'none'}), so one copy cannot serve both.", subject=self.name,
                hint=f"select one of them by within={others}")
        return next(iter(found))

    @property
    def inames(self) -> tuple[str, ...]:
        return (*self.outer, *self.box.dims)

    def cell_of(self, domain: InstanceSet, arguments: Arguments) -> Map:
        """From at least the instances *domain*, which have *arguments*, to their cells."""
        return subscripts_on(domain, (*map(p.Variable, self.outer), *self.box.offsets(arguments)))

    def cells(self, moves: Iterable[Map]) -> InstanceSet:
        return reduce(InstanceSet.union, (InstanceSet(self.inames, with_dim_names(move.range(), self.inames))
                                          for move in moves))

    def copy_in(self, statement_id: str, box: Box, points: Set, *, whole: bool = False) -> Statement:
        """The statement that computes the cells *points*, or the *whole* box around them; *box* names its inames."""
        inames = (*self.outer, *box.dims)
        copy = Statement(statement_id, element(self.temporary.name, tuple(map(p.Variable, box.dims))),
                         self.staged.value(box.arguments()), InstanceSet(inames, with_dim_names(points, inames)),
                         options=StatementOptions(calls=tuple(self._calls(inames))))
        return replace(copy, domain=self._whole(copy, box)) if whole else copy

    def _calls(self, inames: Collection[str]) -> Iterator[str]:
        """The calls of functions around all readers, in whose loops the copy is too."""
        every = [self.kernel.statement_by_id[s].options.calls for s in self.uses]
        for call, *others in zip(*every, strict=False):
            if {*others} - {call} or not set(self.kernel.calls[call].inames).issubset(inames):
                return
            yield call

    def _whole(self, copy: Statement, box: Box) -> InstanceSet:
        """All of the box wherever some of it is used, except where *copy* would read outside of an array."""
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
                    f"{self.step}: the box around '{self.name}' needs the extents of '{a.array}', which are unknown.",
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

        A few more loads cost less than the guards for the pieces, and than the analysis of many pieces in later steps.
        """
        kernel = self.kernel
        if copy.domain.set.n_basic_set() < 2:
            return copy.domain
        every = copy.domain.named(plain_hull(copy.domain.set)).where(*self.box.conditions)
        places = copy.domain.onto(self.outer).set.remove_divs()
        shapes = array_shapes(kernel)
        fits = all(a.is_write or (a.exact and a.array not in kernel.temporaries.keys() | kernel.written_names
                                  and outside(a.relation, shapes[a.array], kernel.assumptions) is None)
                   for a in accesses_as(kernel, replace(copy, domain=every)))
        return every if fits and every.set.is_bounded() and affordable(
            lambda: every.onto(self.outer).set.is_subset(places), otherwise=False) else copy.domain

    def used(self, expr: Expression) -> Expression:
        arguments = self.staged.is_use(expr)
        return map_children(expr, self.used) if arguments is None else element(self.temporary.name,
                                                                               self.box.offsets(arguments))

    def put_in(self, first: Statement | None, last: Statement | None, rewritten: Callable[[Statement], Statement],
               derive: Derive, writers: frozenset[str] = frozenset()) -> LoopKernel:
        """The kernel with copy-in and copy-out, if any, around the *rewritten* users, and after *writers*."""
        kernel, copies = self.kernel, [s for s in (first, last) if s is not None]
        before, after = (seq() if s is None else nest(s.inames[len(self.outer):], Leaf(s.id)) for s in (first, last))
        tree = self._with_parts(before, after, writers)
        new = [rewritten(s) if s.id in self.uses else s for s in kernel.statements]
        tag = None if self.request.tag is None else as_tag(self.request.tag)
        return with_dependences(
            kernel, derive, statements=in_order_of(tree, [*copies, *new]), tree=tree,
            temporaries={**kernel.temporaries, self.temporary.name: replace(self.temporary, shape=self.box.shape)},
            tags={**kernel.tags, **{x: tag for s in copies for x in s.inames[len(self.outer):] if tag is not None}})

    def _with_parts(self, first: Tree, last: Tree, writers: frozenset[str]) -> Tree:
        """The tree with *first* and *last* in the innermost loop around the buffer; other loops move inside."""
        tree, users = self.kernel.tree, frozenset(self.uses)
        if self.temporary.address_space is AddressSpace.GLOBAL:
            # a reader may run in the next launch: its accumulators stay in registers if all of it does
            users |= {node.init for node in self.kernel.reductions.values() if not users.isdisjoint(node.updates)
                      and {*self.outer} <= {*loops_of(self.kernel.paths[node.init])}}
        if not self.outer:
            return _around(tree, users, first, last, writers)
        loops, inner = loops_of(self.kernel.paths[next(iter(users))]), self.outer[-1]
        for x in reversed(loops[:loops.index(inner)]):
            if x not in self.outer:
                tree = with_loop_sunk(tree, x, inner, around=users)
        result = rewrite_over(tree, inner, lambda loop: Loop(inner, _around(loop.body, users, first, last, writers))
                              if users <= {*leaves(loop)} else loop)
        if result is tree:
            raise ScheduleError(f"{self.step}: the statements that use '{self.name}' are not in one loop over "
                                f"{', '.join(self.outer)}.", subject=self.name,
                                hint="select the statements of one loop by within=, or pass the outer inames")
        return result


def _around(body: Tree, users: frozenset[str], first: Tree, last: Tree, writers: frozenset[str]) -> Tree:
    """*first* in *body* right before the first part that holds one of *users*, and *last* right after the last.

    A loop in the first part that also holds one of *writers*, before a user, is distributed, so that *first* runs
    between the two.
    """
    children = parts_of(body)
    at = [i for i, c in enumerate(children) if not users.isdisjoint(leaves(c))]
    start, end = at[0], at[-1] + 1
    ahead = _ahead(children[start], users, writers)
    rest = [s for s in leaves(children[start]) if s not in ahead]
    return seq(*children[:start], without(children[start], rest), first, without(children[start], ahead),
               *children[start + 1:end], last, *children[end:])


def _ahead(tree: Tree, readers: frozenset[str], writers: frozenset[str]) -> list[str]:
    """The statements of *tree* that must run before a copy, because one of *writers* is among them."""
    if not isinstance(tree, Loop):
        return []
    children = parts_of(tree.body)
    at = next(i for i, c in enumerate(children) if not readers.isdisjoint(leaves(c)))
    before, inner = list(leaves(seq(*children[:at]))), _ahead(children[at], readers, writers)
    return [*before, *inner] if inner or not writers.isdisjoint(before) else []


def temporary_for(kernel: LoopKernel, name: str | None, like: str, dtype: np.dtype | None,
                  space: str | AddressSpace | None) -> TemporaryVariable:
    """The temporary of a buffer, called *name* or *like* this one; :raises NameConflictError: the name is taken."""
    own = new_name(kernel, name, like)
    return TemporaryVariable(own, dtype, None, None if space is None else named_space(space, own))


def _intervals(buffer: StagingBuffer) -> Iterator[BoxAxis]:
    """The bounding box of all uses while the swept inames vary and the outer inames are fixed."""
    kernel, rows = buffer.kernel, list[list[BoxAxis | None]]()
    for statement, arguments in buffer.uses.items():
        s = kernel.statement_by_id[statement]
        for args in arguments:
            if not is_known(analysis_domain(kernel, s), kernel.value_params, *args):
                raise PreconditionError(
                    f"{buffer.step} needs affine subscripts, but '{s.id}' uses '{buffer.name}' at "
                    f"'{', '.join(map(to_text, args))}'.", subject=buffer.name,
                    hint="leave this statement out with within=")
        mentioned = {y for args in arguments for a in args for y in variables(a)}
        ranges, whole = dict[str, tuple[int, int]](), list[str]()
        for x in (x for x in buffer.request.sweep if x in mentioned.intersection(s.inames)):
            low, high = constant_range(kernel, s.domain, x)
            if low is not None and high is not None:
                ranges[x] = low, high
            elif buffer.temporary.address_space is AddressSpace.GLOBAL:
                whole.append(x)
            else:
                raise PreconditionError(f"{buffer.step}: '{x}' has no constant range.", subject=x,
                                        hint=f"split_iname(knl, '{x}', 16) and sweep the inner iname, or "
                                             "temporary_address_space='global'")
        sizes = kernel.assumptions if whole else known_sizes(kernel)
        rows += [[swept_interval(s.domain, a, buffer.outer, ranges, sizes, whole) for a in args] for args in arguments]
    for axis, intervals in enumerate(zip(*rows, strict=True)):
        # uses may lie apart by an iname that is fixed: the box then holds the elements for all of its values
        box = _around_all(intervals) or _around_all(_wide_intervals(buffer, axis))
        if box is None or not variables(box.extent) <= kernel.value_params:
            raise PreconditionError(
                f"{buffer.step}: the elements used along axis {axis} of '{buffer.name}' have no box of constant size.",
                subject=buffer.name,
                hint="sweep inames of constant range only (split_iname), or select fewer statements by within=")
        yield box


def _wide_intervals(buffer: StagingBuffer, axis: int) -> list[BoxAxis | None]:
    """The intervals of all uses along *axis* while all inames of constant range vary."""
    kernel, found = buffer.kernel, list[BoxAxis | None]()
    for statement, arguments in buffer.uses.items():
        s = kernel.statement_by_id[statement]
        every = {x: (low, high) for x in s.inames for low, high in [constant_range(kernel, s.domain, x)]
                 if low is not None and high is not None}
        fixed = [x for x in buffer.outer if x not in every]
        found += [swept_interval(s.domain, args[axis], fixed, every, known_sizes(kernel)) for args in arguments]
    return found


def _around_all(intervals: Sequence[BoxAxis | None]) -> BoxAxis | None:
    """The least interval around all of *intervals*, if its extent is constant."""
    return reduce(lambda a, b: None if a is None or b is None else joined(a, b), intervals)
