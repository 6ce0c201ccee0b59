"""Results of the stages of lowering, in a form that a test can read."""
from __future__ import annotations

from collections.abc import Iterator

import loopkit as lk
from loopkit.ast.nodes import Node
from loopkit.ast.walk import nodes_in
from loopkit.kernel.tree import Barrier, Loop, Seq, Tree
from loopkit.lowering.lowered import Lowered
from loopkit.lowering.scheduled import tree_lines


def placed(knl: lk.LoopKernel) -> list[str]:
    """The launches' trees with their barriers, whose reasons are left out: one text each."""
    bound = lk.lower(knl, stop="barriers")
    return ["\n".join(line.split("  #")[0] for line in tree_lines(launch.tree)) for launch in bound.launches]


def reasons(knl: lk.LoopKernel) -> list[tuple[str, ...]]:
    """What each barrier serves, in order."""
    bound = lk.lower(knl, stop="barriers")
    return [b.serves for launch in bound.launches for b in _barriers(launch.tree)]


def _barriers(tree: Tree) -> Iterator[Barrier]:
    match tree:
        case Barrier():
            yield tree
        case Loop(_, body):
            yield from _barriers(body)
        case Seq(children):
            for child in children:
                yield from _barriers(child)


def storages(knl: lk.LoopKernel) -> dict[str, str]:
    """How each temporary is stored: ``"private float32 t[4]"`` and the like."""
    stored = lk.lower(knl, stop="storage")
    return {name: str(s) for name, s in stored.storages.items()}


def lowered(knl: lk.LoopKernel) -> Lowered:
    return lk.lower(knl)


def nodes(knl: lk.LoopKernel) -> Iterator[Node]:
    """Every node of the loop program, from the outside in."""
    for function in lowered(knl).program.functions:
        yield from nodes_in(function.body)
