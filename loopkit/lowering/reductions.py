"""The stage ``reductions``: those over threads are written out, by shuffles within warps or as a tree in shared memory.

Each thread combines its part into its own accumulator first. How the parts are combined then depends on where the
threads are (:func:`loopkit.lowering.shuffles.no_shuffles`). In a tree each thread stores its part, and in about
log2(length) steps the lower half of the threads combine what the upper half holds; the result stands in element 0.
Any length will do: a step takes only those partners that exist.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_of
from loopkit.analysis.constructors import with_dependences
from loopkit.analysis.dependences import flow_of_values, identity_pairs
from loopkit.analysis.legality import iname_range, packed_coordinate
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import substitute, variables
from loopkit.kernel.dependence import Dependence
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import ReductionNode, Statement
from loopkit.kernel.tags import AutoLocalTag, LocalTag
from loopkit.kernel.tree import Leaf, Tree, nest, rewrite, seq
from loopkit.lowering.scans import write_out_scan
from loopkit.lowering.shuffles import OverThreads, Written, by_shuffles, in_order_of_threads, no_shuffles
from loopkit.poly.affine import add, subtract
from loopkit.poly.relations import same_element
from loopkit.poly.sets import InstanceSet


def write_out_reductions(knl: LoopKernel, warp: int) -> LoopKernel:
    """*knl* with every reduction over ``l`` inames by shuffles, in warps of *warp*, or as a shared-memory tree."""
    for node in tuple(knl.reductions.values()):
        lanes = tuple(x for x in node.inames if isinstance(knl.tags.get(x), LocalTag))
        if any(isinstance(knl.tags.get(x), AutoLocalTag) for x in node.inames):
            raise PreconditionError(f"The reduction iname of '{node.final}' cannot have the tag 'l.auto'.",
                                    subject=node.name, hint="tag it l.0")
        if lanes:
            _require_one_cell(knl, node, lanes[0])
        if node.sweep is not None:
            knl = write_out_scan(knl, node, warp)
            continue
        if lanes and node.others:
            raise PreconditionError(f"The reduction of '{node.final}' was peeled, so that threads cannot share it: "
                                    f"'{lanes[0]}' has the tag '{knl.tags[lanes[0]]}'.", subject=lanes[0],
                                    hint="split the iname instead of peeling it")
        if lanes:
            knl = _over_threads(knl, node.name, in_order_of_threads(knl, lanes), warp)
    return knl


def _require_one_cell(knl: LoopKernel, node: ReductionNode, lane: str) -> None:
    """:raises PreconditionError: the accumulator was expanded."""
    cell = knl.statement_by_id[node.init]
    if inames := [x for x in cell.inames if any(x in variables(e) for e in cell.subscripts)]:
        raise PreconditionError(
            f"The accumulator '{node.accumulator}' of the reduction of '{node.final}' was expanded over "
            f"{', '.join(inames)}, so that threads cannot share the reduction: '{lane}' has the tag "
            f"'{knl.tags[lane]}'.", subject=node.accumulator,
            hint=f"contract(knl, '{node.accumulator}', {inames}): each thread has an accumulator of its own anyway")


def _over_threads(knl: LoopKernel, name: str, lanes: tuple[str, ...], warp: int) -> LoopKernel:
    node = knl.reductions[name]
    init, final = knl.statement_by_id[node.init], knl.statement_by_id[node.final]
    _require_shared_loops(knl, node, lanes)
    box = {x: iname_range(knl, x) for x in lanes}
    length = 1
    for _, extent in box.values():
        length *= extent
    rows = tuple(x for x in init.inames if isinstance(knl.tags.get(x), LocalTag))
    threads = OverThreads(knl, node, lanes, packed_coordinate(knl, lanes), length, rows, init.domain,
                          _with_lanes(init.domain, box), warp)
    why = no_shuffles(knl, threads)
    written = _tree(knl, threads, why) if why else by_shuffles(knl, threads)
    value = {node.accumulator: written.result}
    new_final = replace(final, expression=substitute(final.expression, value),
                        predicates=tuple(substitute(e, value) for e in final.predicates))
    new_init = replace(init, domain=threads.everywhere)
    return with_dependences(
        knl, partial(_dependences, threads, written),
        statements=tuple(_replaced(knl.statements, {init.id: [new_init], final.id: [*written.statements, new_final]})),
        tree=_new_order(knl.tree, threads, written.trees), tags={**knl.tags, **written.tags},
        temporaries={**knl.temporaries, **{t.name: t for t in written.temporaries}},
        reductions={k: r for k, r in knl.reductions.items() if k != name})


def _require_shared_loops(knl: LoopKernel, node: ReductionNode, lanes: Sequence[str]) -> None:
    """:raises PreconditionError: parts of *node* stand in different loops, so that no thread runs all of them."""
    around = {part: sorted({*knl.statement_by_id[part].inames} - {*node.inames})
              for part in (node.final, node.init, node.update)}
    for part, inames in around.items():
        if inames != around[node.final]:
            one, other = (", ".join(x) or "none" for x in (inames, around[node.final]))
            raise PreconditionError(
                f"Threads cannot share the reduction of '{node.final}', as '{lanes[0]}' has it with the tag "
                f"'{knl.tags[lanes[0]]}': the inames around '{part}' are {one}, and around '{node.final}' {other}.",
                subject=part, hint=f"change the inames of its parts together, by within='{' or '.join(around)}'")


def _tree(knl: LoopKernel, threads: OverThreads, why: str) -> Written:
    """A tree in shared memory; *why* the threads combine their parts so."""
    shared = knl.fresh_name(f"{threads.node.accumulator}_shared")
    store = Statement(f"{threads.node.name}.store", threads.element(shared, threads.lane),
                      p.Variable(threads.node.accumulator), threads.everywhere)
    statements = (store, *_steps(threads, shared))
    note = f"combined as a tree: {why}" if threads.length > 1 else ""
    return Written(statements, tuple(nest(threads.lanes, Leaf(s.id)) for s in statements),
                   (threads.array(shared, threads.length, note=note),), threads.element(shared, 0))


def _steps(threads: OverThreads, shared: str) -> Iterator[Statement]:
    """``shared[t] op= shared[t + s]`` for s = the powers of two below the length, from the largest down."""
    stride = 1
    while 2 * stride < threads.length:
        stride *= 2
    number = 0
    while stride and threads.length > 1:
        active = threads.everywhere.where(("<", add(threads.lane, -stride)),
                                          ("<", add(threads.lane, stride - threads.length)))
        yield Statement(f"{threads.node.name}.step{number}", threads.element(shared, threads.lane),
                        threads.element(shared, add(threads.lane, stride)), active, combine=threads.node.operation)
        stride //= 2
        number += 1


def _with_lanes(domain: InstanceSet, box: Mapping[str, tuple[Expression, int]]) -> InstanceSet:
    conditions: list[tuple[str, Expression]] = []
    for x, (low, extent) in box.items():
        offset = subtract(p.Variable(x), low)
        conditions += [(">=", offset), ("<", add(offset, -extent))]
    return domain.onto((*domain.inames, *box)).where(*conditions)


def _new_order(tree: Tree, threads: OverThreads, parts: Sequence[Tree]) -> Tree:
    def one(leaf: Tree) -> Tree:
        if leaf == Leaf(threads.node.init):
            return nest(threads.lanes, leaf)
        if leaf == Leaf(threads.node.final):
            return seq(*parts, leaf)
        return leaf
    return rewrite(tree, one)


def _replaced(statements: Sequence[Statement], new: Mapping[str, Sequence[Statement]]) -> Iterator[Statement]:
    for s in statements:
        yield from new.get(s.id, (s,))


def _dependences(threads: OverThreads, written: Written, found: Sequence[Dependence], new: LoopKernel
                 ) -> Iterator[Dependence]:
    """The old ones but for the accumulator's, whose values now stay in their thread until they are stored."""
    node, acc, store = threads.node, threads.node.accumulator, written.statements[0].id
    # the inames along which one thread combines several operands
    own = tuple(x for x in node.inames if x not in threads.lanes)
    yield from (d for d in found if d.array != acc)
    for source, sink in ((node.init, node.update), (node.init, store), (node.update, store)):
        yield Dependence("flow", acc, source, sink, identity_pairs(new, source, sink), of_value=True)
    yield Dependence("flow", acc, node.update, node.update, identity_pairs(new, node.update, node.update, but=own),
                     of_value=True, reorderable=True)
    for t in written.temporaries:
        chain = written.chains.get(t.name)
        yield from flow_of_values(new, t.name) if chain is None else _along(new, t.name, chain, threads.lanes)


def _along(knl: LoopKernel, array: str, chain: Sequence[str], lanes: Sequence[str]) -> Iterator[Dependence]:
    """The flow of *array* along a chain: to each statement from the one before it, and from the first."""
    for before, sink in pairwise(chain):
        for read in accesses_of(knl, knl.statement_by_id[sink]):
            if read.array != array or read.is_write:
                continue
            rest = read.domain.set
            for source in dict.fromkeys((before, chain[0])):
                write = accesses_of(knl, knl.statement_by_id[source])[-1]
                relation = same_element(write.relation, read.relation).intersect(
                    identity_pairs(knl, source, sink, but=lanes)).intersect_range(rest)
                rest = rest.subtract(relation.range())
                if not relation.is_empty():
                    yield Dependence("flow", array, source, sink, relation, exact=write.must and read.must,
                                     of_value=True)
