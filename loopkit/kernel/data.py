"""Arguments, temporaries and rules of a kernel, and its options: choices that do not change its meaning."""
from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt
from pymbolic.typing import Expression
from pytools.tag import Tag, Taggable

from loopkit.ast.arrays import Swizzle
from loopkit.ast.nodes import Completion, Instruction
from loopkit.errors import PreconditionError
from loopkit.kernel.annotations import require_kinds
from loopkit.kernel.tags import user_tags
from loopkit.shown import Declared

Value = TypeVar("Value")


class _Named(Enum):
    def __str__(self) -> str:
        return str(self.value)


class AddressSpace(_Named):
    """The memory of a temporary: private to a thread, shared by a block (loopy's ``local``), global, or constant.

    WARP: each thread of a block holds its elements in registers, and warp instructions read the elements of other
    threads. Lowering chooses WARP for values that threads combine; users choose it for the fragments of
    :func:`loopkit.tensorize`. CONSTANT: all threads read the elements of an
    ``initializer``, which the generated text contains.
    """

    PRIVATE = "private"
    WARP = "warp"
    SHARED = "shared"
    LOCAL = SHARED
    GLOBAL = "global"
    CONSTANT = "constant"


def named_space(space: object, temporary: str) -> AddressSpace:
    """The address space of *temporary*, by its name (``"local"`` is ``"shared"``) or as it is.

    :raises PreconditionError: users cannot choose an address space of this name.
    """
    try:
        found = AddressSpace("shared" if space == "local" else space)
    except ValueError:
        found = AddressSpace.CONSTANT
    if found is AddressSpace.CONSTANT:
        raise PreconditionError(f"'{temporary}' cannot have the address space {space!r}.", subject=str(space),
                                hint="the address spaces are private, warp, shared (or local) and global")
    return found


class CachePolicy(_Named):
    """The cache policy of an array, by the names of PTX.

    EVICT_LAST: caches evict elements loaded from the array last. STREAMING: caches evict elements stored to it first.
    """

    EVICT_LAST = "evict_last"
    STREAMING = "streaming"


@dataclass(frozen=True, repr=False, kw_only=True)
class TaggedData(Declared, Taggable):
    """Data that users may tag, with the methods ``tagged``, ``without_tags`` and ``tags_of_type`` of pytools.

    :ivar tags: user tags.
    """

    tags: frozenset[Tag] = frozenset()

    def __post_init__(self) -> None:
        if not isinstance(self.tags, frozenset) or self.tags:
            object.__setattr__(self, "tags", user_tags(self.tags, f"'{getattr(self, 'name', '')}'"))

    def _with_new_tags(self, tags: frozenset[Tag]) -> Self:
        return replace(self, tags=tags)


@dataclass(frozen=True, repr=False)
class ArrayData(TaggedData):
    """Data with elements: an array argument or a temporary."""

    name: str
    dtype: np.dtype | None = None
    shape: tuple[Expression, ...] | None = None


@dataclass(frozen=True, repr=False)
class GlobalArg(ArrayData):
    """An array argument in global memory.

    :ivar shape: one extent (number of elements) for each axis, an integer or an expression of the kernel's parameters;
        ``None``: inferred from the accesses.
    :ivar shape_like: the input with the shape of this output (of a stencil, for example): a call allocates the output
        with that shape. ``make_kernel`` sets it.
    :ivar inferred: if *shape* is ``None``, the smallest shape that contains all accesses, computed by ``make_kernel``;
        no transformation changes it. ``None``: to be inferred from the current accesses.
    :ivar cache_policy: the cache policy of its loads or stores; ``None``: the default policy.
    :ivar order: the order of its axes in memory, without gaps: ``"C"``: the last axis is the fastest; ``"F"``: the
        first is; or the numbers of the axes, the slowest first. Each call checks it, and allocates outputs so.
        ``None``: arrays of any strides fit.
    :ivar strides: the distance of neighbouring elements along each axis, in elements: integers or expressions of the
        kernel's parameters, which a call solves for. ``None`` and ``"auto"``: any distance.
    :ivar offset: the number of elements before element 0 of an array with one axis: an integer, or the name of a value
        argument. ``make_kernel`` adds it to the subscripts. The shape is that of the whole array. Calls may also pass
        views, ``x[3:]``, of any start.
    """

    shape_like: str | None = None
    inferred: tuple[Expression | None, ...] | None = field(default=None, compare=False, repr=False)
    cache_policy: CachePolicy | None = None
    order: str | tuple[int, ...] | None = None
    strides: tuple[Expression | None, ...] | None = None
    offset: int | str | None = None


