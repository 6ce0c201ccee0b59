"""Stage 9: text."""
from __future__ import annotations

from collections.abc import Sequence

from loopkit.errors import PreconditionError
from loopkit.lowering.pipeline import Lowered
from loopkit.target.code import GeneratedCode, Layout
from loopkit.target.cuda import CudaTarget, cuda_code
from loopkit.target.host import CTarget, c_code


def write_code(lowered: Lowered, target: CudaTarget | CTarget, layout: Layout, head: Sequence[str] = ()
               ) -> GeneratedCode:
    """The source text of a lowered kernel.

    :arg head: lines that stand as comments at the top of a CUDA text.
    :raises LimitError: the kernel needs more threads, shared memory or blocks than the target has.
    """
    match target:
        case CudaTarget():
            return cuda_code(lowered, target, layout, head)
        case CTarget():
            return c_code(lowered, layout)


def resolve_target(target: object) -> CudaTarget | CTarget:
    """The target object that a string stands for; :raises PreconditionError: there is none."""
    if isinstance(target, CudaTarget | CTarget):
        return target
    if target == "cuda":
        return CudaTarget()
    if target == "c":
        return CTarget()
    raise PreconditionError(f"{target!r} is no target.", subject=str(target),
                            hint='the targets are "cuda" and "c", lk.CudaTarget(arch="sm_90") or lk.CTarget(fast=True)')
