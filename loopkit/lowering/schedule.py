"""Stage 3: the order that runs. Parallel loops leave the tree, and the kernel is cut into launches."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from loopkit.analysis.dependences import dependences, unchanged_from
from loopkit.analysis.legality import across_blocks, iname_range, violations
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import AutoLocalTag, IlpTag, InameTag, LocalTag, is_parallel
from loopkit.kernel.tree import Leaf, Loop, Seq, Tree, leaves, seq


@dataclass(frozen=True)
class Schedule:
    """A kernel and the trees of its launches, in order; they hold sequential loops only."""

    kernel: LoopKernel
    launches: tuple[Tree, ...]

    def __str__(self) -> str:
        parts = []
        for i, tree in enumerate(self.launches):
            parts.append(f"launch {i}:")
            parts.extend(tree_lines(tree, 1))
        return "\n".join(parts)


def schedule(knl: LoopKernel, apart: frozenset[tuple[str, str]] = frozenset()) -> Schedule:
    """Cut the kernel's order into launches: where a dependence crosses blocks, a launch ends.

    :arg apart: pairs of statements that must not be in one launch for other reasons.
    """
    tree = sequential(knl.tree, knl.tags, ())
    children = tree.children if isinstance(tree, Seq) else (tree,)
    place = {s: i for i, child in enumerate(children) for s in leaves(child)}
    crossing: dict[int, int] = {}              # child -> the last earlier child that must be finished
    for d in dependences(knl):
        first, second = place[d.source], place[d.sink]
        if first < second and crossing.get(second, -1) < first and (
                (d.source, d.sink) in apart or across_blocks(knl, d) is not None):
            crossing[second] = first
    launches: list[list[Tree]] = [[]]
    start = 0
    for i, child in enumerate(children):
        if crossing.get(i, -1) >= start:
            launches.append([])
            start = i
        launches[-1].append(child)
    return Schedule(knl, tuple(seq(*part) for part in launches))


def without_idle_auto(knl: LoopKernel) -> LoopKernel:
    """*knl* with ``l.auto`` inames as ordinary loops, if its blocks have but one thread to spread them over.

    As parallel inames they may stand where loops may not; then they stay, and become loops around single statements.
    """
    if not any(isinstance(tag, AutoLocalTag) for tag in knl.tags.values()) \
            or any(isinstance(tag, LocalTag) and iname_range(knl, x)[1] != 1 for x, tag in knl.tags.items()):
        return knl
    loops = knl.copy(tags={x: tag for x, tag in knl.tags.items() if not isinstance(tag, AutoLocalTag)},
                     carried=unchanged_from(knl))
    return loops if next(violations(loops), None) is None else knl


def sequential(tree: Tree, tags: Mapping[str, InameTag], pending: tuple[str, ...]) -> Tree:
    """*tree* without parallel loops, and with ``ilp`` loops around single statements."""
    match tree:
        case Loop(iname, body):
            tag = tags.get(iname)
            if is_parallel(tag):
                return sequential(body, tags, pending)
            if isinstance(tag, IlpTag):
                return sequential(body, tags, (*pending, iname))
            return Loop(iname, sequential(body, tags, pending))
        case Seq(children):
            return seq(*(sequential(c, tags, pending) for c in children))
        case Leaf():
            result: Tree = tree
            for iname in reversed(pending):
                result = Loop(iname, result)
            return result
        case _:
            return tree


def tree_lines(tree: Tree, depth: int = 0) -> list[str]:
    """The tree as indented text, a line a node."""
    pad = "  " * depth
    match tree:
        case Loop(iname, body):
            return [f"{pad}for {iname}", *tree_lines(body, depth + 1)]
        case Seq(children):
            return [line for c in children for line in tree_lines(c, depth)]
        case Leaf(statement):
            return [f"{pad}{statement}"]
        case _:
            return [f"{pad}{tree.title}  # {'; '.join(tree.serves)}"]
