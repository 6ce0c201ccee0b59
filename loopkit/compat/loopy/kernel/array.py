"""The base of loopy's arrays and temporaries, and the tags of their axes as objects, which ``dim_tags=`` takes."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from loopkit.compat.loopy.kernel.data import ArrayBase as ArrayBase
from loopkit.compat.loopy.typing import auto


@dataclass(frozen=True)
class FixedStrideArrayDimTag:
    """An axis with this *stride* in elements; ``auto``: with any.

    >>> str(FixedStrideArrayDimTag(8)), str(FixedStrideArrayDimTag(auto))
    ('stride:8', 'stride:auto')
    """

    stride: Any

    def __str__(self) -> str:
        return f"stride:{'auto' if self.stride is auto else self.stride}"


@dataclass(frozen=True)
class ComputedStrideArrayDimTag:
    """An axis whose place in the order of the axes is *layout_nesting_level*, 0 for the fastest."""

    layout_nesting_level: int

    def __str__(self) -> str:
        return f"N{self.layout_nesting_level}"


@dataclass(frozen=True)
class SeparateArrayArrayDimTag:
    """An axis that is separated into several arguments."""

    def __str__(self) -> str:
        return "sep"


@dataclass(frozen=True)
class VectorArrayDimTag:
    """An axis whose elements are those of a vector."""

    def __str__(self) -> str:
        return "vec"
