"""The stage ``reductions``: reductions over threads are written out, by shuffles within warps or as a tree in shared
memory.

Each thread combines its part into its own accumulator first. Then :mod:`loopkit.lowering.shuffles` combines the parts.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import pymbolic.primitives as p

from loopkit.analysis.legality import iname_range
from loopkit.errors import PreconditionError
from loopkit.expr.mappers import variables
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import ReductionNode
from loopkit.kernel.tags import AutoLocalTag, LocalTag
from loopkit.kernel.tree import Leaf, Tree, nest, rewrite, seq
from loopkit.lowering.scans import write_out_scan
from loopkit.lowering.shuffles import OverThreads, combined, in_order_of_threads, written_out
from loopkit.poly.affine import add, subtract


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
        elif lanes and node.others:
            raise PreconditionError(f"The reduction of '{node.final}' was peeled, so that threads cannot share it: "
                                    f"'{lanes[0]}' has the tag '{knl.tags[lanes[0]]}'.", subject=lanes[0],
                                    hint="split the iname instead of peeling it")
        elif lanes:
            knl = _over_threads(knl, node, in_order_of_threads(knl, lanes), warp)
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


def _over_threads(knl: LoopKernel, node: ReductionNode, lanes: tuple[str, ...], warp: int) -> LoopKernel:
    init, final = knl.statement_by_id[node.init], knl.statement_by_id[node.final]
    _require_shared_loops(knl, node, lanes)
    everywhere = init.domain.onto((*init.domain.inames, *lanes))
    for x in lanes:
        low, extent = iname_range(knl, x)
        offset = subtract(p.Variable(x), low)
        everywhere = everywhere.where((">=", offset), ("<", add(offset, -extent)))
    length = prod(iname_range(knl, x)[1] for x in lanes)
    threads = OverThreads(knl, node, lanes, length, init.domain, everywhere, warp)
    written = combined(threads)

    def one(leaf: Tree) -> Tree:
        match leaf:
            case Leaf(node.init):
                return nest(lanes, leaf)
            case Leaf(node.final):
                return seq(*written.trees, leaf)
            case _:
                return leaf
    new = {init.id: [replace(init, domain=threads.everywhere)],
           final.id: [*written.statements, written.with_result(final, node.accumulator)]}
    return written_out(threads, written, new, rewrite(knl.tree, one))


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
