"""Commit groups: the places at which a thread commits, and the number of groups that each wait leaves pending.

A wait leaves the *n* newest groups pending. It covers an access if a thread commits more than *n* groups from the
access to the wait. Commits are counted exactly, as relations between iterations.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile

from loopkit.ast.nodes import Completion, Instruction, Scope, covering, wait_for
from loopkit.instructions.fences import RegisterFence
from loopkit.instructions.groups import CommitGroup, WaitGroup, commits, pending, wait_of, with_wait
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
    placed_nodes,
    rewrite,
    seq,
)
from loopkit.lowering.hazards import Hazard
from loopkit.lowering.lowered import Launch
from loopkit.lowering.waits import PlacedWait, Waits
from loopkit.poly.relations import in_one_iteration, shared_dims
from loopkit.poly.sets import Map

#: The largest number of groups that a wait leaves pending.
MOST_PENDING = 31


def with_groups(of: Completion, launch: Launch, tree: Tree, accesses: Sequence[Hazard], reads: Sequence[Hazard]
                ) -> Tree:
    """*tree*, whose waits for the event *of* wait for all accesses, with groups of these accesses.

    Each wait leaves as many groups pending as possible.

    :arg accesses: the hazards, also those of other events, whose sources are such accesses.
    :arg reads: the reads of tiles that are such accesses, and that end before their warps arrive.
    """
    if not accesses:
        return tree
    ending = _group_by_group(tree, accesses, Waits(launch, tree))
    tree, _ = _committing(tree, of, frozenset(h.source for h in accesses), ending, started=False)
    waits = Waits(launch, tree)
    return tree if waits.places is None else _with_pending(tree, of, waits, waits.places, accesses, reads)


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


def _committing(tree: Tree, of: Completion, copies: frozenset[str], ending: frozenset[LoopPlace], *, started: bool
                ) -> tuple[Tree, bool]:
    """*tree* where waits commit the copies started since the last commit, and iterations of the loops *ending* those
    that their waits leave; and whether some remain at its end.
    """
    match tree:
        case Leaf(statement):
            return tree, started or statement in copies
        case Loop(iname, inner):
            body, after = _committing(inner, of, copies, ending, started=started)
            if after and loop_place(tree) in ending:
                return Loop(iname, seq(body, Barrier(instructions=(CommitGroup(of),), scope=Scope.THREAD))), started
            if after and not started:
                body, after = _committing(inner, of, copies, ending, started=True)
            return Loop(iname, body), started or after
        case Seq(children):
            result: list[Tree] = []
            for child in children:
                new, started = _committing(child, of, copies, ending, started=started)
                result.append(new)
            return Seq(tuple(result)), started
        case Barrier():
            wait = wait_of(tree.instructions, of)
            if wait is not None and started:
                return replace(tree, instructions=with_wait(tree.instructions, wait, commit=True)), False
            return tree, started and not commits(tree.instructions, of)


def _with_pending(tree: Tree, of: Completion, waits: Waits, places: Sequence[PlacedWait], accesses: Sequence[Hazard],
                  reads: Sequence[Hazard]) -> Tree:
    """*tree* whose waits leave as many groups pending as possible, those in inner loops first."""
    leaving = [pending(place.node.instructions, of) for place in places]

    def changed(place: PlacedWait, number: int | None) -> tuple[Instruction, ...]:
        """The instructions of *place*, whose wait leaves *number* groups pending; ``None``: it has no wait."""
        own = place.node.instructions
        return with_wait(own, WaitGroup(number or 0, of), commit=commits(own, of), waits=number is not None)

    def enough(place: int, number: int | None) -> bool:
        """Are all accesses performed in time if that wait leaves *number* groups pending?"""
        numbers = (*leaving[:place], number, *leaving[place + 1:])
        own = [changed(*pair) for pair in zip(places, numbers, strict=True)]
        return all(waits.left(h, h.scope, [covering(h.completion, of, i) for i in own]) is None for h in accesses) \
            and all(waits.unreleased(h, [covering(of, of, i) for i in own]) is None for h in reads)
    for i in sorted(range(len(places)), key=lambda i: -len(places[i].names)):
        own = leaving[i]
        if own is not None and enough(i, own):
            more = takewhile(partial(enough, i), range(own + 1, MOST_PENDING + 1))
            leaving[i] = None if enough(i, None) else max(more, default=own)
    new = iter([changed(*pair) for pair in zip(places, leaving, strict=True)])

    def numbered(node: Tree) -> Tree:
        if not isinstance(node, Barrier):
            return node
        node = replace(node, instructions=next(new)) if node.instructions else node
        return node if node.title else Seq(())          # the thread waits for nothing there
    return rewrite(tree, numbered)


# Registers

def with_registers(launch: Launch, tree: Tree, accesses: Sequence[Hazard]) -> Tree:
    """*tree*, whose waits for products and register fences have the arrays in registers of which uses rely on them.

    Uses rely on the waits that leave the fewest groups pending, and on the last waits and fences, as far as they
    suffice.
    """
    tree = rewrite(tree, _with_fences_last)
    statements, waits = launch.kernel.statement_by_id, Waits(launch, tree)
    every = [node.instructions for node, _, _ in placed_nodes(tree) if isinstance(node, Barrier) and node.instructions]
    found: dict[tuple[Completion, str], list[Hazard]] = {}
    for h in accesses:
        source = statements[h.source]
        awaited = h.completion is source.completion and any(i.asynchronous_registers for i in source.instructions)
        if h.scope is Scope.THREAD and (awaited or h.completion is Completion.REGISTERS):
            found.setdefault((h.completion, h.array), []).append(h)
    kept: list[dict[Completion | None, list[str]]] = [{} for _ in every]
    for (event, array), own in sorted(found.items(), key=lambda item: item[0][1]):
        relied = [k for k, instructions in enumerate(every) if wait_for(event, instructions) is not None]

        def suffice(places: Sequence[int], own: Sequence[Hazard] = own) -> bool:
            return waits.places is not None and all(waits.left(h, h.scope, [
                covering(h.completion, statements[h.source].completion, instructions) if k in places else None
                for k, instructions in enumerate(every)]) is None for h in own)
        for k in sorted(relied, key=lambda k: (-(pending(every[k], event) or 0), k)):
            fewer = [x for x in relied if x != k]
            relied = fewer if suffice(fewer) else relied
        for k in relied:
            kept[k].setdefault(event, []).append(array)
    new = iter(kept)

    def with_arrays(node: Tree) -> Tree:
        if not isinstance(node, Barrier) or not node.instructions:
            return node
        arrays = next(new)
        return replace(node, instructions=tuple(
            replace(i, registers=tuple(arrays.get(i.completes, ()))) if isinstance(i, RegisterFence | WaitGroup) else i
            for i in node.instructions))
    return rewrite(rewrite(tree, with_arrays), partial(_with_fences_in_loops, launch))


def _with_fences_in_loops(launch: Launch, node: Tree) -> Tree:
    """*node*, if it is a loop in which products follow a wait for a phase, with a register fence behind that wait.

    The wait is a loop of the thread: without a fence, ptxas may run the products of two iterations one after another.
    """
    if not isinstance(node, Loop) or not isinstance(node.body, Seq):
        return node
    children = node.body.children
    waits = [k for k, part in enumerate(children) if isinstance(part, Barrier) and not part.producer
             and any(i.completes is Completion.PHASE for i in part.instructions)]
    products = [k for k, part in enumerate(children) if any(
        i.asynchronous_registers for s in leaves(part) for i in launch.kernel.statement_by_id[s].instructions)]
    if not waits or not products or waits[-1] > products[0] or any(
            isinstance(part, Barrier) and any(isinstance(i, RegisterFence) for i in part.instructions)
            for part in children[waits[-1]:products[0]]):
        return node
    fence = Barrier((), Scope.THREAD, (RegisterFence(),))
    return Loop(node.iname, Seq((*children[:waits[-1] + 1], fence, *children[waits[-1] + 1:])))


def _with_fences_last(node: Tree) -> Tree:
    """*node* with register fences behind the waits that follow them.

    With a wait for a phase between a fence and the products, ptxas runs the products one after another.
    """
    def alone(part: Tree) -> bool:
        return isinstance(part, Barrier) and all(isinstance(i, RegisterFence) for i in part.instructions) \
            and bool(part.instructions) and part.scope is Scope.THREAD

    def waits(part: Tree) -> bool:
        return isinstance(part, Barrier) and any(i.completes is Completion.PHASE for i in part.instructions)
    if not isinstance(node, Seq):
        return node
    children = list(node.children)
    for k in range(len(children) - 1):
        if alone(children[k]) and waits(children[k + 1]):
            children[k:k + 2] = children[k + 1], children[k]
    return Seq(tuple(children))
