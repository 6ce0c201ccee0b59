"""The schedule as data: the launches of a kernel, their order on the host, and the loops of each."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from loopkit.analysis.dependences import Pair
from loopkit.analysis.order import execution_paths
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tree import Leaf, Loop, Path, Seq, Tree, leaves, parts_of, require_once
from loopkit.shown import Shown


@dataclass(frozen=True)
class LaunchBody:
    """The sequential loops that one launch runs, and the inames of the host's loops around it, outermost first."""

    tree: Tree
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True)
class SchedulePoint:
    """The place of a statement: its launch, the loops of the host around it, and its path in the whole order."""

    launch: int
    hosts: tuple[str, ...]
    way: Path


@dataclass(frozen=True, repr=False)
class Schedule(Shown):
    """A kernel and its launches.

    :ivar order: the host's program: loops around launches, each of which is a leaf with its number.
    :ivar apart: pairs of statements that must not be in one launch, whatever the dependences.
    """

    kernel: LoopKernel
    launches: tuple[LaunchBody, ...]
    order: Tree
    apart: frozenset[Pair]

    def __post_init__(self) -> None:
        require_once(s for part in self.launches for s in leaves(part.tree))

    def __str__(self) -> str:
        return "\n".join(self._lines(self.order, 0))

    def _lines(self, order: Tree, depth: int) -> Iterator[str]:
        pad = "  " * depth
        for node in parts_of(order):
            if isinstance(node, Loop):
                yield f"{pad}on the host, for {node.iname}:"
                yield from self._lines(node.body, depth + 1)
            elif isinstance(node, Leaf):
                yield f"{pad}launch {node.statement}:"
                yield from tree_lines(self.launches[int(node.statement)].tree, depth + 1)

    def places(self) -> dict[str, SchedulePoint]:
        """The place of each statement."""
        ways = execution_paths(self.kernel)
        return {s: SchedulePoint(i, part.hosts, ways[s])
                for i, part in enumerate(self.launches) for s in leaves(part.tree)}


def tree_lines(tree: Tree, depth: int = 0) -> list[str]:
    """The tree as indented text, one line per node."""
    pad = "  " * depth
    match tree:
        case Loop(iname, body):
            return [f"{pad}for {iname}", *tree_lines(body, depth + 1)]
        case Seq(children):
            return [line for c in children for line in tree_lines(c, depth)]
        case Leaf(statement):
            return [f"{pad}{statement}{'' if tree.instruction is None else f'  # by {tree.instruction.noun}'}"]
        case _:
            return [f"{pad}{tree.title}" + (f"  # {'; '.join(tree.serves)}" if tree.serves else "")]
