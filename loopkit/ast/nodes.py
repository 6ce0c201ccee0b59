"""The loop program after scheduling: what a target prints."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.expr.mappers import substitute
from loopkit.poly.affine import add


@dataclass(frozen=True)
class Assign:
    """``target = value``, or ``target op= value`` for the reduction operation *combine*.

    :ivar statement: id of the statement it comes from.
    :ivar instance: what each iname of that statement is here, which nothing prints: the program is checked by it.
    :ivar atomic: other threads see the target as it was before or as it is behind, and nobody's update is lost.
    :ivar asynchronous: it copies to shared memory by itself, and is done at a later time that something waits for.
    :ivar published: other blocks wait for the target, and get its value with the word that it is there.
    :ivar awaits: the arrays of which *value*, or a subscript of *target*, reads what another block publishes.
    """

    target: p.Variable | p.Subscript
    value: Expression
    combine: str | None
    statement: str
    instance: tuple[tuple[str, Expression], ...] = ()
    atomic: bool = False
    asynchronous: bool = False
    published: bool = False
    awaits: tuple[str, ...] = ()


@dataclass(frozen=True)
class AlignedArray:
    """An array argument begins at a multiple of *elements* elements, and so does each of its rows.

    That is, its last stride is one element, and the others are such multiples.

    :ivar strides: in elements, of all axes but the last, where rows may begin anywhere: then it has exactly these.
    """

    array: str
    elements: int
    strides: tuple[Expression, ...] = ()

    def __str__(self) -> str:
        rows = ", rows without gaps" if self.strides else ""
        return f"{self.array} in {self.elements}s{rows}"


@dataclass(frozen=True)
class DivisibleSize:
    """An integer expression in the sizes is a multiple of *divisor*."""

    size: Expression
    divisor: int

    def __str__(self) -> str:
        return f"{self.size} divisible by {self.divisor}"


Assumed = AlignedArray | DivisibleSize


@dataclass(frozen=True)
class Vector:
    """The elements that the iterations of one loop touch at one place of its body.

    :ivar name: of the registers that hold them.
    :ivar element: as it stands in the body, in terms of the loop's variable, with which it moves one element on.
    :ivar length: elements of one access; the first of the loop is a multiple of it.
    :ivar loaded: they are read before the loop; *stored*: they are written behind it.
    :ivar assumed: what must hold of a call, and is not known from the kernel.
    :ivar inside: where all of it lies in its array, if lanes that are cut off may not; elsewhere it is loaded lane by
        lane.
    :ivar serves: what is read, if it is not *element* itself but elements next to it in the same row.
    """

    name: str
    element: p.Subscript
    length: int
    loaded: bool
    stored: bool
    assumed: tuple[Assumed, ...] = ()
    inside: Expression | None = None
    serves: p.Subscript | None = None

    @property
    def array(self) -> str:
        assert isinstance(self.element.aggregate, p.Variable)
        return self.element.aggregate.name

    def at(self, iname: str, value: Expression) -> p.Subscript:
        """The element at the iteration *value* of the loop over *iname*."""
        index = tuple(add(substitute(i, {iname: value})) for i in self.element.index_tuple)
        return p.Subscript(self.element.aggregate, index)


@dataclass(frozen=True)
class MatrixProduct:
    """A nest of loops, around one statement, adds the product of two small matrices to a third.

    The lanes of a warp may compute it at once. Lane ``t`` has the rows ``t // 4`` and, of two, ``t // 4 + 8`` of the
    sums, and of each the columns ``2*(t % 4)`` and ``2*(t % 4) + 1``: those that its own iterations add to. Of the left
    matrix it loads the same rows in the columns ``t % 4``, ``t % 4 + 4`` and so on, of the right one the rows with the
    numbers of these columns in column ``t // 4``.

    :ivar row: the iname of its rows, ``None`` if it has one; *column*: of its two columns; *depth*: the one along which
        products are added up.
    :ivar left: what it loads of the left matrix, all rows of the first column, then of the next; *right*: of the right
        one.
    """

    row: str | None
    column: str
    depth: str
    left: tuple[p.Subscript, ...]
    right: tuple[p.Subscript, ...]

    @property
    def rows(self) -> int:
        """How many rows of the sums a lane has."""
        return len(self.left) // len(self.right)

    def __str__(self) -> str:
        return f"{8*self.rows}x{4*len(self.right)} by {4*len(self.right)}x8"


@dataclass(frozen=True)
class For:
    """``for (iname = start; iname < stop; iname += step) body``; *unroll* asks for it to be unrolled.

    :ivar vectors: what may be moved in vector accesses around it.
    :ivar product: what it and the loops in it are together, if they are the product of two matrices.
    :ivar every: with these vectors iterations that a condition leaves out may be computed, too, and are not stored: all
        that they read is in its array.
    """

    iname: str
    start: Expression
    stop: Expression
    step: int
    body: Block
    unroll: bool = False
    vectors: tuple[Vector, ...] = ()
    product: MatrixProduct | None = None
    every: bool = False


@dataclass(frozen=True)
class If:
    """``if (condition) then else otherwise``; *comment* says what the condition means to a reader."""

    condition: Expression
    then: Block
    otherwise: Block | None = None
    comment: str = ""


@dataclass(frozen=True)
class Define:
    """A named integer: ``const int name = value``."""

    name: str
    value: Expression


class Scope(IntEnum):
    """The threads that wait for each other: each by itself, those of a warp, those of a block."""

    THREAD = 0
    WARP = 1
    BLOCK = 2


@dataclass(frozen=True)
class Sync:
    """The threads of each *scope* wait for each other; *serves* are the dependences that need it.

    :ivar commits: before, the asynchronous copies that a thread began since the last such place become a group.
    :ivar pending: then each waits until all its groups but so many of the newest are done; ``None``: for none.
    """

    serves: tuple[str, ...]
    scope: Scope = Scope.BLOCK
    commits: bool = False
    pending: int | None = None

    @property
    def title(self) -> str:
        return place_title(self)


class _Place(Protocol):
    """What a barrier of a tree and one of a program have in common."""

    @property
    def scope(self) -> Scope: ...

    @property
    def commits(self) -> bool: ...

    @property
    def pending(self) -> int | None: ...


def place_title(place: _Place) -> str:
    """What threads do at a barrier, in a few words."""
    parts = ["copies begun are a group"] if place.commits else []
    if place.pending is not None:
        parts.append(f"all groups but {place.pending} are done" if place.pending else "all groups are done")
    if place.scope is not Scope.THREAD:
        parts.append("warp barrier" if place.scope is Scope.WARP else "barrier")
    return ", ".join(parts)


@dataclass(frozen=True)
class Shuffle:
    """How the lanes of a warp read a register of each other, all of them at once.

    :ivar offset: a lane reads from the one so many places further on, or back if it is negative; ``None``: from the
        first of its group.
    :ivar width: how many neighbouring lanes are a group; a power of two.
    :ivar spare: nobody reads what the lanes hold afterwards that a guard leaves out; they may write as well.
    """

    offset: int | None
    width: int
    spare: bool = False


@dataclass(frozen=True)
class Region:
    """Code without a barrier, run by all threads of the block.

    :ivar shuffle: it is one assignment, perhaps under a guard, that reads an array in lanes. All threads of a warp run
        it at once: what they read is what the array held before any of them writes.
    """

    body: Block
    shuffle: Shuffle | None = None


@dataclass(frozen=True)
class Call:
    """A launch of the function *name*; stands in what the host does only."""

    name: str


@dataclass(frozen=True)
class Block:
    """Nodes one after another."""

    children: tuple[Node, ...] = ()


Node = Assign | For | If | Define | Sync | Region | Call | Block


@dataclass(frozen=True)
class Swizzle:
    """In a row *r* of shared memory, the element of column *c* lies where that of ``c ^ chunk*(r mod period)`` would.

    Rows are told apart by one axis, columns are the axis that is fastest. Both numbers are powers of two.

    :ivar axis: the number of that axis, of all of an array's.
    """

    axis: int
    chunk: int
    period: int

    def __str__(self) -> str:
        times = f"{self.chunk}*" if self.chunk > 1 else ""
        return f"columns ^ {times}(axis {self.axis} mod {self.period})"


@dataclass(frozen=True)
class Array:
    """Cells that a function declares: shared by a block, or private to a thread.

    :ivar shape: ``()`` for a scalar.
    :ivar across_regions: a private one whose value lives from one region to another.
    :ivar lanes: an array of as many trailing axes with an element for each thread of the block, which it holds in a
        register; other lanes of its warp read it by shuffles. It is not *shared*.
    :ivar note: what a reader may want to know.
    :ivar swizzle: how a shared one mixes its columns; that is for the text alone, all else counts cells by subscripts.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    shared: bool
    across_regions: bool = False
    lanes: int = 0
    note: str = ""
    swizzle: Swizzle | None = None


@dataclass(frozen=True)
class Function:
    """One launch as a loop program.

    :ivar extents: of the axes ``g.0`` ... ``l.2`` that are used.
    :ivar coordinates: the hardware inames in terms of the axes (``p.Variable("g.0")``), in order.
    :ivar arrays: what it declares.
    :ivar in_turn: its blocks are numbered in the order in which they start.
    """

    name: str
    extents: Mapping[str, Expression]
    coordinates: Mapping[str, Expression]
    arrays: tuple[Array, ...]
    body: Block
    in_turn: bool = False

    @property
    def threads(self) -> int:
        result = 1
        for axis in ("l.0", "l.1", "l.2"):
            extent = self.extents.get(axis, 1)
            assert isinstance(extent, int)
            result *= extent
        return result


@dataclass(frozen=True)
class Program:
    """The functions of a kernel, one a launch.

    :ivar order: what the host does: calls of the functions, in loops where an iteration has launches of its own.
    """

    functions: tuple[Function, ...]
    order: Block

    @property
    def host_order(self) -> Block | None:
        """*order*, where it is more than a call of each function, whatever the sizes."""
        return None if all(isinstance(node, Call) for node in self.order.children) else self.order
