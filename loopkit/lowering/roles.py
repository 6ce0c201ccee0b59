"""The branches of the two roles of a block, of the producer thread and of the consumers, at the places of the block."""
from __future__ import annotations

from collections.abc import Sequence

import pymbolic.primitives as p

from loopkit.ast.nodes import Block, ByRole, If, Scope, Sync, Tiles
from loopkit.instructions.role_registers import SetRegisters
from loopkit.kernel.tree import Barrier, Seq, Tree, rewrite, without
from loopkit.lowering.lowered import Launch
from loopkit.lowering.turns import start_of_turns


def of_role(launch: Launch, tree: Tree, *, producer: bool) -> Tree:
    """The part of *tree* that the producer thread of *launch* runs, or that the others do."""
    def own(node: Tree) -> Tree:
        return Seq(()) if isinstance(node, Barrier) and node.producer is not producer else node
    gone = frozenset(s for s in launch.statements if not launch.in_role(s, producer=producer))
    return without(rewrite(tree, own), gone)


def in_roles(launch: Launch, start: Sequence[Sync], producers: Block, consumers: Block, end: Sequence[Sync]) -> Block:
    """The whole of *launch*, whose roles have these contents at each place; *start* and *end* run once.

    Warpgroups change their registers once, so that each role has its own loop over places then. Else all threads share
    one: its variables are in uniform registers, which branches of some threads do not use.
    """
    assert launch.producer is not None
    axis, place = launch.producer
    start = (*start, *start_of_turns(launch))
    first, behind, others = (p.Comparison(p.Variable(axis), operator, place) for operator in ("==", ">=", "<"))
    if launch.registers is None:
        both = ByRole(first, producers, Block((If(others, consumers),)), "the producer", launch.consumers)
        return Block((*start, *_at_places(launch, Block((both,))), *end))
    # all warps of a warpgroup change the number of their registers
    give, take = (Sync((), Scope.THREAD, (SetRegisters(count, more),))
                  for count, more in zip(launch.registers, (False, True), strict=True))
    producers = Block((give, If(first, Block(_at_places(launch, producers)), comment="the producer")))
    consumers = Block((take, *_at_places(launch, consumers), *end))
    return Block((*start, ByRole(behind, producers, Block((If(others, consumers),)), "the producer's warpgroup",
                                 launch.consumers)))


def _at_places(launch: Launch, body: Block) -> tuple[Block | Tiles, ...]:
    """*body*, at each place of a persistent block."""
    return (Tiles(body, launch.persistent, launch.group) if launch.persistent else body,)
