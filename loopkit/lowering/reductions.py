"""The stage ``reductions``: reductions and scans over threads are written out, by shuffles within warps or in shared
memory.

Each thread combines its part of a reduction into its own accumulator first. Then :mod:`loopkit.lowering.shuffles`
combines the parts.

A scan takes log2(length) steps, in each warp or in shared memory. In step *s* = 1, 2, 4, ... a thread combines its
value with the value of the thread *s* places before it, if there is one. At the end it holds the result up to its own
operand. Each step writes a new array, because slower threads still read the values of the step before; in warp
registers the array is one register. Then each thread combines the results of earlier warps.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from math import prod

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_of
from loopkit.analysis.constructors import Image, between_images, with_dependences
from loopkit.analysis.legality import in_order_of_threads
from loopkit.analysis.ranges import constant_range, iname_range
from loopkit.analysis.scans import Scan, scan_along
from loopkit.errors import IllegalTransformError, PreconditionError, UndecidedError
from loopkit.expr.mappers import variables
from loopkit.instructions.shuffle import Shuffle
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.folding import starts_from_addend
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import ReductionNode, Statement
from loopkit.kernel.tags import AutoLocalTag, InameTag, LocalTag
from loopkit.kernel.tree import Leaf, Loop, Tree, leaves, nest, parts_of, rewrite, rewrite_over, seq
from loopkit.lowering.shuffles import (
    OverThreads,
    Part,
    Written,
    combined,
    no_shuffles,
    written_out,
)
from loopkit.poly.affine import add, remainder
from loopkit.poly.sets import bounded_by
from loopkit.transform.expansion import contracted
from loopkit.transform.scan import in_order, moved_operands


def write_out_reductions(knl: LoopKernel, warp: int) -> LoopKernel:
    """*knl* with every reduction over ``l`` inames by shuffles, in warps of *warp*, or as a shared-memory tree."""
    for node in tuple(knl.reductions.values()):
        lanes = tuple(x for x in node.inames if isinstance(knl.tags.get(x), LocalTag))
        if any(isinstance(knl.tags.get(x), AutoLocalTag) for x in node.inames):
            raise PreconditionError(f"The reduction iname of '{node.final}' cannot have the tag 'l.auto'.",
                                    subject=node.name, hint="tag it l.0")
        if lanes:
            _require_one_cell(knl, node, lanes[0])
        _require_constant_block(knl, node)
        if node.sweep is not None:
            knl = _scan_written_out(knl, node, warp)
        elif lanes and starts_from_addend(knl, node):
            raise PreconditionError(f"The sum of '{node.final}' starts from an addend, so threads cannot share it: "
                                    f"'{lanes[0]}' has the tag '{knl.tags[lanes[0]]}'.", subject=lanes[0],
                                    hint="leave out start_from_addend")
        elif lanes and node.others:
            raise PreconditionError(f"The reduction of '{node.final}' was peeled, so threads cannot share it: "
                                    f"'{lanes[0]}' has the tag '{knl.tags[lanes[0]]}'.", subject=lanes[0],
                                    hint="split the iname instead of peeling it")
        elif lanes:
            knl = _over_threads(knl, node, in_order_of_threads(knl, lanes), warp)
    return knl


def _require_constant_block(knl: LoopKernel, node: ReductionNode) -> None:
    """:raises PreconditionError: threads combine operands, and an extent of their block depends on the sizes."""
    own = (*node.inames, *([] if node.sweep is None else [node.sweep]))
    together = next((x for x in own if isinstance(knl.tags.get(x), LocalTag)), None)
    if together is None:
        return
    for x in dict.fromkeys((together, *own, *knl.statement_by_id[node.init].inames)):
        if isinstance(knl.tags.get(x), LocalTag) and not iname_range(knl, x)[1]:
            raise PreconditionError(
                f"Threads cannot share the reduction of '{node.final}' over '{together}': '{x}' has no constant range, "
                "so that the number of threads depends on the sizes.", subject=x,
                hint=f"split_iname(knl, '{x}', 128) and tag the inner iname, or fix_parameters")


def _require_one_cell(knl: LoopKernel, node: ReductionNode, lane: str) -> None:
    """:raises PreconditionError: the accumulator was expanded."""
    cell = knl.statement_by_id[node.init]
    if inames := [x for x in cell.inames if any(x in variables(e) for e in cell.subscripts)]:
        raise PreconditionError(
            f"The accumulator '{node.accumulator}' of the reduction of '{node.final}' was expanded over "
            f"{', '.join(inames)}, so threads cannot share the reduction: '{lane}' has the tag "
            f"'{knl.tags[lane]}'.", subject=node.accumulator,
            hint=f"contract(knl, '{node.accumulator}', {inames}): each thread has a separate accumulator anyway")


def _over_threads(knl: LoopKernel, node: ReductionNode, lanes: tuple[str, ...], warp: int) -> LoopKernel:
    init, final = knl.statement_by_id[node.init], knl.statement_by_id[node.final]
    _require_shared_loops(knl, node, lanes)
    everywhere = init.domain.onto((*init.domain.inames, *lanes))
    for x in lanes:
        low, extent = iname_range(knl, x)
        everywhere = everywhere.where(*bounded_by(x, low, add(low, extent)))
    length = prod(iname_range(knl, x)[1] for x in lanes)
    threads = OverThreads(knl, node, lanes, length, init.domain, everywhere, warp)
    written = combined(threads)
    around: dict[Tree, Tree] = {Leaf(init.id): nest(lanes, Leaf(init.id)),
                                Leaf(final.id): seq(*written.trees(init.inames), Leaf(final.id))}
    new = {init.id: [replace(init, domain=threads.everywhere)],
           final.id: [*written.statements, written.with_result(final, node.accumulator)]}
    return written_out(threads, written, new, rewrite(knl.tree, lambda t: around.get(t, t)))


def _require_shared_loops(knl: LoopKernel, node: ReductionNode, lanes: Sequence[str]) -> None:
    """:raises PreconditionError: parts of *node* are in different loops, so that no thread runs all of them."""
    around = {part: sorted({*knl.statement_by_id[part].inames} - {*node.inames})
              for part in (node.final, node.init, node.update)}
    for part, inames in around.items():
        if inames != around[node.final]:
            one, other = (", ".join(x) or "none" for x in (inames, around[node.final]))
            raise PreconditionError(
                f"Threads cannot share the reduction of '{node.final}', although '{lanes[0]}' has the tag "
                f"'{knl.tags[lanes[0]]}': the inames around '{part}' are {one}, and around '{node.final}' {other}.",
                subject=part, hint=f"change the inames of its parts together, by within='{' or '.join(around)}'")


# Scans

def _scan_written_out(knl: LoopKernel, node: ReductionNode, warp: int) -> LoopKernel:
    """*knl* with the scan *node* computed by the threads of its sweep; sequentially, if the sweep has none any more.

    :raises PreconditionError: steps after ``realize_scan`` made something else of it.
    """
    assert node.sweep is not None
    if node.sweep not in knl.statement_by_id[node.init].inames:
        raise PreconditionError(f"The scan of '{node.final}' runs along '{node.sweep}', which is no longer an iname of "
                                "it.", subject=node.sweep, hint="split and rename inames before realize_scan")
    scan = scan_along(knl, node, node.sweep)
    if not isinstance(knl.tags.get(node.sweep), LocalTag):
        return in_order(knl, scan)
    return _scan_over_threads(knl, scan, warp)


def _scan_over_threads(knl: LoopKernel, scan: Scan, warp: int) -> LoopKernel:
    node = scan.node
    init, update, final = (knl.statement_by_id[s] for s in (node.init, node.update, node.final))
    # an operand stays in the thread of its own number, as far as one more shuffle brings it on from there
    offset = 0 if scan.shift == -1 else scan.shift
    moved, combined = moved_operands(knl, scan, offset)
    tree = _with_threads_innermost(knl, init.id)
    rows = init.domain.onto(scan.rows)
    # an operand may belong to a thread that has no result
    owners = init.domain if offset is None else init.domain.union(combined.domain)
    low, high = constant_range(knl, owners, scan.sweep)
    assert low is not None
    assert high is not None
    everywhere = rows.onto(init.inames).where(*bounded_by(scan.sweep, low, high + 1))
    taking_part = {init.id: replace(init, domain=everywhere), update.id: combined}
    base = with_dependences(
        # each operand now flows to the thread that combines it
        knl, lambda found, _: between_images((d for d in found if d.array != node.accumulator),
                                             {update.id: [Image(update.id, moved)]}),
        tree=tree if offset is None else rewrite_over(
            tree, scan.iname, lambda loop: Leaf(update.id) if update.id in leaves(loop) else loop),
        statements=tuple(taking_part.get(s.id, s) for s in knl.statements))
    threads = OverThreads(base, node, (scan.sweep,), high - low + 1, rows, everywhere, warp)
    written = _scanned(threads, init.expression, exclusive=scan.shift == -1)
    new = {update.id: [combined, *written.statements], final.id: [written.with_result(final, node.accumulator)]}
    trees = written.trees(init.inames)
    tree = rewrite(base.tree, lambda t: seq(t, *trees) if t == Leaf(update.id) else t) if offset is not None else \
        rewrite_over(base.tree, scan.iname, lambda loop: seq(loop, *trees) if update.id in leaves(loop) else loop)
    return _operand_in_register(written_out(threads, written, new, tree), combined, scan.sweep)


def _with_threads_innermost(knl: LoopKernel, statement: str) -> Tree:
    """The order of *knl* with the loops over threads inside all others around *statement*, in their order.

    Each iteration of the others has a separate scan, which its threads finish before the next one.
    """
    def is_other(tree: Tree) -> bool:
        return isinstance(tree, Loop) and not isinstance(knl.tags.get(tree.iname), LocalTag) \
            and statement in leaves(tree)

    def inside(loop: Tree) -> Tree:
        if not isinstance(loop, Loop) or is_other(loop) or not any(map(is_other, parts_of(loop.body))):
            return loop
        return seq(*(Loop(part.iname, inside(Loop(loop.iname, part.body))) if isinstance(part, Loop) and is_other(part)
                     else Loop(loop.iname, part) for part in parts_of(loop.body)))
    return rewrite(knl.tree, inside)


def _operand_in_register(knl: LoopKernel, combined: Statement, sweep: str) -> LoopKernel:
    """*knl* with an operand that only its own thread reads in a private scalar, instead of an array of all operands."""
    for name in dict.fromkeys(a.array for a in accesses_of(knl, combined) if not a.is_write):
        t = knl.temporaries.get(name)
        if t is not None and not t.fixed and t.address_space is None:
            # an array stays if a thread reads elements of others, or several
            with suppress(PreconditionError, UndecidedError, IllegalTransformError):
                knl = contracted(knl, name, (sweep,), "")
    return knl


def _scanned(threads: OverThreads, neutral: Expression, *, exclusive: bool) -> Written:
    """The scan in each warp, and from there over all warps; *exclusive*: without a thread's own operand."""
    node, lane, length, size = threads.node, threads.number, threads.length, threads.warp
    fresh, why = threads.kernel.fresh_name, no_shuffles(threads)
    together = length if why else min(length, size)
    own = fresh(f"{node.accumulator}_{'shared' if why else 'warp'}")
    # a thread's value at first, and after each step
    names = [own, *(fresh(f"{own}_{k + 1}") for k in range((together - 1).bit_length() + exclusive))]
    parts = [(threads.store(own), None), *_steps(threads, names, neutral, together, why)]
    among = "" if length <= size else f" of {size}"
    note = f"scanned in shared memory: {why}" if why else f"scanned by shuffles in warps{among}"
    space = AddressSpace.SHARED if why else AddressSpace.WARP
    temporaries = [threads.array(x, length, space, note if x == own and length > 1 else "") for x in names]
    # unlike a warp register, it may be needed in a later launch
    result = threads.scalar(fresh(f"{node.accumulator}_all"))
    value: Expression = threads.element(names[-1], lane)
    tags: dict[str, InameTag] = {}
    if together < length:
        before = threads.scalar(fresh(f"{node.accumulator}_before"))
        shared = threads.array(fresh(f"{node.accumulator}_shared"), -(-length // size) - 1, AddressSpace.SHARED)
        more, tags = threads.over_warps(before.name, shared.name,
                                        threads.element(names[-2], lane) if exclusive else value, neutral)
        parts += more
        temporaries += [shared, before]
        value = threads.kernel.operation(node.operation).apply(p.Variable(before.name), value)
    parts.append((threads.statement("result", p.Variable(result.name), value, threads.everywhere), None))
    return Written(parts, [*temporaries, result], p.Variable(result.name), tags)


def _steps(threads: OverThreads, names: Sequence[str], neutral: Expression, together: int, why: str) -> Iterator[Part]:
    """``next[t] = held[t - s] op held[t]`` for s = 1, 2, 4, ...; at last, in an exclusive one, ``held[t - 1]``.

    :arg names: the arrays; an exclusive scan has one more.
    """
    lane, rounds = threads.number, (together - 1).bit_length()
    inside = lane if together == threads.length else remainder(lane, threads.warp)
    for k, (held, new) in enumerate(pairwise(names)):
        shift = k == rounds             # the last array of an exclusive scan
        offset, target = 1 if shift else 1 << k, threads.element(new, lane)
        value: Expression = threads.element(held, add(lane, -offset))
        combine = None if shift else threads.node.operation
        if combine is not None and not (operation := threads.kernel.operation(combine)).reorderable:
            value, combine = operation.apply(value, target), None      # the earlier operand first
        yield threads.statement("none" if shift else f"keep{k}", target,
                                neutral if shift else threads.element(held, lane), threads.everywhere), None
        yield threads.statement("shift" if shift else f"step{k}", target, value,
                                threads.everywhere.where((">=", add(inside, -offset))), combine
                                ), None if why else Shuffle(-offset, together)
