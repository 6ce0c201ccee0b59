"""Completion by commit groups: where a thread commits, and how many groups each wait leaves under way.

An access is performed where its thread waits for the commit group that holds it; other threads may rely on it behind a
barrier there. A wait names groups by their number: all but so many of the newest. So a wait covers an access or not
depending on how many commits come between, and these are counted exactly, as relations between iterations.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce

from loopkit.analysis.order import loops_of
from loopkit.ast.nodes import Scope
from loopkit.instructions.groups import commits, group_instructions, pending
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import GroupTag
from loopkit.kernel.tree import Barrier, Leaf, Loop, Path, Seq, Step, Tree, has_barrier, leaves, meeting, paths, seq
from loopkit.lowering.completion import Unfinished
from loopkit.lowering.lowered import Launch
from loopkit.poly.piecewise import as_points
from loopkit.poly.relations import (
    in_one_iteration,
    in_time_order,
    only_dims,
    shared_dims,
)
from loopkit.poly.sets import InstanceSet, Map, Set

#: More groups than this are never left under way.
MOST_PENDING = 31


# {{{ groups, counted

@dataclass(frozen=True)
class _Place:
    """A place of a tree where groups end or are waited for.

    :ivar names: the inames of the grid, then those of the loops around it.
    :ivar points: their values at which it is met.
    """

    node: Barrier
    way: Path
    names: tuple[str, ...]
    points: Set


@dataclass(frozen=True)
class Waits:
    """The waits of a launch whose tree is *tree*, and what they make sure of."""

    kernel: LoopKernel
    launch: Launch
    tree: Tree
    memo: dict[object, Map | None] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def blocks(self) -> tuple[str, ...] | None:
        """The inames of the grid; ``None``: statements lie on different ones."""
        own = [tuple(x for x in s.hardware if isinstance(self.kernel.tags.get(x), GroupTag))
               for s in self.launch.statements.values()]
        return tuple(sorted(own[0])) if len(set(map(frozenset, own))) == 1 else None

    @cached_property
    def places(self) -> tuple[_Place, ...] | None:
        """The places of *tree*; ``None`` if it is not known when they are met."""
        if self.blocks is None:
            return None
        found: list[_Place] = []
        for node, way, body in _barriers(self.tree, (), self.tree):
            names = (*self.blocks, *loops_of(way))
            domains = [self.launch.statements[s].domain.onto(names) for s in leaves(body)]
            points = reduce(InstanceSet.union, (d.without_params(self._threads(d)) for d in domains))
            if not self.kernel.value_params.issuperset(points.params):
                return None                     # read from memory, or one block's alone
            found.append(_Place(node, way, names, as_points(points.set)))
        return tuple(found)

    @cached_property
    def _ends(self) -> tuple[int, ...]:
        """The places that end a group."""
        return tuple(i for i, place in enumerate(self.places or ()) if commits(place.node.instructions))

    def _threads(self, points: InstanceSet) -> list[str]:
        """The parameters of *points* that differ between the threads of a block."""
        auto = {x for s in self.launch.statements.values() for x in s.auto}
        return [x for x in points.params if x in self.launch.ranges or x in auto or x.startswith("l.")]

    def left(self, u: Unfinished, scope: Scope, pending: Sequence[int | None]) -> Map | None:
        """Those pairs of *u*, by :meth:`names`, between which no wait covers the copy; ``None``: there are none.

        :arg scope: which threads the pairs are on: others than the copy's own see it behind a barrier of these only.
        :arg pending: of each of the places, in place of its own.
        """
        assert self.places is not None
        kept = frozenset(x for place in self.places for x in place.names)
        pairs = self.by_names(u, kept)
        for i, (place, n) in enumerate(zip(self.places, pending, strict=True)):
            if n is not None and place.node.scope >= scope and not pairs.is_empty():
                covered = self._covered(u.source, u.sink, i, n)
                pairs = pairs if covered is None else pairs.subtract(covered)
        return None if pairs.is_empty() else pairs

    def names(self, statement: str, kept: AbstractSet[str] | None = None) -> tuple[str, ...]:
        """The inames of the grid and of the sequential loops around *statement*, those in *kept* or all."""
        bound = self.launch.statements[statement]
        own = {*(self.blocks or ()), *bound.domain.inames}
        return tuple(x for x in bound.statement.inames if x in (own if kept is None else own & kept))

    def by_names(self, u: Unfinished, kept: AbstractSet[str] | None = None) -> Map:
        """The pairs of *u* by what tells when their instances run."""
        dims = ([self.launch.statements[s].statement.inames.index(x) for x in self.names(s, kept)]
                for s in (u.source, u.sink))
        return only_dims(u.pairs, *dims)

    def _covered(self, source: str, sink: str, place: int, pending: int) -> Map | None:
        """Pairs between which a thread comes by *place*, with the copy in none of the *pending* newest groups there."""
        assert self.places is not None
        key = "covered", source, sink, place, pending
        if key not in self.memo:
            node = self.places[place].node
            if commits(node.instructions):
                first = self._groups(source, place, pending + 1)
            else:
                first = _union([_then(self._groups(source, i, pending + 1), self._order(i, place))
                                for i in self._ends])
            self.memo[key] = _then(first, self._order(place, sink))
        return self.memo[key]

    def _groups(self, source: str, place: int, count: int) -> Map | None:
        """Instances of *source* and iterations at which *place* ends the group of that number since, or a later one."""
        assert self.places is not None
        key = "groups", source, place, count
        if key not in self.memo:
            self.memo[key] = self._order(source, place) if count == 1 else _union(
                [_then(self._groups(source, i, count - 1), self._order(i, place)) for i in self._ends])
        return self.memo[key]

    def _order(self, first: str | int, second: str | int) -> Map:
        """Pairs in one block, of statements by their names or of places by number, of which the first comes first."""
        key = "order", first, second
        found = self.memo.get(key)
        if found is None:
            (a, x, points), (b, y, others) = self._end(first), self._end(second)
            where = meeting(a, b)
            pairs = in_one_iteration(Map.from_domain_and_range(points, others), shared_dims(x, y, self.blocks or ()))
            found = self.memo[key] = in_time_order(pairs, shared_dims(x, y, where.loops), where.before)
        return found

    def _end(self, of: str | int) -> tuple[Path, tuple[str, ...], Set]:
        assert self.places is not None
        if isinstance(of, int):
            place = self.places[of]
            return place.way, place.names, place.points
        names = self.names(of, frozenset(x for place in self.places for x in place.names))
        return self._ways[of], names, as_points(InstanceSet.universe(names).set)

    @cached_property
    def _ways(self) -> Mapping[str, Path]:
        return paths(self.tree)


def _barriers(tree: Tree, way: Path, body: Tree) -> Iterator[tuple[Barrier, Path, Tree]]:
    """The places of *tree* where groups end or are waited for, each with its way and the innermost loop's body."""
    match tree:
        case Barrier():
            if commits(tree.instructions) or pending(tree.instructions) is not None:
                yield tree, way, body
        case Loop(iname, inner):
            yield from _barriers(inner, (*way, Step(0, iname)), inner)
        case Seq(children):
            for i, child in enumerate(children):
                yield from _barriers(child, (*way, Step(i, None)), body)
        case Leaf():
            pass


