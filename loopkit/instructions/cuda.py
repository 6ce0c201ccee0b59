"""The instructions that CUDA C++ has: a table of their texts, and the names that the texts use."""
from __future__ import annotations

from loopkit.instructions import asynchronous_copy, atomic_update, block_flag, groups, mma, vector_access
from loopkit.instructions.text import InstructionTexts

#: The order here is that of the helper functions in a text.
CUDA_TEXTS: InstructionTexts = {
    asynchronous_copy.AsynchronousCopy: asynchronous_copy.CUDA,
    groups.CommitGroup: groups.CUDA_COMMIT, groups.WaitGroup: groups.CUDA_WAIT,
    block_flag.BlockFlag: block_flag.CUDA, mma.Mma: mma.CUDA, vector_access.VectorAccess: vector_access.CUDA,
    atomic_update.AtomicUpdate: atomic_update.CUDA}

#: The helper functions of all texts: reserved names.
CUDA_NAMES = frozenset({block_flag.CUDA_TICKET.function, *(x for own in CUDA_TEXTS.values() for x in own.helpers)})
