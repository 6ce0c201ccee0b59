"""Tables of instructions: by the option of a statement, and by the completion event that they bring about."""
from __future__ import annotations

from collections.abc import Mapping

from loopkit.ast.nodes import Completion, Instruction
from loopkit.instructions.asynchronous_copy import AsynchronousCopy
from loopkit.instructions.atomic_update import AtomicUpdate
from loopkit.instructions.base import MemoryInstruction
from loopkit.instructions.groups import WaitGroup

#: The instruction for each option in the braces after an assignment.
STATEMENT_INSTRUCTIONS: Mapping[str, MemoryInstruction] = {"atomic": AtomicUpdate(), "async": AsynchronousCopy()}

#: The instruction that completes each event for all accesses that a thread started.
WAITS: Mapping[Completion, Instruction] = {Completion.GROUP: WaitGroup(0)}
