"""The instructions by what brings them into a program: an option of a statement, or an event to wait for."""
from __future__ import annotations

from collections.abc import Mapping

from loopkit.ast.nodes import Completion, Instruction
from loopkit.instructions.asynchronous_copy import AsynchronousCopy
from loopkit.instructions.atomic_update import AtomicUpdate
from loopkit.instructions.base import MemoryInstruction
from loopkit.instructions.groups import WaitGroup

#: By the option in the braces behind an assignment.
STATEMENT_INSTRUCTIONS: Mapping[str, MemoryInstruction] = {"atomic": AtomicUpdate(), "async": AsynchronousCopy()}

#: What brings about each event for all accesses that a thread started.
WAITS: Mapping[Completion, Instruction] = {Completion.GROUP: WaitGroup(0)}
