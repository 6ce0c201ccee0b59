"""loopy's arguments and temporaries, and their translation from and to loopkit's."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, ClassVar, Self

import numpy as np

import loopkit as lk
from loopkit.compat.loopy.symbolic import with_plain_integers
from loopkit.compat.loopy.types import as_numpy, to_loopy_type
from loopkit.compat.loopy.typing import auto, unless_auto
from loopkit.errors import PreconditionError
from loopkit.kernel.data import ConstantArray


class AddressSpace(IntEnum):
    """The memory of an array, by loopy's names."""

    PRIVATE = 0
    LOCAL = 1
    GLOBAL = 2

    @property
    def core(self) -> str:
        """loopkit's name of it."""
        return ("private", "shared", "global")[self]


def as_address_space(space: Any) -> AddressSpace | None:
    """The address space that *space* is or names; ``None`` for ``auto``; :raises PreconditionError: there is none."""
    space = unless_auto(space)
    if isinstance(space, str):
        names = {"private": 0, "local": 1, "shared": 1, "global": 2}
        if space not in names:
            raise PreconditionError(f"{space!r} is not an address space.", subject=space,
                                    hint="the address spaces are private, local and global")
        space = names[space]
    return None if space is None else AddressSpace(space)


def address_space_of(core: lk.AddressSpace | None) -> Any:
    """loopy's name of an address space; ``auto`` where storage allocation chooses."""
    return auto if core is None else {"private": AddressSpace.PRIVATE, "global": AddressSpace.GLOBAL}.get(
        core.value, AddressSpace.LOCAL)


class HasTags:
    """Base of objects with user tags."""

    def tags_of_type(self, tag_type: type) -> frozenset[Any]:
        """Its tags of a class."""
        return frozenset(tag for tag in getattr(self, "tags", ()) if isinstance(tag, tag_type))


@dataclass(frozen=True)
class Iname(HasTags):
    """An iname and its tags."""

    name: str
    tags: frozenset[Any] = frozenset()


@dataclass(frozen=True)
class KernelArgument(HasTags):
    """Base of the arguments of a kernel."""

    name: str
    dtype: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", to_loopy_type(unless_auto(self.dtype), allow_none=True))

    def copy(self, **changes: Any) -> Self:
        return replace(self, **changes)

    @property
    def is_integral(self) -> bool:
        return self.dtype is not None and bool(self.dtype.is_integral())

    @property
    def names(self) -> Iterator[str]:
        return (name for part in self.name.split(",") if (name := part.strip()))


@dataclass(frozen=True)
class ValueArg(KernelArgument):
    """A number that a call passes by value.

    :ivar approximately: its usual size; tests take it if nothing else gives one.
    """

    approximately: int = 1000
    target: Any = None
    is_output: bool = False
    is_input: bool = True
    tags: Any = frozenset()


#: The fields of loopy's arrays that loopkit does not have, each with the value that changes nothing.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "dim_tags": (None,), "storage_shape": (None,), "base_indices": (None,),
    "_base_storage_access_may_be_aliasing": (False,), "alignment": (None,)}


@dataclass(frozen=True)
class ArrayBase(KernelArgument):
    """An array or a temporary.

    :ivar shape: ``auto`` or ``None``: inferred from the accesses.
    :ivar order: ``"C"``, which is the default, or ``"F"``: the order of its axes in memory, which calls check;
        ``auto``: arrays of any strides fit.
    :ivar strides: the distance of neighbouring elements along each axis, in elements; calls check it.
    :ivar dim_tags: the order of its axes, ``"N1,N0"``, or their strides, ``"stride:1,stride:8"``;
        ``sep`` separates an axis of an argument into several arguments.
    :ivar others: fields that loopkit has in another way or not at all.
    """

    shape: Any = auto
    dim_tags: Any = None
    offset: Any = 0
    dim_names: Any = None
    strides: Any = None
    order: Any = None
    for_atomic: bool = False
    alignment: int | None = None
    tags: Any = frozenset()
    initializer: Any = None
    unused: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.strides is auto:
            object.__setattr__(self, "strides", None)

    @property
    def core_shape(self) -> Any:
        shape = unless_auto(self.shape)
        if isinstance(shape, str):
            return shape.strip().removeprefix("(").removesuffix(")") if shape.strip()[:1] == "(" else shape
        if isinstance(shape, tuple | list):
            return None if None in shape else tuple(x if isinstance(x, str) else with_plain_integers(x) for x in shape)
        return shape

    @property
    def core_dtype(self) -> np.dtype[Any] | None:
        return None if self.dtype is None else as_numpy(self.dtype)

    @property
    def separates(self) -> bool:
        """Is an axis separated into several arguments? The layer does this when its extent is constant."""
        return isinstance(self, ArrayArg) and "sep" in tags_of(self.dim_tags)

    def require_core(self) -> None:
        """:raises PreconditionError: a field has a value for which loopkit has nothing."""
        for name, neutral in _NEUTRAL.items():
            value = getattr(self, name, neutral[0])
            known = name == "dim_tags" and (_layout_of(value) or self.separates)
            if not any(value is x for x in neutral) and not known:
                raise PreconditionError(f"'{self.name}' has {name}={value!r}, for which loopkit has nothing yet.",
                                        subject=self.name)


