"""Statements that several threads execute together: they load operands for each other."""
from __future__ import annotations

from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import is_collective


def collective_inames(knl: LoopKernel, s: Statement) -> tuple[str, ...]:
    """The inames of *s*, an update of a reduction, along which one instruction executes all iterations; else ``()``."""
    node = knl.reductions.get(s.reduction or "")
    if node is None or s.id not in node.updates:
        return ()
    return tuple(x for x in s.inames if is_collective(knl.tags.get(x)))
