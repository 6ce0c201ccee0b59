"""Stage 2: reductions over threads are written out as a tree in shared memory.

Each thread combines its part into its own accumulator, stores it, and in about log2(length) steps the lower half
of the threads combine what the upper half holds; the result stands in element 0. Any length will do: a step
takes only those partners that exist.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.dependences import Dependence, flow_of_values, identity_pairs, with_waived
from loopkit.analysis.legality import iname_range, packed_coordinate
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import substitute
from loopkit.kernel.data import AddressSpace, TemporaryVariable
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import ReductionNode, Statement
from loopkit.kernel.tags import AutoLocalTag, LocalTag
from loopkit.kernel.tree import Leaf, Tree, nest, rewrite, seq
from loopkit.poly.affine import add, subtract
from loopkit.poly.sets import InstanceSet


def write_out_reductions(knl: LoopKernel) -> LoopKernel:
    """*knl* with every reduction over ``l`` inames as a shared-memory tree."""
    for node in tuple(knl.reductions.values()):
        lanes = tuple(x for x in node.inames if isinstance(knl.tags.get(x), LocalTag))
        if any(isinstance(knl.tags.get(x), AutoLocalTag) for x in node.inames):
            raise PreconditionError(f"The reduction iname of '{node.final}' cannot have the tag 'l.auto'.",
                                    subject=node.name, hint="tag it l.0")
        if lanes:
            knl = _over_threads(knl, node, lanes)
    return knl


@dataclass(frozen=True)
class _Tree:
    """The parts of one reduction over threads.

    :ivar rows: coordinates of the statement's own threads, which have a row of the shared array each.
    """

    node: ReductionNode
    lanes: tuple[str, ...]
    length: int
    shared: str
    rows: tuple[str, ...]


def _over_threads(knl: LoopKernel, node: ReductionNode, lanes: tuple[str, ...]) -> LoopKernel:
    init, update, final = (knl.statement_by_id[s] for s in (node.init, node.update, node.final))
    box = {x: iname_range(knl, x) for x in lanes}
    length = 1
    for _, extent in box.values():
        length *= extent
    rows = tuple(x for x in init.inames if isinstance(knl.tags.get(x), LocalTag))
    tree = _Tree(node, lanes, length, knl.fresh_name(f"{node.accumulator}_shared"), rows)
    everywhere = _with_lanes(init.domain, box)
    lane = packed_coordinate(knl, lanes)
    acc = p.Variable(node.accumulator)
    store = Statement(f"{node.name}.store", _element(knl, tree, lane), acc, everywhere)
    steps = list(_steps(knl, tree, everywhere, lane))
    new_init = replace(init, domain=everywhere)
    new_final = replace(final, expression=substitute(final.expression, {node.accumulator: _element(knl, tree, 0)}),
                        predicates=tuple(substitute(e, {node.accumulator: _element(knl, tree, 0)})
                                         for e in final.predicates))
    parts = [store, *steps]
    order = _new_order(knl.tree, node, lanes, [s.id for s in parts])
    dtype = knl.temporaries[node.accumulator].dtype
    new = knl.copy(
        statements=tuple(_replaced(knl.statements, {init.id: [new_init], final.id: [*parts, new_final]})),
        tree=order, temporaries={**knl.temporaries, tree.shared: TemporaryVariable(
            tree.shared, dtype, (*(iname_range(knl, x)[1] for x in rows), length), AddressSpace.LOCAL)},
        reductions={k: r for k, r in knl.reductions.items() if k != node.name})
    return new.copy(carried=_dependences(knl, new, tree, update.id, store.id))


def _steps(knl: LoopKernel, tree: _Tree, everywhere: InstanceSet, lane: Expression) -> Iterator[Statement]:
    """``shared[t] op= shared[t + s]`` for s = the powers of two below the length, from the largest down."""
    stride = 1
    while 2 * stride < tree.length:
        stride *= 2
    number = 0
    while stride and tree.length > 1:
        active = everywhere.where(("<", add(lane, -stride)), ("<", add(lane, stride - tree.length)))
        yield Statement(f"{tree.node.name}.step{number}", _element(knl, tree, lane),
                        _element(knl, tree, add(lane, stride)), active, combine=tree.node.operation)
        stride //= 2
        number += 1


def _element(knl: LoopKernel, tree: _Tree, lane: Expression) -> p.Subscript:
    own = [subtract(p.Variable(x), iname_range(knl, x)[0]) for x in tree.rows]
    return p.Subscript(p.Variable(tree.shared), (*own, lane))


def _with_lanes(domain: InstanceSet, box: Mapping[str, tuple[Expression, int]]) -> InstanceSet:
    conditions: list[tuple[str, Expression]] = []
    for x, (low, extent) in box.items():
        offset = subtract(p.Variable(x), low)
        conditions += [(">=", offset), ("<", add(offset, -extent))]
    return domain.onto((*domain.inames, *box)).where(*conditions)


def _new_order(tree: Tree, node: ReductionNode, lanes: tuple[str, ...], parts: Sequence[str]) -> Tree:
    def one(leaf: Tree) -> Tree:
        if leaf == Leaf(node.init):
            return nest(lanes, leaf)
        if leaf == Leaf(node.final):
            return seq(*(nest(lanes, Leaf(s)) for s in parts), leaf)
        return leaf
    return rewrite(tree, one)


def _replaced(statements: Sequence[Statement], new: Mapping[str, Sequence[Statement]]) -> Iterator[Statement]:
    for s in statements:
        yield from new.get(s.id, (s,))


def _own_part(tree: _Tree) -> tuple[str, ...]:
    """The reduction inames along which one thread combines several operands."""
    return tuple(x for x in tree.node.inames if x not in tree.lanes)


def _dependences(old: LoopKernel, new: LoopKernel, tree: _Tree, update: str, store: str
                 ) -> Callable[[], tuple[Dependence, ...]]:
    """The old ones but for the accumulator's, whose values now stay in their thread until they are stored."""
    def compute() -> tuple[Dependence, ...]:
        node = tree.node
        result = [d for d in with_waived(old) if d.array != node.accumulator]
        acc = node.accumulator
        for source, sink in ((node.init, update), (node.init, store), (update, store)):
            result.append(Dependence("flow", acc, source, sink, identity_pairs(new, source, sink), of_value=True))
        result.append(Dependence("flow", acc, update, update, identity_pairs(new, update, update, but=_own_part(tree)),
                                 of_value=True, reorderable=True))
        result.extend(flow_of_values(new, tree.shared))
        return tuple(result)
    return compute

