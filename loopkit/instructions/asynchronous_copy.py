"""Asynchronous copy (``cp.async``): a thread starts a copy from global to shared memory and continues.

A copy is performed once its thread has waited for the copy's commit group. A commit group has the copies that a
thread started since its last commit; a wait may leave the newest groups pending.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign, Completion, For, Instruction
from loopkit.ast.value_ranges import LowerBounds
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import array_of
from loopkit.instructions.base import InstructionText, MemoryInstruction, Printer
from loopkit.instructions.vector_access import in_steps, vectors_of
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement

#: The sizes of one copy, in bytes.
SIZES = (4, 8, 16)


@dataclass(frozen=True)
class AsynchronousCopy(MemoryInstruction):
    """An assignment that copies an element of an array to shared memory asynchronously."""

    noun: ClassVar[str] = "an asynchronous copy"
    memories: ClassVar[frozenset[AddressSpace]] = frozenset({AddressSpace.SHARED})
    completion: ClassVar[Completion] = Completion.GROUP
    capability: ClassVar[int] = 80
    alternative: ClassVar[str] = ", or pipeline(..., asynchronous=False)"
    titles: ClassVar[tuple[str, ...]] = ("async",)

    def refuse_memory(self, statement: Statement, memory: AddressSpace) -> None:
        raise PreconditionError(
            f"'{statement.id}' is asynchronous, but '{statement.written}' is {memory} and not in shared memory.",
            subject=statement.id, hint="let other threads read it too, or copy it as other values")

    def require_operands(self, kernel: LoopKernel, statement: Statement, expression: Expression) -> None:
        """Check that the statement copies the bits of one element, as far as dtypes are known."""
        s = statement
        argument = kernel.array_args.get(array_of(expression)) if isinstance(expression, p.Subscript) else None
        if s.combine is not None or s.written not in kernel.temporaries or argument is None or s.predicates:
            raise PreconditionError(f"'{s.id}' cannot be asynchronous: it is not a copy of an array's element.",
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


# CUDA

#: In PTX, as NVRTC has no header for it.
_COPY_ASYNC = """
// cp.async: BYTES bytes go to shared memory while the thread goes on; 16 pass by the first cache
template <int BYTES> __device__ __forceinline__ void copy_async(void *shared, const void *global)
{
    const unsigned int to = __cvta_generic_to_shared(shared);
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(global) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" :: "r"(to), "l"(global), "n"(BYTES) : "memory");
}
"""


def _single_copy(printer: Printer, node: Assign, _: Instruction, bounds: LowerBounds) -> list[str]:
    dtype = printer.dtype_of(node.target)
    return [_copy_call(printer.value(node.target, bounds, dtype), printer.value(node.value, bounds, dtype),
                       dtype.itemsize)]


def _copy_call(target: str, source: str, size: int) -> str:
    return f"copy_async<{size}>(&{target}, &{source});"


def _vector_copies(printer: Printer, loop: For, bounds: LowerBounds) -> list[str] | None:
    """The copies of a loop, one vector at a time, if source and target have vectors of one length."""
    loaded = [v for v in vectors_of(loop) if v.loaded]
    stored = [v for v in vectors_of(loop) if v.stored]
    if not len(loaded) == len(stored) == 1 or loaded[0].length != stored[0].length:
        return None
    size = loaded[0].length * printer.dtype_of(stored[0].element).itemsize

    def copy(at: Expression, inside: LowerBounds) -> str:
        target, source = (printer.place(v.at(loop.iname, at), inside) for v in (stored[0], loaded[0]))
        return _copy_call(target, source, size)
    (assign,) = loop.body.children
    assert isinstance(assign, Assign)
    return [*([f"// {assign.statement}"] if printer.annotate else []),
            *in_steps(printer, loop, loaded[0].length, bounds, copy)]


CUDA = InstructionText({"copy_async": _COPY_ASYNC}, assignment=_single_copy, vectors=_vector_copies)
