"""The stage ``mma``: finds the nests of ``mma`` loops that matrix instructions compute.

The kernel's own mapping assigns iterations to lanes. It must be that of the instruction: eight rows and four pairs of
columns along ``l.0``, the pairs next to each other. Then each lane adds to its own sums only. A lane loads elements
that other lanes use, so the operands must be in shared or global memory.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import collective_inames
from loopkit.analysis.legality import axis_inames
from loopkit.analysis.ranges import iname_range
from loopkit.ast.check import divergent_nodes
from loopkit.ast.nodes import Assign, Block, Define, For, Node
from loopkit.ast.walk import as_block, map_child_nodes, mentioned, nodes_in, rewritten
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import subexpressions, substitute, variables
from loopkit.instructions.mma import Mma, element_at, nest_of
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement
from loopkit.kernel.tags import LocalTag, is_collective
from loopkit.lowering.lowered import GRID, Launch, Storage
from loopkit.poly.affine import add, multiply, subtract

#: Along the rows and, two columns each, along the columns of a product.
LANES = (8, 4)
#: Steps of a sum that one product may have.
DEPTHS = (4, 8, 16)

Names = Mapping[str, Expression]


def with_mma(body: Block, launch: Launch, storages: Mapping[str, Storage]) -> Block:
    """*body*, the program of *launch*, where nests of ``mma`` loops carry their instruction.

    A nest that some threads do not execute, as in a partial tile, stays a nest of loops, as does any for a machine
    without warps.

    :raises PreconditionError: a nest is nowhere a product of matrices; the message has the reason.
    """
    knl = launch.kernel
    meant = {s.statement.id for s in launch.statements.values() if collective_inames(knl, s.statement)}
    if not meant or launch.machine.warp == 1:
        return body
    finder = _ProductFinder(knl, launch, storages)
    body = as_block(finder.node(body, {}))
    uniform = knl.value_params.union(launch.hosts, GRID, launch.mapping.block_inames)
    guarded = [node for node, _ in divergent_nodes(body, mentioned(body) - uniform)]
    body = rewritten(body, lambda node: replace(node, instruction=None) if isinstance(node, For)
                     and any(node is other for other in guarded) else node)
    done = {assign.statement for node in nodes_in(body) if isinstance(node, For) and isinstance(node.instruction, Mma)
            and (assign := nest_of(node)[1]) is not None}
    for s in sorted(meant - done):
        why = finder.reasons.get(s, "a thread may have no part in it; pad_domain lets all have one")
        raise PreconditionError(
            f"The lanes of a warp cannot compute '{s}' by matrix instructions: {why}.",
            subject=s, hint="see the conditions of tensorize, or untag_inames(knl, "
                            f"{', '.join(map(repr, collective_inames(knl, launch.statements[s].statement)))})")
    return body


class _Refusal(Exception):  # noqa: N818
    """The reason why a nest is not a matrix product."""


@dataclass(frozen=True)
class _ProductFinder:
    """Finds the products of one launch.

    :ivar reasons: why statements are none.
    """

    kernel: LoopKernel
    launch: Launch
    storages: Mapping[str, Storage]
    reasons: dict[str, str] = field(default_factory=dict)

    def node(self, node: Node, names: Names) -> Node:
        """*node* with its products, also those that some threads do not execute; *names*: the constants in scope."""
        match node:
            case For() if is_collective(self.kernel.tags.get(node.iname)):
                return self._nest(node, names)
            case For():
                names = {x: value for x, value in names.items() if x != node.iname}
            case Block():
                result: list[Node] = []
                for child in node.children:
                    if isinstance(child, Define):
                        names = {**names, child.name: substitute(child.value, names)}
                    result.append(self.node(child, names))
                return Block(tuple(result))
            case _:
                pass
        return map_child_nodes(node, lambda child: self.node(child, names))

    def _nest(self, loop: For, names: Names) -> For:
        loops, assign = nest_of(loop)
        if assign is None or not collective_inames(self.kernel, self.kernel.statement_by_id[assign.statement]):
            return loop
        try:
            product = self._product(loops, assign, names)
        except _Refusal as refusal:
            self.reasons.setdefault(assign.statement, str(refusal))
            return loop
        return replace(loop, instruction=product)

    def _product(self, loops: tuple[For, ...], assign: Assign, names: Names) -> Mma:
        """:raises _Refusal: the nest is not a product of matrices."""
        s = self.kernel.statement_by_id[assign.statement]
        one, other = self._factors(assign)
        i, j = self._lanes(s)
        seen = [variables(e) | variables(substitute(e, names)) for e in (one, other)]
        if j in seen[0]:
            one, other, seen = other, one, seen[::-1]
        if i not in seen[0] or j not in seen[1] or i in seen[1] or j in seen[0]:
            raise _Refusal(f"one of {one} and {other} must depend on '{i}' and not on '{j}', and the other on '{j}' "
                           f"and not on '{i}'")
        node = self.kernel.reduction_of[s.id]
        depth = next((x for x in loops if x.iname in node.inames), None)
        row, column = (next((x for x in loops if x.iname in own - {*node.inames}), None) for own in seen)
        if depth is None or column is None or len(loops) != 2 + (row is not None) or column.iname in seen[0] \
                or (row is not None and row.iname in seen[1]):
            raise _Refusal(f"its innermost loops, over {', '.join(x.iname for x in loops)}, must be the sum, the "
                           "columns of a lane, and its rows if it has two")
        extents = {x.iname: subtract(x.stop, x.start) for x in loops}
        own = extents.keys() - {depth.iname}
        if extents[depth.iname] not in DEPTHS or any(extents[x] != 2 for x in own):
            raise _Refusal(f"{', '.join(f'{x} has {n}' for x, n in extents.items())} values, but the sum must have 4, "
                           "8 or 16, and the rows and the columns of a lane 2 each")
        target = assign.target
        if not isinstance(target, p.Subscript) or self._place(target) != (np.dtype(np.float64), AddressSpace.PRIVATE) \
                or not own <= variables(target):
            raise _Refusal(f"{target} is not a sum in float64 of one row and column in the registers of a thread")
        return self._fragments((one, other), (i, j), (row, column, depth), names)

    def _factors(self, assign: Assign) -> tuple[p.Subscript, p.Subscript]:
        match assign:
            case Assign(combine="sum", value=p.Product(children=(p.Subscript() as one, p.Subscript() as other))):
                pass
            case _:
                raise _Refusal(f"it adds up {assign.value}, which is not a product of two elements")
        for e in (one, other):
            if any(i.claims(e, assign.target) for i in assign.instructions):
                raise _Refusal(f"threads wait for {e} at each element")
            dtype, space = self._place(e)
            if dtype != np.dtype(np.float64):
                raise _Refusal(f"{e} is {dtype}, and these instructions need float64")
            if space in (AddressSpace.PRIVATE, AddressSpace.WARP):
                raise _Refusal(f"{e} is in the registers of one thread, where others cannot load it")
            if any(isinstance(x, p.Subscript) for k in e.index_tuple for x in subexpressions(k)):
                raise _Refusal(f"a subscript of {e} depends on data")
        return one, other

    def _place(self, element: p.Subscript) -> tuple[np.dtype | None, AddressSpace]:
        assert isinstance(element.aggregate, p.Variable)
        name = element.aggregate.name
        storage = self.storages.get(name)
        if storage is None:
            return self.kernel.array_args[name].dtype, AddressSpace.GLOBAL
        return storage.dtype, storage.space

    def _lanes(self, s: Statement) -> tuple[str, str]:
        """The inames of the rows and of the pairs of columns along the lanes of a warp."""
        inames = axis_inames(self.kernel, s.inames, LocalTag).get(0, ())
        extents = tuple(iname_range(self.kernel, x)[1] for x in inames[-2:])
        length = self.launch.mapping.extents.get("l.0", 1)
        if extents != LANES or not isinstance(length, int) or length % self.launch.machine.warp:
            raise _Refusal("the last inames on l.0 must be 8 rows and 4 pairs of columns, in whole warps: there are "
                           + (", ".join(f"{x} of {iname_range(self.kernel, x)[1]}" for x in inames) or "no inames"))
        return inames[-2], inames[-1]

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
            raise _Refusal(f"{factors[1]} must depend on '{lanes[1]}' and '{column.iname}' only as "
                           f"2*{lanes[1]} + {column.iname}")
        left: list[p.Subscript] = []
        right: list[p.Subscript] = []
        extent = subtract(depth.stop, depth.start)
        assert isinstance(extent, int)
        for first in range(0, extent, 4):
            at = {depth.iname: add(depth.start, first, j)}
            right.append(element_at(other, at))
            left += [element_at(one, at)] if row is None else \
                [element_at(one, {**at, row.iname: add(row.start, r)}) for r in range(2)]
        return Mma(None if row is None else row.iname, column.iname, depth.iname, tuple(left), tuple(right))
