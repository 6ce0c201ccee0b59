"""The host's part of a loop program: loops and conditions around the launches."""
from __future__ import annotations

from collections.abc import Mapping

from loopkit.ast.nodes import Block, Call, Node
from loopkit.kernel.kernel import LoopKernel
from loopkit.lowering.converted import converted, with_values
from loopkit.lowering.launch_kernel import host_domain
from loopkit.lowering.lowered import HostLoop, HostNode, Launch, Schedule
from loopkit.poly import codegen
from loopkit.poly.codegen import CallNode, CodeLoop, CodeSeq, CodeTree
from loopkit.poly.sets import InstanceSet


def host_order(schedule: Schedule, launches: tuple[Launch, ...]) -> Block:
    """The host's program: it launches wherever an instance of the launch may run, and nowhere else.

    A launch outside of all loops is not put under a condition.
    """
    knl = schedule.kernel
    names = [launch.name for launch in launches]
    domains = {names[i]: host_domain(knl, part) for i, part in enumerate(schedule.launches) if part.hosts}
    nodes = (_looped(knl, node, names, domains) if isinstance(node, HostLoop) else Call(names[node])
             for node in schedule.order)
    return Block(tuple(nodes))


def _looped(knl: LoopKernel, loop: HostLoop, names: list[str], domains: Mapping[str, InstanceSet]) -> Node:
    tree = _code_tree(loop, names)
    own = {name: domains[name] for name in codegen.leaves(tree)}

    def call(node: CallNode) -> Node:
        return with_values(Call(node.leaf), own[node.leaf].inames, node.values)
    return converted(codegen.generate(tree, own, knl.assumptions, knl.fresh_name), call)


def _code_tree(node: HostNode, names: list[str]) -> CodeTree:
    if not isinstance(node, HostLoop):
        return names[node]
    body = tuple(_code_tree(child, names) for child in node.body)
    return CodeLoop(node.iname, body[0] if len(body) == 1 else CodeSeq(body))
