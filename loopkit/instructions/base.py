"""What statements ask of their instructions."""
from __future__ import annotations

from dataclasses import dataclass

from pymbolic.typing import Expression

from loopkit.ast.nodes import Instruction
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement


@dataclass(frozen=True)
class MemoryInstruction(Instruction):
    """An instruction that makes the accesses of a statement."""

    def require_operands(self, kernel: LoopKernel, statement: Statement, expression: Expression) -> None:
        """Can it execute *statement*, whose *expression* has no calls of rules?

        :raises PreconditionError: it cannot.
        """
