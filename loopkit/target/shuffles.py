"""Arrays in lanes as CUDA's text has them: a register of each thread, which others of its warp read by shuffles."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.ast.nodes import Array, Assign, Block, Function, Region
from loopkit.ast.shuffles import read_of_other_lane, with_assignment
from loopkit.expr.dialect import Dialect
from loopkit.expr.mappers import map_children
from loopkit.kernel.kernel import LoopKernel
from loopkit.target.addresses import Register

#: All lanes of a warp take part.
_EVERY_LANE = "0xffffffff"


@dataclass(frozen=True)
class Lanes:
    """The arrays in lanes of one function.

    :ivar others: for each array the variable that takes what another lane holds.
    """

    arrays: Mapping[str, Array]
    others: Mapping[str, str]
    dialect: Dialect
    annotate: bool

    @property
    def places(self) -> dict[str, Register]:
        return {name: Register(a.lanes) for name, a in self.arrays.items()}

    @property
    def types(self) -> dict[str, np.dtype]:
        return {self.others[name]: a.dtype for name, a in self.arrays.items()}

    def declarations(self) -> Iterator[str]:
        """A register of each thread, and one for what another lane holds.

        Threads without an element take part in shuffles too; what they hand on has a value, although nobody uses it.
        """
        for name, a in self.arrays.items():
            extents = "".join(f"[{e}]" for e in a.shape[:-a.lanes])
            yield f"{self.dialect.type_name(a.dtype)} {name}{extents}{{}}, {self.others[name]};" + (
                f"  // {a.note}" if a.note else "")

    def shuffle(self, region: Region) -> tuple[list[str], Region]:
        """The lines that read what *region* takes from another lane, and the region with a variable for it."""
        shuffle, (node, read) = region.shuffle, read_of_other_lane(region, self.arrays)
        assert shuffle is not None
        assert isinstance(read.aggregate, p.Variable)
        name = read.aggregate.name
        array, other = self.arrays[name], self.others[name]
        lead = "".join(f"[{i}]" for i in read.index_tuple[:-array.lanes])
        value = self._read(f"{name}{lead}", array.dtype, shuffle.offset, shuffle.width)
        if region.body == Block((node,)) and node.combine is None and node.value == read \
                and isinstance(node.target, p.Variable):
            return [*self._comment(node), f"{node.target.name} = {value};"], Region(Block())
        body = with_assignment(region.body, replace(node, value=_put(node.value, read, p.Variable(other))))
        return [f"{other} = {value};"], Region(body)

    def _comment(self, node: Assign) -> list[str]:
        return [f"// {node.statement}"] if self.annotate else []

    def _read(self, name: str, dtype: np.dtype, offset: int | None, width: int) -> str:
        """What the lane holds that is *offset* further on, or that is the first of *width*."""
        def one(value: str) -> str:
            if offset is None:
                return f"__shfl_sync({_EVERY_LANE}, {value}, 0, {width})"
            return f"__shfl_down_sync({_EVERY_LANE}, {value}, {offset})"
        if dtype.kind == "c":
            # a shuffle moves one register, or two
            return f"{self.dialect.type_name(dtype)}({one(name + '.re')}, {one(name + '.im')})"
        return one(name)


def lanes_of(knl: LoopKernel, function: Function, dialect: Dialect, *, annotate: bool) -> Lanes:
    """The arrays of *function* that are in lanes."""
    arrays = {a.name: a for a in function.arrays if a.lanes}
    return Lanes(arrays, {name: knl.fresh_name(f"{name}_other") for name in arrays}, dialect, annotate)


def _put(expr: Expression, read: p.Subscript, value: Expression) -> Expression:
    return value if expr == read else map_children(expr, lambda e: _put(e, read, value))
