"""Asynchronous copy (``cp.async``): a thread starts a copy from global to shared memory and continues.

A copy is performed once its thread has waited for the copy's commit group. A commit group has the copies that a
thread started since its last commit; a wait may leave the newest groups pending.

One copy moves 4, 8 or 16 bytes: an element or a vector. It can fill the target with zeros instead of elements that a
condition excludes. Smaller elements outside of vectors are loaded and stored at once, which is never too late.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign, Completion, For, Instruction
from loopkit.ast.value_ranges import ValueRanges
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import array_of, subexpressions, substitute
from loopkit.instructions.base import InstructionText, MemoryInstruction, Printer
from loopkit.instructions.vector_access import (
    condition_at,
    copied_by,
    copied_element,
    in_steps,
    is_zero,
    rise,
    vectors_of,
)
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import is_at_once
from loopkit.poly.affine import add, multiply


@dataclass(frozen=True)
class AsynchronousCopy(MemoryInstruction):
    """An assignment that copies an element of an array, or 0, to shared memory asynchronously."""

    noun: ClassVar[str] = "an asynchronous copy"
    memories: ClassVar[frozenset[AddressSpace]] = frozenset({AddressSpace.SHARED})
    sizes: ClassVar[frozenset[int]] = frozenset({4, 8, 16})
    completion: ClassVar[Completion] = Completion.GROUP
    capability: ClassVar[int] = 80
    alternative: ClassVar[str] = ", or pipeline(..., asynchronous=False)"
    titles: ClassVar[tuple[str, ...]] = ("async",)

    def refuse_memory(self, statement: Statement, memory: AddressSpace) -> None:
        raise PreconditionError(
            f"'{statement.id}' is asynchronous, but '{statement.written}' is {memory} and not in shared memory.",
            subject=statement.id, hint="let other threads read it too, or copy it as other values")

    def require_operands(self, kernel: LoopKernel, statement: Statement, expression: Expression) -> None:
        """Check that the statement copies the bits of one element or zeros, as far as dtypes are known."""
        s, copied = statement, copied_element(expression)
        argument = kernel.array_args.get(array_of(copied[0])) if copied is not None else None
        if s.combine is not None or s.written not in kernel.temporaries or argument is None or s.predicates \
                or copied is None:
            fill = next((e.else_ for e in subexpressions(expression) if isinstance(e, p.If)), 0)
            raise PreconditionError(f"'{s.id}' cannot be asynchronous: it is not a copy of an array's element.",
                                    subject=s.id, hint="copy it through registers, or compute where it is read" if
                                    is_zero(fill) else f"an asynchronous copy can fill with 0 only, and not with "
                                    f"{fill}: copy it through registers")
        own, source = kernel.temporaries[s.written].dtype, argument.dtype
        if own is not None and source is not None and own != source:
            raise PreconditionError(f"'{s.id}' cannot be asynchronous: it converts {source} to {own}.", subject=s.id,
                                    hint="copy it through registers, or convert where it is read")
        known = own or source
        if known is not None and not self._has_size(kernel, s, copied[0], known.itemsize):
            self.refuse_size(s.id, known)

    def _has_size(self, kernel: LoopKernel, s: Statement, element: p.Subscript, size: int) -> bool:
        """Can one copy move an element of *size* bytes, or several along a ``vec`` iname?"""
        if size in self.sizes:
            return True
        last = [e.index_tuple[-1] for e in (element, s.assignee) if isinstance(e, p.Subscript)]
        for x in (x for x in s.inames if is_at_once(kernel.tags.get(x)) and all(rise(i, x) == 1 for i in last)):
            low, high = s.domain.constant_range(x)
            if low is not None and high is not None and any((high - low + 1)*size % n == 0 for n in self.sizes):
                return True
        return False

    def refuse_size(self, statement: str, dtype: np.dtype) -> None:
        raise PreconditionError(
            f"'{statement}' cannot be asynchronous: elements of {dtype} have {dtype.itemsize} bytes, and it has no "
            "vectors of 4, 8 or 16 bytes.", subject=statement,
            hint=f"split the iname of the last axis by {max(self.sizes) // dtype.itemsize or 1} with inner_tag='vec', "
                 "and pad_domain if its loop has edges; or copy it through registers")


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

_COPY_ASYNC_OR_ZEROS = """
// cp.async of the first SIZE of BYTES bytes, with zeros after them; if all are zeros, the index is not used
template <int BYTES, typename T, typename I>
__device__ __forceinline__ void copy_async_or_zeros(void *shared, const T *array, I index, int size)
{
    const unsigned int to = __cvta_generic_to_shared(shared);
    const T *global = array + (size ? index : 0);
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(global), "r"(size) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                     :: "r"(to), "l"(global), "n"(BYTES), "r"(size) : "memory");
}
"""


def _single_copy(printer: Printer, node: Assign, _: Instruction, bounds: ValueRanges) -> list[str]:
    size, copied = printer.dtype_of(node.target).itemsize, copied_element(node.value)
    if size not in AsynchronousCopy.sizes or copied is None:    # the element is too small, or it is 0
        return [printer.plain(node, bounds)]
    element, condition = copied
    assert isinstance(node.target, p.Subscript)
    return [_copy_call(printer, (node.target, element), size,
                       None if condition is None else p.If(condition, 1, 0), bounds)]


def _copy_call(printer: Printer, ends: tuple[p.Subscript, p.Subscript], size: int, copied: Expression | None,
               bounds: ValueRanges) -> str:
    """The copy of *size* bytes from the second of *ends* on to the first, or of *copied* elements and zeros."""
    dtype = printer.dtype_of(ends[0])
    target, source = (printer.place(e, bounds, dtype) for e in ends)
    if copied is None:
        return f"copy_async<{size}>(&{target}, &{source});"
    name = array_of(ends[1])
    index = source.removeprefix(f"{name}[").removesuffix("]")   # an argument has one subscript in the text
    some = printer.value(_in_bytes(copied, dtype.itemsize), bounds, np.dtype(np.int32))
    return f"copy_async_or_zeros<{size}>(&{target}, {name}, {index}, {some});"


def number_at(copied: Expression, iname: str, at: Expression) -> Expression:
    """A number of elements at the iteration *at* of a loop over *iname*."""
    match copied:
        case p.If(condition=condition, then=then, else_=other):
            return p.If(condition_at(condition, iname, at), number_at(then, iname, at), other)
        case p.Min():
            return p.Min(tuple(number_at(e, iname, at) for e in copied.children))
        case _:
            return add(substitute(copied, {iname: at}))


def _in_bytes(copied: Expression, size: int) -> Expression:
    """A number of elements of *size* bytes, in bytes."""
    match copied:
        case p.If(condition=condition, then=then, else_=other):
            return p.If(condition, _in_bytes(then, size), other)
        case _:
            return multiply(size, copied)


def _vector_copies(printer: Printer, loop: For, bounds: ValueRanges) -> list[str] | None:
    """The copies of a loop, one vector at a time; ``None``: it has other vectors."""
    loaded = [v for v in vectors_of(loop) if v.loaded]
    stored = [v for v in vectors_of(loop) if v.stored]
    if not len(loaded) == len(stored) == 1 or loaded[0].length != stored[0].length:
        return None
    size = loaded[0].length * printer.dtype_of(stored[0].element).itemsize

    def copy(at: Expression, inside: ValueRanges) -> str:
        copied = copied_by(loop)
        return _copy_call(printer, (stored[0].at(loop.iname, at), loaded[0].at(loop.iname, at)), size,
                          None if copied is None else number_at(copied, loop.iname, at), inside)
    (assign,) = loop.body.children
    assert isinstance(assign, Assign)
    return [*([f"// {assign.statement}"] if printer.annotate else []),
            *in_steps(printer, loop, loaded[0].length, bounds, copy)]


CUDA = InstructionText({"copy_async": _COPY_ASYNC, "copy_async_or_zeros": _COPY_ASYNC_OR_ZEROS},
                       assignment=_single_copy, vectors=_vector_copies)
