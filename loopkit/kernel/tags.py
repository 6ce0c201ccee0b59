"""Iname tags: how the instances along an iname are executed. A new tag is one frozen class."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class InameTag:
    """Base of all tags; ``str(tag)`` is its name in the language."""


@dataclass(frozen=True)
class ForTag(InameTag):
    """``for``: a sequential loop, also where another choice could be made for it."""

    def __str__(self) -> str:
        return "for"


@dataclass(frozen=True)
class UnrollTag(InameTag):
    """``unr``: a loop of constant trip count under ``#pragma unroll``."""

    def __str__(self) -> str:
        return "unr"


@dataclass(frozen=True)
class IlpTag(InameTag):
    """``ilp`` (``ilp.unr``) and ``ilp.seq``: each statement runs all its instances before the next statement."""

    unroll: bool = True

    def __str__(self) -> str:
        return "ilp" if self.unroll else "ilp.seq"


@dataclass(frozen=True)
class VecTag(InameTag):
    """``vec``: like ``ilp``, with vector loads and stores for accesses that are contiguous along the iname.

    The instances of a statement along the iname run at once: all reads are before all writes.
    """

    def __str__(self) -> str:
        return "vec"


@dataclass(frozen=True)
class MmaTag(InameTag):
    """``mma``: like ``ilp``, in a small matrix product that the threads of a warp compute together.

    The iname is the reduction iname of the product, or counts the rows of one thread.
    """

    def __str__(self) -> str:
        return "mma"


@dataclass(frozen=True)
class GroupTag(InameTag):
    """``g.N``: along axis *axis* of the grid of blocks."""

    axis: int

    def __str__(self) -> str:
        return f"g.{self.axis}"


@dataclass(frozen=True)
class LocalTag(InameTag):
    """``l.N``: along axis *axis* of the threads of a block."""

    axis: int

    def __str__(self) -> str:
        return f"l.{self.axis}"


@dataclass(frozen=True)
class AutoLocalTag(InameTag):
    """``l.auto``: over the block's threads; lowering chooses the thread distribution."""

    def __str__(self) -> str:
        return "l.auto"


NAMES = ("g.0", "g.1", "g.2", "l.0", "l.1", "l.2", "l.auto", "unr", "ilp", "ilp.unr", "ilp.seq", "vec", "mma", "for")


def parse_tag(text: str) -> InameTag | None:
    """The tag called *text*, if there is one."""
    if text in ("g.0", "g.1", "g.2"):
        return GroupTag(int(text[2]))
    if text in ("l.0", "l.1", "l.2"):
        return LocalTag(int(text[2]))
    return {"l.auto": AutoLocalTag(), "unr": UnrollTag(), "ilp": IlpTag(), "ilp.unr": IlpTag(),
            "ilp.seq": IlpTag(unroll=False), "vec": VecTag(), "mma": MmaTag(), "for": ForTag()}.get(text)


def is_parallel(tag: InameTag | None) -> bool:
    """Do the instances along an iname of this tag run concurrently, in no order?"""
    return isinstance(tag, GroupTag | LocalTag | AutoLocalTag)


def is_collective(tag: InameTag | None) -> bool:
    """Does one instruction of several threads execute all iterations along an iname of this tag?"""
    return isinstance(tag, MmaTag)


def is_innermost(tag: InameTag | None) -> bool:
    """Does a loop over an iname of this tag enclose single statements only, inside all other loops of the order?"""
    return isinstance(tag, IlpTag | VecTag | MmaTag)


def is_unrolled(tag: InameTag | None) -> bool:
    """Is a loop over an iname of this tag one of constant trip count under ``#pragma unroll``?"""
    return isinstance(tag, UnrollTag | VecTag | MmaTag) or (isinstance(tag, IlpTag) and tag.unroll)