def _then(first: Map | None, second: Map) -> Map | None:
    return None if first is None else first.apply_range(second)


def _union(relations: Sequence[Map | None]) -> Map | None:
    some = [r for r in relations if r is not None]
    return reduce(Map.union, some) if some else None

# }}}


# {{{ placing them

def with_groups(knl: LoopKernel, launch: Launch, tree: Tree, copies: Sequence[tuple[Unfinished, Scope]]) -> Tree:
    """*tree*, whose waits wait for all copies, with groups: each wait leaves as many under way as it may.

    :arg copies: all that must wait for them, and on which threads.
    """
    if not copies:
        return tree
    waits = Waits(knl, launch, tree)
    if waits.blocks is not None:
        for way in _group_by_group(knl, launch, tree, [u for u, _ in copies], waits):
            tree = _ending(tree, way)
    tree, _ = _committing(tree, frozenset(u.source for u, _ in copies), begun=False)
    waits = Waits(knl, launch, tree)
    if waits.places is None:
        return tree
    return _with_pending(tree, waits, copies)


def _group_by_group(knl: LoopKernel, launch: Launch, tree: Tree, pairs: Sequence[Unfinished], waits: Waits
                    ) -> Iterator[Path]:
    """The ways to loops over copies whose readers stand in different iterations of a loop that waits."""
    ways = paths(tree)
    found: dict[Path, None] = {}
    for u in pairs:
        a, b = ways[u.source], ways[u.sink]
        common = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
        first = next((i for i in range(common, len(a)) if a[i].iname is not None), None)
        later = [str(b[i].iname) for i in range(common, len(b))
                 if b[i].iname is not None and has_barrier(_at(tree, b[:i]))]
        if first is None or not later or u.kind != "flow" or any(a[:len(way)] == way for way in found):
            continue
        around = {*(waits.blocks or ()), *meeting(a, b).loops}
        x, y = waits.names(u.source, {*around, str(a[first].iname)}), waits.names(u.sink, {*around, *later})
        same = shared_dims(x, y, tuple(around))
        relation = in_one_iteration(waits.by_names(u, {*around, *later, str(a[first].iname)}), same)
        everything = in_one_iteration(Map.from_domain_and_range(relation.domain(), relation.range()), same)
        if not everything.is_subset(relation):
            found[a[:first + 1]] = None
    yield from found


