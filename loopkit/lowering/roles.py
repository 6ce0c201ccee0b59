"""The branches of the two roles of a block: of the producer thread, and of the consumers."""
from __future__ import annotations

import pymbolic.primitives as p

from loopkit.ast.nodes import Block, ByRole, If, Scope, Sync
from loopkit.instructions.role_registers import SetRegisters
from loopkit.lowering.lowered import Launch


def branches(launch: Launch, producers: Block, consumers: Block) -> ByRole:
    """The branches of *launch* with these contents; at their start, warpgroups get their registers."""
    assert launch.producer is not None
    axis, place = launch.producer
    first, behind, others = (p.Comparison(p.Variable(axis), operator, place) for operator in ("==", ">=", "<"))
    if launch.registers is None:
        return ByRole(first, producers, Block((If(others, consumers),)), "the producer", launch.consumers)
    # all warps of a warpgroup change the number of their registers
    give, take = (Sync((), Scope.THREAD, (SetRegisters(count, more),))
                  for count, more in zip(launch.registers, (False, True), strict=True))
    return ByRole(behind, Block((give, If(first, producers, comment="the producer"))),
                  Block((If(others, Block((take, *consumers.children))),)), "the producer's warpgroup",
                  launch.consumers)
