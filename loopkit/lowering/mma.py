"""The stage ``mma``: finds the nests of ``mma`` loops that matrix instructions compute.

The kernel's own mapping assigns iterations to lanes. It must be that of the instruction: eight rows and four pairs of
columns along ``l.0``, the pairs next to each other. Then each lane adds to its own sums only. The elements that a lane
loads for other lanes are read by the iterations of these, at the same places of shared or global memory.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import collective_inames
from loopkit.analysis.legality import axis_inames, iname_range
from loopkit.ast.nodes import Assign, Block, Call, Define, For, If, Node, Region, Sync
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import subexpressions, substitute, variables
from loopkit.instructions.mma import Mma, element_at, nest_of
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import LocalTag, MmaTag
from loopkit.lowering.lowered import GRID, Launch, Storage
from loopkit.poly.affine import add, multiply, subtract

#: Along the rows and, two columns each, along the columns of a product.
LANES = (8, 4)
#: Steps of a sum that one product may have.
DEPTHS = (4, 8, 16)

Names = Mapping[str, Expression]


def mma_inames(knl: LoopKernel) -> frozenset[str]:
    """The inames that are tagged ``mma``."""
    return frozenset(x for x, tag in knl.tags.items() if isinstance(tag, MmaTag))


def with_mma(body: Block, launch: Launch, storages: Mapping[str, Storage]) -> Block:
    """*body*, the program of *launch*, where nests of ``mma`` loops carry their instruction.

    A nest that some threads do not execute, as in a partial tile, stays a nest of loops.

    :raises PreconditionError: a nest is nowhere a product of matrices; the message has the reason.
    """
    knl = launch.kernel
    meant = {s.statement.id for s in launch.statements.values() if collective_inames(knl, s.statement)}
    if not meant:
        return body
    finder = _Finder(knl, launch, storages, mma_inames(knl))
    body = finder.block(body, {}, frozenset({*knl.value_params, *launch.hosts, *GRID,
                                             *(launch.coordinates.keys() - launch.ranges.keys())}))
    for s in sorted(meant - finder.found):
        raise PreconditionError(
            f"The lanes of a warp cannot compute '{s}' by matrix instructions: {finder.reasons.get(s, _GUARDED)}.",
            subject=s, hint="see tensorize for what they need, or untag_inames(knl, "
                            f"{', '.join(map(repr, collective_inames(knl, launch.statements[s].statement)))})")
    return body


_GUARDED = "a thread may have no part in it; pad_domain lets all have one"


class _Refusal(Exception):  # noqa: N818
    """The reason why a nest is not a matrix product."""


@dataclass(frozen=True)
class _Finder:
    """Finds the products of one launch.

    :ivar found: the statements that are products somewhere; *reasons*: why others are not.
    """

    kernel: LoopKernel
    launch: Launch
    storages: Mapping[str, Storage]
    inames: frozenset[str]
    found: set[str] = field(default_factory=set)
    reasons: dict[str, str] = field(default_factory=dict)

    def block(self, block: Block, names: Names, uniform: frozenset[str]) -> Block:
        """*block*, where *names* are the constants in scope, and *uniform* the expressions with one value for all
        threads of a block.
        """
        result: list[Node] = []
        for node in block.children:
            if isinstance(node, Define):
                names = {**names, node.name: substitute(node.value, names)}
                uniform = uniform | {node.name} if _agree(uniform, node.value) else uniform - {node.name}
            result.append(self._node(node, names, uniform))
        return Block(tuple(result))

    def _node(self, node: Node, names: Names, uniform: frozenset[str]) -> Node:
        match node:
            case For() if node.iname in self.inames:
                return self._nest(node, names)
            case For():
                inside = {x: value for x, value in names.items() if x != node.iname}
                if not _agree(uniform, node.start, node.stop):
                    return node
                return replace(node, body=self.block(node.body, inside, uniform | {node.iname}))
            case If() if _agree(uniform, node.condition):
                otherwise = None if node.otherwise is None else self.block(node.otherwise, names, uniform)
                return replace(node, then=self.block(node.then, names, uniform), otherwise=otherwise)
            case Region():
                return replace(node, body=self.block(node.body, names, uniform))
            case Block():
                return self.block(node, names, uniform)
            case If() | Assign() | Define() | Sync() | Call():
                return node

    def _nest(self, loop: For, names: Names) -> For:
        loops, assign = nest_of(loop)
        if assign is None or not collective_inames(self.kernel, self.kernel.statement_by_id[assign.statement]):
            return loop
        try:
            product = self._product(loops, assign, names)
        except _Refusal as refusal:
            self.reasons.setdefault(assign.statement, str(refusal))
            return loop
        self.found.add(assign.statement)
        return replace(loop, instruction=product)

    def _product(self, loops: tuple[For, ...], assign: Assign, names: Names) -> Mma:
        """:raises _Refusal: the nest is no product of matrices."""
        s = self.kernel.statement_by_id[assign.statement]
        one, other = self._factors(assign)
        i, j = self._lanes(s)
        seen = [variables(e) | variables(substitute(e, names)) for e in (one, other)]
        if j in seen[0]:
            one, other, seen = other, one, seen[::-1]
        if i not in seen[0] or j not in seen[1] or i in seen[1] or j in seen[0]:
            raise _Refusal(f"'{i}' has to tell rows of one of {one} and {other} apart, and '{j}' columns of the other")
        node = self.kernel.reductions[s.reduction or ""]
        depth = next((x for x in loops if x.iname in node.inames), None)
        column = next((x for x in loops if x.iname not in node.inames and x.iname in seen[1]), None)
        row = next((x for x in loops if x.iname not in node.inames and x.iname in seen[0]), None)
        if depth is None or column is None or len(loops) != 2 + (row is not None) or column.iname in seen[0] \
                or (row is not None and row.iname in seen[1]):
            raise _Refusal(f"its innermost loops, over {', '.join(x.iname for x in loops)}, are not the sum, the two "
                           "columns that a lane has and, of two, its rows")
        extents = {x.iname: subtract(x.stop, x.start) for x in loops}
        if extents[depth.iname] not in DEPTHS or any(extents[x.iname] != 2 for x in (column, row) if x is not None):
            raise _Refusal(f"{', '.join(f'{x} has {n}' for x, n in extents.items())} values, and the sum has to have "
                           "4, 8 or 16, and rows and columns of a lane 2")
        self._require_sums(assign, column, row)
        return self._fragments((one, other), (i, j), (row, column, depth), names)

    def _factors(self, assign: Assign) -> tuple[p.Subscript, p.Subscript]:
        match assign:
            case Assign(combine="sum", value=p.Product(children=(p.Subscript() as one, p.Subscript() as other))):
                pass
            case _:
                raise _Refusal(f"it adds up {assign.value}, which is no product of two elements")
        for e in (one, other):
            if any(i.claims(e, assign.target) for i in assign.instructions):
                raise _Refusal(f"{e} is waited for, element by element")
            dtype, shared = self._place(e)
            if dtype != np.dtype(np.float64):
                raise _Refusal(f"{e} is {dtype}, and they are for float64")
            if not shared:
                raise _Refusal(f"{e} is in the registers of one thread, where others cannot load it")
            if any(isinstance(x, p.Subscript) for k in e.index_tuple for x in subexpressions(k)):
                raise _Refusal(f"which element {e} is depends on data")
        return one, other

    def _place(self, element: p.Subscript) -> tuple[np.dtype | None, bool]:
        """The dtype of an element, and whether all threads of a block can read it."""
        assert isinstance(element.aggregate, p.Variable)
        name = element.aggregate.name
        storage = self.storages.get(name)
        if storage is None:
            argument = self.kernel.array_args.get(name)
            return (None if argument is None else argument.dtype), argument is not None
        return storage.dtype, storage.space not in (AddressSpace.PRIVATE, AddressSpace.WARP)

    def _lanes(self, s: Statement) -> tuple[str, str]:
        """The inames of the rows and of the pairs of columns along the lanes of a warp."""
        inames = axis_inames(self.kernel, s.inames, LocalTag).get(0, ())
        extents = tuple(iname_range(self.kernel, x)[1] for x in inames[-2:])
        length = self.launch.extents.get("l.0", 1)
        if extents != LANES or not isinstance(length, int) or length % self.launch.machine.warp:
            raise _Refusal("the lanes of its warps are not eight rows of four pairs of columns: along l.0 it has "
                           + (", ".join(f"{x} of {iname_range(self.kernel, x)[1]}" for x in inames) or "no inames"))
        return inames[-2], inames[-1]

    def _require_sums(self, assign: Assign, column: For, row: For | None) -> None:
        """:raises _Refusal: the sums of a lane are not its own, or not one for each of its rows and columns."""
        target = assign.target
        if isinstance(target, p.Subscript):
            assert isinstance(target.aggregate, p.Variable)
            storage = self.storages.get(target.aggregate.name)
            if storage is not None and storage.space is AddressSpace.PRIVATE and storage.dtype == np.float64 \
                    and all(x.iname in variables(target) for x in (column, row) if x is not None):
                return
        raise _Refusal(f"{target} is not a sum in float64 of one row and column in the registers of a thread")

    def _fragments(self, factors: tuple[p.Subscript, p.Subscript], lanes: tuple[str, str],
                   loops: tuple[For | None, For, For], names: Names) -> Mma:
        """The instruction with the elements that a lane loads of both matrices."""
        i, j = (subtract(p.Variable(x), iname_range(self.kernel, x)[0]) for x in lanes)
        row, column, depth = loops
        moved = {*lanes, *(x.iname for x in loops if x is not None)}
        own = {x: value for x, value in names.items() if variables(value) & moved}
        one, other = (element_at(e, own) for e in factors)
        # a row has two columns for each of its lanes; a lane loads the column with the number of its row
        other = element_at(other, {column.iname: add(column.start, i, multiply(-2, j))})
        if lanes[1] in variables(other):
            raise _Refusal(f"{factors[1]} does not depend on 2*{lanes[1]} + {column.iname} alone of the two")
        left: list[p.Subscript] = []
        right: list[p.Subscript] = []
        extent = subtract(depth.stop, depth.start)
        assert isinstance(extent, int)
        for first in range(0, extent, 4):
            at = {depth.iname: add(depth.start, first, j)}
            right.append(element_at(other, at))
            for r in range(1 if row is None else 2):
                left.append(element_at(one, at if row is None else {**at, row.iname: add(row.start, r)}))
        return Mma(None if row is None else row.iname, column.iname, depth.iname, tuple(left), tuple(right))


def _agree(uniform: frozenset[str], *expressions: Expression) -> bool:
    """Have all threads of a block the same values of *expressions*?"""
    return all(variables(e) <= uniform and not any(isinstance(x, p.Subscript) for x in subexpressions(e))
               for e in expressions)
