"""Old values of atomic updates in loop programs: the load of each and its update become one step."""
from __future__ import annotations

from dataclasses import replace

from loopkit.ast.check import is_one_step, operation_of_load
from loopkit.ast.nodes import Assign, Block, Node, OneStep
from loopkit.ast.walk import rewritten
from loopkit.errors import PreconditionError


def with_old_values(body: Block) -> Block:
    """*body* with the load of each old value in one step with the update.

    :raises PreconditionError: the two do not follow each other.
    """
    return rewritten(body, _with_steps)


def _with_steps(node: Node) -> Node:
    children: list[Node] = []
    for child in node.children if isinstance(node, Block) else ():
        if children and is_one_step(children[-1], child):
            child = OneStep((children.pop(), child))
        children.append(child)
    for child in children:
        if isinstance(child, Assign) and operation_of_load(child) is not None:
            raise PreconditionError(
                f"'{child.statement}' keeps the old value of an atomic update, but the update does not follow it "
                "directly, or uses the place where it is kept.", subject=child.statement,
                hint="keep the two statements in one loop, without ilp, and no statement between them")
    return replace(node, children=tuple(children)) if isinstance(node, Block) else node
