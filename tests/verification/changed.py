"""Lowered kernels with something changed by hand, as a fault in lowering would."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

import loopkit as lk
from loopkit.ast.nodes import Completion, Instruction, Node, Scope, Sync
from loopkit.ast.walk import rewritten
from loopkit.kernel.tree import Barrier, Loop, Seq, Tree, seq
from loopkit.lowering.lowered import FINISHED, Lowered
from loopkit.lowering.pipeline import lowered_once, run, stages
from loopkit.verification.checks import Subject, report_of

Place = TypeVar("Place", bound=Node | Barrier)


def report(knl: lk.LoopKernel, lowered: Lowered) -> lk.Report:
    """The report on *knl*, had it been lowered to *lowered*."""
    return report_of(Subject(knl, lowered))


def changed(lowered: Lowered, change: Callable[[Node], Node]) -> Lowered:
    """*lowered* with *change* applied to every node of its functions."""
    functions = tuple(replace(f, body=rewritten(f.body, change)) for f in lowered.program.functions)
    return replace(lowered, program=replace(lowered.program, functions=functions))


def with_tree(lowered: Lowered, launch: int, tree: Tree) -> Lowered:
    """*lowered* with another tree for one launch; its program is still the old one, see :func:`built`."""
    return replace(lowered, launches=tuple(
        replace(x, tree=tree) if i == launch else x for i, x in enumerate(lowered.launches)))


def built(lowered: Lowered) -> Lowered:
    """*lowered* with the program of its trees."""
    return run(lowered, stages("loops", FINISHED))


def without(kind: type[Instruction], of: Completion | None = None, scope: Scope = Scope.BLOCK
            ) -> Callable[[Place], Place]:
    """Places of the tree or nodes of the program, those of barriers and waits without instructions of this *kind*.

    :arg of: only those for this event; *scope*: only places of this scope, or of a narrower one.
    """
    def change(place: Place) -> Place:
        if not isinstance(place, Sync | Barrier) or place.scope > scope:
            return place
        return replace(place, instructions=tuple(
            i for i in place.instructions if not (isinstance(i, kind) and of in (None, getattr(i, "of", None)))))
    return change


def without_one_barrier(knl: lk.LoopKernel) -> Iterator[Lowered]:
    """The kernel lowered, one barrier left out, each in turn."""
    lowered = lowered_once(knl)
    for i, launch in enumerate(lowered.launches):
        for k in range(_count(launch.tree)):
            yield with_tree(lowered, i, _without(launch.tree, k))


def without_barriers(knl: lk.LoopKernel) -> Lowered:
    """The kernel lowered, all barriers left out."""
    lowered = lowered_once(knl)
    for i, launch in enumerate(lowered.launches):
        tree = launch.tree
        while _count(tree):
            tree = _without(tree, 0)
        lowered = with_tree(lowered, i, tree)
    return lowered


def with_one_barrier_moved(knl: lk.LoopKernel) -> Iterator[Lowered]:
    """The kernel lowered, one barrier put anywhere else, each in turn."""
    for stripped in without_one_barrier(knl):
        for i, launch in enumerate(stripped.launches):
            for tree in with_a_barrier(launch.tree):
                yield with_tree(stripped, i, tree)


def as_warp_barriers(knl: lk.LoopKernel) -> Iterator[Lowered]:
    """The kernel lowered, one barrier made one of each warp, each in turn."""
    lowered = lowered_once(knl)
    for i, launch in enumerate(lowered.launches):
        for k in range(_count(launch.tree)):
            if _barrier(launch.tree, k).scope is Scope.BLOCK:
                yield with_tree(lowered, i, _without(launch.tree, k, Barrier(scope=Scope.WARP)))


def with_one_changed(lowered: Lowered, others: Callable[[Barrier], Iterable[Barrier]]) -> Iterator[Lowered]:
    """The kernel, of one launch, with one barrier or wait made each of the *others*, each in turn."""
    [launch] = lowered.launches
    for k, place in enumerate(_barriers(launch.tree)):
        for other in others(place):
            if other != place:
                yield with_tree(lowered, 0, _without(launch.tree, k, other))


def with_a_barrier(tree: Tree) -> Iterator[Tree]:
    """*tree* with one more barrier, in each place between two nodes."""
    children = tree.children if isinstance(tree, Seq) else (tree,)
    for i in range(len(children) + 1):
        yield seq(*children[:i], Barrier(), *children[i:])
    for i, child in enumerate(children):
        if isinstance(child, Loop):
            for body in with_a_barrier(child.body):
                yield seq(*children[:i], Loop(child.iname, body), *children[i + 1:])


def _barriers(tree: Tree) -> Iterator[Barrier]:
    match tree:
        case Barrier():
            yield tree
        case Loop(_, body):
            yield from _barriers(body)
        case Seq(children):
            for child in children:
                yield from _barriers(child)


def _count(tree: Tree) -> int:
    return sum(1 for _ in _barriers(tree))


def _barrier(tree: Tree, number: int) -> Barrier:
    return list(_barriers(tree))[number]


def _without(tree: Tree, number: int, instead: Barrier | None = None) -> Tree:
    """*tree* with one barrier left out, or another *instead* of it."""
    if isinstance(tree, Loop):
        return Loop(tree.iname, _without(tree.body, number, instead))
    children = tree.children if isinstance(tree, Seq) else (tree,)
    result: list[Tree] = []
    for child in children:
        here = _count(child)
        if 0 <= number < here:
            if not isinstance(child, Barrier):
                result.append(_without(child, number, instead))
            elif instead is not None:
                result.append(instead)
        else:
            result.append(child)
        number -= here
    return seq(*result)
