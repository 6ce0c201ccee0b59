"""Stage 9: text."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loopkit.ast.reach import reaches
from loopkit.errors import PreconditionError
from loopkit.kernel import target as targets
from loopkit.lowering.pipeline import Lowered
from loopkit.target.code import GeneratedCode, Layout
from loopkit.target.cuda import CudaTarget, cuda_code
from loopkit.target.host import CTarget, c_code

#: Integers of this size and above need 64-bit indices.
_LIMIT_32 = 2**31


def write_code(lowered: Lowered, target: CudaTarget | CTarget, layout: Layout, head: Sequence[str] = ()
               ) -> GeneratedCode:
    """The source text of a lowered kernel; one of 64-bit indices where none of 32 bits could be right.

    :arg head: lines that stand as comments at the top of a CUDA text.
    :raises LimitError: the kernel needs more threads, shared memory or blocks than the target has.
    """
    if any(reach.surely_below(_LIMIT_32) == 0 for reach in reaches(lowered.program, lowered.kernel.value_params)):
        layout = replace(layout, index_bits=64)
    match target:
        case CudaTarget():
            return cuda_code(lowered, target, layout, head)
        case CTarget():
            return c_code(lowered, layout)


def resolve_target(target: object) -> CudaTarget | CTarget:
    """The target object that a string stands for; :raises PreconditionError: there is none that has a text."""
    found = targets.resolve_target(target)
    if isinstance(found, CudaTarget | CTarget):
        return found
    raise PreconditionError(f"{target!r} is no target with a text.", subject=str(target))
