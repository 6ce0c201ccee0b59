"""The instructions of a kernel's statements: whether they can execute them, and the inames that they execute as one."""
from __future__ import annotations

from loopkit.analysis.accesses import expanded_expression
from loopkit.instructions.base import MemoryInstruction
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import is_collective


def require_operands(knl: LoopKernel) -> None:
    """Check that every instruction of *knl* can execute its statement, as far as dtypes are known.

    :raises PreconditionError: one cannot, with the reason.
    """
    for s in knl.statements:
        for instruction in s.instructions:
            if isinstance(instruction, MemoryInstruction):
                instruction.require_operands(knl, s, expanded_expression(knl, s))


def collective_inames(knl: LoopKernel, s: Statement) -> tuple[str, ...]:
    """The inames of *s*, an update of a reduction, along which one instruction executes all iterations; else ``()``."""
    node = knl.reductions.get(s.reduction or "")
    if node is None or s.id not in node.updates:
        return ()
    return tuple(x for x in s.inames if is_collective(knl.tags.get(x)))
