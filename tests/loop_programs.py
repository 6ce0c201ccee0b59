"""Loop programs for tests: what isl's loops run, in order."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.evaluate import evaluate
from loopkit.poly import codegen
from loopkit.poly.codegen import Builder, CodeTree
from loopkit.poly.sets import InstanceSet, Set

Calls = list[tuple[str, tuple[int, ...]]]


@dataclass(frozen=True)
class Node:
    """A loop (with its variable's name), a condition, or a leaf.

    :ivar run: from values of names to the leaves that run there, each with its inames.
    """

    kind: str
    name: str
    run: Callable[[Mapping[str, int]], Calls]


def run(nodes: Iterable[Node], values: Mapping[str, int]) -> Calls:
    """What *nodes* run, in order, with their names at *values*."""
    return [call for node in nodes for call in node.run(values)]


def generated(tree: CodeTree, domains: Mapping[str, InstanceSet], context: Set,
              fresh_name: Callable[[str], str] = "{}_0".format) -> list[Node]:
    def loop(iname: str, start: Expression, stop: Expression, step: int, body: list[Node]) -> Node:
        return Node("loop", iname, lambda at: [
            call for x in range(int(evaluate(start, at)), int(evaluate(stop, at)), step)
            for call in run(body, {**at, iname: x})])

    def branch(condition: Expression, then: list[Node], otherwise: list[Node]) -> Node:
        return Node("branch", "", lambda at: run(then if evaluate(condition, at) else otherwise, at))

    def leaf(name: str, values: Mapping[str, Expression]) -> Node:
        return Node("leaf", name, lambda at: [(name, tuple(
            int(evaluate(values.get(x, p.Variable(x)), at)) for x in domains[name].inames))])
    return codegen.generate(tree, domains, context, fresh_name, Builder(loop, branch, leaf))
