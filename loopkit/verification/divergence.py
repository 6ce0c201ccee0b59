"""Divergence: barriers and warp instructions that not all threads may execute, in the text of a loop program."""
from __future__ import annotations

from collections.abc import Iterator

from loopkit.ast.nodes import Assign, Block, Call, Define, For, If, Node, Region, Scope, Sync
from loopkit.expr.mappers import variables


def divergent_nodes(node: Node, divergent: frozenset[str], why: str = "", *, alone: bool = False
                    ) -> Iterator[tuple[Sync | Region | For, str]]:
    """The barriers and the warp instructions in *node* that may not be executed equally often by all threads.

    Each comes with the condition or loop around it.

    :arg divergent: names that may differ between threads; names defined by them do so too.
    :arg why: the condition or loop around *node* that differs between threads; ``""``: none.
    :arg alone: *node* is in a part without barriers, which each thread runs on its own.
    """
    match node:
        case Sync():
            if why or alone:
                yield node, why or "in a part that each thread runs on its own"
        case If():
            inside = why or (f"under the condition '{node.condition}'" if variables(node.condition) & divergent else "")
            for branch in (node.then, node.otherwise):
                if branch is not None:
                    yield from divergent_nodes(branch, divergent, inside, alone=alone)
        case For():
            if why and node.instruction is not None and node.instruction.scope is not Scope.THREAD:
                yield node, why
            differs = (variables(node.start) | variables(node.stop)) & divergent
            inside = why or (f"in the loop over '{node.iname}'" if differs else "")
            names = divergent | {node.iname} if differs else divergent - {node.iname}
            yield from divergent_nodes(node.body, names, inside, alone=alone)
        case Region(body):
            if node.instruction is not None and why:
                yield node, why
            yield from divergent_nodes(body, divergent, why, alone=True)
        case Block(children):
            for child in children:
                if isinstance(child, Define):
                    differs = variables(child.value) & divergent
                    divergent = divergent | {child.name} if differs else divergent - {child.name}
                else:
                    yield from divergent_nodes(child, divergent, why, alone=alone)
        case Assign() | Define() | Call():
            pass
