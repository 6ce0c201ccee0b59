"""realize_scan: a reduction whose upper bound moves with an iname, computed as a scan along that iname."""
from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pymbolic.primitives as p

from loopkit.analysis.accesses import analysis_domain
from loopkit.analysis.constructors import Image, between_images, rewritten, with_dependences
from loopkit.analysis.dependences import flow_of_values
from loopkit.analysis.legality import iname_extent, iname_range, require_legal, violations
from loopkit.analysis.order import loops_of
from loopkit.analysis.scans import Scan, operands, require_alone, scan_along
from loopkit.errors import IllegalTransformError, PreconditionError, UndecidedError
from loopkit.kernel.dependence import Dependence
from loopkit.kernel.kernel import LoopKernel, unknown
from loopkit.kernel.statement import ReductionNode
from loopkit.kernel.tags import AutoLocalTag, GroupTag, LocalTag
from loopkit.kernel.tree import Leaf, Loop, Seq, Tree, leaves, nest, rewrite, seq
from loopkit.poly.affine import add, subtract
from loopkit.poly.sets import InstanceSet, Map
from loopkit.transform.expansion import contracted
from loopkit.transform.reindex import substituted
from loopkit.transform.step import matching_statements, transform


@transform
def realize_scan(kernel: LoopKernel, scan_iname: str, sweep_iname: str | None = None, *,
                 within: str | Collection[str] | None = None, assume: str | None = None, unsafe: bool = False
                 ) -> LoopKernel:
    """Compute the reductions over *scan_iname* as scans (prefix sums): each result from the previous one.

    Such a reduction has a fixed lower bound, and its upper bound moves with an iname, the sweep. The step proves that
    each iteration of the sweep adds at most one operand, and that an operand has the same value at every read. The tag
    of the sweep at lowering selects the algorithm:

    - Without a tag, or unrolled: sequential. The accumulator carries the value from one iteration to the next. The
      order of the operands stays the same, so no bit of a result changes.
    - ``l.0`` (``l.1``, ``l.2``): the threads of a block compute the scan together, by warp shuffles. The operation must
      be reorderable; all operations of the language are.

    :arg scan_iname: the iname of the reductions.
    :arg sweep_iname: the iname along which their upper bounds move; default: the only such iname.
    :arg within: ids (or globs) of the statements with the reductions; default: all.
    :raises UnknownNameError: *scan_iname* is no reduction iname, or a statement does not have *sweep_iname*.
    :raises PreconditionError: a reduction is no scan, with the smallest sizes and instance that show it; the sweep has
        a tag that no scan can have, or the operation cannot be reordered.
    :raises ScheduleError: a loop over *scan_iname* holds other statements.
    :raises UndecidedError: bounds or operands are read from memory, so the step cannot analyse them.
    :raises IllegalTransformError: the order would break a dependence, with its witness.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<=i}", "y[i] = sum(j, x[j])")
    >>> print(lk.realize_scan(knl, "j").statements_text)
    <> acc_j = 0  {id=insn.j.init}
    for i
      acc_j = acc_j + x[i]  {id=insn.j.update}
      y[i] = acc_j  {id=insn}
    end
    """
    chosen = matching_statements(kernel, within)
    found = [node for node in kernel.reductions.values() if scan_iname in node.inames]
    if not found:
        raise unknown("reduction iname", str(scan_iname), [x for r in kernel.reductions.values() for x in r.inames])
    nodes = [node for node in found if chosen is None or node.final in chosen or node.update in chosen]
    if not nodes:
        raise PreconditionError(f"No statement that within= names has a reduction over '{scan_iname}'.",
                                subject=scan_iname)
    result = kernel
    for node in nodes:
        result = _realized(result, node, _sweep(result, node, sweep_iname))
    return require_legal(result, f"realize_scan({scan_iname})", assume=assume, unsafe=unsafe)


def _sweep(kernel: LoopKernel, node: ReductionNode, named: str | None) -> str:
    """The iname with which the bounds of *node* move."""
    init, update = kernel.statement_by_id[node.init], kernel.statement_by_id[node.update]
    if named is not None:
        return named
    terms, sums = analysis_domain(kernel, update), analysis_domain(kernel, init)
    moving = []
    for x in init.inames:
        others = terms.onto([y for y in terms.inames if y != x]).onto(terms.inames)
        if not others.intersect(sums.onto(terms.inames)).is_subset(terms):
            moving.append(x)
    if not moving:
        raise PreconditionError(f"The reduction of '{node.final}' is no scan: its bounds move with no iname.",
                                subject=node.name, hint="its upper bound moves in a scan: sum(j, x[j]) over 0<=j<=i")
    if len(moving) > 1:
        raise PreconditionError(f"The bounds of the reduction of '{node.final}' move with several inames "
                                f"({', '.join(moving)}).", subject=node.name, hint=f"sweep_iname='{moving[-1]}'")
    return moving[0]


