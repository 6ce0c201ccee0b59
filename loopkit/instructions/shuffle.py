"""Warp shuffle: each lane of a warp reads a register of another lane.

The instruction stands on a region, which is one assignment that reads an element of an array in lanes: an array of
which each thread holds its own element in a register.
"""
from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Assign, Block, If, Instruction, Region, Scope
from loopkit.ast.walk import rewritten
from loopkit.errors import InternalError
from loopkit.expr.mappers import elements_of
from loopkit.poly.affine import add, affine_difference, floor_div, multiply


@dataclass(frozen=True)
class Shuffle(Instruction):
    """How the lanes of a warp read a register of each other, all of them at once.

    :ivar offset: a lane reads from the one so many places further on, or back if it is negative; ``None``: from the
        first of its group.
    :ivar width: how many neighbouring lanes are a group; a power of two.
    :ivar spare: nobody reads what the lanes hold afterwards that a guard leaves out; they may write as well.
    """

    offset: int | None
    width: int
    spare: bool = False

    noun: ClassVar[str] = "a shuffle"
    scope: ClassVar[Scope] = Scope.WARP

    @property
    def titles(self) -> tuple[str, ...]:
        if self.offset is None:
            source = f"first of {self.width} lanes"
        else:
            source = f"lane {'+' if self.offset > 0 else '-'} {abs(self.offset)}"
        return (f"shuffle: {source}{', the others spare' if self.spare else ''}",)

    def source(self, thread: Expression) -> Expression:
        """The thread that the one of number *thread* reads from."""
        if self.offset is not None:
            return add(thread, self.offset)
        return multiply(self.width, floor_div(thread, self.width))

    def foreign_elements(self, region: Region, lanes: Collection[str]) -> Iterable[Expression]:
        return (read_of_other_lane(region, lanes)[1],)

    def faults(self, region: Region, lanes: Collection[str]) -> Iterator[str]:
        """The element that is read does not lie in the lane that its subscripts name."""
        assign, read = read_of_other_lane(region, lanes)
        target = assign.target
        if self.offset is not None and (
                not isinstance(target, p.Subscript) or not any(elements_of(target, lanes))
                or target.index_tuple[:-1] != read.index_tuple[:-1]
                or affine_difference(read.index_tuple[-1], target.index_tuple[-1]) != self.offset):
            yield f"'{read}' is not held {self.offset} lanes further on than '{target}'"


def read_of_other_lane(region: Region, lanes: Collection[str]) -> tuple[Assign, p.Subscript]:
    """The assignment in *region* and what it reads of another lane.

    :arg lanes: the arrays in lanes.
    :raises InternalError: the region is not one assignment with one such read, perhaps under a guard.
    """
    found = list(_assignments(region.body))
    if len(found) != 1:
        raise InternalError("A shuffle should be one assignment, perhaps under a guard.")
    node, = found
    reads = {e for e in elements_of(node.value, lanes) if e != node.target}
    if len(reads) != 1:
        raise InternalError(f"The shuffle of '{node.statement}' should read one element of another lane.")
    return node, reads.pop()


def with_assignment(block: Block, node: Assign) -> Block:
    """*block* with *node* for its only assignment."""
    return rewritten(block, lambda old: node if isinstance(old, Assign) else old)


def _assignments(block: Block) -> Iterator[Assign]:
    for node in block.children:
        match node:
            case Assign():
                yield node
            case If(otherwise=None):
                yield from _assignments(node.then)
            case _:
                raise InternalError("A shuffle should be one assignment, perhaps under a guard.")
