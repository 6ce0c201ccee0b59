"""The axes of temporaries: their order and swizzle in memory, and those of lanes in warp registers."""
from __future__ import annotations

from collections.abc import Iterable, Sequence

from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access
from loopkit.errors import StorageError
from loopkit.expr.mappers import variables
from loopkit.kernel.cost import MEMORIES
from loopkit.kernel.data import AddressSpace, TemporaryVariable
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import LocalTag


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
    if swizzle.axis >= len(own) or not swizzle.row_axes <= t.layout.place_of(swizzle.axis) + 1 < len(own) \
            or not isinstance(columns, int) or columns % whole:
        raise StorageError(f"'{t.name}' was swizzled by {whole} columns, and its axes changed: {swizzle} does not "
                           f"fit [{', '.join(map(str, own))}].", subject=t.name,
                           hint="swizzle after the transformation that changed them")


# Warp registers

def axes_of_lanes(knl: LoopKernel, accesses: Sequence[Access], lead: Sequence[str], own: int) -> tuple[int, ...]:
    """The axes, of *lead* and then the temporary's *own*, that belong to threads: their inames are on the block's axes.

    There are none before :func:`tensorize` distributes a fragment: a thread then has all elements.

    :raises StorageError: an axis of another kind depends on the thread.
    """
    def of_threads(names: Iterable[str]) -> list[bool]:
        return [isinstance(knl.tags.get(x), LocalTag) for x in names]
    found = [k for k, x in enumerate(lead) if any(of_threads([x]))]
    writers = [a for a in accesses if a.is_write]
    for k in range(own):
        kinds = [of_threads(variables(a.subscripts[k]).intersection(a.domain.inames)) for a in writers]
        if all(any(kind) for kind in kinds):
            found.append(len(lead) + k)
        if any(any(kind) != all(kind) for kind in kinds if kind):
            name = writers[0].array
            raise StorageError(f"'{name}' is in the registers of warps, but its axis {k} has elements of several "
                               "threads in one register.", subject=name,
                               hint="tensorize distributes the axes of fragments over lanes and registers")
    return tuple(found)