def _at(tree: Tree, way: Path) -> Tree:
    """The part of *tree* to which *way* leads."""
    for step in way:
        if isinstance(tree, Loop):
            tree = tree.body
        else:
            assert isinstance(tree, Seq)
            tree = tree.children[step.position]
    return tree


def _ending(tree: Tree, way: Path) -> Tree:
    """*tree* where the loop at the end of *way* ends a group in each iteration."""
    if not way:
        return seq(tree, Barrier(instructions=group_instructions(commit=True, leaving=None), scope=Scope.THREAD))
    if isinstance(tree, Loop):
        return Loop(tree.iname, _ending(tree.body, way[1:]))
    assert isinstance(tree, Seq)
    at = way[0].position
    return Seq((*tree.children[:at], _ending(tree.children[at], way[1:]), *tree.children[at + 1:]))


def _committing(tree: Tree, copies: frozenset[str], *, begun: bool) -> tuple[Tree, bool]:
    """*tree* where waits end the group of the copies begun since the last one; and are there such at its end?"""
    match tree:
        case Leaf(statement):
            return tree, begun or statement in copies
        case Loop(iname, inner):
            body, after = _committing(inner, copies, begun=begun)
            if after and not begun:
                body, after = _committing(inner, copies, begun=True)
            return Loop(iname, body), begun or after
        case Seq(children):
            result: list[Tree] = []
            for child in children:
                new, begun = _committing(child, copies, begun=begun)
                result.append(new)
            return Seq(tuple(result)), begun
        case Barrier():
            left = pending(tree.instructions)
            if left is not None and begun:
                return replace(tree, instructions=group_instructions(commit=True, leaving=left)), False
            return tree, begun and not commits(tree.instructions)


def _with_pending(tree: Tree, waits: Waits, copies: Sequence[tuple[Unfinished, Scope]]) -> Tree:
    """*tree* whose waits leave as much under way as they may, those in inner loops first."""
    places = waits.places
    assert places is not None
    leaving = [pending(place.node.instructions) for place in places]

    def enough(place: int, number: int | None) -> bool:
        """Would it do to leave so many groups under way there, or not to wait?"""
        asked = [*leaving[:place], number, *leaving[place + 1:]]
        return all(waits.left(u, scope, asked) is None for u, scope in copies)
    for i in sorted(range(len(places)), key=lambda i: -len(places[i].names)):
        own = leaving[i]
        if own is None or not enough(i, own):
            continue
        if enough(i, None):
            leaving[i] = None
            continue
        while own < MOST_PENDING and enough(i, own + 1):
            own += 1
        leaving[i] = own
    return _numbered(tree, iter(leaving))


def _numbered(tree: Tree, leaving: Iterator[int | None]) -> Tree:
    match tree:
        case Loop(iname, body):
            return Loop(iname, _numbered(body, leaving))
        case Seq(children):
            return seq(*(_numbered(c, leaving) for c in children))
        case Barrier():
            own = tree.instructions
            if commits(own) or pending(own) is not None:
                tree = replace(tree, instructions=group_instructions(commit=commits(own), leaving=next(leaving)))
            return tree if tree.title else Seq(())      # a thread that waits for nothing there
        case Leaf():
            return tree

# }}}