@dataclass(frozen=True, repr=False)
class ValueArg(TaggedData):
    """A scalar argument passed by value: a size parameter or a number."""

    name: str
    dtype: np.dtype | None = None


Argument = GlobalArg | ValueArg


@dataclass(frozen=True, repr=False)
class MemoryLayout(Declared):
    """The order of a temporary's axes in memory, and the permutation of its columns.

    :ivar order: the axes, the slowest first; ``()``: in the order of the subscripts.
    """

    order: tuple[int, ...] = ()
    swizzle: Swizzle | None = None

    def place_of(self, axis: int) -> int:
        """The place of *axis* among the axes in memory."""
        return self.order.index(axis) if self.order else axis

    def behind(self, axes: int) -> MemoryLayout:
        """The layout of the array with this number of further axes before its own."""
        order = (*range(axes), *(axis + axes for axis in self.order)) if self.order else ()
        swizzle = None if self.swizzle is None else replace(self.swizzle, axis=self.swizzle.axis + axes)
        return replace(self, order=order, swizzle=swizzle)

    def in_memory(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """*values* of the axes, in the order of the axes in memory."""
        return tuple(values[axis] for axis in self.order) if values and self.order else values

    def __str__(self) -> str:
        axes = f"axes {', '.join(map(str, self.order))}" if self.order else ""
        return " ".join(filter(None, (axes, str(self.swizzle or ""))))


@dataclass(frozen=True, repr=False)
class ConstantArray(Declared):
    """The elements of a constant array; ``numpy.asarray`` gives them back.

    :ivar data: the elements in C order, as bytes.

    >>> np.asarray(ConstantArray.of(np.array([1, 2], np.int32)))
    array([1, 2], dtype=int32)
    """

    dtype: np.dtype
    shape: tuple[int, ...]
    data: bytes

    @classmethod
    def of(cls, values: npt.ArrayLike) -> ConstantArray:
        """The elements of an array."""
        array = np.asarray(values)
        array = array.astype(array.dtype.newbyteorder("="))
        return cls(array.dtype, array.shape, array.tobytes())

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        values = np.frombuffer(self.data, self.dtype).reshape(self.shape)
        return values if dtype is None else values.astype(dtype)

    @property
    def headline(self) -> str:
        return f"{self.dtype}, {self.shape}"


@dataclass(frozen=True, repr=False)
class TemporaryVariable(ArrayData):
    """A temporary: a value carried between statements.

    :ivar shape: one extent for each axis; ``()``: a scalar; ``None``: inferred from the accesses.
    :ivar address_space: the memory of its cells; ``None``: storage allocation chooses it from the writers and readers.
        ``make_kernel`` also accepts its name (``"shared"``).
    :ivar fixed: the user declared the shape and the address space; lowering uses exactly these, or raises an error.
    :ivar instruction: the instruction that stores and loads its elements; ``None``: plain stores and loads.
    :ivar note: a remark for readers of the generated code.
    :ivar base_storage: the name of the memory that it shares with the other temporaries of that name; ``None``: memory
        of its own. See :func:`loopkit.alias_temporaries`.
    :ivar initializer: its elements, an array of numbers that the generated text contains; ``None``: the kernel writes
        its elements.
    :ivar read_only: the kernel does not write to it. An *initializer* requires it.
    """

    address_space: AddressSpace | None = None
    fixed: bool = False
    instruction: Instruction | None = None
    note: str = ""
    layout: MemoryLayout = MemoryLayout()
    base_storage: str | None = None
    initializer: ConstantArray | None = None
    read_only: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.initializer is not None and not isinstance(self.initializer, ConstantArray):
            object.__setattr__(self, "initializer", ConstantArray.of(self.initializer))

    @property
    def between_blocks(self) -> bool:
        """Do blocks of one launch wait for its values?"""
        return self.instruction is not None and self.instruction.completion is Completion.FLAG

    @property
    def constants(self) -> tuple[Any, ...]:
        """The elements of a constant in the order of memory."""
        if self.initializer is None:
            return ()
        values = np.asarray(self.initializer)
        return tuple(values.transpose(self.layout.order or range(values.ndim)).ravel().tolist())


@dataclass(frozen=True, repr=False)
class SubstitutionRule(Declared):
    """A substitution rule ``name(arguments) := expr``: each use ``name(...)`` in a statement stands for *expr*."""

    name: str
    arguments: tuple[str, ...]
    expr: Expression


#: The extents of the checks before code generation.
VERIFY = ("off", "on", "full")


@dataclass(frozen=True, repr=False)
class Options(Declared):
    """Choices of code generation, set by :func:`loopkit.set_options`.

    :ivar full_tiles: emit two versions of the code: one without guards for full tiles, and the generic one.
    :ivar annotate: emit comments: statement ids, the combination of partial reduction results between threads, and the
        dependence that each barrier enforces.
    :ivar textual_unroll: write the iterations of ``unr`` loops as text instead of a loop under ``#pragma unroll``.
    :ivar min_blocks: the number of blocks that fit on a multiprocessor at once; the CUDA compiler limits the registers
        of a thread accordingly (``__launch_bounds__``). 0 sets no limit; ``"max"`` is the number that the target's
        threads, blocks and shared memory allow.
    :ivar persistent: the number of blocks of a launch with a producer thread: each runs several places of the grid, one
        after another (:func:`loopkit.persistent`). 0: each block runs one. *persistent_group*: its argument *group*.
    :ivar producer_registers: the registers of a thread of the producer's warpgroup; the consumers have the rest
        (:func:`loopkit.specialize_warps`). 0: all have as many.
    :ivar verify: the extent of the checks before code generation, as in :func:`loopkit.verify`: ``"off"``, ``"on"`` or
        ``"full"``.
    """

    full_tiles: bool = True
    annotate: bool = True
    textual_unroll: bool = False
    min_blocks: int | str = 0
    persistent: int = 0
    persistent_group: int = 0
    producer_registers: int = 0
    verify: str = "on"

    def __post_init__(self) -> None:
        """:raises PreconditionError: a value of another kind, or one that the option cannot have."""
        require_kinds(Options, (), vars(self))
        if self.min_blocks != "max" if isinstance(self.min_blocks, str) else self.min_blocks < 0:
            raise PreconditionError(f"The option 'min_blocks' cannot be {self.min_blocks!r}.", subject="min_blocks",
                                    hint="pass a number of blocks, 'max', or 0 for no limit")
        for option, what in (("persistent", "blocks"), ("persistent_group", "places")):
            if (number := getattr(self, option)) < 0:
                raise PreconditionError(f"The option '{option}' cannot be {number}.", subject=option,
                                        hint=f"pass a number of {what}, or 0")
        if self.verify not in VERIFY:
            raise PreconditionError(f"The option 'verify' cannot be {self.verify!r}.", subject="verify",
                                    hint=f"pass one of {', '.join(VERIFY)}")


def extent_of_checks(verify: object) -> str:
    """The extent of checks, one of :data:`VERIFY`, for *verify*; :raises PreconditionError: there is none."""
    if isinstance(verify, bool):
        return "on" if verify else "off"
    if isinstance(verify, str) and verify in VERIFY:
        return verify
    raise PreconditionError(f"verify={verify!r} is not an extent of checks.", subject="verify",
                            hint=f"pass True, False, or one of {', '.join(VERIFY)}")
