"""The loops around a statement that an instruction executes."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loopkit.analysis.accesses import declared, expanded_expression
from loopkit.analysis.constructors import reordered, rewritten
from loopkit.analysis.order import loops_of
from loopkit.analysis.ranges import constant_range
from loopkit.expr.dtypes import Type, type_of
from loopkit.instructions.nests import NestInstruction
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import InameTag
from loopkit.kernel.tree import Leaf, Loop, leaves, nest, rewrite

#: The tags that a step sets, by iname.
Tags = dict[str, InameTag]


def executed_by(kernel: LoopKernel, statement: str, instruction: NestInstruction) -> LoopKernel:
    """*kernel* where *instruction* executes the loops around *statement*."""
    return rewritten(kernel, statements=tuple(
        replace(s, instructions=(*s.instructions, instruction)) if s.id == statement else s for s in kernel.statements))


def extent_from_zero(kernel: LoopKernel, iname: str) -> int | None:
    """The extent of *iname* over all of its statements, if it starts at 0; else ``None``."""
    ranges = [constant_range(kernel, s.domain, iname) for s in kernel.statements if iname in s.inames]
    lows, highs = ([x for x in ends if x is not None] for ends in zip(*ranges, strict=True)) if ranges else ([], [])
    return max(highs) + 1 if len(lows) == len(highs) == len(ranges) > 0 and min(lows) == 0 else None


def with_loop_order(kernel: LoopKernel, statement: str, order: Sequence[str]) -> LoopKernel:
    """*kernel* with the loops *order* around *statement*, which are around it alone, in this order."""
    own = [x for x in loops_of(kernel.paths[statement]) if x in order]

    def replaced(tree: Loop) -> Loop:
        inner = nest(tuple(order), Leaf(statement))
        assert isinstance(inner, Loop)
        return inner
    tree = rewrite(kernel.tree, lambda node: replaced(node) if isinstance(node, Loop) and node.iname == own[0]
                   and [*leaves(node)] == [statement] else node)
    return reordered(kernel, tree)


def type_of_copy(kernel: LoopKernel, name: str) -> Type | None:
    """The type of *name*: the declared one, or that of the values that are copied to it; ``None``: not known."""
    known = declared(kernel, name)
    writer = next((s for s in kernel.statements if s.written == name), None)
    if known is not None or writer is None:
        return known
    return type_of(expanded_expression(kernel, writer),
                   lambda other: None if other == name else type_of_copy(kernel, other))