def tags_of(dim_tags: Any) -> list[str]:
    """The tags of axes in one of loopy's forms."""
    listed = dim_tags.split(",") if isinstance(dim_tags, str) else dim_tags or ()
    return [str(tag).strip() for tag in listed]


def _layout_of(dim_tags: Any) -> dict[str, Any]:
    """The fields of loopkit's argument with the meaning of *dim_tags*; empty: they have another one."""
    tags = tags_of(dim_tags)
    if not tags:
        return {}
    if len(tags) == 1 and tags[0] in ("c", "C", "f", "F"):
        return {"order": tags[0].upper()}
    if all(tag.startswith("stride:") for tag in tags):
        return {"strides": tuple(tag.removeprefix("stride:") for tag in tags)}
    if all(tag[:1] == "N" and tag[1:].isdecimal() for tag in tags):
        return {"order": tuple(sorted(range(len(tags)), key=lambda axis: -int(tags[axis][1:])))}
    return {}


@dataclass(frozen=True)
class ArrayArg(ArrayBase):
    """An array that a call passes."""

    address_space: Any = AddressSpace.GLOBAL
    is_output: bool | None = None
    is_input: bool | None = None

    def core(self) -> lk.GlobalArg:
        """loopkit's argument; :raises PreconditionError: there is none."""
        self.require_core()
        layout: dict[str, Any] = {"strides": self.strides}
        if self.strides is None:
            order = unless_auto(self.order)
            layout = {"order": order.upper()} if order else {} if self.order is auto else _layout_of(self.dim_tags)
        if layout.get("order") == "C":
            layout = {}                                    # the order that outputs have anyway
        return lk.GlobalArg(self.name, self.core_dtype, self.core_shape, offset=unless_auto(self.offset), **layout)


class GlobalArg(ArrayArg):
    """An array in global memory."""


class ConstantArg(ArrayArg):
    """An array that the kernel only reads; loopkit keeps it in global memory."""


class ImageArg(ArrayArg):
    """An image; loopkit has none."""

    def core(self) -> lk.GlobalArg:
        raise PreconditionError(f"'{self.name}' is an image, and loopkit has no images.", subject=self.name,
                                hint=f"declare lp.GlobalArg({self.name!r}, ...)")


@dataclass(frozen=True)
class TemporaryVariable(ArrayBase):
    """An array or a number of the kernel itself; ``lp.tag_array_axes`` sets the order of its axes."""

    address_space: Any = auto
    base_indices: Any = None
    storage_shape: Any = None
    base_storage: str | None = None
    read_only: bool = False
    _base_storage_access_may_be_aliasing: bool = False

    def core(self) -> lk.TemporaryVariable:
        """loopkit's temporary; :raises PreconditionError: there is none."""
        self.require_core()
        if unless_auto(self.offset) not in (0, None):
            raise PreconditionError(f"The temporary '{self.name}' has offset={self.offset!r}.", subject=self.name,
                                    hint="add it to the subscripts")
        space = as_address_space(self.address_space)
        return lk.TemporaryVariable(
            self.name, self.core_dtype, self.core_shape, None if space is None else lk.AddressSpace(space.core),
            base_storage=self.base_storage, read_only=self.read_only,
            initializer=None if self.initializer is None else ConstantArray.of(self.initializer))


@dataclass(frozen=True)
class SubstitutionRule:
    """``name(arguments) := expression``."""

    name: str
    arguments: tuple[str, ...]
    expression: Any = field(default=None)
