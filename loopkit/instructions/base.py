"""Instructions that make the accesses of a statement."""
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pymbolic.typing import Expression

from loopkit.ast.nodes import Instruction
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement


@dataclass(frozen=True)
class MemoryInstruction(Instruction):
    """An instruction that makes the accesses of a statement.

    :cvar memories: the address spaces on which it works; a statement that writes elsewhere uses plain loads and
        stores.
    :cvar capability: the first architecture that has it: 80 for sm_80.
    :cvar alternative: what a user can do on an earlier one, as a part of a hint.
    """

    memories: ClassVar[frozenset[AddressSpace]] = frozenset()
    capability: ClassVar[int] = 0
    alternative: ClassVar[str] = ""

    def refuse_memory(self, statement: Statement, memory: AddressSpace) -> None:
        """Called if the assignee of *statement* is in a *memory* on which the instruction does not work.

        :raises PreconditionError: plain loads and stores cannot replace the instruction.
        """

    def require_operands(self, kernel: LoopKernel, statement: Statement, expression: Expression) -> None:
        """Check that it can execute *statement*, whose *expression* has no calls of rules.

        :raises PreconditionError: it cannot.
        """
