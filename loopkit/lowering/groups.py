"""Commit groups: the places at which a thread commits, and the number of groups that each wait leaves pending.

A wait leaves the *n* newest groups pending. It covers an access if a thread commits more than *n* groups from the
access to the wait. Commits are counted exactly, as relations between iterations.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile

from loopkit.ast.nodes import Scope
from loopkit.instructions.groups import WaitGroup, commits, group_instructions, pending
from loopkit.kernel.tree import (
    Barrier,
    Leaf,
    Loop,
    LoopPlace,
    Seq,
    Tree,
    has_barrier,
    leaves,
    loop_place,
    loops_in,
    rewrite,
    seq,
)
from loopkit.lowering.hazards import Hazard, PlacedWait, Waits
from loopkit.lowering.lowered import Launch
from loopkit.poly.relations import in_one_iteration, shared_dims
from loopkit.poly.sets import Map

#: The largest number of groups that a wait leaves pending.
MOST_PENDING = 31

_COMMIT = Barrier(instructions=group_instructions(commit=True, leaving=None), scope=Scope.THREAD)


def with_groups(launch: Launch, tree: Tree, copies: Sequence[Hazard]) -> Tree:
    """*tree*, whose waits wait for all copies, with groups: each wait leaves as many groups pending as possible."""
    if not copies:
        return tree
    ending = _group_by_group(tree, copies, Waits(launch, tree))
    tree, _ = _committing(tree, frozenset(h.source for h in copies), ending, started=False)
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


def _committing(tree: Tree, copies: frozenset[str], ending: frozenset[LoopPlace], *, started: bool
                ) -> tuple[Tree, bool]:
    """*tree* where waits commit the copies started since the last commit, and iterations of the loops *ending* those
    that their waits leave; and whether some remain at its end.
    """
    match tree:
        case Leaf(statement):
            return tree, started or statement in copies
        case Loop(iname, inner):
            body, after = _committing(inner, copies, ending, started=started)
            if after and loop_place(tree) in ending:
                return Loop(iname, seq(body, _COMMIT)), started
            if after and not started:
                body, after = _committing(inner, copies, ending, started=True)
            return Loop(iname, body), started or after
        case Seq(children):
            result: list[Tree] = []
            for child in children:
                new, started = _committing(child, copies, ending, started=started)
                result.append(new)
            return Seq(tuple(result)), started
        case Barrier():
            left = pending(tree.instructions)
            if left is not None and started:
                return replace(tree, instructions=group_instructions(commit=True, leaving=left)), False
            return tree, started and not commits(tree.instructions)


def _with_pending(tree: Tree, waits: Waits, places: Sequence[PlacedWait], copies: Sequence[Hazard]) -> Tree:
    """*tree* whose waits leave as many groups pending as possible, those in inner loops first."""
    leaving = [pending(place.node.instructions) for place in places]

    def enough(place: int, number: int | None) -> bool:
        """Are all accesses performed in time if that wait leaves *number* groups pending? ``None``: without a wait."""
        changed = [None if n is None else WaitGroup(n) for n in (*leaving[:place], number, *leaving[place + 1:])]
        return all(waits.left(h, h.scope, changed) is None for h in copies)
    for i in sorted(range(len(places)), key=lambda i: -len(places[i].names)):
        own = leaving[i]
        if own is not None and enough(i, own):
            more = takewhile(partial(enough, i), range(own + 1, MOST_PENDING + 1))
            leaving[i] = None if enough(i, None) else max(more, default=own)
    numbers = iter(leaving)

    def numbered(node: Tree) -> Tree:
        if not isinstance(node, Barrier):
            return node
        if node.instructions:
            new = group_instructions(commit=commits(node.instructions), leaving=next(numbers))
            node = replace(node, instructions=new)
        return node if node.title else Seq(())          # the thread waits for nothing there
    return rewrite(tree, numbered)
