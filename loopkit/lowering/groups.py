"""Completion by commit groups: the places at which a thread commits, and the number of groups that each wait leaves
pending.

An access is performed once its thread has waited for its commit group; other threads need a barrier after that wait. A
wait for all groups but the *n* newest covers an access if a thread commits more than *n* groups from the access to the
wait. Commits are counted exactly, as relations between iterations.
"""
from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from itertools import takewhile
from typing import Any, TypeGuard

from loopkit.analysis.order import loops_of
from loopkit.ast.nodes import Scope
from loopkit.instructions.groups import commits, group_instructions, pending
from loopkit.kernel.tags import GroupTag
from loopkit.kernel.tree import (
    Barrier,
    Leaf,
    Loop,
    LoopPlace,
    Path,
    Seq,
    Tree,
    has_barrier,
    leaves,
    loop_place,
    loops_in,
    meeting,
    paths,
    placed_nodes,
    rewrite,
    seq,
)
from loopkit.lowering.hazards import Hazard
from loopkit.lowering.lowered import Launch
from loopkit.poly.limits import kept_by_kernel
from loopkit.poly.relations import in_one_iteration, in_time_order, only_dims, shared_dims
from loopkit.poly.sets import InstanceSet, Map, Set, as_points

#: The largest number of groups that a wait leaves pending.
MOST_PENDING = 31


@dataclass(frozen=True)
class Event:
    """The executions of a statement or a barrier, each in a block and in an iteration of the loops on *way*.

    :ivar names: the inames of the grid, and of those loops.
    :ivar points: their values at which it runs.
    """

    way: Path
    names: tuple[str, ...]
    points: Set

    @classmethod
    def anywhere(cls, way: Path, names: tuple[str, ...]) -> Event:
        """An event that may run at all values of *names*."""
        return cls(way, names, as_points(InstanceSet.universe(names).set))

    def in_order(self, other: Event, blocks: AbstractSet[str], before: bool) -> Map:
        """The pairs in one block, identified by its inames *blocks*, of which this event is the first."""
        pairs = in_one_iteration(Map.from_domain_and_range(self.points, other.points),
                                 shared_dims(self.names, other.names, sorted(blocks)))
        around = meeting(self.way, other.way).loops
        return in_time_order(pairs, shared_dims(self.names, other.names, around), before)


def steps_in_common(first: Path, second: Path) -> int:
    """The number of steps that two paths share."""
    return len([*takewhile(lambda steps: steps[0] == steps[1], zip(first, second, strict=False))])


# Groups, counted

@dataclass(frozen=True)
class _Place(Event):
    """An event that commits groups or waits for them."""

    node: Barrier


@dataclass(frozen=True)
class Waits:
    """The waits of a launch whose tree is *tree*, and the accesses that they complete."""

    launch: Launch
    tree: Tree
    memo: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def blocks(self) -> frozenset[str] | None:
        """The inames of the grid; ``None``: statements lie on different ones."""
        own = {frozenset(x for x in s.hardware if isinstance(self.launch.kernel.tags.get(x), GroupTag))
               for s in self.launch.statements.values()}
        return next(iter(own)) if len(own) == 1 else None

    @cached_property
    def places(self) -> tuple[_Place, ...] | None:
        """The places of *tree*; ``None`` if it is not known when they run."""
        if self.blocks is None:
            return None
        of_threads = self.launch.mapping.thread_names.union(*(s.auto for s in self.launch.statements.values()))
        found: list[_Place] = []
        for node, way, body in placed_nodes(self.tree):
            if not _counts(node):
                continue
            names = (*sorted(self.blocks), *loops_of(way))
            domains = [self.launch.statements[s].domain.onto(names) for s in leaves(body)]
            points = reduce(InstanceSet.union, (d.without_params(of_threads) for d in domains))
            if not self.launch.kernel.value_params.issuperset(points.params):
                return None                     # read from memory, or one block's alone
            found.append(_Place(way, names, as_points(points.set), node))
        return tuple(found)

    def left(self, h: Hazard, scope: Scope, pending: Sequence[int | None]) -> Map | None:
        """The pairs of *h*, by :meth:`names`, between which no wait covers the copy; ``None``: there are none.

        :arg scope: the threads of the pairs: a thread other than the copy's own needs a barrier of this scope.
        :arg pending: the number of each place, in place of its own.
        """
        assert self.places is not None
        pairs = self.by_names(h, self._place_names)
        for i, (place, n) in enumerate(zip(self.places, pending, strict=True)):
            if n is not None and place.node.scope >= scope and not pairs.is_empty():
                covered = self._covered(h.source, h.sink, i, n)
                pairs = pairs if covered is None else pairs.subtract(covered)
        return None if pairs.is_empty() else pairs

    @cached_property
    def _place_names(self) -> frozenset[str]:
        return frozenset(x for place in self.places or () for x in place.names)

    def names(self, statement: str, among: AbstractSet[str]) -> tuple[str, ...]:
        """The inames of the grid and of the sequential loops around *statement* that are in *among*."""
        bound = self.launch.statements[statement]
        own = {*(self.blocks or ()), *bound.domain.inames} & among
        return tuple(x for x in bound.statement.inames if x in own)

    def by_names(self, h: Hazard, among: AbstractSet[str]) -> Map:
        """The pairs of *h* in terms of :meth:`names`."""
        dims = ([self.launch.statements[s].statement.inames.index(x) for x in self.names(s, among)]
                for s in (h.source, h.sink))
        return only_dims(h.pairs, *dims)

    @kept_by_kernel
    def _covered(self, source: str, sink: str, place: int, pending: int) -> Map | None:
        """Pairs between which a thread passes *place*, where the copy is not in one of the *pending* newest groups."""
        assert self.places is not None
        ends_one = commits(self.places[place].node.instructions)
        first = self._behind(source, place, pending if ends_one else pending + 1)
        return None if first is None else first.apply_range(self._order(place, sink))

    @kept_by_kernel
    def _behind(self, source: str, place: int, commits_between: int) -> Map | None:
        """Instances of *source* and later iterations of *place* with at least that many commits between them."""
        if not commits_between:
            return self._order(source, place)
        ends = (i for i, other in enumerate(self.places or ()) if commits(other.node.instructions))
        some = [earlier.apply_range(self._order(i, place)) for i in ends
                if (earlier := self._behind(source, i, commits_between - 1)) is not None]
        return reduce(Map.union, some) if some else None

    @kept_by_kernel
    def _order(self, first: str | int, second: str | int) -> Map:
        """Pairs in one block, of statements by id or of places by number, of which the first runs first."""
        a, b = self._event(first), self._event(second)
        return a.in_order(b, self.blocks or frozenset(), meeting(a.way, b.way).before)

    def _event(self, of: str | int) -> Event:
        assert self.places is not None
        return self.places[of] if isinstance(of, int) else \
            Event.anywhere(paths(self.tree)[of], self.names(of, self._place_names))


