"""Checks that the instructions of a kernel's statements can execute them."""
from __future__ import annotations

from loopkit.analysis.accesses import expanded_expression
from loopkit.instructions.base import MemoryInstruction
from loopkit.kernel.kernel import LoopKernel


def require_operands(knl: LoopKernel) -> None:
    """Check that every instruction of *knl* can execute its statement, as far as dtypes are known.

    :raises PreconditionError: one cannot, with the reason.
    """
    for s in knl.statements:
        for instruction in s.instructions:
            if isinstance(instruction, MemoryInstruction):
                instruction.require_operands(knl, s, expanded_expression(knl, s))