def _realized(kernel: LoopKernel, node: ReductionNode, sweep: str) -> LoopKernel:
    scan = scan_along(kernel, node, sweep)
    require_alone(kernel, scan)
    match kernel.tags.get(sweep):
        case LocalTag():
            if not kernel.operation(node.operation).in_any_order:
                raise PreconditionError(
                    f"Threads cannot compute the scan of '{node.final}' together: '{node.operation}' combines its "
                    "operands in their order.", subject=node.operation,
                    hint="ReductionOperation(..., reorderable=True), if it may be reordered, or untag_inames")
            return rewritten(kernel, reductions={**kernel.reductions, node.name: replace(node, sweep=sweep)})
        case GroupTag() | AutoLocalTag() as tag:
            raise PreconditionError(
                f"The scan of '{node.final}' cannot run along '{sweep}', which has the tag '{tag}': the results of a "
                "block depend on all before it.", subject=sweep,
                hint=f"make_two_level_scan(knl, '{node.final}', '{scan.iname}', '{sweep}', 1024) before '{sweep}' is "
                     "tagged" if isinstance(tag, GroupTag) else "tag it l.0")
        case _:
            return in_order(kernel, scan)


# {{{ in the order of the sweep

def in_order(kernel: LoopKernel, scan: Scan) -> LoopKernel:
    """*scan* in a loop: the accumulator carries the value from one iteration of the sweep to the next.

    An operand that counts from the next iteration on is combined behind the statement if dependences allow it, which
    shortens the life of values.
    """
    if scan.shift == -1:
        behind = _combining(kernel, scan, 0, behind=True)
        if next(violations(behind), None) is None:
            return behind
    return _combining(kernel, scan, scan.shift, behind=False)


def _combining(kernel: LoopKernel, scan: Scan, offset: int, *, behind: bool) -> LoopKernel:
    """*scan* with the operand at ``sweep + offset`` combined in each iteration, before its statement or *behind* it."""
    node, sweep = scan.node, scan.sweep
    init, update = kernel.statement_by_id[node.init], kernel.statement_by_id[node.update]
    moved = operands(kernel, scan, offset)
    inside = _inside(kernel, scan)
    cell = _cell(kernel, node, inside)
    combined = substituted(replace(update, domain=update.domain.apply(moved, init.inames), reduction=None),
                           {scan.iname: add(p.Variable(sweep), offset)})
    # an instance without terms keeps the init, which has no effect
    rows = init.domain.onto(scan.rows) if scan.rows else InstanceSet.universe(())
    start = replace(init, domain=rows, reduction=None, depends_on=frozenset(), assignee=cell)
    new = {node.init: start, node.update: replace(combined, assignee=cell),
           node.final: substituted(kernel.statement_by_id[node.final], {node.accumulator: cell})}
    tree = _tree(kernel, scan, behind)
    result = with_dependences(
        kernel, partial(_dependences, node, moved), tree=tree,
        statements=tuple(new.get(s, kernel.statement_by_id[s]) for s in leaves(tree)),
        temporaries={**kernel.temporaries, node.accumulator: replace(
            kernel.temporaries[node.accumulator], shape=tuple(iname_extent(kernel, x) for x in inside))},
        reductions={name: r for name, r in kernel.reductions.items() if r is not node},
        tags={x: t for x, t in kernel.tags.items() if x != scan.iname or _elsewhere(kernel, scan)})
    for x in inside:
        if isinstance(kernel.tags.get(x), LocalTag):
            # the cell becomes private to a thread, if storage allocation allows it
            with suppress(PreconditionError, UndecidedError, IllegalTransformError):
                result = contracted(result, node.accumulator, (x,), "")
    return result


def _inside(kernel: LoopKernel, scan: Scan) -> tuple[str, ...]:
    """The loops inside the sweep and around the reduction: each of their iterations has a separate scan."""
    loops = loops_of(kernel.paths[scan.node.init])
    return loops[loops.index(scan.sweep) + 1:]


def _cell(kernel: LoopKernel, node: ReductionNode, inside: Sequence[str]) -> p.Variable | p.Subscript:
    accumulator = p.Variable(node.accumulator)
    if not inside:
        return accumulator
    return p.Subscript(accumulator, tuple(subtract(p.Variable(x), iname_range(kernel, x)[0]) for x in inside))


def _elsewhere(kernel: LoopKernel, scan: Scan) -> bool:
    """Does another statement have the iname of the reduction?"""
    return any(scan.iname in s.inames for s in kernel.statements if s.id != scan.node.update)


def _tree(kernel: LoopKernel, scan: Scan, behind: bool) -> Tree:
    """The order with the sweep behind the init, and the update without its loop."""
    node = scan.node
    inside = _inside(kernel, scan)

    def one(tree: Tree) -> Tree:
        match tree:
            case Loop(iname, body) if iname == scan.iname and node.update in leaves(body):
                return Seq(()) if behind else body
            case Leaf(node.init):
                return Seq(())
            case Leaf(node.final) if behind:
                return seq(tree, Leaf(node.update))
            case Loop(iname) if iname == scan.sweep and node.final in leaves(tree):
                return seq(nest(inside, Leaf(node.init)), tree)
            case _:
                return tree
    return rewrite(kernel.tree, one)


def _dependences(node: ReductionNode, moved: Map, found: Sequence[Dependence], after: LoopKernel
                 ) -> Iterator[Dependence]:
    """The dependences of each operand at its new place, and the flow of the accumulator."""
    others = (d for d in found if d.array != node.accumulator)
    yield from between_images(others, {node.update: [Image(node.update, moved)], node.init: []})
    yield from flow_of_values(after, node.accumulator)

# }}}
