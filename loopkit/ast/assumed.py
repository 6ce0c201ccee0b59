"""Assumptions of instructions about the arguments of a call."""
from __future__ import annotations

from dataclasses import dataclass

from pymbolic.typing import Expression

from loopkit.ast.tensor_maps import MappedArray


@dataclass(frozen=True)
class AlignedArray:
    """The assumption that an array argument and each of its rows begin at a multiple of *elements* elements.

    That is: its last stride is 1 element, and its other strides are such multiples.

    :ivar strides: the exact strides of all axes but the last, in elements; rows may then begin anywhere.
    """

    array: str
    elements: int
    strides: tuple[Expression, ...] = ()

    def __str__(self) -> str:
        rows = ", rows without gaps" if self.strides else ""
        return f"{self.array} aligned to {self.elements} elements{rows}"


@dataclass(frozen=True)
class DivisibleSize:
    """The assumption that an integer expression in the sizes is a multiple of *divisor*."""

    size: Expression
    divisor: int

    def __str__(self) -> str:
        return f"{self.size} divisible by {self.divisor}"


Assumed = AlignedArray | DivisibleSize | MappedArray
