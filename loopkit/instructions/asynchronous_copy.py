"""Asynchronous copy (``cp.async``): a thread starts a copy from global to shared memory and continues.

A copy is performed when its thread waits for the commit group with the copy. A commit group has the copies that a
thread started since its last commit; a wait may leave the newest groups pending.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign, Completion, For, Instruction
from loopkit.ast.signs import Signs
from loopkit.errors import PreconditionError
from loopkit.instructions.base import MemoryInstruction
from loopkit.instructions.text import InstructionText, Printer
from loopkit.instructions.vector_access import Vector, vectors_of
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement

#: The sizes of one copy, in bytes.
SIZES = (4, 8, 16)


@dataclass(frozen=True)
class AsynchronousCopy(MemoryInstruction):
    """An assignment that copies an element of an array to shared memory asynchronously."""

    noun: ClassVar[str] = "an asynchronous copy"
    memories: ClassVar[frozenset[str]] = frozenset({"shared"})
    completion: ClassVar[Completion] = Completion.GROUP
    capability: ClassVar[int] = 80
    alternative: ClassVar[str] = ", or pipeline(..., asynchronous=False)"

    def refuse_memory(self, statement: Statement, memory: str) -> None:
        raise PreconditionError(
            f"'{statement.id}' is asynchronous, but '{statement.written}' is {memory} and not in shared memory.",
            subject=statement.id, hint="let other threads read it too, or copy it as other values")

    @property
    def titles(self) -> tuple[str, ...]:
        return ("async",)

    def require_operands(self, kernel: LoopKernel, statement: Statement, expression: Expression) -> None:
        """Check that the statement copies the bits of one element, as far as dtypes are known.

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


def is_asynchronous_copy(assign: Assign) -> bool:
    """Is *assign* executed by an asynchronous copy?"""
    return any(isinstance(i, AsynchronousCopy) for i in assign.instructions)


# {{{ CUDA

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


def _one(printer: Printer, node: Assign, _: Instruction, signs: Signs) -> Iterator[str]:
    dtype = printer.dtype_of(node.target)
    yield _call(printer, printer.value(node.target, signs, dtype), printer.value(node.value, signs, dtype),
                dtype.itemsize)


def _call(printer: Printer, target: str, source: str, size: int) -> str:
    """The copy of *size* bytes."""
    printer.used.add("copy_async")
    return f"copy_async<{size}>(&{target}, &{source});"


def _vectors(printer: Printer, loop: For, signs: Signs) -> Iterator[str] | None:
    """The copies of a loop, one vector at a time, if source and target have vectors of one length."""
    loaded = [v for v in vectors_of(loop) if v.loaded]
    stored = [v for v in vectors_of(loop) if v.stored]
    if len(loaded) == len(stored) == 1 and loaded[0].length == stored[0].length:
        return _vector_copies(printer, loop, (loaded[0], stored[0]), signs)
    return None


def _vector_copies(printer: Printer, loop: For, vectors: tuple[Vector, Vector], signs: Signs) -> Iterator[str]:
    (assign,) = loop.body.children
    assert isinstance(assign, Assign)
    assert isinstance(loop.start, int)
    assert isinstance(loop.stop, int)
    if printer.annotate:
        yield f"// {assign.statement}"
    source, target = vectors
    size = source.length * printer.dtype_of(target.element).itemsize
    if loop.stop - loop.start == source.length:
        first = [printer.place(v.at(loop.iname, loop.start), signs) for v in (target, source)]
        yield _call(printer, first[0], first[1], size)
        return
    x, inside = loop.iname, signs.from_start(loop.iname, loop.start)
    yield "#pragma unroll"
    yield f"for ({printer.index} {x} = {loop.start}; {x} < {loop.stop}; {x} += {source.length})"
    yield f"    {_call(printer, printer.place(target.element, inside), printer.place(source.element, inside), size)}"


CUDA = InstructionText({"copy_async": _COPY_ASYNC}, assignment=_one, vectors=_vectors)

# }}}
