"""Shared memory of a block in CUDA's text: declared arrays, or one dynamic piece with the arrays in it."""
from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from loopkit.ast.nodes import Array
from loopkit.target.c.declarations import array_declaration, extents_text, note_of
from loopkit.target.c.dialect import Dialect

#: The name of the dynamic shared memory; no name of a user equals it (:mod:`loopkit.language.names`).
DYNAMIC = "shared_memory_"

#: Alignment of every array in bytes: the widest access of a thread.
ALIGNMENT = 16


@dataclass(frozen=True)
class SharedMemory:
    """The layout of a function's shared arrays.

    :ivar offsets: their offsets in bytes, by name.
    :ivar total: bytes of all of them, and of *others* that are declared elsewhere.
    :ivar dynamic: the launch must request the memory, because a function cannot declare this much.
    """

    offsets: Mapping[str, int]
    total: int
    dynamic: bool
    others: int = 0

    @property
    def dynamic_bytes(self) -> int:
        return self.total - self.others if self.dynamic else 0

    def declarations(self, arrays: Sequence[Array], dialect: Dialect, aligned: Collection[str] = ()) -> Iterator[str]:
        """The lines that declare *arrays*, shared or not; vector accesses use the shared arrays in *aligned*."""
        for array in arrays:
            if array.shared and self.dynamic:
                if not self.offsets[array.name]:
                    yield f"extern __shared__ __align__({ALIGNMENT}) unsigned char {DYNAMIC}[];"
                yield _reference(array, self.offsets[array.name], dialect)
            elif not array.lanes:
                align = f"__align__({ALIGNMENT}) " if array.name in aligned else ""
                yield (f"{f'__shared__ {align}' if array.shared else ''}{array_declaration(array, dialect)};"
                       f"{note_of(array)}")


def shared_memory(arrays: Sequence[Array], static_bytes: int, others: int = 0) -> SharedMemory:
    """The layout of the shared ones among *arrays*; up to *static_bytes* can be declared.

    :arg others: bytes that called functions declare.
    """
    offsets: dict[str, int] = {}
    end = total = 0
    for array in arrays:
        if array.shared:
            start = -(-end // ALIGNMENT) * ALIGNMENT
            size = prod(array.shape) * array.dtype.itemsize
            offsets[array.name] = start
            end = start + size
            total += size
    dynamic = end > static_bytes
    return SharedMemory(offsets, (end if dynamic else total) + others, dynamic, others)


def _reference(array: Array, offset: int, dialect: Dialect) -> str:
    """The declaration of *array* as a part of the dynamic shared memory."""
    type_name = dialect.type_name(array.dtype)
    place = f"{DYNAMIC} + {offset}" if offset else DYNAMIC
    if not array.shape:
        return f"{type_name} &{array.name} = *reinterpret_cast<{type_name} *>({place});"
    extents = extents_text(array)
    return f"{type_name} (&{array.name}){extents} = *reinterpret_cast<{type_name} (*){extents}>({place});"