def _counts(node: Tree) -> TypeGuard[Barrier]:
    """Does *node* commit a group, or wait for groups?"""
    return isinstance(node, Barrier) and (commits(node.instructions) or pending(node.instructions) is not None)


# Placing them

def with_groups(launch: Launch, tree: Tree, copies: Sequence[Hazard]) -> Tree:
    """*tree*, whose waits wait for all copies, with groups: each wait leaves as many groups pending as possible."""
    if not copies:
        return tree
    commit = Barrier(instructions=group_instructions(commit=True, leaving=None), scope=Scope.THREAD)
    ending = _group_by_group(tree, copies, Waits(launch, tree))
    tree = rewrite(tree, lambda node: Loop(node.iname, seq(node.body, commit)) if isinstance(node, Loop)
                   and loop_place(node) in ending else node)
    tree, _ = _committing(tree, frozenset(h.source for h in copies), started=False)
    waits = Waits(launch, tree)
    return tree if waits.places is None else _with_pending(tree, waits, waits.places, copies)


def _group_by_group(tree: Tree, copies: Sequence[Hazard], waits: Waits) -> frozenset[LoopPlace]:
    """The loops over copies to commit in each iteration: a loop that waits has the readers in several iterations."""
    found: set[LoopPlace] = set()
    if waits.blocks is None:
        return frozenset()
    loops = [(loop, frozenset(leaves(loop))) for loop in loops_in(tree)]
    for h in copies:
        copying = [loop for loop, inside in loops if h.source in inside and h.sink not in inside]
        later = {loop.iname for loop, inside in loops
                 if h.sink in inside and h.source not in inside and has_barrier(loop)}
        if h.kind != "flow" or not copying or not later or not found.isdisjoint(map(loop_place, copying)):
            continue
        around = waits.blocks.union(loop.iname for loop, inside in loops if {h.source, h.sink} <= inside)
        x, y = waits.names(h.source, {*around, copying[0].iname}), waits.names(h.sink, {*around, *later})
        same = shared_dims(x, y, tuple(around))
        relation = in_one_iteration(waits.by_names(h, {*around, *later, copying[0].iname}), same)
        everything = in_one_iteration(Map.from_domain_and_range(relation.domain(), relation.range()), same)
        if not everything.is_subset(relation):
            found.add(loop_place(copying[0]))
    return frozenset(found)


def _committing(tree: Tree, copies: frozenset[str], *, started: bool) -> tuple[Tree, bool]:
    """*tree* where waits commit the copies started since the last commit; and whether some remain at its end."""
    match tree:
        case Leaf(statement):
            return tree, started or statement in copies
        case Loop(iname, inner):
            body, after = _committing(inner, copies, started=started)
            if after and not started:
                body, after = _committing(inner, copies, started=True)
            return Loop(iname, body), started or after
        case Seq(children):
            result: list[Tree] = []
            for child in children:
                new, started = _committing(child, copies, started=started)
                result.append(new)
            return Seq(tuple(result)), started
        case Barrier():
            left = pending(tree.instructions)
            if left is not None and started:
                return replace(tree, instructions=group_instructions(commit=True, leaving=left)), False
            return tree, started and not commits(tree.instructions)


def _with_pending(tree: Tree, waits: Waits, places: Sequence[_Place], copies: Sequence[Hazard]) -> Tree:
    """*tree* whose waits leave as many groups pending as possible, those in inner loops first."""
    leaving = [pending(place.node.instructions) for place in places]

    def enough(place: int, number: int | None) -> bool:
        """Are all accesses performed in time if that wait leaves *number* groups pending? ``None``: without a wait."""
        numbers = [*leaving[:place], number, *leaving[place + 1:]]
        return all(waits.left(h, h.scope, numbers) is None for h in copies)
    for i in sorted(range(len(places)), key=lambda i: -len(places[i].names)):
        own = leaving[i]
        if own is not None and enough(i, own):
            more = takewhile(partial(enough, i), range(own + 1, MOST_PENDING + 1))
            leaving[i] = None if enough(i, None) else max(more, default=own)
    numbers = iter(leaving)

    def numbered(node: Tree) -> Tree:
        if not isinstance(node, Barrier):
            return node
        if _counts(node):
            new = group_instructions(commit=commits(node.instructions), leaving=next(numbers))
            node = replace(node, instructions=new)
        return node if node.title else Seq(())          # the thread waits for nothing there
    return rewrite(tree, numbered)
