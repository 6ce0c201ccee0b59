"""Old values of atomic updates in loop programs: the load of each becomes a part of its update, before the text."""
from __future__ import annotations

from dataclasses import replace

from loopkit.ast.nodes import Assign, Block, Node
from loopkit.ast.walk import nodes_in, rewritten
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import array_of, variables
from loopkit.lowering.lowered import Lowered


def with_fetches(lowered: Lowered) -> Lowered:
    """*lowered* with each load of an old value as a part of its update.

    :raises PreconditionError: the two do not follow each other.
    """
    if not any(s.fetches is not None for s in lowered.kernel.statements):
        return lowered
    functions = tuple(replace(f, body=rewritten(f.body, _with_loads_joined)) for f in lowered.program.functions)
    for node in (node for f in functions for node in nodes_in(f.body)):
        if isinstance(node, Assign) and _operation_of_load(node) is not None:
            raise PreconditionError(
                f"'{node.statement}' keeps the old value of an atomic update, but the update does not follow it "
                "directly, or uses the place where it is kept.", subject=node.statement,
                hint="keep the two statements in one loop, without ilp, and no statement between them")
    return replace(lowered, program=replace(lowered.program, functions=functions))


def _with_loads_joined(node: Node) -> Node:
    if not isinstance(node, Block):
        return node
    result: list[Node] = []
    for child in node.children:
        last = result[-1] if result else None
        if isinstance(last, Assign) and isinstance(child, Assign) and child.target == last.value \
                and child.combine is not None and _operation_of_load(last) == child.combine \
                and array_of(last.target) not in variables(child.target) | variables(child.value):
            plain = replace(last, instructions=())
            child = replace(child, instructions=tuple(i.fetching(plain) for i in child.instructions))
            # without an instruction, one thread alone accesses the element
            result[-1:] = [] if any(i.fetch is not None for i in child.instructions) else [plain]
        result.append(child)
    return replace(node, children=tuple(result))


def _operation_of_load(node: Assign) -> str | None:
    return next((i.fetches for i in node.instructions if i.fetches is not None), None)
