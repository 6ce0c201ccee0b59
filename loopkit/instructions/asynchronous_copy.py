"""Asynchronous copy (``cp.async``): a thread starts a copy from global to shared memory and goes on.

A copy is performed where its thread waits for the commit group that holds it. A commit group holds the copies that a
thread started since its last commit; a wait leaves the newest groups under way.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign, Completion
from loopkit.errors import PreconditionError
from loopkit.instructions.base import MemoryInstruction
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement

#: The sizes of one copy, in bytes.
SIZES = (4, 8, 16)


@dataclass(frozen=True)
class AsynchronousCopy(MemoryInstruction):
    """The asynchronous copy of an array's element to shared memory, which an assignment makes."""

    noun: ClassVar[str] = "an asynchronous copy"
    memories: ClassVar[frozenset[str]] = frozenset({"local"})
    completion: ClassVar[Completion] = Completion.GROUP

    @property
    def titles(self) -> tuple[str, ...]:
        return ("async",)

    def require_operands(self, kernel: LoopKernel, statement: Statement, expression: Expression) -> None:
        """The statement copies the bits of one element, as far as dtypes are known.

        :raises PreconditionError: it converts or computes, or copies elements of another size than 4, 8 or 16 bytes.
        """
        argument = None
        match expression:
            case p.Subscript(aggregate=p.Variable(name=name)):
                argument = kernel.array_args.get(name)
            case _:
                pass
        s = statement
        if s.combine is not None or s.written not in kernel.temporaries or argument is None or s.predicates:
            raise PreconditionError(f"'{s.id}' cannot be asynchronous: it is no copy of an array's element.",
                                    subject=s.id, hint="copy it through registers, or compute where it is read")
        own, source = kernel.temporaries[s.written].dtype, argument.dtype
        if own is not None and source is not None and own != source:
            raise PreconditionError(f"'{s.id}' cannot be asynchronous: it converts {source} to {own}.", subject=s.id,
                                    hint="copy it through registers, or convert where it is read")
        known = own or source
        if known is not None and known.itemsize not in SIZES:
            raise PreconditionError(
                f"'{s.id}' cannot be asynchronous: elements of {known} have {known.itemsize} bytes, not 4, 8 or 16.",
                subject=s.id, hint="copy it through registers")


def is_asynchronous_copy(assign: Assign) -> bool:
    """Is *assign* executed by an asynchronous copy?"""
    return any(isinstance(i, AsynchronousCopy) for i in assign.instructions)
