"""Inter-block flag: a value is stored together with a flag, and a thread of another block waits for the flag.

The value and its flag travel in one word, which a thread writes and another one reads at one go; no fence is needed.
Whoever waits does so for a block that started earlier: blocks take tickets in the order in which they start.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign, Completion, Instruction
from loopkit.expr.mappers import variables


@dataclass(frozen=True)
class BlockFlag(Instruction):
    """How an assignment accesses temporaries whose elements have flags.

    :ivar stores: it sets the flag of its target.
    :ivar loads: the arrays whose flags it waits for, in its value or in a subscript of its target.
    """

    stores: bool = False
    loads: tuple[str, ...] = ()

    noun: ClassVar[str] = "an inter-block flag"
    completion: ClassVar[Completion] = Completion.FLAG

    def claims(self, element: Expression, target: Expression) -> bool:
        return not variables(element).isdisjoint(self.loads)

    def accessing(self, *, stores: bool, loads: tuple[str, ...]) -> BlockFlag:
        return BlockFlag(stores, loads)

    @property
    def titles(self) -> tuple[str, ...]:
        waits = (f"awaits {', '.join(self.loads)}",) if self.loads else ()
        return (*(("published",) if self.stores else ()), *waits)


def flag_of(assign: Assign) -> BlockFlag:
    """How *assign* accesses flags; it may access none."""
    return next((i for i in assign.instructions if isinstance(i, BlockFlag)), BlockFlag())
