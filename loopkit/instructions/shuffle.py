"""Warp shuffle: each lane of a warp reads a register of another lane.

The instruction belongs to a region with one assignment that reads an element of an array in warp registers: each
thread holds one element of such an array in a register.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.arrays import Array
from loopkit.ast.nodes import Assign, Block, Function, If, Instruction, Region, Scope, own_instructions
from loopkit.ast.walk import nodes_in, rewritten
from loopkit.errors import InternalError
from loopkit.expr.kinds import is_tuple
from loopkit.expr.mappers import array_of, elements_of, replaced
from loopkit.expr.nodes import Operation, to_text
from loopkit.expr.tuples import field_dtypes
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.affine import add, affine_difference, floor_div, multiply


class Excluded(Enum):
    """The registers of the lanes that the guard of a shuffle excludes."""

    #: They keep their values.
    KEPT = "kept"
    #: No thread reads their values afterwards, so these lanes write too.
    UNUSED = "unused"
    #: They get the bits of the lane that the guard admits, so that no shuffle brings them the result.
    SAME = "same"


@dataclass(frozen=True)
class Shuffle(Instruction):
    """A read of another lane's register, by all lanes of a warp at once.

    With ``Excluded.SAME``, both lanes of a pair read from each other (a butterfly), and both combine the two values.
    The guard admits the lower one. In steps of half a group, a quarter, and so on to 1, lane *l* then holds the value
    of lane *l* modulo the offset, and after the last step each lane that of the first.

    :ivar offset: the distance of the lane that a lane reads from; ``None``: the first lane of its group.
    :ivar width: the number of neighbouring lanes in a group; a power of two.
    """

    offset: int | None
    width: int
    excluded: Excluded = Excluded.KEPT

    noun: ClassVar[str] = "a shuffle"
    scope: ClassVar[Scope] = Scope.WARP

    @property
    def titles(self) -> tuple[str, ...]:
        if self.offset is None:
            source = f"first of {self.width} lanes"
        else:
            source = f"lane {'+' if self.offset > 0 else '-'} {abs(self.offset)}"
        others = {Excluded.KEPT: "", Excluded.UNUSED: ", other lanes unused", Excluded.SAME: ", other lanes the same"}
        return (f"shuffle: {source}{others[self.excluded]}",)

    @property
    def all_write(self) -> bool:
        """Do the lanes that the guard excludes write too?"""
        return self.offset is not None and self.excluded is not Excluded.KEPT

    @property
    def reads_own(self) -> bool:
        """Does each lane read its own register, because all lanes of its group hold the value of the first?"""
        return self.offset is None and self.excluded is Excluded.SAME

    @property
    def is_butterfly(self) -> bool:
        """Do both lanes of a pair read from each other?"""
        return self.offset is not None and self.excluded is Excluded.SAME

    @property
    def is_first_exchange(self) -> bool:
        """Is it the step of a butterfly in which each lane holds a value of its own?"""
        return self.is_butterfly and self.offset == self.width // 2

    def source(self, thread: Expression) -> Expression:
        """The thread from which *thread* reads, if the guard admits it."""
        if self.offset is not None:
            return add(thread, self.offset)
        return multiply(self.width, floor_div(thread, self.width))

    def foreign_elements(self, region: Region, warp_arrays: Collection[str]) -> Iterable[Expression]:
        """:raises InternalError: the element that is read is not in the lane that its subscripts name."""
        assign, read = read_of_other_lane(region, warp_arrays)
        target = assign.target
        if self.offset is not None and (
                not isinstance(target, p.Subscript) or not any(elements_of(target, warp_arrays))
                or target.index_tuple[:-1] != read.index_tuple[:-1]
                or affine_difference(read.index_tuple[-1], target.index_tuple[-1]) != self.offset):
            raise InternalError(f"'{read}' is not held {self.offset} lanes further on than '{target}'.")
        if self.is_butterfly and (self.offset not in _powers_of_two_below(self.width) or assign.combine is None
                                  or assign.value != read):
            raise InternalError(f"The lanes of a group of {self.width} cannot exchange the values of '{target}' "
                                f"{self.offset} lanes further on.")
        return (read,)


def may_exchange(operation: Operation, dtype: np.dtype) -> bool:
    """Do both lanes of a pair get the same bits if each one combines the two values of *dtype* by *operation*?

    The text combines truth values by ``||`` and ``&&``, which would not shuffle in a lane whose own value decides.
    """
    return operation.same_bits_swapped(dtype) and dtype.kind != "b"


def _powers_of_two_below(width: int) -> tuple[int, ...]:
    return tuple(1 << k for k in range((width - 1).bit_length()))


def read_of_other_lane(region: Region, warp_arrays: Collection[str]) -> tuple[Assign, p.Subscript]:
    """The assignment in *region*, and the element that it reads from another lane.

    :raises InternalError: the region is not one assignment with one such read, perhaps under a guard.
    """
    match [node for node in nodes_in(region.body) if not isinstance(node, Block)]:
        case [*guards, Assign() as node] if all(isinstance(g, If) and g.otherwise is None for g in guards):
            pass
        case _:
            raise InternalError("A shuffle must be one assignment, perhaps under a guard.")
    reads = {e for e in elements_of(node.value, warp_arrays) if e != node.target}
    if len(reads) != 1:
        raise InternalError(f"The shuffle of '{node.statement}' must read one element of another lane.")
    return node, reads.pop()


# CUDA

#: All lanes of a warp take part.
_EVERY_LANE = "0xffffffff"
#: The sums that the compiler does not fuse with a product, by dtype; it fuses none that another dtype rounds.
_ROUNDED_SUMS = {"float16": "__hadd_rn", "bfloat16": "__hadd_rn", "float32": "__fadd_rn", "float64": "__dadd_rn"}


@dataclass(frozen=True)
class Lanes:
    """The arrays in warp registers of one function.

    :ivar others: for each array, the name of the value from another lane.
    :ivar variables: the arrays for which that name is a variable, because all lanes read and not all write.
    """

    arrays: Mapping[str, Array]
    others: Mapping[str, str]
    variables: frozenset[str]
    type_name: Callable[[np.dtype], str]

    @property
    def types(self) -> dict[str, np.dtype]:
        return {self.others[name]: a.dtype for name, a in self.arrays.items()}

    def declarations(self) -> Iterator[str]:
        """A register of each thread for each array, and one for the value from another lane if it is a variable.

        Threads without an element take part in shuffles too; no thread uses the value that they pass.
        """
        for name, a in self.arrays.items():
            extents = "".join(f"[{e}]" for e in a.shape[:-a.thread_axes])
            other = f", {self.others[name]}" if name in self.variables else ""
            yield f"{self.type_name(a.dtype)} {name}{extents}{{}}{other};{f'  // {a.note}' if a.note else ''}"

    def shuffle(self, region: Region) -> tuple[list[str], Region, Mapping[str, str]]:
        """A shuffle: lines before the region, the region with a name for the read, and the spelling of the name.

        The lines are empty if the spelling is the shuffle itself.
        """
        shuffle, (node, read) = region.instruction, read_of_other_lane(region, self.arrays)
        assert isinstance(shuffle, Shuffle)
        array = self.arrays[array_of(read)]
        other = self.others[array.name]
        lead = "".join(f"[{i}]" for i in read.index_tuple[:-array.thread_axes])
        value = self._read(f"{array.name}{lead}", array.dtype, shuffle)
        own = replace(node, value=replaced(node.value, {read: p.Variable(other)}))
        if shuffle.is_first_exchange and node.combine == "sum" and array.dtype.name in _ROUNDED_SUMS:
            # a lane's own value may be a product: if both lanes fused their own one with the sum, their bits differed
            value = f"{_ROUNDED_SUMS[array.dtype.name]}({array.name}{lead}, {value})"
            own = replace(own, combine=None)
        if shuffle.all_write:
            return [], Region(Block((own,))), {other: value}
        body = Region(rewritten(region.body, lambda inner: own if inner is node else inner))
        return ([f"{other} = {value};"], body, {}) if is_guarded(region) else ([], body, {other: value})

    def _read(self, name: str, dtype: np.dtype, shuffle: Shuffle) -> str:
        """The register *name* of the lane that *shuffle* reads from."""
        if dtype.kind == "c":
            # a shuffle moves one register, or two
            part = np.dtype(f"f{dtype.itemsize // 2}")
            parts = [self._read(f"{name}.{x}", part, shuffle) for x in ("re", "im")]
            return f"{self.type_name(dtype)}({', '.join(parts)})"
        if is_tuple(dtype):
            fields = ((f"{name}.{x}", own) for x, own in field_dtypes(dtype).items())
            # the shuffle of a small integer is an int
            parts = [f"{f'({self.type_name(own)})' if _is_small(own) else ''}{self._read(field, own, shuffle)}"
                     for field, own in fields]
            return f"{self.type_name(dtype)}{{{', '.join(parts)}}}"
        if shuffle.reads_own:
            return name
        if shuffle.offset is None:
            return f"__shfl_sync({_EVERY_LANE}, {name}, 0, {shuffle.width})"
        way = "xor" if shuffle.is_butterfly else "down" if shuffle.offset > 0 else "up"
        return f"__shfl_{way}_sync({_EVERY_LANE}, {name}, {abs(shuffle.offset)})"


def _is_small(dtype: np.dtype) -> bool:
    """Does C promote a number of *dtype* to an int? Floats of 8 bits are stored as integers."""
    return dtype.itemsize == 1 or (dtype.kind in "biu" and dtype.itemsize < 4)


def lanes_of(knl: LoopKernel, function: Function, type_name: Callable[[np.dtype], str]) -> Lanes:
    """The arrays of *function* in warp registers whose elements shuffles exchange."""
    fragments = {array_of(e) for node in nodes_in(function.body) if isinstance(node, Region)
                 for i in own_instructions(node) for e in i.operands if isinstance(e, p.Subscript)}
    arrays = {a.name: a for a in function.arrays if a.thread_axes and a.name not in fragments}
    variables = frozenset(array_of(read_of_other_lane(node, arrays)[1]) for node in nodes_in(function.body)
                          if isinstance(node, Region) and is_guarded(node))
    return Lanes(arrays, {name: knl.fresh_name(f"{name}_other") for name in arrays}, variables, type_name)


def comments_of_shuffles(function: Function) -> Mapping[str, str]:
    """The comments of statements that combine values by shuffles: one for all of a reduction, and no others.

    >>> from loopkit.lowering.pipeline import lowered_once
    >>> knl = lk.add_dtypes(lk.make_kernel("{[k]: 0<=k<4}", "y = sum(k, x[k])"), {"x": np.float32})
    >>> (function,) = lowered_once(lk.tag_inames(knl, "k: l.0")).program.functions
    >>> first, *others = comments_of_shuffles(function).items()
    >>> print(first[1])
    insn.k.store ... insn.k.result: shuffles combine acc_k of 4 lanes; all of them get the result
    >>> others
    [('insn.k.step0', ''), ('insn.k.step1', ''), ('insn.k.result', '')]
    """
    arrays = frozenset(a.name for a in function.arrays if a.thread_axes)
    parts: dict[str, dict[str, Assign]] = {}
    shuffles: dict[str, list[Shuffle]] = {}
    for node in nodes_in(function.body):
        inside = [x for x in nodes_in(node.body) if isinstance(x, Assign)] if isinstance(node, Region) else []
        shuffle = node.instruction if isinstance(node, Region) and isinstance(node.instruction, Shuffle) else None
        for x in inside:
            if shuffle is not None or array_of(x.target) in arrays:
                reduction = x.statement.rpartition(".")[0]
                parts.setdefault(reduction, {}).setdefault(x.statement, x)
                shuffles.setdefault(reduction, []).extend([shuffle] if shuffle is not None else [])
    comments: dict[str, str] = {}
    for reduction, own in parts.items():
        if not shuffles[reduction]:
            continue
        first, *others = own
        comments |= {first: f"{first} ... {others[-1]}: {_purpose(own, shuffles[reduction])}",
                     **dict.fromkeys(others, "")}
    return comments


def _purpose(parts: Mapping[str, Assign], shuffles: Collection[Shuffle]) -> str:
    """The purpose of *shuffles* that combine the value of each lane, which the first of *parts* stores."""
    first, *_, last = parts.values()
    lanes = max(shuffle.width for shuffle in shuffles)
    combine = f"shuffles combine {to_text(first.value)} of "
    if any(shuffle.offset is not None and shuffle.offset < 0 for shuffle in shuffles):
        each = "the lanes before each one" if last.combine is None else "each lane and those before it"
        return f"{combine}{each}, among {lanes} lanes"
    every = any(shuffle.offset is None for shuffle in shuffles)
    return f"{combine}{lanes} lanes; {'all of them get' if every else 'the first one gets'} the result"


def is_guarded(region: Region) -> bool:
    """Must lanes read that must not write? Then a guard separates the two."""
    shuffle = region.instruction
    return isinstance(shuffle, Shuffle) and not (
        shuffle.all_write or shuffle.reads_own or isinstance(region.body.children[0], Assign))
