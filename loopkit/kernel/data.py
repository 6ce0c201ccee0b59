"""Arguments, temporaries and substitution rules of a kernel."""
from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from pymbolic.typing import Expression

from loopkit.ast.nodes import Completion, Instruction, Swizzle


class AddressSpace(Enum):
    """Where a temporary lives; the values are loopy's names."""

    PRIVATE = "private"
    LOCAL = "local"
    GLOBAL = "global"

    def __str__(self) -> str:
        return self.value


#: What an address space may be called.
ADDRESS_SPACES = "the address spaces are private, local (or shared) and global"


def address_space(space: object) -> AddressSpace | None:
    """An address space from its name, or as it is; ``None``: there is none of this name."""
    try:
        return AddressSpace("local" if space == "shared" else space)
    except ValueError:
        return None


class CachePolicy(Enum):
    """How caches treat an array: PTX's names.

    EVICT_LAST: what is loaded from it is evicted last. STREAMING: what is stored to it is evicted first.
    """

    EVICT_LAST = "evict_last"
    STREAMING = "streaming"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class GlobalArg:
    """An array argument in global memory.

    :ivar shape: one extent for each axis, in the kernel's parameters; ``None``: inferred from the accesses.
    :ivar shape_like: an input as large as which a call allocates this output (a stencil's, say); set by
        ``make_kernel``.
    :ivar inferred: without *shape*: the smallest one that holds all accesses, which no transformation changes, found by
        ``make_kernel``; ``None``: to be found from the accesses as they stand.
    :ivar cache_policy: how caches treat it; ``None``: as any other array.
    """

    name: str
    dtype: np.dtype | None = None
    shape: tuple[Expression, ...] | None = None
    shape_like: str | None = None
    inferred: tuple[Expression | None, ...] | None = field(default=None, compare=False, repr=False)
    cache_policy: CachePolicy | None = None


@dataclass(frozen=True)
class ValueArg:
    """A scalar argument passed by value: a size parameter or a number."""

    name: str
    dtype: np.dtype | None = None


Argument = GlobalArg | ValueArg


@dataclass(frozen=True)
class TemporaryVariable:
    """A temporary: a value carried between statements.

    :ivar shape: extents of its subscripts; ``None``: inferred from the accesses, ``()``: a scalar.
    :ivar address_space: ``None``: settled in lowering from who writes and who reads. ``make_kernel`` takes names, too.
    :ivar fixed: the user declared both, so that its storage is exactly that or refused.
    :ivar lanes: of a shared one: each thread holds its own element in a register, and only instructions of a warp read
        elements of other lanes.
    :ivar instruction: that by which its elements are stored and loaded; ``None``: plain stores and loads.
    :ivar note: what a reader of the code may want to know of it.
    :ivar order: its axes as they lie in memory, the slowest first; ``()``: as its subscripts stand.
    :ivar swizzle: how its columns are mixed, row by row.
    """

    name: str
    dtype: np.dtype | None = None
    shape: tuple[Expression, ...] | None = None
    address_space: AddressSpace | None = None
    fixed: bool = False
    lanes: bool = False
    instruction: Instruction | None = None
    note: str = ""
    order: tuple[int, ...] = ()
    swizzle: Swizzle | None = None

    @property
    def between_blocks(self) -> bool:
        """Do blocks of one launch wait for its values?"""
        return self.instruction is not None and self.instruction.completion is Completion.FLAG


@dataclass(frozen=True)
class SubstitutionRule:
    """``name(arguments) := expr``."""

    name: str
    arguments: tuple[str, ...]
    expr: Expression
