"""The order and the swizzle of the axes of temporaries in memory."""
from __future__ import annotations

from pymbolic.typing import Expression

from loopkit.errors import StorageError
from loopkit.kernel.cost import MEMORIES
from loopkit.kernel.data import AddressSpace, TemporaryVariable


def require_axes(t: TemporaryVariable, own: tuple[Expression, ...], space: AddressSpace) -> None:
    """:raises StorageError: the order or the swizzle of the axes of *t* does not fit its axes, or its address space."""
    order, swizzle = t.layout.order, t.layout.swizzle
    if order and sorted(order) != [*range(len(own))]:
        raise StorageError(f"The {len(order)} axes of '{t.name}' were tagged, but it now has {len(own)}.",
                           subject=t.name, hint="tag_array_axes after the transformation that changed them")
    if swizzle is None:
        return
    if space is not AddressSpace.LOCAL:
        raise StorageError(f"'{t.name}' is swizzled, but it is in {MEMORIES[space]}, and only shared memory has banks.",
                           subject=t.name, hint="leave the swizzle out, or let other threads of the block read it")
    columns = t.layout.in_memory(own)[-1]
    whole = swizzle.chunk*swizzle.period
    if swizzle.axis >= len(own) or t.layout.place_of(swizzle.axis) == len(own) - 1 \
            or not isinstance(columns, int) or columns % whole:
        raise StorageError(f"'{t.name}' was swizzled by {whole} columns, and its axes changed: {swizzle} does not "
                           f"fit [{', '.join(map(str, own))}].", subject=t.name,
                           hint="swizzle after the transformation that changed them")
