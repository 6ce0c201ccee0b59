"""The host's part of a loop program: calls of its functions one after another, and loops around them."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from loopkit.ast.nodes import Assign, Block, Call, Define, For, If, Region, Sync
from loopkit.expr.evaluate import evaluate


def calls(order: Block, values: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The functions to call at the sizes *values*, each with those values and the ones of the host's loops around its
    call.

    >>> from pymbolic.primitives import Variable
    >>> order = Block((Call("begin"), For("t", 0, Variable("n"), 1, Block((Call("step"),)))))
    >>> [(name, dict(seen)) for name, seen in calls(order, {"n": 2})]
    [('begin', {'n': 2}), ('step', {'n': 2, 't': 0}), ('step', {'n': 2, 't': 1})]
    """
    for node in order.children:
        match node:
            case Call():
                yield node.name, values
            case Define():
                values = {**values, node.name: evaluate(node.value, values)}
            case For():
                for x in range(evaluate(node.start, values), evaluate(node.stop, values), node.step):
                    yield from calls(node.body, {**values, node.iname: x})
            case If():
                if evaluate(node.condition, values):
                    yield from calls(node.then, values)
                elif node.otherwise is not None:
                    yield from calls(node.otherwise, values)
            case Block():
                yield from calls(node, values)
            case Assign() | Region() | Sync():
                raise AssertionError(node)
