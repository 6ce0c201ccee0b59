"""Turns of warpgroups: each one that begins ends, and no warpgroup waits for others in between."""
from __future__ import annotations

from collections.abc import Iterator

from loopkit.ast.nodes import Block, ByRole, Function, Node, Scope, Sync
from loopkit.ast.walk import nodes_in
from loopkit.instructions.turns import Turn, others_may_wait
from loopkit.lowering.lowered import Launch
from loopkit.verification.report import Mismatch


def turn_faults(launch: Launch, function: Function) -> Iterator[Mismatch]:
    """The turns in *function* that could last forever.

    All consumers execute equally many of them, as no barrier is under a condition that differs between threads.
    """
    acts = [turn for node in nodes_in(function.body) for turn in _turns(node)]
    texts = [text for node in nodes_in(function.body) if isinstance(node, Block) for text in _unpaired(node)]
    starts = [turn for node in function.body.children for turn in _turns(node) if turn.act == "start"]
    others = [x for node in function.body.children if not isinstance(node, Sync) for x in nodes_in(node)]
    if acts and (len(starts) != 1 or any(turn.act == "start" for x in others for turn in _turns(x))):
        texts.append("turns do not start once, before all others")
    if any(_turns(x) for node in nodes_in(function.body) if isinstance(node, ByRole) for x in nodes_in(node.then)):
        texts.append("the producer takes turns")
    if any(turn.warpgroups*launch.machine.threads_of(Scope.WARPGROUP) != launch.consumers for turn in acts):
        texts.append(f"other threads than the {launch.consumers} consumers take turns")
    yield from (Mismatch("turns", launch.name, "", text) for text in texts)


def _turns(node: Node) -> list[Turn]:
    return [i for i in node.instructions if isinstance(i, Turn)] if isinstance(node, Sync) else []


def _unpaired(block: Block) -> Iterator[str]:
    """The faults among the nodes directly in *block*: a turn begins and ends there."""
    inside = False
    for node in block.children:
        acts = {turn.act for turn in _turns(node)}
        if inside and "end" not in acts:
            yield from (f"a warpgroup waits for others in its turn: {x.title}" for x in nodes_in(node)
                        if isinstance(x, Sync) and others_may_wait(x))
        if acts & {"begin", "end"} and ("end" in acts) is not inside:
            yield "a turn does not begin" if "end" in acts else "a turn begins in another one"
        inside = "begin" in acts or (inside and "end" not in acts)
    if inside:
        yield "a turn does not end"
