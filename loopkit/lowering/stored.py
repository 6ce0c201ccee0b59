"""The storage of temporaries as data: their cells, the subscripts of these, and the instructions that access them."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import Access
from loopkit.ast.arrays import Swizzle
from loopkit.ast.nodes import Instruction
from loopkit.expr.mappers import map_children, subscripts_of, variables
from loopkit.expr.nodes import to_text
from loopkit.expr.tuples import dtype_text
from loopkit.instructions.base import MemoryInstruction
from loopkit.kernel.data import AddressSpace, TemporaryVariable
from loopkit.kernel.statement import Statement
from loopkit.poly.affine import subtract
from loopkit.poly.piecewise import cells
from loopkit.poly.sets import Map
from loopkit.shown import Shown


@dataclass(frozen=True, repr=False)
class Storage(Shown):
    """The cells of one temporary.

    :ivar lead: inames whose values precede the subscripts, each counted from its minimum in *lows*.
    :ivar shape: all extents, those of *lead* first.
    :ivar needed: the smallest space in which each reader finds its value; *space* is larger if only global memory has
        cells for a number of values that depends on the sizes.
    :ivar lanes: the places of the extents, in warp registers, that belong to the threads: each thread has the others.
    """

    temporary: TemporaryVariable
    space: AddressSpace
    lead: tuple[str, ...]
    lows: tuple[Expression, ...]
    shape: tuple[Expression, ...]
    needed: AddressSpace
    lanes: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return self.temporary.name

    @property
    def dtype(self) -> np.dtype:
        assert self.temporary.dtype is not None
        return self.temporary.dtype

    @property
    def swizzle(self) -> Swizzle | None:
        """The swizzle of the columns; its axis is one of *in_memory*."""
        layout = self.temporary.layout
        return layout.swizzle and replace(layout.swizzle, axis=len(self.lead) + layout.place_of(layout.swizzle.axis))

    def __str__(self) -> str:
        extents = "".join(f"[{to_text(e)}]" for e in self.in_memory)
        over = f" expanded over {', '.join(self.lead)}" if self.lead else ""
        order = self.temporary.layout.order
        axes = f" axes {', '.join(map(str, order))}" if order else ""
        mixed = f", {self.swizzle}" if self.swizzle is not None else ""
        kind = ", between blocks" if self.temporary.between_blocks else ""
        return f"{self.space} {dtype_text(self.dtype)} {self.name}{extents}{over}{kind}{axes}{mixed}"

    @property
    def in_memory(self) -> tuple[Expression, ...]:
        """All extents in the order of the axes in memory, the slowest first."""
        own = len(self.lead)
        return self._lanes_last(self.shape[:own], self.shape[own:])

    def _lanes_last(self, lead: Sequence[Expression], own: tuple[Expression, ...]) -> tuple[Expression, ...]:
        """The expressions of all axes in the order of memory, those of lanes last."""
        places = self.temporary.layout.in_memory(tuple(range(len(lead), len(lead) + len(own))))
        every = (*lead, *own)
        return tuple(every[k] for k in sorted((*range(len(lead)), *places), key=self.lanes.__contains__))

    @property
    def leading(self) -> tuple[Expression, ...]:
        """The subscripts of the expansion."""
        return tuple(subtract(p.Variable(x), low) for x, low in zip(self.lead, self.lows, strict=True))

    def subscripts(self, own: tuple[Expression, ...]) -> tuple[Expression, ...]:
        """*own* subscripts in the order of the axes in memory, after those of the expansion."""
        return self._lanes_last(self.leading, own)

    def accessed_cells(self, access: Access) -> Map:
        """The cells that instances of *access* access; all along an axis whose subscript is not affine."""
        return cells(access.domain.inames, self.leading).flat_range_product(access.relation) if self.lead \
            else access.relation


def in_storage(expr: Expression, storages: Mapping[str, Storage]) -> Expression:
    """*expr* with the subscripts of temporaries extended by those of their expansion."""
    match expr:
        case p.Subscript(aggregate=p.Variable(name=name)):
            own = tuple(in_storage(i, storages) for i in expr.index_tuple)
            return p.Subscript(expr.aggregate, storages[name].subscripts(own) if name in storages else own)
        case p.Variable(name=name):
            storage = storages.get(name)
            return p.Subscript(expr, storage.subscripts(())) if storage is not None and storage.lead else expr
        case _:
            return map_children(expr, lambda e: in_storage(e, storages))


def serves(instruction: Instruction, s: Statement, storages: Mapping[str, Storage]) -> bool:
    """Does *instruction* work on the memory that *s* writes?"""
    if not isinstance(instruction, MemoryInstruction):
        return False
    storage = storages.get(s.written)
    return (AddressSpace.GLOBAL if storage is None else storage.space) in instruction.memories


def instructions_of(s: Statement, target: p.Variable | p.Subscript, value: Expression, storages: Mapping[str, Storage]
                    ) -> tuple[Instruction, ...]:
    """The instructions that make the accesses of *s* as ``target = value``: its own, and those of the temporaries."""
    subscripts = subscripts_of(target)
    read = sorted(frozenset[str]().union(*map(variables, (value, *subscripts))))
    of_arrays = {x: storages[x].temporary.instruction for x in sorted({s.written, *read}) if x in storages}
    return (*(i for i in s.instructions if serves(i, s, storages)),
            *(i.accessing(stores=of_arrays.get(s.written) == i, loads=tuple(x for x in read if of_arrays.get(x) == i))
              for i in dict.fromkeys(of_arrays.values()) if i is not None))
