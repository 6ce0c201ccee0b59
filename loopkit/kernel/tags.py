"""Iname tags: how the instances along an iname are executed. A new tag is one frozen class and its name in TAGS.

User tags are instances of classes of the users, derived from ``pytools.tag.Tag``. They have no meaning here.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pytools.tag import NonUniqueTagError, Tag, check_tag_uniqueness

from loopkit.errors import PreconditionError


@dataclass(frozen=True)
class InameTag:
    """Base of all tags; ``str(tag)`` is its name in the language, the first in :data:`TAGS`."""

    def __str__(self) -> str:
        return next(name for name, tag in TAGS.items() if tag == self)


@dataclass(frozen=True)
class ForTag(InameTag):
    """``for``: a sequential loop."""


@dataclass(frozen=True)
class UnrollTag(InameTag):
    """A loop of constant trip count under ``#pragma unroll``."""


@dataclass(frozen=True)
class IlpTag(InameTag):
    """``ilp`` (``ilp.unr``) and ``ilp.seq``: each statement runs all its instances before the next statement."""

    unroll: bool = True


@dataclass(frozen=True)
class VecTag(InameTag):
    """Like ``ilp``, with vector loads and stores for accesses that are contiguous along the iname.

    The instances of a statement along the iname run at once: all reads are before all writes.
    """


@dataclass(frozen=True)
class SimdTag(InameTag):
    """``cpu.simd``: each statement runs its instances in the vector units of the host's processor.

    The instances of a statement along the iname run at once and in no order. The loop may have any number of
    iterations.
    """


@dataclass(frozen=True)
class InstructionTag(InameTag):
    """Like ``ilp``, for a nest of loops that one instruction executes. :func:`loopkit.tensorize` sets it."""


@dataclass(frozen=True)
class GroupTag(InameTag):
    """``g.N``: distributes the instances over axis *axis* of the grid of blocks."""

    axis: int


@dataclass(frozen=True)
class CpuThreadsTag(GroupTag):
    """``cpu.threads``: distributes the instances over the threads of the host, as ``g.0`` over blocks."""

    axis: int = 0


@dataclass(frozen=True)
class LocalTag(InameTag):
    """``l.N``: distributes the instances over axis *axis* of the threads of a block."""

    axis: int


@dataclass(frozen=True)
class AutoLocalTag(InameTag):
    """``l.auto``: distributes the instances over the threads of a block; lowering chooses the axes."""


#: The tags by name.
TAGS: Mapping[str, InameTag] = {
    "g.0": GroupTag(0), "g.1": GroupTag(1), "g.2": GroupTag(2), "l.0": LocalTag(0), "l.1": LocalTag(1),
    "l.2": LocalTag(2), "l.auto": AutoLocalTag(), "cpu.threads": CpuThreadsTag(), "cpu.simd": SimdTag(),
    "unr": UnrollTag(), "ilp": IlpTag(), "ilp.unr": IlpTag(),
    "ilp.seq": IlpTag(unroll=False), "vec": VecTag(), "instr": InstructionTag(), "for": ForTag()}


def is_parallel(tag: InameTag | None) -> bool:
    """Do the instances along an iname of this tag run concurrently, in no order?"""
    return isinstance(tag, GroupTag | LocalTag | AutoLocalTag)


def is_collective(tag: InameTag | None) -> bool:
    """Does one instruction execute all iterations along an iname of this tag?"""
    return isinstance(tag, InstructionTag)


def is_at_once(tag: InameTag | None) -> bool:
    """Do the instances of a statement along an iname of this tag run at once, with all reads before all writes?"""
    return isinstance(tag, VecTag | SimdTag)


def is_simd(tag: InameTag | None) -> bool:
    """Do these instances run in no order either, in the vector units of the host's processor?"""
    return isinstance(tag, SimdTag)


def of_host(tag: InameTag) -> InameTag | None:
    """The tag of a GPU that comes nearest to *tag*, if that is for the host alone; else ``None``."""
    return GroupTag(0) if isinstance(tag, CpuThreadsTag) else VecTag() if isinstance(tag, SimdTag) else None


def is_innermost(tag: InameTag | None) -> bool:
    """Does a loop over an iname of this tag enclose single statements only, inside all other loops of the order?"""
    return isinstance(tag, IlpTag | VecTag | SimdTag | InstructionTag)


def is_unrolled(tag: InameTag | None) -> bool:
    """Is a loop over an iname of this tag one of constant trip count under ``#pragma unroll``?"""
    return isinstance(tag, UnrollTag | VecTag | InstructionTag) or (isinstance(tag, IlpTag) and tag.unroll)


# User tags

#: The user tags of an object, as users give them.
GivenTags = Tag | Iterable[Tag] | None


def user_tags(given: GivenTags, owner: str) -> frozenset[Tag]:
    """*given* as a set; *owner* names the object that has the tags.

    :raises PreconditionError: one is not a tag, or two are of one class of which an object has at most one.
    """
    listed = () if given is None else given if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    for tag in (listed := tuple(listed)):
        if not isinstance(tag, Tag):
            raise PreconditionError(f"{owner} cannot have the tag {tag!r}.", subject=str(tag),
                                    hint="user tags are instances of classes derived from pytools.tag.Tag")
    try:
        return check_tag_uniqueness(frozenset(listed))
    except NonUniqueTagError as err:
        raise PreconditionError(f"{owner} has two tags of one unique class ({err}).", subject=owner) from None


def is_tag(tag: object, wanted: object) -> bool:
    """Is *tag*, of a statement, the tag *wanted*, or an instance of the class *wanted*?"""
    return isinstance(tag, wanted) if isinstance(wanted, type) else tag == wanted


def tag_name(tag: object) -> str:
    """The name by which a pattern selects *tag*: a text, or the name of the class."""
    return tag if isinstance(tag, str) else type(tag).__name__


def in_order(tags: Iterable[object]) -> list[str]:
    """The texts of *tags*, sorted."""
    return sorted(tag if isinstance(tag, str) else repr(tag).rpartition(".<locals>.")[2] for tag in tags)
