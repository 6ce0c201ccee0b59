"""Arrays in lanes as CUDA's text has them: a register of each thread, which others of its warp read by shuffles."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Array, Assign, Block, Function, Region
from loopkit.ast.walk import nodes_in
from loopkit.expr.mappers import map_children
from loopkit.instructions.shuffle import Shuffle, read_of_other_lane, with_assignment
from loopkit.kernel.kernel import LoopKernel
from loopkit.target.addresses import Register
from loopkit.target.c.declarations import note_of
from loopkit.target.c.dialect import Dialect

#: All lanes of a warp take part.
_EVERY_LANE = "0xffffffff"


@dataclass(frozen=True)
class Lanes:
    """The arrays in lanes of one function.

    :ivar others: for each array the name of what another lane holds; *variables*: those that need a variable for it,
        because all lanes read and not all of them write.
    """

    arrays: Mapping[str, Array]
    others: Mapping[str, str]
    variables: frozenset[str]
    dialect: Dialect

    @property
    def places(self) -> dict[str, Register]:
        return {name: Register(a.lanes) for name, a in self.arrays.items()}

    @property
    def types(self) -> dict[str, np.dtype]:
        return {self.others[name]: a.dtype for name, a in self.arrays.items()}

    def declarations(self) -> Iterator[str]:
        """A register of each thread, and where it is needed one for what another lane holds.

        Threads without an element take part in shuffles too; what they hand on has a value, although nobody uses it.
        """
        for name, a in self.arrays.items():
            extents = "".join(f"[{e}]" for e in a.shape[:-a.lanes])
            other = f", {self.others[name]}" if name in self.variables else ""
            yield f"{self.dialect.type_name(a.dtype)} {name}{extents}{{}}{other};{note_of(a)}"

    def shuffle(self, region: Region) -> tuple[list[str], Region, Mapping[str, str]]:
        """The lines that read what *region* takes from another lane, if they are lines of their own; the region with a
        name for it; and how the name is spelled.
        """
        shuffle, (node, read) = region.instruction, read_of_other_lane(region, self.arrays)
        assert isinstance(shuffle, Shuffle)
        assert isinstance(read.aggregate, p.Variable)
        name = read.aggregate.name
        array, other = self.arrays[name], self.others[name]
        lead = "".join(f"[{i}]" for i in read.index_tuple[:-array.lanes])
        value = self._read(f"{name}{lead}", array.dtype, shuffle.offset, shuffle.width)
        node = replace(node, value=_put(node.value, read, p.Variable(other)))
        if not _apart(region):
            return [], Region(Block((node,))), {other: value}
        return [f"{other} = {value};"], Region(with_assignment(region.body, node)), {}

    def _read(self, name: str, dtype: np.dtype, offset: int | None, width: int) -> str:
        """What the lane holds that is *offset* further on (or back), or that is the first of *width*."""
        def one(value: str) -> str:
            if offset is None:
                return f"__shfl_sync({_EVERY_LANE}, {value}, 0, {width})"
            where = "down" if offset > 0 else "up"
            return f"__shfl_{where}_sync({_EVERY_LANE}, {value}, {abs(offset)})"
        if dtype.kind == "c":
            # a shuffle moves one register, or two
            return f"{self.dialect.type_name(dtype)}({one(name + '.re')}, {one(name + '.im')})"
        return one(name)


def lanes_of(knl: LoopKernel, function: Function, dialect: Dialect) -> Lanes:
    """The arrays of *function* that are in lanes."""
    arrays = {a.name: a for a in function.arrays if a.lanes}
    reads = [read_of_other_lane(node, arrays)[1] for node in nodes_in(function.body)
             if isinstance(node, Region) and _apart(node)]
    variables = frozenset(read.aggregate.name for read in reads if isinstance(read.aggregate, p.Variable))
    return Lanes(arrays, {name: knl.fresh_name(f"{name}_other") for name in arrays}, variables, dialect)


def _apart(region: Region) -> bool:
    """Must lanes read that must not write? Then a guard stands between the two."""
    return isinstance(region.instruction, Shuffle) and not (
        region.instruction.spare or isinstance(region.body.children[0], Assign))


def _put(expr: Expression, read: p.Subscript, value: Expression) -> Expression:
    return value if expr == read else map_children(expr, lambda e: _put(e, read, value))
